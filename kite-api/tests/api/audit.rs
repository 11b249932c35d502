//! What is written down of requests.

use std::sync::{Arc, Mutex};

use http::{Method, header};
use kite_api::audit::{ApiAudit, ApiRecord};
use kite_core::crd::AccessLevel;
use serde_json::{Value, json};

use crate::{
    gate::Gate,
    refresh::Jar,
    world::{PASSWORD, TOKEN, World, request, send},
};

#[derive(Clone, Default)]
pub struct Kept(Arc<Mutex<Vec<Value>>>);

impl ApiAudit for Kept {
    fn record(&self, record: &ApiRecord) {
        let record = serde_json::to_value(record).unwrap();
        self.0.lock().unwrap().push(record);
    }
}

impl Kept {
    /// What came since somebody last looked.
    pub fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    #[track_caller]
    pub fn one(&self) -> Value {
        let mut records = self.take();
        assert_eq!(records.len(), 1, "{records:#?}");
        records.remove(0)
    }
}

pub async fn world() -> (World, Kept) {
    let kept = Kept::default();
    let sink = kept.clone();
    (World::with(|builder| builder.audit(sink)).await, kept)
}

/// Operations that write, of the document: path, method, name.
fn writes() -> Vec<(String, Method, String)> {
    let document = kite_api::openapi_document();
    let mut writes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let Ok(method) = method.to_uppercase().parse::<Method>() else {
                continue;
            };
            if let (false, Some(name)) = (method.is_safe(), operation["operationId"].as_str()) {
                writes.push((path.clone(), method, name.to_owned()));
            }
        }
    }
    writes
}

/// Whoever adds an operation need not think of the log.
#[tokio::test]
async fn every_operation_that_writes_is_written_down() {
    let (world, kept) = world().await;
    let mut root = world.user("root", AccessLevel::Admin).await;
    // With these nobody need be signed in; of the last ones the session ends.
    let strangers = ["signIn", "signUp", "bootstrap", "refresh"];
    let last = ["signOutEveryone", "signOut"];
    let (late, mut operations): (Vec<_>, Vec<_>) = writes()
        .into_iter()
        .filter(|(_, _, name)| !strangers.contains(&name.as_str()))
        .partition(|(_, _, name)| last.contains(&name.as_str()));
    assert!(operations.len() > 30, "{operations:?}");
    operations.extend(late);
    for (path, method, name) in operations {
        kept.take();
        let mut filled = path.clone();
        while let Some((before, rest)) = filled.clone().split_once('{') {
            let (_, after) = rest.split_once('}').unwrap();
            filled = format!("{before}nothing{after}");
        }
        let body = (method != Method::DELETE).then(|| json!({}));
        let answer = send(&world.router, request(method, &filled, &root, body)).await;
        let record = kept.one();
        assert_eq!(record["operation"], name, "{record:#}");
        assert_eq!(record["path"], filled);
        assert_eq!(record["status"], answer.status.as_u16());
        let id = answer.headers["x-request-id"].to_str().unwrap();
        assert_eq!(record["request"], id);
        assert_eq!(record["user"], "root", "{record:#}");
        assert_eq!(record["address"], "192.0.2.1");
        assert!(record["by"]["session"].is_string(), "{record:#}");
        if last.contains(&name.as_str()) {
            assert_eq!(record["outcome"], "done", "{record:#}");
            root = world.sign_in("root").await;
        }
    }
}

