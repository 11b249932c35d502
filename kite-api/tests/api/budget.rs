//! Bodies of strangers, and what nobody reads, take no more memory than they may, and leave
//! room for others.

use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::{StreamExt as _, future::join_all, stream};
use http::{Method, Request, header};
use kite_core::{
    cluster::Cluster as _,
    crd::{AccessLevel, KiteVirtualMachine, KiteVirtualMachineSpec},
    names,
};
use serde_json::json;
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::world::{World, request, send};

/// A body of which `first` comes at once, and the end when `on` says so.
fn slow(first: String, on: &watch::Receiver<bool>) -> Body {
    let mut on = on.clone();
    let rest = stream::once(async move {
        let _ = on.wait_for(|on| *on).await;
        Ok::<_, std::io::Error>(Bytes::from_static(b"}"))
    });
    let first = stream::iter([Ok(Bytes::from(first))]);
    Body::from_stream(first.chain(rest))
}

fn sign_in(body: Body) -> Request<Body> {
    let mut asked = request(Method::POST, "/api/v1/auth/sign-in", "", Some(json!({})));
    *asked.body_mut() = body;
    asked
}

#[tokio::test]
async fn what_is_beyond_the_budget_is_told_to_come_again_and_who_is_signed_in_is_not() {
    // Room for eight bodies of strangers, and less than for a ninth; and as much for who is
    // signed in.
    let memory = 2 * (8 * 4096 + 4095);
    let world = World::with(|builder| builder.body_memory(memory)).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let (go_on, on) = watch::channel(false);
    let flood = join_all((0..32).map(|_| {
        let first = format!("{{ {}", " ".repeat(100));
        send(&world.router, sign_in(slow(first, &on)))
    }));
    let beside = async {
        // Until strangers have no room any more.
        world
            .until("it is full", async || {
                let one = send(&world.router, sign_in(Body::from("{}"))).await;
                one.status == 503 && one.headers.contains_key(header::RETRY_AFTER)
            })
            .await;
        let edited = world
            .patch("/api/v1/me", &ann, json!({"email": "a@b.test"}))
            .await;
        assert_eq!(edited.status, 200, "{edited:?}");
        go_on.send(true).unwrap();
    };
    let (answers, ()) = tokio::join!(flood, beside);
    let refused = answers.iter().filter(|it| it.status == 503).count();
    assert_eq!(refused, 32 - 8, "{:?}", answers.first());
    // All of it is given back.
    send(&world.router, sign_in(Body::from("{}")))
        .await
        .is_problem(422, "invalid");
    let full = join_all((0..8).map(|_| send(&world.router, sign_in(Body::from("{}"))))).await;
    assert!(full.iter().all(|it| it.status == 422));
}

