//! Formats of numbers in the CRDs: schemas that are derived name Rust's, of which an API
//! server warns that it does not know them.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// Has a definition name formats that Kubernetes knows, for numbers that fit into them.
pub(super) fn use_known(definition: &mut CustomResourceDefinition) {
    for version in &mut definition.spec.versions {
        let schema = version.schema.as_mut();
        if let Some(schema) = schema.and_then(|it| it.open_api_v3_schema.as_mut()) {
            of_schema(schema);
        }
    }
}

fn of_schema(schema: &mut JSONSchemaProps) {
    if let Some(format) = &mut schema.format {
        match format.as_str() {
            "int8" | "uint8" | "int16" | "uint16" => "int32".clone_into(format),
            "uint32" | "uint" | "int" => "int64".clone_into(format),
            _ => {}
        }
    }
    let all = |map: &mut Option<BTreeMap<String, JSONSchemaProps>>| {
        map.iter_mut()
            .flat_map(BTreeMap::values_mut)
            .for_each(of_schema);
    };
    all(&mut schema.properties);
    if let Some(JSONSchemaPropsOrBool::Schema(below)) = &mut schema.additional_properties {
        of_schema(below);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(below)) => of_schema(below),
        Some(JSONSchemaPropsOrArray::Schemas(many)) => many.iter_mut().for_each(of_schema),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    /// Of what Kubernetes 1.36 knows (`apiextensions-apiserver`, `formats.go`), what is
    /// used here.
    const KNOWN: [&str; 3] = ["date-time", "int32", "int64"];

    fn unknown(schema: &Value, place: &str, found: &mut Vec<String>) {
        match schema {
            Value::Object(fields) => {
                // A property may be called that.
                if let Some(Value::String(format)) = fields.get("format")
                    && !KNOWN.contains(&format.as_str())
                {
                    found.push(format!("{place}: {format}"));
                }
                for (name, below) in fields {
                    unknown(below, &format!("{place}.{name}"), found);
                }
            }
            Value::Array(items) => {
                for (at, below) in items.iter().enumerate() {
                    unknown(below, &format!("{place}[{at}]"), found);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn kubernetes_knows_all_formats() {
        let mut found = Vec::new();
        for definition in crate::crd::all() {
            let name = definition.metadata.name.clone().unwrap_or_default();
            let definition = serde_json::to_value(definition).unwrap_or_default();
            assert!(definition["spec"]["versions"][0]["schema"].is_object());
            unknown(&definition["spec"], &name, &mut found);
        }
        assert!(found.is_empty(), "{found:#?}");
    }
}
