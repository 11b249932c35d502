//! Every command gets through what passes, and gives up what does not.

mod smoke;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret},
};
use kite_admin::{
    backup::{self, Backup, Scope},
    doctor::{Aim, State, examine},
    install::{Data, FirstAdmin, apply, first_admin, prune, remove},
    retry::retrying,
};
use kite_core::crd::{AccessLevel, KiteImage, KiteUser, KiteUserSpec};
use kite_fake::FakeCluster;
use kite_fake::actors::{Actors, Rules};
use kite_fake::fault::{Fault, Faults, Plan};
use kite_fake_kubevirt::{cdi_definitions, kubevirt_definitions, play};
use kite_render::install::{Installation, Process, Profile};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::Layer as _;

const LONG: Duration = Duration::from_secs(120);
/// What a client sees of servers that are restarted, or have too much to do.
const PASSING: [Fault; 5] = [
    Fault::ResetBeforeSend,
    Fault::ResetAfterCommit,
    Fault::TooManyRequests,
    Fault::ServerError,
    Fault::Timeout,
];

struct World {
    fake: FakeCluster,
    stop: CancellationToken,
    actors: Option<Actors>,
}

impl World {
    fn new() -> Self {
        let mut world = Self::still();
        let rules = Arc::new(Rules::instant());
        world.actors = Some(play(&world.fake, &rules, false, &world.stop));
        world
    }

    /// One in which nobody else does anything.
    fn still() -> Self {
        let fake = FakeCluster::builder()
            .crds(kubevirt_definitions())
            .crds(cdi_definitions())
            .build()
            .unwrap();
        Self {
            fake,
            stop: CancellationToken::new(),
            actors: None,
        }
    }

    /// A client as the commands have it, on a way on which things go wrong; what it told,
    /// and what went wrong.
    fn client(&self, plan: Plan) -> (Client, Arc<Mutex<Vec<String>>>, Faults) {
        let faults = Faults::new(plan);
        let service = faults.layer("kite").layer(self.fake.service());
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let tells = Arc::clone(&told);
        let client = retrying(Client::new(service, "default"), move |notice| {
            tells.lock().unwrap().push(notice.to_string());
        });
        (client, told, faults)
    }

    async fn count<K>(&self) -> usize
    where
        K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let all = Api::<K>::all(self.fake.client());
        all.list(&ListParams::default()).await.unwrap().items.len()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
        drop(self.actors.take());
    }
}

fn small() -> Installation {
    Profile::SingleNode.installation()
}

fn often(seed: u64) -> Plan {
    Plan::random(seed, 150, &PASSING)
}

async fn install(client: &Client) -> FirstAdmin {
    let manifests = small().manifests();
    let narrowing = apply(client, &manifests, false, |_, _| {}).await.unwrap();
    let admin = first_admin(client, "kite").await.unwrap();
    narrowing.finish(client, |_, _| {}).await.unwrap();
    prune(client, &manifests, false, |_, _| {}).await.unwrap();
    admin
}

#[tokio::test(start_paused = true)]
async fn an_installation_comes_through_whatever_passes() {
    for seed in 1..=3 {
        let world = World::new();
        let (client, _, faults) = world.client(often(seed));
        let FirstAdmin::Token(token) = install(&client).await else {
            panic!("there is no administrator yet");
        };
        let injected = faults.injected().len();
        assert!(injected > 20, "{seed}: {injected} of {}", faults.count());
        assert_eq!(world.count::<Deployment>().await, Process::ALL.len());
        assert_eq!(world.count::<KiteImage>().await, small().images.len());
        // The token that was told is the one that is there, however often it was sent.
        let secrets = Api::<Secret>::namespaced(world.fake.client(), "kite");
        let secret = secrets.get("kite-bootstrap").await.unwrap();
        assert_eq!(secret.data.unwrap()["token"].0, token.into_bytes());
        // Twice makes nothing new, and a third time takes it away.
        let (client, _, _) = world.client(often(seed + 10));
        install(&client).await;
        let (client, _, faults) = world.client(often(seed + 20));
        let left = remove(&client, "kite", Data::Delete, false, LONG, |_, _| {}).await;
        assert!(left.unwrap().is_empty());
        assert!(!faults.injected().is_empty());
        assert_eq!(world.count::<Deployment>().await, 0);
    }
}

