use serde_json::json;

use super::*;

fn told(schema: &Value, value: &Value) -> Vec<(String, String)> {
    let faults = Shape::new(schema, schema).faults(value, "it");
    let told = faults.into_iter().map(|it| (it.place, it.kind.message()));
    told.collect()
}

#[test]
fn each_type_is_told_from_others_and_says_what_to_write() {
    let word = json!({"oneOf": [{"const": "On"}, {"const": "Off"}]});
    let port = json!({"type": "integer", "minimum": 1, "maximum": 65535});
    let short = json!({"type": "string", "maxLength": 3});
    let line = json!({"type": "string", "maxLength": 3, "format": LINE});
    let cursor = json!({"type": "string", "format": CURSOR});
    let date = json!({"type": "string", "format": DAY});
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let free = json!({"type": "object"});
    for (schema, right, wrong, message) in [
        (&word, json!("On"), json!("on"), "write one of On, Off"),
        (&word, json!("Off"), json!(1), "write one of On, Off"),
        (
            &port,
            json!(22),
            json!(0),
            "write a whole number from 1 to 65535",
        ),
        (
            &port,
            json!(65535),
            json!(65536),
            "write a whole number from 1 to 65535",
        ),
        (
            &port,
            json!(1),
            json!(1.5),
            "write a whole number from 1 to 65535",
        ),
        (
            &date,
            json!("2026-01-31"),
            json!("2026-02-30"),
            "write a day such as 2026-01-31",
        ),
        (
            &date,
            json!("2024-02-29"),
            json!("+2026-1-1"),
            "write a day such as 2026-01-31",
        ),
        (&short, json!("äöü"), json!(3), "write a text in quotes"),
        (
            &short,
            json!(""),
            json!("four"),
            "is longer than 3 characters: write less",
        ),
        (
            &line,
            json!("abc"),
            json!("a\nb"),
            "write one line of at most 3 characters",
        ),
        (
            &line,
            json!(""),
            json!("abcd"),
            "write one line of at most 3 characters",
        ),
        (
            &cursor,
            json!("YQ"),
            json!("!"),
            "write what the page before gave as next",
        ),
        (
            &texts,
            json!([]),
            json!("a"),
            "write a list of texts such as [\"one\", \"two\"]",
        ),
        (
            &free,
            json!({"a": 1}),
            json!([]),
            "write an object such as {\"name\": \"value\"}",
        ),
    ] {
        assert_eq!(told(schema, &right), [], "{right}");
        assert_eq!(
            told(schema, &wrong),
            [("it".to_owned(), message.to_owned())]
        );
    }
}

#[test]
fn what_is_inside_is_told_by_its_place() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a": {"anyOf": [{"$ref": "#/b"}, {"type": "null"}]},
            "list": {"type": "array", "items": {"type": "boolean"}},
            "free": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["a", "list"],
        "b": {"type": "integer"},
    });
    assert_eq!(told(&schema, &json!({"a": null, "list": []})), []);
    let wrong = json!({"a": "x", "list": [true, 1], "free": {"x": "y", "z": 1}, "c": 1});
    let places = |value: &Value| -> Vec<String> {
        let told = told(&schema, value).into_iter();
        told.map(|(place, message)| format!("{place} {message}"))
            .collect()
    };
    assert_eq!(
        places(&wrong),
        [
            "it.a write a whole number such as 2",
            "it.c is not a field there: write one of a, free, list",
            "it.free.z write a text in quotes",
            "it.list[1] write true or false",
        ]
    );
    assert_eq!(
        places(&json!({})),
        [
            "it.a is missing: write a whole number such as 2",
            "it.list is missing: write a list of texts such as [\"one\", \"two\"]",
        ]
    );
    // An edit names what it changes.
    let shape = Shape::new(&schema, &schema).merging();
    assert_eq!(shape.faults(&json!({"list": null}), "it"), []);
    assert_eq!(shape.faults(&json!({"list": [null]}), "it").len(), 1);
}

#[test]
fn what_would_be_let_pass_is_found() {
    let schema = json!({
        "properties": {"a": {"items": {"pattern": "x", "format": "uuid"}}},
        "multipleOf": 2,
    });
    assert_eq!(
        not_understood(&schema, &[]),
        ["multipleOf", "format \"uuid\"", "pattern"]
    );
    assert_eq!(
        not_understood(&schema, &["pattern", "multipleOf"]),
        ["format \"uuid\""]
    );
}
