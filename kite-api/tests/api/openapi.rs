//! The OpenAPI document: committed, and true.

use std::{collections::BTreeSet, path::Path};

use kite_core::crd::AccessLevel;
use serde_json::Value;

use crate::{lists::new_vm, world::World};

const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");

fn document() -> Value {
    kite_api::openapi_document()
}

#[test]
fn the_committed_document_is_what_the_handlers_say() {
    let mut text = serde_json::to_string_pretty(&document()).unwrap();
    text.push('\n');
    if std::env::var_os("KITE_BLESS").is_some() {
        std::fs::write(Path::new(COMMITTED), &text).unwrap();
    }
    let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
    assert!(
        committed == text,
        "kite-api/openapi.json is stale: write it anew with \
         KITE_BLESS=1 cargo test -p kite-api --test api openapi"
    );
}

/// Every operation with its method and path.
fn operations(document: &Value) -> Vec<(String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, methods)| {
        methods
            .as_object()
            .unwrap()
            .iter()
            .map(move |(method, operation)| {
                (
                    format!("{} {path}", method.to_uppercase()),
                    operation.clone(),
                )
            })
    });
    operations.collect()
}

#[test]
fn every_operation_says_what_it_is_for_and_what_it_answers() {
    let document = document();
    let tags: BTreeSet<_> = document["tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| tag["name"].as_str().unwrap())
        .collect();
    let mut ids = BTreeSet::new();
    for (what, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap().to_owned();
        assert!(ids.insert(id), "{what}: the id is used twice");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{what}");
        assert!(
            tags.contains(operation["tags"][0].as_str().unwrap()),
            "{what}"
        );
        let responses = operation["responses"].as_object().unwrap();
        assert!(
            responses
                .keys()
                .any(|status| status.starts_with(['2', '3'])),
            "{what}"
        );
        for status in ["500", "503"] {
            assert!(responses.contains_key(status), "{what}: {status}");
        }
        for parameter in operation["parameters"].as_array().unwrap_or(&Vec::new()) {
            let reference = parameter["$ref"].as_str();
            let parameter = reference.map_or(parameter, |it| document.pointer(&it[1..]).unwrap());
            assert!(parameter["description"].is_string(), "{what}: {parameter}");
        }
    }
    assert!(ids.len() > 20, "{ids:?}");
}

#[test]
fn what_was_written_may_be_brought_along_and_is_told_by_what_writes() {
    let document = document();
    let brought = serde_json::json!({"$ref": "#/components/parameters/Kite-Written"});
    let told = serde_json::json!({"$ref": "#/components/headers/Kite-Written"});
    for (what, operation) in operations(&document) {
        // It answers from no copy, and keeps nobody waiting.
        let is_health = what == "GET /api/v1/health";
        let parameters = operation["parameters"].as_array();
        let is_brought = parameters.is_some_and(|all| all.contains(&brought));
        assert_eq!(is_brought, !is_health, "{what}");
        for (status, response) in operation["responses"].as_object().unwrap() {
            let writes = !what.starts_with("GET ") && status.starts_with('2');
            let is_told = response["headers"]["Kite-Written"] == told;
            assert_eq!(is_told, writes, "{what}: {status}");
        }
    }
    for place in ["headers", "parameters"] {
        let it = &document["components"][place]["Kite-Written"];
        assert!(it["schema"]["pattern"].is_string(), "{it}");
    }
}

#[test]
fn refusals_that_pass_may_say_when_to_try_again() {
    let document = document();
    let when = serde_json::json!({"$ref": "#/components/headers/Retry-After"});
    for (what, operation) in operations(&document) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let kinds = response["description"].as_str().unwrap();
            let passing = [
                "`conflict`",
                "`too-many-requests`",
                "`not-ready`",
                "`unavailable`",
            ];
            let passes = passing.iter().any(|kind| kinds.contains(kind));
            let is_told = response["headers"]["Retry-After"] == when;
            assert_eq!(is_told, passes, "{what}: {status}: {response}");
        }
    }
    let it = &document["components"]["headers"]["Retry-After"];
    assert_eq!(it["schema"]["minimum"], 1, "{it}");
}

#[test]
fn answers_that_repeat_an_earlier_one_say_so_by_a_header() {
    let document = document();
    let said = serde_json::json!({"$ref": "#/components/headers/Idempotency-Replayed"});
    let mut found = 0;
    for (what, operation) in operations(&document) {
        let mut parameters = operation["parameters"].as_array().into_iter().flatten();
        let key = parameters.find(|it| it["name"] == "Idempotency-Key");
        if let Some(key) = key {
            assert_eq!(key["schema"]["maxLength"], 128, "{what}: {key}");
            found += 1;
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let may_repeat = key.is_some() && status.starts_with('2');
            let is_said = response["headers"]["Idempotency-Replayed"] == said;
            assert_eq!(is_said, may_repeat, "{what}: {status}");
        }
    }
    assert_eq!(found, 10);
}

