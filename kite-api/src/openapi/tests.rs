//! The document against what reads it.

#![allow(clippy::unwrap_used)]

use http::Method;
use kite_identity::openapi::LED_TO;
use kite_rest::{Shape, not_understood, query::Queries};
use serde_json::Value;

use crate::openapi_document;

fn told(path: &str, query: &str) -> Vec<(String, Option<Value>, String)> {
    let queries = Queries::of(&openapi_document(), &LED_TO);
    let errors = queries.faults(path, &Method::GET, query).into_iter();
    let told = errors.map(|it| (it.field, it.value, it.message));
    told.collect()
}

#[test]
fn everything_that_parameters_say_is_looked_at() {
    let document = openapi_document();
    let mut count = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        assert!(path.starts_with("/api/v1/") || path == "/health", "{path}");
        let operations = methods.as_object().unwrap().values();
        let parameters = operations
            .filter_map(|it| it["parameters"].as_array())
            .flatten();
        for parameter in parameters.filter(|it| it["in"] == "query") {
            count += 1;
            let (name, schema) = (&parameter["name"], &parameter["schema"]);
            let shape = schema["$ref"].as_str();
            let shape = shape.map_or(schema, |it| document.pointer(&it[1..]).unwrap());
            for schema in [schema, shape] {
                let unknown = not_understood(schema, &[]);
                assert!(unknown.is_empty(), "{path} {name}: {unknown:?}");
            }
        }
    }
    assert!(count > 30, "{count}");
    // One that has to be there would have to be looked for.
    for methods in document["paths"].as_object().unwrap().values() {
        for operation in methods.as_object().unwrap().values() {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            for it in parameters.filter(|it| it["in"] == "query") {
                assert_ne!(it["required"], true, "{it}");
            }
        }
    }
    for id in LED_TO {
        let id = format!("\"operationId\":\"{id}\"");
        assert!(document.to_string().contains(&id), "{id}");
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let vms = "/api/v1/vms";
    assert_eq!(told(vms, "owner=ann&all=true&phase=Running&limit=1"), []);
    assert_eq!(told(vms, ""), []);
    let wrong = "onwer=bob&all=perhaps&limit=%2B5&search=a&search=b&phase=Foo&kite_token=x";
    let told = told(vms, wrong);
    let fields: Vec<_> = told.iter().map(|(field, ..)| field.as_str()).collect();
    assert_eq!(
        fields,
        ["onwer", "all", "limit", "search", "phase", "kite_token"]
    );
    let values: Vec<_> = told.iter().map(|(_, value, _)| value.clone()).collect();
    let text = |text: &str| Some(Value::from(text));
    assert_eq!(values[..3], [text("bob"), text("perhaps"), text("+5")]);
    assert_eq!(values[3], Some(Value::from(vec!["a", "b"])));
    assert_eq!(values[5], None, "a secret");
    let messages: Vec<_> = told.iter().map(|(.., message)| message.as_str()).collect();
    assert_eq!(
        messages[0],
        "is not a parameter of this request: write one of all, owner, phase, after, limit, \
         search"
    );
    assert_eq!(messages[1], "write true or false");
    assert_eq!(messages[2], "write a whole number from 1 to 1000");
    assert_eq!(messages[3], "is there 2 times: write it once");
    assert!(messages[4].starts_with("write one of Pending, Prov"));
}

#[test]
fn heads_and_nested_routers_are_looked_at_and_other_paths_are_not() {
    let queries = Queries::of(&openapi_document(), &LED_TO);
    let is_looked_at = |path: &str, method| !queries.faults(path, &method, "x=1").is_empty();
    for path in ["/api/v1/vms", "/kite/api/v1/vms", "/api/v1/mine/api/v1/vms"] {
        assert!(is_looked_at(path, Method::GET), "{path}");
        assert!(is_looked_at(path, Method::HEAD), "{path}");
    }
    assert!(!is_looked_at("/api/v1/vms", Method::PUT));
    assert!(!is_looked_at("/api/v1/console", Method::GET));
    assert!(!is_looked_at("/", Method::GET));
}

#[test]
fn what_a_provider_adds_is_passed_over_but_nothing_is_there_twice() {
    let back = "/api/v1/auth/oidc/{name}/callback";
    assert_eq!(told(back, "code=a&state=b&session_state=c&x=1&x=2"), []);
    let twice = told(back, "code=abc&code=def&state=g&state=h");
    for (told, field) in twice.iter().zip(["code", "state"]) {
        let message = "is there 2 times: write it once".to_owned();
        assert_eq!(told, &(field.to_owned(), None, message));
    }
    assert_eq!(twice.len(), 2);
}

#[test]
fn every_body_has_an_example_that_fits_its_schema() {
    let document = openapi_document();
    let mut count = 0;
    let paths = document["paths"].as_object().unwrap().iter();
    for (path, operations) in paths {
        for (method, operation) in operations.as_object().unwrap() {
            let Some(body) = operation.get("requestBody") else {
                continue;
            };
            let body = &body["content"]["application/json"];
            let example = body
                .get("example")
                .unwrap_or_else(|| panic!("{method} {path}"));
            let faults = Shape::new(&document, &body["schema"]).faults(example, "");
            assert_eq!(faults, [], "{method} {path}");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}
