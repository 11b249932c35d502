//! Users: namespace, network policies, quota, usage, names.

use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{Namespace, Node, ResourceQuota},
    discovery::v1::EndpointSlice,
    networking::v1::NetworkPolicy,
};
use kite_core::{
    cdi::DataVolume,
    cluster::ClusterExt as _,
    conditions::find,
    crd::{Identity, KitePlatform, KiteReservation, KiteUser, KiteUserSpec, UserPhase, VmPhase},
    kubevirt::VirtualMachineInstance,
};
use kube::api::PropagationPolicy;
use serde_json::json;

use crate::world::{World, vm_named};

const ANN: &str = "kite-user-ann";

#[tokio::test(start_paused = true)]
async fn a_user_gets_a_namespace_with_network_policies_and_quota() {
    let world = World::with_ann().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let status = ann.status.unwrap();
    assert_eq!(status.phase, Some(UserPhase::Ready));
    assert_eq!(status.namespace.as_deref(), Some(ANN));
    let policies = world.all::<NetworkPolicy>().await;
    assert_eq!(policies.len(), 3);
    let quota = world
        .find::<ResourceQuota>(ANN, "kite-quota")
        .await
        .unwrap();
    let hard = quota.spec.unwrap().hard.unwrap();
    assert_eq!(hard["count/kitevirtualmachines.hy3ons.github.io"].0, "5");
}

