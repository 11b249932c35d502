//! What a mutation of a policy makes of an object.

use serde_json::{Value, json};

use super::Write;
use crate::fields;
use crate::patch;
use crate::schema::{Schema, configuration, operations};
use crate::store::Store;

impl Write<'_> {
    /// Whether the conditions of a policy hold.
    pub(super) fn meets(
        &self,
        store: &Store,
        spec: &Value,
        params: &Value,
    ) -> Result<bool, String> {
        self.scope(store, params).meets(spec)
    }

    /// The object as a mutation leaves it.
    pub(super) fn mutated(
        &self,
        store: &Store,
        spec: &Value,
        mutation: &Value,
        params: &Value,
    ) -> Result<Value, String> {
        let object = self.object.unwrap_or(&Value::Null);
        let mut scope = self.scope(store, params);
        scope.compose(spec);
        if mutation["patchType"] == "JSONPatch" {
            let made = scope.make(&mutation["jsonPatch"]["expression"])?;
            return patched(object, &operations(&made)?);
        }
        let made = scope.make(&mutation["applyConfiguration"]["expression"])?;
        applied(&self.resource.schema, object, configuration(&made)?)
    }
}

fn applied(schema: &Schema, object: &Value, mut config: Value) -> Result<Value, String> {
    for member in ["apiVersion", "kind"] {
        config[member] = object[member].clone();
    }
    fields::configured(schema, object, &config)
        .map_err(|why| format!("error applying patch: {why}"))
}

/// Carries out the operations of a patch. One whose test fails changes nothing.
fn patched(object: &Value, operations: &[Value]) -> Result<Value, String> {
    let mut result = object.clone();
    for operation in operations {
        let one = json!([operation]).to_string();
        match patch::json_patch(&result, one.as_bytes()) {
            Ok(next) => result = next,
            Err(_) if operation["op"] == "test" => return Ok(object.clone()),
            Err(_) => {
                let text = |member: &str| operation[member].as_str().unwrap_or_default();
                return Err(format!(
                    "JSON Patch: {} operation does not apply: doc is missing path: {:?}: missing value",
                    text("op"),
                    text("path")
                ));
            }
        }
    }
    Ok(result)
}
