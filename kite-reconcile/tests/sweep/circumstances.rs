//! What VMs live through beside what their owners ask for: idleness, another
//! road to them, a quota, a platform that goes; and guests of another kind.

use std::time::Duration;

use k8s_openapi::api::{coordination::v1::Lease, networking::v1::Ingress};
use kite_core::{
    activity,
    conditions::{find, is_true},
    crd::{KiteImage, KitePlatform, KitePlatformSpec, KiteVirtualMachine, OsFamily, VmPhase},
    gateway_api::{Gateway, HttpRoute},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
    names,
};
use kite_fake::sim::{Builder, ScenarioError, World};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::{
    scenarios::{ANN, Done, nothing_is_left_of, phase, settle_in},
    stage::{GATEWAY_CLASS, image, inhabited, inhabited_with_platform, user, vm},
};

fn unmet(error: impl std::fmt::Display) -> ScenarioError {
    ScenarioError::Unmet(error.to_string())
}

/// An object from JSON.
fn object<K: serde::de::DeserializeOwned>(value: Value) -> Result<K, ScenarioError> {
    serde_json::from_value(value).map_err(unmet)
}

async fn ready_because(world: &World, name: &str, expected: &str) -> Done {
    let vm: Option<KiteVirtualMachine> = world.get(ANN, name).await?;
    let status = vm.and_then(|vm| vm.status).unwrap_or_default();
    let reason = find(&status.conditions, "Ready").map(|found| found.reason.clone());
    let text = format!("VM {name} is ready or not because of {reason:?}, not {expected}");
    world
        .expect(reason.as_deref() == Some(expected), &text)
        .await;
    Ok(())
}

/// A VM with an idle timeout is in use, then is not, is switched off, and on again
/// by a login.
pub fn idle_stop(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let mut web = vm("ann", "web");
        web.spec.idle_timeout = Some("10m".parse().map_err(unmet)?);
        let web = world.create(&web).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        // A gateway reports the use of the VM that is there.
        let there: Option<KiteVirtualMachine> = world.get(ANN, "web").await?;
        let uid = there.and_then(|web| web.uid()).unwrap_or_default();
        let used = || activity::report(ANN, "web", &uid, world.cluster().clock().now());
        world.run_for(Duration::from_secs(300)).await?;
        let lease: Lease = world.create(&used()).await?;
        world.run_for(Duration::from_secs(450)).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.run_for(Duration::from_secs(450)).await?;
        settle_in(&world, &web, VmPhase::Stopped).await?;
        ready_because(&world, "web", "Idle").await?;
        let login = serde_json::to_value(used().spec).map_err(unmet)?;
        world.patch(&lease, json!({"spec": login})).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.delete(&web).await?;
        world.settle().await?;
        nothing_is_left_of(&world, "web").await
    })
}

/// Whether the web server of the VM is reached.
async fn is_exposed(world: &World, vm: &KiteVirtualMachine, what: &str) -> Done {
    settle_in(world, vm, VmPhase::Running).await?;
    let found: Option<KiteVirtualMachine> = world.get(ANN, &vm.name_any()).await?;
    let status = found.and_then(|vm| vm.status).unwrap_or_default();
    let text = format!("{what}: {:?}", find(&status.conditions, "Exposed"));
    let is_exposed = is_true(&status.conditions, "Exposed");
    world.expect(is_exposed, &text).await;
    Ok(())
}

