//! HTTP as such: what no handler is asked about.

use axum::body::Body;
use http::{Method, Request, header};
use kite_core::{
    cluster::{Cluster as _, ObjectKey},
    crd::{AccessLevel, GatewayHostKey, KitePlatform, KitePlatformSpec, KitePlatformStatus},
    names,
};
use serde_json::json;
use tower::ServiceExt as _;

use crate::world::{World, request, send};

#[tokio::test]
async fn health_and_config_are_for_everybody() {
    let world = World::new().await;
    for path in ["/health", "/api/v1/health"] {
        assert_eq!(world.get(path, "").await.text("/status"), "ok");
    }
    let config = world.get("/api/v1/config", "").await;
    assert_eq!(config.text("/baseDomain"), "vm.test");
    assert_eq!(
        config.body["gateway"],
        json!({"host": "vm.test", "port": 22, "hostKeys": []})
    );
    assert_eq!(config.headers[header::CACHE_CONTROL], "no-store");
}

#[tokio::test]
async fn the_gateway_is_where_the_cluster_put_it() {
    let world = World::new().await;
    let port = async || world.get("/api/v1/config", "").await.body["gateway"].clone();
    let key = ObjectKey::cluster(names::PLATFORM);
    let patch = json!({"spec": {"baseDomain": null, "gateway": {"serviceType": "NodePort"}}});
    let platform: KitePlatform = world
        .cluster
        .merge_patch(kite_core::managers::CONTROLLER, &key, &patch)
        .await
        .unwrap();
    world
        .state
        .caches()
        .platforms
        .caught_up_with(&platform)
        .await;
    assert_eq!(port().await, json!({"hostKeys": []}), "not known yet");
    let host_key = GatewayHostKey {
        public_key: "ssh-ed25519 AAAA".to_owned(),
        fingerprint: "SHA256:UCUi".to_owned(),
        ..GatewayHostKey::default()
    };
    let mut seen = KitePlatform::new(names::PLATFORM, KitePlatformSpec::default());
    seen.status = Some(KitePlatformStatus {
        gateway_port: Some(30_022),
        gateway_addresses: vec!["192.0.2.7".to_owned()],
        gateway_host_keys: vec![host_key],
        ..KitePlatformStatus::default()
    });
    let platform = world
        .cluster
        .apply_status(kite_core::managers::CONTROLLER, &seen)
        .await
        .unwrap();
    world
        .state
        .caches()
        .platforms
        .caught_up_with(&platform)
        .await;
    let keys = json!([{"publicKey": "ssh-ed25519 AAAA", "fingerprint": "SHA256:UCUi"}]);
    assert_eq!(
        port().await,
        json!({"host": "192.0.2.7", "port": 30_022, "hostKeys": keys})
    );
}

