//! What is kept of each kind, and by what it is found.
//!
//! Watches have no label selector: that an object of the name which Kite would
//! give is not there must be true of everybody's objects, or Kite would take
//! over what is not its own. Of the objects of others little more is kept than
//! that they are there.

use std::any::Any;

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, PersistentVolumeClaim, Secret, Service},
    discovery::v1::EndpointSlice,
    networking::v1::{Ingress, NetworkPolicy},
    rbac::v1::RoleBinding,
};
use kite_core::{
    cdi::{DataVolume, StorageProfile},
    cert_manager,
    cluster::Object,
    conditions,
    crd::{
        KiteImage, KitePlatform, KiteReservation, KiteSnapshot, KiteUser, KiteVirtualMachine,
        KiteVirtualMachineOffer, KiteVolume,
    },
    gateway_api,
    kubevirt::{KubeVirt, VirtualMachineInstance, VirtualMachineInstanceMigration},
    labels,
    names::{self, key_secret},
    volume_snapshot,
};
use kite_runtime::{
    Caches, KindOptions, Kinds, Watches,
    cache::{Indexers, Running},
};
use kube::{Client, ResourceExt as _, runtime::watcher};

use crate::{matches::condense, triggers};

/// Annotation in which `kubectl apply` keeps a second copy of the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Which Secrets are watched: Kite's own, certificates, and whatever may have the
/// name of one of Kite's.
const SECRETS: &str = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token";

/// Names of what VMs and users are found by, beside namespaces and labels.
pub(crate) mod by {
    /// VMs by the reservations that they want.
    pub(crate) const CLAIM: &str = "claim";
    /// VMs by their image.
    pub(crate) const IMAGE: &str = "image";
}

/// How the kinds are watched and kept that Kite's reconcilers read or hear of.
#[derive(Clone, Copy, Debug)]
pub struct KiteKinds;

impl Kinds for KiteKinds {
    fn options<K: Object>() -> KindOptions<K> {
        let mut options = KindOptions::default();
        let config = options.config;
        options.config = if is::<K, Secret>() {
            // Charts are large, and neither they nor tokens are looked at.
            config.fields(SECRETS)
        } else if is::<K, Lease>() {
            // Every node and every elected process has one that changes all
            // the time; of others' names Kite makes none.
            config.labels(&format!(
                "{}={}",
                labels::MANAGED_BY,
                labels::MANAGED_BY_CONTROLLER
            ))
        } else if is::<K, EndpointSlice>() {
            // Every Service has some, and only the API server's matter.
            config.labels(&labels::of_api_server())
        } else {
            config
        };
        options.indexers = indexers();
        options.transform = transform;
        options.is_packed = !is_reconciled::<K>();
        options.is_optional = is_optional::<K>();
        options.remedy = remedy(&K::group(&()));
        options.phase = phase;
        options
    }
}

/// Which objects of kind `K` the caches of Kite's own reconcilers hold: what feeds them
/// has to watch these.
pub fn selection<K: Object>() -> watcher::Config {
    KiteKinds::options::<K>().config
}

/// Caches of everything that Kite's reconcilers hear of, and the watches that
/// fill them: for whoever calls reconcilers by themselves. [`run`](crate::run) has its
/// own.
///
/// ```no_run
/// use kite_core::cluster::KubeCluster;
/// use kite_reconcile::{Context, kinds, vm};
/// use tokio_util::sync::CancellationToken;
///
/// # async fn example(machine: kite_core::crd::KiteVirtualMachine)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let client = kube::Client::try_default().await?;
/// let (caches, watches) = kinds::watched(client.clone());
/// let context = Context::new(KubeCluster::new(client)).cached(caches);
/// let complete = watches.tried();
/// tokio::spawn(watches.run(context.health.clone(), CancellationToken::new()));
/// complete.await;
/// vm::reconcile(&machine, &context).await?;
/// # Ok(())
/// # }
/// ```
pub fn watched(client: Client) -> (Caches, Running) {
    let mut watches = Watches::<KiteKinds>::new(client);
    watches.watch::<KiteVirtualMachine>();
    watches.watch::<KiteUser>();
    watches.watch::<KiteImage>();
    watches.watch::<KitePlatform>();
    watches.watch::<KiteSnapshot>();
    watches.watch::<KiteVolume>();
    triggers::virtual_machines(watches.without_listener());
    triggers::users(watches.without_listener());
    triggers::images(watches.without_listener());
    triggers::platforms(watches.without_listener());
    triggers::snapshots(watches.without_listener());
    triggers::volumes(watches.without_listener());
    watches.build()
}

