//! `KubeVirt`'s actors write what `KubeVirt` was seen to write.
//!
//! The recording lies beside the checkout; where it is missing the test says so.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use kite_fake::actors::kind::{CLAIM, NAMESPACE, POD};
use kite_fake::actors::objects::controller_reference;
use kite_fake::actors::{Actor, Pods, Rule, Rules, Selector, Stage};
use kite_fake_kubevirt::kinds::{DATA_VOLUME, INSTANCE, VIRTUAL_MACHINE};
use kite_fake_kubevirt::kubevirt::{Instances, NoGuests, NodeAgent, VirtualMachines};
use kite_fake_kubevirt::stages;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Map, Value, json};

use crate::world::World;

const NS: Option<&str> = Some("kvt2");

fn recording() -> Option<Value> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/kubevirt-trace/vm-life.json");
    let bytes = std::fs::read(path).ok()?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

fn machine() -> Value {
    json!({
        "metadata": {"name": "vm1"},
        "spec": {
            "runStrategy": "Always",
            "template": {
                "metadata": {"labels": {"app": "vm1"}},
                "spec": {
                    "domain": {"cpu": {"sockets": 2}, "devices": {}},
                    "volumes": [
                        {"name": "rootdisk", "dataVolume": {"name": "vm1-disk"}},
                        {"name": "cloudinitdisk", "cloudInitNoCloud": {"userData": "#cloud-config"}},
                    ],
                },
            },
        },
    })
}

/// Only what the recording tells of an object, with what depends on the run
/// replaced.
fn told(object: Option<DynamicObject>, of_vm: bool) -> Value {
    let Some(object) = object else {
        return Value::Null;
    };
    let all = serde_json::to_value(&object).unwrap();
    let mut metadata = Map::new();
    let fields = if of_vm {
        &["name", "generation", "finalizers", "annotations"][..]
    } else {
        &[
            "name",
            "finalizers",
            "annotations",
            "labels",
            "deletionTimestamp",
            "ownerReferences",
        ][..]
    };
    for field in fields {
        if !all["metadata"][*field].is_null() {
            metadata.insert((*field).to_owned(), all["metadata"][*field].clone());
        }
    }
    let mut told = json!({"metadata": metadata, "status": all["status"]});
    if of_vm {
        told["spec.runStrategy"] = all["spec"]["runStrategy"].clone();
    }
    normal(&mut told, "");
    told
}