#[tokio::test(start_paused = true)]
async fn the_network_policies_stand_before_the_namespace_is_named() {
    let world = World::new().await;
    world
        .create(KiteUser::new("ann", KiteUserSpec::new("ann")))
        .await;
    let written = world.settle().await;
    let status = written
        .iter()
        .position(|line| line == "status KiteUser ann")
        .unwrap();
    for what in ["apply NetworkPolicy", "apply ResourceQuota"] {
        let last = written
            .iter()
            .rposition(|line| line.starts_with(what))
            .unwrap();
        assert!(last < status, "{written:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn usage_counts_vms_whether_on_or_off() {
    let world = World::with_ann().await;
    let mut off = vm_named("off");
    off.spec.power_state = kite_core::crd::PowerState::Off;
    world.create(off).await;
    world.create(vm_named("on")).await;
    world.settle().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let usage = ann.status.unwrap().usage.unwrap();
    assert_eq!((usage.vms, usage.cpu), (2, 4));
    assert_eq!((usage.memory, usage.disk), (4 << 30, 20 << 30));
}

#[tokio::test(start_paused = true)]
async fn what_a_vm_asks_for_in_vain_is_not_used() {
    let world = World::with_ann().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let quota = json!({"vms": 5, "cpu": 8, "memory": "16Gi", "disk": "200Gi"});
    world.edit(&ann, json!({"spec": {"quota": quota}})).await;
    for name in ["first", "second"] {
        let mut vm = vm_named(name);
        vm.spec.cpu = 5;
        world.create(vm).await;
        world.settle().await;
    }
    let usage = |user: KiteUser| user.status.unwrap().usage.unwrap();
    let used = usage(world.find::<KiteUser>("", "ann").await.unwrap());
    assert_eq!((used.vms, used.cpu), (2, 5));
    let refused = world.vm("second").await;
    assert_eq!(refused.expected_charge().cpu, 0, "{:?}", refused.status);
    // What it asks for then fits, and is used.
    world.edit(&refused, json!({"spec": {"cpu": 3}})).await;
    world.settle().await;
    let used = usage(world.find::<KiteUser>("", "ann").await.unwrap());
    assert_eq!((used.vms, used.cpu), (2, 8));
}

#[tokio::test(start_paused = true)]
async fn drift_of_the_network_policies_is_repaired() {
    let world = World::with_ann().await;
    for policy in world.all::<NetworkPolicy>().await {
        world
            .edit(
                &policy,
                json!({"metadata": {"labels": null}, "spec": {"ingress": [{}]}}),
            )
            .await;
    }
    let quota = world
        .find::<ResourceQuota>(ANN, "kite-quota")
        .await
        .unwrap();
    world.delete(&quota).await;
    world.settle().await;
    for policy in world.all::<NetworkPolicy>().await {
        let spec = policy.spec.unwrap();
        if spec.policy_types.unwrap() != ["Ingress"] {
            continue;
        }
        for rule in spec.ingress.iter().flatten() {
            assert!(
                rule.from.as_ref().is_some_and(|from| !from.is_empty()),
                "a network policy is open"
            );
        }
    }
    assert!(
        world
            .find::<ResourceQuota>(ANN, "kite-quota")
            .await
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn defect_3_a_taken_username_or_email_is_refused_by_a_condition() {
    let world = World::with_ann().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world
        .edit(&ann, json!({"spec": {"email": "ann@example.org"}}))
        .await;
    world.settle().await;
    world
        .create(KiteUser::new("ann2", KiteUserSpec::new("ann")))
        .await;
    let mut eve = KiteUserSpec::new("eve");
    eve.email = Some("Ann@example.org".to_owned());
    world.create(KiteUser::new("eve", eve)).await;
    world.settle().await;
    for (name, field) in [("ann2", "spec.username"), ("eve", "spec.email")] {
        let user = world.find::<KiteUser>("", name).await.unwrap();
        let status = user.status.unwrap();
        assert_eq!(status.phase, Some(UserPhase::Failed));
        let reserved = find(&status.conditions, "Reserved").unwrap();
        assert!(
            reserved.message.contains(field) && reserved.message.contains("user ann"),
            "{reserved:?}"
        );
        assert!(
            world
                .find::<Namespace>("", &format!("kite-user-{name}"))
                .await
                .is_none()
        );
    }
    // An address that is given up is free.
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.edit(&ann, json!({"spec": {"email": null}})).await;
    world.settle().await;
    let eve = world.find::<KiteUser>("", "eve").await.unwrap();
    assert_eq!(eve.status.unwrap().phase, Some(UserPhase::Ready));
    assert_eq!(world.all::<KiteReservation>().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn somebody_at_a_provider_is_one_user_until_they_are_unlinked() {
    let world = World::with_ann().await;
    world
        .create(KiteUser::new("eve", KiteUserSpec::new("eve")))
        .await;
    let identity = Identity {
        issuer: "https://login.example.org".to_owned(),
        subject: "1001".to_owned(),
    };
    for name in ["ann", "eve"] {
        let user = world.find::<KiteUser>("", name).await.unwrap();
        let patch = json!({"spec": {"identities": [&identity]}});
        world.edit(&user, patch).await;
        world.settle().await;
    }
    let held = world
        .find::<KiteReservation>("", &identity.reservation())
        .await;
    assert_eq!(held.unwrap().spec.holder.name, "ann");
    let eve = world.find::<KiteUser>("", "eve").await.unwrap();
    let status = eve.status.unwrap();
    let reserved = find(&status.conditions, "Reserved").unwrap();
    assert_eq!(
        reserved.message,
        "spec.identities \"1001\" is taken by user ann: choose another"
    );
    // What she has she keeps.
    assert_eq!(status.namespace.as_deref(), Some("kite-user-eve"));
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let patch = json!({"spec": {"identities": null}});
    world.edit(&ann, patch).await;
    world.settle().await;
    let eve = world.find::<KiteUser>("", "eve").await.unwrap();
    assert_eq!(eve.status.unwrap().phase, Some(UserPhase::Ready));
    let held = world
        .find::<KiteReservation>("", &identity.reservation())
        .await;
    assert_eq!(held.unwrap().spec.holder.name, "eve");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_somebody_elses_is_left_alone() {
    let world = World::new().await;
    let mut foreign = Namespace::default();
    foreign.metadata.name = Some("kite-user-bob".to_owned());
    world.create(foreign).await;
    world
        .create(KiteUser::new("bob", KiteUserSpec::new("bob")))
        .await;
    world.settle().await;
    let bob = world.find::<KiteUser>("", "bob").await.unwrap();
    let status = bob.status.as_ref().unwrap();
    assert_eq!(status.namespace, None);
    assert_eq!(
        find(&status.conditions, "NamespaceReady").unwrap().reason,
        "NameTaken"
    );
    world.delete(&bob).await;
    world.settle().await;
    assert!(world.find::<Namespace>("", "kite-user-bob").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_vm_over_the_quota_is_told_so_and_fits_when_there_is_room() {
    let world = World::with_ann().await;
    // Of 8 CPUs.
    for (name, cpu) in [("one", 4), ("two", 4), ("three", 1)] {
        let mut vm = vm_named(name);
        vm.spec.cpu = cpu;
        world.create(vm).await;
        tokio::time::advance(std::time::Duration::from_secs(2)).await;
    }
    world.settle().await;
    let phase = async |name: &str| world.vm(name).await.status.unwrap().phase.unwrap();
    assert_eq!(
        (phase("one").await, phase("two").await),
        (VmPhase::Running, VmPhase::Running)
    );
    let three = world.vm("three").await;
    let status = three.status.as_ref().unwrap();
    let ready = find(&status.conditions, "Ready").unwrap();
    assert_eq!(
        (status.phase, ready.reason.as_str()),
        (Some(VmPhase::Failed), "QuotaExceeded")
    );
    assert!(
        ready.message.contains("9 CPUs") && ready.message.contains("8 CPUs"),
        "{}",
        ready.message
    );
    assert!(world.find::<DataVolume>(ANN, "three-disk").await.is_none());

    world.delete(&world.vm("one").await).await;
    world.settle().await;
    assert_eq!(phase("three").await, VmPhase::Running);
}

#[tokio::test(start_paused = true)]
async fn defect_6_the_api_server_itself_counts_vms() {
    let world = World::with_ann().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let quota = json!({"vms": 1, "cpu": 8, "memory": "16Gi", "disk": "200Gi"});
    world.edit(&ann, json!({"spec": {"quota": quota}})).await;
    world.settle().await;
    world.create(vm_named("one")).await;
    world.settle().await;
    let error = world.try_create(vm_named("two")).await.unwrap_err();
    assert!(error.to_string().contains("exceeded quota"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_network_policy_that_is_made_to_stand_around_fewer_pods_is_put_back() {
    let world = World::with_ann().await;
    let narrowed = json!({"spec": {"podSelector": {"matchLabels": {"app": "none"}}}});
    for policy in world.all::<NetworkPolicy>().await {
        world.edit(&policy, narrowed.clone()).await;
    }
    world.settle().await;
    for policy in world.all::<NetworkPolicy>().await {
        let selector = serde_json::to_string(&policy.spec.unwrap().pod_selector).unwrap();
        assert!(!selector.contains("none"), "{selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn vms_are_kept_from_nodes_with_public_addresses() {
    let world = World::with_ann().await;
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "node-a"},
        "spec": {"podCIDRs": ["10.42.0.0/24", "2a01:4f8:c0c:2::/64"]},
        "status": {"addresses": [{"type": "InternalIP", "address": "203.0.113.10"}]},
    }))
    .unwrap();
    world.create(node).await;
    let platform = world.find::<KitePlatform>("", "default").await.unwrap();
    let blocked = json!({"spec": {"blockedNetworks": ["198.51.100.0/24"]}});
    world.edit(&platform, blocked).await;
    world.settle().await;
    let policy = world
        .find::<NetworkPolicy>(ANN, "tenant-isolation-egress")
        .await
        .unwrap();
    let egress = serde_json::to_string(&policy.spec.unwrap().egress).unwrap();
    for range in ["203.0.113.10/32", "2a01:4f8:c0c:2::/64", "198.51.100.0/24"] {
        assert!(egress.contains(range), "{range}: {egress}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_vm_comes_while_its_user_goes_and_the_network_policies_stand() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    // Somebody's finalizer holds the VM.
    let mut finalizers = world.vm("web").await.metadata.finalizers.unwrap();
    finalizers.push("example.org/backup".to_owned());
    let held = json!({"metadata": {"finalizers": finalizers}});
    world.edit(&world.vm("web").await, held).await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    world.delete(&ann).await;
    world.settle().await;
    let error = world.try_create(vm_named("late")).await.unwrap_err();
    assert!(error.to_string().contains("exceeded quota"), "{error}");
    let policies = world.all::<NetworkPolicy>().await;
    for policy in &policies {
        world.delete(policy).await;
    }
    world.settle().await;
    assert_eq!(uids(&world.all().await), uids(&policies));
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let ready = find(&ann.status.as_ref().unwrap().conditions, "Ready").cloned();
    let ready = ready.unwrap();
    assert!(
        ready.message.contains("the user's VMs"),
        "{}",
        ready.message
    );

    let free = json!({"metadata": {"finalizers": null}});
    world.edit(&world.vm("web").await, free).await;
    world.settle().await;
    assert!(world.find::<KiteUser>("", "ann").await.is_none());
    assert!(world.find::<Namespace>("", ANN).await.is_none());
    world.assert_no_trace_of("web").await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_somebody_deletes_takes_its_vms_and_is_made_again() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let namespace = world.find::<Namespace>("", ANN).await.unwrap();
    world.delete(&namespace).await;
    // A VM that comes now is refused by the API server.
    assert!(world.try_create(vm_named("late")).await.is_err());
    world.settle().await;
    world.assert_no_trace_of("web").await;
    let again = world.find::<Namespace>("", ANN).await.unwrap();
    assert_ne!(again.metadata.uid, namespace.metadata.uid);
    assert_eq!(world.all::<NetworkPolicy>().await.len(), 3);
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let status = ann.status.unwrap();
    assert_eq!(status.phase, Some(UserPhase::Ready));
    assert_eq!(status.usage.unwrap().vms, 0);
}

fn uids(policies: &[NetworkPolicy]) -> Vec<Option<String>> {
    policies
        .iter()
        .map(|policy| policy.metadata.uid.clone())
        .collect()
}

/// The instance of the VM `web` takes its time to end, or may end.
async fn hold(world: &World, is_held: bool) {
    let web = world.find::<VirtualMachineInstance>(ANN, "web").await;
    let mut finalizers = vec!["foregroundDeleteVirtualMachine".to_owned()];
    finalizers.retain(|_| is_held);
    let held = json!({"metadata": {"finalizers": finalizers}});
    world.edit(&web.unwrap(), held).await;
}

#[tokio::test(start_paused = true)]
async fn a_network_policy_that_somebody_deletes_stands_until_nothing_runs() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    let policies = world.all::<NetworkPolicy>().await;
    for policy in &policies {
        world.delete(policy).await;
        // It is put right, too.
        let types = policy.spec.as_ref().unwrap().policy_types.as_ref().unwrap();
        let open = match &types[..] {
            [only] if only == "Egress" => json!({"spec": {"egress": [{}]}}),
            _ => json!({"spec": {"ingress": [{}]}}),
        };
        world.edit(policy, open).await;
    }
    world.settle().await;
    let left = world.all::<NetworkPolicy>().await;
    for (was, is) in policies.iter().zip(&left) {
        assert_eq!(was.metadata.uid, is.metadata.uid);
        assert_eq!(was.spec, is.spec);
    }
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    assert_eq!(ann.status.unwrap().phase, Some(UserPhase::Ready));

    world.delete(&world.vm("web").await).await;
    world.settle().await;
    let anew = world.all::<NetworkPolicy>().await;
    for (was, is) in policies.iter().zip(&anew) {
        assert_ne!(was.metadata.uid, is.metadata.uid);
        assert_eq!(was.spec, is.spec);
        assert_eq!(is.metadata.deletion_timestamp, None);
    }
}

#[tokio::test(start_paused = true)]
async fn the_network_policies_of_a_namespace_that_goes_stand_until_nothing_runs() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    hold(&world, true).await;
    let policies = world.all::<NetworkPolicy>().await;
    let namespace = world.find::<Namespace>("", ANN).await.unwrap();
    world.delete(&namespace).await;
    world.settle().await;
    let left = world.all::<NetworkPolicy>().await;
    assert_eq!(uids(&left), uids(&policies));
    assert!(
        left.iter()
            .all(|it| it.metadata.deletion_timestamp.is_some())
    );

    hold(&world, false).await;
    world.settle().await;
    let again = world.find::<Namespace>("", ANN).await.unwrap();
    assert_ne!(again.metadata.uid, namespace.metadata.uid);
    assert_eq!(world.all::<NetworkPolicy>().await.len(), 3);
}

/// The garbage collector deletes all that the user owns at once then.
#[tokio::test(start_paused = true)]
async fn the_network_policies_of_a_user_who_goes_in_the_foreground_stand_until_nothing_runs() {
    let world = World::with_ann().await;
    world.create(vm_named("web")).await;
    world.settle().await;
    hold(&world, true).await;
    let policies = world.all::<NetworkPolicy>().await;
    let ann = world.find::<KiteUser>("", "ann").await.unwrap();
    let foreground = PropagationPolicy::Foreground;
    world.cluster.delete_by_uid(&ann, foreground).await.unwrap();
    world.settle().await;
    let left = world.all::<NetworkPolicy>().await;
    assert_eq!(uids(&left), uids(&policies));
    assert!(
        left.iter()
            .all(|it| it.metadata.deletion_timestamp.is_some())
    );

    hold(&world, false).await;
    world.settle().await;
    assert!(world.find::<KiteUser>("", "ann").await.is_none());
    assert!(world.find::<Namespace>("", ANN).await.is_none());
    assert!(world.all::<NetworkPolicy>().await.is_empty());
}

/// What VMs of ann reach, as text.
async fn egress(world: &World) -> String {
    let policy = world.find::<NetworkPolicy>(ANN, "tenant-isolation-egress");
    serde_json::to_string(&policy.await.unwrap().spec.unwrap().egress).unwrap()
}

#[tokio::test(start_paused = true)]
async fn vms_are_kept_from_an_api_server_that_is_on_no_node() {
    let world = World::with_ann().await;
    let slice = |namespace: &str, addresses: &[&str]| -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": {
                "name": "kubernetes", "namespace": namespace,
                "labels": {"kubernetes.io/service-name": "kubernetes"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": addresses}],
        }))
        .unwrap()
    };
    for namespace in ["default", "kite"] {
        if world.find::<Namespace>("", namespace).await.is_none() {
            let metadata = crate::world::named(namespace);
            let namespace = Namespace {
                metadata,
                ..Namespace::default()
            };
            world.create(namespace).await;
        }
    }
    // Every cluster has that of its API server.
    let made = world.find::<EndpointSlice>("default", "kubernetes").await;
    let made = made.unwrap();
    let there = json!({"endpoints": [{"addresses": ["203.0.113.6"]}]});
    world.edit(&made, there).await;
    // A Service of somebody else's that is called so says nothing.
    world.create(slice("kite", &["203.0.113.99"])).await;
    world.settle().await;
    let before = egress(&world).await;
    assert!(before.contains("203.0.113.6/32"), "{before}");
    assert!(!before.contains("203.0.113.99"), "{before}");

    let moved = json!({"endpoints": [{"addresses": ["203.0.113.7"]}]});
    world.edit(&made, moved).await;
    world.settle().await;
    // It may be in use still.
    let after = egress(&world).await;
    assert!(after.contains("203.0.113.7/32"), "{after}");
    assert!(after.contains("203.0.113.6/32"), "{after}");
    tokio::time::sleep(Duration::from_secs(660)).await;
    world.settle().await;
    let after = egress(&world).await;
    assert!(after.contains("203.0.113.7/32"), "{after}");
    assert!(!after.contains("203.0.113.6/32"), "{after}");

    // It restarts, and withdraws its endpoint until it is there again.
    world.edit(&made, json!({"endpoints": []})).await;
    world.settle().await;
    let away = egress(&world).await;
    assert_eq!(away, after);
    let back = json!({"endpoints": [{"addresses": ["203.0.113.7"]}]});
    world.edit(&made, back).await;
    world.settle().await;
    tokio::time::sleep(Duration::from_secs(660)).await;
    world.settle().await;
    assert_eq!(egress(&world).await, after);
}

#[tokio::test(start_paused = true)]
async fn networks_as_wide_as_the_internet_close_it() {
    let world = World::with_ann().await;
    let platform = world.find::<KitePlatform>("", "default").await.unwrap();
    let block = async |networks: serde_json::Value| {
        let patch = json!({"spec": {"blockedNetworks": networks}});
        world.edit(&platform, patch).await;
        world.settle().await;
        egress(&world).await
    };
    let open = block(json!([])).await;
    assert!(open.contains("0.0.0.0/0") && open.contains("2000::/3"));
    let half = block(json!(["0.0.0.0/1", "0.0.0.0/0"])).await;
    assert!(!half.contains("\"cidr\":\"0.0.0.0/0\""), "{half}");
    assert!(half.contains("2000::/3"), "{half}");
    let none = block(json!(["0.0.0.0/0", "::/0"])).await;
    assert!(!none.contains("cidr"), "{none}");
    assert!(none.contains("kube-dns"), "names are resolved: {none}");
    let policy = world.find::<NetworkPolicy>(ANN, "tenant-isolation-egress");
    let types = policy.await.unwrap().spec.unwrap().policy_types;
    assert_eq!(types, Some(vec!["Egress".to_owned()]));
}
