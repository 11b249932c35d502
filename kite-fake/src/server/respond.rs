//! Answers as HTTP responses.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use super::read::List;
use super::{Call, Outcome, Produced};
use crate::discovery::Document;
use crate::go_json;
use crate::protobuf::{self, Unencodable};
use crate::registry::Resource;
use crate::rest::media::{Encoding, Shape};
use crate::status::Status;
use crate::store::{Object, Stored};
pub(crate) use crate::table::partial;
use crate::table::{self, IncludeObject};

/// A list of so many objects takes long enough to write that others would notice.
const LONG: usize = 100;

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
    json(code, go_json::document(value).into())
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

/// A document about the API; a client that has it already is told so.
pub(crate) fn document(document: Document, known: &str) -> Response<Bytes> {
    if let Some(place) = document.moved {
        return moved(&place);
    }
    let mut response = json(200, document.body);
    if document
        .etag
        .as_deref()
        .is_some_and(|tag| matches(known, tag))
    {
        response = json(304, Bytes::new());
    }
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
        headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    }
    if !document.cache.is_empty() {
        let cache = HeaderValue::from_static(document.cache);
        headers.insert(header::CACHE_CONTROL, cache);
    }
    if response.status() == StatusCode::NOT_MODIFIED {
        response.headers_mut().remove(header::CONTENT_TYPE);
    }
    response
}

/// Whether an `If-None-Match` names a tag.
fn matches(known: &str, tag: &str) -> bool {
    known
        .split(',')
        .map(|known| known.trim().trim_start_matches("W/"))
        .any(|known| known == tag || known == "*")
}

fn moved(place: &str) -> Response<Bytes> {
    let text = format!("<a href=\"{place}\">Moved Permanently</a>.\n\n");
    let mut response = json(301, text.into());
    let headers = response.headers_mut();
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, html);
    if let Ok(place) = HeaderValue::from_str(place) {
        headers.insert(header::LOCATION, place);
    }
    response
}

/// A code and nothing else.
pub(crate) fn empty(code: u16) -> Response<Bytes> {
    let mut response = json(code, Bytes::new());
    response.headers_mut().remove(header::CONTENT_TYPE);
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
    in_encoding(json(code, text), call.accepted.encoding)
}

/// A JSON response in another encoding.
///
/// # Errors
/// 406 if it has no form there.
pub(crate) fn in_encoding(
    response: Response<Bytes>,
    encoding: Encoding,
) -> Result<Response<Bytes>, Status> {
    match encoding {
        Encoding::Json => Ok(response),
        Encoding::Yaml => yaml(&response).map_err(Status::internal),
        Encoding::Protobuf => {
            let value: Value = serde_json::from_slice(response.body())
                .map_err(|error| Status::internal(error.to_string()))?;
            let body = protobuf::encode(&value).map_err(|why| not_encoded(&why))?;
            Ok(in_protobuf(response, body))
        }
    }
}

/// The response with a body in protobuf.
fn in_protobuf(mut response: Response<Bytes>, body: Bytes) -> Response<Bytes> {
    *response.body_mut() = body;
    let media = HeaderValue::from_static(protobuf::MEDIA_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

/// 406 for what has no form in protobuf.
pub(crate) fn not_encoded(why: &Unencodable) -> Status {
    not_convertible(why.to_string())
}

/// A JSON response in YAML.
///
/// # Errors
/// The body is no JSON.
pub(crate) fn yaml(response: &Response<Bytes>) -> Result<Response<Bytes>, String> {
    let value: Value = serde_json::from_slice(response.body()).map_err(|e| e.to_string())?;
    let text = crate::yaml::text(&value).map_err(|e| e.to_string())?;
    let mut out = response.clone();
    *out.body_mut() = text.into_bytes().into();
    out.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/yaml"),
    );
    Ok(out)
}

/// Whether a response is JSON, maybe of a kind that its media type names.
pub(crate) fn is_json(response: &Response<Bytes>) -> bool {
    let media = response.headers().get(header::CONTENT_TYPE);
    media.is_some_and(|media| {
        let rest = media.as_bytes().strip_prefix(b"application/json");
        matches!(rest, Some([] | [b';', ..]))
    })
}

fn shaped(call: &Call, object: &Object) -> Result<Bytes, Status> {
    let make = |v: &Value| Bytes::from(go_json::document(v));
    let version = call.accepted.meta_version();
    Ok(match call.accepted.shape {
        Shape::Plain => object.document(),
        Shape::Partial { list: false } => make(&partial(object.value(), version)),
        Shape::Partial { list: true } => {
            return Err(not_convertible(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                go_type(&call.resource, "")
            )));
        }
        Shape::Table => {
            let metadata = json!({"resourceVersion": object.meta("resourceVersion")});
            make(&as_table(call, &[object.value()], &metadata)?)
        }
    })
}

