//! Every fault as a client of kube sees it, and as the cluster sees it.
#![allow(clippy::similar_names)]

use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::ConfigMap;
use kite_fake::FakeCluster;
use kite_fake::fault::{Fault, FaultLayer, Faults, Plan, RIVAL};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::api::{WatchEvent, WatchParams};
use kube::runtime::watcher;
use kube::{Api, Error, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tower::{Layer as _, ServiceExt as _};

struct Stage {
    cluster: FakeCluster,
    faults: Faults,
    layer: FaultLayer,
}

impl Stage {
    fn new(plan: Plan) -> Self {
        let cluster = FakeCluster::builder().build().unwrap();
        let faults = Faults::new(plan);
        let layer = faults.layer("me");
        Self {
            cluster,
            faults,
            layer,
        }
    }

    /// The participant's view, through the layer; a new life after a crash.
    fn maps(&self) -> Api<ConfigMap> {
        let service = self.layer.layer(self.cluster.service());
        Api::default_namespaced(kube::Client::new(service, "default"))
    }

    /// The truth.
    fn truth(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.cluster.client())
    }

    async fn create(&self, name: &str) -> ConfigMap {
        let maps = self.truth();
        maps.create(&PostParams::default(), &map(name))
            .await
            .unwrap()
    }

    async fn label(&self, name: &str, value: &str) {
        apply(&self.truth(), name, value).await.unwrap();
    }

    fn injected(&self) -> Vec<Fault> {
        self.faults.injected().iter().map(|i| i.mode).collect()
    }
}

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

async fn apply(maps: &Api<ConfigMap>, name: &str, value: &str) -> Result<ConfigMap, Error> {
    let patch = json!({"metadata": {"labels": {"l": value}}});
    maps.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
}

fn code(result: Result<ConfigMap, Error>) -> u16 {
    match result {
        Err(Error::Api(status)) => status.code,
        other => panic!("{other:?}"),
    }
}

/// The label in the cluster after one patch with a fault, and what came back.
async fn patch_with(fault: Fault) -> (Stage, Option<String>, Result<ConfigMap, Error>) {
    let stage = Stage::new(Plan::at(1, fault));
    stage.create("a").await;
    let answer = apply(&stage.maps(), "a", "mine").await;
    let now = stage.truth().get("a").await.unwrap();
    assert_eq!(stage.injected(), [fault]);
    (stage, now.labels().get("l").cloned(), answer)
}

#[tokio::test(start_paused = true)]
async fn refusals_are_not_applied_and_a_timeout_is() {
    for (fault, answer) in [
        (Fault::Conflict, 409),
        (Fault::TooManyRequests, 429),
        (Fault::ServerError, 500),
    ] {
        let (_, label, result) = patch_with(fault).await;
        assert_eq!((label, code(result)), (None, answer), "{fault}");
    }
    let (_, label, result) = patch_with(Fault::Timeout).await;
    assert_eq!((label.as_deref(), code(result)), (Some("mine"), 504));
}

