//! The answer: what a webhook's response means, and what is wrong with one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::hooks::{Replied, Said};
use crate::status::{Details, Status};

/// Name of the scheme in which Go's decoder looks for kinds.
const SCHEME: &str = "pkg/util/webhook/client.go:71";

/// An answer that is one.
#[derive(Debug, Default)]
pub(super) struct Review {
    pub(super) allowed: bool,
    pub(super) patch: Vec<u8>,
    pub(super) patch_type: String,
    pub(super) warnings: Vec<String>,
    /// A `Status`, null if there is none.
    pub(super) status: Value,
}

/// The body of a response, if it is a review of that version.
///
/// # Errors
/// Why there is none, as Go's client for REST says it.
pub(super) fn review(said: &Said, url: &str, version: &str) -> Result<Value, String> {
    let replied = said
        .as_ref()
        .map_err(|why| format!("Post {url:?}: {why}"))?;
    let body = body_of(replied)?;
    let (got, kind) = (text(&body["apiVersion"]), text(&body["kind"]));
    if got.is_empty() || kind.is_empty() {
        return Ok(body);
    }
    let wanted = format!("admission.k8s.io/{version}");
    let known = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"].contains(&got);
    if !known || kind != "AdmissionReview" {
        return Err(format!(
            "no kind {kind:?} is registered for version {got:?} in scheme {SCHEME:?}"
        ));
    }
    if got != wanted {
        let other = if version == "v1" { "v1beta1" } else { "v1" };
        return Err(format!(
            "converting ({other}.AdmissionReview) to ({version}.AdmissionReview): unknown conversion"
        ));
    }
    Ok(body)
}

