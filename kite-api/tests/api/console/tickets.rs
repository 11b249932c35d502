//! Tickets: once, soon, and by whom they were given to.

use std::time::Duration;

use kite_api::console::ConsoleLimits;
use kite_core::{
    cluster::{Cluster as _, ObjectKey},
    crd::{AccessLevel, KiteSession},
    names,
};
use serde_json::json;

use super::stage::{Client, Stage, cookie, serve};

#[tokio::test]
async fn a_ticket_is_good_once() {
    let stage = Stage::new().await;
    let ticket = stage.ticket(&stage.ann, "Serial").await;
    let key = ObjectKey::cluster(names::session(&stage.ann));
    let session: KiteSession = stage.world.cluster.get(&key).await.unwrap();
    let session = serde_json::to_string(&session).unwrap();
    assert!(session.contains("console.hy3ons.github.io/"), "{session}");
    assert!(!session.contains(&ticket), "only its hash is kept");

    let mut client = Client::connect(stage.address, &stage.ann).await.unwrap();
    client.show(&ticket).await;
    client.ready().await;
    let again = stage.refusal(stage.address, &stage.ann, &ticket).await;
    assert_eq!(again, "wrong-credentials");
    client.until("login: ").await;
    let session: KiteSession = stage.world.cluster.get(&key).await.unwrap();
    assert_eq!(session.metadata.annotations.unwrap_or_default().len(), 0);
}

#[tokio::test]
async fn another_session_cannot_use_it_and_it_stays_good() {
    let stage = Stage::new().await;
    let ticket = stage.ticket(&stage.ann, "Serial").await;
    let bob = stage.world.user("bob", AccessLevel::Admin).await;
    let elsewhere = stage.world.sign_in("ann").await;
    for token in [&bob, &elsewhere] {
        let refused = stage.refusal(stage.address, token, &ticket).await;
        assert_eq!(refused, "wrong-credentials");
    }
    let mut client = Client::connect(stage.address, &stage.ann).await.unwrap();
    client.show(&ticket).await;
    client.ready().await;
}

#[tokio::test]
async fn a_ticket_expires() {
    let limits = ConsoleLimits {
        ticket: Duration::from_millis(1),
        ..ConsoleLimits::default()
    };
    let stage = Stage::with(|builder| builder.consoles(limits)).await;
    let answer = stage.ask(&stage.ann, "web", "Serial").await;
    let until: jiff::Timestamp = answer.text("/expiresAt").parse().unwrap();
    while jiff::Timestamp::now() <= until {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let refused = stage
        .refusal(stage.address, &stage.ann, answer.text("/ticket"))
        .await;
    assert_eq!(refused, "wrong-credentials");
}

#[tokio::test]
async fn tickets_that_nobody_uses_do_not_pile_up() {
    let stage = Stage::new().await;
    for _ in 0..8 {
        stage.ticket(&stage.ann, "Serial").await;
    }
    stage
        .ask(&stage.ann, "web", "Serial")
        .await
        .is_problem(429, "too-many-requests");
}

#[tokio::test]
async fn a_ticket_is_not_for_another_vm_of_the_name() {
    let stage = Stage::new().await;
    let ticket = stage.ticket(&stage.ann, "Serial").await;
    stage.delete("web").await;
    let gone = async || stage.world.get("/api/v1/vms/web", &stage.ann).await.status == 404;
    stage.world.until("the VM is gone", gone).await;
    let body = json!({
        "name": "web", "cpu": 1, "memory": "1Gi", "disk": "5Gi", "image": "debian-12",
    });
    let made = stage.world.post("/api/v1/vms", &stage.ann, body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let mut client = Client::connect(stage.address, &stage.ann).await.unwrap();
    client.show(&ticket).await;
    assert_eq!(client.end().await, (1000, "the VM is gone".to_owned()));
}

#[tokio::test]
async fn any_replica_takes_it_and_of_several_at_once_one() {
    let stage = Stage::new().await;
    let mut addresses = vec![stage.address];
    for _ in 0..2 {
        addresses.push(serve(stage.world.replica().await).await);
    }
    for round in 0..3 {
        let ticket = stage.ticket(&stage.ann, "Serial").await;
        let attempts = (0..9).map(|number| {
            let (address, ann, ticket) = (addresses[number % 3], &stage.ann, &ticket);
            async move {
                let mut client = Client::connect(address, ann).await.unwrap();
                client.show(ticket).await;
                let first = client.next().await.into_text().unwrap();
                (first.contains("ready"), client)
            }
        });
        let outcomes = futures::future::join_all(attempts).await;
        let winners = outcomes.iter().filter(|(won, _)| *won).count();
        assert_eq!(winners, 1, "round {round}");
    }
}

#[tokio::test]
async fn only_kites_own_page_opens_one() {
    let stage = Stage::new().await;
    let cookie = cookie(&stage.ann);
    let cookie = ("cookie", cookie.as_str());
    let bearer = format!("Bearer {}", stage.ann);
    let bearer = ("authorization", bearer.as_str());
    let evil = ("origin", "https://evil.test");
    for (headers, status) in [
        (vec![cookie, evil], 403),
        (vec![cookie, ("origin", "null")], 403),
        // A cookie without a word of where it comes from.
        (vec![cookie], 403),
        (vec![bearer, evil], 403),
        (vec![evil], 401),
    ] {
        let refused = Client::from_page(stage.address, &headers).await.err();
        assert_eq!(refused, Some(status), "{headers:?}");
    }
    // A script has no page.
    let ticket = stage.ticket(&stage.ann, "Serial").await;
    let mut script = Client::from_page(stage.address, &[bearer]).await.unwrap();
    script.show(&ticket).await;
    script.ready().await;
}

#[tokio::test]
async fn the_first_message_must_be_a_ticket() {
    let stage = Stage::new().await;
    for wrong in [json!({}), json!({"ticket": 1}), json!("ticket")] {
        let mut client = Client::connect(stage.address, &stage.ann).await.unwrap();
        client.say(wrong).await;
        assert_eq!(client.refused().await, "malformed");
    }
    let mut client = Client::connect(stage.address, &stage.ann).await.unwrap();
    client.send(b"bytes").await;
    assert_eq!(client.refused().await, "malformed");
    // And it must come.
    let mut client = Client::connect(stage.address, &stage.ann).await.unwrap();
    assert_eq!(client.refused().await, "malformed");
}

#[tokio::test]
async fn who_was_authenticated_elsewhere_has_tickets_in_memory() {
    let stage = Stage::new().await;
    let users = &stage.world.state.caches().users;
    let ann = users.get(&ObjectKey::cluster("ann")).unwrap();
    let own = axum::Extension(kite_api::Principal::new(ann));
    let embedded = stage.world.router.clone().layer(own);
    let ask = || {
        let body = json!({"kind": "Serial"});
        let path = "/api/v1/vms/web/console";
        crate::world::request(::http::Method::POST, path, "", Some(body))
    };
    let ticket = crate::world::send(&embedded, ask()).await;
    let ticket = ticket.text("/ticket");
    let address = serve(embedded).await;
    for good in [true, false] {
        let mut client = Client::from_page(address, &[]).await.unwrap();
        client.show(ticket).await;
        if good {
            client.ready().await;
            client.until("login: ").await;
        } else {
            assert_eq!(client.refused().await, "wrong-credentials");
        }
    }
}
