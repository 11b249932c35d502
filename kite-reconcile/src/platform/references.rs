//! The objects that settings of the platform name, which of them are not there, and of
//! which nobody can say that.

use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{Namespace, Secret},
    networking::v1::IngressClass,
    storage::v1::StorageClass,
};
use kite_core::{
    cert_manager::ClusterIssuer,
    cluster::{Cluster, ClusterError, ClusterExt as _, Object, ObjectKey},
    conditions::{ConditionStatus, NewCondition},
    crd::{KitePlatformSpec, platform_condition::RESOLVED_REFS},
    gateway_api::Gateway,
    names,
};
use kite_render::install::NOT_THE_CONTROLLERS;
use kube::{ResourceExt as _, api::ListParams};

use super::draft::{PlatformDraft, SOON};
use crate::stage::Stage;

/// Goes by `missing` and `unseen`.
pub(super) struct References;

impl Stage<PlatformDraft<'_>> for References {
    fn condition(&self, draft: &PlatformDraft<'_>) -> Option<NewCondition> {
        Some(condition(&draft.seen.missing, &draft.seen.unseen))
    }

    fn look_again(&self, draft: &PlatformDraft<'_>) -> Option<Duration> {
        let seen = draft.seen;
        let is_secret = |it: &Reference| it.kind == Referent::Secret;
        let has_failed = |it: &Unseen| !it.is_refused;
        // Nothing tells of a Secret that comes, where not all of them are watched.
        let awaits_secret = draft.settings.own_role.is_some() && seen.missing.iter().any(is_secret);
        (awaits_secret || seen.unseen.iter().any(has_failed)).then_some(SOON)
    }
}

/// The setting that names the certificate's Secret.
const CERTIFICATE: &str = "spec.exposure.certificate.secretName";

/// An object that a setting names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reference {
    /// The setting, such as `spec.storageClass`.
    pub setting: &'static str,
    /// Whether it is set to this; else it is the default.
    pub is_set: bool,
    /// Kind of the object.
    pub kind: Referent,
    /// The object.
    pub key: ObjectKey,
    /// Which of its keys have to be there, if it is a Secret; of one that is there and is
    /// missed all the same, those that are not.
    pub keys: Vec<String>,
}

/// An object that a setting names, and of which it is not known whether it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unseen {
    /// The object.
    pub reference: Reference,
    /// Whether the controller may not look at it; else that failed.
    pub is_refused: bool,
}

/// Kinds of objects that settings name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Referent {
    /// Where disks of VMs are.
    StorageClass,
    /// Where images are, or an ingress controller runs.
    Namespace,
    /// Whose the Ingresses are.
    IngressClass,
    /// To what routes attach.
    Gateway,
    /// From whom certificates are.
    ClusterIssuer,
    /// Where a certificate, or secrets of OpenID Connect clients are.
    Secret,
}