/// A VM is reached by an Ingress, then by a route of a Gateway, then by an Ingress
/// again; it is deleted while a route leads to it.
pub fn vm_by_route(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let gateway: Gateway = object(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": "public", "namespace": names::PLATFORM_NAMESPACE},
            "spec": {"gatewayClassName": GATEWAY_CLASS, "listeners": []},
        }))?;
        let gateway = world.create(&gateway).await?;
        let listeners = json!([{
            "name": "https", "port": 443, "protocol": "HTTPS",
            "allowedRoutes": {"namespaces": {"from": "All"}},
        }]);
        world
            .patch(&gateway, json!({"spec": {"listeners": listeners}}))
            .await?;
        let web = world.create(&vm("ann", "web")).await?;
        is_exposed(&world, &web, "by an Ingress").await?;

        let platform = KitePlatform::new(names::PLATFORM, KitePlatformSpec::default());
        let name = json!({"namespace": names::PLATFORM_NAMESPACE, "name": "public"});
        let by_route = json!({"gateway": name, "ingressClassName": null});
        let by_ingress = json!({"gateway": null, "ingressClassName": "nginx"});
        let expose = async |by: &Value| {
            let patch = json!({"spec": {"exposure": by}});
            world.patch(&platform, patch).await
        };
        for _ in 0..2 {
            expose(&by_route).await?;
            is_exposed(&world, &web, "by a route").await?;
            let ingress: Option<Ingress> = world.get(ANN, "web").await?;
            let route: Option<HttpRoute> = world.get(ANN, "web").await?;
            let is_moved = ingress.is_none() && route.is_some();
            world.expect(is_moved, "a route, and no Ingress").await;
            expose(&by_ingress).await?;
            is_exposed(&world, &web, "by an Ingress again").await?;
            let route: Option<HttpRoute> = world.get(ANN, "web").await?;
            world.expect(route.is_none(), "no route any more").await;
        }
        expose(&by_route).await?;
        world.settle().await?;
        world.delete(&web).await?;
        world.settle().await?;
        let routes = world.list::<HttpRoute>().await?;
        world.expect(routes.is_empty(), "the route is gone").await;
        nothing_is_left_of(&world, "web").await
    })
}

/// A Windows VM is made, switched off and on, and deleted; its image has gone on
/// the way.
pub fn windows_vm(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let mut windows = image("windows-11");
        windows.spec.os_family = OsFamily::Windows;
        let windows = world.create(&windows).await?;
        let mut web = vm("ann", "web");
        "windows-11".clone_into(&mut web.spec.image);
        let web = world.create(&web).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.delete(&windows).await?;
        world.settle().await?;
        for (power, then) in [("Off", VmPhase::Stopped), ("On", VmPhase::Running)] {
            let patch = json!({"spec": {"powerState": power}});
            world.patch(&web, patch).await?;
            settle_in(&world, &web, then).await?;
        }
        let machine: Option<VirtualMachine> = world.get(ANN, "web").await?;
        let has_tpm = machine.is_some_and(|it| it.spec.template.spec.domain.devices.tpm.is_some());
        world.expect(has_tpm, "it has what Windows needs").await;
        world.delete(&web).await?;
        world.settle().await?;
        nothing_is_left_of(&world, "web").await
    })
}

/// The image of a VM becomes another while the VM is restarted: the VM keeps its
/// disk, and the next one is made of the new image.
pub fn image_replaced(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let old = world.create(&image("rolling")).await?;
        let mut web = vm("ann", "web");
        "rolling".clone_into(&mut web.spec.image);
        let web = world.create(&web).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let before: Option<VirtualMachineInstance> = world.get(ANN, "web").await?;
        world.delete(&old).await?;
        let restart = json!({"spec": {"restartedAt": "2026-05-04T08:00:00Z"}});
        world.patch(&web, restart).await?;
        while world.get::<KiteImage>("", "rolling").await?.is_some() {
            world.steps(1).await?;
        }
        let mut new = image("rolling");
        new.spec.default_user = Some("cloud-user".to_owned());
        new.spec.os_family = OsFamily::RedHat;
        world.create(&new).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let after: Option<VirtualMachineInstance> = world.get(ANN, "web").await?;
        let was = before.and_then(|it| it.uid());
        let is_other = after.is_some_and(|it| it.uid() != was);
        world.expect(is_other, "another instance runs").await;
        let mut db = vm("ann", "db");
        "rolling".clone_into(&mut db.spec.image);
        let db = world.create(&db).await?;
        settle_in(&world, &db, VmPhase::Running).await
    })
}

