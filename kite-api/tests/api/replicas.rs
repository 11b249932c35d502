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
