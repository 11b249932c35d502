//! VMs from their creation to their end.

use std::io::Write as _;
use std::time::Duration;

use kite_fake::actors::kind::{CLAIM, ENDPOINT_SLICE, POD, SECRET, SERVICE, VOLUME};
use kite_fake::actors::{Rule, Selector, Stage};
use kite_fake_kubevirt::kinds::{DATA_SOURCE, DATA_VOLUME, INSTANCE, VIRTUAL_MACHINE};
use kite_fake_kubevirt::stages;
use kite_fake_kubevirt::{everything, play};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::world::{World, text};

const NS: Option<&str> = Some("default");

fn machine(strategy: &str) -> Value {
    json!({
        "metadata": {"name": "vm1"},
        "spec": {
            "runStrategy": strategy,
            "template": {
                "metadata": {"labels": {"app": "vm1"}},
                "spec": {
                    "domain": {
                        "cpu": {"sockets": 2},
                        "memory": {"guest": "1Gi"},
                        "devices": {
                            "disks": [{"name": "rootdisk"}, {"name": "cloudinitdisk"}],
                            "interfaces": [{"name": "default", "masquerade": {}}],
                        },
                    },
                    "networks": [{"name": "default", "pod": {}}],
                    "volumes": [
                        {"name": "rootdisk", "dataVolume": {"name": "vm1-disk"}},
                        {"name": "cloudinitdisk",
                         "cloudInitNoCloud": {"secretRef": {"name": "vm1-init"}}},
                    ],
                },
            },
        },
    })
}

async fn make_image(world: &World) {
    let image = json!({
        "metadata": {"name": "debian"},
        "spec": {
            "source": {"http": {"url": "https://example.org/debian.qcow2"}},
            "storage": {"resources": {"requests": {"storage": "2Gi"}}},
        },
    });
    world.create(&DATA_VOLUME, NS, image).await;
    let source = json!({
        "metadata": {"name": "debian"},
        "spec": {"source": {"pvc": {"namespace": "default", "name": "debian"}}},
    });
    world.create(&DATA_SOURCE, NS, source).await;
}

fn disk() -> Value {
    json!({
        "metadata": {"name": "vm1-disk"},
        "spec": {
            "sourceRef": {"kind": "DataSource", "name": "debian"},
            "storage": {"resources": {"requests": {"storage": "20Gi"}}},
        },
    })
}