#[tokio::test]
async fn bodies_of_one_account_take_its_part_and_no_more() {
    const EACH: usize = 200 * 1024;
    let world = World::with(|builder| builder.body_memory(8 << 20)).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    let (go_on, on) = watch::channel(false);
    let refusals = std::sync::atomic::AtomicUsize::new(0);
    let flood = join_all((0..32).map(|_| async {
        let mut asked = request(Method::POST, "/api/v1/vms", &ann, Some(json!({})));
        *asked.body_mut() = slow(format!("{{{}", " ".repeat(EACH)), &on);
        let answer = send(&world.router, asked).await;
        if answer.status == 429 {
            assert!(answer.headers.contains_key(header::RETRY_AFTER));
            refusals.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        answer
    }));
    let beside = async {
        // A quarter has room for ten of them.
        world
            .until("others are refused", async || {
                refusals.load(std::sync::atomic::Ordering::Relaxed) == 32 - 10
            })
            .await;
        let edited = world
            .patch("/api/v1/me", &bob, json!({"email": "b@b.test"}))
            .await;
        assert_eq!(edited.status, 200, "{edited:?}");
        send(&world.router, sign_in(Body::from("{}")))
            .await
            .is_problem(422, "invalid");
        go_on.send(true).unwrap();
    };
    let (answers, ()) = tokio::join!(flood, beside);
    // What JSON becomes takes as much again, for which the first has no room left.
    let read = answers.iter().filter(|it| it.status == 422).count();
    let refused = answers.iter().filter(|it| it.status == 429).count();
    assert!((5..=10).contains(&read), "{read}: {:?}", answers.first());
    assert_eq!(read + refused, 32);
    // All of it is given back.
    let edited = world
        .patch("/api/v1/me", &ann, json!({"email": "a@b.test"}))
        .await;
    assert_eq!(edited.status, 200, "{edited:?}");
}

#[tokio::test]
async fn what_json_becomes_counts_as_well() {
    let world = World::with(|builder| builder.body_memory(1 << 20)).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let body = format!("{{\"a\": [{}]}}", vec!["{}"; 20_000].join(","));
    let mut asked = request(Method::POST, "/api/v1/vms", &ann, Some(json!({})));
    *asked.body_mut() = Body::from(body);
    send(&world.router, asked)
        .await
        .is_problem(503, "unavailable");
    let edited = world
        .patch("/api/v1/me", &ann, json!({"email": "a@b.test"}))
        .await;
    assert_eq!(edited.status, 200, "{edited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stranger_s_body_that_does_not_come_is_given_up_before_the_request_is() {
    let world = World::with(|builder| builder.request_timeout(Duration::from_secs(3600))).await;
    let (_go_on, on) = watch::channel(false);
    let refused = send(&world.router, sign_in(slow("{".to_owned(), &on))).await;
    refused.is_problem(400, "malformed");
    assert!(
        refused.text("/detail").contains("within 10 seconds"),
        "{refused:?}"
    );
}

/// A VM whose keys are a quarter of a megabyte.
async fn large_vm(world: &World, owner: &str) {
    let mut spec = KiteVirtualMachineSpec::new(
        1,
        "1Gi".parse().unwrap(),
        "5Gi".parse().unwrap(),
        "debian-12",
        format!("{owner}-web"),
    );
    let keys = (0..31).map(|n| format!("ssh-ed25519 AAAA {n:0>8000}"));
    spec.ssh_public_keys = keys.collect();
    let mut vm = KiteVirtualMachine::new("web", spec);
    vm.metadata.namespace = Some(names::user_namespace(owner));
    let made = world.cluster.create(&vm).await.unwrap();
    world.state.caches().vms.caught_up_with(&made).await;
}

#[tokio::test]
async fn answers_that_are_not_read_hold_an_account_s_part_and_no_more() {
    let world = World::with(|builder| builder.answer_memory(32 << 20)).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let bob = world.user("bob", AccessLevel::User).await;
    large_vm(&world, "ann").await;
    large_vm(&world, "bob").await;
    let ask = |method: Method| {
        let asked = request(method, "/api/v1/vms", &ann, None);
        world.router.clone().oneshot(asked)
    };
    let mut unread = Vec::new();
    let refused = loop {
        let answer = ask(Method::GET).await.unwrap();
        if answer.status() != 200 {
            break answer;
        }
        unread.push(answer);
        assert!(unread.len() < 100, "there is no end");
    };
    assert_eq!(refused.status(), 429);
    assert!(refused.headers().contains_key(header::RETRY_AFTER));
    // A quarter of 32 MiB.
    assert!((30..=34).contains(&unread.len()), "{}", unread.len());
    // What is small is answered, and so is what is not sent, and others are.
    assert_eq!(world.get("/api/v1/me", &ann).await.status, 200);
    assert_eq!(ask(Method::HEAD).await.unwrap().status(), 200);
    assert_eq!(world.get("/api/v1/vms", &bob).await.status, 200);
    drop(unread);
    let answer = world.get("/api/v1/vms", &ann).await;
    assert_eq!(answer.names(), ["web"]);
}

#[tokio::test]
async fn news_for_which_there_is_no_memory_are_refused() {
    let world = World::with(|builder| builder.stream_memory(2 << 20)).await;
    let ann = world.user("ann", AccessLevel::User).await;
    large_vm(&world, "ann").await;
    let ask = || {
        let asked = request(Method::GET, "/api/v1/events", &ann, None);
        world.router.clone().oneshot(asked)
    };
    let unread = ask().await.unwrap();
    assert_eq!(unread.status(), 200);
    let refused = ask().await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "5");
    drop(unread);
    assert_eq!(ask().await.unwrap().status(), 200);
}
