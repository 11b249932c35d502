//! Tables of custom resources (`additionalPrinterColumns`).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{JsonPath, NAME, age, definition};
use crate::go;
use crate::server::registry::{Column, Resource};

/// The column of a definition that declares none.
fn default_column() -> Column {
    Column {
        name: "Age".to_owned(),
        kind: "date".to_owned(),
        format: String::new(),
        description: super::described_metadata("creationTimestamp"),
        priority: 0,
        json_path: ".metadata.creationTimestamp".to_owned(),
    }
}

fn declared(resource: &Resource) -> Vec<Column> {
    if resource.columns.is_empty() {
        vec![default_column()]
    } else {
        resource.columns.clone()
    }
}

/// `columnDefinitions` of a custom resource.
pub(super) fn columns(resource: &Resource) -> Value {
    let mut columns = vec![definition(resource, &NAME)];
    for column in declared(resource) {
        let description = if column.description.is_empty() {
            format!(
                "Custom resource definition column (in JSONPath format): {}",
                column.json_path
            )
        } else {
            column.description
        };
        columns.push(json!({
            "name": column.name,
            "type": column.kind,
            "format": column.format,
            "description": description,
            "priority": column.priority,
        }));
    }
    Value::Array(columns)
}

/// The cells of an object: its name, and what each path finds first.
pub(super) fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![object["metadata"]["name"].clone()];
    for column in declared(resource) {
        // A stored definition's paths were checked; an odd one shows nothing.
        let path = JsonPath::parse(&column.json_path).ok();
        let found = path
            .as_ref()
            .and_then(|path| path.find(object).first().copied());
        cells.push(found.map_or(Value::Null, |value| cell(&column.kind, value, now)));
    }
    cells
}

/// A value as a cell of the column's type; null if it is of another.
fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        (_, Value::Null) => Value::Null,
        #[expect(clippy::cast_possible_truncation, reason = "as the API server rounds")]
        ("integer", Value::Number(n)) => n.as_i64().or_else(|| n.as_f64().map(|f| f as i64)).into(),
        ("number", Value::Number(_))
        | ("boolean", Value::Bool(_))
        | ("string", Value::String(_)) => value.clone(),
        ("date", Value::String(_)) => age::since(value, now).into(),
        ("string", other) => go::value(other).into(),
        _ => Value::Null,
    }
}
