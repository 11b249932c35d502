//! Where the server meets schemas, field ownership, patches, built-in rules and
//! tables: one place, so that handlers read alike for every kind.

use jiff::Timestamp;
use serde_json::Value;

use super::registry::Resource;
use crate::rest::options::{FieldValidation, WriteOptions};
use crate::schema;
use crate::status::Status;

/// What a body became.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    pub(crate) warnings: Vec<String>,
}

/// Reads an object in another version than the one it was stored in, or under
/// another edition of the schema.
pub(crate) fn convert(resource: &Resource, mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.insert("apiVersion".into(), resource.api_version().into());
    }
    if resource.is_custom() {
        schema::prune(&resource.schema, &mut value);
        schema::apply_defaults(&resource.schema, &mut value);
    }
    value
}

/// Prunes and defaults what a client sent.
pub(crate) fn admit_body(
    resource: &Resource,
    mut value: Value,
    options: &WriteOptions,
) -> Result<Decoded, Status> {
    let unknown = schema::prune(&resource.schema, &mut value);
    let mut warnings = Vec::new();
    if !unknown.is_empty() {
        match options.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => {
                warnings.extend(unknown.iter().map(|f| format!("unknown field \"{f}\"")));
            }
            FieldValidation::Strict => {
                let list: Vec<String> = unknown
                    .iter()
                    .map(|f| format!("unknown field \"{f}\""))
                    .collect();
                return Err(Status::bad_request(format!(
                    "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
                    resource.kind,
                    resource.version,
                    resource.kind,
                    list.join(", ")
                )));
            }
        }
    }
    schema::apply_defaults(&resource.schema, &mut value);
    Ok(Decoded { value, warnings })
}

/// The objects as a Table.
pub(crate) fn table(
    resource: &Resource,
    objects: &[&Value],
    metadata: &Value,
    include: &str,
    definitions: bool,
    now: Timestamp,
) -> Value {
    let include = crate::table::IncludeObject::parse(include);
    crate::table::table(resource, objects, metadata, include, definitions, now)
}
