//! Routes and the host key out of a cluster, here the in-memory one.

use std::time::Duration;

use crate::common::{Bed, text, until};
use k8s_openapi::ByteString;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kite_core::activity;
use kite_core::crd::{
    AccessStatus, KitePlatform, KiteVirtualMachine, KiteVirtualMachineSpec, PowerState,
};
use kite_core::{labels, names};
use kite_fake::FakeCluster;
use kite_gateway::kubernetes::{
    HostKeyError, RouteTable, SpecStarter, host_key, report_activity, watch_routes,
};
use kite_gateway::{Infrastructure, LoginName, Route, Routes, Starter, VmState};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "kite-user-ann";

async fn cluster() -> FakeCluster {
    let cluster = FakeCluster::builder()
        .crds(kite_core::crd::all())
        .build()
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    for name in [NAMESPACE, names::PLATFORM_NAMESPACE] {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.into()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
    }
    cluster
}

fn metadata(name: String, component: &str) -> ObjectMeta {
    let mut labels = labels::for_vm(NAMESPACE, "web");
    labels.insert(labels::COMPONENT.into(), component.into());
    labels.insert(labels::SERVICE_NAME.into(), names::access_service("web"));
    ObjectMeta {
        name: Some(name),
        namespace: Some(NAMESPACE.into()),
        labels: Some(labels),
        ..ObjectMeta::default()
    }
}

/// A VM as the controller leaves it, with its sshd at `bed`'s guest.
async fn make_vm(client: &Client, bed: &Bed, guest: &kite_fake_kubevirt::guest::GuestHandle) {
    let (memory, disk) = ("1Gi".parse().unwrap(), "10Gi".parse().unwrap());
    let mut spec = KiteVirtualMachineSpec::new(1, memory, disk, "debian", "ann-web");
    spec.ssh_public_keys = vec![bed.user_key.public_key().to_openssh().unwrap()];
    let vm = KiteVirtualMachine::new("web", spec);
    let vms: Api<KiteVirtualMachine> = Api::namespaced(client.clone(), NAMESPACE);
    vms.create(&PostParams::default(), &vm).await.unwrap();
    let status = json!({"status": {"access": AccessStatus {
        service: names::access_service("web"),
        key_secret: names::ssh_key_secret("web"),
        ..AccessStatus::default()
    }}});
    vms.patch_status("web", &PatchParams::default(), &Patch::Merge(&status))
        .await
        .unwrap();
    let private = bed.vm_key.to_openssh(LineEnding::LF).unwrap();
    let public = guest.host_key().to_openssh().unwrap();
    let secret = Secret {
        metadata: metadata(names::ssh_key_secret("web"), labels::COMPONENT_SSH_KEY),
        data: Some(
            [
                (
                    names::key_secret::CLIENT_PRIVATE,
                    private.as_bytes().to_vec(),
                ),
                (names::key_secret::HOST_PUBLIC, public.into_bytes()),
            ]
            .map(|(k, v)| (k.to_owned(), ByteString(v)))
            .into(),
        ),
        ..Secret::default()
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
}

/// What the cluster's endpoints controller would write. The in-memory server
/// refuses loopback addresses as a real one does, so the slice goes straight to
/// the table.
fn slice(address: std::net::SocketAddr) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": metadata("web-1".into(), labels::COMPONENT_ACCESS),
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address.ip()], "conditions": {"ready": true}}],
        "ports": [{"name": "ssh", "port": address.port(), "protocol": "TCP"}],
    }))
    .unwrap()
}