/// As a real API server refuses the first list right after a CRD was made.
#[tokio::test(start_paused = true)]
async fn a_kind_whose_storage_is_not_ready_is_waited_for() {
    let world = World::new();
    let users = |call: &kite_fake::fault::Call| call.verb == "list" && call.plural == "kiteusers";
    let plan = (0..5).fold(Plan::none(), |plan, number| {
        plan.and_first(number.to_string(), Fault::TooManyRequests, users)
    });
    let (client, told, faults) = world.client(plan);
    install(&client).await;
    assert_eq!(faults.injected().len(), 5);
    let told = told.lock().unwrap();
    let [first, ..] = told.as_slice() else {
        panic!("nobody was told why it took so long");
    };
    assert!(
        first.contains("429: Too many requests") && first.contains("trying again for"),
        "{first}"
    );
}

/// One of several API servers may not have heard of a kind that another serves.
#[tokio::test(start_paused = true)]
async fn a_kind_that_the_server_has_not_heard_of_is_waited_for() {
    let world = World::new();
    let kite = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kite"}});
    world.fake.create(kite).unwrap();
    let (client, _, _) = world.client(Plan::none());
    let heard = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        for definition in kite_core::crd::all() {
            let definition = serde_json::to_value(definition).unwrap();
            world.fake.create(definition).unwrap();
        }
    };
    let (admin, ()) = tokio::join!(first_admin(&client, "kite"), heard);
    assert!(matches!(admin.unwrap(), FirstAdmin::Token(_)));
}

#[tokio::test(start_paused = true)]
async fn a_look_at_the_cluster_sees_what_is_there() {
    let aim = Aim {
        namespace: "kite".to_owned(),
        storage_class: None,
        planned: None,
        proxied: false,
    };
    let world = World::still();
    let quiet = examine(&world.fake.client(), &aim).await;
    for seed in 1..=3 {
        let (client, _, faults) = world.client(often(seed));
        let report = examine(&client, &aim).await;
        assert!(!faults.injected().is_empty());
        assert_eq!(report, quiet, "{seed}");
        let seen = report
            .findings
            .iter()
            .all(|it| !it.message.contains("cannot be looked at"));
        assert!(seen, "{report}");
    }
    assert_ne!(quiet.state, State::Fit, "a bare cluster lacks something");
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_comes_back() {
    let world = World::new();
    install(&world.fake.client()).await;
    let users = Api::<KiteUser>::all(world.fake.client());
    for name in ["ann", "bob", "eve"] {
        let mut spec = KiteUserSpec::new(name);
        spec.access_level = AccessLevel::Manager;
        let user = KiteUser::new(name, spec);
        users.create(&PostParams::default(), &user).await.unwrap();
    }
    let (client, _, faults) = world.client(Plan::random(1, 500, &PASSING));
    let kept: Backup = backup::take(&client, "kite", false, |_| {}).await.unwrap();
    assert!(!faults.injected().is_empty());
    let names = |kept: &Backup| {
        let entries = kept.entries.iter();
        let names: Vec<_> = entries.map(|it| it.object.metadata.name.clone()).collect();
        names
    };
    let quiet = backup::take(&world.fake.client(), "kite", false, |_| {}).await;
    assert_eq!(names(&kept), names(&quiet.unwrap()));

    for seed in 1..=3 {
        let other = World::new();
        install(&other.fake.client()).await;
        let (client, _, faults) = other.client(Plan::random(seed, 400, &PASSING));
        let how = backup::Options {
            dry_run: false,
            overwrite: true,
            with_tokens: false,
            scope: Scope::All,
            timeout: LONG,
        };
        backup::restore(&client, &kept, &how, |object, outcome| {
            assert!(outcome.is_back(), "{seed}: {object}: {outcome:?}");
        })
        .await;
        assert!(!faults.injected().is_empty());
        let users = Api::<KiteUser>::all(other.fake.client());
        let users = users.list(&ListParams::default()).await.unwrap();
        assert_eq!(users.items.len(), 3);
        for user in users {
            assert_eq!(user.spec.access_level, AccessLevel::Manager);
        }
    }
}

fn map(name: Option<&str>) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = name.map(str::to_owned);
    map.metadata.generate_name = name.is_none().then(|| "made-".to_owned());
    map
}

