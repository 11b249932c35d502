//! Tables of custom resources (`additionalPrinterColumns`).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{JsonPath, NAME, age, definition};
use crate::go;
use crate::registry::{Column, Resource};

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

/// The columns with their paths. From one whose path cannot be read on, there are none.
fn declared(resource: &Resource) -> Vec<(Column, JsonPath)> {
    let columns = if resource.columns.is_empty() {
        vec![default_column()]
    } else {
        resource.columns.clone()
    };
    columns
        .into_iter()
        .map_while(|column| {
            let path = JsonPath::parse(&column.json_path).ok()?;
            Some((column, path))
        })
        .collect()
}

/// `columnDefinitions` of a custom resource.
pub(super) fn columns(resource: &Resource) -> Value {
    let mut columns = vec![definition(&resource.schema, &NAME)];
    for (column, _) in declared(resource) {
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
    for (column, path) in declared(resource) {
        let found = path.find(object).first().copied();
        cells.push(found.map_or(Value::Null, |value| cell(&column.kind, value, now)));
    }
    cells
}

/// A value as a cell of the column's type; null if it is of another.
fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", other) => printed(other).into(),
        #[expect(clippy::cast_possible_truncation, reason = "as the API server rounds")]
        ("integer", Value::Number(n)) => n.as_i64().or_else(|| n.as_f64().map(|f| f as i64)).into(),
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(_)) => age::since(value, now).into(),
        _ => Value::Null,
    }
}

/// A value as text: what has parts as JSON, anything else as Go prints it.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Number(number) if number.is_f64() => go::float(number.as_f64().unwrap_or(f64::NAN)),
        Value::Array(_) | Value::Object(_) => value.to_string(),
        plain => go::value(plain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_of_the_type_of_their_column() {
        let now = Timestamp::UNIX_EPOCH;
        for (kind, value, shown) in [
            (
                "string",
                json!({"b": 1, "a": [true]}),
                json!("{\"a\":[true],\"b\":1}"),
            ),
            ("string", json!([1, "x"]), json!("[1,\"x\"]")),
            ("string", json!(1.5), json!("1.5")),
            ("string", json!(1e9 + 0.5), json!("1.0000000005e+09")),
            ("string", json!(true), json!("true")),
            ("string", json!(null), json!("<no value>")),
            ("integer", json!(2.9), json!(2)),
            ("integer", json!("2"), json!(null)),
            ("number", json!(2), json!(2)),
            ("boolean", json!("true"), json!(null)),
            ("date", json!("no date"), json!("<invalid>")),
            ("date", json!(3), json!(null)),
            ("integer", json!(null), json!(null)),
        ] {
            assert_eq!(cell(kind, &value, now), shown, "{kind} {value}");
        }
    }
}
