//! What happens to users, images and VMs: told once, without faults.

use kite_fake_kubevirt::stages;
use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{Namespace, PersistentVolumeClaim, Secret, Service},
    networking::v1::{Ingress, NetworkPolicy},
};
use kite_core::{
    cdi::{DataImportCron, DataSource, DataVolume},
    conditions::{find, is_true},
    crd::{
        ImageSource, KiteImage, KitePlatform, KitePlatformSpec, KiteReservation, KiteUser,
        KiteVirtualMachine, RegistrySource, UserPhase, VmPhase,
    },
    gateway_api::{Gateway, GatewaySpec, HttpRoute, Listener},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
    labels, names,
    quantity::Bytes,
};
use kite_fake::{
    actors::{Rule, Selector},
    sim::{Builder, ScenarioError, World},
};
use kube::ResourceExt;
use serde_json::json;

use crate::stage::{image, inhabited, installed, user, vm, with_platform};

/// A scenario, with so many copies of each controller.
pub type Scenario = fn(usize) -> Builder;

/// How a scenario ends.
pub type Done = Result<(), ScenarioError>;

pub const ANN: &str = "kite-user-ann";

/// The phase of a VM, if it is there and has one.
pub async fn phase(
    world: &World,
    namespace: &str,
    name: &str,
) -> Result<Option<VmPhase>, ScenarioError> {
    let vm: Option<KiteVirtualMachine> = world.get(namespace, name).await?;
    Ok(vm.and_then(|vm| vm.status).and_then(|status| status.phase))
}

/// Settles, and expects a VM to be in a phase.
pub async fn settle_in(world: &World, vm: &KiteVirtualMachine, expected: VmPhase) -> Done {
    world.settle().await?;
    let (namespace, name) = (vm.namespace().unwrap_or_default(), vm.name_any());
    let found = phase(world, &namespace, &name).await?;
    let text = format!("VM {name} is {found:?}, and should be {expected:?}");
    world.expect(found == Some(expected), &text).await;
    Ok(())
}

/// Expects that nothing is left that carries the labels of a VM, and no claim.
pub async fn nothing_is_left_of(world: &World, name: &str) -> Done {
    macro_rules! none {
        ($($kind:ty),*) => { $(
            for left in world.list::<$kind>().await? {
                let is_its = left.labels().get(kite_core::labels::VM_NAME).is_some_and(|n| n == name);
                let is_disk = names::number_of_disk(name, &left.name_any()).is_some();
                let text = format!("{} {} is left", stringify!($kind), left.name_any());
                world.expect(!is_its && !is_disk, &text).await;
            }
        )* };
    }
    none!(
        KiteVirtualMachine,
        VirtualMachine,
        VirtualMachineInstance,
        DataVolume,
        PersistentVolumeClaim,
        Secret,
        Service,
        Ingress
    );
    // Names that were given back are kept for who had them, and held by nobody.
    for left in world.list::<KiteReservation>().await? {
        let is_its = left
            .labels()
            .get(kite_core::labels::VM_NAME)
            .is_some_and(|n| n == name);
        let text = format!("KiteReservation {} is held", left.name_any());
        world
            .expect(!is_its || left.spec.kept.is_some(), &text)
            .await;
    }
    Ok(())
}

/// A user signs up, gets a namespace with network policies, and changes their address.
pub fn sign_up(copies: usize) -> Builder {
    installed(copies).scenario(async |world| {
        let ann = world.create(&user("ann")).await?;
        world.settle().await?;
        let found: Option<KiteUser> = world.get("", "ann").await?;
        let phase = found.and_then(|user| user.status).and_then(|s| s.phase);
        world
            .expect(phase == Some(UserPhase::Ready), "ann is ready")
            .await;
        let policies = world.list::<NetworkPolicy>().await?;
        world
            .expect(policies.len() == 3, "the network policies stand")
            .await;
        world
            .patch(&ann, json!({"spec": {"email": "ann@example.com"}}))
            .await?;
        world.settle().await
    })
}

/// A VM is made, switched off, and on again.
pub fn vm_life(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let found: Option<KiteVirtualMachine> = world.get(ANN, "web").await?;
        let status = found.and_then(|vm| vm.status).unwrap_or_default();
        let is_ready =
            is_true(&status.conditions, "Ready") && is_true(&status.conditions, "Exposed");
        world.expect(is_ready, "the VM is ready and exposed").await;
        world
            .patch(&web, json!({"spec": {"powerState": "Off"}}))
            .await?;
        settle_in(&world, &web, VmPhase::Stopped).await?;
        world
            .patch(&web, json!({"spec": {"powerState": "On"}}))
            .await?;
        settle_in(&world, &web, VmPhase::Running).await
    })
}

