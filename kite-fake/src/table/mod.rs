//! Objects as tables (`meta.k8s.io/v1 Table`) and as their metadata alone,
//! which clients ask for with `as=` in `Accept`.

mod age;
mod autoscaler;
mod builtin;
mod cells;
mod certificates;
mod custom;
mod jsonpath;
mod others;
mod plumbing;
mod pods;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use age::human_duration;
pub use jsonpath::JsonPath;

use crate::builtin::{BuiltIn, kind};
use crate::registry::Resource;
use crate::rest::media::Shape;
use crate::rest::query::Query;
use crate::schema::{Schema, object_meta};
use crate::status::Status;

/// What the rows of a table carry beside their cells (`includeObject`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// The object's metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// The parameter's value.
    ///
    /// # Errors
    /// 400 for a value that the server does not know.
    pub fn parse(text: &str) -> Result<Self, Status> {
        match text {
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            "" | "Metadata" => Ok(Self::Metadata),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }

    /// What a request asks for; only a Table has the parameter.
    ///
    /// # Errors
    /// As in [`IncludeObject::parse`].
    pub(crate) fn asked(shape: Shape, query: &Query) -> Result<Self, Status> {
        match shape {
            Shape::Table => Self::parse(query.text("includeObject")),
            _ => Ok(Self::default()),
        }
    }
}

/// One column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    /// A path into the schema whose description is the column's, or the description itself.
    description: &'static str,
    /// Above 0: shown only when wide.
    priority: u8,
}

impl Column {
    const fn text(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            kind: "string",
            format: "",
            description,
            priority: 0,
        }
    }
    const fn number(name: &'static str, description: &'static str) -> Self {
        Self {
            kind: "integer",
            ..Self::text(name, description)
        }
    }
    const fn flag(name: &'static str, description: &'static str) -> Self {
        Self {
            kind: "boolean",
            ..Self::text(name, description)
        }
    }
    const fn wide(self) -> Self {
        Self {
            priority: 1,
            ..self
        }
    }
}

/// The object's name, as every table has it first.
pub(crate) const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    description: "metadata.name",
    priority: 0,
};
/// How long the object is there.
pub(crate) const AGE: Column = Column::text("Age", "metadata.creationTimestamp");

/// How a table is made.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What rows carry beside their cells.
    pub include: IncludeObject,
    /// With the definitions of its columns; a watch has them in its first event only.
    pub definitions: bool,
    /// `apiVersion` of the table.
    pub version: &'static str,
}

/// Makes a table of objects; `metadata` is the list's, or holds the object's
/// `resourceVersion`.
pub fn table(
    resource: &Resource,
    objects: &[&Value],
    metadata: &Value,
    options: Options,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({
                "cells": cells_of(resource, object, now),
                "object": match options.include {
                    IncludeObject::None => Value::Null,
                    IncludeObject::Metadata => partial(object, options.version),
                    IncludeObject::Object => (*object).clone(),
                },
            });
            if let Some(condition) = builtin::condition(resource, object) {
                row["conditions"] = json!([condition]);
            }
            row
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": options.version,
        "metadata": metadata,
        "columnDefinitions": if options.definitions { columns_of(resource) } else { Value::Null },
        "rows": rows,
    })
}

/// The object as `PartialObjectMetadata` of a version.
pub fn partial(object: &Value, version: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version,
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

fn columns_of(resource: &Resource) -> Value {
    if resource.is_custom() {
        return custom::columns(resource);
    }
    let (columns, _) = builtin::printer(&resource.group, &resource.kind);
    let printed = printed(resource);
    let schema = printed.map_or(&*resource.schema, |kind| kind.schema());
    columns
        .iter()
        .map(|column| definition(schema, column))
        .collect()
}

fn cells_of(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    if resource.is_custom() {
        return custom::cells(resource, object, now);
    }
    let (_, cells) = builtin::printer(&resource.group, &resource.kind);
    let Some(printed) = printed(resource) else {
        return cells(object, now);
    };
    let mut object = object.clone();
    printed.convert(&mut object);
    cells(&object, now)
}

/// The kind in the version that tables are made from, where that is another: the stored one.
fn printed(resource: &Resource) -> Option<&'static BuiltIn> {
    if resource.version == resource.storage_version {
        return None;
    }
    kind(&resource.group, &resource.storage_version, &resource.kind)
}

fn definition(schema: &Schema, column: &Column) -> Value {
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "description": described(schema, column.description),
        "priority": column.priority,
    })
}

/// The documentation of a member of `metadata`.
fn described_metadata(name: &str) -> String {
    object_meta()
        .properties
        .get(name)
        .and_then(|s| s.description.clone())
        .unwrap_or_default()
}

/// The documentation of a field, or the text itself if it names none.
fn described(schema: &Schema, text: &str) -> String {
    let meta = object_meta();
    let (mut schema, path) = match text.strip_prefix("metadata.") {
        Some(rest) => (Some(&*meta), rest),
        None => (Some(schema), text),
    };
    for name in path.split('.') {
        schema = schema.and_then(|s| s.properties.get(name).map(AsRef::as_ref));
    }
    schema
        .and_then(|s| s.description.clone())
        .unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests;
