//! Ends, sizes and certificates of VMs, and images of what is there already.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kite_core::{
    conditions::{find, is_true},
    crd::{
        ImagePhase, ImageSource, KiteImage, KitePlatform, KitePlatformSpec, KiteVirtualMachine,
        NamedSource, VmPhase,
    },
    kubevirt::VirtualMachineInstance,
    names,
};
use kite_fake::sim::{Builder, ScenarioError, World};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};

use crate::{
    scenarios::{ANN, Done, nothing_is_left_of, settle_in},
    stage::{DRIVER, image, inhabited, vm},
};

fn unmet(error: impl std::fmt::Display) -> ScenarioError {
    ScenarioError::Unmet(error.to_string())
}

/// An object from JSON.
fn object<K: serde::de::DeserializeOwned>(value: Value) -> Result<K, ScenarioError> {
    serde_json::from_value(value).map_err(unmet)
}

/// Whether a condition of ann's VM is true, and why or why not.
async fn condition(
    world: &World,
    name: &str,
    type_: &str,
) -> Result<(bool, String), ScenarioError> {
    let vm: Option<KiteVirtualMachine> = world.get(ANN, name).await?;
    let conditions = vm.and_then(|vm| vm.status).unwrap_or_default().conditions;
    let reason = find(&conditions, type_).map(|found| found.reason.clone());
    Ok((is_true(&conditions, type_), reason.unwrap_or_default()))
}

async fn expect_condition(world: &World, type_: &str, expected: (bool, &str)) -> Done {
    let found = condition(world, "web", type_).await?;
    let text = format!("{type_} of web is {found:?}, and should be {expected:?}");
    let is_so = (found.0, found.1.as_str()) == expected;
    world.expect(is_so, &text).await;
    Ok(())
}

/// A VM without a grace period ends: it says so before it goes.
pub fn expiry_without_grace(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let mut web = serde_json::to_value(vm("ann", "web")).map_err(unmet)?;
        web["spec"]["expiresAt"] = json!("2026-01-01T01:00:00Z");
        web["spec"]["expiryGracePeriod"] = json!("0s");
        let web: KiteVirtualMachine = world.create(&object(web)?).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.run_for(Duration::from_secs(4000)).await?;
        world.settle().await?;
        nothing_is_left_of(&world, "web").await
    })
}

/// A VM gets other sizes and another password while it runs; what needs a restart
/// says so until it is restarted.
pub fn vm_resize(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let hash = "$2y$10$abcdefghijklmnopqrstuuW2a8FN1Y4A4uyhTxyd0hRFpoMJk2n8a";
        let smaller = json!({"cpu": 1, "memory": "1Gi", "sshPasswordHash": hash});
        let before: Option<VirtualMachineInstance> = world.get(ANN, "web").await?;
        world.patch(&web, json!({"spec": smaller})).await?;
        // What it looks like then is not compared: where somebody had the machine
        // made anew, it has its new sizes already.
        world.run_for(Duration::from_secs(300)).await?;
        let after: Option<VirtualMachineInstance> = world.get(ANN, "web").await?;
        let is_same = after.and_then(|it| it.uid()) == before.and_then(|it| it.uid());
        let (is_required, _) = condition(&world, "web", "RestartRequired").await?;
        let text = format!("required: {is_required}, the same instance: {is_same}");
        world.expect(is_required == is_same, &text).await;
        let restart = json!({"spec": {"restartedAt": "2026-05-04T08:00:00Z"}});
        world.patch(&web, restart).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        let (is_required, _) = condition(&world, "web", "RestartRequired").await?;
        world.expect(!is_required, "no restart is needed").await;
        Ok(())
    })
}

/// A Secret with a certificate, in ann's namespace.
fn certificate(name: &str, annotations: &Value) -> Result<Secret, ScenarioError> {
    object(json!({
        "metadata": {"name": name, "namespace": ANN, "annotations": annotations},
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": "YQ==", "tls.key": "YQ=="},
    }))
}

