//! What the definitions of Kite's kinds admit, Kite reads: every field of every kind, with
//! values of all spellings that an API server may take. The judge of what is admitted is
//! the schema and the rules as this API server understands them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::LazyLock;

use kite_core::crd;
use kite_fake::FakeCluster;
use kite_fake::schema::{Schema, apply_defaults, validate};
use kube::CustomResourceExt;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Texts of which one fits each field that must be there.
const WORDS: &[&str] = &[
    "web",
    "1Gi",
    "2h",
    "2026-05-04T08:00:00Z",
    "ann@example.org",
    "https://example.org/a",
    "docker://example.org/a",
    "docker://example.org/a/",
    "10.0.0.0/8",
    "192.0.2.53",
    "True",
    "$2b$04$abcdefghijklmnopqrstuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu",
    "ssh-ed25519 AAAA",
    "sha256:00",
    "0 3 * * 0",
    "0123456789abcdef0123456789abcdef",
];

/// Texts that are odd and may be admitted.
const ODD: &[&str] = &[
    "",
    " ",
    "0",
    "-1",
    "+1h",
    "1h-1m",
    "0.1ns",
    "1.h",
    ".5h",
    "999999999h",
    "0s",
    "1ms1us1ns",
    "64Mi",
    "0.001Ti",
    "999999999999999Ti",
    "1024Ti",
    "1.5Gi",
    "1e3",
    "2026-05-04T08:00:00.1234567891Z",
    "2026-05-04T08:00:00.123456789123456789Z",
    "2026-05-04T08:00:00+23:59",
    "2026-05-04T08:00:00-00:00",
    "2026-05-04T08:00:00+99:99",
    "2026-05-04t08:00:00z",
    "2026-05-04T08:00:00,5Z",
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "8999-12-31T23:59:59.9999999999Z",
    "9999-12-31T23:59:59-23:59",
    "2026-05-04T23:59:60Z",
    "ä",
    "한국어",
    "\u{1F600}",
    "\u{0}",
    "\u{1b}[31m",
    "ssh-rsa AAAA= \u{202e}gro",
    "a\u{0301}@example.org",
];

/// A kind: its schema, and whether an object of it can be read as a whole.
struct Kind {
    name: &'static str,
    json: Value,
    schema: Schema,
    base: Value,
    paths: Vec<Vec<String>>,
    read: fn(&Value) -> Result<(), String>,
}

fn kind<K: CustomResourceExt + DeserializeOwned>(
    name: &'static str,
    edit: impl Fn(&mut Value),
    unreadable: fn(&K) -> Option<&String>,
    read: fn(&Value) -> Result<(), String>,
) -> Kind {
    let _ = unreadable;
    let crd = serde_json::to_value(K::crd()).unwrap();
    let json = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    let mut base = json!({
        "apiVersion": "hy3ons.github.io/v1",
        "kind": name,
        "metadata": {"name": "web", "namespace": "kite-user-ann", "uid": "u"},
        "spec": sample(&json["properties"]["spec"]),
    });
    edit(&mut base);
    let mut paths = Vec::new();
    for part in ["spec", "status"] {
        let schema = &json["properties"][part];
        if !schema.is_null() {
            leaves(schema, &mut vec![part.to_owned()], &mut paths);
        }
    }
    let kind = Kind {
        name,
        schema: Schema::from_json(&json).unwrap(),
        json,
        base,
        paths,
        read,
    };
    assert!(is_admitted(&kind, &kind.base), "{name}: {}", kind.base);
    let fields = kind.json["properties"]["spec"]["properties"].as_object();
    let fields: Vec<_> = fields.unwrap().keys().collect();
    assert!(fields.len() > 1, "{name}");
    for field in fields {
        let is_reached = kind.paths.iter().any(|path| path.get(1) == Some(field));
        assert!(is_reached, "{name}: nothing is tried in spec.{field}");
    }
    kind
}

