//! What becomes of the throw-away user when the API server has hiccups, or somebody
//! breaks the test off.

#![allow(clippy::unwrap_used)]

use std::{
    collections::HashSet,
    future::ready,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{Method, Request, Response, StatusCode};
use http_body_util::Either;
use kite_core::{
    crd::{self, KiteImage, KiteUser, KiteUserSpec},
    names,
};
use kite_fake::FakeCluster;
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
    client::Body,
};
use serde_json::json;
use tower::{BoxError, ServiceExt as _, service_fn};

use super::{
    ENDS, LABEL, News, Options, Report, State, Step,
    person::{Person, fresh_name, sweep},
    report::{Record, Stopped},
    run,
};

fn cluster() -> FakeCluster {
    FakeCluster::builder().crds(crd::all()).build().unwrap()
}

/// What becomes of a request instead of what the API server makes of it, if anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mishap {
    /// It is answered this, and not carried out.
    Refused(StatusCode),
    /// It is carried out, and the answer gets lost.
    Unanswered,
}

/// A client to which `mishap` happens.
fn client(
    cluster: &FakeCluster,
    mishap: impl Fn(&Request<Body>) -> Option<Mishap> + Send + Sync + 'static,
) -> Client {
    let (server, mishap) = (cluster.service(), Arc::new(mishap));
    let service = service_fn(move |request: Request<Body>| {
        let server = server.clone();
        let happens = mishap(&request);
        async move {
            if let Some(Mishap::Refused(code)) = happens {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "message": "not now", "reason": "", "code": code.as_u16(),
                });
                let body = Either::Left(status.to_string());
                return Ok::<_, BoxError>(Response::builder().status(code).body(body)?);
            }
            let response = server.oneshot(request).await?;
            match happens {
                Some(_) => Err(BoxError::from("the connection broke")),
                None => Ok(response.map(Either::Right)),
            }
        }
    });
    Client::new(service, "default")
}

/// Each request gets no answer the first time.
fn hiccups() -> impl Fn(&Request<Body>) -> Option<Mishap> + Send + Sync {
    let seen = Mutex::new(HashSet::new());
    move |request| {
        let this = (request.method().clone(), request.uri().path().to_owned());
        let is_first = seen.lock().unwrap().insert(this);
        is_first.then_some(Mishap::Refused(StatusCode::SERVICE_UNAVAILABLE))
    }
}

fn user(name: &str, ends: Option<&str>) -> KiteUser {
    let mut user = KiteUser::new(name, KiteUserSpec::new(name));
    user.metadata.labels = Some([(LABEL.to_owned(), "true".to_owned())].into());
    user.metadata.annotations = ends.map(|it| [(ENDS.to_owned(), it.to_owned())].into());
    user
}

async fn make_user(cluster: &FakeCluster, user: &KiteUser) {
    let users = Api::<KiteUser>::all(cluster.client());
    let made = users.create(&PostParams::default(), user).await.unwrap();
    let name = made.metadata.name.as_ref().unwrap();
    let session = json!({
        "apiVersion": "hy3ons.github.io/v1", "kind": "KiteSession",
        "metadata": {"name": format!("of-{name}")},
        "spec": {
            "user": name, "userUid": made.metadata.uid, "expiresAt": "2100-01-01T00:00:00Z",
        },
    });
    let sessions = Api::all(cluster.client());
    let session: crd::KiteSession = serde_json::from_value(session).unwrap();
    sessions
        .create(&PostParams::default(), &session)
        .await
        .unwrap();
}

async fn left(cluster: &FakeCluster) -> (usize, usize) {
    let all = ListParams::default();
    let users = Api::<KiteUser>::all(cluster.client()).list(&all).await;
    let sessions = Api::<crd::KiteSession>::all(cluster.client())
        .list(&all)
        .await;
    (users.unwrap().items.len(), sessions.unwrap().items.len())
}

