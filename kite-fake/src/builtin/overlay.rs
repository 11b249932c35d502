//! What generated schemas leave out: how lists are keyed, which objects are
//! atomic, how strategic merge patches merge, and which members Go's types
//! always write. All of it stands in [`crate::go_types`].

use serde_json::{Map, Value, json};

use crate::go_types::{Field, Kind, Shape, TYPES};

/// Types that hold JSON of any shape.
const OPAQUE: &[&str] = &["FieldsV1", "JSON", "JSONSchemaProps", "RawExtension"];

/// Completes a generated definition in place.
pub(super) fn complete(name: &str, definition: &mut Value) {
    let Value::Object(definition) = definition else {
        return;
    };
    let short = name.rsplit('.').next().unwrap_or(name);
    if OPAQUE.contains(&short) {
        let description = definition.get("description").cloned();
        definition.clear();
        definition.extend(description.map(|text| ("description".to_owned(), text)));
        definition.insert(
            "x-kubernetes-preserve-unknown-fields".to_owned(),
            json!(true),
        );
        definition.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
        return;
    }
    match short {
        "Quantity" => {
            definition.insert("format".to_owned(), json!("quantity"));
        }
        "MicroTime" => {
            definition.insert("format".to_owned(), json!("micro-time"));
        }
        "Time" => {
            definition.insert("format".to_owned(), json!("time"));
        }
        _ => {}
    }
    definition.insert("x-go-type".to_owned(), Value::from(short));
    let Some(message) = message_name(name)
        .and_then(|name| TYPES.find(&name))
        .map(|at| TYPES.message(at))
    else {
        return;
    };
    if let Some(how) = message.map_type {
        definition.insert("x-kubernetes-map-type".to_owned(), json!(how));
    }
    if let Some(Value::Object(members)) = definition.get_mut("properties") {
        members.retain(|name, schema| {
            let field = message.by_name(&TYPES, name);
            if let (Value::Object(schema), Some(field)) = (schema, field) {
                complete_member(message.name, field, schema);
            }
            // Who builds with types of a later release has members that this server
            // does not know.
            field.is_some() || matches!(name.as_str(), "kind" | "apiVersion")
        });
    }
}

/// `apps.v1.Deployment` of `io.k8s.api.apps.v1.Deployment`.
fn message_name(definition: &str) -> Option<String> {
    let mut words = definition.rsplitn(4, '.');
    let (name, version, group) = (words.next()?, words.next()?, words.next()?);
    Some(format!("{group}.{version}.{name}"))
}

fn complete_member(of: &str, field: &Field, schema: &mut Map<String, Value>) {
    if let Some(presence) = presence(of, field) {
        schema.insert("x-presence".to_owned(), json!(presence));
    }
    let mut put = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            schema.insert(format!("x-kubernetes-{name}"), json!(value));
        }
    };
    // What is not said is atomic.
    put("list-type", field.list_type.filter(|how| *how != "atomic"));
    put("map-type", field.map_type);
    put("patch-strategy", field.patch_strategy);
    put("patch-merge-key", field.merge_key);
    if let Some(keys) = field.list_keys {
        let keys: Vec<&str> = keys.split(',').collect();
        schema.insert("x-kubernetes-list-map-keys".to_owned(), json!(keys));
    }
    // The keys of these lists have defaults, which identify elements, too.
    if matches!(
        (of, field.name),
        ("core.v1.ServicePort" | "core.v1.ContainerPort", "protocol")
    ) {
        schema.insert("default".to_owned(), json!("TCP"));
    }
}

/// What Go does with the member's zero value.
fn presence(of: &str, field: &Field) -> Option<&'static str> {
    if (of, field.name) == ("meta.v1.ObjectMeta", "managedFields") {
        // An empty list is a request: to forget all owners.
        return None;
    }
    let is_omitted = field.omits_zero || field.omits_empty && !field.is_struct();
    match (field.shape, field.kind) {
        (Shape::Pointer, _) if field.omits_empty => None,
        _ if is_omitted => Some("omitempty"),
        (Shape::Pointer | Shape::List | Shape::Map, _)
        | (_, Kind::Bytes | Kind::Time | Kind::MicroTime | Kind::Raw) => Some("null"),
        _ => Some("always"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_a_later_release_is_not_known() {
        let mut definition = json!({"type": "object", "properties": {
            "kind": {"type": "string"},
            "spec": {"$ref": "#/$defs/io.k8s.api.core.v1.PodSpec"},
            "ofTomorrow": {"type": "string"},
        }});
        complete("io.k8s.api.core.v1.Pod", &mut definition);
        let names: Vec<_> = definition["properties"]
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .collect();
        assert_eq!(names, ["kind", "spec"]);
        assert_eq!(definition["properties"]["spec"]["x-presence"], "always");
    }
}