fn normal(value: &mut Value, member: &str) {
    match value {
        Value::Object(fields) => {
            fields.remove("uid");
            if member == "guestOSInfo" {
                fields.retain(|name, _| name == "id");
            }
            if member == "activePods" {
                let nodes: Vec<Value> = fields.values().cloned().collect();
                *value = json!(nodes);
                return normal(value, "nodes");
            }
            for (name, value) in fields {
                normal(value, &name.clone());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normal(item, member)),
        Value::String(text) => {
            let time = ["Time", "Timestamp"].iter().any(|t| member.ends_with(t));
            *text = match member {
                _ if time => "<time>".to_owned(),
                "mac" | "launcherContainerImageVersion" | "id" => format!("<{member}>"),
                "virtualMachineRevisionName" => {
                    let (_, generation) = text.rsplit_once('-').unwrap();
                    format!("revision-{generation}")
                }
                _ if text == "demo-node" => "node-a".to_owned(),
                _ if text.starts_with("10.244.") => "<ip>".to_owned(),
                _ => return,
            };
        }
        _ => {}
    }
}

/// What the recording tells at a step.
fn recorded(step: &Value, name: &str) -> Value {
    let mut value = step[name].clone();
    if name == "virtualMachineInstance"
        && let Some(metadata) = value
            .pointer_mut("/metadata")
            .and_then(Value::as_object_mut)
    {
        // Its status is no subresource there, so every write counts.
        metadata.remove("generation");
    }
    normal(&mut value, "");
    value
}

struct Life {
    world: World,
    steps: Vec<Value>,
    at: usize,
}

impl Life {
    /// The cluster has settled: everything is as recorded.
    async fn compare(&mut self) {
        self.world.settle().await;
        let step = self.steps[self.at].clone();
        let about = format!("step {}: {}", self.at, step["about"]);
        let vm = self.world.get(&VIRTUAL_MACHINE, NS, "vm1").await;
        let instance = self.world.get(&INSTANCE, NS, "vm1").await;
        let pairs = [
            ("virtualMachine", told(vm, true)),
            ("virtualMachineInstance", told(instance, false)),
        ];
        for (name, told) in pairs {
            let recorded = recorded(&step, name);
            assert!(
                recorded == told,
                "{about}: {name}\nrecorded {recorded:#}\n   wrote {told:#}"
            );
        }
        self.at += 1;
    }

    async fn status(&self, kind: &kite_fake::actors::Kind, status: Value) {
        let mut object = self.world.get(kind, NS, "vm1-disk").await.unwrap();
        object.data["status"] = status;
        let api = kind.api(&self.world.cluster.client(), NS);
        api.replace_status("vm1-disk", &PostParams::default(), &object)
            .await
            .unwrap();
    }

    fn hold(&self, stage: Stage) {
        self.world.rules.add(Rule::hold(stage, Selector::all()));
    }

    fn release(&self, stage: Stage) {
        self.world.rules.clear(stage);
    }

    async fn patch(&self, patch: Value) {
        self.world.merge(&VIRTUAL_MACHINE, NS, "vm1", patch).await;
    }
}

fn actors() -> Vec<Arc<dyn Actor>> {
    vec![
        Arc::new(VirtualMachines::default()),
        Arc::new(Instances::default()),
        Arc::new(NodeAgent::new(Arc::new(NoGuests))),
        Arc::new(Pods::default()),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_vm_lives_as_recorded() {
    let Some(recording) = recording() else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: no recording beside the checkout"
        );
        return;
    };
    follow(&recording, World::with(Rules::instant(), actors()).await).await;
    if let Some(world) = World::with_real_definitions(actors()).await {
        follow(&recording, world).await;
    }
}

async fn follow(recording: &Value, world: World) {
    world
        .create(&NAMESPACE, None, json!({"metadata": {"name": "kvt2"}}))
        .await;
    let steps = recording["steps"].as_array().unwrap().clone();
    let mut life = Life {
        world,
        steps,
        at: 0,
    };

    life.world.create(&VIRTUAL_MACHINE, NS, machine()).await;
    life.compare().await;

    let disk = json!({"metadata": {"name": "vm1-disk"}, "spec": {"source": {"blank": {}}}});
    let disk = life.world.create(&DATA_VOLUME, NS, disk).await;
    life.compare().await;

    let claim = json!({
        "metadata": {
            "name": "vm1-disk",
            "ownerReferences": [controller_reference(&DATA_VOLUME, &disk)],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "kite-vm-storage",
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "20Gi"}},
        },
    });
    life.world.create(&CLAIM, NS, claim).await;
    life.status(&DATA_VOLUME, json!({"phase": "CloneScheduled"}))
        .await;
    life.compare().await;
    let cloning = json!({"phase": "CloneInProgress", "progress": "42%"});
    life.status(&DATA_VOLUME, cloning).await;
    life.compare().await;

    life.hold(Stage::POD_SCHEDULED);
    let bound = json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "20Gi"}});
    life.status(&CLAIM, bound).await;
    life.status(&DATA_VOLUME, json!({"phase": "Succeeded"}))
        .await;
    life.compare().await;
    life.world.rules.add(Rule::fail(
        Stage::POD_SCHEDULED,
        Selector::all(),
        "Unschedulable",
        "0/1 nodes are available: 1 Insufficient memory.",
    ));
    life.compare().await;
    life.hold(Stage::POD_READY);
    life.release(Stage::POD_SCHEDULED);
    life.compare().await;
    life.hold(stages::GUEST_BOOTED);
    life.release(Stage::POD_READY);
    life.compare().await;
    life.release(stages::GUEST_BOOTED);
    life.compare().await;

    let sockets =
        |n: u32| json!({"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": n}}}}}});
    life.patch(sockets(4)).await;
    life.compare().await;
    life.patch(sockets(1)).await;
    life.compare().await;

    life.hold(stages::GUEST_STOPPED);
    life.patch(json!({"spec": {"runStrategy": "Halted"}})).await;
    life.compare().await;
    life.release(stages::GUEST_STOPPED);
    life.compare().await;
    assert!(life.world.list(&POD, NS).await.is_empty());
    life.compare().await;

    life.hold(Stage::POD_SCHEDULED);
    life.patch(json!({"spec": {"runStrategy": "Always"}})).await;
    life.compare().await;
    let pods = life.world.list(&POD, NS).await;
    let labels: Vec<&String> = pods[0]
        .metadata
        .labels
        .iter()
        .flatten()
        .map(|(n, _)| n)
        .collect();
    let recorded = &life.steps[14]["launcherPods"][0]["labels"];
    assert_eq!(
        labels,
        recorded.as_object().unwrap().keys().collect::<Vec<_>>()
    );

    life.world.delete(&VIRTUAL_MACHINE, NS, "vm1").await;
    life.compare().await;
    life.compare().await;
    assert!(life.world.list(&POD, NS).await.is_empty());
    assert_eq!(life.at, life.steps.len());
    life.world.end().await;
}
