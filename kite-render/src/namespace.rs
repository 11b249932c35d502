//! The namespace of a user.

use k8s_openapi::api::core::v1::Namespace;
use kite_core::labels;

use crate::User;

/// What the Pod Security admission of Kubernetes demands of pods in users' namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PodSecurity {
    /// That they reach nothing of their node. What `KubeVirt` and CDI make there is so.
    #[default]
    Baseline,
    /// Nothing, for clusters whose `KubeVirt` runs launchers as root (its feature gate
    /// `Root`), or demands it itself (`PSA`).
    Privileged,
}

impl PodSecurity {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Baseline, Self::Privileged];

    /// The spelling of Kubernetes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Privileged => "privileged",
        }
    }
}

/// The namespace in which a user's VMs live.
///
/// Its label wins over what the cluster has by default, so it is one that suits
/// `KubeVirt`'s launchers and nothing that is stronger. That nobody but `KubeVirt` and CDI
/// makes pods here is up to an admission policy of the installation.
///
/// ```
/// use kite_core::crd::{KiteUser, KiteUserSpec};
/// use kite_render::{User, namespace};
///
/// let mut object = KiteUser::new("ann", KiteUserSpec::new("ann"));
/// object.metadata.uid = Some("51c2".into());
/// let namespace = namespace::namespace(&User::of(&object)?, namespace::PodSecurity::Baseline);
/// assert_eq!(namespace.metadata.name.as_deref(), Some("kite-user-ann"));
/// # Ok::<(), kite_render::RenderError>(())
/// ```
pub fn namespace(user: &User<'_>, security: PodSecurity) -> Namespace {
    let mut metadata = user.metadata(user.namespace(), None);
    metadata.labels.get_or_insert_default().extend(
        [
            ("pod-security.kubernetes.io/enforce", security.name()),
            ("pod-security.kubernetes.io/audit", "baseline"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    Namespace {
        metadata,
        ..Namespace::default()
    }
}

/// The same of an account that goes, once nothing is in it that is to be kept: it may be deleted.
pub fn emptied(user: &User<'_>, security: PodSecurity) -> Namespace {
    let mut namespace = namespace(user, security);
    let annotations = namespace.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::EMPTIED.to_owned(), "true".to_owned());
    namespace
}
