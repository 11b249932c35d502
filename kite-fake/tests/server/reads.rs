//! What reads answer, beside the recorded cases.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use kite_fake::FakeCluster;
use kite_fake::service::ResponseBody;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt as _;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

struct Server(FakeCluster);

/// An answer, read to its end.
struct Answer {
    code: u16,
    headers: http::HeaderMap,
    body: Bytes,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn message(&self) -> String {
        self.json()["message"].as_str().unwrap().to_owned()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }

    fn events(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.body).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl Server {
    fn new() -> Self {
        Self(FakeCluster::builder().build().unwrap())
    }

    async fn open(&self, request: http::request::Builder, body: Value) -> Response<ResponseBody> {
        let body = if body.is_null() {
            Bytes::new()
        } else {
            body.to_string().into()
        };
        let request = request.body(Full::new(body)).unwrap();
        self.0.service().oneshot(request).await.unwrap()
    }

    async fn send(&self, request: http::request::Builder, body: Value) -> Answer {
        let (parts, body) = self.open(request, body).await.into_parts();
        Answer {
            code: parts.status.as_u16(),
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path), Value::Null).await
    }

    async fn get_as(&self, path: &str, accept: &str) -> Answer {
        let request = Request::get(path).header(header::ACCEPT, accept);
        self.send(request, Value::Null).await
    }

    async fn map(&self, name: &str, labels: Value) -> Answer {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": labels}});
        self.send(Request::post(MAPS), map).await
    }

    fn revision(&self) -> u64 {
        self.0.server().store().revision()
    }
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|i| i["metadata"]["name"].as_str().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_state_from_the_future_is_waited_for() {
    let server = Server::new();
    let next = server.revision() + 1;
    let start = Instant::now();
    let late = server.get(&format!("{MAPS}?resourceVersion=999999")).await;
    assert_eq!((late.code, late.header("retry-after")), (504, "1"));
    assert_eq!(start.elapsed(), Duration::from_secs(3));

    let path = format!("{MAPS}?resourceVersion={next}");
    let (list, _) = tokio::join!(server.get(&path), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.map("a", json!({})).await
    });
    assert_eq!((list.code, names(&list.json())), (200, vec!["a"]));
    assert_eq!(start.elapsed(), Duration::from_secs(4));

    let stream = format!(
        "{MAPS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999"
    );
    let events = server.get(&stream).await.events();
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0]["type"], &events[0]["object"]["code"]),
        (&json!("ERROR"), &json!(504))
    );
}

#[tokio::test(start_paused = true)]
async fn a_page_does_not_look_for_what_comes_next() {
    let server = Server::new();
    for (name, label) in [("a", "x"), ("b", "y"), ("c", "y")] {
        server.map(name, json!({"l": label})).await;
    }
    let page = server
        .get(&format!("{MAPS}?limit=1&labelSelector=l%3Dx"))
        .await
        .json();
    let token = page["metadata"]["continue"].as_str().unwrap();
    assert_eq!(page["metadata"].get("remainingItemCount"), None);
    let rest = server
        .get(&format!(
            "{MAPS}?limit=1&labelSelector=l%3Dx&continue={token}"
        ))
        .await
        .json();
    assert_eq!(
        (names(&rest), rest["metadata"].get("continue")),
        (vec![], None)
    );
    // A single name is looked up, not searched for.
    let one = server
        .get(&format!("{MAPS}?limit=1&fieldSelector=metadata.name%3Da"))
        .await
        .json();
    assert_eq!(
        (names(&one), one["metadata"].get("continue")),
        (vec!["a"], None)
    );
}

#[tokio::test(start_paused = true)]
async fn tokens_that_make_no_sense_are_refused() {
    let server = Server::new();
    let why = async |token: Value| {
        use base64::Engine as _;
        let token = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token.to_string());
        let answer = server
            .get(&format!("{MAPS}?limit=1&continue={token}"))
            .await;
        assert_eq!(answer.code, 400);
        answer
            .message()
            .replace("invalid continue token: continue key is not valid: ", "")
    };
    assert_eq!(
        why(json!({"v": "v9", "rv": 1, "start": "a"})).await,
        "server does not recognize this encoded version v9"
    );
    assert_eq!(
        why(json!({"v": "meta.k8s.io/v1", "start": "a"})).await,
        "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
    );
    assert_eq!(
        why(json!({"v": "meta.k8s.io/v1", "rv": 1})).await,
        "encoded start key empty (version meta.k8s.io/v1)"
    );
}

