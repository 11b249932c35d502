//! `kite smoke`: its page and its gateway are played here, and its user is made and taken
//! away at the API server, on a way on which things go wrong. In real time, for the sake of
//! the sockets.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kite_admin::smoke::{HostKey, Options, State, Step, run};
use kite_core::{
    cluster::{Cluster as _, KubeCluster},
    crd::{self, KiteImage, KitePlatform, KitePlatformSpec, KiteUser},
    names,
};
use kite_fake::FakeCluster;
use kite_fake::actors::Rules;
use kite_fake::fault::{Call, Fault, Plan};
use kite_fake_kubevirt::guest::{Guest, GuestConfig};
use kite_fake_kubevirt::{cdi_definitions, kubevirt_definitions, play};
use kite_reconcile::{Context, operator::Operator};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

use super::{LONG, World};

/// What happens to the first request of a kind, from the first step to clearing up.
const AMISS: [(&str, &str, Fault); 9] = [
    ("get", "kiteplatforms", Fault::ResetBeforeSend),
    ("list", "kiteusers", Fault::ServerError),
    ("list", "kiteimages", Fault::TooManyRequests),
    ("create", "kiteusers", Fault::ResetAfterCommit),
    ("get", "kiteusers", Fault::ServerError),
    ("delete", "kiteusers", Fault::Timeout),
    ("get", "namespaces", Fault::ResetBeforeSend),
    ("list", "kitereservations", Fault::ServerError),
    ("list", "persistentvolumes", Fault::TooManyRequests),
];

/// A request to its end, in however many pieces it comes: its head.
async fn whole(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    loop {
        request.push(stream.read_u8().await.ok()?);
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_lowercase();
        let length = |line: &str| line.strip_prefix("content-length: ")?.parse().ok();
        if body.len() == head.lines().find_map(length).unwrap_or(0) {
            return Some(head);
        }
    }
}

/// A page that answers, and at which nobody can sign in. Its address.
async fn page() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let head = whole(&mut stream).await?;
                let status = if head.starts_with("get ") {
                    "200 OK"
                } else {
                    "401 Unauthorized"
                };
                let answer = format!(
                    "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}"
                );
                stream.write_all(answer.as_bytes()).await.ok()
            });
        }
    });
    base
}

/// A cluster with Kite's controllers, a platform and an image.
async fn world() -> World {
    let fake = FakeCluster::builder()
        .crds(crd::all())
        .crds(kubevirt_definitions())
        .crds(cdi_definitions())
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let actors = play(&fake, &Arc::new(Rules::instant()), false, &stop);
    let cluster = KubeCluster::new(fake.client());
    for name in ["kite", "kite-images"] {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        cluster.create(&namespace).await.unwrap();
    }
    let platform = KitePlatform::new(names::PLATFORM, KitePlatformSpec::default());
    cluster.create(&platform).await.unwrap();
    let image = json!({"metadata": {"name": "debian"}, "spec": {
        "osFamily": "Debian", "minDisk": "1Gi",
        "source": {"http": {"url": "https://images.example.org/debian.qcow2"}},
    }});
    let image: KiteImage = serde_json::from_value(image).unwrap();
    cluster.create(&image).await.unwrap();
    let controller = Operator::without_election().run(
        fake.client(),
        |client| Context::new(KubeCluster::new(client)),
        stop.clone(),
    );
    tokio::spawn(controller);
    World {
        fake,
        stop,
        actors: Some(actors),
    }
}

#[tokio::test]
async fn a_smoke_test_gets_as_far_as_where_nothing_is_amiss_and_leaves_nothing() {
    let world = world().await;
    let gateway = GuestConfig::new("gateway", "nobody", Vec::new()).unwrap();
    let gateway = Guest::start(gateway).await.unwrap();
    let options = Options {
        namespace: names::PLATFORM_NAMESPACE.to_owned(),
        api_url: Some(page().await),
        gateway: Some(gateway.address().to_string().parse().unwrap()),
        host_key: Some(HostKey::Key(Box::new(gateway.host_key().clone()))),
        accept_host_key: false,
        image: None,
        timeout: LONG,
        unknown: LONG,
        keep: false,
    };
    let amiss = AMISS.into_iter().fold(Plan::none(), |plan, it| {
        let (verb, plural, fault) = it;
        let is_meant = move |call: &Call| call.verb == verb && call.plural == plural;
        plan.and_first(format!("{verb} {plural}"), fault, is_meant)
    });
    for (plan, went_wrong) in [(Plan::none(), 0), (amiss, AMISS.len())] {
        let (client, _, faults) = world.client(plan);
        let report = run(&client, &options, std::future::pending(), |_| {}).await;
        let steps: Vec<_> = report.steps.iter().map(|it| (it.step, it.state)).collect();
        let expected = [
            (Step::Platform, State::Passed),
            (Step::Api, State::Passed),
            (Step::Gateway, State::Passed),
            (Step::Image, State::Passed),
            (Step::User, State::Passed),
            // The page has never heard of it.
            (Step::SignIn, State::Failed),
            (Step::CleanUp, State::Passed),
        ];
        assert_eq!(steps, expected, "{report:#?}");
        assert_eq!(faults.injected().len(), went_wrong);
        assert_eq!(world.count::<KiteUser>().await, 0);
        let namespaces = Api::<Namespace>::all(world.fake.client());
        let namespaces = namespaces.list(&ListParams::default()).await.unwrap();
        let mut names = namespaces.iter().map(ResourceExt::name_any);
        assert!(names.all(|it| !it.starts_with("kite-user-")));
    }
}
