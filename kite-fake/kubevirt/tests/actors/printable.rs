//! Every word that `status.printableStatus` knows, reached by API calls and
//! rules alone.

use std::time::Duration;

use kite_fake::actors::kind::CLAIM;
use kite_fake::actors::{Rule, Selector, Stage};
use kite_fake_kubevirt::kinds::{DATA_VOLUME, MIGRATION, VIRTUAL_MACHINE};
use kite_fake_kubevirt::stages;
use serde_json::{Value, json};

use crate::world::{World, text};

const NS: Option<&str> = Some("default");

/// How a VM gets to a word.
enum Way {
    /// It has this run strategy.
    Strategy(&'static str),
    /// This rule holds from the start.
    Rule(Rule),
    /// This rule holds, then this is done to the running VM.
    Then(Rule, Deed),
    /// This is done to the running VM.
    Do(Deed),
}

#[derive(Clone, Copy)]
enum Deed {
    Stop,
    Delete,
    Pause,
    Migrate,
    Lose,
}

fn machine(strategy: &str) -> Value {
    json!({
        "metadata": {"name": "v"},
        "spec": {"runStrategy": strategy, "template": {"spec": {
            "domain": {
                "memory": {"guest": "1Gi"},
                "devices": {"interfaces": [{"name": "default", "masquerade": {}}]},
            },
            "networks": [{"name": "default", "pod": {}}],
            "volumes": [{"name": "root", "dataVolume": {"name": "d"}}],
        }}},
    })
}

fn disk() -> Value {
    json!({"metadata": {"name": "d"}, "spec": {
        "source": {"blank": {}},
        "pvc": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }})
}

async fn printable(world: &World) -> String {
    // A crash loop is never settled.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    text(&vm, "/status/printableStatus").to_owned()
}

async fn reach(way: Way) -> String {
    let world = World::new().await;
    let (strategy, rule, deed) = match way {
        Way::Strategy(strategy) => (strategy, None, None),
        Way::Rule(rule) => ("Always", Some(rule), None),
        Way::Then(rule, deed) => ("Always", Some(rule), Some(deed)),
        Way::Do(deed) => ("Always", None, Some(deed)),
    };
    if let Some(rule) = rule {
        world.rules.add(rule);
    }
    world.create(&DATA_VOLUME, NS, disk()).await;
    world.settle().await;
    world.create(&VIRTUAL_MACHINE, NS, machine(strategy)).await;
    if let Some(deed) = deed {
        assert_eq!(printable(&world).await, "Running");
        match deed {
            Deed::Stop => {
                let off = json!({"spec": {"runStrategy": "Halted"}});
                world.merge(&VIRTUAL_MACHINE, NS, "v", off).await;
            }
            Deed::Delete => world.delete(&VIRTUAL_MACHINE, NS, "v").await,
            Deed::Pause => {
                let path = "virtualmachineinstances/v/pause";
                world.ask(path, Value::Null).await.unwrap();
            }
            Deed::Migrate => {
                let job = json!({"metadata": {"name": "m"}, "spec": {"vmiName": "v"}});
                world.create(&MIGRATION, NS, job).await;
            }
            Deed::Lose => {
                let all = Selector::all();
                let rule = Rule::fail(stages::GUEST_SEEN, all, "Lost", "no answer");
                world.rules.add(rule);
            }
        }
    }
    let said = printable(&world).await;
    world.end().await;
    said
}

#[tokio::test(start_paused = true)]
async fn every_word_is_reached() {
    let fail = |stage, reason| Rule::fail(stage, Selector::all(), reason, "by rule");
    let hold = |stage| Rule::hold(stage, Selector::all());
    for (word, way) in [
        ("Stopped", Way::Strategy("Halted")),
        ("Provisioning", Way::Rule(hold(stages::DISK_STEP))),
        ("Starting", Way::Rule(hold(stages::GUEST_BOOTED))),
        ("Running", Way::Strategy("Always")),
        ("Paused", Way::Do(Deed::Pause)),
        (
            "Stopping",
            Way::Then(hold(stages::GUEST_STOPPED), Deed::Stop),
        ),
        (
            "Terminating",
            Way::Then(hold(stages::GUEST_STOPPED), Deed::Delete),
        ),
        (
            "CrashLoopBackOff",
            Way::Rule(fail(stages::GUEST_BOOTED, "NoBoot")),
        ),
        (
            "Migrating",
            Way::Then(hold(stages::MIGRATION_DONE), Deed::Migrate),
        ),
        ("Unknown", Way::Do(Deed::Lose)),
        (
            "ErrorUnschedulable",
            Way::Rule(fail(Stage::POD_SCHEDULED, "Unschedulable")),
        ),
        (
            "ErrImagePull",
            Way::Rule(fail(Stage::POD_READY, "ErrImagePull")),
        ),
        (
            "ImagePullBackOff",
            Way::Rule(fail(Stage::POD_READY, "ImagePullBackOff")),
        ),
        (
            "DataVolumeError",
            Way::Rule(fail(stages::DISK_STEP, "ImportFailed")),
        ),
        ("WaitingForReceiver", Way::Strategy("WaitAsReceiver")),
    ] {
        assert_eq!(reach(way).await, word);
    }
}

#[tokio::test(start_paused = true)]
async fn a_vm_says_that_its_claim_is_missing_or_unbound() {
    let world = World::new().await;
    let mut vm = machine("Always");
    vm["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "root", "persistentVolumeClaim": {"claimName": "c"}}]);
    world.create(&VIRTUAL_MACHINE, NS, vm.clone()).await;
    assert_eq!(printable(&world).await, "ErrorPvcNotFound");
    world.delete(&VIRTUAL_MACHINE, NS, "v").await;
    world.settle().await;

    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    world.create(&CLAIM, NS, claim).await;
    world.settle().await;
    // The Pod runs late: its claim counts as unbound until then.
    world
        .rules
        .add(Rule::hold(Stage::POD_SCHEDULED, Selector::all()));
    world.create(&VIRTUAL_MACHINE, NS, vm).await;
    assert_eq!(printable(&world).await, "Starting");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_was_lost_is_found_again() {
    let world = World::new().await;
    world.create(&DATA_VOLUME, NS, disk()).await;
    world.create(&VIRTUAL_MACHINE, NS, machine("Always")).await;
    world.settle().await;
    let rule = Rule::fail(
        stages::GUEST_SEEN,
        Selector::named("v"),
        "Lost",
        "no answer",
    );
    world.rules.add(rule);
    assert_eq!(printable(&world).await, "Unknown");
    world.rules.clear(stages::GUEST_SEEN);
    assert_eq!(printable(&world).await, "Running");
    world.end().await;
}
