//! Answers as HTTP responses.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use super::read::List;
use super::{Call, Outcome, Produced};
use crate::discovery::Document;
use crate::rest::media::{Encoding, Shape};
use crate::status::Status;
use crate::store::Object;
pub(crate) use crate::table::partial;

/// A JSON response.
pub(crate) fn json(code: u16, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}

/// A JSON response from a value.
pub(crate) fn value(code: u16, value: &Value) -> Response<Bytes> {
    json(code, serde_json::to_vec(value).unwrap_or_default().into())
}

/// A failure (or the success of a deletion).
pub(crate) fn status(status: &Status) -> Response<Bytes> {
    let mut response = value(status.code, &status.to_json());
    if let Some(seconds) = status.details.as_ref().and_then(|d| d.retry_after) {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A document about the API.
pub(crate) fn document(document: Document) -> Response<Bytes> {
    let mut response = json(200, document.body);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(document.content_type),
    );
    if let Some(tag) = document
        .etag
        .and_then(|tag| HeaderValue::from_str(&tag).ok())
    {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// What a Go HTTP server says to unknown paths.
pub(crate) fn page_not_found() -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(b"404 page not found\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

/// `Warning` headers (RFC 7234 §5.5, code 299).
pub(crate) fn add_warnings(response: &mut Response<Bytes>, warnings: &[String]) {
    for (place, text) in warnings.iter().enumerate() {
        // Each is told once.
        if warnings.iter().take(place).any(|earlier| earlier == text) {
            continue;
        }
        let quoted: String = text
            .chars()
            .flat_map(|c| match c {
                '"' | '\\' => vec!['\\', c],
                c if c.is_control() => vec![' '],
                c => vec![c],
            })
            .collect();
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

fn encoded(call: &Call, code: u16, text: Bytes) -> Result<Response<Bytes>, Status> {
    if call.accepted.encoding == Encoding::Json {
        return Ok(json(code, text));
    }
    let value: Value =
        serde_json::from_slice(&text).map_err(|e| Status::internal(e.to_string()))?;
    let yaml = serde_saphyr::to_string(&value).map_err(|e| Status::internal(e.to_string()))?;
    let mut response = json(code, yaml.into_bytes().into());
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/yaml"),
    );
    Ok(response)
}

fn shaped(call: &Call, object: &Object) -> Bytes {
    let make = |v: &Value| Bytes::from(serde_json::to_vec(v).unwrap_or_default());
    match call.accepted.shape {
        Shape::Plain => object.json(),
        Shape::Partial { .. } => make(&partial(object.value())),
        Shape::Table => make(&super::rules::table(
            &call.resource,
            &[object.value()],
            &json!({"resourceVersion": object.meta("resourceVersion")}),
            call.query.text("includeObject"),
            true,
            call.now,
        )),
    }
}

/// The answer to a get or a write.
pub(crate) fn outcome(call: &Call, outcome: &Outcome) -> Result<Response<Bytes>, Status> {
    Ok(match &outcome.body {
        Produced::Object(object) => encoded(call, outcome.code, shaped(call, object))?,
        Produced::Value(body) => encoded(
            call,
            outcome.code,
            serde_json::to_vec(body).unwrap_or_default().into(),
        )?,
        Produced::Status(body) => status(body),
    })
}

/// The answer to a list or deletecollection.
pub(crate) fn list(call: &Call, list: &List) -> Result<Response<Bytes>, Status> {
    let resource = &call.resource;
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".into(), list.revision.to_string().into());
    if let Some(token) = &list.continue_token {
        metadata.insert("continue".into(), token.as_str().into());
    } else if resource.is_custom() && call.accepted.shape == Shape::Plain {
        metadata.insert("continue".into(), "".into());
    }
    if let Some(count) = list.remaining {
        metadata.insert("remainingItemCount".into(), count.into());
    }
    let metadata = Value::Object(metadata);
    match call.accepted.shape {
        Shape::Plain => {}
        Shape::Table => {
            let values: Vec<&Value> = list.items.iter().map(|o| o.value()).collect();
            let table = super::rules::table(
                resource,
                &values,
                &metadata,
                call.query.text("includeObject"),
                true,
                call.now,
            );
            return encoded(
                call,
                200,
                serde_json::to_vec(&table).unwrap_or_default().into(),
            );
        }
        Shape::Partial { list: false } => {
            return Err(Status::new(
                406,
                "NotAcceptable",
                format!(
                    "you requested PartialObjectMetadata, but the requested object is a list (*{}.{}List)",
                    if resource.is_custom() {
                        "unstructured"
                    } else {
                        "v1"
                    },
                    if resource.is_custom() {
                        "Unstructured"
                    } else {
                        &resource.kind
                    },
                ),
            ));
        }
        Shape::Partial { list: true } => {
            let items: Vec<Value> = list.items.iter().map(|o| partial(o.value())).collect();
            let body = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "items": items,
            });
            return encoded(
                call,
                200,
                serde_json::to_vec(&body).unwrap_or_default().into(),
            );
        }
    }
    // Each object is encoded once in its life: a list only joins the texts.
    let custom = resource.is_custom();
    let size: usize = list.items.iter().map(|o| o.size() + 1).sum();
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        resource.list_kind,
        resource.api_version()
    );
    let mut out = BytesMut::with_capacity(size + head.len() + 2);
    out.put_slice(head.as_bytes());
    for (i, item) in list.items.iter().enumerate() {
        if i > 0 {
            out.put_u8(b',');
        }
        if custom {
            out.put_slice(&item.json());
        } else {
            item.write_item(|piece| out.put_slice(piece));
        }
    }
    out.put_slice(b"]}");
    encoded(call, 200, out.freeze())
}
