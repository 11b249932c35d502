//! What the OpenAPI document lets be wrong.

use std::fmt;

use axum::body::Body;
use http::{HeaderName, Method, Request};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Map, Value, json};

use crate::world::{PASSWORD, TOKEN, request};

/// A value that must not come back.
pub const SECRET: &str = "hunter2-hunter2";

/// A request in which one value is wrong.
pub struct Case {
    pub method: Method,
    /// With what names are in it, as a request has it.
    pub path: String,
    /// As the documentation calls it: `PATCH vms/{name}`.
    pub request: String,
    pub place: Place,
    pub wrong: Value,
    pub body: Option<Value>,
}

/// What is wrong.
pub enum Place {
    Query(String),
    Header(String),
    Body(String),
}

impl Place {
    pub fn name(&self) -> &str {
        match self {
            Self::Query(name) | Self::Header(name) | Self::Body(name) => name,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} = {}",
            self.request,
            self.place.name(),
            self.wrong
        )
    }
}

/// An operation of the document.
pub struct Operation<'a> {
    document: &'a Value,
    it: &'a Value,
    pub id: &'a str,
    pub method: Method,
    pub path: String,
    request: String,
}

/// All operations that can be asked once and end: not the stream of news.
pub fn operations(document: &Value) -> Vec<Operation<'_>> {
    let paths = document["paths"].as_object().unwrap().iter();
    let operations = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, it)| {
            let method = method.to_uppercase();
            Operation {
                document,
                it,
                id: it["operationId"].as_str().unwrap(),
                request: format!("{method} {}", path.trim_start_matches("/api/v1/")),
                method: method.parse().unwrap(),
                path: filled(path),
            }
        })
    });
    operations.collect()
}

/// A path with names of what is there.
fn filled(path: &str) -> String {
    let name = match path {
        it if it.contains("/vms/") => "web",
        it if it.contains("/offers/") => "small",
        it if it.contains("/snapshots/") => "before-the-update",
        it if it.contains("/volumes/") => "data",
        it if it.contains("/images/") => "debian-12",
        it if it.contains("/admin/users/") => "ann",
        _ => "none",
    };
    let path = path.replace("{name}", name);
    ["{id}", "{session}", "{recording}"]
        .iter()
        .fold(path, |path, it| path.replace(it, "none"))
}

impl Case {
    /// The request, of whom the token is.
    pub fn ask(&self, token: &str) -> Request<Body> {
        let body = self.body.clone();
        let mut ask = request(self.method.clone(), &self.path, token, body);
        if let Place::Header(name) = &self.place {
            let name: HeaderName = name.parse().unwrap();
            let value = self.wrong.as_str().unwrap().parse().unwrap();
            ask.headers_mut().insert(name, value);
        }
        ask
    }
}

/// Each parameter, header and field with a wrong value.
pub fn cases(document: &Value) -> Vec<Case> {
    let mut cases = Vec::new();
    for operation in operations(document) {
        operation.parameters(&mut cases);
        operation.headers(&mut cases);
        if let Some(right) = operation.right_body() {
            let schema = &operation.it["requestBody"]["content"]["application/json"]["schema"];
            let schema = resolved(document, schema);
            for (name, field) in schema["properties"].as_object().unwrap() {
                let with = |value: Value| {
                    let mut body = right.clone();
                    body[name] = value;
                    body
                };
                operation.fields(field, name, &with, &mut cases);
            }
        }
    }
    cases
}

/// Each field whose document says a bound with a value just beyond it, and for texts and
/// lists with one just within.
pub struct Edge {
    pub bound: &'static str,
    pub beyond: Case,
    pub within: Value,
}

pub fn edges(document: &Value) -> Vec<Edge> {
    let mut edges = Vec::new();
    for operation in operations(document) {
        let Some(right) = operation.right_body() else {
            continue;
        };
        let schema = &operation.it["requestBody"]["content"]["application/json"]["schema"];
        let schema = resolved(document, schema);
        for (name, field) in schema["properties"].as_object().unwrap() {
            let with = |value: Value| {
                let mut body = right.clone();
                body[name] = value;
                body
            };
            operation.edges(field, name, &with, &mut edges);
        }
    }
    edges
}

