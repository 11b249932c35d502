#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::wire::{Wire, put_bytes, put_tag, put_varint};
use super::*;
use crate::go_types::{Field, Form, Kind, Shape};
use crate::registry::{Origin, Registry};

/// A body of a kind around a message.
fn body(api_version: &str, kind: &str, raw: &[u8]) -> Bytes {
    wrapped(api_version, kind, raw)
}

fn read(body: &[u8]) -> Value {
    decode(body, ("", "")).unwrap()
}

/// What a field holds when it is filled: everything (`zero` no), or the zero value of
/// what is meant by being there.
fn filled(field: &Field, zero: bool, within: &[usize]) -> Value {
    let one = |kind| match kind {
        Kind::String if zero => json!(""),
        Kind::String => json!(format!("{} ü", field.name)),
        Kind::Int32 => json!(if zero { 0 } else { i32::MIN }),
        Kind::Int64 => json!(if zero { 0 } else { i64::MAX }),
        Kind::Bool => json!(!zero),
        Kind::Float64 => {
            if zero {
                json!(0)
            } else {
                json!(-1.5)
            }
        }
        Kind::Bytes => json!(if zero { "" } else { "AP8=" }),
        Kind::Time => json!("2026-07-24T04:09:49Z"),
        Kind::MicroTime => json!("1969-07-24T04:09:49.000001Z"),
        Kind::Quantity => json!(if zero { "0" } else { "1500m" }),
        Kind::IntOrString if zero => json!(0),
        Kind::IntOrString => json!("25%"),
        Kind::Raw => json!({"any": ["thing", 1, null]}),
        Kind::Any => Value::Null,
        Kind::Message(at) => object(at, zero, within),
    };
    match field.shape {
        Shape::Value | Shape::Pointer => one(field.kind),
        // Two of everything would double with each level.
        Shape::List if matches!(field.kind, Kind::Message(_)) => json!([one(field.kind)]),
        Shape::List => json!([one(field.kind), one(field.kind)]),
        Shape::Map => json!({"a": one(field.kind)}),
    }
}

/// A message with all of its fields, or with those alone that may be meant although
/// they are zero, and what Go writes anyway.
fn object(at: usize, zero: bool, within: &[usize]) -> Value {
    let message = TYPES.message(at);
    match message.form {
        Form::Object => {}
        Form::List => return json!(["a", "b"]),
        Form::SchemaOrBool => return json!(!zero),
        Form::SchemaOrSchemas if zero => return json!({"type": "a"}),
        Form::SchemaOrSchemas => return json!([{"type": "a"}]),
        Form::SchemaOrNames => return json!(["a"]),
    }
    let mut members = Map::new();
    let within = &[within, &[at]].concat();
    let unset = decode::message(at, &[], 0).unwrap();
    for field in message.fields.iter().filter(|field| field.number > 0) {
        // A schema has schemas: one within another is enough.
        let times = |inner| within.iter().filter(|at| **at == inner).count();
        let is_deep = matches!(field.kind, Kind::Message(inner) if times(inner) > 1);
        if field.name == "." {
            let Kind::Message(inner) = field.kind else {
                continue;
            };
            if let Value::Object(inner) = object(inner, zero, within) {
                members.extend(inner);
            }
            continue;
        }
        let value = match field.shape {
            Shape::Pointer if !is_deep => filled(field, zero, within),
            Shape::Pointer => continue,
            _ if zero || is_deep => match unset.get(field.name) {
                Some(value) => value.clone(),
                None => continue,
            },
            _ => filled(field, zero, within),
        };
        members.insert(field.name.to_owned(), value);
    }
    Value::Object(members)
}

/// The kinds that are served, and what their requests carry.
fn kinds() -> Vec<(String, String)> {
    let registry = Registry::built_in();
    let mut kinds: Vec<(String, String)> = registry
        .iter()
        .flat_map(|resource| {
            let version = resource.api_version();
            let has_list = resource.origin != Origin::Virtual;
            [
                Some(resource.kind.clone()),
                has_list.then(|| resource.list_kind.clone()),
            ]
            .into_iter()
            .flatten()
            .map(move |kind| (version.clone(), kind))
        })
        .collect();
    for kind in [
        "DeleteOptions",
        "CreateOptions",
        "UpdateOptions",
        "PatchOptions",
        "Status",
        "APIGroup",
        "APIGroupList",
        "APIResourceList",
        "APIVersions",
    ] {
        kinds.push(("v1".to_owned(), kind.to_owned()));
    }
    for (version, kind) in [
        ("autoscaling/v1", "Scale"),
        ("policy/v1", "Eviction"),
        ("v1", "Binding"),
        ("meta.k8s.io/v1", "PartialObjectMetadata"),
        ("meta.k8s.io/v1", "PartialObjectMetadataList"),
    ] {
        kinds.push((version.to_owned(), kind.to_owned()));
    }
    kinds
}