#[tokio::test]
async fn what_is_edited_with_a_condition_is_answered_with_its_tag() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let made = world.post("/api/v1/vms", &root, new_vm("web")).await;
    assert_eq!(made.status, 201, "{made:?}");
    let web = world.vm("root", "web").await.unwrap();
    crate::data::snapshot(&world, &web, "web", serde_json::json!({})).await;
    crate::data::volume(&world, "root", "web", serde_json::json!({})).await;
    let document = document();
    let described = serde_json::json!({"$ref": "#/components/headers/ETag"});
    let tagged = |path: &str, method: &str| {
        let operation = &document["paths"][path][method];
        let mut responses = operation["responses"].as_object().unwrap().values();
        responses.any(|it| it["headers"]["ETag"] == described)
    };
    let mut edited = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let parameters = operations["patch"]["parameters"].as_array();
        let mut parameters = parameters.into_iter().flatten();
        if !parameters.any(|it| it["name"] == "If-Match") {
            continue;
        }
        edited += 1;
        assert!(tagged(path, "patch") && tagged(path, "get"), "{path}");
        let is_of_root = ["/vms/", "/snapshots/", "/volumes/"];
        let is_of_root = is_of_root.iter().any(|it| path.contains(it));
        let name = match () {
            () if is_of_root => "web",
            () if path.contains("/images/") => "debian-12",
            () => "root",
        };
        let answer = world.get(&path.replace("{name}", name), &root).await;
        assert_eq!(answer.headers["etag"], answer.text("/etag"), "{path}");
    }
    assert_eq!(edited, 7);
    // Lists have the tags of their items in these alone.
    assert!(!tagged("/api/v1/vms", "get"));
    assert!(tagged("/api/v1/vms", "post"));
}

#[test]
fn every_field_of_a_body_says_what_it_means() {
    let document = document();
    for (what, operation) in operations(&document) {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let Some(reference) = schema["$ref"].as_str() else {
            continue;
        };
        let body = document.pointer(&reference[1..]).unwrap();
        assert_eq!(body["additionalProperties"], false, "{what}");
        for (name, field) in body["properties"].as_object().unwrap() {
            assert!(field["description"].is_string(), "{what}: {name}: {field}");
        }
    }
}

/// Each property of the document by its place, wherever it is.
fn properties<'a>(value: &'a Value, place: &str, found: &mut Vec<(String, &'a Value)>) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let place = format!("{place}/{name}");
                if let ("properties", Some(known)) = (name.as_str(), inner.as_object()) {
                    let known = known.iter();
                    found.extend(known.map(|(name, it)| (format!("{place}/{name}"), it)));
                }
                properties(inner, &place, found);
            }
        }
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                properties(item, &format!("{place}/{n}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_property_says_what_it_is() {
    let document = document();
    let mut found = Vec::new();
    properties(&document, "", &mut found);
    // Each event of the stream of news has a description for all that it is.
    found.retain(|(place, _)| !place.contains("text/event-stream"));
    assert!(found.len() > 300, "{}", found.len());
    let is_bare = |it: &Value| it["description"].as_str().is_none_or(str::is_empty);
    let bare: Vec<_> = found.iter().filter(|(_, it)| is_bare(it)).collect();
    assert!(bare.is_empty(), "{bare:#?}");
}

/// Whether a schema is that of a time, or of one that may be null.
fn is_time(document: &Value, schema: &Value) -> bool {
    if let Some(reference) = schema["$ref"].as_str() {
        return is_time(document, document.pointer(&reference[1..]).unwrap());
    }
    let either = ["anyOf", "allOf"].map(|name| schema[name].as_array());
    let mut either = either.into_iter().flatten().flatten();
    schema["format"] == "date-time" || either.any(|it| is_time(document, it))
}

#[test]
fn every_time_is_one() {
    let document = document();
    let mut found = Vec::new();
    properties(&document, "", &mut found);
    let is_called =
        |name: &str| name.ends_with("At") || ["at", "notBefore", "notAfter"].contains(&name);
    found.retain(|(place, _)| is_called(place.rsplit('/').next().unwrap()));
    assert!(found.len() > 20, "{}", found.len());
    let others: Vec<_> = found
        .iter()
        .filter(|(_, it)| !is_time(&document, it))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn the_types_of_problems_are_a_list_and_both_cookies_are_told() {
    let document = document();
    let types = &document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"];
    let types = types.as_array().unwrap();
    assert_eq!(types.len(), kite_api::problem::ProblemKind::ALL.len());
    assert!(types.contains(&"urn:kite:problem:invalid".into()));
    let ways = document["components"]["securitySchemes"]
        .as_object()
        .unwrap();
    let cookies: Vec<_> = ways.values().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(cookies, ["kite_session", "__Host-kite_session"]);
    for (what, operation) in operations(&document) {
        let taken = operation["security"].as_array().map_or(0, Vec::len);
        assert!([0, ways.len()].contains(&taken), "{what}");
    }
}

#[test]
fn what_is_referred_to_is_there_and_nothing_of_kubernetes_is_left() {
    let document = document();
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let reference = reference.split('"').next().unwrap();
        assert!(document.pointer(reference).is_some(), "{reference}");
    }
    assert!(!text.contains("x-kubernetes"));
}
