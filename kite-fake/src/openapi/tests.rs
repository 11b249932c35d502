#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use super::*;
use crate::protobuf::wire::{Reader, Wire};
use crate::rest::query::Query;
use crate::server::crds;

fn registry() -> Registry {
    let mut registry = Registry::built_in();
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
        "description": "A shop", "properties": {"spec": {"type": "object", "nullable": true,
            "properties": {"port": {"x-kubernetes-int-or-string": true}, "$ref": {"type": "string"}}}}}}});
    let crd = json!({"metadata": {"name": "shops.a.example.com"}, "spec": {"group": "a.example.com", "scope": "Namespaced",
        "names": {"plural": "shops", "kind": "Shop"}, "versions": [version]}});
    for resource in crds::resources(&crd, 1) {
        registry.insert(resource);
    }
    registry
}

fn read(path: &str, accept: &str) -> Document {
    Documents::new(crate::builtin::json_schema)
        .document(
            &registry(),
            path,
            Asked {
                accept,
                query: &Query::default(),
            },
        )
        .unwrap()
        .unwrap()
}

fn parse(document: &Document) -> Value {
    serde_json::from_slice(&document.body).unwrap()
}

/// All references in a document.
fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str));
            members
                .values()
                .for_each(|member| references(member, found));
        }
        Value::Array(elements) => elements
            .iter()
            .for_each(|element| references(element, found)),
        _ => {}
    }
}

fn assert_references_resolve(document: &Value) {
    let mut found = BTreeSet::new();
    references(document, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let pointer = reference
            .strip_prefix('#')
            .unwrap_or_else(|| panic!("{reference} leads outside"));
        assert!(
            document.pointer(pointer).is_some(),
            "{reference} leads nowhere"
        );
    }
}

#[test]
fn every_document_of_the_index_is_there_and_whole() {
    let index = parse(&read("/openapi/v3", ""));
    let paths = index["paths"].as_object().unwrap();
    assert!(paths.contains_key("apis/a.example.com/v1") && paths.contains_key("api/v1"));
    for path in paths.keys() {
        let document = parse(&read(&format!("/openapi/v3/{path}"), ""));
        assert_eq!(document["openapi"], "3.0.0", "{path}");
        if document["components"].is_object() {
            assert_references_resolve(&document);
        }
    }
}

#[test]
fn clients_find_what_they_look_for() {
    let core = parse(&read("/openapi/v3/api/v1", ""));
    let pod = &core["components"]["schemas"]["io.k8s.api.core.v1.Pod"];
    assert_eq!(
        pod["x-kubernetes-group-version-kind"],
        json!([{"group": "", "kind": "Pod", "version": "v1"}])
    );
    let patch = &core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(
        parameters.iter().any(|p| p["name"] == "fieldValidation"),
        "kubectl validates itself without it"
    );
    let containers =
        &core["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(
        containers["x-kubernetes-patch-merge-key"], "name",
        "apply merges lists by it"
    );
}

#[test]
fn version_2_says_nothing_that_old_clients_would_refuse() {
    let document = parse(&read("/openapi/v2", ""));
    assert_references_resolve(&document);
    let shop = &document["definitions"]["com.example.a.v1.Shop"];
    assert_eq!(
        shop["properties"]["spec"],
        json!({}),
        "what may be null has no type"
    );
    assert!(
        document["definitions"]["com.example.a.v1.ShopList"]["properties"]["items"].is_object()
    );
}

#[test]
fn protobuf_carries_the_same_definitions() {
    let json = parse(&read("/openapi/v2", ""));
    let encoded = read(
        "/openapi/v2",
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    );
    assert_eq!(encoded.content_type, PROTOBUF);
    let part = |bytes: &[u8], number: u32| -> Vec<Vec<u8>> {
        let mut reader = Reader::new(bytes);
        let mut found = Vec::new();
        while let Some((at, wire)) = reader.tag("Document").unwrap() {
            if (at, wire) == (number, Wire::Bytes) {
                found.push(reader.bytes().unwrap().to_vec());
            } else {
                reader.skip(wire).unwrap();
            }
        }
        found
    };
    assert_eq!(part(&encoded.body, 1), [b"2.0".to_vec()]);
    let definitions = part(&encoded.body, 9).concat();
    let names: BTreeSet<String> = part(&definitions, 1)
        .iter()
        .map(|entry| String::from_utf8(part(entry, 1).concat()).unwrap())
        .collect();
    let expected: BTreeSet<String> = json["definitions"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(names, expected);
    let paths = part(&encoded.body, 8).concat();
    assert_eq!(
        part(&paths, 2).len(),
        json["paths"].as_object().unwrap().len()
    );
}

#[test]
fn documents_change_with_the_resources() {
    let mut documents = Documents::new(crate::builtin::json_schema);
    let mut ask = |registry: &Registry, path: &str, query: &str, accept: &str| {
        let query = Query::parse(query);
        let asked = Asked {
            accept,
            query: &query,
        };
        documents.document(registry, path, asked)
    };
    let before = ask(&Registry::built_in(), "/openapi/v3", "", "")
        .unwrap()
        .unwrap();
    let after = ask(&registry(), "/openapi/v3", "", "").unwrap().unwrap();
    assert_ne!(before.etag, after.etag);
    assert_eq!(
        ask(&registry(), "/openapi/v3/apis/none/v1", "", ""),
        Ok(None)
    );
    assert_eq!(
        ask(&registry(), "/openapi/v3/api/v1", "", "text/html"),
        Err(NotAcceptable)
    );
}

#[test]
fn the_index_names_the_edition_of_each_document() {
    let index = parse(&read("/openapi/v3", ""));
    for (key, entry) in index["paths"].as_object().unwrap() {
        let url = entry["serverRelativeURL"].as_str().unwrap();
        let (path, query) = url.split_once('?').unwrap();
        assert_eq!(path, format!("/openapi/v3/{key}"));
        let asked = |query: &str| {
            Documents::new(crate::builtin::json_schema)
                .document(
                    &registry(),
                    path,
                    Asked {
                        accept: "*/*",
                        query: &Query::parse(query),
                    },
                )
                .unwrap()
                .unwrap()
        };
        let found = asked(query);
        assert_eq!((found.cache, found.moved), ("public, immutable", None));
        let hash = query.strip_prefix("hash=").unwrap();
        assert_eq!(found.etag, Some(format!("\"{hash}\"")));
        assert_eq!(asked("hash=OLD").moved.as_deref(), Some(url));
    }
}
