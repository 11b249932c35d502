//! Who owns which fields, after webhooks: one that makes that unreadable has its change
//! of it undone.

use serde_json::Value;

/// Puts `before` back as `managedFields` of an object, if those it has now cannot be read.
/// Gives what to warn of.
pub(super) fn restored(object: &mut Value, before: Option<Value>) -> Option<String> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let why = unreadable(metadata.get("managedFields")?)?;
    match before {
        Some(before) => metadata.insert("managedFields".into(), before),
        None => metadata.remove("managedFields"),
    };
    Some(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: {why}"
    ))
}

fn unreadable(entries: &Value) -> Option<String> {
    let entries = entries.as_array().into_iter().flatten();
    entries.enumerate().find_map(|(place, entry)| {
        let text = |member: &str| entry[member].as_str().unwrap_or_default();
        if !matches!(text("operation"), "Apply" | "Update") {
            return Some("operation must be `Apply` or `Update`".to_owned());
        }
        if text("apiVersion").is_empty() {
            return Some("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType") {
            "FieldsV1" => None,
            "" => Some(format!(
                "missing fieldsType in managed fields entry {place}"
            )),
            other => Some(format!(
                "invalid fieldsType {other:?} in managed fields entry {place}"
            )),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::restored;

    #[test]
    fn what_cannot_be_read_is_put_back() {
        let good = json!([{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}]);
        let mut object = json!({"metadata": {"managedFields": good}});
        assert_eq!(restored(&mut object, None), None);
        object["metadata"]["managedFields"][0]["fieldsType"] = "FieldsV2".into();
        let told = restored(&mut object, Some(good.clone())).unwrap_or_default();
        let why =
            "please fix your requests: invalid fieldsType \"FieldsV2\" in managed fields entry 0";
        assert!(told.ends_with(why), "{told}");
        assert_eq!(object["metadata"]["managedFields"], good);
    }
}