async fn eventually(what: &str, holds: impl Fn() -> bool) {
    until(what, async || holds().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_follow_the_cluster_and_go_on_without_it() {
    let cluster = cluster().await;
    let client = cluster.client();
    let table = RouteTable::default();
    let bed = Bed::over(table.clone()).await;
    let guest = bed.guest("ann-web").await;
    let stop = CancellationToken::new();
    tokio::spawn(watch_routes(
        client.clone(),
        table.clone(),
        Some(Infrastructure::default()),
        stop.clone(),
    ));
    table.ready().await;
    make_vm(&client, &bed, &guest).await;
    let login = LoginName::parse("ann-web").unwrap();
    let find = || table.find(&login);
    eventually("a route with keys", || {
        find().is_some_and(|r| r.target.is_some())
    })
    .await;
    assert!(matches!(find().unwrap().state, VmState::Starting(_)));
    let output = bed.ssh("ann-web", "echo in").await;
    assert!(
        text(&output.stderr).contains("it is starting"),
        "{}",
        text(&output.stderr)
    );

    table.slice(kube::runtime::watcher::Event::Apply(slice(guest.address())));
    let output = bed.ssh("ann-web", "echo in").await;
    assert_eq!(text(&output.stdout), "in\n", "{}", text(&output.stderr));

    let authority = bed.user_key.public_key().to_openssh().unwrap();
    let platform: KitePlatform = serde_json::from_value(json!({
        "apiVersion": "hy3ons.github.io/v1",
        "kind": "KitePlatform",
        "metadata": {"name": "default"},
        "spec": {"gateway": {"userAuthorities": [
            {"name": "staff", "publicKey": authority, "principals": "LoginNames"},
        ]}},
    }))
    .unwrap();
    let platforms: Api<KitePlatform> = Api::all(client.clone());
    let params = PostParams::default();
    platforms.create(&params, &platform).await.unwrap();
    let vouches = |route: &Route| route.authorities.iter().any(|it| it.principal == "ann-web");
    eventually("an authority", || vouches(&find().unwrap())).await;

    let vms: Api<KiteVirtualMachine> = Api::namespaced(client.clone(), NAMESPACE);
    let power = |state: &str| Patch::Merge(json!({"spec": {"powerState": state}}));
    let params = PatchParams::default();
    vms.patch("web", &params, &power("Off")).await.unwrap();
    eventually("off", || find().unwrap().state != VmState::Running).await;
    let output = bed.ssh("ann-web", "echo in").await;
    assert!(
        text(&output.stderr).contains("switched off"),
        "{}",
        text(&output.stderr)
    );
    vms.patch("web", &params, &power("On")).await.unwrap();
    eventually("on", || find().unwrap().state == VmState::Running).await;

    cluster.shut_down();
    let output = bed.ssh("ann-web", "echo without").await;
    assert_eq!(
        text(&output.stdout),
        "without\n",
        "{}",
        text(&output.stderr)
    );
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vm_is_started_by_its_spec_and_no_other_of_its_name() {
    let cluster = cluster().await;
    let client = cluster.client();
    let bed = Bed::new().await;
    let guest = bed.guest("ann-web").await;
    make_vm(&client, &bed, &guest).await;
    let vms: Api<KiteVirtualMachine> = Api::namespaced(client.clone(), NAMESPACE);
    let off = Patch::Merge(json!({"spec": {"powerState": "Off", "startOnConnect": true}}));
    let params = PatchParams::default();
    let off = vms.patch("web", &params, &off).await.unwrap();
    let uid = off.metadata.uid.unwrap();

    let table = RouteTable::default();
    let shutdown = CancellationToken::new();
    let watching = tokio::spawn(watch_routes(
        client.clone(),
        table.clone(),
        Some(Infrastructure::default()),
        shutdown.clone(),
    ));
    table.ready().await;
    let login = LoginName::parse("ann-web").unwrap();
    let route = table.find(&login).unwrap();
    assert!(route.start_on_connect && matches!(route.state, VmState::Stopped(_)));
    assert_eq!(route.uid, uid);

    let starter = SpecStarter::new(client.clone());
    let another = Route {
        uid: "another".to_owned(),
        ..(*route).clone()
    };
    let error = starter.start(&another).await.unwrap_err();
    assert!(error.contains("uid") || error.contains("UID"), "{error}");
    let is_on = async || vms.get("web").await.unwrap().spec.power_state == PowerState::On;
    assert!(!is_on().await);
    starter.start(&route).await.unwrap();
    assert!(is_on().await);
    eventually("started", || {
        let route = table.find(&login).unwrap();
        matches!(route.state, VmState::Starting(_))
    })
    .await;
    shutdown.cancel();
    watching.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_use_of_a_vm_with_an_idle_timeout_is_reported() {
    let cluster = cluster().await;
    let client = cluster.client();
    let table = RouteTable::default();
    let bed = Bed::over(table.clone()).await;
    let guest = bed.guest("ann-web").await;
    let stop = CancellationToken::new();
    tokio::spawn(watch_routes(
        client.clone(),
        table.clone(),
        Some(Infrastructure::default()),
        stop.clone(),
    ));
    let reports = tokio::spawn(report_activity(
        client.clone(),
        table.clone(),
        bed.sessions.clone(),
        stop.clone(),
    ));
    table.ready().await;
    make_vm(&client, &bed, &guest).await;
    table.slice(kube::runtime::watcher::Event::Apply(slice(guest.address())));
    let login = LoginName::parse("ann-web").unwrap();
    eventually("a route", || {
        let route = table.find(&login);
        route.is_some_and(|route| route.target.is_some() && route.state == VmState::Running)
    })
    .await;
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let lease = || async { leases.get_opt("web-activity").await.unwrap() };

    // Nobody asked for it: nothing is written.
    bed.ssh("ann-web", "echo in").await;
    assert_eq!(lease().await, None);

    let vms: Api<KiteVirtualMachine> = Api::namespaced(client.clone(), NAMESPACE);
    let timeout = Patch::Merge(json!({"spec": {"idleTimeout": "1h"}}));
    let vm = vms.patch("web", &PatchParams::default(), &timeout).await;
    let uid = vm.unwrap().metadata.uid.unwrap();
    // Until the watch has told the gateway.
    let mut reported = None;
    for _ in 0..50 {
        bed.ssh("ann-web", "echo in").await;
        reported = lease().await;
        if reported.is_some() {
            break;
        }
    }
    let first = activity::last_used(&reported.unwrap(), &uid).unwrap();
    // What follows waits for its turn, and is not lost when the gateway ends.
    tokio::time::sleep(Duration::from_millis(50)).await;
    bed.ssh("ann-web", "echo in").await;
    let unchanged = activity::last_used(&lease().await.unwrap(), &uid);
    assert_eq!(unchanged, Some(first));
    stop.cancel();
    reports.await.unwrap();
    let last = activity::last_used(&lease().await.unwrap(), &uid).unwrap();
    assert!(last > first, "{last} {first}");
    // Once when it was asked for, once at the end, and never before.
    let written = cluster.log().count("patch", "leases.coordination.k8s.io");
    assert_eq!(written, 2);
}

#[tokio::test]
async fn a_deleted_vm_has_no_route() {
    let cluster = cluster().await;
    let client = cluster.client();
    let table = RouteTable::default();
    tokio::spawn(watch_routes(
        client.clone(),
        table.clone(),
        Some(Infrastructure::default()),
        CancellationToken::new(),
    ));
    let bed = Bed::new().await;
    let guest = bed.guest("ann-web").await;
    make_vm(&client, &bed, &guest).await;
    table.ready().await;
    eventually("a route", || table.len() == 1).await;
    let vms: Api<KiteVirtualMachine> = Api::namespaced(client, NAMESPACE);
    vms.delete("web", &DeleteParams::default()).await.unwrap();
    eventually("no route", || table.is_empty()).await;
}

#[tokio::test]
async fn defect_4_replicas_that_start_at_once_have_one_host_key() {
    let cluster = cluster().await;
    let make = || host_key(cluster.client(), "kite", names::GATEWAY_HOST_KEY_SECRET);
    let (a, b, c) = tokio::join!(make(), make(), make());
    let keys = [a, b, c, make().await].map(|key| key.unwrap().public_key().key_data().clone());
    assert!(keys.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn an_unusable_host_key_is_not_replaced() {
    let cluster = cluster().await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), "kite");
    let [key, other] = [0, 1].map(|_| PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519));
    let private = key.unwrap().to_openssh(LineEnding::LF).unwrap();
    let other = other.unwrap().public_key().to_openssh().unwrap();
    let cases = [
        ("no key", None, "delete the Secret"),
        (private.as_str(), Some("no key"), "ssh_host_ed25519_key.pub"),
        (private.as_str(), Some(other.as_str()), "of another key"),
    ];
    for (number, (private, public, why)) in cases.into_iter().enumerate() {
        let name = format!("broken-{number}");
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let data = [
            Some(("ssh_host_ed25519_key".to_owned(), bytes(private))),
            public.map(|it| ("ssh_host_ed25519_key.pub".to_owned(), bytes(it))),
        ];
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                ..ObjectMeta::default()
            },
            data: Some(data.into_iter().flatten().collect()),
            ..Secret::default()
        };
        let params = PostParams::default();
        secrets.create(&params, &secret).await.unwrap();
        let made = host_key(cluster.client(), "kite", &name).await;
        let error = made.unwrap_err();
        assert!(matches!(error, HostKeyError::Unusable { .. }));
        let error = error.to_string();
        assert!(error.contains(&name) && error.contains(why), "{error}");
    }
}