/// All objects that are named by the settings of a platform whose own namespace is
/// `here`.
pub(super) fn references(spec: &KitePlatformSpec, here: &str) -> Vec<Reference> {
    let of = |setting, kind, key| Reference {
        setting,
        is_set: true,
        kind,
        key,
        keys: Vec::new(),
    };
    let mut all = vec![
        Reference {
            is_set: spec.storage_class.is_some(),
            ..of(
                "spec.storageClass",
                Referent::StorageClass,
                ObjectKey::cluster(spec.storage_class()),
            )
        },
        Reference {
            is_set: spec.image_namespace.is_some(),
            ..of(
                "spec.imageNamespace",
                Referent::Namespace,
                ObjectKey::cluster(spec.image_namespace()),
            )
        },
    ];
    let exposure = &spec.exposure;
    all.extend(exposure.ingress_class_name.iter().map(|name| {
        let setting = "spec.exposure.ingressClassName";
        of(setting, Referent::IngressClass, ObjectKey::cluster(name))
    }));
    all.extend(exposure.gateway.iter().map(|it| {
        let key = ObjectKey::namespaced(&it.namespace, &it.name);
        of("spec.exposure.gateway", Referent::Gateway, key)
    }));
    all.extend(exposure.controller_namespaces.iter().map(|name| {
        let setting = "spec.exposure.controllerNamespaces";
        of(setting, Referent::Namespace, ObjectKey::cluster(name))
    }));
    all.extend(exposure.certificate.cluster_issuer.iter().map(|name| {
        let setting = "spec.exposure.certificate.clusterIssuer";
        of(setting, Referent::ClusterIssuer, ObjectKey::cluster(name))
    }));
    all.extend(exposure.certificate.secret_name.iter().map(|name| {
        of(
            CERTIFICATE,
            Referent::Secret,
            ObjectKey::namespaced(here, name),
        )
    }));
    let providers = spec.sign_in_providers.iter();
    let keys = providers.filter_map(|provider| provider.client_secret_key.as_deref());
    // Beside each stands for which issuer it is.
    let keys: Vec<_> = keys
        .flat_map(|key| [key.to_owned(), names::issuer_key(key)])
        .collect();
    if !keys.is_empty() {
        let key = ObjectKey::namespaced(here, names::OIDC_SECRET);
        let setting = "spec.signInProviders[].clientSecretKey";
        all.push(Reference {
            keys,
            ..of(setting, Referent::Secret, key)
        });
    }
    all
}

/// Those of [`references`] that are not there, and those of which that is not known: no
/// reason not to expose the platform.
pub(super) async fn look<C: Cluster>(
    cluster: &C,
    spec: &KitePlatformSpec,
    here: &str,
) -> (Vec<Reference>, Vec<Unseen>) {
    let (mut missing, mut unseen) = (Vec::new(), Vec::new());
    for reference in references(spec, here) {
        match missed(cluster, &reference).await {
            Ok(missed) => missing.extend(missed),
            Err(error) => {
                tracing::debug!(setting = reference.setting, %error, "cannot be looked for");
                unseen.push(Unseen {
                    is_refused: matches!(error, ClusterError::Forbidden { .. }),
                    reference,
                });
            }
        }
    }
    (missing, unseen)
}

/// What of it is not there.
async fn missed<C: Cluster>(
    cluster: &C,
    of: &Reference,
) -> Result<Option<Reference>, ClusterError> {
    let is_there = match of.kind {
        Referent::Namespace => cluster.get_opt::<Namespace>(&of.key).await?.is_some(),
        Referent::Gateway => cluster.get_opt::<Gateway>(&of.key).await?.is_some(),
        Referent::Secret => return Ok(without(find_secret(cluster, &of.key).await?, of)),
        // The controller may list these, and read none by its name.
        Referent::StorageClass => is_listed::<StorageClass, C>(cluster, &of.key).await?,
        Referent::IngressClass => is_listed::<IngressClass, C>(cluster, &of.key).await?,
        Referent::ClusterIssuer => is_listed::<ClusterIssuer, C>(cluster, &of.key).await?,
    };
    Ok((!is_there).then(|| of.clone()))
}

/// What a Secret lacks.
fn without(secret: Option<Secret>, of: &Reference) -> Option<Reference> {
    let Some(secret) = secret else {
        let keys = Vec::new();
        return Some(Reference { keys, ..of.clone() });
    };
    let has = |key: &String| {
        let mut data = secret.data.iter();
        data.any(|data| data.contains_key(key))
    };
    let keys: Vec<_> = of.keys.iter().filter(|key| !has(key)).cloned().collect();
    (!keys.is_empty()).then(|| Reference { keys, ..of.clone() })
}

async fn find_secret<C: Cluster>(
    cluster: &C,
    key: &ObjectKey,
) -> Result<Option<Secret>, ClusterError> {
    match cluster.get_opt::<Secret>(key).await {
        // The controller may list this one, and not read it by its name.
        Err(ClusterError::Forbidden { .. }) if key.name == names::OIDC_SECRET => {
            let only = ListParams::default().fields(&format!("metadata.name={}", key.name));
            let found = cluster.list::<Secret>(key.namespace.clone(), &only).await?;
            Ok(found.complete()?.pop())
        }
        found => found,
    }
}