/// Takes the user away as a test does that ends.
async fn cleaned(person: &Person<'_>) -> Report {
    let mut told = |_: &News<'_>| {};
    let mut record = Record::new("kite", &person.name, Step::CleanUp, &mut told);
    let _: Result<(), Stopped> = record
        .take(Step::CleanUp, async |it| {
            person.leave(it).await?;
            person.is_forgotten(it).await
        })
        .await;
    record.report()
}

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn hiccups_leave_nothing_behind() {
    let cluster = cluster();
    let name = fresh_name();
    make_user(&cluster, &user(&name, None)).await;
    let client = client(&cluster, hiccups());
    let report = cleaned(&Person::new(&client, &name, PATIENCE)).await;
    assert_eq!(report.state, State::Passed, "{report:#?}");
    assert_eq!(left(&cluster).await, (0, 0));
}

#[tokio::test]
async fn sessions_go_where_they_may_be_ended_and_hold_up_nothing() {
    let cluster = cluster();
    let name = fresh_name();
    make_user(&cluster, &user(&name, None)).await;
    let is_quiet = AtomicBool::new(false);
    // No session may be listed before the user is deleted.
    let client = client(&cluster, move |request| {
        let path = request.uri().path();
        is_quiet.fetch_or(
            request.method() == Method::DELETE && path.contains("kiteusers"),
            Ordering::SeqCst,
        );
        let is_early = !is_quiet.load(Ordering::SeqCst) && path.contains("kitesessions");
        is_early.then_some(Mishap::Refused(StatusCode::FORBIDDEN))
    });
    let report = cleaned(&Person::new(&client, &name, PATIENCE)).await;
    assert_eq!(report.state, State::Passed, "{report:#?}");
    assert_eq!(left(&cluster).await, (0, 0));
}

#[tokio::test]
async fn what_is_forbidden_is_not_asked_again() {
    let cluster = cluster();
    let name = fresh_name();
    make_user(&cluster, &user(&name, None)).await;
    let client = client(&cluster, |request| {
        let is_delete = request.method() == Method::DELETE;
        is_delete.then_some(Mishap::Refused(StatusCode::FORBIDDEN))
    });
    let report = cleaned(&Person::new(&client, &name, Duration::MAX)).await;
    assert_eq!(report.state, State::Failed, "{report:#?}");
    assert_eq!(left(&cluster).await.0, 1);
}

#[tokio::test]
async fn what_one_may_not_look_at_is_named() {
    let cluster = cluster();
    let name = fresh_name();
    make_user(&cluster, &user(&name, None)).await;
    let client = client(&cluster, |request| {
        let path = request.uri().path();
        let is_hidden = path.contains("persistentvolumes") || path.contains("/namespaces/");
        is_hidden.then_some(Mishap::Refused(StatusCode::FORBIDDEN))
    });
    let report = cleaned(&Person::new(&client, &name, PATIENCE)).await;
    assert_eq!(report.state, State::NotLookedAt, "{report:#?}");
    let message = &report.steps[0].message;
    assert!(
        message.ends_with("not looked at: Namespace, PersistentVolume"),
        "{message}"
    );
}

/// The create is answered by nobody, and comes to the API server when one has already
/// looked for the user in vain.
#[tokio::test]
async fn a_user_that_comes_late_is_looked_for() {
    let cluster = cluster();
    let name = fresh_name();
    let looks = AtomicBool::new(false);
    let client = client(&cluster, move |request| {
        let path = request.uri().path();
        if request.method() == Method::POST {
            Some(Mishap::Unanswered)
        } else if path.contains("kiteusers/") && !looks.swap(true, Ordering::SeqCst) {
            Some(Mishap::Refused(StatusCode::NOT_FOUND))
        } else {
            None
        }
    });
    let person = Person::new(&client, &name, PATIENCE);
    let image: KiteImage = serde_json::from_value(json!({
        "apiVersion": "hy3ons.github.io/v1", "kind": "KiteImage",
        "metadata": {"name": "debian"},
        "spec": {"source": {"http": {"url": "https://example.org/a.qcow2"}}, "minDisk": "5Gi"},
    }))
    .unwrap();
    let mut told = |_: &News<'_>| {};
    let mut record = Record::new("kite", &name, Step::NothingLeft, &mut told);
    let made = record
        .take(Step::User, async |it| person.join(&image, None, it).await)
        .await;
    assert!(made.is_err());
    assert_eq!(left(&cluster).await.0, 1);
    let report = cleaned(&person).await;
    assert_eq!(report.state, State::Passed, "{report:#?}");
    assert_eq!(left(&cluster).await.0, 0);
}