/// Reads as `K`; what of it cannot be read is an error.
macro_rules! kinds {
    ($($kind:ident $edit:expr, $unreadable:expr;)*) => {
        vec![$(kind::<crd::$kind>(stringify!($kind), $edit, $unreadable, |value| {
            let unreadable: fn(&crd::$kind) -> Option<&String> = $unreadable;
            match serde_json::from_value::<crd::$kind>(value.clone()) {
                Ok(object) => unreadable(&object).map_or(Ok(()), |why| Err(why.clone())),
                Err(error) => Err(error.to_string()),
            }
        })),*]
    };
}

/// What of the object's spec or status stands for something that cannot be read.
macro_rules! salvaged {
    ($object:ident) => {
        $object.spec.unreadable.as_ref().or_else(|| told!($object))
    };
}

/// The same of its status alone.
macro_rules! told {
    ($object:ident) => {
        $object
            .status
            .as_ref()
            .and_then(|status| status.unreadable.as_ref())
            .map(|unread| &unread.why)
    };
}

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    kinds! {
        KitePlatform |it| it["metadata"]["name"] = json!("default"),
            |it| salvaged!(it);
        KiteImage |it| it["spec"]["source"] = json!({"http": {"url": "https://example.org/a"}}),
            |it| salvaged!(it);
        KiteUser |_| (), |it| salvaged!(it);
        KiteVirtualMachine |_| (), |it| salvaged!(it);
        KiteVirtualMachineOffer |_| (), |it| salvaged!(it);
        KiteReservation |_| (), |_| None;
        KiteSession |_| (), |_| None;
        KiteToken |_| (), |it| told!(it);
        KiteInvite |_| (), |it| told!(it);
        KiteSecondFactor |_| (), |_| None;
        KitePassword |_| (), |_| None;
        KiteConnection |_| (), |_| None;
    }
});

/// The object as it is stored, if it is admitted.
fn stored(kind: &Kind, value: &Value) -> Option<Value> {
    let mut value = value.clone();
    apply_defaults(&kind.schema, &mut value);
    let is_admitted = validate(&kind.schema, &value, None).errors.is_empty();
    is_admitted.then_some(value)
}

fn is_admitted(kind: &Kind, value: &Value) -> bool {
    stored(kind, value).is_some()
}

/// A value that the schema takes, with nothing but what must be there.
fn sample(schema: &Value) -> Value {
    if let Some(word) = schema["enum"].get(0) {
        return word.clone();
    }
    match schema["type"].as_str() {
        Some("object") => object(schema),
        Some("array") => match schema["minItems"].as_u64() {
            None | Some(0) => json!([]),
            Some(_) => json!([sample(&schema["items"])]),
        },
        Some("integer") => schema["minimum"].as_f64().map_or(json!(1), |least| {
            json!(i64::max(1, format!("{least}").parse().unwrap()))
        }),
        Some("boolean") => json!(false),
        _ => {
            let judge = Schema::from_json(schema).unwrap();
            let mut words = WORDS.iter().map(|word| json!(word));
            let fits = |word: &Value| validate(&judge, word, None).errors.is_empty();
            words
                .find(fits)
                .unwrap_or_else(|| panic!("no word for {schema}"))
        }
    }
}

fn object(schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten();
    required
        .filter_map(Value::as_str)
        .map(|name| (name.to_owned(), sample(&schema["properties"][name])))
        .collect::<Map<_, _>>()
        .into()
}

/// The ways to all values that are no objects.
fn leaves(schema: &Value, at: &mut Vec<String>, into: &mut Vec<Vec<String>>) {
    let mut below = |name: &str, schema: &Value, into: &mut Vec<Vec<String>>| {
        at.push(name.to_owned());
        leaves(schema, at, into);
        at.pop();
    };
    if let Some(fields) = schema["properties"].as_object() {
        for (name, schema) in fields {
            below(name, schema, into);
        }
    } else if schema["items"].is_object() {
        below("0", &schema["items"], into);
    } else if schema["additionalProperties"].is_object() {
        below("a", &schema["additionalProperties"], into);
    } else {
        into.push(at.clone());
    }
}

