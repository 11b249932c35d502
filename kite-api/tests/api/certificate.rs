//! The certificate of the web page, seen and put in over HTTP.

use ::http::Method;
use k8s_openapi::api::core::v1::Secret;
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KitePlatform, KitePlatformSpec, KitePlatformStatus, SignUp},
    names,
};
use kite_fake::fault::{Fault, Faults, Plan};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use serde_json::{Value, json};
use tower::Layer as _;

use crate::{
    gate::Gate,
    world::{Answer, World, request, send},
};

const PATH: &str = "/api/v1/admin/certificate";

/// An authority, and one below it.
struct Authority {
    root: String,
    middle: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let params = |name: &str| {
            let mut params = CertificateParams::default();
            params
                .distinguished_name
                .push(rcgen::DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params
        };
        let root_key = KeyPair::generate().unwrap();
        let root = params("root").self_signed(&root_key).unwrap();
        let root_issuer = Issuer::new(params("root"), root_key);
        let key = KeyPair::generate().unwrap();
        let middle = params("middle").signed_by(&key, &root_issuer).unwrap();
        Self {
            root: root.pem(),
            middle: middle.pem(),
            issuer: Issuer::new(params("middle"), key),
        }
    }

    /// A server's certificate and its key.
    fn issue(&self, names: &[&str], with: impl Fn(&mut CertificateParams)) -> (String, String) {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_after = date_time_ymd(2100, 1, 1);
        with(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

fn body(certificate: &str, key: &str) -> Value {
    json!({"certificate": certificate, "privateKey": key})
}

async fn put(world: &World, token: &str, body: Value) -> Answer {
    send(&world.router, request(Method::PUT, PATH, token, Some(body))).await
}

async fn secret(world: &World) -> Option<Secret> {
    let key = ObjectKey::namespaced(names::PLATFORM_NAMESPACE, names::UPLOADED_CERTIFICATE);
    world.cluster.get_opt(&key).await.unwrap()
}

async fn named(world: &World) -> Option<String> {
    let key = ObjectKey::cluster(names::PLATFORM);
    let platform: KitePlatform = world.cluster.get(&key).await.unwrap();
    platform.spec.exposure.certificate.secret_name
}

#[tokio::test]
async fn a_certificate_is_put_in_seen_renewed_and_taken_away() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let before = world.get(PATH, &root).await;
    assert_eq!(before.text("/source"), "Controller");
    assert!(before.body.get("facts").is_none());

    let authority = Authority::new();
    let (leaf, key) = authority.issue(&["vm.test", "*.vm.test"], |_| {});
    let chain = [leaf.as_str(), &authority.middle, &authority.root].concat();
    let done = put(&world, &root, body(&chain, &key)).await;
    assert_eq!(done.status, 200, "{done:?}");
    assert!(!done.body.to_string().contains("PRIVATE"));
    assert_eq!(done.text("/source"), "Uploaded");
    assert_eq!(done.body["facts"]["names"], json!(["vm.test", "*.vm.test"]));
    assert_eq!(done.body["facts"]["coversBaseDomain"], true);
    assert_eq!(done.body["facts"]["coversWildcard"], true);
    assert_eq!(done.text("/facts/issuer"), "CN=middle");
    assert_eq!(done.text("/facts/notAfter"), "2100-01-01T00:00:00Z");
    assert!(done.body["facts"]["daysLeft"].as_i64().unwrap() > 20_000);
    assert_eq!(world.get(PATH, &root).await.body, done.body);

    let made = secret(&world).await.unwrap();
    assert_eq!(made.type_.as_deref(), Some("kubernetes.io/tls"));
    let data = made.data.unwrap();
    assert_eq!(data["tls.crt"].0, chain.trim().as_bytes());
    assert_eq!(data["tls.key"].0, key.trim().as_bytes());
    assert_eq!(named(&world).await.as_deref(), Some("kite-certificate"));

    let (leaf, key) = authority.issue(&["vm.test"], |_| {});
    let renewed = put(&world, &root, body(&leaf, &key)).await;
    assert_eq!(renewed.body["facts"]["coversWildcard"], false);
    let uid = secret(&world).await.unwrap().metadata.uid;
    assert_eq!(uid, made.metadata.uid);

    assert_eq!(world.delete(PATH, &root).await.status, 204);
    assert!(secret(&world).await.is_none());
    assert_eq!(named(&world).await, None);
    assert_eq!(world.delete(PATH, &root).await.status, 204, "again");
}

#[tokio::test]
async fn what_browsers_would_not_trust_is_refused_by_field() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let authority = Authority::new();
    let (leaf, key) = authority.issue(&["vm.test"], |_| {});
    let (other, other_key) = authority.issue(&["elsewhere.test"], |_| {});
    let (wildcard, wildcard_key) = authority.issue(&["*.vm.test"], |_| {});
    let (expired, expired_key) = authority.issue(&["vm.test"], |params| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    });
    let (future, future_key) = authority.issue(&["vm.test"], |params| {
        params.not_before = date_time_ymd(2099, 1, 1);
    });
    let (client, client_key) = authority.issue(&["vm.test"], |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    // Of the same name, but another key.
    let impostor = Authority::new().middle;
    let all = |parts: &[&str]| parts.concat();
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    for (certificate, key, field, words) in [
        (leaf.clone(), &other_key, "privateKey", "not the key"),
        (leaf.clone(), &"secret".to_owned(), "privateKey", "in PEM"),
        (leaf.clone(), &encrypted, "privateKey", "encrypted"),
        (
            "nothing".to_owned(),
            &key,
            "certificate",
            "has no certificate",
        ),
        (broken.to_owned(), &key, "certificate", "is no certificate"),
        (all(&[&leaf, &key]), &key, "certificate", "private key"),
        (expired, &expired_key, "certificate", "expired"),
        (future, &future_key, "certificate", "not good before"),
        (client, &client_key, "certificate", "not for servers"),
        (other, &other_key, "certificate", "vm.test"),
        (wildcard, &wildcard_key, "certificate", "vm.test"),
        (
            all(&[&leaf, &authority.root]),
            &key,
            "certificate",
            "did not sign",
        ),
        (
            all(&[&leaf, &impostor]),
            &key,
            "certificate",
            "did not sign",
        ),
    ] {
        let refused = put(&world, &root, body(&certificate, key)).await;
        let fields = refused.is_problem(422, "invalid").fields();
        assert_eq!(fields, [field], "{words}");
        assert!(
            refused.text("/errors/0/message").contains(words),
            "{refused:?}"
        );
        let told = refused.body.to_string();
        assert!(!told.contains("-----BEGIN PRIVATE KEY-----\\n"), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
    let refused = put(&world, &root, body(&all(&[&authority.middle, &leaf]), &key)).await;
    assert!(refused.fields().contains(&"certificate"));
    assert!(refused.body.to_string().contains("server's own first"));
    assert!(secret(&world).await.is_none());
    assert_eq!(named(&world).await, None);
}

#[tokio::test]
async fn it_goes_by_how_the_platform_is_exposed() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let (leaf, key) = Authority::new().issue(&["vm.test"], |_| {});

    let edit = json!({"exposure": {"certificate": {"secretName": "mine"}}});
    world.administer(edit).await;
    let seen = world.get(PATH, &root).await;
    assert_eq!(seen.text("/source"), "Secret");
    assert_eq!(seen.text("/secretName"), "mine");

    let by_issuer = json!({"certificate": {"secretName": null, "clusterIssuer": "letsencrypt"}});
    let edit = json!({ "exposure": by_issuer });
    world.administer(edit).await;
    let seen = world.get(PATH, &root).await;
    assert_eq!(seen.text("/clusterIssuer"), "letsencrypt");
    assert!(seen.text("/message").contains("not there yet"));
    let issued: Secret = serde_json::from_value(json!({
        "metadata": {"name": names::PLATFORM_CERTIFICATE, "namespace": names::PLATFORM_NAMESPACE},
        "type": "kubernetes.io/tls",
        "stringData": {"tls.crt": leaf, "tls.key": key},
    }))
    .unwrap();
    world.cluster.create(&issued).await.unwrap();
    let seen = world.get(PATH, &root).await;
    assert_eq!(seen.body["facts"]["names"], json!(["vm.test"]));

    let exposure = json!({"gateway": {"namespace": "kite", "name": "web"}, "certificate": null});
    let edit = json!({ "exposure": exposure });
    world.administer(edit).await;
    assert_eq!(world.get(PATH, &root).await.text("/source"), "Gateway");
    let refused = put(&world, &root, body(&leaf, &key)).await;
    refused.is_problem(409, "conflict");
    assert!(refused.text("/detail").contains("listener"));
    world.delete(PATH, &root).await.is_problem(409, "conflict");

    let edit = json!({"exposure": {"gateway": null}, "baseDomain": null});
    world.administer(edit).await;
    let refused = put(&world, &root, body(&leaf, &key)).await;
    refused.is_problem(409, "conflict");
    assert!(refused.text("/detail").contains("baseDomain"));
    assert!(secret(&world).await.is_none());
}

#[tokio::test]
async fn a_secret_of_somebody_else_stays_as_it_is() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let theirs: Secret = serde_json::from_value(json!({
        "metadata": {"name": names::UPLOADED_CERTIFICATE, "namespace": names::PLATFORM_NAMESPACE},
        "stringData": {"a": "b"},
    }))
    .unwrap();
    let theirs = world.cluster.create(&theirs).await.unwrap();
    let (leaf, key) = Authority::new().issue(&["vm.test"], |_| {});
    let refused = put(&world, &root, body(&leaf, &key)).await;
    refused.is_problem(409, "conflict");
    assert_eq!(world.delete(PATH, &root).await.status, 204);
    assert_eq!(secret(&world).await, Some(theirs));
}

#[tokio::test]
async fn a_fault_in_between_leaves_nothing_half_done() {
    for fault in [Fault::ResetAfterCommit, Fault::ServerError, Fault::Timeout] {
        for what in ["secrets", "kiteplatforms"] {
            let world = World::new().await;
            let root = world.user("root", AccessLevel::Admin).await;
            let (leaf, key) = Authority::new().issue(&["vm.test"], |_| {});
            let faults = Faults::new(Plan::first(what, fault, move |call| {
                call.plural == what && call.verb == "patch"
            }));
            let service = faults.layer("kite-api").layer(world.service());
            let client = kube::Client::new(service, "default");
            let state = kite_api::ApiState::builder(client).build().await.unwrap();
            state.synced().await;
            let broken = kite_api::router(state);
            let ask = request(Method::PUT, PATH, &root, Some(body(&leaf, &key)));
            let first = send(&broken, ask).await;
            assert!(faults.unfired().is_empty());
            if first.status != 200 {
                // What is named is there.
                assert!(named(&world).await.is_none() || secret(&world).await.is_some());
            }
            let again = put(&world, &root, body(&leaf, &key)).await;
            assert_eq!(again.status, 200, "{fault:?} at {what}: {again:?}");
            assert_eq!(named(&world).await.as_deref(), Some("kite-certificate"));
        }
    }
}

fn on(
    method: Method,
    part: &'static str,
) -> impl Fn(&::http::Request<kube::client::Body>) -> bool + Clone {
    move |request| *request.method() == method && request.uri().path().contains(part)
}

#[tokio::test]
async fn of_putting_in_and_taking_away_at_once_nothing_named_is_lost() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let (leaf, key) = Authority::new().issue(&["vm.test"], |_| {});
    let put_in = || request(Method::PUT, PATH, &root, Some(body(&leaf, &key)));
    let take_away = || request(Method::DELETE, PATH, &root, None);
    assert_eq!(send(&world.router, put_in()).await.status, 200);