#[tokio::test]
async fn whom_a_killed_test_left_goes_with_its_sessions() {
    let cluster = cluster();
    make_user(&cluster, &user("smoke-old", Some("2020-01-01T00:00:00Z"))).await;
    make_user(&cluster, &user("smoke-new", Some("2100-01-01T00:00:00Z"))).await;
    assert_eq!(sweep(&cluster.client()).await, ["smoke-old"]);
    assert_eq!(left(&cluster).await, (1, 1));
}

fn options() -> Options {
    Options {
        namespace: names::PLATFORM_NAMESPACE.to_owned(),
        api_url: None,
        gateway: None,
        host_key: None,
        accept_host_key: false,
        image: None,
        timeout: PATIENCE,
        unknown: PATIENCE,
        keep: false,
    }
}

#[tokio::test]
async fn what_is_broken_off_before_its_first_step_is_no_success() {
    let report = run(&cluster().client(), &options(), ready(()), |_| {}).await;
    assert_eq!(
        (report.state, report.steps),
        (State::Interrupted, Vec::new())
    );
}

#[tokio::test]
async fn what_ends_before_its_last_step_is_no_success() {
    let mut told = |_: &News<'_>| {};
    let mut record = Record::new("kite", "smoke-0", Step::Login, &mut told);
    let _: Result<(), Stopped> = record
        .take(Step::Platform, async |_| Ok(((), String::new())))
        .await;
    assert_eq!(record.report().state, State::Failed);
}

#[tokio::test]
async fn a_gateway_that_nothing_is_known_of_is_no_success() {
    let cluster = cluster();
    let platform = json!({
        "apiVersion": "hy3ons.github.io/v1", "kind": "KitePlatform",
        "metadata": {"name": names::PLATFORM}, "spec": {},
    });
    let platform: crd::KitePlatform = serde_json::from_value(platform).unwrap();
    let platforms = Api::all(cluster.client());
    platforms
        .create(&PostParams::default(), &platform)
        .await
        .unwrap();
    let mut options = options();
    options.api_url = Some("http://127.0.0.1:1".to_owned());
    options.gateway = Some("127.0.0.1:1".parse().unwrap());
    let first = async |options: &Options, forbidden: bool| {
        let client = client(&cluster, move |request| {
            let is_hidden = forbidden && request.uri().path().contains("secrets");
            is_hidden.then_some(Mishap::Refused(StatusCode::FORBIDDEN))
        });
        let report = run(&client, options, std::future::pending(), |_| {}).await;
        let first = report.steps.into_iter().next().unwrap();
        (first.state, first.message)
    };
    for (forbidden, why) in [(false, "there is no key in"), (true, "you may not read")] {
        let (state, message) = first(&options, forbidden).await;
        assert_eq!(state, State::Failed);
        assert!(message.contains(why), "{message}");
    }
    options.accept_host_key = true;
    assert_eq!(first(&options, true).await.0, State::Passed);
}

#[test]
fn what_nobody_has_looked_at_has_no_reason() {
    assert_eq!(super::with_reason("not begun", ""), "not begun");
    let disk = super::with_reason("Provisioning", "the disk is made");
    assert_eq!(disk, "Provisioning: the disk is made");
}