/// The disk of a VM grows, its keys change, and it moves to another domain.
pub fn vm_edits(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.patch(&web, json!({"spec": {"disk": "20Gi"}})).await?;
        world.settle().await?;
        let claim: Option<PersistentVolumeClaim> = world.get(ANN, "web-disk").await?;
        let size = claim.and_then(|claim| claim.spec?.resources?.requests?.remove("storage"));
        // The disk and what the file system takes of its volume.
        let size = size.and_then(|size| size.0.parse::<Bytes>().ok());
        let room = size.map_or(0, |size| size.bytes() / 1000 * 945);
        let has_grown = (20 << 30..(20 << 30) + (2 << 20)).contains(&room);
        world.expect(has_grown, "the disk has grown").await;
        let key =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE7pFnhVBsrxUGzQ1mzJVCFcEPKHC9Et9CC9aBWUxHXp ann";
        world
            .patch(
                &web,
                json!({"spec": {"sshPublicKeys": [key], "domainPrefix": "shop"}}),
            )
            .await?;
        world.settle().await?;
        let held = world.list::<KiteReservation>().await?;
        let domains = held
            .iter()
            .filter(|claim| claim.name_any().starts_with("domain.") && claim.spec.kept.is_none());
        let domains: Vec<String> = domains.map(ResourceExt::name_any).collect();
        world
            .expect(domains == ["domain.shop"], "only the new domain is held")
            .await;
        Ok(())
    })
}

/// A VM is made and deleted.
pub fn vm_deletion(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.delete(&web).await?;
        world.settle().await?;
        nothing_is_left_of(&world, "web").await
    })
}

/// Somebody deletes the disk of a VM behind its back. None comes until it is asked for.
pub fn disk_deleted(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let disk: Option<DataVolume> = world.get(ANN, "web-disk").await?;
        let Some(disk) = disk else {
            world.expect(false, "the VM has a disk").await;
            return Ok(());
        };
        world.delete(&disk).await?;
        world.settle().await?;
        world
            .patch(&web, json!({"spec": {"powerState": "Off"}}))
            .await?;
        settle_in(&world, &web, VmPhase::Stopped).await?;
        let found: Option<DataVolume> = world.get(ANN, "web-disk").await?;
        world.expect(found.is_none(), "no other disk comes").await;
        let vm: Option<KiteVirtualMachine> = world.get(ANN, "web").await?;
        let conditions = vm.and_then(|vm| vm.status).unwrap_or_default().conditions;
        let is_told = find(&conditions, "Ready").is_some_and(|it| it.reason == "DiskLost");
        world.expect(is_told, "the loss is told").await;
        let asked = json!({
            "metadata": {"annotations": {labels::REPLACE_DISK: disk.uid()}},
            "spec": {"powerState": "On"},
        });
        world.patch(&web, asked).await?;
        settle_in(&world, &web, VmPhase::Running).await
    })
}

/// Somebody deletes the claim of a VM's disk behind its back. Neither Kite nor CDI makes another
/// until it is asked for.
pub fn claim_deleted(copies: usize) -> Builder {
    // A machine that goes is not made again before there is a disk.
    let stage = inhabited(copies).protect_from_rivals("virtualmachines.kubevirt.io");
    stage.scenario(async |world| {
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let claim: Option<PersistentVolumeClaim> = world.get(ANN, "web-disk").await?;
        let disk: Option<DataVolume> = world.get(ANN, "web-disk").await?;
        let (Some(claim), Some(disk)) = (claim, disk) else {
            world.expect(false, "the VM has a disk and its claim").await;
            return Ok(());
        };
        world.delete(&claim).await?;
        world.settle().await?;
        world
            .patch(&web, json!({"spec": {"powerState": "Off"}}))
            .await?;
        settle_in(&world, &web, VmPhase::Stopped).await?;
        world
            .patch(&web, json!({"spec": {"powerState": "On"}}))
            .await?;
        settle_in(&world, &web, VmPhase::Failed).await?;
        let found: Option<PersistentVolumeClaim> = world.get(ANN, "web-disk").await?;
        world.expect(found.is_none(), "no other claim comes").await;
        let asked = json!({"metadata": {"annotations": {labels::REPLACE_DISK: disk.uid()}}});
        world.patch(&web, asked).await?;
        settle_in(&world, &web, VmPhase::Running).await
    })
}