/// The object with `value` at the place, and with what must stand beside it on the way.
fn with(kind: &Kind, path: &[String], value: &Value) -> Value {
    fn put(at: &mut Value, schema: &Value, path: &[String], value: &Value) {
        let Some((name, rest)) = path.split_first() else {
            *at = value.clone();
            return;
        };
        let (inner, below) = if schema["items"].is_object() {
            if at.get(0).is_none() {
                *at = json!([begun(&schema["items"], rest)]);
            }
            (&mut at[0], &schema["items"])
        } else {
            let below = match &schema["properties"][name] {
                Value::Null => &schema["additionalProperties"],
                below => below,
            };
            if at.get(name).is_none() {
                at[name] = begun(below, rest);
            }
            (&mut at[name], below)
        };
        put(inner, below, rest, value);
    }
    /// What is put there first: nothing where the value itself comes.
    fn begun(schema: &Value, rest: &[String]) -> Value {
        if rest.is_empty() {
            Value::Null
        } else {
            sample(schema)
        }
    }
    let mut object = kind.base.clone();
    put(&mut object, &kind.json, path, value);
    object
}

/// Fields that may not stand beside what the sample of their kind has, or not alone.
const BESIDE: &[(&str, &str)] = &[
    ("KiteImage", "spec.importsToKeep"),
    ("KiteImage", "spec.refreshSchedule"),
    ("KiteImage", "spec.source."),
    ("KiteReservation", "spec.fulfilled"),
    ("KiteReservation", "spec.kept."),
    ("KiteVirtualMachine", "spec.restore."),
];

/// What an enum, a number and a switch take; nothing of others, which take a word.
fn own_word(schema: &Value) -> Value {
    let is_one = schema["enum"].is_array() || schema["type"] == "integer";
    if is_one || schema["type"] == "boolean" {
        sample(schema)
    } else {
        Value::Null
    }
}

/// The schema of what is at a place.
fn schema_at<'a>(schema: &'a Value, path: &[String]) -> &'a Value {
    path.iter().fold(schema, |schema, name| {
        [
            &schema["properties"][name],
            &schema["items"],
            &schema["additionalProperties"],
        ]
        .into_iter()
        .find(|below| below.is_object())
        .unwrap_or(&Value::Null)
    })
}

/// Panics if the object is admitted and cannot be read. Whether it is admitted.
fn judge(kind: &Kind, path: &[String], value: &Value) -> bool {
    let Some(object) = stored(kind, &with(kind, path, value)) else {
        return false;
    };
    if let Err(why) = (kind.read)(&object) {
        let (name, place) = (kind.name, path.join("."));
        panic!("{name} {place}: {value} is admitted and cannot be read: {why}");
    }
    true
}

#[test]
fn the_definitions_are_taken() {
    let cluster = FakeCluster::builder().build().unwrap();
    let all = crd::all();
    assert!(all.len() >= 4, "{}", all.len());
    for definition in all {
        let name = definition.metadata.name.clone();
        let taken = cluster.create(serde_json::to_value(definition).unwrap());
        assert!(taken.is_ok(), "{name:?}: {taken:?}");
    }
}