async fn printable(world: &World) -> String {
    let vm = world.get(&VIRTUAL_MACHINE, NS, "vm1").await.unwrap();
    text(&vm, "/status/printableStatus").to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_vm_comes_up_and_goes_and_nothing_of_it_stays() {
    live(World::new().await).await;
}

#[tokio::test(start_paused = true)]
async fn other_actors_take_over_without_a_write() {
    let (first, second) = (CancellationToken::new(), CancellationToken::new());
    let mut world = World::empty();
    world.play(&first).await;
    make_image(&world).await;
    world.create(&SECRET, NS, secret()).await;
    world.create(&DATA_VOLUME, NS, disk()).await;
    world.create(&VIRTUAL_MACHINE, NS, machine("Always")).await;
    world.settle().await;
    assert_eq!(printable(&world).await, "Running");
    let revision = world.revision().await;
    first.cancel();
    world.actors.ended().await;
    world.play(&second).await;
    let newest = &world.newest().await[..5];
    assert_eq!(world.revision().await, revision, "{newest:#?}");
    assert_eq!(printable(&world).await, "Running");
    second.cancel();
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn two_of_each_do_no_harm() {
    let mut world = World::empty();
    let stop = CancellationToken::new();
    world.play(&stop).await;
    let other = play(&world.cluster, &world.rules, false, &stop);
    make_image(&world).await;
    world.create(&SECRET, NS, secret()).await;
    world.create(&DATA_VOLUME, NS, disk()).await;
    world.create(&VIRTUAL_MACHINE, NS, machine("Always")).await;
    let both = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        world.settle().await;
        assert!(other.settled(Duration::from_secs(60)).await);
    };
    both.await;
    assert_eq!(printable(&world).await, "Running");
    assert_eq!(world.list(&POD, NS).await.len(), 1);
    assert_eq!(world.list(&VOLUME, None).await.len(), 2);
    stop.cancel();
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_guest_waits_for_its_secret() {
    let world = World::new().await;
    make_image(&world).await;
    world.create(&DATA_VOLUME, NS, disk()).await;
    world.create(&VIRTUAL_MACHINE, NS, machine("Always")).await;
    world.settle().await;
    assert_eq!(printable(&world).await, "Starting");
    world.create(&SECRET, NS, secret()).await;
    world.settle().await;
    assert_eq!(printable(&world).await, "Running");
    world.end().await;
}

fn secret() -> Value {
    json!({"metadata": {"name": "vm1-init"}, "stringData": {"userdata": "#cloud-config"}})
}

/// There an instance's status is no subresource, and schemas prune.
#[tokio::test(start_paused = true)]
async fn a_vm_lives_the_same_life_under_the_real_definitions() {
    match World::with_real_definitions(everything()).await {
        Some(world) => live(world).await,
        None => {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: no definitions beside the checkout"
            );
        }
    }
}

async fn live(world: World) {
    let service = json!({
        "metadata": {"name": "ssh"},
        "spec": {"selector": {"vm.kubevirt.io/name": "vm1"}, "ports": [{"port": 22}]},
    });
    world.create(&SERVICE, NS, service).await;
    world.create(&SECRET, NS, secret()).await;
    world.create(&VIRTUAL_MACHINE, NS, machine("Always")).await;
    world.settle().await;
    assert_eq!(printable(&world).await, "ErrorPvcNotFound");

    world.create(&DATA_VOLUME, NS, disk()).await;
    world.settle().await;
    let waiting = world.get(&DATA_VOLUME, NS, "vm1-disk").await.unwrap();
    assert_eq!(text(&waiting, "/status/phase"), "Pending");
    assert_eq!(
        text(&waiting, "/status/conditions/1/reason"),
        "DataSourceNotFound"
    );

    make_image(&world).await;
    world.settle().await;
    assert_eq!(printable(&world).await, "Running");
    let instance = world.get(&INSTANCE, NS, "vm1").await.unwrap();
    assert_eq!(text(&instance, "/status/nodeName"), "demo-node");
    let ip = text(&instance, "/status/interfaces/0/ipAddress").to_owned();
    let pods = world.list(&POD, NS).await;
    assert_eq!(pods.len(), 1);
    assert_eq!(text(&pods[0], "/status/podIP"), ip);
    let slices = world.list(&ENDPOINT_SLICE, NS).await;
    assert_eq!(slices[0].data["endpoints"][0]["addresses"][0], *ip);
    assert_eq!(slices[0].data["ports"][0]["port"], 22);

    // Settled means that nobody writes.
    let revision = world.revision().await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    world.settle().await;
    assert_eq!(
        world.revision().await,
        revision,
        "{:#?}",
        &world.newest().await[..8]
    );

    let off = json!({"spec": {"runStrategy": "Halted"}});
    world.merge(&VIRTUAL_MACHINE, NS, "vm1", off).await;
    world.settle().await;
    assert_eq!(printable(&world).await, "Stopped");
    assert!(world.get(&INSTANCE, NS, "vm1").await.is_none());
    assert!(world.list(&POD, NS).await.is_empty());
    let slices = world.list(&ENDPOINT_SLICE, NS).await;
    assert!(slices[0].data["endpoints"][0].is_null());

    let on = json!({"spec": {"runStrategy": "Always"}});
    world.merge(&VIRTUAL_MACHINE, NS, "vm1", on).await;
    world.settle().await;
    assert_eq!(printable(&world).await, "Running");

    world.delete(&VIRTUAL_MACHINE, NS, "vm1").await;
    world.delete(&DATA_VOLUME, NS, "vm1-disk").await;
    world.delete(&SERVICE, NS, "ssh").await;
    world.settle().await;
    for kind in [&VIRTUAL_MACHINE, &INSTANCE, &POD, &ENDPOINT_SLICE] {
        assert!(world.list(kind, NS).await.is_empty(), "{}", kind.plural);
    }
    assert!(world.get(&DATA_VOLUME, NS, "vm1-disk").await.is_none());
    assert!(world.get(&CLAIM, NS, "vm1-disk").await.is_none());
    // The image's own.
    assert_eq!(world.list(&VOLUME, None).await.len(), 1);
    world.end().await;
}

/// What a VM says while `stage` is as the rule has it.
async fn printable_under(rule: Rule) -> String {
    let world = World::new().await;
    let stage = rule.stage;
    world.rules.add(rule);
    world.create(&SECRET, NS, secret()).await;
    let disk = json!({"metadata": {"name": "vm1-disk"}, "spec": {
        "source": {"blank": {}},
        "storage": {"resources": {"requests": {"storage": "1Gi"}}},
    }});
    world.create(&DATA_VOLUME, NS, disk).await;
    world.settle().await;
    world.create(&VIRTUAL_MACHINE, NS, machine("Always")).await;
    // A crash loop is never settled.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let said = printable(&world).await;
    world.rules.clear(stage);
    if stage != stages::DISK_STEP || said == "Provisioning" {
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(printable(&world).await, "Running", "after {said}");
    }
    world.delete(&VIRTUAL_MACHINE, NS, "vm1").await;
    world.settle().await;
    assert!(world.list(&POD, NS).await.is_empty());
    world.end().await;
    said
}

#[tokio::test(start_paused = true)]
async fn rules_lead_to_every_state_on_the_way() {
    let fail = |stage, reason| Rule::fail(stage, Selector::all(), reason, "by rule");
    let hold = |stage| Rule::hold(stage, Selector::all());
    for (rule, said) in [
        (hold(stages::DISK_STEP), "Provisioning"),
        (fail(stages::DISK_STEP, "ImportFailed"), "DataVolumeError"),
        (
            fail(Stage::POD_SCHEDULED, "Unschedulable"),
            "ErrorUnschedulable",
        ),
        (fail(Stage::POD_READY, "ErrImagePull"), "ErrImagePull"),
        (
            fail(Stage::POD_READY, "ImagePullBackOff"),
            "ImagePullBackOff",
        ),
        (hold(Stage::POD_READY), "Starting"),
        (hold(stages::GUEST_BOOTED), "Starting"),
        (fail(stages::GUEST_BOOTED, "NoBoot"), "CrashLoopBackOff"),
    ] {
        assert_eq!(printable_under(rule).await, said);
    }
}