/// A VM is deleted while its disk is being filled. What KubeVirt says until then
/// depends on whether it or CDI looked at the VM first.
pub fn deleted_while_filling(copies: usize) -> Builder {
    let undecided = inhabited(copies)
        .ignore_field("VirtualMachine", "/status/conditions")
        .ignore_field("VirtualMachine", "/status/printableStatus")
        .ignore_field("VirtualMachineInstance", "/status/conditions");
    undecided.scenario(async |world| {
        world.rules().add(Rule::hold(
            stages::DISK_STEP,
            Selector::named("web-disk").within(ANN),
        ));
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Provisioning).await?;
        world.delete(&web).await?;
        world.settle().await?;
        nothing_is_left_of(&world, "web").await
    })
}

/// A VM is deleted before its controllers have done half of their work.
pub fn deleted_on_the_way(copies: usize) -> Builder {
    inhabited(copies).ignore_counts().scenario(async |world| {
        let web = world.create(&vm("ann", "web")).await?;
        world.steps(90).await?;
        world.delete(&web).await?;
        world.settle().await?;
        nothing_is_left_of(&world, "web").await
    })
}

/// A VM is deleted, and another of the same name is made.
pub fn recreation(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.delete(&web).await?;
        // As soon as the name is free, whatever else is still on its way out.
        while world.get::<KiteVirtualMachine>(ANN, "web").await?.is_some() {
            world.steps(1).await?;
        }
        let again = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &again, VmPhase::Running).await
    })
}

/// A user who has two VMs is deleted.
pub fn user_deletion(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let web = world.create(&vm("ann", "web")).await?;
        let mut db = vm("ann", "db");
        db.spec.domain_prefix = None;
        let db = world.create(&db).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        settle_in(&world, &db, VmPhase::Running).await?;
        world.delete(&user("ann")).await?;
        world.settle().await?;
        nothing_is_left_of(&world, "web").await?;
        nothing_is_left_of(&world, "db").await?;
        let namespace: Option<Namespace> = world.get("", ANN).await?;
        world
            .expect(namespace.is_none(), "the namespace is gone")
            .await;
        Ok(())
    })
}

/// Somebody deletes the namespace of a user who stays, a network policy first: all in it goes,
/// and the user has an empty one again.
pub fn namespace_deletion(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let policies = world.list::<NetworkPolicy>().await?;
        let mut policies = policies
            .iter()
            .filter(|it| it.namespace().as_deref() == Some(ANN));
        if let Some(policy) = policies.next() {
            world.delete(policy).await?;
        }
        let Some(namespace) = world.get::<Namespace>("", ANN).await? else {
            return Ok(());
        };
        world.delete(&namespace).await?;
        world.settle().await?;
        nothing_is_left_of(&world, "web").await?;
        let policies = world.list::<NetworkPolicy>().await?;
        let stand = policies.iter().filter(|it| {
            it.namespace().as_deref() == Some(ANN) && it.metadata.deletion_timestamp.is_none()
        });
        world
            .expect(stand.count() == 3, "the network policies stand")
            .await;
        Ok(())
    })
}

/// A VM waits for an image that is imported; later another image goes.
pub fn image_import(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let mut web = vm("ann", "web");
        "debian-13".clone_into(&mut web.spec.image);
        let web = world.create(&web).await?;
        world.settle().await?;
        let new = world.create(&image("debian-13")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.delete(&new).await?;
        world.settle().await?;
        let left: Option<KiteImage> = world.get("", "debian-13").await?;
        world.expect(left.is_none(), "the image is gone").await;
        settle_in(&world, &web, VmPhase::Running).await
    })
}

