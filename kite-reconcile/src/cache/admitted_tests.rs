//! What the CRDs admit can be read: one object that cannot be would hide from a
//! controller what else is in its list.
//!
//! Each field that a CRD's schema names is set to whatever its type may hold,
//! and more; what the API server admits must be readable as the Rust type.
#![allow(clippy::unwrap_used)]

use kite_core::{
    cluster::Object,
    crd::{
        KiteConnection, KiteImage, KiteInvite, KitePlatform, KiteReservation, KiteSecondFactor,
        KiteSession, KiteToken, KiteUser, KiteVirtualMachine, KiteVirtualMachineOffer,
    },
};
use kite_fake::FakeCluster;
use kube::{
    Api, CustomResourceExt,
    api::{ApiResource, DynamicObject, PostParams},
};
use serde_json::{Value, json};

const TEXTS: [&str; 38] = [
    "",
    "a",
    "A",
    "é",
    "0",
    "-1",
    "1.5",
    "1e3",
    "1e400",
    "18446744073709551616",
    "1Gi",
    "1.5Gi",
    "0.1Gi",
    "100m",
    "9223372036854775807",
    "9999999999999999999Ei",
    "1h",
    "1h30m",
    "1.5h",
    "2h0.000000001s",
    "72h",
    "87840h",
    "2562047h47m16.854775807s",
    "9999999999h",
    "-1h",
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "0000-01-01T00:00:00Z",
    "2026-01-01T00:00:00.123456789+14:00",
    "2026-01-01t00:00:00-23:59",
    "2016-12-31T23:59:60Z",
    "2026-01-01T24:00:00Z",
    "10.0.0.0/8",
    "::/0",
    "999.1.1.1/40",
    "https://a.example.org/x",
    "ann@example.org",
    "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2g",
];
const NUMBERS: [i64; 11] = [
    0,
    1,
    -1,
    22,
    443,
    70000,
    2_147_483_648,
    4_294_967_295,
    4_294_967_296,
    i64::MAX,
    i64::MIN,
];

/// Paths to every field that `schema` names.
fn fields(schema: &Value, at: &[String], all: &mut Vec<Vec<String>>) {
    let below = |name: &str| [at, &[name.to_owned()]].concat();
    if !at.is_empty() {
        all.push(at.to_vec());
    }
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        fields(schema, &below(name), all);
    }
    if schema["items"].is_object() {
        fields(&schema["items"], &below("0"), all);
    }
    if schema["additionalProperties"].is_object() {
        fields(&schema["additionalProperties"], &below("key"), all);
    }
}

fn below<'a>(schema: &'a Value, name: &str) -> &'a Value {
    match schema["type"].as_str() {
        Some("array") => &schema["items"],
        _ if schema["properties"][name].is_object() => &schema["properties"][name],
        _ => &schema["additionalProperties"],
    }
}

/// The least that a schema asks for.
fn least(schema: &Value) -> Value {
    if let Some(default) = schema.get("default").or(schema["enum"].get(0)) {
        return default.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten();
            required
                .filter_map(Value::as_str)
                .map(|name| (name.to_owned(), least(below(schema, name))))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        Some("array") => json!([]),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(false),
        _ if schema["format"] == "date-time" => json!("2026-01-01T00:00:00Z"),
        _ => json!("aa"),
    }
}

fn put(at: &mut Value, schema: &Value, path: &[String], value: Value) {
    let [first, rest @ ..] = path else {
        *at = value;
        return;
    };
    let inner = below(schema, first);
    if schema["type"] == "array" {
        if at.get(0).is_none() {
            *at = json!([least(inner)]);
        }
        return put(&mut at[0], inner, rest, value);
    }
    if !at.is_object() {
        *at = least(schema);
    }
    if at.get(first).is_none() {
        at[first.as_str()] = least(inner);
    }
    put(&mut at[first.as_str()], inner, rest, value);
}

/// What may be tried in a field.
fn values(schema: &Value) -> Vec<Value> {
    let enums = schema["enum"].as_array().cloned().unwrap_or_default();
    let texts = TEXTS.iter().map(|text| json!(text));
    let numbers = NUMBERS.iter().map(|number| json!(number));
    let others = [json!(null), json!(true), json!(1.5), json!([]), json!({})];
    let all = enums.into_iter().chain(others);
    match schema["type"].as_str() {
        Some("integer" | "number") => all.chain(numbers).collect(),
        Some("object" | "array" | "boolean") => all.collect(),
        Some("string") => all.chain(texts).collect(),
        _ => all.chain(texts).chain(numbers).collect(),
    }
}

