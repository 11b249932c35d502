//! Client secrets are for one issuer, and requests are not for this machine.

use std::sync::atomic::Ordering;

use k8s_openapi::api::core::v1::Secret;
use kite_core::{cluster::Cluster as _, crd::AccessLevel, names};
use serde_json::{Value, json};

use super::{ORIGIN, START, location, provider::Provider, set, sign_in, world};
use crate::world::World;

/// What somebody else's token endpoint would be sent.
const SECRET: &str = "of-the-real-provider";

async fn write(world: &World, data: Value) {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": names::OIDC_SECRET, "namespace": names::PLATFORM_NAMESPACE},
        "stringData": data,
    }))
    .unwrap();
    world
        .cluster
        .apply(kite_core::managers::CONTROLLER, &secret)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_secret_is_sent_to_the_issuer_alone_that_the_operator_wrote_beside_it() {
    let (world, provider) = world().await;
    let settings = json!({"signUp": true, "clientSecretKey": "staff"});
    set(&world, &provider, settings).await;
    provider.play(|play| play.secret = Some(SECRET.to_owned()));
    let issuer = provider.issuer.clone();
    for bound in [
        None,
        Some("https://login.example.org".to_owned()),
        Some(format!("{issuer}/")),
        Some(format!(" {issuer}")),
        Some(issuer.to_uppercase()),
        Some(String::new()),
    ] {
        let mut data = json!({ "staff": SECRET, "other.issuer": issuer });
        data["staff.issuer"] = json!(bound.clone().unwrap_or_default());
        if bound.is_none() {
            data.as_object_mut().unwrap().remove("staff.issuer");
        }
        write(&world, data).await;
        let before = provider.tokens.load(Ordering::Relaxed);
        let (_, refused) = sign_in(&world, &provider).await;
        refused.is_problem(500, "internal");
        let detail = refused.text("/detail");
        assert!(detail.contains("\"staff.issuer\""), "{bound:?}: {detail}");
        assert!(!detail.contains(SECRET), "{detail}");
        // Nobody was asked for a token at all.
        assert_eq!(provider.tokens.load(Ordering::Relaxed), before, "{bound:?}");
    }
    write(&world, json!({ "staff": SECRET, "staff.issuer": issuer })).await;
    let before = provider.tokens.load(Ordering::Relaxed);
    let (_, done) = sign_in(&world, &provider).await;
    location(&done);
    assert_eq!(provider.tokens.load(Ordering::Relaxed), before + 1);
}

#[tokio::test]
async fn no_api_token_changes_at_which_providers_people_sign_in() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let made = json!({ "name": "ci", "scopes": ["admin"] });
    let made = world.post("/api/v1/me/tokens", &root, made).await;
    assert_eq!(made.status, 201, "{made:?}");
    let token = made.text("/token").to_owned();
    let provider = json!({
        "name": "staff", "issuer": "https://login.example.org", "clientId": "kite",
    });
    for providers in [json!([provider]), json!([]), Value::Null, json!("wrong")] {
        let edit = json!({ "signInProviders": providers, "signUp": "Closed" });
        let refused = world.patch("/api/v1/admin/platform", &token, edit).await;
        if providers.is_string() {
            assert!([403, 422].contains(&refused.status.as_u16()), "{refused:?}");
        } else {
            refused.is_problem(403, "forbidden");
            let detail = refused.text("/detail");
            assert!(detail.contains("sign-in providers"), "{detail}");
        }
    }
    let platform = world.get("/api/v1/admin/platform", &root).await;
    assert_eq!(platform.body["signUp"], "Open", "nothing of it was done");
    let edit = json!({ "signUp": "Closed" });
    let done = world.patch("/api/v1/admin/platform", &token, edit).await;
    assert_eq!(done.status, 200, "{done:?}");
    let edit = json!({ "signInProviders": [provider] });
    let done = world.patch("/api/v1/admin/platform", &root, edit).await;
    assert_eq!(done.status, 200, "{done:?}");
}

#[tokio::test]
async fn a_provider_on_this_machine_is_not_asked() {
    let provider = Provider::start().await;
    let world = World::with(|builder| builder.secure_cookies(true).origins([ORIGIN.to_owned()]));
    let world = world.await;
    set(&world, &provider, json!({})).await;
    let refused = world.get(START, "").await;
    refused.is_problem(500, "internal");
    let detail = refused.text("/detail");
    assert!(detail.contains("machine of Kite itself"), "{detail}");
    assert_eq!(provider.requests.load(Ordering::Relaxed), 0);
}
