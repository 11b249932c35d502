//! Answers as texts: order of members, escapes, line feeds. What is expected here is what
//! a real server of 1.36 writes, but for uids, times and versions.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use kite_fake::FakeCluster;
use kite_fake::service::ResponseBody;
use serde_json::{Value, json};
use tower::ServiceExt as _;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIALS: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

struct Server(FakeCluster);

impl Server {
    /// One that serves Widgets, too.
    async fn new() -> Self {
        let server = Self(FakeCluster::builder().build().unwrap());
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    }}},
                }}],
            },
        });
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        server.post(definitions, &definition).await;
        server
    }

    async fn open(&self, request: http::request::Builder, body: String) -> Response<ResponseBody> {
        let request = request.header("user-agent", "texts/1.0");
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        self.0.service().oneshot(request).await.unwrap()
    }

    async fn send(&self, request: http::request::Builder, body: String) -> String {
        let body = self.open(request, body).await.into_body();
        masked(&body.collect().await.unwrap().to_bytes())
    }

    async fn post(&self, path: &str, body: &Value) -> String {
        self.send(Request::post(path), body.to_string()).await
    }

    async fn get(&self, path: &str) -> String {
        self.send(Request::get(path), String::new()).await
    }

    async fn get_as(&self, path: &str, accept: &str) -> String {
        let request = Request::get(path).header("accept", accept);
        self.send(request, String::new()).await
    }

    /// A `ConfigMap` and a Widget, each with an owner and a member for HTML to trip over.
    async fn fill(&self) -> [String; 2] {
        let metadata = json!({
            "name": "a", "labels": {"b": "1", "a": "2"},
            "ownerReferences": [{"uid": "u", "name": "n", "kind": "K", "apiVersion": "v1"}],
        });
        let map = json!({"metadata": metadata, "data": {"z": "<&>", "b": "\u{2028}"}});
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": metadata, "spec": {"z": "<&>", "b": 1.5, "a": 1e2},
        });
        [
            self.post(MAPS, &map).await,
            self.post(WIDGETS, &widget).await,
        ]
    }
}

/// A text without what no two servers have in common.
fn masked(body: &[u8]) -> String {
    let text = std::str::from_utf8(body).unwrap();
    let mut out = String::new();
    let mut rest = text;
    while let Some((name, place)) = ["uid", "creationTimestamp", "time", "resourceVersion"]
        .iter()
        .filter_map(|name| Some((name, rest.find(&format!("\"{name}\":\""))?)))
        .min_by_key(|(_, place)| *place)
    {
        let value = place + name.len() + 4;
        out.push_str(&rest[..value]);
        out.push('-');
        let end = rest[value..].find('"').unwrap();
        rest = &rest[value + end..];
    }
    out + rest
}

const MAP_METADATA: &str = concat!(
    r#"{"name":"a","namespace":"default","uid":"-","resourceVersion":"-","#,
    r#""creationTimestamp":"-","labels":{"a":"2","b":"1"},"ownerReferences":[{"apiVersion":"v1","#,
    r#""kind":"K","name":"n","uid":"-"}],"managedFields":[{"manager":"texts","#,
    r#""operation":"Update","apiVersion":"v1","time":"-","fieldsType":"FieldsV1","fieldsV1":{"#,
    r#""f:data":{".":{},"f:b":{},"f:z":{}},"f:metadata":{"f:labels":{".":{},"f:a":{},"f:b":{}},"#,
    r#""f:ownerReferences":{".":{},"k:{\"uid\":\"u\"}":{}}}}}]}"#,
);
const DATA: &str = r#""data":{"b":"\u2028","z":"\u003c\u0026\u003e"}"#;

/// The Widget's fields in the order of their names.
const WIDGET: &str = concat!(
    r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"creationTimestamp":"-","#,
    r#""generation":1,"labels":{"a":"2","b":"1"},"managedFields":[{"apiVersion":"example.com/v1","#,
    r#""fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:a":{},"f:b":{}},"#,
    r#""f:ownerReferences":{".":{},"k:{\"uid\":\"u\"}":{}}},"f:spec":{".":{},"f:a":{},"f:b":{},"#,
    r#""f:z":{}}},"manager":"texts","operation":"Update","time":"-"}],"name":"a","#,
    r#""namespace":"default","ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","#,
    r#""uid":"-"}],"resourceVersion":"-","uid":"-"},"#,
    r#""spec":{"a":100,"b":1.5,"z":"\u003c\u0026\u003e"}}"#,
);

#[tokio::test]
async fn an_object_and_its_list_are_in_the_order_of_their_type() {
    let server = Server::new().await;
    let [map, widget] = server.fill().await;
    let expected = format!(
        "{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{MAP_METADATA},{DATA}}}\n"
    );
    assert_eq!(map, expected);
    assert_eq!(server.get(&format!("{MAPS}/a")).await, expected);
    let expected = format!(
        "{{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"-\"}},\"items\":[{{\"metadata\":{MAP_METADATA},{DATA}}}]}}\n"
    );
    let some = format!("{MAPS}?labelSelector=a");
    assert_eq!(server.get(&some).await, expected);

    assert_eq!(widget, format!("{WIDGET}\n"));
    let expected = format!(
        "{{\"apiVersion\":\"example.com/v1\",\"items\":[{WIDGET}],\"kind\":\"WidgetList\",\"metadata\":{{\"continue\":\"\",\"resourceVersion\":\"-\"}}}}\n"
    );
    assert_eq!(server.get(WIDGETS).await, expected);
}