/// The first place where two values differ, and what is there.
fn difference(place: &str, one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let mut names: Vec<_> = one.keys().chain(other.keys()).collect();
            names.sort();
            let of = |members: &Map<String, Value>, name: &str| {
                members
                    .get(name)
                    .cloned()
                    .unwrap_or_else(|| json!("(not there)"))
            };
            names.into_iter().find_map(|name| {
                difference(&format!("{place}.{name}"), &of(one, name), &of(other, name))
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => one
            .iter()
            .zip(other)
            .find_map(|(one, other)| difference(&format!("{place}[]"), one, other)),
        _ if one == other => None,
        _ => Some(format!("{place}: {one} became {other}")),
    }
}

#[test]
fn every_field_of_every_kind_comes_back() {
    for (version, kind) in kinds() {
        let at = TYPES.of_kind(&version, &kind);
        let at = at.unwrap_or_else(|| panic!("{version} {kind} is not in the table"));
        // The items of a list are tried by themselves.
        let is_list = kind.ends_with("List");
        for zero in [false, true].into_iter().filter(|zero| *zero || !is_list) {
            let mut value = object(at, zero, &[]);
            value["apiVersion"] = json!(version);
            value["kind"] = json!(kind);
            let there = encode(&value).unwrap();
            let back = read(&there);
            let differs = difference("", &value, &back);
            assert_eq!(differs, None, "{version} {kind}, zero values: {zero}");
            assert_eq!(encode(&back).unwrap(), there, "{version} {kind}");
        }
    }
}

#[test]
fn what_is_a_schema_or_something_else_comes_back_as_either() {
    let schema = json!({"type": "string"});
    for members in [
        json!({"additionalProperties": schema, "additionalItems": false, "items": schema}),
        json!({"additionalProperties": false, "items": [schema, schema], "dependencies": {"a": schema, "b": ["c"]}}),
        json!({"additionalProperties": true, "additionalItems": {"not": {}}, "default": null, "enum": [null, 1]}),
    ] {
        let at = TYPES.find("apiextensions.v1.JSONSchemaProps").unwrap();
        let mut out = Vec::new();
        encode::message(&mut out, at, &members).unwrap();
        let mut back = decode::message(at, &out, 0).unwrap();
        if members.get("default").is_some() {
            // Unset and null are one for a pointer to any JSON.
            back["default"] = Value::Null;
        }
        assert_eq!(back, members);
    }
}

#[test]
fn what_is_on_the_wire_for_a_pointer_was_meant() {
    // spec.replicas is a pointer, spec.paused is none.
    let mut spec = Vec::new();
    for number in [1, 7] {
        put_tag(&mut spec, number, Wire::Varint);
        put_varint(&mut spec, 0);
    }
    let mut raw = Vec::new();
    put_bytes(&mut raw, 2, &spec);
    let deployment = read(&body("apps/v1", "Deployment", &raw));
    assert_eq!(deployment["spec"]["replicas"], 0);
    assert_eq!(deployment["spec"].get("paused"), None);
    // A selector of all Pods, and none.
    let mut spec = Vec::new();
    put_bytes(&mut spec, 2, b"");
    let mut raw = Vec::new();
    put_bytes(&mut raw, 2, &spec);
    let budget = read(&body("policy/v1", "PodDisruptionBudget", &raw));
    assert_eq!(budget["spec"]["selector"], json!({}));
    let budget = read(&body("policy/v1", "PodDisruptionBudget", b""));
    assert_eq!(budget["spec"].get("selector"), None);
}

#[test]
fn a_zero_object_is_what_go_writes_of_one() {
    // By the tags of Go's types, of `corev1.Pod{}` with a container.
    let mut spec = Vec::new();
    put_bytes(&mut spec, 2, b"");
    let mut raw = Vec::new();
    put_bytes(&mut raw, 2, &spec);
    assert_eq!(
        read(&body("v1", "Pod", &raw)),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {},
            "spec": {"containers": [{"name": "", "resources": {}}]},
            "status": {},
        })
    );
}

/// What Go wrote is written again, to the byte.
#[test]
fn bodies_of_kubectl_are_written_as_go_wrote_them() {
    use base64::Engine as _;

    let mut lines = include_str!("kubectl.txt").lines().skip(1);
    let mut count = 0;
    while let (Some(command), Some(body)) = (lines.next(), lines.next()) {
        let body = base64::engine::general_purpose::STANDARD.decode(body.trim());
        let body = body.unwrap();
        let object = read(&body);
        let again = encode(&object).unwrap();
        assert_eq!(again, body, "kubectl {command}: {object}");
        count += 1;
    }
    assert_eq!(count, 15);
}

