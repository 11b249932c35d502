//! A kind that may be read in some namespaces only.
#![allow(clippy::unwrap_used)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::Request;
use k8s_openapi::api::{core::v1::Secret, rbac::v1::RoleBinding};
use kite_cluster::{Cluster as _, ClusterError, ClusterExt as _, KubeCluster, ObjectKey};
use kite_fake::FakeCluster;
use kube::{
    Client, ResourceExt as _,
    api::{ListParams, PropagationPolicy},
    client::Body,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt as _, service_fn};

use super::{CachedCluster, Caches, reach::Place, table::Known, watches::Watches};
use crate::{health::Health, kinds::Whole};

const ME: &str = "controller";
const ROLE: &str = "controller-of-users";
const RBAC: &str = "rbac.authorization.k8s.io";

/// A cluster in which somebody reads Secrets where that is allowed.
struct World {
    fake: FakeCluster,
    plain: KubeCluster,
    caches: Caches,
    reader: CachedCluster<KubeCluster>,
    health: Health,
    /// Names of the Secrets that were told of; those that are gone with `-`.
    told: Arc<Mutex<Vec<String>>>,
    stop: CancellationToken,
}

fn rule(resource: &str, group: &str, names: &[&str]) -> Value {
    let mut rule = json!({
        "apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"],
    });
    if !names.is_empty() {
        rule["resourceNames"] = json!(names);
    }
    rule
}

fn bound(kind: &str, namespace: Option<&str>, name: &str, to: [&str; 2]) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": to[0], "name": to[1]},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": ME}],
    })
}

fn secret(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
    })
}

fn home(user: &str) -> String {
    format!("user-{user}")
}

/// A cluster with the roles, ann and bob, and a Secret of each.
fn cluster() -> FakeCluster {
    let fake = FakeCluster::builder().rbac(true).build().unwrap();
    for namespace in ["system", "user-ann", "user-bob"] {
        let metadata = json!({"name": namespace});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        fake.create(namespace).unwrap();
    }
    let role = |kind: &str, namespace: Option<&str>, name: &str, rules: Value| {
        let metadata = json!({"name": name, "namespace": namespace});
        let version = format!("{RBAC}/v1");
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules})
    };
    let own = rule("secrets", "", &["known"]);
    for object in [
        role("ClusterRole", None, ROLE, json!([rule("secrets", "", &[])])),
        role("ClusterRole", None, "nothing", json!([])),
        role(
            "ClusterRole",
            None,
            "all",
            json!([rule("rolebindings", RBAC, &[])]),
        ),
        role("Role", Some("system"), "own", json!([own])),
        bound("ClusterRoleBinding", None, "all", ["ClusterRole", "all"]),
        bound("RoleBinding", Some("system"), "own", ["Role", "own"]),
        secret("system", "known"),
        secret("system", "other"),
        secret("user-ann", "of-ann"),
        secret("user-bob", "of-bob"),
    ] {
        fake.create(object).unwrap();
    }
    fake
}

/// Binds a role in a user's namespace under the name that is looked for.
fn bind(fake: &FakeCluster, user: &str, role: &str) {
    let namespace = home(user);
    let to = ["ClusterRole", role];
    fake.create(bound("RoleBinding", Some(&namespace), ROLE, to))
        .unwrap();
}

impl World {
    /// Watches, by this client, and waits until that was tried.
    async fn watched(fake: FakeCluster, client: Client) -> Self {
        let mut watches = Watches::<Whole>::new(client.clone());
        watches.watch::<Secret>();
        let told = Arc::<Mutex<Vec<String>>>::default();
        let listener = Arc::clone(&told);
        watches.listen::<Secret>(move |secret| {
            let gone = secret.metadata.deletion_timestamp.is_some();
            let mark = if gone { "-" } else { "" };
            listener.lock().push(format!("{mark}{}", secret.name_any()));
        });
        watches.confine::<Secret>(ROLE, [ObjectKey::namespaced("system", "known")]);
        let (caches, running) = watches.build();
        let (tried, stop) = (running.tried(), CancellationToken::new());
        let health = Health::default();
        tokio::spawn(running.run(health.clone(), stop.clone()));
        tried.await;
        Self {
            plain: KubeCluster::new(fake.client()),
            reader: CachedCluster::new(KubeCluster::new(client), caches.clone()),
            fake,
            caches,
            health,
            told,
            stop,
        }
    }

    async fn start(fake: FakeCluster) -> Self {
        let client = fake.client_as(ME);
        Self::watched(fake, client).await
    }