/// The domain of a VM has a certificate that somebody gives it, then one of
/// cert-manager's, which goes with the VM; the given one stays.
pub fn certificates(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let platform = KitePlatform::new(names::PLATFORM, KitePlatformSpec::default());
        let by = async |certificate: Value| {
            let exposure = json!({"exposure": {"certificate": certificate}});
            world.patch(&platform, json!({"spec": exposure})).await
        };
        by(json!({"secretName": "wildcard"})).await?;
        let web = world.create(&vm("ann", "web")).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        expect_condition(&world, "Exposed", (false, "CertificateMissing")).await?;
        world.create(&certificate("wildcard", &json!({}))?).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        expect_condition(&world, "Exposed", (true, "Exposed")).await?;

        by(json!({"secretName": null, "clusterIssuer": "letsencrypt"})).await?;
        world.settle().await?;
        let made_by = json!({
            "cert-manager.io/certificate-name": "web-tls",
            "cert-manager.io/issuer-group": "cert-manager.io",
            "cert-manager.io/issuer-kind": "ClusterIssuer",
            "cert-manager.io/issuer-name": "letsencrypt",
        });
        world.create(&certificate("web-tls", &made_by)?).await?;
        settle_in(&world, &web, VmPhase::Running).await?;
        world.delete(&web).await?;
        world.settle().await?;
        nothing_is_left_of(&world, "web").await?;
        let issued: Option<Secret> = world.get(ANN, "web-tls").await?;
        let given: Option<Secret> = world.get(ANN, "wildcard").await?;
        let is_so = issued.is_none() && given.is_some();
        world.expect(is_so, "only what was issued is gone").await;
        Ok(())
    })
}

async fn image_is(world: &World, name: &str, expected: ImagePhase) -> Done {
    let image: Option<KiteImage> = world.get("", name).await?;
    let found = image.and_then(|image| image.status?.phase);
    let text = format!("image {name} is {found:?}, and should be {expected:?}");
    world.expect(found == Some(expected), &text).await;
    Ok(())
}

/// Images of a claim and of a snapshot that others have made, before and after the
/// images are: VMs are cloned from them, and they outlive the images.
pub fn images_of_what_is_there(copies: usize) -> Builder {
    inhabited(copies).scenario(async |world| {
        let here = names::IMAGE_NAMESPACE;
        let named = |name: &str| {
            Some(NamedSource {
                name: name.to_owned(),
            })
        };
        let mut golden = image("golden");
        golden.spec.source = ImageSource {
            pvc: named("by-hand"),
            ..ImageSource::default()
        };
        let golden = world.create(&golden).await?;
        world.settle().await?;
        image_is(&world, "golden", ImagePhase::Pending).await?;
        let claim: PersistentVolumeClaim = object(json!({
            "metadata": {"name": "by-hand", "namespace": here},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": names::STORAGE_CLASS,
                "resources": {"requests": {"storage": "5Gi"}},
            },
        }))?;
        let claim = world.create(&claim).await?;
        let kind = GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshot");
        let class_kind = GroupVersionKind {
            kind: "VolumeSnapshotClass".to_owned(),
            ..kind.clone()
        };
        let class_kind = ApiResource::from_gvk(&class_kind);
        let class = json!({"driver": DRIVER, "deletionPolicy": "Delete"});
        let class = DynamicObject::new("played", &class_kind).data(class);
        Api::all_with(world.client().clone(), &class_kind)
            .create(&PostParams::default(), &class)
            .await?;
        let taken = json!({"spec": {
            "volumeSnapshotClassName": "played",
            "source": {"persistentVolumeClaimName": "by-hand"},
        }});
        let kind = ApiResource::from_gvk(&kind);
        let taken = DynamicObject::new("taken", &kind).data(taken);
        let snapshots = Api::namespaced_with(world.client().clone(), here, &kind);
        snapshots.create(&PostParams::default(), &taken).await?;
        let mut frozen = image("frozen");
        frozen.spec.source = ImageSource {
            snapshot: named("taken"),
            ..ImageSource::default()
        };
        let frozen = world.create(&frozen).await?;
        world.settle().await?;
        for (image, name) in [(&golden, "web"), (&frozen, "db")] {
            image_is(&world, &image.name_any(), ImagePhase::Ready).await?;
            let mut vm = vm("ann", name);
            vm.spec.image = image.name_any();
            let vm = world.create(&vm).await?;
            settle_in(&world, &vm, VmPhase::Running).await?;
            world.delete(image).await?;
        }
        world.settle().await?;
        let left = world.list::<KiteImage>().await?;
        let remaining: Vec<String> = left.iter().map(ResourceExt::name_any).collect();
        world
            .expect(remaining == ["debian-12"], "the images are gone")
            .await;
        let name = claim.name_any();
        let claim: Option<PersistentVolumeClaim> = world.get(here, &name).await?;
        let is_there = claim.is_some() && snapshots.get_opt("taken").await?.is_some();
        world
            .expect(is_there, "what they were made of is not")
            .await;
        Ok(())
    })
}
