//! How large an object may be: the limits of the storage behind a real server.

use http::Method;
use serde_json::Value;

use super::Call;
use super::patch::Format;
use crate::go_json;
use crate::status::Status;

/// Largest request that etcd takes, in bytes (`--max-request-bytes`).
const MAX_REQUEST: usize = 1_572_864;

/// Largest message that the server's client sends to etcd, in bytes.
const MAX_MESSAGE: usize = 2_097_152;

/// What a request to etcd holds beside the object, in bytes; about.
const ENVELOPE: usize = 128;

/// Nothing smaller has to be measured, in bytes of text.
const UNSUSPICIOUS: usize = 1_048_576;

/// How much longer a byte gets at most that is escaped: custom objects are stored as
/// JSON, others are not.
const ESCAPED: usize = 6;

/// Checks the size of an object that is about to be stored; `before` is how large
/// the stored one is, `None` where others than the client may have added to it. Where only
/// `managedFields` are too much, they go.
///
/// # Errors
/// 500, in the words of etcd or of its client.
pub(super) fn check(call: &Call, object: &mut Value, before: Option<usize>) -> Result<(), Status> {
    let custom = call.resource.is_custom();
    let longest = call.body.len() * if custom { ESCAPED } else { 1 };
    if before.is_some_and(|before| before + longest < UNSUSPICIOUS) {
        return Ok(());
    }
    let path = call.resource.plural.len() + call.namespace().len() + call.name().len();
    let text = |object: &Value| {
        if custom {
            go_json::text(object).len()
        } else {
            object.to_string().len()
        }
    };
    let measure = |object: &Value| text(object) + path + ENVELOPE;
    let size = measure(object);
    if size <= MAX_REQUEST {
        return Ok(());
    }
    let applies =
        call.method == Method::PATCH && Format::of(call).is_ok_and(|f| f == Format::Apply);
    if !applies && let Some(metadata) = object["metadata"].as_object_mut() {
        let entries = metadata.remove("managedFields");
        if entries.is_some() && measure(object) <= MAX_REQUEST {
            return Ok(());
        }
    }
    Err(Status::internal(if size > MAX_MESSAGE {
        format!(
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({size} vs. {MAX_MESSAGE})"
        )
    } else {
        "etcdserver: request is too large".to_owned()
    }))
}