#[tokio::test]
async fn ways_in_are_written_down_right_and_wrong() {
    let (world, kept) = world().await;
    world.bootstrap_secret().await;
    let account = json!({"token": TOKEN, "username": "root", "password": PASSWORD});
    let answer = world.post("/api/v1/auth/bootstrap", "", account).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let record = kept.one();
    assert_eq!(record["signIn"]["method"], "bootstrap");
    assert_eq!(
        (&record["user"], &record["outcome"]),
        (&json!("root"), &json!("done"))
    );
    world.prepare_namespace("root").await;

    let account = json!({"username": "ann", "password": PASSWORD});
    let answer = world
        .post("/api/v1/auth/sign-up", "", account.clone())
        .await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let record = kept.one();
    assert_eq!(
        record["signIn"],
        json!({"method": "sign-up", "account": "ann"})
    );
    let kinds: Vec<_> = record["changes"].as_array().unwrap().iter().collect();
    assert!(
        kinds.iter().any(|it| it["kind"] == "KiteUser"),
        "{record:#}"
    );

    let wrong = json!({"username": "ann", "password": "not the right one"});
    world
        .post("/api/v1/auth/sign-in", "", wrong)
        .await
        .is_problem(401, "wrong-credentials");
    let record = kept.one();
    assert_eq!(record["outcome"], "refused");
    assert_eq!(record["problem"], "wrong-credentials");
    assert_eq!(
        record["signIn"],
        json!({"method": "password", "account": "ann"})
    );
    assert_eq!(
        record["user"],
        Value::Null,
        "nobody is known by a wrong password"
    );

    let answer = world.post("/api/v1/auth/sign-in", "", account).await;
    assert_eq!(answer.status, 200);
    let record = kept.one();
    assert_eq!(
        (&record["user"], &record["outcome"]),
        (&json!("ann"), &json!("done"))
    );
    // A place that was not known is noted in the account before.
    let mut changes = record["changes"].as_array().unwrap().iter();
    let session = changes.find(|it| it["kind"] == "KiteSession").unwrap();
    assert_eq!(session["verb"], "create");
    let token = answer.text("/token").to_owned();
    let out = world.post("/api/v1/auth/sign-out", &token, json!({})).await;
    assert_eq!(out.status, 204, "{out:?}");
    let record = kept.one();
    assert_eq!(record["operation"], "signOut");
    assert_eq!(record["changes"][0]["verb"], "delete");

    // What strangers try that guesses at nothing fills no log.
    for body in [json!({}), json!({"username": 7})] {
        world
            .post("/api/v1/auth/sign-in", "", body)
            .await
            .is_problem(422, "invalid");
    }
    world
        .get("/api/v1/me", "nonsense")
        .await
        .is_problem(401, "unauthenticated");
    assert_eq!(kept.take(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_refresh_token_that_comes_again_is_written_down() {
    let kept = Kept::default();
    let sink = kept.clone();
    let world = World::with(|builder| builder.audit(sink).secure_cookies(true)).await;
    world.user("ann", AccessLevel::User).await;
    let body = json!({"username": "ann", "password": PASSWORD, "cookie": true});
    let answer = world.post("/api/v1/auth/sign-in", "", body).await;
    let mut jar = Jar::default();
    jar.take(&answer);
    let refresh = "/api/v1/auth/refresh";
    let stolen = jar.clone();
    for _ in 0..2 {
        kept.take();
        let renewed = send(&world.router, jar.request(Method::POST, refresh, None)).await;
        assert_eq!(renewed.status, 204, "{renewed:?}");
        jar.take(&renewed);
        let record = kept.one();
        assert_eq!(record["operation"], "refresh");
        assert_eq!(record["user"], "ann");
        crate::refresh::age(&world, jiff::Span::new().hours(1)).await;
    }
    kept.take();
    let refused = send(&world.router, stolen.request(Method::POST, refresh, None)).await;
    refused.is_problem(401, "unauthenticated");
    let record = kept.one();
    assert_eq!(record["user"], "ann", "{record:#}");
    assert_eq!(
        record["remarks"],
        json!(["a refresh token came again that had been replaced"])
    );
    assert_eq!(record["changes"][0]["verb"], "delete");
    assert!(record["address"].is_string());
}

#[tokio::test]
async fn what_matters_is_shown_before_and_after_and_no_secret_is() {
    const KEY: &str = "ssh-ed25519 \
                       AAAAC3NzaC1lZDI1NTE5AAAAIJNrJ1zQ8Vn3f0RmBIqO4uh3Q6u2pTgeMrVn8pVb7mWq ann";
    let (world, kept) = world().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let mut all = kept.take();
    let path = "/api/v1/admin/users/ann";
    let edit = json!({
        "accessLevel": "Manager", "suspended": true, "email": "ann@example.org",
        "sshPublicKeys": [KEY],
        "quota": {"vms": 1, "cpu": 2, "memory": "4Gi", "disk": "40Gi"},
    });
    let edited = world.patch(path, &root, edit).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    let record = kept.one();
    let change = &record["changes"][0];
    assert_eq!(
        (&change["verb"], &change["kind"]),
        (&json!("edit"), &json!("KiteUser"))
    );
    assert_eq!(change["name"], "ann");
    assert!(
        change["uid"].as_str().is_some_and(|uid| !uid.is_empty()),
        "{change:#}"
    );
    assert_eq!(change["before"]["accessLevel"], "User");
    assert_eq!(change["after"]["accessLevel"], "Manager");
    assert!(!change["before"]["suspended"].as_bool().unwrap_or(false));
    assert_eq!(change["after"]["suspended"], true);
    assert_eq!(change["after"]["email"], "ann@example.org");
    assert_eq!(change["after"]["quota"]["cpu"], 2);
    let key = change["after"]["sshPublicKeys"][0].as_str().unwrap();
    assert!(key.starts_with("SHA256:") && key.ends_with(" ann"), "{key}");
    all.push(record);

    let edit = json!({"suspended": false, "password": "another long password"});
    let edited = world.patch(path, &root, edit).await;
    assert_eq!(edited.status, 200, "{edited:?}");
    let record = kept.one();
    let changes = record["changes"].as_array().unwrap();
    let account = changes.iter().find(|it| it["kind"] == "KiteUser");
    let fields = account.unwrap()["fields"].to_string();
    assert!(fields.contains("credential"), "{record:#}");
    all.push(record);

    let made = json!({"name": "ci", "scopes": ["account:read"]});
    let made = world.post("/api/v1/me/tokens", &root, made).await;
    assert_eq!(made.status, 201, "{made:?}");
    all.push(kept.one());
    let token = made.text("/token").to_owned();

    // Refused for want of a right, whoever asks and whatever by.
    let refused = world.get("/api/v1/admin/users", &token).await;
    refused.is_problem(403, "forbidden");
    let record = kept.one();
    assert_eq!(record["operation"], "listUsers", "{record:#}");
    assert_eq!(record["by"], json!({"token": "ci"}));
    assert_eq!(
        (&record["outcome"], &record["status"]),
        (&json!("refused"), &json!(403))
    );
    all.push(record);

    let made = world.post("/api/v1/admin/invites", &root, json!({})).await;
    assert_eq!(made.status, 201, "{made:?}");
    all.push(kept.one());
    let invite = made.text("/token").to_owned();

    let all = Value::from(all).to_string();
    for secret in [
        PASSWORD,
        "another long",
        "$argon2",
        &root,
        &ann,
        &token,
        &invite,
    ] {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
}

/// Who leaves before the answer does not leave without a trace.
#[tokio::test]
async fn what_was_done_for_a_client_that_left_is_written_down() {
    let (world, _) = world().await;
    let ann = world.user("ann", AccessLevel::User).await;
    let kept = Kept::default();
    let sink = kept.clone();
    // The account is written; what comes after it is held.
    let (router, gate) = Gate::replica(
        &world,
        |builder| builder.audit(sink),
        |request| {
            request.method() == Method::DELETE && request.uri().path().contains("/kitesessions/")
        },
    )
    .await;
    let body = json!({"currentPassword": PASSWORD, "newPassword": "another long password"});
    let asked = request(Method::POST, "/api/v1/me/password", &ann, Some(body));
    world.sign_in("ann").await;
    let asking = tokio::spawn(async move { send(&router, asked).await.status });
    gate.holds_one().await;
    assert_eq!(kept.take(), Vec::<Value>::new());
    asking.abort();
    assert!(asking.await.is_err());
    let record = kept.one();
    assert_eq!(record["operation"], "changePassword");
    assert_eq!(record["outcome"], "failed");
    assert_eq!(record["status"], Value::Null);
    let changes = record["changes"].as_array().unwrap();
    assert!(
        changes.iter().any(|it| it["kind"] == "KiteUser"),
        "{record:#}"
    );
    assert!(
        record["remarks"][0]
            .as_str()
            .unwrap()
            .contains("the client left")
    );
}

/// An API token's owner is known by the header alone.
#[tokio::test]
async fn an_id_of_the_client_s_joins_records() {
    let (world, kept) = world().await;
    let ann = world.user("ann", AccessLevel::User).await;
    kept.take();
    let mut asked = request(
        Method::PATCH,
        "/api/v1/me",
        &ann,
        Some(json!({"email": null})),
    );
    asked
        .headers_mut()
        .insert("x-request-id", "of-mine-1".parse().unwrap());
    asked
        .headers_mut()
        .insert(header::USER_AGENT, "test".parse().unwrap());
    let answer = send(&world.router, asked).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(kept.one()["request"], "of-mine-1");
}
