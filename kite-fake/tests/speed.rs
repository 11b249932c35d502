//! How fast the server answers; run with
//! `cargo test --release -p kite-fake --test speed -- --ignored --nocapture`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use kite_fake::FakeCluster;
use kite_fake::auth::Identity;
use kite_fake::server::Answer;
use serde_json::json;

const OBJECTS: usize = 10_000;

fn send(cluster: &FakeCluster, method: &str, path: &str, body: &str) -> Bytes {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(
            "content-type",
            match method {
                "PATCH" => "application/apply-patch+yaml",
                _ => "application/json",
            },
        )
        .extension(Identity::admin())
        .body(Bytes::copy_from_slice(body.as_bytes()))
        .unwrap();
    match cluster.handle(request) {
        Answer::Response(r) => {
            assert!(r.status().is_success(), "{method} {path}: {:?}", r.body());
            r.into_body()
        }
        other => panic!("{other:?}"),
    }
}

fn object(i: usize) -> String {
    let text = "x".repeat(700);
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{i:05}"), "labels": {"n": format!("{}", i % 10)}}, "data": {"text": text}}).to_string()
}

fn each(what: &str, target: &str, times: u32, mut work: impl FnMut(usize)) {
    let start = Instant::now();
    for i in 0..times {
        work(i as usize);
    }
    let one: Duration = start.elapsed() / times;
    println!("{what:<40} {one:>12.1?}   target {target}");
}

#[tokio::test]
#[ignore = "measures; run it in release"]
async fn the_server_is_fast() {
    let root = "/api/v1/namespaces/default/configmaps";
    each("start", "10 ms", 5, |_| {
        FakeCluster::builder().build().unwrap();
    });
    let cluster = FakeCluster::builder().build().unwrap();
    each("create (10,000 objects)", "-", 10_000, |i| {
        let path = format!("{root}/m{i:05}?fieldManager=x&force=true");
        send(&cluster, "PATCH", &path, &object(i));
    });
    each("get", "5 us", 10_000, |i| {
        send(
            &cluster,
            "GET",
            &format!("{root}/m{:05}", (i * 7) % OBJECTS),
            "",
        );
    });
    each("apply without a change", "15 us", 10_000, |i| {
        let i = (i * 7) % OBJECTS;
        let path = format!("{root}/m{i:05}?fieldManager=x&force=true");
        send(&cluster, "PATCH", &path, &object(i));
    });
    each("list of 10,000", "linear", 10, |_| {
        assert!(send(&cluster, "GET", root, "").len() > OBJECTS * 700);
    });
    each("list by label", "linear", 10, |_| {
        send(&cluster, "GET", &format!("{root}?labelSelector=n%3D3"), "");
    });
    each("page of 500 (first)", "-", 10, |_| {
        send(&cluster, "GET", &format!("{root}?limit=500"), "");
    });
}
