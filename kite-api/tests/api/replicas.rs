//! One replica of several: a request may reach another than the one before it.

use axum::http::Method;
use kite_core::crd::AccessLevel;
use serde_json::json;

use crate::{
    gate::Gate,
    vms::{VMS, web as a_vm},
    world::{World, request, send},
};

#[tokio::test]
async fn what_another_replica_has_just_made_is_there() {
    let world = World::new().await;
    let (ann, root) = (
        world.user("ann", AccessLevel::User).await,
        world.user("root", AccessLevel::Admin).await,
    );
    // Its copies hear nothing any more.
    let (behind, _gate) = Gate::replica(
        &world,
        |it| it,
        |request| {
            let uri = request.uri();
            let kinds = ["kitevirtualmachines", "kitevirtualmachineoffers"];
            kinds.iter().any(|kind| uri.path().ends_with(kind))
                && uri.query().is_some_and(|query| query.contains("watch"))
        },
    )
    .await;
    let ask = |method: Method, path: &str, token: &str, body| {
        send(&behind, request(method, path, token, body))
    };
    let web = &format!("{VMS}/web");
    ask(Method::GET, web, &ann, None)
        .await
        .is_problem(404, "not-found");

    assert_eq!(world.post(VMS, &ann, a_vm()).await.status, 201);
    let there = ask(Method::GET, web, &ann, None).await;
    assert_eq!(there.status, 200, "{there:?}");
    let edited = ask(Method::PATCH, web, &ann, Some(json!({"cpu": 2}))).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    assert_eq!(edited.body["cpu"], 2);
    let by_root = ask(Method::GET, &format!("{web}?owner=ann"), &root, None).await;
    assert_eq!(by_root.status, 200, "{by_root:?}");
    let deleted = ask(Method::DELETE, web, &ann, None).await;
    assert_eq!(deleted.status, 202, "{deleted:?}");

    // A name is no path at the API server: this one would be an account's.
    for name in ["..%2F..%2Fkiteusers%2Fann", "%2E%2E", "a%3Fb", "A"] {
        let asked = ask(Method::GET, &format!("{VMS}/{name}"), &ann, None).await;
        asked.is_problem(404, "not-found");
    }
}

#[tokio::test]
async fn one_that_has_its_hands_full_with_mistakes_takes_none_of_anothers_places() {
    let world = World::new().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let (busy, gate) = Gate::replica(
        &world,
        |it| it,
        |request| {
            let query = request.uri().query().unwrap_or_default();
            query.contains("dryRun")
        },
    )
    .await;
    // A replica says that there is no such image, and the API server what a CPU is.
    let mut wrong = a_vm();
    wrong["image"] = json!("beos");
    wrong["cpu"] = json!(0);
    let ask = || request(Method::POST, VMS, &ann, Some(wrong.clone()));
    // As many as it shows to the API server at a time, which does not answer.
    let shown = futures::future::join_all((0..8).map(|_| send(&busy, ask())));
    let elsewhere = async {
        for _ in 0..8 {
            gate.holds_one().await;
        }
        let refused = world.post(VMS, &ann, wrong.clone()).await;
        gate.let_on(8);
        refused
    };
    let (_, refused) = tokio::join!(shown, elsewhere);
    let mut fields = refused.fields();
    fields.sort_unstable();
    assert_eq!(fields, ["cpu", "image"], "{refused:?}");
}
