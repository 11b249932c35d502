//! The rest of a cluster: namespaces, garbage, storage, workloads.

use std::sync::Arc;
use std::time::Duration;

use kite_fake::actors::kind::{
    CLAIM, CONFIG_MAP, DEPLOYMENT, NAMESPACE, NODE, POD, SERVICE, SERVICE_ACCOUNT, STORAGE_CLASS,
    VOLUME,
};
use kite_fake::actors::{Actor, ClaimBinder, GarbageCollector, Rule, Rules, Selector};
use kite_fake_kubevirt::cdi::DataVolumes;
use kite_fake_kubevirt::kinds::{DATA_VOLUME, INSTANCE, VIRTUAL_MACHINE};
use kite_fake_kubevirt::{demo_rules, stages};
use serde_json::json;

use crate::world::{World, text};

const NS: Option<&str> = Some("default");

#[tokio::test(start_paused = true)]
async fn a_new_namespace_has_its_defaults_and_gets_them_again() {
    let world = World::new().await;
    world
        .create(&NAMESPACE, None, json!({"metadata": {"name": "a"}}))
        .await;
    world.settle().await;
    let within = Some("a");
    assert!(
        world
            .get(&SERVICE_ACCOUNT, within, "default")
            .await
            .is_some()
    );
    world.delete(&CONFIG_MAP, within, "kube-root-ca.crt").await;
    world.settle().await;
    assert!(
        world
            .get(&CONFIG_MAP, within, "kube-root-ca.crt")
            .await
            .is_some()
    );
    world.delete(&NAMESPACE, None, "a").await;
    world.settle().await;
    assert!(world.get(&NAMESPACE, None, "a").await.is_none());
    assert!(world.list(&SERVICE_ACCOUNT, within).await.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_a_running_vm_ends() {
    let world = World::new().await;
    world
        .create(&NAMESPACE, None, json!({"metadata": {"name": "a"}}))
        .await;
    let disk = json!({"metadata": {"name": "d"}, "spec": {
        "source": {"blank": {}},
        "pvc": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }});
    world.create(&DATA_VOLUME, Some("a"), disk).await;
    let vm = json!({"metadata": {"name": "v"}, "spec": {"runStrategy": "Always", "template": {"spec": {
        "domain": {"memory": {"guest": "1Gi"}, "devices": {}}, "volumes": [{"name": "r", "dataVolume": {"name": "d"}}],
    }}}});
    world.create(&VIRTUAL_MACHINE, Some("a"), vm).await;
    world.settle().await;
    let instance = world.get(&INSTANCE, Some("a"), "v").await.unwrap();
    assert_eq!(text(&instance, "/status/phase"), "Running");
    world.delete(&NAMESPACE, None, "a").await;
    world.settle().await;
    assert!(world.get(&NAMESPACE, None, "a").await.is_none());
    assert!(world.list(&VOLUME, None).await.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_stays_while_one_owner_does_and_owners_elsewhere_do_not_count() {
    let actors: Vec<Arc<dyn Actor>> = vec![Arc::new(GarbageCollector::default())];
    let world = World::with(Rules::instant(), actors).await;
    let owner = |name: &str| json!({"metadata": {"name": name}});
    let mut references = Vec::new();
    for name in ["one", "two"] {
        let made = world.create(&CONFIG_MAP, NS, owner(name)).await;
        references.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made.metadata.uid,
        }));
    }
    let child = json!({"metadata": {"name": "child", "ownerReferences": references}});
    world.create(&CONFIG_MAP, NS, child.clone()).await;
    world.create(&CONFIG_MAP, Some("kube-system"), child).await;
    world.settle().await;
    assert!(
        world
            .get(&CONFIG_MAP, Some("kube-system"), "child")
            .await
            .is_none()
    );
    world.delete(&CONFIG_MAP, NS, "one").await;
    world.settle().await;
    let child = world.get(&CONFIG_MAP, NS, "child").await.unwrap();
    let left = child.metadata.owner_references.unwrap();
    assert_eq!(
        left.len(),
        1,
        "the reference to the lost owner is taken out"
    );
    assert_eq!(left[0].name, "two");
    world.delete(&CONFIG_MAP, NS, "two").await;
    world.settle().await;
    assert!(world.get(&CONFIG_MAP, NS, "child").await.is_none());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_bound_grows_and_takes_its_volume_along() {
    let actors: Vec<Arc<dyn Actor>> = vec![Arc::new(ClaimBinder)];
    let world = World::with(Rules::instant(), actors).await;
    let class = json!({
        "metadata": {"name": "elastic"},
        "provisioner": "csi.example.org",
        "allowVolumeExpansion": true,
    });
    world.create(&STORAGE_CLASS, None, class).await;
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "storageClassName": "elastic",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    world.create(&CLAIM, NS, claim).await;
    world.settle().await;
    let bound = world.get(&CLAIM, NS, "c").await.unwrap();
    assert_eq!(text(&bound, "/status/phase"), "Bound");
    assert_eq!(world.list(&VOLUME, None).await.len(), 1);
    let grow = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
    world.merge(&CLAIM, NS, "c", grow).await;
    world.settle().await;
    let grown = world.get(&CLAIM, NS, "c").await.unwrap();
    assert_eq!(text(&grown, "/status/capacity/storage"), "2Gi");
    world.delete(&CLAIM, NS, "c").await;
    world.settle().await;
    assert!(world.get(&CLAIM, NS, "c").await.is_none());
    assert!(world.list(&VOLUME, None).await.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_disk_shows_its_progress_and_may_fail() {
    let actors: Vec<Arc<dyn Actor>> = vec![Arc::new(DataVolumes::default())];
    let world = World::with(demo_rules(), actors).await;
    world.rules.add(Rule::fail(
        stages::DISK_STEP,
        Selector::named("bad"),
        "ImportFailed",
        "the server answered 404",
    ));
    let disk = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {
            "source": {"http": {"url": "https://example.org/x"}},
            "storage": {"resources": {"requests": {"storage": "1Gi"}}},
        }})
    };
    world.create(&DATA_VOLUME, NS, disk("good")).await;
    world.create(&DATA_VOLUME, NS, disk("bad")).await;
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..400 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let good = world.get(&DATA_VOLUME, NS, "good").await.unwrap();
        let now = format!(
            "{} {}",
            text(&good, "/status/phase"),
            text(&good, "/status/progress")
        );
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    assert_eq!(
        seen.iter()
            .map(|s| s.trim())
            .filter(|s| !s.is_empty())
            .collect::<Vec<_>>(),
        [
            "ImportScheduled N/A",
            "ImportInProgress N/A",
            "ImportInProgress 25.00%",
            "ImportInProgress 50.00%",
            "ImportInProgress 75.00%",
            "Succeeded 100.0%",
        ]
    );
    let bad = world.get(&DATA_VOLUME, NS, "bad").await.unwrap();
    assert_eq!(text(&bad, "/status/phase"), "Failed");
    assert_eq!(
        text(&bad, "/status/conditions/2/message"),
        "the server answered 404"
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn workloads_become_ready_and_balancers_get_addresses() {
    let world = World::new().await;
    let node = world.get(&NODE, None, "demo-node").await.unwrap();
    assert_eq!(node.data["status"]["conditions"][3]["status"], "True");
    let template = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template,
    }});
    world.create(&DEPLOYMENT, NS, deployment).await;
    let pod = json!({
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    world.create(&POD, NS, pod).await;
    let service = json!({"metadata": {"name": "s"}, "spec": {
        "type": "LoadBalancer", "ports": [{"port": 80}],
    }});
    world.create(&SERVICE, NS, service).await;
    world.settle().await;
    let deployment = world.get(&DEPLOYMENT, NS, "d").await.unwrap();
    assert_eq!(deployment.data["status"]["readyReplicas"], 3);
    let pod = world.get(&POD, NS, "p").await.unwrap();
    assert_eq!(
        text(&pod, "/status/podIP"),
        "10.244.0.5",
        "after three of the Deployment"
    );
    let service = world.get(&SERVICE, NS, "s").await.unwrap();
    assert_eq!(
        text(&service, "/status/loadBalancer/ingress/0/ip"),
        "127.0.0.1"
    );
    world.delete(&POD, NS, "p").await;
    world.settle().await;
    assert!(world.get(&POD, NS, "p").await.is_none());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_does_not_boot_is_tried_again_after_longer_and_longer_pauses() {
    let world = World::new().await;
    world.rules.add(Rule::fail(
        stages::GUEST_BOOTED,
        Selector::all(),
        "NoBoot",
        "no bootable device",
    ));
    let vm = json!({"metadata": {"name": "v"}, "spec": {"runStrategy": "Always", "template": {"spec": {
        "domain": {"memory": {"guest": "1Gi"}, "devices": {}}, "volumes": [],
    }}}});
    world.create(&VIRTUAL_MACHINE, NS, vm).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    assert_eq!(text(&vm, "/status/printableStatus"), "CrashLoopBackOff");
    assert_eq!(vm.data["status"]["startFailure"]["consecutiveFailCount"], 1);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    assert_eq!(vm.data["status"]["startFailure"]["consecutiveFailCount"], 2);
    world.rules.clear(stages::GUEST_BOOTED);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let vm = world.get(&VIRTUAL_MACHINE, NS, "v").await.unwrap();
    assert_eq!(text(&vm, "/status/printableStatus"), "Running");
    assert!(vm.data["status"]["startFailure"].is_null());
    world.end().await;
}