/// Which requests are sent once more, by what happened to the first.
#[tokio::test(start_paused = true)]
async fn what_would_do_something_else_the_second_time_is_sent_once() {
    let params = PostParams::default();
    for fault in PASSING {
        let world = World::still();
        // Surely not carried out, or nobody knows.
        let is_undone = fault == Fault::TooManyRequests;
        let was_done = matches!(fault, Fault::ResetAfterCommit | Fault::Timeout);

        let (client, _, faults) = world.client(Plan::at(1, fault));
        let maps = Api::<ConfigMap>::default_namespaced(client);
        let made = maps.create(&params, &map(None)).await;
        assert_eq!(made.is_ok(), is_undone, "{fault:?}: {made:?}");
        assert_eq!(
            world.count::<ConfigMap>().await,
            usize::from(is_undone || was_done)
        );
        assert_eq!(faults.count(), if is_undone { 2 } else { 1 }, "{fault:?}");

        let truth = Api::<ConfigMap>::default_namespaced(world.fake.client());
        let there = truth.create(&params, &map(Some("one"))).await.unwrap();
        let versioned = json!({
            "metadata": {"resourceVersion": there.metadata.resource_version,
                         "labels": {"a": "b"}},
        });
        let plain = json!({"metadata": {"labels": {"a": "c"}}});
        let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"},
                           "data": {"a": "b"}});
        for (what, patch, params, is_repeated) in [
            (
                "versioned",
                Patch::Merge(&versioned),
                PatchParams::default(),
                false,
            ),
            ("merge", Patch::Merge(&plain), PatchParams::default(), true),
            (
                "apply",
                Patch::Apply(&apply),
                PatchParams::apply("me"),
                true,
            ),
        ] {
            let (client, _, _) = world.client(Plan::at(1, fault));
            let maps = Api::<ConfigMap>::default_namespaced(client);
            let patched = maps.patch("one", &params, &patch).await;
            assert_eq!(
                patched.is_ok(),
                is_repeated || is_undone,
                "{what} {fault:?}: {patched:?}"
            );
        }
        // By its uid; or whatever has the name.
        for (is_named, is_repeated) in [(true, true), (false, false)] {
            let there = truth.get("one").await.unwrap();
            let mut how = DeleteParams::default();
            if is_named {
                how = how.preconditions(Preconditions {
                    uid: there.metadata.uid,
                    resource_version: None,
                });
            }
            let (client, _, faults) = world.client(Plan::at(1, fault));
            let maps = Api::<ConfigMap>::default_namespaced(client);
            let _ = maps.delete("one", &how).await;
            let expected = if is_repeated || is_undone { 2 } else { 1 };
            assert_eq!(faults.count(), expected, "{fault:?}");
            if truth.get_opt("one").await.unwrap().is_none() {
                truth.create(&params, &map(Some("one"))).await.unwrap();
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_pass_is_given_up() {
    let world = World::still();
    let ever = |fault| Plan::random(1, 1000, &[fault]);
    for fault in [Fault::TooManyRequests, Fault::ServerError] {
        let (client, told, _) = world.client(ever(fault));
        let maps = Api::<ConfigMap>::default_namespaced(client);
        let since = Instant::now();
        maps.list(&ListParams::default()).await.unwrap_err();
        // In simulated time.
        let took = since.elapsed();
        assert!(Duration::from_secs(20) < took && took <= Duration::from_secs(60));
        assert!(told.lock().unwrap().len() > 1, "{fault:?}");
    }
    // A server that has never answered is not looked for that long, by all requests
    // together.
    let (client, _, _) = world.client(ever(Fault::ResetBeforeSend));
    let maps = Api::<ConfigMap>::default_namespaced(client);
    let since = Instant::now();
    for _ in 0..5 {
        maps.list(&ListParams::default()).await.unwrap_err();
    }
    assert!(since.elapsed() <= Duration::from_secs(12));
    // Refusals are no trouble.
    let (client, told, faults) = world.client(Plan::none());
    let maps = Api::<ConfigMap>::default_namespaced(client);
    maps.get("nobody").await.unwrap_err();
    assert_eq!(faults.count(), 1);
    assert!(told.lock().unwrap().is_empty());
}