async fn is_listed<K: Object, C: Cluster>(
    cluster: &C,
    key: &ObjectKey,
) -> Result<bool, ClusterError> {
    match cluster.list::<K>(None, &ListParams::default()).await {
        Ok(found) => {
            let unreadable = found.unreadable.iter().map(|it| &it.meta);
            let mut all = found.items.iter().map(K::meta).chain(unreadable);
            Ok(all.any(|it| it.name.as_ref() == Some(&key.name)))
        }
        // The kind is not installed.
        Err(ClusterError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether all is there that settings name.
fn condition(missing: &[Reference], unseen: &[Unseen]) -> NewCondition {
    let told = missing.iter().map(Reference::told);
    let told: Vec<_> = told.chain(unseen.iter().map(Unseen::told)).collect();
    let (status, reason) = match (missing, unseen) {
        ([], []) => {
            return NewCondition::new(
                RESOLVED_REFS,
                true,
                "ResolvedRefs",
                "all objects that the settings name are there",
            );
        }
        ([], _) => (ConditionStatus::Unknown, "NotLookedAt"),
        _ => (ConditionStatus::False, "RefNotFound"),
    };
    NewCondition::new(RESOLVED_REFS, status, reason, told.join("; "))
}

impl Reference {
    /// Which setting names it.
    fn named(&self) -> String {
        let (setting, kind, key) = (self.setting, self.kind.name(), &self.key);
        let names = if self.is_set {
            "names"
        } else {
            "is not set and stands for"
        };
        format!("{setting} {names} {kind} {key}")
    }

    /// That it is not there, or what of it, and the remedy.
    fn told(&self) -> String {
        if !self.keys.is_empty() {
            return format!(
                "{}, which has no key {}: write what belongs there, or name another (kubectl \
                 edit kiteplatform {})",
                self.named(),
                self.keys.join(", "),
                names::PLATFORM
            );
        }
        format!(
            "{}, which is not there: create it{}, or name another (kubectl edit kiteplatform {})",
            self.named(),
            self.kind.hint(),
            names::PLATFORM
        )
    }
}

impl Unseen {
    /// That nobody says whether it is there, and the remedy.
    fn told(&self) -> String {
        let named = self.reference.named();
        if !self.is_refused {
            return format!("{named}, which could not be looked for: that is tried again");
        }
        let name = &self.reference.key.name;
        let is_certificate = self.reference.setting == CERTIFICATE;
        let remedy = if is_certificate && NOT_THE_CONTROLLERS.contains(&name.as_str()) {
            format!(
                "put the certificate into a Secret of its own, and name that (kubectl edit \
                 kiteplatform {})",
                names::PLATFORM
            )
        } else if is_certificate {
            format!("allow it that (kite upgrade --certificate-secret {name})")
        } else {
            "have it get its rights again (kite upgrade)".to_owned()
        };
        format!("{named}, and whether that is there the controller may not look: {remedy}")
    }
}

impl Referent {
    /// The kind's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::StorageClass => "StorageClass",
            Self::Namespace => "Namespace",
            Self::IngressClass => "IngressClass",
            Self::Gateway => "Gateway",
            Self::ClusterIssuer => "ClusterIssuer",
            Self::Secret => "Secret",
        }
    }

    /// What to look at beside.
    fn hint(self) -> &'static str {
        match self {
            Self::ClusterIssuer => " (which takes cert-manager)",
            Self::Gateway => " (which takes the Gateway API)",
            Self::StorageClass | Self::Namespace | Self::IngressClass | Self::Secret => "",
        }
    }
}

/// Whether a setting of a platform names this object, wherever Kite itself is.
pub(crate) fn names_it<K: Object>(spec: &KitePlatformSpec, object: &K) -> bool {
    let kind = K::kind(&());
    let here = object.namespace().unwrap_or_default();
    let mut all = references(spec, &here).into_iter();
    all.any(|it| {
        it.kind.name() == kind
            && it.key.name == object.name_any()
            && it.key.namespace == object.namespace()
    })
}