/// Whether Kite works in a cluster without this kind.
fn is_optional<K: Object>() -> bool {
    [
        gateway_api::GROUP,
        cert_manager::GROUP,
        volume_snapshot::GROUP,
    ]
    .contains(&&*K::group(&()))
        || is::<K, StorageProfile>()
        || is::<K, KubeVirt>()
        || is::<K, VirtualMachineInstanceMigration>()
}

/// What to do where kinds of this group are not there.
fn remedy(group: &str) -> Option<&'static str> {
    Some(match group {
        kite_core::crd::GROUP => "apply Kite's CRDs (kite crds | kubectl apply -f -)",
        "kubevirt.io" => "install KubeVirt",
        "cdi.kubevirt.io" => "install CDI",
        _ => return None,
    })
}

/// Whether there is a controller of this kind.
fn is_reconciled<K: Object>() -> bool {
    is::<K, KiteVirtualMachine>()
        || is::<K, KiteUser>()
        || is::<K, KiteImage>()
        || is::<K, KitePlatform>()
        || is::<K, KiteVirtualMachineOffer>()
        || is::<K, KiteSnapshot>()
        || is::<K, KiteVolume>()
}

fn is<A: 'static, B: 'static>() -> bool {
    std::any::TypeId::of::<A>() == std::any::TypeId::of::<B>()
}

/// The same value, if the types are the same.
fn cast<A: 'static, B: 'static>(value: A) -> Option<B> {
    let mut value = Some(value);
    (&mut value as &mut dyn Any)
        .downcast_mut::<Option<B>>()?
        .take()
}

fn indexers<K: Object>() -> Option<Indexers<K>> {
    if is::<K, KiteVirtualMachine>() {
        return cast(Indexers::<KiteVirtualMachine> {
            functions: |vm| {
                let domain = vm.spec.domain_prefix.as_deref();
                let claims = [names::ssh_id_reservation(&vm.spec.ssh_id)].into_iter();
                let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
                let volumes = vm.spec.volumes.iter();
                claims
                    .chain(volumes.map(|it| names::volume_reservation(namespace, &it.volume)))
                    .chain(domain.map(names::domain_reservation))
                    .map(|claim| (by::CLAIM, claim))
                    .chain([(by::IMAGE, vm.spec.image.clone())])
                    .collect()
            },
            ..Indexers::NAMESPACE
        });
    }
    if is::<K, KiteUser>() {
        return cast(Indexers::<KiteUser> {
            namespace: false,
            labels: &[],
            functions: |user| {
                let email = user.spec.email.as_deref().map(names::email_reservation);
                let identities = user.spec.identities.iter();
                [names::username_reservation(&user.spec.username)]
                    .into_iter()
                    .chain(email)
                    .chain(identities.map(kite_core::crd::Identity::reservation))
                    .map(|claim| (by::CLAIM, claim))
                    .collect()
            },
        });
    }
    if is::<K, KiteReservation>() {
        return Some(Indexers {
            namespace: false,
            labels: &[labels::VM_NAMESPACE, labels::USER_NAME],
            functions: |_| Vec::new(),
        });
    }
    if is::<K, DataVolume>() || is::<K, PersistentVolumeClaim>() {
        return Some(Indexers {
            namespace: true,
            labels: &[labels::VM_NAME],
            functions: |_| Vec::new(),
        });
    }
    let by_namespace = is::<K, NetworkPolicy>() || is::<K, KiteSnapshot>() || is::<K, KiteVolume>();
    by_namespace.then_some(Indexers::NAMESPACE)
}

