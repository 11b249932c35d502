//! The answer of a conversion webhook: `ConversionReview`.

use serde_json::{Map, Value};

use crate::hooks::Said;
use crate::server::hooks::body_of;

/// The objects as a webhook has converted them, with the metadata that is not its to
/// change; without what its version of the schema says of them.
///
/// # Errors
/// What went wrong, after the words `conversion webhook for <kind> `.
pub(super) fn converted(
    said: &Said,
    (url, version, uid): (&str, &str, &str),
    originals: &[Value],
    desired: &str,
) -> Result<Vec<Value>, String> {
    let failed = |why: String| format!("failed: {why}");
    let replied = said
        .as_ref()
        .map_err(|why| failed(format!("Post {url:?}: {why}")))?;
    let review = body_of(replied).map_err(failed)?;
    let objects = objects_of(&review, version, uid).map_err(failed)?;
    if objects.len() != originals.len() {
        return Err(format!(
            "returned {} objects, expected {}",
            objects.len(),
            originals.len()
        ));
    }
    let pairs = originals.iter().zip(objects);
    pairs
        .map(|(original, object)| checked(original, object, desired))
        .collect()
}

fn objects_of(review: &Value, version: &str, uid: &str) -> Result<Vec<Value>, String> {
    let response = &review["response"];
    // The version before did not look that closely.
    let strict = version == "v1";
    let (api, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
    if strict && (api, kind) != ("apiextensions.k8s.io/v1", "ConversionReview") {
        let slash = if api.contains('/') { "" } else { "/" };
        return Err(format!(
            "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {slash}{api}, Kind={kind}"
        ));
    }
    if response.is_null() {
        return Err("no response provided".to_owned());
    }
    let got = text(&response["uid"]);
    if strict && got != uid {
        return Err(format!("expected response.uid={uid:?}, got {got:?}"));
    }
    let result = &response["result"];
    let (status, message) = (text(&result["status"]), text(&result["message"]));
    if status != "Success" {
        return Err(if message.is_empty() {
            format!("response.result.status was '{status}', not 'Success'")
        } else {
            message.to_owned()
        });
    }
    let objects = response["convertedObjects"].as_array();
    Ok(objects.cloned().unwrap_or_default())
}

/// A converted object, if it is the same one.
fn checked(original: &Value, mut object: Value, desired: &str) -> Result<Value, String> {
    let invalid = |why: String| format!("returned invalid object: {why}");
    let got = text(&object["apiVersion"]);
    if got != desired {
        return Err(format!(
            "returned invalid object at index 0: invalid groupVersion (expected {desired}, received {got})"
        ));
    }
    let (expected, got) = (text(&original["kind"]), text(&object["kind"]));
    if expected != got {
        return Err(format!(
            "returned invalid object at index 0: invalid kind (expected {expected}, received {got})"
        ));
    }
    for (member, what) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (before, after) = (&original["metadata"][member], &object["metadata"][member]);
        let (before, after) = (text(before), text(after));
        if before != after {
            return Err(invalid(format!(
                "must have the same {what}: {before} != {after}"
            )));
        }
    }
    let metadata = restored(&original["metadata"], object.get("metadata"))
        .map_err(|why| format!("returned invalid metadata: {why}"))?;
    object["metadata"] = metadata.into();
    Ok(object)
}

/// The metadata of an original with the labels and annotations of what it was converted to.
fn restored(original: &Value, converted: Option<&Value>) -> Result<Map<String, Value>, String> {
    let Some(converted) = converted else {
        return Err("missing metadata in converted object".to_owned());
    };
    let mut out = original.as_object().cloned().unwrap_or_default();
    for member in ["labels", "annotations"] {
        match &converted[member] {
            Value::Null => {
                out.remove(member);
            }
            Value::Object(entries) => {
                if let Some((name, _)) = entries.iter().find(|(_, value)| !value.is_string()) {
                    return Err(format!(
                        "metadata.{member}[{name}] must be a string in converted object"
                    ));
                }
                out.insert(member.to_owned(), entries.clone().into());
            }
            _ => return Err(format!("invalid metadata.{member} in converted object")),
        }
    }
    Ok(out)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::converted;
    use crate::hooks::Replied;

    fn of(objects: &Value) -> Result<Vec<Value>, String> {
        let body = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": "u", "result": {"status": "Success"}, "convertedObjects": objects}});
        let said = Ok(Replied {
            code: 200,
            content_type: "application/json".to_owned(),
            body: Bytes::from(body.to_string()),
        });
        let original = json!({"apiVersion": "x.io/v1", "kind": "A",
            "metadata": {"name": "a", "uid": "1", "labels": {"a": "b"}}, "old": 1});
        converted(&said, ("https://a/", "v1", "u"), &[original], "x.io/v2")
    }

    #[test]
    fn metadata_but_for_labels_stays() {
        let object = json!({"apiVersion": "x.io/v2", "kind": "A", "new": 1,
            "metadata": {"name": "a", "uid": "1", "generation": 7, "annotations": {"c": "d"}}});
        let wanted = json!({"apiVersion": "x.io/v2", "kind": "A", "new": 1,
            "metadata": {"name": "a", "uid": "1", "annotations": {"c": "d"}}});
        assert_eq!(of(&json!([object])), Ok(vec![wanted]));
    }

    #[test]
    fn what_is_another_object_is_told() {
        for (objects, why) in [
            (json!([]), "returned 0 objects, expected 1"),
            (
                json!([{"apiVersion": "x.io/v3", "kind": "A"}]),
                "returned invalid object at index 0: invalid groupVersion (expected x.io/v2, received x.io/v3)",
            ),
            (
                json!([{"apiVersion": "x.io/v2", "kind": "B"}]),
                "returned invalid object at index 0: invalid kind (expected A, received B)",
            ),
            (
                json!([{"apiVersion": "x.io/v2", "kind": "A", "metadata": {"name": "b"}}]),
                "returned invalid object: must have the same name: a != b",
            ),
        ] {
            assert_eq!(of(&objects), Err(why.to_owned()));
        }
    }
}