    /// Whether there is such a Secret, as far as that is known without a request.
    fn known(&self, namespace: &str, name: &str) -> Option<bool> {
        let key = ObjectKey::namespaced(namespace, name);
        match self.caches.table::<Secret>().unwrap().known(&key) {
            Known::There { .. } => Some(true),
            Known::Absent { .. } => Some(false),
            Known::Ask => None,
        }
    }

    async fn finds(&self, namespace: &str, name: &str) -> Result<bool, ClusterError> {
        let key = ObjectKey::namespaced(namespace, name);
        Ok(self.reader.get_opt::<Secret>(&key).await?.is_some())
    }

    async fn lists(&self, namespace: Option<&str>) -> Result<usize, ClusterError> {
        let (namespace, all) = (namespace.map(str::to_owned), ListParams::default());
        let found = self.reader.list::<Secret>(namespace, &all).await?;
        Ok(found.items.len())
    }

    async fn unbind(&self, user: &str) {
        let key = ObjectKey::namespaced(home(user), ROLE);
        let binding: RoleBinding = self.plain.get(&key).await.unwrap();
        let gone = self
            .plain
            .delete_by_uid(&binding, PropagationPolicy::Background);
        gone.await.unwrap();
        pause(1).await;
    }

    fn told(&self) -> Vec<String> {
        let mut told = std::mem::take(&mut *self.told.lock());
        told.sort();
        told
    }
}

