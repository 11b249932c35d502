//! Definitions with any schema, and objects against those that are accepted.

use serde_json::{Map, Value, json};

use super::input::Input;
use super::world::World;

const KEYWORDS: &[&str] = &[
    "enum",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "maxLength",
    "maxItems",
    "minProperties",
    "required",
    "uniqueItems",
    "multipleOf",
    "nullable",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "not",
    "oneOf",
    "anyOf",
    "default",
];

const RULES: &[&str] = &[
    "self.a == self.a",
    "has(self.a)",
    "self == oldSelf",
    "self.all(x, x == 'a')",
    "1 == 1.0",
    "self.size() < 3",
    "self.matches('^a')",
    "quantity(self).isGreaterThan(quantity('1'))",
    "self.",
    "duration('1s') > duration(self)",
    "1/0 == 1",
    "[1,2].exists(x, x > self.n)",
    "",
    "true",
    "format.dns1123Label().validate(self).hasValue()",
    "url(self).getHost() == 'a'",
    "9223372036854775807 + self > 0",
    "self.map(x, self.map(y, self.map(z, x + y + z))).size() > 0",
    "dyn(self) == null",
    "self[0] == 'a'",
];

const COLUMNS: &[&str] = &[
    ".spec",
    ".spec.a",
    ".spec.list[*].k",
    ".spec.list[?(@.k=='a')].a",
    "{.spec.n}",
    ".metadata.creationTimestamp",
    ".spec.list[0]",
    ".spec.list[-1:]",
    "..a",
    ".spec['a']",
    "",
    ".spec[",
    ".spec.list[?(@.n>1)]",
];

fn schema(input: &mut Input<'_>, depth: usize) -> Value {
    let mut schema = Map::new();
    let kinds = [
        "string", "integer", "number", "boolean", "array", "object", "object", "",
    ];
    let kind = input.pick(if depth == 0 { &kinds[..4] } else { &kinds });
    if !kind.is_empty() {
        schema.insert("type".into(), kind.into());
    }
    if kind == "array" {
        schema.insert("items".into(), self::schema(input, depth - 1));
    }
    if kind == "object" {
        if input.below(4) == 0 {
            schema.insert(
                "additionalProperties".into(),
                self::schema(input, depth - 1),
            );
        } else {
            let properties: Map<String, Value> = (0..input.below(4))
                .map(|_| {
                    (
                        input.pick(&["a", "n", "k", "list", "map"]).to_owned(),
                        self::schema(input, depth - 1),
                    )
                })
                .collect();
            schema.insert("properties".into(), properties.into());
        }
    }
    if input.below(3) == 0 {
        let keyword = input.pick(KEYWORDS);
        let value = match keyword {
            "not" => self::schema(input, 0),
            "oneOf" | "anyOf" => json!([self::schema(input, 0), self::schema(input, 0)]),
            "nullable" | "uniqueItems" => input.flag().into(),
            "x-kubernetes-list-type" => input.pick(&["map", "set", "atomic", "x"]).into(),
            "x-kubernetes-list-map-keys" | "required" => json!([input.pick(&["k", "a", "n"])]),
            "x-kubernetes-map-type" => input.pick(&["granular", "atomic", "x"]).into(),
            "format" => input
                .pick(&[
                    "date-time",
                    "int32",
                    "int64",
                    "byte",
                    "uuid",
                    "duration",
                    "x",
                ])
                .into(),
            "pattern" => input.pick(&["^a", "(", "[a-z]+$", "(a+)+$", "\\d"]).into(),
            _ if keyword.starts_with("x-") => true.into(),
            _ => input.value(2),
        };
        schema.insert(keyword.into(), value);
    }
    if input.below(3) == 0 {
        let rule = json!({"rule": input.pick(RULES), "message": input.text()});
        schema.insert("x-kubernetes-validations".into(), json!([rule]));
    }
    schema.into()
}

pub fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let world = World::new();
    let json = [("content-type", "application/json")];
    let spec = schema(&mut input, 3);
    let column = json!({"name": "C", "type": input.pick(&["string", "integer", "date", "x"]), "jsonPath": input.pick(COLUMNS)});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.y.io"},
        "spec": {"group": "y.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true,
            "additionalPrinterColumns": [column], "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let Some(got) = world.send(
        "POST",
        definitions,
        &json,
        definition.to_string().as_bytes(),
    ) else {
        return;
    };
    assert!(
        matches!(got.code, 201 | 400 | 422),
        "{} for {definition}",
        got.body
    );
    if got.code != 201 {
        return;
    }
    let objects = "/apis/y.io/v1/namespaces/default/foos";
    for _ in 0..8 {
        if input.is_empty() {
            return;
        }
        let object = json!({"apiVersion": "y.io/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": input.value(3)});
        let text = object.to_string();
        let post = world.send("POST", objects, &json, text.as_bytes());
        let one = format!("{objects}/a");
        if let Some(made) = post.filter(|p| p.code == 201) {
            let read = world.send("GET", &one, &json, b"").expect("an answer");
            assert_eq!(read.body, made.body, "what was created is what is read");
        }
        let apply = [("content-type", "application/apply-patch+yaml")];
        world.send(
            "PATCH",
            &format!("{one}?fieldManager=m&force=true"),
            &apply,
            text.as_bytes(),
        );
        world.send(
            "PATCH",
            &one,
            &[("content-type", "application/merge-patch+json")],
            text.as_bytes(),
        );
        let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
        world.send("GET", objects, &table, b"");
    }
}