/// The JSON of a response that succeeded.
///
/// # Errors
/// Why there is none.
pub(in crate::server) fn body_of(replied: &Replied) -> Result<Value, String> {
    if !(200..=206).contains(&replied.code) {
        return Err(failed(replied));
    }
    if replied.body.is_empty() {
        return Err(format!(
            "0-length response with status code: {} and content type: {}",
            replied.code, replied.content_type
        ));
    }
    let broken = |why: &str| format!("couldn't get version/kind; json parse error: {why}");
    match serde_json::from_slice::<Value>(&replied.body) {
        Ok(body @ Value::Object(_)) => Ok(body),
        Ok(other) => {
            let what = match other {
                Value::Array(_) => "array",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            Err(broken(&format!(
                "json: cannot unmarshal {what} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
            )))
        }
        Err(error) if error.is_eof() => Err(broken("unexpected end of JSON input")),
        Err(error) => Err(broken(&unreadable(&replied.body, &error))),
    }
}

/// Why text is no JSON.
fn unreadable(body: &[u8], error: &serde_json::Error) -> String {
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    match first {
        Some(byte) if error.line() <= 1 && !b"{[\"tfn-0123456789".contains(byte) => format!(
            "invalid character '{}' looking for beginning of value",
            char::from(*byte)
        ),
        _ => error.to_string(),
    }
}

/// A response with another code than those of success.
fn failed(replied: &Replied) -> String {
    // A Status says it best.
    if let Ok(status) = serde_json::from_slice::<Value>(&replied.body)
        && status["kind"] == "Status"
        && status["status"] == "Failure"
        && !text(&status["message"]).is_empty()
    {
        return text(&status["message"]).to_owned();
    }
    let words = if replied.content_type.starts_with("text/") {
        String::from_utf8_lossy(&replied.body).trim().to_owned()
    } else {
        "unknown".to_owned()
    };
    let fixed = match replied.code {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if words == "unknown" || words.is_empty() => {
            "the server was unable to respond with a content type that the client supports"
        }
        403 | 406 | 415 => return words,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => {
            return format!(
                "an error on the server ({words:?}) has prevented the request from succeeding"
            );
        }
        code => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    fixed.to_owned()
}

/// What a review says, if it answers the question that was asked.
///
/// # Errors
/// What is wrong with it.
pub(super) fn verified(
    review: &Value,
    version: &str,
    uid: &str,
    mutating: bool,
) -> Result<Review, String> {
    let response = &review["response"];
    if response.is_null() {
        return Err("webhook response was absent".to_owned());
    }
    // The version before did not look that closely.
    let strict = version == "v1";
    let got = text(&response["uid"]);
    if strict && got != uid {
        return Err(format!("expected response.uid={uid:?}, got {got:?}"));
    }
    let (api, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
    if strict && (api, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
        let slash = if api.contains('/') { "" } else { "/" };
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {slash}{api}, Kind={kind}"
        ));
    }
    let patch = STANDARD
        .decode(text(&response["patch"]))
        .map_err(|error| format!("illegal base64 data in response.patch: {error}"))?;
    let patch_type = response["patchType"].as_str();
    if strict {
        check_patch(&patch, patch_type, mutating)?;
    }
    let (patch, patch_type) = match (mutating, strict) {
        (false, _) => (Vec::new(), ""),
        (true, true) => (patch, patch_type.unwrap_or_default()),
        (true, false) => (patch, "JSONPatch"),
    };
    let warnings = response["warnings"].as_array().into_iter().flatten();
    Ok(Review {
        allowed: response["allowed"] == true,
        patch,
        patch_type: patch_type.to_owned(),
        warnings: warnings
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        status: response["status"].clone(),
    })
}

fn check_patch(patch: &[u8], patch_type: Option<&str>, mutating: bool) -> Result<(), String> {
    let wrong = match (mutating, patch.is_empty(), patch_type) {
        (true, false, None) => "webhook returned response.patch but not response.patchType",
        (true, true, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, false, Some("")) => "webhook returned invalid response.patchType of \"\"",
        (false, false, _) => "validating webhook may not return response.patch",
        (false, true, Some(_)) => "validating webhook may not return response.patchType",
        _ => return Ok(()),
    };
    Err(wrong.to_owned())
}

/// Whether a patch does anything.
///
/// # Errors
/// It is none.
pub(super) fn has_operations(patch: &[u8]) -> Result<bool, String> {
    let operations = serde_json::from_slice::<Value>(patch).map_err(|error| {
        if error.is_eof() {
            "unexpected end of JSON input".to_owned()
        } else {
            unreadable(patch, &error)
        }
    })?;
    match operations {
        Value::Null => Ok(false),
        Value::Array(operations) => Ok(!operations.is_empty()),
        other => {
            let what = match other {
                Value::Object(_) => "object",
                Value::String(_) => "string",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            Err(format!(
                "json: cannot unmarshal {what} into Go value of type jsonpatch.Patch"
            ))
        }
    }
}

/// A refusal in the words of a webhook.
pub(super) fn refusal(name: &str, status: Value) -> Status {
    let mut told = match status {
        Value::Object(members) => members,
        _ => serde_json::Map::new(),
    };
    let denied = format!("admission webhook {name:?} denied the request");
    let given = |member: &str| told.get(member).map(text).unwrap_or_default();
    let message = match (given("message"), given("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = told.get("code").and_then(Value::as_u64).unwrap_or_default();
    let code = u16::try_from(code).ok().filter(|code| *code >= 400);
    let code = code.unwrap_or(400);
    if matches!(given("status"), "" | "Success") {
        told.insert("status".to_owned(), "Failure".into());
    }
    told.insert("kind".to_owned(), "Status".into());
    told.insert("apiVersion".to_owned(), "v1".into());
    told.entry("metadata").or_insert_with(|| json!({}));
    told.insert("message".to_owned(), message.as_str().into());
    told.insert("code".to_owned(), code.into());
    let mut refused = Status::new(code, "", message);
    let retry = told
        .get("details")
        .map(|details| &details["retryAfterSeconds"]);
    if let Some(seconds) = retry.and_then(Value::as_u64).filter(|seconds| *seconds > 0) {
        refused = refused.with_details(Details {
            retry_after: u32::try_from(seconds).ok(),
            ..Details::default()
        });
    }
    refused.told = Some(Box::new(told.into()));
    refused
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