#[tokio::test(start_paused = true)]
async fn a_get_and_a_list_say_differently_what_no_revision_is() {
    let server = Server::new();
    let why =
        "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax";
    let get = server.get(&format!("{MAPS}/a?resourceVersion=x")).await;
    assert_eq!((get.code, get.message()), (500, why.to_owned()));
    let list = server.get(&format!("{MAPS}?resourceVersion=x")).await;
    let expected = format!("invalid resource version: {why}");
    assert_eq!((list.code, list.message()), (400, expected));
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_shown_as_it_was_asked_for() {
    let server = Server::new();
    server.map("a", json!({})).await;
    let watch = format!(
        "{MAPS}?watch=true&timeoutSeconds=5&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    );
    let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let events = server.get_as(&watch, partial).await.events();
    let kinds: Vec<_> = events
        .iter()
        .map(|e| (&e["type"], &e["object"]["kind"]))
        .collect();
    let expected = json!("PartialObjectMetadata");
    assert_eq!(
        kinds[kinds.len() - 1],
        (&json!("BOOKMARK"), &expected),
        "{kinds:?}"
    );
    let tables = server.get_as(&watch, TABLE).await.events();
    let mark = tables.last().unwrap();
    assert_eq!(
        (&mark["type"], &mark["object"]["kind"]),
        (&json!("BOOKMARK"), &json!("Table"))
    );
    assert!(tables[0]["object"]["columnDefinitions"].is_array());
    assert!(mark["object"]["columnDefinitions"].is_null());

    let refused = server.get_as(&watch, "application/yaml").await;
    assert_eq!(refused.code, 406);
    assert!(String::from_utf8_lossy(&refused.body).contains("application/json;stream=watch"));
}

/// The stream is read all the while, as a server on a socket reads it.
#[tokio::test(start_paused = true)]
async fn a_watch_tells_how_far_it_got_past_what_is_none_of_its() {
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    let (other, own) = (json!({}), json!({"app": "a"}));
    for (selected, path, labels) in [
        ("", elsewhere, &other),
        ("&labelSelector=app%3Da", MAPS, &other),
        ("&labelSelector=app%3Da", elsewhere, &own),
        ("&fieldSelector=metadata.name%3Da", MAPS, &other),
        ("&fieldSelector=metadata.name%3Da", elsewhere, &other),
    ] {
        let server = Server::new();
        let start = server.revision();
        let watch = format!(
            "{MAPS}?watch=true&timeoutSeconds=5&allowWatchBookmarks=true&resourceVersion={start}{selected}"
        );
        let (told, made) = tokio::join!(server.get(&watch), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "x", "labels": labels}});
            server.send(Request::post(path), map).await
        });
        assert_eq!(made.code, 201);
        let events = told.events();
        let kinds: Vec<_> = events.iter().map(|event| &event["type"]).collect();
        assert_eq!(kinds, ["BOOKMARK"], "{selected} {path}");
        let version = &events[0]["object"]["metadata"]["resourceVersion"];
        assert_eq!(
            version.as_str().unwrap(),
            server.revision().to_string(),
            "{selected} {path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_named_watch_keeps_to_its_name() {
    let server = Server::new();
    let path = "/api/v1/watch/namespaces/default/configmaps/a";
    let other = server
        .get(&format!("{path}?fieldSelector=metadata.name%3Db"))
        .await;
    assert_eq!(other.code, 400);
    assert_eq!(
        other.message(),
        "fieldSelector metadata.name doesn't match requested name"
    );
    server.map("a", json!({})).await;
    server.map("b", json!({})).await;
    let same = server
        .get(&format!(
            "{path}?fieldSelector=metadata.name%3Da&timeoutSeconds=1"
        ))
        .await;
    assert_eq!(same.events().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn forms_that_cannot_be_made_are_named() {
    let server = Server::new();
    server.map("a", json!({})).await;
    let one = format!("{MAPS}/a");
    let bad = server
        .get_as(&format!("{one}?includeObject=All"), TABLE)
        .await;
    assert_eq!(bad.code, 400);
    assert_eq!(
        bad.message(),
        "Unable to convert to Table as requested: includeObject: Invalid value: \"All\": must be 'Metadata', 'Object', 'None', or empty"
    );
    let list = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let none = server.get_as(&one, list).await;
    assert_eq!(
        none.message(),
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"
    );
    let beta = server
        .get_as(&one, "application/json;as=Table;v=v1beta1;g=meta.k8s.io")
        .await
        .json();
    assert_eq!(beta["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(
        beta["rows"][0]["object"]["apiVersion"],
        "meta.k8s.io/v1beta1"
    );
    let missing = server
        .get_as(&format!("{MAPS}/none"), "application/yaml")
        .await;
    assert_eq!(
        (missing.code, missing.header("content-type")),
        (404, "application/yaml")
    );
    let person = Request::get(&one).header(header::USER_AGENT, "curl/8.0");
    let pretty = server.send(person, Value::Null).await;
    assert!(pretty.body.starts_with(b"{\n  \""), "{:?}", pretty.body);
}

#[tokio::test(start_paused = true)]
async fn documents_are_kept_by_their_tags() {
    let server = Server::new();
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for path in ["/apis", "/openapi/v2", "/openapi/v3"] {
        let first = server
            .get_as(path, &format!("{accept},application/json"))
            .await;
        let tag = first.header("etag").to_owned();
        assert!(tag.starts_with('"') && tag.len() == 130, "{path}: {tag}");
        let again = Request::get(path)
            .header(header::ACCEPT, format!("{accept},application/json"))
            .header(header::IF_NONE_MATCH, &tag);
        let again = server.send(again, Value::Null).await;
        assert_eq!((again.code, again.body.len()), (304, 0), "{path}");
        assert_eq!(again.header("etag"), tag);
    }
    let moved = server.get("/openapi/v3/api/v1?hash=OLD").await;
    assert_eq!(moved.code, 301);
    let there = server.get(moved.header("location")).await;
    assert_eq!(
        (there.code, there.header("cache-control")),
        (200, "public, immutable")
    );
}

#[tokio::test(start_paused = true)]
async fn the_router_knows_methods_and_forms() {
    let server = Server::new();
    let post = |path: &'static str| server.send(Request::post(path), Value::Null);
    for (path, code) in [
        ("/api", 405),
        ("/apis/apps/v1", 405),
        ("/version", 405),
        ("/apis", 200),
        ("/healthz", 200),
    ] {
        assert_eq!(post(path).await.code, code, "{path}");
    }
    let html = server.get_as("/api/v1", "text/html").await;
    assert!(html.message().starts_with("406: Not Acceptable"));
    let yaml = server.get_as("/apis", "application/yaml").await;
    assert_eq!(
        (yaml.code, yaml.header("content-type")),
        (200, "application/yaml")
    );
    assert_eq!(server.get("/openapi/v3/apis/none/v1").await.code, 404);
}

/// What is written between a watch's look and its BOOKMARK is told, not skipped.
#[tokio::test(start_paused = true)]
async fn a_bookmark_does_not_overtake_an_event() {
    let server = Server::new();
    let now = server.0.now();
    let uri = format!("{MAPS}?watch=1&allowWatchBookmarks=true");
    let request = Request::get(uri)
        .extension(kite_fake::auth::Identity::admin())
        .body(Bytes::new())
        .unwrap();
    let kite_fake::server::Answer::Watch(mut watch) = server.0.handle(request) else {
        panic!("no watch");
    };
    server.0.server().poll(&mut watch, now);
    server.map("late", Value::Null).await;
    assert!(server.0.server().bookmark(&mut watch, now).is_none());
    let lines = server.0.server().poll(&mut watch, now).unwrap();
    assert_eq!(lines.len(), 1);
    assert!(String::from_utf8_lossy(&lines[0]).contains("late"));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_is_one_request_in_the_log() {
    let server = Server::new();
    let future = server.revision() + 1;
    let mark = server.0.server().log().mark();
    let path = format!("{MAPS}?resourceVersion={future}");
    let (answer, _) = tokio::join!(server.get(&path), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.map("a", Value::Null).await
    });
    assert_eq!(answer.code, 200);
    let never = format!("{MAPS}?resourceVersion={}", future + 100);
    assert_eq!(server.get(&never).await.code, 504);
    let log = server.0.server();
    let codes: Vec<u16> = log
        .log()
        .since(&mark)
        .entries
        .iter()
        .map(|e| e.code)
        .collect();
    assert_eq!(codes, [201, 200, 504]);
}

#[tokio::test(start_paused = true)]
async fn states_of_the_past_are_forgotten_in_time() {
    let server = Server::new();
    for name in ["a", "b", "c"] {
        server.map(name, json!({})).await;
    }
    let page = server.get(&format!("{MAPS}?limit=1")).await.json();
    let token = page["metadata"]["continue"].as_str().unwrap();
    let rest = format!("{MAPS}?continue={token}");
    let then = page["metadata"]["resourceVersion"].as_str().unwrap();
    let exact = format!("{MAPS}?resourceVersion={then}&resourceVersionMatch=Exact");
    server.map("d", json!({})).await;
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(names(&server.get(&rest).await.json()), ["b", "c"]);
    tokio::time::sleep(Duration::from_secs(302)).await;
    server.map("e", json!({})).await;
    tokio::time::sleep(Duration::from_secs(302)).await;

    let late = server.get(&exact).await;
    assert_eq!(
        (late.code, late.message().as_str()),
        (410, "The resourceVersion for the provided list is too old.")
    );
    let late = server.get(&rest).await;
    let message = "The provided continue parameter is too old to display a consistent list result.";
    assert!(late.code == 410 && late.message().starts_with(message));
    // What is there now is told to those who do not mind.
    let token = late.json()["metadata"]["continue"]
        .as_str()
        .unwrap()
        .to_owned();
    let others = server.get(&format!("{MAPS}?continue={token}")).await;
    assert_eq!(names(&others.json()), ["b", "c", "d", "e"]);
    // A watch goes on from there.
    let watch = format!("{MAPS}?watch=true&timeoutSeconds=1&resourceVersion={then}");
    assert_eq!(server.get(&watch).await.events().len(), 2);
}