#[test]
fn a_message_in_two_pieces_is_one() {
    let mut raw = Vec::new();
    for (number, text) in [(1, "a"), (3, "b")] {
        let mut meta = Vec::new();
        put_bytes(&mut meta, number, text.as_bytes());
        put_bytes(&mut raw, 1, &meta);
    }
    let found = read(&body("v1", "ConfigMap", &raw));
    assert_eq!(found["metadata"], json!({"name": "a", "namespace": "b"}));
}

#[test]
fn packed_numbers_are_read() {
    let mut rule = Vec::new();
    // supplementalGroups of a Pod's securityContext, field 4.
    put_bytes(&mut rule, 4, &[1, 0xac, 0x02]);
    let mut spec = Vec::new();
    put_bytes(&mut spec, 14, &rule);
    let mut raw = Vec::new();
    put_bytes(&mut raw, 2, &spec);
    let pod = read(&body("v1", "Pod", &raw));
    assert_eq!(
        pod["spec"]["securityContext"]["supplementalGroups"],
        json!([1, 300])
    );
}

#[test]
fn zero_values_are_written_where_go_has_no_pointer() {
    // What the format says of `corev1.ConfigMap{ObjectMeta: {Name: "a"}, Data: {"k": "v"}}`.
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    // name, generateName, namespace, selfLink, uid, resourceVersion, generation, and
    // creationTimestamp, which is no pointer.
    let metadata = b"\x0a\x01a\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00\x42\x00";
    let expected = [
        b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x1b\x0a\x11".as_slice(),
        metadata,
        b"\x12\x06\x0a\x01k\x12\x01v",
        // Neither an encoding nor a type of the content.
        b"\x1a\0\x22\0",
    ]
    .concat();
    let encoded = encode(&config).unwrap();
    assert_eq!(encoded, expected);
    assert_eq!(read(&encoded), config);
}

#[test]
fn what_is_no_message_is_told_in_the_decoders_words() {
    let told = |body: &[u8]| decode(body, ("v1", "Pod")).unwrap_err().to_string();
    assert_eq!(told(b""), "empty data");
    assert_eq!(told(b"k8s\0"), "empty body");
    assert_eq!(
        told(b"{}"),
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    );
    assert_eq!(told(b"k8s\0\x0a\x7f"), "unexpected EOF");
    assert_eq!(told(&body("v1", "Pod", &[0xff])), "unexpected EOF");
    assert_eq!(
        told(&body("v1", "Pod", &[1 << 3, 1])),
        "proto: wrong wireType = 0 for field ObjectMeta"
    );
    assert_eq!(
        told(&body("v1", "Nothing", b"")),
        "no kind \"Nothing\" is registered for version \"v1\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\""
    );
    // What does not say is what the path says.
    assert_eq!(read_as(b"", ("v1", "Pod"))["kind"], "Pod");
}

fn read_as(raw: &[u8], default: (&str, &str)) -> Value {
    decode(&body("", "", raw), default).unwrap()
}

#[test]
fn a_table_has_no_message() {
    let table = json!({"apiVersion": "meta.k8s.io/v1", "kind": "Table", "rows": []});
    assert!(encode(&table).is_err());
    let custom = json!({"apiVersion": "example.com/v1", "kind": "Widget"});
    assert!(encode(&custom).is_err());
    let wrong = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"priority": "high"}});
    assert_eq!(
        encode(&wrong).unwrap_err().to_string(),
        "priority: \"high\" has no form in protobuf"
    );
}

/// Any message of the table, as if it were a kind.
fn any_message() -> impl Strategy<Value = (String, String)> {
    let names: Vec<_> = TYPES.iter().map(|message| message.name).collect();
    prop::sample::select(names).prop_map(|name| {
        let mut words = name.rsplitn(2, '.');
        let kind = words.next().unwrap_or_default().to_owned();
        (words.next().unwrap_or_default().replacen('.', "/", 1), kind)
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(raw in prop::collection::vec(any::<u8>(), 0..100), (version, kind) in any_message()) {
        let _ = decode(&body(&version, &kind, &raw), ("v1", "Pod"));
        let _ = decode(&raw, (&version, &kind));
        let _ = decode_event(&raw);
        for kind in ["Verbs", "ExtraValue", "Pod", "Event"] {
            let _ = decode(&body("v1", kind, &raw), ("", ""));
        }
    }
}