fn as_table(call: &Call, objects: &[&Value], metadata: &Value) -> Result<Value, Status> {
    let options = table::Options {
        include: IncludeObject::asked(call.accepted.shape, &call.query)?,
        definitions: true,
        version: call.accepted.meta_version(),
    };
    Ok(table::table(
        &call.resource,
        objects,
        metadata,
        options,
        call.now,
    ))
}

/// 406 of a form that the answer cannot take.
fn not_convertible(message: String) -> Status {
    Status::new(406, "NotAcceptable", message)
}

/// The type that a message calls an object or list by: the internal one of Go,
/// whose package has the group's short name.
fn go_type(resource: &Resource, suffix: &str) -> String {
    if resource.is_custom() {
        return format!("*unstructured.Unstructured{suffix}");
    }
    let package = match resource.group.as_str() {
        "" | "events.k8s.io" => "core",
        "rbac.authorization.k8s.io" => "rbac",
        group => group.split('.').next().unwrap_or_default(),
    };
    format!("*{package}.{}{suffix}", resource.kind)
}

/// Writes an object by its metadata alone, taken from its text.
pub(crate) fn put_partial(out: &mut BytesMut, object: &Object, version: &str) {
    out.put_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"");
    out.put_slice(version.as_bytes());
    out.put_slice(b"\",\"metadata\":");
    object.write_metadata(|piece| out.put_slice(piece));
    out.put_u8(b'}');
}

/// The answer to a get or a write.
pub(crate) fn outcome(call: &Call, outcome: &Outcome) -> Result<Response<Bytes>, Status> {
    Ok(match &outcome.body {
        Produced::Object(object)
            if call.accepted.encoding == Encoding::Protobuf
                && call.accepted.shape == Shape::Plain =>
        {
            let (version, kind) = (call.resource.api_version(), &call.resource.kind);
            let message = object.message(&version, kind);
            let message = message.map_err(|why| not_encoded(&why))?;
            let body = protobuf::wrapped(&version, kind, &message);
            in_protobuf(json(outcome.code, Bytes::new()), body)
        }
        Produced::Object(object) => encoded(call, outcome.code, shaped(call, object)?)?,
        Produced::Value(body) => encoded(call, outcome.code, go_json::document(body).into())?,
        Produced::Status(body) => in_encoding(status(body), call.accepted.encoding)?,
    })
}

/// A list that is still to be written: a long one is, when the server has been
/// let go of.
#[derive(Debug)]
pub(crate) struct Unwritten {
    version: String,
    kind: String,
    item_kind: String,
    metadata: Value,
    items: Vec<Object>,
    custom: bool,
    encoding: Encoding,
}

impl Unwritten {
    /// Writes it as the body of `response`.
    ///
    /// # Errors
    /// 406 if an item has no form in the encoding.
    pub(crate) fn write(self, response: Response<Bytes>) -> Result<Response<Bytes>, Status> {
        if self.encoding != Encoding::Protobuf {
            let (mut response, encoding) = (response, self.encoding);
            *response.body_mut() = self.text();
            return in_encoding(response, encoding);
        }
        let items = self.items.iter();
        let items: Result<Vec<Bytes>, Unencodable> = items
            .map(|item| item.message(&self.version, &self.item_kind))
            .collect();
        let body = items
            .and_then(|items| protobuf::list(&self.version, &self.kind, &self.metadata, &items))
            .map_err(|why| not_encoded(&why))?;
        Ok(in_protobuf(response, body))
    }