#[tokio::test]
async fn every_refusal_is_a_problem_document() {
    let world = World::new().await;
    world
        .get("/api/v1/nothing", "")
        .await
        .is_problem(404, "not-found");
    world.get("/nothing", "").await.is_problem(404, "not-found");
    let refused = world.get("/api/v1/auth/sign-in", "").await;
    refused.is_problem(405, "method-not-allowed");
    assert_eq!(refused.headers[header::ALLOW], "POST");

    let sign_in = |content_type: &str, body: Body| {
        Request::post("/api/v1/auth/sign-in")
            .header(header::CONTENT_TYPE, content_type)
            .body(body)
            .unwrap()
    };
    for (request, status, kind) in [
        (sign_in("application/json", "{".into()), 400, "malformed"),
        (sign_in("application/json", "[]".into()), 400, "malformed"),
        (sign_in("application/json", "".into()), 400, "malformed"),
        (
            sign_in("text/plain", "{}".into()),
            415,
            "unsupported-media-type",
        ),
        (
            sign_in("application/x-www-form-urlencoded", "a=b".into()),
            415,
            "unsupported-media-type",
        ),
        (
            sign_in("application/json", " ".repeat(300_000).into()),
            413,
            "too-large",
        ),
        (
            sign_in("application/json", "[".repeat(4_000).into()),
            400,
            "malformed",
        ),
        (
            sign_in("application/json", " ".repeat(4_097).into()),
            413,
            "too-large",
        ),
        (sign_in("application/json", "{}".into()), 422, "invalid"),
    ] {
        send(&world.router, request).await.is_problem(status, kind);
    }
    let ann = world.user("ann", AccessLevel::User).await;
    for (text, status, kind) in [
        ("[".repeat(100_000), 400, "malformed"),
        (" ".repeat(kite_api::BODY_LIMIT), 400, "malformed"),
        (" ".repeat(kite_api::BODY_LIMIT + 1), 413, "too-large"),
    ] {
        let mut long = request(Method::POST, "/api/v1/vms", &ann, Some(json!({})));
        *long.body_mut() = Body::from(text);
        send(&world.router, long).await.is_problem(status, kind);
    }
    let refused = world.get("/api/v1/vms?all=perhaps", &ann).await;
    refused.is_problem(422, "invalid");
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused_in_the_same_words_everywhere() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let document = kite_api::openapi_document();
    let mut count = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let Some((before, _)) = path.split_once('{') else {
            continue;
        };
        let after = path.split_once('}').unwrap().1;
        let path = format!("{before}%FF{}", after.replace(['{', '}'], ""));
        for method in methods.as_object().unwrap().keys() {
            let method: Method = method.to_uppercase().parse().unwrap();
            for token in [root.as_str(), ""] {
                let answer = send(&world.router, request(method.clone(), &path, token, None)).await;
                answer.is_problem(400, "malformed");
                let detail = answer.text("/detail");
                assert!(detail.starts_with("the path has "), "{path}: {detail}");
                count += 1;
            }
        }
    }
    assert!(count > 40, "{count}");
    let asset = world.get("/assets/%FF", "").await;
    asset.is_problem(400, "malformed");
    let nothing = world.get("/api/v1/%FF", &root).await;
    nothing.is_problem(404, "not-found");
    // What is text in UTF-8 is a name like others.
    let unknown = world.get("/api/v1/vms/%EC%9B%B9", &root).await;
    unknown.is_problem(404, "not-found");
}

#[tokio::test]
async fn a_request_that_never_ends_is_given_up() {
    let world =
        World::with(|builder| builder.request_timeout(std::time::Duration::from_millis(100))).await;
    let never = Body::from_stream(futures::stream::pending::<
        Result<bytes::Bytes, std::io::Error>,
    >());
    let slow = Request::post("/api/v1/auth/sign-in")
        .header(header::CONTENT_TYPE, "application/json")
        .body(never)
        .unwrap();
    send(&world.router, slow)
        .await
        .is_problem(503, "unavailable");
}

#[tokio::test]
async fn request_ids_are_kept_if_they_are_plain() {
    let world = World::new().await;
    let ask = |id: &'static str| {
        let mut ask = request(Method::GET, "/health", "", None);
        ask.headers_mut()
            .insert("x-request-id", id.parse().unwrap());
        send(&world.router, ask)
    };
    assert_eq!(ask("abc-1").await.headers["x-request-id"], "abc-1");
    assert_ne!(ask("a b\"c").await.headers["x-request-id"], "a b\"c");
}

#[tokio::test]
async fn the_page_is_cached_by_its_tag_and_runs_no_inline_script() {
    let world = World::new().await;
    let page = world.get("/", "").await;
    assert_eq!(
        page.headers[header::CONTENT_TYPE],
        "text/html; charset=utf-8"
    );
    let html = page.body.as_str().unwrap();
    assert!(!html.contains("<style") && !html.contains(" style=") && !html.contains(" onclick="));
    assert!(!html.contains("<script>"));
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"));

    assert_eq!(page.headers[header::CACHE_CONTROL], "no-cache");
    let etag = page.headers[header::ETAG].to_str().unwrap().to_owned();
    let mut again = request(Method::GET, "/", "", None);
    again
        .headers_mut()
        .insert(header::IF_NONE_MATCH, etag.parse().unwrap());
    let again = send(&world.router, again).await;
    assert_eq!(again.status, 304);
    let icon = world.get("/icon.svg", "").await;
    assert_eq!(icon.headers[header::CONTENT_TYPE], "image/svg+xml");

    // Without Node.js there is only the page that says how to get this one.
    for file in html.split('"').filter(|word| word.starts_with("/assets/")) {
        let asset = world.get(file, "").await;
        assert_eq!(asset.status, 200, "{file}");
        let caching = asset.headers[header::CACHE_CONTROL].to_str().unwrap();
        assert!(caching.contains("immutable"), "{caching}");
    }
    let missing = world.get("/assets/gone-12345678.js", "").await;
    missing.is_problem(404, "not-found");
}