#[test]
fn every_field_that_is_admitted_is_read() {
    let numbers = [
        json!(0),
        json!(-1),
        json!(1),
        json!(256),
        json!(65_535),
        json!(65_536),
        json!(u32::MAX),
        json!(u64::from(u32::MAX) + 1),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(1.5),
        json!(true),
        json!(null),
        json!([]),
        json!({}),
    ];
    let texts = WORDS.iter().chain(ODD).map(|text| json!(text));
    let values: Vec<Value> = texts.chain(numbers).collect();
    let mut nothing = Vec::new();
    for kind in KINDS.iter() {
        for path in &kind.paths {
            let own = [own_word(schema_at(&kind.json, path))];
            let taken = values.iter().chain(&own);
            let taken = taken.filter(|value| judge(kind, path, value)).count();
            let place = path.join(".");
            let is_beside =
                |(name, field): &(&str, &str)| *name == kind.name && place.starts_with(field);
            if taken == 0 && !BESIDE.iter().any(is_beside) {
                nothing.push(format!("{} {place}", kind.name));
            }
        }
    }
    assert!(
        nothing.is_empty(),
        "no value is tried that these take: {nothing:#?}"
    );
    // Not for want of something that is admitted.
    let vm = KINDS.iter().find(|it| it.name == "KiteVirtualMachine");
    let vm = vm.unwrap();
    let at = |name: &str| ["spec".to_owned(), name.to_owned()];
    for (field, text) in [
        ("expiresAt", "2026-05-04T08:00:00.1234567891Z"),
        ("expiryGracePeriod", "1ms1us1ns"),
        ("memory", "1.5Gi"),
    ] {
        assert!(judge(vm, &at(field), &json!(text)), "{field}");
    }
    let restore = json!({
        "snapshot": "before", "at": "2026-05-04T08:00:00.1234567891Z", "keep": "1h1ms",
    });
    assert!(judge(vm, &at("restore"), &restore), "{restore}");
    for (field, text) in [("expiryGracePeriod", "0.1ns"), ("idleTimeout", "+1h")] {
        assert!(!judge(vm, &at(field), &json!(text)), "{field}");
    }
}

/// Texts of the forms that fields have, and others.
fn spelling() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{4}-[0-1][0-9]-[0-3][0-9][Tt][0-2][0-9]:[0-6][0-9]:[0-6][0-9]([.,x][0-9]{1,24})?([Zz]|[+-][0-9]{2}:[0-9]{2})",
        "[089]{4}-(01|12)-(01|31)T(00|23):(00|59):(00|59)(\\.[09]{1,12})?(Z|[+-](00|14|23):(00|59))",
        "([0-9]{1,10}(\\.[0-9]{0,10})?(h|m|s|ms|us|ns|µs)){1,4}",
        "[+-]?[0-9]{0,16}(\\.[0-9]{0,4})?(Ki|Mi|Gi|Ti|Pi|k|K|M|G|T|m|e3|E)?",
        "\\$argon2id\\$v=19\\$m=[0-9]{1,6},t=[0-9]{1,2},p=[0-9]{1,2}\\$[A-Za-z0-9+/]{11,86}\\$[A-Za-z0-9+/]{14,86}",
        "(ssh-rsa|ssh-ed25519) [A-Za-z0-9+/]{1,40}={0,3}( .{0,20})?",
        "[a-z0-9.-]{1,64}",
        ".{0,40}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn whatever_spelling_is_admitted_is_read(
        kind in 0..KINDS.len(), place in any::<prop::sample::Index>(), text in spelling()
    ) {
        let kind = &KINDS[kind];
        judge(kind, &kind.paths[place.index(kind.paths.len())], &json!(text));
    }

    /// The times and spans of what tenants write, where most is at stake.
    #[test]
    fn whatever_tenants_spell_is_read(
        field in prop::sample::select(vec![
            "expiresAt", "expiryGracePeriod", "idleTimeout", "memory", "disk", "sshPasswordHash",
            "restartedAt",
        ]),
        text in spelling()
    ) {
        let vm = KINDS.iter().find(|it| it.name == "KiteVirtualMachine").unwrap();
        judge(vm, &["spec".to_owned(), field.to_owned()], &json!(text));
    }

    /// The HTTP API reads spans in the same way as the definitions.
    #[test]
    fn spans_are_taken_by_definition_and_parser_alike(
        text in "([0-9]{1,10}(\\.[0-9]{0,10})?(h|m|s|ms|us|ns|µs|d)?[+ -]?){1,4}"
    ) {
        let vm = KINDS.iter().find(|it| it.name == "KiteVirtualMachine").unwrap();
        let path = ["spec".to_owned(), "expiryGracePeriod".to_owned()];
        let is_admitted = is_admitted(vm, &with(vm, &path, &json!(text)));
        let parsed = text.parse::<kite_core::span::Span>();
        let year = std::time::Duration::from_secs(8784 * 3600);
        let is_taken = parsed.is_ok_and(|span| span.duration() <= year);
        prop_assert_eq!(is_admitted, is_taken, "{}", text);
    }
}