/// A key that can log in.
const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKO9ldbqXUWB+gMw90VFK2ZXIlM5RvBXwnm/KM3V61Ut";

/// A text of this length that is right otherwise, as far as that goes.
fn long(place: &str, length: usize) -> String {
    let filled = |begin: &str, fill: &str| {
        let text = format!("{begin}{}", fill.repeat(length));
        text.chars().take(length).collect::<String>()
    };
    match place.rsplit('.').next().unwrap() {
        "sshPublicKeys[0]" => filled(&format!("{KEY} "), "x"),
        "memory" | "disk" | "size" => filled("", "1"),
        "email" => filled("a@", "x"),
        "issuer" => filled("https://", "x"),
        "returnTo" => filled("/", "x"),
        "url" => filled("https://cloud.debian.org/images/", "x"),
        "checksum" => filled("sha256:", "0"),
        "imageSources[0]" => filled("https://example.org/", "x/"),
        "refreshSchedule" => filled("0 3 * * ", "0"),
        // Of one letter many people have.
        "password" | "newPassword" | "sshPassword" => filled("", "kw7-bat!"),
        "lifetime" | "idleTimeout" | "expiryGracePeriod" | "keep" => filled("", "1h"),
        _ => filled("", "x"),
    }
}

impl Operation<'_> {
    fn edges(
        &self,
        schema: &Value,
        place: &str,
        with: &dyn Fn(Value) -> Value,
        edges: &mut Vec<Edge>,
    ) {
        let schema = resolved(self.document, schema);
        let item = |n: usize| match &schema["items"] {
            Value::Null => Value::Null,
            // Scopes, which are words.
            items if resolved(self.document, items).get("oneOf").is_some() => {
                sample(self.document, items, "")
            }
            items if resolved(self.document, items)["type"] == "object" => {
                let mut object = sample(self.document, items, "");
                // Each is called otherwise.
                let mut called = ["name", "volume"].into_iter();
                let called = called
                    .find(|it| object.get(it).is_some())
                    .unwrap_or("group");
                object[called] = json!(format!("it{n}"));
                object
            }
            _ if place == "blockedNetworks" => json!(format!("10.{n}.0.0/16")),
            _ if place == "nameservers" => json!(format!("192.0.2.{}", n + 1)),
            _ if place == "imageSources" => json!(format!("https://images-{n}.example.org/")),
            _ if place == "reservedDomainPrefixes" => json!(format!("label-{n}")),
            _ if place == "sshPublicKeys" => json!(format!("{KEY} {n}")),
            _ => json!(format!("ssh-ed25519 AAAA {n}")),
        };
        let list = |n: usize| (0..n).map(item).collect::<Value>();
        let map = |n: usize| {
            let fields = (0..n).map(|n| (format!("it{n}"), json!("x")));
            Value::from(fields.collect::<Map<_, _>>())
        };
        for bound in [
            "minLength",
            "maxLength",
            "minimum",
            "maximum",
            "minItems",
            "maxItems",
            "maxProperties",
        ] {
            let Value::Number(edge) = &schema[bound] else {
                continue;
            };
            // Some are written as `1.0`.
            let edge = edge.to_string();
            let size: i64 = edge.trim_end_matches(".0").parse().unwrap();
            let step = if bound.starts_with("min") { -1 } else { 1 };
            if size + step < 0 && bound != "minimum" {
                continue;
            }
            let of = |size: i64| match bound {
                "minimum" | "maximum" => json!(size),
                _ => {
                    let size = usize::try_from(size).unwrap();
                    match bound {
                        "minLength" | "maxLength" => json!(long(place, size)),
                        "maxProperties" => map(size),
                        _ => list(size),
                    }
                }
            };
            let wrong = of(size + step);
            edges.push(Edge {
                bound,
                within: with(of(size)),
                beyond: Case {
                    method: self.method.clone(),
                    path: self.path.clone(),
                    request: self.request.clone(),
                    place: Place::Body(place.to_owned()),
                    body: Some(with(wrong.clone())),
                    wrong,
                },
            });
        }
        let right = sample(self.document, schema, "");
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            let with = |value: Value| {
                let mut object = right.clone();
                object[name] = value;
                with(object)
            };
            self.edges(inner, &format!("{place}.{name}"), &with, edges);
        }
        if let Some(inner) = schema.get("items") {
            let with = |value: Value| with(json!([value]));
            self.edges(inner, &format!("{place}[0]"), &with, edges);
        }
    }

    /// The body with which nothing would be wrong; none where there is none.
    pub fn right_body(&self) -> Option<Value> {
        self.it.get("requestBody")?;
        let vm = json!({"name": "new", "cpu": 1, "memory": "1Gi", "disk": "4Gi",
                        "image": "debian-12"});
        Some(match self.id {
            "createVm" | "createOffer" => vm,
            "createImage" => json!({"name": "new", "minDisk": "1Gi",
                                    "url": "https://cloud.debian.org/images/new.qcow2"}),
            "claimOffer" => json!({"name": "new"}),
            "createSnapshot" => json!({"name": "new", "vm": "web"}),
            "createVolume" => json!({"name": "new", "size": "1Gi"}),
            "restoreVm" => json!({"snapshot": "before-the-update"}),
            "createUser" | "signUp" => json!({"username": "new", "password": PASSWORD}),
            "bootstrap" => json!({"token": TOKEN, "username": "new", "password": PASSWORD}),
            "prove" | "beginSecondFactor" | "removeSecondFactor" => json!({"password": PASSWORD}),
            "seeNotices" => json!({"ids": ["of-none"], "until": "2026-01-01T00:00:00Z"}),
            "signIn" => json!({"username": "root", "password": PASSWORD}),
            "changePassword" => {
                json!({"currentPassword": PASSWORD, "newPassword": "another good horse"})
            }
            "createToken" => json!({"name": "new", "scopes": ["vms:read"]}),
            "linkIdentity" => json!({"provider": "staff", "password": PASSWORD}),
            "confirmSecondFactor" => json!({"code": "123456"}),
            "openConsole" => json!({"kind": "Serial"}),
            "putCertificate" => certificate(),
            _ => json!({}),
        })
    }

    /// The body that the document gives as an example; none where there is none.
    pub fn example(&self) -> Option<Value> {
        let body = &self.it["requestBody"]["content"]["application/json"];
        body.get("example").cloned()
    }

    fn parameters(&self, cases: &mut Vec<Case>) {
        let parameters = self.it["parameters"].as_array().into_iter().flatten();
        for parameter in parameters.filter(|it| it["in"] == "query") {
            let name = parameter["name"].as_str().unwrap();
            let schema = resolved(self.document, &parameter["schema"]);
            let longest = schema["maxLength"].as_u64();
            let given: Vec<String> = match schema["type"].as_str() {
                Some("integer") => vec!["ten".to_owned()],
                Some("boolean") => vec!["maybe".to_owned()],
                _ if schema.get("oneOf").is_some() => vec!["Perhaps".to_owned()],
                _ if schema["format"] == "base64url" => vec!["!".to_owned()],
                _ if schema["format"] == "date" => vec!["yesterday".to_owned()],
                _ if longest.is_some() => {
                    vec!["x".repeat(usize::try_from(longest.unwrap()).unwrap() + 1)]
                }
                // Any text can be right, but not two.
                _ => vec!["ann".to_owned(), "bob".to_owned()],
            };
            let query: Vec<_> = given.iter().map(|it| format!("{name}={it}")).collect();
            cases.push(Case {
                method: self.method.clone(),
                path: format!("{}?{}", self.path, query.join("&").replace('!', "%21")),
                request: self.request.clone(),
                place: Place::Query(name.to_owned()),
                wrong: match given.as_slice() {
                    // No more of it is repeated.
                    [one] => one.chars().take(200).collect::<String>().into(),
                    several => several.iter().cloned().collect(),
                },
                body: self.right_body(),
            });
        }
    }

    fn headers(&self, cases: &mut Vec<Case>) {
        let parameters = self.it["parameters"].as_array().into_iter().flatten();
        let parameters = parameters.map(|it| resolved(self.document, it));
        for parameter in parameters.filter(|it| it["in"] == "header") {
            let name = parameter["name"].as_str().unwrap();
            cases.push(Case {
                method: self.method.clone(),
                path: self.path.clone(),
                request: self.request.clone(),
                place: Place::Header(name.to_owned()),
                wrong: json!("two words"),
                body: self.right_body(),
            });
        }
    }

    /// A field with a wrong value, and all that is inside of it; `with` puts a value there.
    fn fields(
        &self,
        schema: &Value,
        place: &str,
        with: &dyn Fn(Value) -> Value,
        cases: &mut Vec<Case>,
    ) {
        let schema = resolved(self.document, schema);
        let wrong = match schema["type"].as_str() {
            _ if super::is_secret(place) => json!([SECRET]),
            _ if schema.get("oneOf").is_some() => json!("Perhaps"),
            Some("string") => json!(5),
            Some("integer") => json!("two"),
            Some("boolean") => json!("yes"),
            Some("array" | "object") => json!("one"),
            other => panic!("{place}: {other:?}: {schema}"),
        };
        cases.push(Case {
            method: self.method.clone(),
            path: self.path.clone(),
            request: self.request.clone(),
            body: Some(with(wrong.clone())),
            wrong,
            place: Place::Body(place.to_owned()),
        });
        let right = sample(self.document, schema, "");
        let known = schema["properties"].as_object().into_iter().flatten();
        for (name, inner) in known {
            let with = |value: Value| {
                let mut object = right.clone();
                object[name] = value;
                with(object)
            };
            self.fields(inner, &format!("{place}.{name}"), &with, cases);
        }
        if let Some(inner) = schema
            .get("additionalProperties")
            .filter(|it| it.is_object())
        {
            let with = |value: Value| with(json!({ "one": value }));
            self.fields(inner, &format!("{place}.one"), &with, cases);
        }
        if let Some(inner) = schema.get("items") {
            let with = |value: Value| with(json!([value]));
            self.fields(inner, &format!("{place}[0]"), &with, cases);
        }
    }
}