/// Tries everything in objects of kind `K` like one with this spec. Gives how
/// many cannot be read and are refused, and which are admitted.
async fn try_all<K: Object + CustomResourceExt>(name: &str, spec: Value) -> (usize, Vec<String>) {
    let fake = FakeCluster::builder().crds([K::crd()]).build().unwrap();
    let crd = serde_json::to_value(K::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = if crd["spec"]["scope"] == "Namespaced" {
        Api::namespaced_with(fake.client(), "default", &resource)
    } else {
        Api::all_with(fake.client(), &resource)
    };
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let base = DynamicObject::new(name, &resource).data(json!({ "spec": spec }));
    api.create(&dry, &base).await.unwrap();
    let (mut refused, mut admitted) = (0, Vec::new());
    let mut paths = Vec::new();
    fields(schema, &[], &mut paths);
    for path in paths {
        let at = path.iter().fold(schema, |at, name| below(at, name));
        for value in values(at) {
            let mut object = base.clone();
            put(&mut object.data["spec"], schema, &path, value.clone());
            let unread = serde_json::from_value::<K>(serde_json::to_value(&object).unwrap());
            let Err(error) = unread else { continue };
            // What is stored may be another: fields are dropped and defaulted.
            let Ok(stored) = api.create(&dry, &object).await else {
                refused += 1;
                continue;
            };
            if serde_json::from_value::<K>(serde_json::to_value(&stored).unwrap()).is_err() {
                let (kind, path) = (K::kind(&()), path.join("."));
                admitted.push(format!("{kind} spec.{path} = {value}: {error}"));
            }
        }
    }
    (refused, admitted)
}

#[tokio::test(start_paused = true)]
async fn what_the_crds_admit_can_be_read() {
    let size = json!({"cpu": 1, "memory": "1Gi", "disk": "10Gi", "image": "debian-12"});
    let mut vm = size.clone();
    vm["sshId"] = json!("web");
    let holder = json!({"kind": "KiteUser", "name": "dev", "uid": "1"});
    let http = json!({"http": {"url": "https://example.org/a.qcow2"}});
    let tokens = json!({"access": [], "refresh": [], "rotatedAt": "2026-01-01T00:00:00Z"});
    let session = json!({
        "user": "dev", "userUid": "1", "expiresAt": "2026-01-01T00:00:00Z", "tokens": tokens,
    });
    let token = json!({
        "user": "dev", "userUid": "1", "name": "ci", "hash": "x", "scopes": ["vms:read"],
        "expiresAt": "2026-01-01T00:00:00Z",
    });
    let invite = json!({
        "hash": "x", "createdBy": {"name": "dev", "uid": "1"},
        "expiresAt": "2026-01-01T00:00:00Z",
    });
    let factor = json!({"userUid": "1", "sealedSecret": "x"});
    let connection = json!({
        "vm": {"name": "web", "uid": "1"}, "owner": "dev", "login": "web", "kind": "Ssh",
        "instance": "1", "number": 1, "openedAt": "2026-01-01T00:00:00Z",
    });
    let claim = json!({"claim": "Username", "holder": holder});
    let image = json!({"source": http, "minDisk": "5Gi"});
    let tried = [
        try_all::<KiteVirtualMachine>("vm", vm).await,
        try_all::<KiteVirtualMachineOffer>("offer", size).await,
        try_all::<KiteUser>("dev", json!({"username": "dev"})).await,
        try_all::<KiteImage>("image", image).await,
        try_all::<KitePlatform>("default", json!({})).await,
        try_all::<KiteReservation>("claim", claim).await,
        try_all::<KiteSession>("session", session).await,
        try_all::<KiteToken>("token", token).await,
        try_all::<KiteInvite>("invite", invite).await,
        try_all::<KiteSecondFactor>("dev", factor).await,
        try_all::<KiteConnection>("c-1-1", connection).await,
    ];
    for (refused, _) in &tried {
        assert!(*refused > 10, "nothing was tried that cannot be read");
    }
    let admitted: Vec<_> = tried
        .into_iter()
        .flat_map(|(_, admitted)| admitted)
        .collect();
    assert!(admitted.is_empty(), "{}", admitted.join("\n"));
}