/// An image is fetched by a schedule, a VM is cloned from it, the registry has a
/// newer one, and the image goes while the VM stays.
pub fn image_by_schedule(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let mut fresh = image("fresh");
        fresh.spec.source = ImageSource {
            registry: Some(RegistrySource {
                url: "docker://images.example.org/fresh".to_owned(),
            }),
            ..ImageSource::default()
        };
        fresh.spec.refresh_schedule = Some("0 3 1 1 *".to_owned());
        let fresh = world.create(&fresh).await?;
        let mut web = vm("ann", "web");
        "fresh".clone_into(&mut web.spec.image);
        let web = world.create(&web).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let mut cron = DataImportCron::default();
        cron.metadata.name = Some("fresh".to_owned());
        cron.metadata.namespace = Some(names::IMAGE_NAMESPACE.to_owned());
        let digest = "cdi.kubevirt.io/storage.import.sourceDesiredDigest";
        let newer = json!({"metadata": {"annotations": {digest: "sha256:aaaaaaaaaaaaaaaa"}}});
        world.patch(&cron, newer).await?;
        world.settle().await?;
        let source: Option<DataSource> = world.get(names::IMAGE_NAMESPACE, "fresh").await?;
        let leads_to = source.and_then(|it| it.spec.source.pvc).map(|it| it.name);
        world
            .expect(
                leads_to.as_deref() == Some("fresh-aaaaaaaaaaaa"),
                "the newer image is cloned from now on",
            )
            .await;
        world.delete(&fresh).await?;
        world.settle().await?;
        let left: Option<KiteImage> = world.get("", "fresh").await?;
        let cron: Option<DataImportCron> = world.get(names::IMAGE_NAMESPACE, "fresh").await?;
        let is_gone = left.is_none() && cron.is_none();
        world.expect(is_gone, "the image is gone").await;
        settle_in(&world, &web, VmPhase::Running).await
    })
}

/// The platform is exposed in one way after the other, and goes.
pub fn platform_exposure(copies: usize) -> Builder {
    with_platform(copies).scenario(async |world| {
        let here = names::PLATFORM_NAMESPACE;
        let platform = KitePlatform::new(names::PLATFORM, KitePlatformSpec::default());
        let class = json!({"exposure": {"ingressClassName": "nginx"}});
        world.patch(&platform, json!({"spec": class})).await?;
        world.settle().await?;
        let found: Option<KitePlatform> = world.get("", names::PLATFORM).await?;
        let status = found.and_then(|it| it.status).unwrap_or_default();
        let is_ready = is_true(&status.conditions, "Ready") && status.gateway_addresses.len() == 1;
        world.expect(is_ready, "the platform has its addresses").await;
        for spec in [
            json!({"gateway": {"loadBalancerClass": "example.org/blue"}}),
            json!({"gateway": {"loadBalancerClass": null, "serviceType": "NodePort", "nodePort": 30022}}),
            json!({"gateway": {"enabled": false}, "web": {"enabled": false}}),
        ] {
            world.patch(&platform, json!({"spec": spec})).await?;
            world.settle().await?;
        }
        let service: Option<Service> = world.get(here, names::GATEWAY_EXTERNAL_SERVICE).await?;
        let ingress: Option<Ingress> = world.get(here, names::PLATFORM_WEB).await?;
        let is_gone = service.is_none() && ingress.is_none();
        world.expect(is_gone, "nothing is exposed").await;

        let mut edge = Gateway::new("edge", GatewaySpec::default());
        edge.metadata.namespace = Some(here.to_owned());
        edge.spec.listeners = ["HTTP", "HTTPS"]
            .map(|protocol| Listener {
                name: protocol.to_lowercase(),
                port: 443,
                protocol: protocol.to_owned(),
                hostname: None,
            })
            .into();
        world.create(&edge).await?;
        let gateway = json!({"namespace": here, "name": "edge"});
        let spec = json!({
            "gateway": {"enabled": true},
            "web": {"enabled": true},
            "exposure": {"ingressClassName": null, "gateway": gateway},
        });
        world.patch(&platform, json!({"spec": spec})).await?;
        world.settle().await?;
        let routes = world.list::<HttpRoute>().await?;
        world.expect(routes.len() == 2, "a route and a redirect").await;
        world.delete(&platform).await?;
        world.settle().await?;
        let routes = world.list::<HttpRoute>().await?;
        let services = world.list::<Service>().await?;
        let is_gone = routes.is_empty()
            && !services.iter().any(|it| it.name_any() == names::GATEWAY_EXTERNAL_SERVICE);
        world.expect(is_gone, "what the platform made is gone").await;
        Ok(())
    })
}

/// Two VMs of one user claim one login name and one domain. When the first goes, the
/// second takes over what is kept for them.
pub fn one_name_for_two(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let first = world.create(&vm("ann", "web")).await?;
        world.settle().await?;
        let mut second = vm("ann", "other");
        "web".clone_into(&mut second.spec.ssh_id);
        second.spec.domain_prefix = Some("web".to_owned());
        let second = world.create(&second).await?;
        settle_in(&world, &second, VmPhase::Failed).await?;
        settle_in(&world, &first, VmPhase::Running).await?;
        world.delete(&first).await?;
        settle_in(&world, &second, VmPhase::Running).await?;
        nothing_is_left_of(&world, "web").await
    })
}