/// What a reference refers to; of what may be null, what it is otherwise.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(reference) = schema["$ref"].as_str() {
        return resolved(document, document.pointer(&reference[1..]).unwrap());
    }
    let either = schema.get("anyOf").or_else(|| schema.get("allOf"));
    match either.and_then(Value::as_array) {
        Some(either) => {
            let inner = either.iter().find(|it| it["type"] != "null").unwrap();
            resolved(document, inner)
        }
        None => schema,
    }
}

/// A right value with what has to be in it.
fn sample(document: &Value, schema: &Value, name: &str) -> Value {
    let schema = resolved(document, schema);
    if let Some(words) = schema["oneOf"].as_array() {
        return words[0]["const"].clone();
    }
    match (schema["type"].as_str(), name) {
        (Some("object"), _) => {
            let required = schema["required"].as_array().into_iter().flatten();
            let fields: Map<_, _> = required
                .map(|name| {
                    let name = name.as_str().unwrap();
                    let inner = sample(document, &schema["properties"][name], name);
                    (name.to_owned(), inner)
                })
                .collect();
            fields.into()
        }
        (Some("array"), _) => json!([]),
        (Some("integer"), _) => json!(1),
        (Some("boolean"), _) => json!(true),
        (_, "memory" | "disk") => json!("1Gi"),
        (_, "issuer") => json!("https://login.test"),
        (_, "schedule") => json!("30 3 * * *"),
        (_, "volume") => json!("data"),
        _ => json!("kite"),
    }
}

/// A certificate for the base domain of the tests, and its key.
fn certificate() -> Value {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["vm.test".to_owned()]).unwrap();
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = params.self_signed(&key).unwrap();
    json!({"certificate": certificate.pem(), "privateKey": key.serialize_pem()})
}