    // One is taken away from the moment it is written to that in which it is named.
    let (slow, gate) =
        Gate::replica(&world, |it| it, on(Method::PATCH, "kiteplatforms/default")).await;
    let meanwhile = async {
        gate.holds_one().await;
        assert_eq!(send(&world.router, take_away()).await.status, 204);
        assert!(secret(&world).await.is_none());
        gate.let_on(1);
    };
    let (put, ()) = tokio::join!(send(&slow, put_in()), meanwhile);
    assert_eq!(put.status, 200, "{put:?}");
    assert_eq!(named(&world).await.as_deref(), Some("kite-certificate"));
    assert!(secret(&world).await.is_some());

    // And put in at each step of being taken away.
    for (method, part) in [
        (Method::PATCH, "kiteplatforms/default"),
        (Method::GET, "secrets"),
        (Method::PATCH, "secrets"),
        (Method::GET, "kiteplatforms/default"),
        (Method::DELETE, "secrets"),
    ] {
        let case = format!("{method} {part}");
        let (slow, gate) = Gate::replica(&world, |it| it, on(method, part)).await;
        let meanwhile = async {
            gate.holds_one().await;
            // The second time it is asked for the platform.
            if part == "kiteplatforms/default" && case.starts_with("GET") {
                gate.let_on(1);
                gate.holds_one().await;
            }
            assert_eq!(send(&world.router, put_in()).await.status, 200, "{case}");
            gate.let_on(9);
        };
        let (away, ()) = tokio::join!(send(&slow, take_away()), meanwhile);
        assert_eq!(away.status, 204, "{case}: {away:?}");
        let is_there = secret(&world).await.is_some();
        assert_eq!(named(&world).await.is_some(), is_there, "{case}");
        assert_eq!(send(&world.router, put_in()).await.status, 200, "{case}");
    }
}