/// A VM does not fit into its owner's quota, until there is room.
pub fn over_quota(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let quota = |cpu: u32| {
            let quota = json!({"vms": 5, "cpu": cpu, "memory": "64Gi", "disk": "500Gi"});
            json!({"spec": {"quota": quota}})
        };
        world.patch(&user("ann"), quota(3)).await?;
        world.settle().await?;
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let db = world.create(&vm("ann", "db")).await?;
        settle_in(&world, &db, VmPhase::Failed).await?;
        ready_because(&world, "db", "QuotaExceeded").await?;
        world.patch(&user("ann"), quota(4)).await?;
        settle_in(&world, &db, VmPhase::Running).await?;
        // Less than there is: nothing is taken away.
        world.patch(&user("ann"), quota(1)).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let found = phase(&world, ANN, "db").await?;
        let still_runs = found == Some(VmPhase::Running);
        world.expect(still_runs, "what is there stays").await;
        Ok(())
    })
}

/// Two VMs ask for the last of a quota at once; the younger one gets it when the
/// older one gives back what it had.
pub fn two_ask_for_the_last(copies: usize) -> Builder {
    // A machine that a rival had made anew begins with its new size, and nothing
    // waits for a restart then.
    let stage = inhabited(copies).protect_from_rivals("virtualmachines.kubevirt.io");
    // Made in the same second: the order of their names is that of their age.
    stage.scenario(async |world| {
        let quota = json!({"vms": 5, "cpu": 5, "memory": "64Gi", "disk": "40Gi"});
        world
            .patch(&user("ann"), json!({"spec": {"quota": quota}}))
            .await?;
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let zoo = world.create(&vm("ann", "zoo")).await?;
        settle_in(&world, &zoo, VmPhase::Running).await?;
        for vm in [&web, &zoo] {
            world
                .patch(vm, json!({"spec": {"cpu": 3, "disk": "30Gi"}}))
                .await?;
        }
        world.settle().await?;
        ready_because(&world, "web", "RestartRequired").await?;
        ready_because(&world, "zoo", "QuotaExceeded").await?;
        has(&world, "web", (3, "30Gi")).await?;
        has(&world, "zoo", (2, "10Gi")).await?;
        let back = json!({"spec": {"disk": "10Gi"}});
        world.patch(&zoo, back).await?;
        let less = json!({"spec": {"cpu": 1, "powerState": "Off"}});
        world.patch(&web, less).await?;
        settle_in(&world, &web, VmPhase::Stopped).await?;
        has(&world, "zoo", (3, "10Gi")).await
    })
}

/// CPUs of the machine, and the size of the disk as its status tells it.
async fn has(world: &World, name: &str, expected: (u32, &str)) -> Done {
    let machine: Option<VirtualMachine> = world.get(ANN, name).await?;
    let vm: Option<KiteVirtualMachine> = world.get(ANN, name).await?;
    let cpu = machine.and_then(|machine| machine.spec.template.spec.domain.cpu?.sockets);
    // The claim is somewhat larger, for the file system.
    let size = vm.and_then(|vm| Some(vm.status?.disk?.size?.to_string()));
    let text = format!("VM {name} has {cpu:?} CPUs and a disk of {size:?}, not {expected:?}");
    let is_so = (cpu, size.as_deref()) == (Some(expected.0), Some(expected.1));
    world.expect(is_so, &text).await;
    Ok(())
}

/// The platform is deleted under a running VM, and made again.
pub fn platform_again(copies: usize) -> Builder {
    inhabited_with_platform(copies).scenario(async |world| {
        let web = world.create(&vm("ann", "web")).await?;
        is_exposed(&world, &web, "by the platform").await?;
        let platform: Option<KitePlatform> = world.get("", names::PLATFORM).await?;
        let platform = platform.ok_or_else(|| unmet("there is no platform"))?;
        world.delete(&platform).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let again = KitePlatform::new(names::PLATFORM, platform.spec.clone());
        world.create(&again).await?;
        is_exposed(&world, &web, "by the new platform").await
    })
}