    /// Its JSON. Each object was encoded when it was stored: a list only joins the
    /// texts.
    fn text(&self) -> Bytes {
        let (kind, version) = (&self.kind, &self.version);
        // A list of custom objects is a map, too.
        let (head, foot) = if self.custom {
            let metadata = &self.metadata;
            (
                format!("{{\"apiVersion\":\"{version}\",\"items\":["),
                format!("],\"kind\":\"{kind}\",\"metadata\":{metadata}}}\n"),
            )
        } else {
            let metadata = go_json::list_metadata(&self.metadata);
            let head = format!(
                "{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":["
            );
            (head, "]}\n".to_owned())
        };
        let size: usize = self.items.iter().map(|o| o.size() + 1).sum();
        let mut out = BytesMut::with_capacity(size + head.len() + foot.len());
        out.put_slice(head.as_bytes());
        for (i, item) in self.items.iter().enumerate() {
            if i > 0 {
                out.put_u8(b',');
            }
            if self.custom {
                out.put_slice(&item.json());
            } else {
                item.write_item(|piece| out.put_slice(piece));
            }
        }
        out.put_slice(foot.as_bytes());
        out.freeze()
    }
}

fn unwritten(call: &Call, list: &List, metadata: Value) -> Unwritten {
    let resource = &call.resource;
    Unwritten {
        version: resource.api_version(),
        kind: resource.list_kind.clone(),
        item_kind: resource.kind.clone(),
        metadata,
        items: list.items.clone(),
        custom: resource.is_custom(),
        encoding: call.accepted.encoding,
    }
}

/// The list as something to write later, if it is a long one of whole objects.
pub(crate) fn long_list(call: &Call, list: &List) -> Option<Unwritten> {
    let plain = call.accepted.shape == Shape::Plain;
    (plain && list.items.len() >= LONG).then(|| unwritten(call, list, list_metadata(call, list)))
}

fn list_metadata(call: &Call, list: &List) -> Value {
    let mut metadata = Map::new();
    // What is not stored has no state to name.
    if list.revision > 0 {
        metadata.insert("resourceVersion".into(), list.revision.to_string().into());
    }
    if let Some(token) = &list.continue_token {
        metadata.insert("continue".into(), token.as_str().into());
    } else if call.resource.is_custom() && call.accepted.shape == Shape::Plain {
        metadata.insert("continue".into(), "".into());
    }
    if let Some(count) = list.remaining {
        metadata.insert("remainingItemCount".into(), count.into());
    }
    Value::Object(metadata)
}

/// The answer to a list or deletecollection.
pub(crate) fn list(call: &Call, list: &List) -> Result<Response<Bytes>, Status> {
    let resource = &call.resource;
    let metadata = list_metadata(call, list);
    match call.accepted.shape {
        Shape::Plain => {}
        Shape::Table => {
            let fresh: Vec<Object> = list.items.iter().map(Stored::fresh).collect();
            let values: Vec<&Value> = fresh.iter().map(|o| o.value()).collect();
            let table = as_table(call, &values, &metadata)?;
            return encoded(call, 200, go_json::document(&table).into());
        }
        Shape::Partial { list: false } => {
            return Err(not_convertible(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                go_type(resource, "List")
            )));
        }
        Shape::Partial { list: true } => {
            let version = call.accepted.meta_version();
            let mut out = BytesMut::with_capacity(256 + 512 * list.items.len());
            let metadata = go_json::list_metadata(&metadata);
            let head = format!(
                "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":["
            );
            out.put_slice(head.as_bytes());
            for (i, item) in list.items.iter().enumerate() {
                if i > 0 {
                    out.put_u8(b',');
                }
                put_partial(&mut out, item, version);
            }
            out.put_slice(b"]}\n");
            return encoded(call, 200, out.freeze());
        }
    }
    unwritten(call, list, metadata).write(json(200, Bytes::new()))
}