#[tokio::test(start_paused = true)]
async fn a_reset_looks_the_same_before_and_after_the_commit() {
    for (fault, committed) in [
        (Fault::ResetBeforeSend, None),
        (Fault::ResetAfterCommit, Some("mine")),
    ] {
        let (_, label, result) = patch_with(fault).await;
        assert_eq!(label.as_deref(), committed);
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Service(_)), "{error:?}");
        assert!(error.to_string().contains("connection reset"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_crashed_hears_of_nothing_and_lives_again_with_a_new_client() {
    for (fault, committed) in [
        (Fault::CrashBeforeSend, None),
        (Fault::CrashAfterCommit, Some("mine")),
    ] {
        let stage = Stage::new(Plan::at(1, fault));
        stage.create("a").await;
        let old = stage.maps();
        let hour = Duration::from_secs(3600);
        assert!(timeout(hour, apply(&old, "a", "mine")).await.is_err());
        assert!(stage.layer.is_down());
        stage.layer.crashed().await;
        assert!(timeout(hour, old.get("a")).await.is_err());
        let new = stage.maps();
        assert!(!stage.layer.is_down());
        let seen = new.get("a").await.unwrap();
        assert_eq!(seen.labels().get("l").map(String::as_str), committed);
        assert!(timeout(hour, old.get("a")).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_rival_edits_deletes_or_recreates_just_before_a_write() {
    let (stage, label, answer) = patch_with(Fault::RivalEdits).await;
    assert_eq!(label.as_deref(), Some("mine"));
    let key = format!("{RIVAL}/was-here");
    assert!(answer.unwrap().annotations().contains_key(&key));

    // A write that names the version it saw is too late now.
    let stale = stage.truth().get("a").await.unwrap();
    stage.label("a", "other").await;
    let maps = stage.maps();
    let late = maps.replace("a", &PostParams::default(), &stale).await;
    assert_eq!(code(late), 409);

    let stage = Stage::new(Plan::at(1, Fault::RivalDeletes));
    stage.create("a").await;
    assert_eq!(code(apply(&stage.maps(), "a", "mine").await), 404);
    assert!(stage.truth().get_opt("a").await.unwrap().is_none());

    let stage = Stage::new(Plan::at(1, Fault::RivalRecreates));
    let before = stage.create("a").await;
    let precondition = DeleteParams {
        preconditions: Some(kube::api::Preconditions {
            uid: before.uid(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let deleted = stage.maps().delete("a", &precondition).await;
    assert!(matches!(deleted, Err(Error::Api(status)) if status.code == 409));
    let after = stage.truth().get("a").await.unwrap();
    assert_ne!(before.uid(), after.uid());
}

#[tokio::test(start_paused = true)]
async fn a_rival_spares_what_it_is_told_to_and_what_finalizers_hold() {
    let stage = Stage::new(Plan::at(1, Fault::RivalDeletes));
    stage.create("a").await;
    stage.faults.spare("configmaps", "default", "a");
    apply(&stage.maps(), "a", "mine").await.unwrap();
    assert_eq!(stage.injected(), []);

    let stage = Stage::new(Plan::at(1, Fault::RivalRecreates));
    let mut held = map("a");
    held.metadata.finalizers = Some(vec!["x.io/y".to_owned()]);
    let made = stage.truth().create(&PostParams::default(), &held).await;
    let after = apply(&stage.maps(), "a", "mine").await.unwrap();
    assert_eq!(made.unwrap().uid(), after.uid());
    assert_eq!(stage.injected(), []);
}

#[tokio::test(start_paused = true)]
async fn nobody_recreates_what_a_deletion_only_marks() {
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    let group = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "as.x.io"}, "spec": {"group": "x.io", "scope": "Cluster",
        "names": {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for (path, object) in [
        ("/api/v1/namespaces", space),
        ("/api/v1/namespaces/default/pods", pod),
        (definitions, group),
    ] {
        for fault in [Fault::RivalRecreates, Fault::HiddenRecreate] {
            let stage = Stage::new(Plan::at(1, fault));
            let send = |client: kube::Client, method: &str, path: String, body: Value| {
                let request = http::Request::builder().method(method).uri(path);
                let media = if method == "PATCH" {
                    "application/merge-patch+json"
                } else {
                    "application/json"
                };
                let request = request.header("content-type", media);
                let request = request.body(body.to_string().into_bytes()).unwrap();
                async move { client.request::<Value>(request).await.unwrap() }
            };
            let truth = stage.cluster.client();
            let made = send(truth, "POST", path.to_owned(), object.clone()).await;
            let service = stage.layer.layer(stage.cluster.service());
            let client = kube::Client::new(service, "default");
            let name = object["metadata"]["name"].as_str().unwrap();
            let edit = json!({"metadata": {"labels": {"l": "mine"}}});
            let after = send(client, "PATCH", format!("{path}/{name}"), edit).await;
            assert_eq!(made["metadata"]["uid"], after["metadata"]["uid"], "{path}");
            assert!(after["metadata"]["deletionTimestamp"].is_null(), "{path}");
            assert_eq!(stage.injected(), [], "{path}");
            assert!(!stage.layer.is_holding(), "{path}");
        }
    }
}

/// A patch of an object that `fault` befalls, while the server does not know
/// requests with this method whose body is without this text; no answer if it
/// never comes.
async fn patch_while_refused(
    fault: Fault,
    method: &'static str,
    without: &'static str,
) -> (Stage, Option<Result<ConfigMap, Error>>) {
    let stage = Stage::new(Plan::at(1, fault));
    stage.create("a").await;
    let server = stage.cluster.service();
    let server = server.map_request(move |mut request: http::Request<Full<Bytes>>| {
        let body = request.body().clone().collect().now_or_never();
        let body = body.unwrap().unwrap().to_bytes();
        let is_known = String::from_utf8_lossy(&body).contains(without);
        if request.method() == method && !is_known {
            *request.uri_mut() = http::Uri::from_static("/nothing");
        }
        request
    });
    let client = kube::Client::new(stage.layer.layer(server), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let answer = timeout(Duration::from_secs(3600), apply(&maps, "a", "mine")).await;
    (stage, answer.ok())
}

#[tokio::test(start_paused = true)]
async fn what_is_recorded_is_what_a_rival_did() {
    for fault in [Fault::RivalRecreates, Fault::HiddenRecreate] {
        // The deletion is refused: nothing happened.
        let (stage, answer) = patch_while_refused(fault, "DELETE", "dryRun").await;
        answer.unwrap().unwrap();
        assert_eq!(stage.injected(), []);
        assert!(!stage.layer.is_holding());

        // The creation is refused: it was a deletion, which is no secret.
        let (stage, answer) = patch_while_refused(fault, "POST", "nothing like it").await;
        assert_eq!(code(answer.unwrap()), 404);
        assert_eq!(stage.injected(), [Fault::RivalDeletes]);
        assert!(!stage.layer.is_holding());
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_without_a_past_is_a_crash() {
    // Nothing can be read, so that nobody can tell what the past is.
    let fault = Fault::StaleRestart;
    let (stage, answer) = patch_while_refused(fault, "GET", "nothing like it").await;
    assert!(answer.is_none());
    assert!(stage.layer.is_down());
    assert_eq!(stage.injected(), [Fault::CrashAfterCommit]);
    let now = stage.truth().get("a").await.unwrap();
    assert_eq!(now.labels()["l"], "mine");
}

/// What a watch of kube shows.
async fn next(
    events: &mut (
             impl futures::Stream<Item = Result<watcher::Event<ConfigMap>, watcher::Error>> + Unpin
         ),
) -> String {
    match events.next().await.unwrap() {
        Ok(watcher::Event::Apply(map)) => {
            format!(
                "apply {} {}",
                map.name_any(),
                map.labels().get("l").map_or("-", |l| l)
            )
        }
        Ok(watcher::Event::Delete(map)) => format!("delete {}", map.name_any()),
        Ok(watcher::Event::InitApply(map)) => format!("listed {}", map.name_any()),
        Ok(watcher::Event::Init) => "init".to_owned(),
        Ok(watcher::Event::InitDone) => "done".to_owned(),
        Err(error) => format!("error {error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_and_one_that_expires_begins_anew() {
    for (fault, relists) in [(Fault::WatchEnds, false), (Fault::WatchExpires, true)] {
        let stage = Stage::new(Plan::first("a get", fault, |call| call.verb == "get"));
        stage.create("a").await;
        let maps = stage.maps();
        let mut events = Box::pin(watcher(maps.clone(), watcher::Config::default()));
        for expected in ["init", "listed a", "done"] {
            assert_eq!(next(&mut events).await, expected);
        }
        // The watch is open once it has shown something.
        stage.label("a", "1").await;
        assert_eq!(next(&mut events).await, "apply a 1");
        maps.get("a").await.unwrap();
        stage.label("a", "2").await;
        if relists {
            assert!(next(&mut events).await.starts_with("error"));
            assert_eq!(next(&mut events).await, "init");
            assert_eq!(next(&mut events).await, "listed a");
        } else {
            assert_eq!(next(&mut events).await, "apply a 2");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_under_faults_is_in_json() {
    let stage = Stage::new(Plan::none());
    let watch = async |accept: &'static str| {
        let request = Request::get("/api/v1/configmaps?watch=true&timeoutSeconds=1")
            .header(header::ACCEPT, accept)
            .body(Full::default())
            .unwrap();
        let service = stage.layer.layer(stage.cluster.service());
        let response = service.oneshot(request).await.unwrap();
        let media = response.headers()[header::CONTENT_TYPE].to_str().unwrap();
        (response.status().as_u16(), media.to_owned())
    };
    let json = "application/json".to_owned();
    let both = "application/vnd.kubernetes.protobuf;stream=watch,application/json";
    assert_eq!(watch(both).await, (200, json.clone()));
    assert_eq!(
        watch("application/vnd.kubernetes.protobuf").await,
        (406, json)
    );
}

#[tokio::test(start_paused = true)]
async fn late_events_come_after_a_while_or_when_released() {
    for release in [false, true] {
        let stage = Stage::new(Plan::first("a get", Fault::WatchLags, |call| {
            call.verb == "get"
        }));
        let maps = stage.maps();
        let mut events = Box::pin(maps.watch(&WatchParams::default(), "0").await.unwrap());
        stage.create("a").await;
        events.try_next().await.unwrap().unwrap();
        maps.get("a").await.unwrap();
        stage.label("a", "1").await;
        let start = Instant::now();
        assert!(
            timeout(Duration::from_secs(5), events.next())
                .await
                .is_err()
        );
        if release {
            stage.layer.release();
        }
        assert_eq!(stage.layer.is_holding(), !release);
        let event = events.try_next().await.unwrap().unwrap();
        assert!(matches!(event, WatchEvent::Modified(map) if map.labels()["l"] == "1"));
        assert_eq!(start.elapsed().as_secs(), if release { 5 } else { 10 });
        assert!(!stage.layer.is_holding());
    }
}

#[tokio::test(start_paused = true)]
async fn several_changes_are_seen_as_one() {
    let stage = Stage::new(Plan::first("a get", Fault::Coalesced, |call| {
        call.verb == "get"
    }));
    let maps = stage.maps();
    let mut events = Box::pin(maps.watch(&WatchParams::default(), "0").await.unwrap());
    stage.create("a").await;
    events.try_next().await.unwrap().unwrap();
    maps.get("a").await.unwrap();
    for value in ["1", "2", "3"] {
        stage.label("a", value).await;
    }
    let event = events.try_next().await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Modified(map) if map.labels()["l"] == "3"));
}

#[tokio::test(start_paused = true)]
async fn a_recreation_that_is_hidden_is_a_change_with_another_uid() {
    let stage = Stage::new(Plan::first("a write", Fault::HiddenRecreate, |_| true));
    let before = stage.create("a").await;
    let maps = stage.maps();
    let mut events = Box::pin(maps.watch(&WatchParams::default(), "0").await.unwrap());
    events.try_next().await.unwrap().unwrap();
    apply(&maps, "a", "mine").await.unwrap();
    match events.try_next().await.unwrap().unwrap() {
        WatchEvent::Modified(after) => {
            assert_ne!(after.uid(), before.uid());
            assert_eq!(after.labels()["l"], "mine");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_stale_restart_cached_lists_show_the_past_once() {
    let stage = Stage::new(Plan::first("a patch", Fault::StaleRestart, |c| {
        c.is_write()
    }));
    stage.create("a").await;
    let old = stage.maps();
    let patch = apply(&old, "a", "mine");
    assert!(timeout(Duration::from_secs(1), patch).await.is_err());

    let new = stage.maps();
    let label = |list: kube::api::ObjectList<ConfigMap>| list.items[0].labels().get("l").cloned();
    let cached = ListParams::default().match_any();
    let quorum = ListParams::default();
    assert_eq!(
        label(new.list(&quorum).await.unwrap()).as_deref(),
        Some("mine")
    );
    let past = new.list(&cached).await.unwrap();
    let version = past.metadata.resource_version.clone().unwrap();
    assert_eq!(label(past), None);
    assert_eq!(
        label(new.list(&cached).await.unwrap()).as_deref(),
        Some("mine")
    );

    // A watch from there shows what is missing, late.
    let start = Instant::now();
    let mut events = Box::pin(new.watch(&WatchParams::default(), &version).await.unwrap());
    let event = events.try_next().await.unwrap().unwrap();
    assert!(matches!(event, WatchEvent::Modified(map) if map.labels()["l"] == "mine"));
    assert!(
        start.elapsed() >= Duration::from_secs(8),
        "{:?}",
        start.elapsed()
    );
}