#[tokio::test]
async fn metadata_alone_is_in_the_order_of_its_type_whatever_it_is_of() {
    let server = Server::new().await;
    server.fill().await;
    let partial = |metadata: &str| {
        format!(
            "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata}}}"
        )
    };
    let map = server.get_as(&format!("{MAPS}/a"), PARTIAL).await;
    assert_eq!(map, partial(MAP_METADATA) + "\n");
    let metadata = concat!(
        r#"{"name":"a","namespace":"default","uid":"-","resourceVersion":"-","generation":1,"#,
        r#""creationTimestamp":"-","labels":{"a":"2","b":"1"},"ownerReferences":[{"#,
        r#""apiVersion":"v1","kind":"K","name":"n","uid":"-"}],"managedFields":[{"#,
        r#""manager":"texts","operation":"Update","apiVersion":"example.com/v1","time":"-","#,
        r#""fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:a":{},"f:b":{}},"#,
        r#""f:ownerReferences":{".":{},"k:{\"uid\":\"u\"}":{}}},"#,
        r#""f:spec":{".":{},"f:a":{},"f:b":{},"f:z":{}}}}]}"#,
    );
    let one = server.get_as(&format!("{WIDGETS}/a"), PARTIAL).await;
    assert_eq!(one, partial(metadata) + "\n");
    let all = server.get_as(WIDGETS, PARTIALS).await;
    let expected = format!(
        "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{{\"resourceVersion\":\"-\"}},\"items\":[{}]}}\n",
        partial(metadata)
    );
    assert_eq!(all, expected);
}

#[tokio::test]
async fn events_are_lines() {
    let server = Server::new().await;
    server.fill().await;
    let open = "watch=true&resourceVersion=0&labelSelector=a&timeoutSeconds=0";
    let path = format!("{MAPS}?{open}");
    let expected = format!(
        "{{\"type\":\"ADDED\",\"object\":{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{MAP_METADATA},{DATA}}}}}\n"
    );
    assert_eq!(server.first_line(&path).await, expected);
    let expected = format!("{{\"type\":\"ADDED\",\"object\":{WIDGET}}}\n");
    let path = format!("{WIDGETS}?{open}");
    assert_eq!(server.first_line(&path).await, expected);
    server.0.server().compact();
    let path = format!("{MAPS}?watch=true&resourceVersion=2");
    assert_eq!(
        server
            .first_line(&path)
            .await
            .split("too old")
            .next()
            .unwrap(),
        r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":""#
    );
}

impl Server {
    /// What a watch sends first.
    async fn first_line(&self, path: &str) -> String {
        let response = self.open(Request::get(path), String::new()).await;
        let frame = response.into_body().frame().await.unwrap().unwrap();
        masked(&frame.into_data().unwrap())
    }
}

#[tokio::test]
async fn failures_and_documents_are_of_types_too() {
    let server = Server::new().await;
    let none = concat!(
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
        r#""message":"configmaps \"none\" not found","reason":"NotFound","#,
        r#""details":{"name":"none","kind":"configmaps"},"code":404}"#,
    );
    let path = format!("{MAPS}/none");
    assert_eq!(server.get(&path).await, format!("{none}\n"));
    // Nothing that is accepted can be: the failure is told all the same, for people.
    let told = server.get_as(&path, PARTIAL).await;
    assert!(told.starts_with("{\n  \"kind\": \"Status\",\n  \"apiVersion\": \"v1\",\n"));
    assert!(told.ends_with("\n  \"code\": 404\n}"), "{told}");
    let pretty = server.get(&format!("{path}?pretty=1")).await;
    assert_eq!(pretty, told);
    let apps = server.get("/apis/apps").await;
    assert_eq!(
        apps,
        concat!(
            r#"{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{"#,
            r#""groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"#,
            r#""groupVersion":"apps/v1","version":"v1"}}"#,
            "\n",
        )
    );
    let version = server.get("/version").await;
    assert!(version.starts_with("{\n  \"major\": \"1\",\n  \"minor\": \"36\",\n"));
    assert!(version.ends_with("\"\n}"));
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let aggregated = server.get_as("/api", aggregated).await;
    let head = concat!(
        r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"#,
        r#""items":[{"metadata":{},"versions":[{"version":"v1","resources":[{"resource":"#,
    );
    assert!(aggregated.starts_with(head), "{aggregated}");
}

#[tokio::test]
async fn a_custom_object_is_as_large_as_its_text() {
    let server = Server::new().await;
    let widget = |name: &str, text: &str| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": name}, "spec": {"text": text.repeat(300_000)},
        })
    };
    let small = server.post(WIDGETS, &widget("a", "x")).await;
    assert!(small.starts_with("{\"apiVersion\":\"example.com/v1\""));
    let large = server.post(WIDGETS, &widget("b", "<")).await;
    assert!(large.contains("etcdserver: request is too large"));
}