#[tokio::test]
async fn what_is_taken_away_once_it_is_named_does_not_come_back() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let (leaf, key) = Authority::new().issue(&["vm.test"], |_| {});
    let put_in = request(Method::PUT, PATH, &root, Some(body(&leaf, &key)));
    // It is looked for before it is written, and again once it is named.
    let (slow, gate) = Gate::replica(&world, |it| it, on(Method::GET, "secrets")).await;
    let meanwhile = async {
        gate.holds_one().await;
        gate.let_on(1);
        gate.holds_one().await;
        assert!(named(&world).await.is_some());
        assert_eq!(world.delete(PATH, &root).await.status, 204);
        gate.let_on(9);
    };
    let (put, ()) = tokio::join!(send(&slow, put_in), meanwhile);
    put.is_problem(409, "conflict");
    assert!(secret(&world).await.is_none());
    assert_eq!(named(&world).await, None);
}

#[tokio::test]
async fn another_certificate_that_is_named_meanwhile_stays_named() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let (leaf, key) = Authority::new().issue(&["vm.test"], |_| {});
    assert_eq!(put(&world, &root, body(&leaf, &key)).await.status, 200);
    let (slow, gate) = Gate::replica(&world, |it| it, on(Method::PATCH, "kiteplatforms")).await;
    let meanwhile = async {
        gate.holds_one().await;
        let theirs = json!({"exposure": {"certificate": {"secretName": "theirs"}}});
        world.administer(theirs).await;
        gate.let_on(1);
    };
    let take_away = request(Method::DELETE, PATH, &root, None);
    let (away, ()) = tokio::join!(send(&slow, take_away), meanwhile);
    away.is_problem(409, "conflict");
    assert_eq!(named(&world).await.as_deref(), Some("theirs"));
}