async fn pause(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn is_forbidden<T>(answer: &Result<T, ClusterError>) -> bool {
    matches!(answer, Err(ClusterError::Forbidden { .. }))
}

const ANN: &str = "user-ann";
const BOB: &str = "user-bob";

#[tokio::test(start_paused = true)]
async fn namespaces_come_and_go_with_their_bindings() {
    let fake = cluster();
    bind(&fake, "ann", ROLE);
    let it = World::start(fake).await;
    assert!(it.caches.is_synced::<Secret>());
    let mark = it.fake.log().mark();
    assert!(it.finds(ANN, "of-ann").await.unwrap());
    assert!(!it.finds(ANN, "none").await.unwrap());
    assert_eq!(it.lists(Some(ANN)).await.unwrap(), 1);
    assert!(it.finds("system", "known").await.unwrap());
    let asked = it.fake.log().since(&mark).entries;
    assert!(asked.iter().all(|it| it.verb == "watch"), "no request");
    // What is not watched is asked for.
    assert!(is_forbidden(&it.finds(BOB, "of-bob").await));
    assert!(is_forbidden(&it.finds("system", "other").await));
    assert!(is_forbidden(&it.lists(Some("system")).await));
    assert!(is_forbidden(&it.lists(None).await));
    assert_eq!(it.told(), ["known", "of-ann"]);

    bind(&it.fake, "bob", ROLE);
    pause(5).await;
    assert_eq!(it.known(BOB, "of-bob"), Some(true));
    assert_eq!(it.told(), ["of-bob"]);
    it.unbind("ann").await;
    assert_eq!(it.known(ANN, "of-ann"), None);
    assert_eq!(it.known(ANN, "none"), None);
    assert_eq!(it.told(), ["-of-ann"], "whoever may have it looks again");
    assert_eq!(it.known(BOB, "of-bob"), Some(true));
    let held = it.caches.stats().into_iter();
    let held: Vec<_> = held.filter(|it| it.kind == "Secret").collect();
    assert_eq!(held[0].objects, 2, "the known one, and bob's");

    bind(&it.fake, "ann", ROLE);
    it.fake.create(secret(ANN, "new")).unwrap();
    pause(5).await;
    assert_eq!(it.known(ANN, "new"), Some(true));
    assert_eq!(it.health.lacking(), Vec::<String>::new());
    it.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_may_not_be_read_holds_up_no_other() {
    let fake = cluster();
    bind(&fake, "ann", ROLE);
    bind(&fake, "bob", "nothing");
    let it = World::start(fake).await;
    assert_eq!(it.known(ANN, "of-ann"), Some(true));
    assert_eq!(it.known(BOB, "of-bob"), None);
    pause(60).await;
    assert_eq!(it.health.lacking(), Vec::<String>::new());
    // The right comes by another binding: nothing tells of that.
    let (namespace, to) = (home("bob"), ["ClusterRole", ROLE]);
    let other = bound("RoleBinding", Some(&namespace), "other", to);
    it.fake.create(other).unwrap();
    pause(15).await;
    assert_eq!(it.known(BOB, "of-bob"), Some(true));
    it.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn where_no_namespace_may_be_read_it_is_told() {
    let fake = cluster();
    bind(&fake, "ann", "nothing");
    let it = World::start(fake).await;
    pause(60).await;
    let lacking = it.health.lacking().join("\n");
    assert!(lacking.contains("grant the controller's"), "{lacking}");
    it.unbind("ann").await;
    bind(&it.fake, "ann", ROLE);
    pause(15).await;
    assert_eq!(it.health.lacking(), Vec::<String>::new());
    it.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn without_users_nobody_waits() {
    let it = World::start(cluster()).await;
    assert_eq!(it.health.lacking(), Vec::<String>::new());
    assert_eq!(it.known("system", "known"), Some(true));
    assert_eq!(it.known(ANN, "of-ann"), None);
    it.stop.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_passed_by_while_its_watch_fails() {
    let fake = cluster();
    bind(&fake, "ann", ROLE);
    bind(&fake, "bob", ROLE);
    let is_down = Arc::new(AtomicBool::new(false));
    // Whoever has the service may do everything.
    let (service, down) = (fake.service(), Arc::clone(&is_down));
    let service = service_fn(move |request: Request<Body>| {
        let (service, is_down) = (service.clone(), down.load(Ordering::SeqCst));
        let is_of_ann = request.uri().path().contains("/user-ann/secrets");
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=");
        async move {
            if is_of_ann && (is_down || is_watch) {
                return Err(tower::BoxError::from("connection refused"));
            }
            service
                .oneshot(request)
                .await
                .map_err(tower::BoxError::from)
        }
    });
    let it = World::watched(fake, Client::new(service, "default")).await;
    assert_eq!(it.known(ANN, "of-ann"), Some(true));
    is_down.store(true, Ordering::SeqCst);
    pause(10).await;
    assert_eq!(it.known(ANN, "of-ann"), Some(true), "a while is nothing");
    pause(90).await;
    assert_eq!(it.known(ANN, "of-ann"), None);
    assert_eq!(it.known(BOB, "of-bob"), Some(true));
    assert_eq!(it.health.lacking(), Vec::<String>::new());
    is_down.store(false, Ordering::SeqCst);
    pause(10).await;
    assert_eq!(it.known(ANN, "of-ann"), Some(true), "listed anew");
    it.stop.cancel();
}

#[test]
fn a_list_says_nothing_of_other_places() {
    let mut builder = Caches::builder();
    let mut writer = builder.packed::<Secret>(None, |_| {});
    let caches = builder.build();
    writer.confine();
    writer.begin();
    let [a, b] = ["a", "b"].map(|name| Place::Namespace(name.to_owned()));
    let one = Place::Object(ObjectKey::namespaced("c", "one"));
    let secrets = |namespace: &str, names: &[&str]| -> Vec<_> {
        let secret = |name: &&str| {
            let metadata = json!({
                "name": name, "namespace": namespace, "uid": name, "resourceVersion": "1",
            });
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        names.iter().map(secret).collect()
    };
    let known = |namespace: &str, name: &str| {
        let key = ObjectKey::namespaced(namespace, name);
        match caches.table::<Secret>().unwrap().known(&key) {
            Known::There { .. } => Some(true),
            Known::Absent { .. } => Some(false),
            Known::Ask => None,
        }
    };
    let ignore = |_: &Secret| {};
    assert_eq!(known("a", "x"), None);
    writer.list_in(&a, secrets("a", &["x", "y"]), true, ignore);
    writer.list_in(&b, secrets("b", &["z"]), true, ignore);
    writer.list_in(&one, secrets("c", &["one"]), true, ignore);
    assert_eq!(known("c", "one"), Some(true));
    assert_eq!(known("c", "two"), None, "only one is watched there");

    let mut told = Vec::new();
    writer.list_in(&a, secrets("a", &["x"]), false, |secret| {
        let is_gone = secret.metadata.deletion_timestamp.is_some();
        told.push((secret.name_any(), is_gone));
    });
    told.sort();
    assert_eq!(told, [("x".to_owned(), false), ("y".to_owned(), true)]);
    assert_eq!(known("a", "y"), Some(false));
    assert_eq!(known("b", "z"), Some(true));
    assert_eq!(known("c", "one"), Some(true));

    writer.lost_in(&a);
    assert_eq!(known("a", "x"), None);
    writer.list_in(&a, secrets("a", &["x"]), false, ignore);
    assert_eq!(known("a", "x"), Some(true));
    writer.leave(&a, ignore);
    assert_eq!(known("a", "x"), None);
    assert_eq!(known("b", "z"), Some(true));
    assert_eq!(caches.stats()[0].objects, 2);
}