/// Takes away what no plan looks at.
fn transform<K: Object>(object: &mut K) {
    let is_ours = object.labels().get(labels::MANAGED_BY).map(String::as_str)
        == Some(labels::MANAGED_BY_CONTROLLER);
    let is_compared = is_ours
        && !is_reconciled::<K>()
        && !is::<K, KiteReservation>()
        && !is::<K, VirtualMachineInstance>()
        && !is::<K, PersistentVolumeClaim>();
    if let Some(secret) = (object as &mut dyn Any).downcast_mut::<Secret>()
        && secret.name_any() == names::GATEWAY_HOST_KEY_SECRET
    {
        // Whoever brings it labels it as they like, and the private half is the
        // gateway's alone.
        if let Some(data) = &mut secret.data {
            data.retain(|key, _| key == key_secret::HOST_PUBLIC);
        }
        // What kubectl applied last has that half, too.
        (secret.metadata.managed_fields, secret.metadata.annotations) = (None, None);
        return;
    }
    let meta = object.meta_mut();
    if is_compared {
        condense(meta);
    } else {
        meta.managed_fields = None;
    }
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(LAST_APPLIED);
    }
    if !is_ours {
        let object: &mut dyn Any = object;
        if let Some(node) = object.downcast_mut::<Node>() {
            // Of nodes only the addresses matter, and they list all their images.
            if let Some(status) = &mut node.status {
                (status.images, status.conditions) = (None, None);
            }
        } else if let Some(secret) = object.downcast_mut::<Secret>() {
            // Only which keys there are.
            for value in secret.data.iter_mut().flat_map(|data| data.values_mut()) {
                value.0 = Vec::new();
            }
            secret.metadata.annotations = None;
        } else if let Some(service) = object.downcast_mut::<Service>() {
            (service.spec, service.status) = (None, None);
        } else if let Some(binding) = object.downcast_mut::<RoleBinding>() {
            binding.subjects = None;
        } else if let Some(ingress) = object.downcast_mut::<Ingress>() {
            (ingress.spec, ingress.status) = (None, None);
        }
    }
}

/// The phase of an object; of a kind without phases, whether it is ready.
fn phase<K: Object>(object: &K) -> String {
    let object: &dyn Any = object;
    let known = if let Some(vm) = object.downcast_ref::<KiteVirtualMachine>() {
        vm.status
            .as_ref()
            .and_then(|it| it.phase)
            .map(|it| format!("{it:?}"))
    } else if let Some(user) = object.downcast_ref::<KiteUser>() {
        user.status
            .as_ref()
            .and_then(|it| it.phase)
            .map(|it| format!("{it:?}"))
    } else if let Some(image) = object.downcast_ref::<KiteImage>() {
        image
            .status
            .as_ref()
            .and_then(|it| it.phase)
            .map(|it| format!("{it:?}"))
    } else if let Some(snapshot) = object.downcast_ref::<KiteSnapshot>() {
        snapshot
            .status
            .as_ref()
            .and_then(|it| it.phase)
            .map(|it| format!("{it:?}"))
    } else if let Some(volume) = object.downcast_ref::<KiteVolume>() {
        volume
            .status
            .as_ref()
            .and_then(|it| it.phase)
            .map(|it| format!("{it:?}"))
    } else if let Some(offer) = object.downcast_ref::<KiteVirtualMachineOffer>() {
        offer
            .status
            .as_ref()
            .and_then(|it| it.phase)
            .map(|it| format!("{it:?}"))
    } else if let Some(platform) = object.downcast_ref::<KitePlatform>() {
        platform.status.as_ref().map(|it| {
            let is_ready = conditions::is_true(&it.conditions, "Ready");
            if is_ready { "Ready" } else { "NotReady" }.to_owned()
        })
    } else {
        Some("Known".to_owned())
    };
    // New: no controller has reported anything yet.
    known.unwrap_or_else(|| "None".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn of_the_secrets_of_others_only_is_kept_which_keys_they_have() {
        let mut secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": names::OIDC_SECRET, "annotations": {"said": "much"}},
            "data": {"staff": "cHJpdmF0ZQ=="},
        }))
        .unwrap();
        transform(&mut secret);
        let kept = serde_json::to_value(&secret.data).unwrap();
        assert_eq!(kept, json!({"staff": ""}));
        assert_eq!(secret.metadata.annotations, None);
    }

    #[test]
    fn of_the_gateways_host_key_only_the_public_half_is_kept() {
        for labels in [
            json!({}),
            json!({labels::MANAGED_BY: labels::MANAGED_BY_CONTROLLER}),
        ] {
            let mut secret: Secret = serde_json::from_value(json!({
                "metadata": {
                    "name": names::GATEWAY_HOST_KEY_SECRET,
                    "labels": labels,
                    "annotations": {LAST_APPLIED: "{\"data\": \"private\"}"},
                },
                "data": {key_secret::HOST_PRIVATE: "cHJpdmF0ZQ==", key_secret::HOST_PUBLIC: "cHVibGlj"},
            }))
            .unwrap();
            transform(&mut secret);
            let kept: Vec<_> = secret
                .data
                .iter()
                .flatten()
                .map(|it| it.0.as_str())
                .collect();
            assert_eq!(kept, [key_secret::HOST_PUBLIC]);
            assert_eq!(secret.metadata.annotations, None);
        }
    }
}