#[tokio::test]
async fn addresses_of_the_page_are_answered_by_the_page_and_no_others() {
    let world = World::new().await;
    let ask = async |method: Method, path: &str, accept: &'static str| {
        let mut ask = request(method, path, "", None);
        ask.headers_mut()
            .insert(header::ACCEPT, accept.parse().unwrap());
        send(&world.router, ask).await
    };
    let browser = "text/html,application/xhtml+xml";
    for path in ["/vms/web", "/admin/users", "/account?tab=keys"] {
        let page = ask(Method::GET, path, browser).await;
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(
            page.headers[header::CONTENT_TYPE],
            "text/html; charset=utf-8"
        );
    }
    for (method, path, accept) in [
        (Method::GET, "/vms/web", "application/json"),
        (Method::POST, "/vms/web", browser),
        (Method::GET, "/api/v1/nothing", browser),
        (Method::GET, "/api", browser),
    ] {
        let answer = ask(method, path, accept).await;
        answer.is_problem(404, "not-found");
    }
}

#[tokio::test]
async fn until_the_caches_are_filled_only_health_answers() {
    let fake = kite_fake::FakeCluster::builder().build().unwrap();
    let state = kite_api::ApiState::builder(fake.client())
        .build()
        .await
        .unwrap();
    assert!(state.ready().is_err());
    let router = kite_api::api_router(state);
    let health = request(Method::GET, "/api/v1/health", "", None);
    assert_eq!(send(&router, health).await.status, 200);
    let config = request(Method::GET, "/api/v1/config", "", None);
    send(&router, config).await.is_problem(503, "not-ready");
    for path in [
        "/api/v1",
        "/api/v1/",
        "/api/v1/nothing",
        "/api/v1/vms/a/b/c",
    ] {
        let nothing = request(Method::GET, path, "", None);
        send(&router, nothing).await.is_problem(404, "not-found");
    }
}

#[tokio::test]
async fn another_project_may_bring_its_own_authentication() {
    let world = World::new().await;
    world.user("ann", AccessLevel::User).await;
    let ann = kite_core::cluster::ObjectKey::cluster("ann");
    let ann = world.state.caches().users.get(&ann).unwrap();
    let router = kite_api::api_router(world.state.clone())
        .layer(axum::Extension(kite_api::Principal::new(ann)));
    let me = || request(Method::GET, "/api/v1/me", "", None);
    assert_eq!(send(&router, me()).await.text("/username"), "ann");

    // Its own paths, and what it says where there is nothing.
    let own = axum::Router::new().route("/hello", axum::routing::get(async || "hello"));
    let own = own.fallback(async || (http::StatusCode::IM_A_TEAPOT, "nothing"));
    let whole = own.merge(router.clone());
    assert_eq!(send(&whole, me()).await.text("/username"), "ann");
    for (path, status) in [("/hello", 200), ("/", 418), ("/api/v1/nothing", 404)] {
        let asked = request(Method::GET, path, "", None);
        let answer = whole.clone().oneshot(asked).await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
    }

    // It may have recognised a browser, which another site's page makes ask.
    let edit = |site: &str| {
        let body = json!({"email": "ann@example.org"});
        let mut edit = request(Method::PATCH, "/api/v1/me", "", Some(body));
        let headers = edit.headers_mut();
        headers.insert("sec-fetch-site", site.parse().unwrap());
        edit
    };
    let foreign = send(&router, edit("cross-site")).await;
    foreign.is_problem(403, "cross-origin");
    assert_eq!(send(&router, edit("same-origin")).await.status, 200);

    // The one that was given does not know it yet.
    let boss = world.user("boss", AccessLevel::Admin).await;
    let suspend = json!({"suspended": true});
    let path = "/api/v1/admin/users/ann";
    assert_eq!(world.patch(path, &boss, suspend).await.status, 200);
    send(&router, me()).await.is_problem(403, "forbidden");
}

#[tokio::test]
async fn requests_are_counted_by_route_and_not_by_path() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    for name in ["a", "b", "c"] {
        world.get(&format!("/api/v1/vms/{name}"), &ann).await;
    }
    let text = world.metrics();
    for line in [
        r#"kite_api_requests_total{method="GET",route="/api/v1/vms/{name}",status="404"} 3"#,
        r#"kite_api_sign_ins_total{outcome="success"} 1"#,
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains("vms/a"));
}
