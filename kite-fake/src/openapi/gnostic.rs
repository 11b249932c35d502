//! `OpenAPI` v2 as protobuf: the messages of gnostic's `openapi.v2` package, as
//! far as the documents here use them.

use serde_json::{Map, Value};

use crate::protobuf::wire::{Wire, put_bytes, put_tag, put_varint};

/// Encodes a document that [`super::v2`] made.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Writer::default();
    out.string(1, &document["swagger"]);
    out.message(2, |info| {
        info.string(1, &document["info"]["title"]);
        info.string(2, &document["info"]["version"]);
    });
    out.message(8, |paths| {
        named(paths, 2, &document["paths"], path_item);
    });
    out.message(9, |definitions| {
        named(definitions, 1, &document["definitions"], schema);
    });
    out.bytes
}

/// Entries of a map: name in field 1, value in field 2.
fn named(out: &mut Writer, field: u32, map: &Value, encode: fn(&mut Writer, &Value)) {
    for (name, value) in members(map) {
        out.message(field, |entry| {
            entry.text(1, name);
            entry.message(2, |inner| encode(inner, value));
        });
    }
}

fn members(map: &Value) -> impl Iterator<Item = (&String, &Value)> {
    map.as_object().into_iter().flat_map(Map::iter)
}

/// Members that begin with `x-`, as YAML (JSON is YAML).
fn extensions(out: &mut Writer, field: u32, object: &Value) {
    for (name, value) in members(object).filter(|(name, _)| name.starts_with("x-")) {
        out.message(field, |entry| {
            entry.text(1, name);
            entry.message(2, |any| any.text(2, &value.to_string()));
        });
    }
}

fn schema(out: &mut Writer, value: &Value) {
    for (field, name) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description")] {
        out.string(field, &value[name]);
    }
    for (field, name) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        out.double(field, &value[name]);
    }
    for (field, name) in [
        (8, "exclusiveMaximum"),
        (10, "exclusiveMinimum"),
        (16, "uniqueItems"),
    ] {
        out.flag(field, &value[name]);
    }
    for (field, name) in [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ] {
        out.integer(field, &value[name]);
    }
    out.string(13, &value["pattern"]);
    for name in value["required"].as_array().into_iter().flatten() {
        out.string(19, name);
    }
    for item in value["enum"].as_array().into_iter().flatten() {
        out.message(20, |any| any.text(2, &item.to_string()));
    }
    match &value["additionalProperties"] {
        Value::Null => {}
        Value::Bool(allowed) => out.message(21, |item| item.number(2, u64::from(*allowed))),
        inner => out.message(21, |item| item.message(1, |s| schema(s, inner))),
    }
    if value["type"].is_string() {
        out.message(22, |item| item.string(1, &value["type"]));
    }
    if value["items"].is_object() {
        out.message(23, |item| item.message(1, |s| schema(s, &value["items"])));
    }
    if value["properties"].is_object() {
        out.message(25, |properties| {
            named(properties, 1, &value["properties"], schema);
        });
    }
    extensions(out, 31, value);
}

fn path_item(out: &mut Writer, value: &Value) {
    for (field, method) in [
        (2, "get"),
        (3, "put"),
        (4, "post"),
        (5, "delete"),
        (8, "patch"),
    ] {
        if value[method].is_object() {
            out.message(field, |inner| operation(inner, &value[method]));
        }
    }
    parameters(out, 9, &value["parameters"]);
    extensions(out, 10, value);
}

fn operation(out: &mut Writer, value: &Value) {
    out.string(5, &value["operationId"]);
    for (field, name) in [(6, "produces"), (7, "consumes")] {
        for media in value[name].as_array().into_iter().flatten() {
            out.string(field, media);
        }
    }
    parameters(out, 8, &value["parameters"]);
    out.message(9, |responses| {
        for (code, response) in members(&value["responses"]) {
            responses.message(1, |entry| {
                entry.text(1, code);
                entry.message(2, |value| {
                    value.message(1, |r| r.string(1, &response["description"]));
                });
            });
        }
    });
    extensions(out, 13, value);
}

/// `ParametersItem`: a body parameter, or one of the query or path.
fn parameters(out: &mut Writer, field: u32, list: &Value) {
    for parameter in list.as_array().into_iter().flatten() {
        let place = parameter["in"].as_str().unwrap_or_default();
        out.message(field, |item| {
            item.message(1, |wrapped| {
                if place == "body" {
                    wrapped.message(1, |body| {
                        body.string(2, &parameter["name"]);
                        body.string(3, &parameter["in"]);
                        body.message(5, |s| schema(s, &parameter["schema"]));
                    });
                } else {
                    // The type follows allow_empty_value, which only the query has.
                    let (kind, type_field, unique) = if place == "path" {
                        (4, 5, 19)
                    } else {
                        (3, 6, 20)
                    };
                    wrapped.message(2, |other| {
                        other.message(kind, |p| {
                            p.flag(1, &parameter["required"]);
                            p.string(2, &parameter["in"]);
                            p.string(4, &parameter["name"]);
                            p.string(type_field, &parameter["type"]);
                            p.flag(unique, &parameter["uniqueItems"]);
                        });
                    });
                }
            });
        });
    }
}

/// Fields as gnostic writes them: what is empty is left out.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn number(&mut self, field: u32, value: u64) {
        put_tag(&mut self.bytes, field, Wire::Varint);
        put_varint(&mut self.bytes, value);
    }

    fn text(&mut self, field: u32, text: &str) {
        put_bytes(&mut self.bytes, field, text.as_bytes());
    }

    fn string(&mut self, field: u32, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.text(field, text);
        }
    }

    fn flag(&mut self, field: u32, value: &Value) {
        if value == &Value::Bool(true) {
            self.number(field, 1);
        }
    }

    fn integer(&mut self, field: u32, value: &Value) {
        if let Some(number) = value.as_u64() {
            self.number(field, number);
        }
    }

    fn double(&mut self, field: u32, value: &Value) {
        if let Some(number) = value.as_f64() {
            put_tag(&mut self.bytes, field, Wire::Fixed64);
            self.bytes.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        put_bytes(&mut self.bytes, field, &inner.bytes);
    }
}