/// A user is suspended and let in again.
pub fn suspension(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world
            .patch(&user("ann"), json!({"spec": {"suspended": true}}))
            .await?;
        settle_in(&world, &web, VmPhase::Stopped).await?;
        world
            .patch(&user("ann"), json!({"spec": {"suspended": false}}))
            .await?;
        settle_in(&world, &web, VmPhase::Running).await
    })
}

/// A user signs up and makes a VM at once, before the network policies stand.
pub fn vm_before_network_policies(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        world.create(&user("eve")).await?;
        while world.get::<Namespace>("", "kite-user-eve").await?.is_none() {
            world.steps(1).await?;
        }
        let web = world.create(&vm("eve", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await
    })
}

/// People break what Kite made, and it is mended.
pub fn drift(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let policies = world.list::<NetworkPolicy>().await?;
        for policy in policies
            .iter()
            .filter(|p| p.namespace().as_deref() == Some(ANN))
        {
            world.delete(policy).await?;
        }
        for service in world.list::<Service>().await? {
            if service.name_any() == "vps-access-web" {
                world.delete(&service).await?;
            }
            if service.name_any() == "vps-web-web" {
                world
                    .patch(
                        &service,
                        json!({"spec": {"selector": {"vm.kubevirt.io/name": "db"}}}),
                    )
                    .await?;
            }
        }
        // Had they only halted it, whether it is restarted would depend on who is
        // faster, KubeVirt or Kite.
        for machine in world.list::<VirtualMachine>().await? {
            world.delete(&machine).await?;
        }
        world.run_for(Duration::from_secs(30)).await?;
        settle_in(&world, &web, VmPhase::Running).await
    })
}

/// A VM is restarted: once.
pub fn vm_restart(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let uid = async || -> Result<Option<String>, ScenarioError> {
            let instance: Option<VirtualMachineInstance> = world.get(ANN, "web").await?;
            Ok(instance.and_then(|instance| instance.uid()))
        };
        let before = uid().await?;
        world
            .patch(
                &web,
                json!({"spec": {"restartedAt": "2026-05-04T08:00:00Z"}}),
            )
            .await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let after = uid().await?;
        let is_other = after.is_some() && after != before;
        world.expect(is_other, "another instance runs").await;
        Ok(())
    })
}

/// The platform is exposed, gets another domain, and is withdrawn.
pub fn platform_life(copies: usize) -> Builder {
    with_platform(copies).scenario(async |world| {
        let platform = KitePlatform::new(names::PLATFORM, KitePlatformSpec::default());
        let class = json!({"ingressClassName": "nginx"});
        world
            .patch(&platform, json!({"spec": {"exposure": class}}))
            .await?;
        world.settle().await?;
        let platform: Option<KitePlatform> = world.get("", names::PLATFORM).await?;
        let Some(platform) = platform else {
            return Err(ScenarioError::Unmet("there is no platform".to_owned()));
        };
        let conditions = platform.status.clone().unwrap_or_default().conditions;
        let text = format!("the platform is exposed: {conditions:?}");
        world.expect(is_true(&conditions, "Ready"), &text).await;
        world
            .patch(&platform, json!({"spec": {"baseDomain": "vm.example.com"}}))
            .await?;
        world.settle().await?;
        world.delete(&platform).await?;
        world.settle().await?;
        let left = world.list::<Ingress>().await?;
        world
            .expect(left.is_empty(), "nothing exposes the platform")
            .await;
        Ok(())
    })
}

/// A VM's time ends: it is switched off, and deleted with its disk.
pub fn vm_expiry(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let mut web = vm("ann", "web");
        let patch = json!({"expiresAt": "2026-01-01T01:00:00Z", "expiryGracePeriod": "1h"});
        let mut spec =
            serde_json::to_value(&web.spec).map_err(|e| ScenarioError::Unmet(e.to_string()))?;
        if let (Some(spec), Some(patch)) = (spec.as_object_mut(), patch.as_object()) {
            spec.extend(patch.clone());
        }
        web.spec = serde_json::from_value(spec).map_err(|e| ScenarioError::Unmet(e.to_string()))?;
        let web = world.create(&web).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.run_for(Duration::from_secs(4000)).await?;
        settle_in(&world, &web, VmPhase::Stopped).await?;
        world.run_for(Duration::from_secs(4500)).await?;
        world.settle().await?;
        nothing_is_left_of(&world, "web").await
    })
}