#[tokio::test]
async fn what_else_is_written_of_the_platform_is_in_nobodys_way() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let (leaf, key) = Authority::new().issue(&["vm.test"], |_| {});
    assert_eq!(put(&world, &root, body(&leaf, &key)).await.status, 200);
    let (slow, gate) = Gate::replica(&world, |it| it, on(Method::PATCH, "kiteplatforms")).await;
    let meanwhile = async {
        gate.holds_one().await;
        let mut seen = KitePlatform::new(names::PLATFORM, KitePlatformSpec::default());
        seen.status = Some(KitePlatformStatus {
            gateway_addresses: vec!["192.0.2.7".to_owned()],
            ..KitePlatformStatus::default()
        });
        let by = kite_core::managers::CONTROLLER;
        world.cluster.apply_status(by, &seen).await.unwrap();
        gate.let_on(2);
    };
    let take_away = request(Method::DELETE, PATH, &root, None);
    let (away, ()) = tokio::join!(send(&slow, take_away), meanwhile);
    assert_eq!(away.status, 204, "{away:?}");
    assert_eq!(named(&world).await, None);
}

#[tokio::test]
async fn only_administrators_see_and_change_it() {
    let world = World::new().await;
    world.platform(SignUp::Open).await;
    let root = world.user("root", AccessLevel::Admin).await;
    let manager = world.user("manager", AccessLevel::Manager).await;
    let (leaf, key) = Authority::new().issue(&["vm.test"], |_| {});
    world.get(PATH, &manager).await.is_problem(403, "forbidden");
    let refused = put(&world, &manager, body(&leaf, &key)).await;
    refused.is_problem(403, "forbidden");
    world
        .delete(PATH, &manager)
        .await
        .is_problem(403, "forbidden");
    let reads = json!({"name": "reads", "scopes": ["admin:read"]});
    let token = world.post("/api/v1/me/tokens", &root, reads).await;
    let token = token.text("/token");
    assert_eq!(world.get(PATH, token).await.status, 200);
    let refused = put(&world, token, body(&leaf, &key)).await;
    refused.is_problem(403, "forbidden");
    assert!(secret(&world).await.is_none());
}
