//! All kinds of objects that reconcilers write, as one type, so that a plan can
//! be a list of steps over any of them.

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, PersistentVolumeClaim, ResourceQuota, Secret, Service},
    networking::v1::{Ingress, NetworkPolicy},
    rbac::v1::RoleBinding,
};
use kite_core::{
    cdi::{DataImportCron, DataSource, DataVolume},
    cluster::{Cluster, ClusterError, ClusterExt as _, FieldManager, ObjectKey},
    crd::{KiteSnapshot, KiteVirtualMachine, KiteVolume},
    gateway_api::HttpRoute,
    kubevirt::{VirtualMachine, VirtualMachineInstanceMigration},
    volume_snapshot::VolumeSnapshot,
};
use kube::{Resource, api::PropagationPolicy};

macro_rules! any_object {
    ($($kind:ident),* $(,)?) => {
        /// An object of one of the kinds that reconcilers write.
        #[derive(Clone, Debug, PartialEq)]
        pub enum AnyObject {
            $(
                #[doc = concat!("A `", stringify!($kind), "`.")]
                $kind(Box<$kind>),
            )*
        }

        $(
            impl From<$kind> for AnyObject {
                fn from(object: $kind) -> Self {
                    Self::$kind(Box::new(object))
                }
            }
        )*

        #[cfg(test)]
        const RESOURCES: &[fn() -> (String, String)] = &[
            $( || ($kind::group(&()).into_owned(), $kind::plural(&()).into_owned()), )*
        ];

        impl AnyObject {
            /// Its kind.
            pub fn kind(&self) -> &'static str {
                match self { $( Self::$kind(_) => stringify!($kind), )* }
            }

            /// Its namespace and name.
            pub fn key(&self) -> ObjectKey {
                match self { $( Self::$kind(object) => ObjectKey::of(&**object), )* }
            }

            /// Its metadata.
            pub fn metadata(&self) -> &kube::api::ObjectMeta {
                match self { $( Self::$kind(object) => object.meta(), )* }
            }

            pub(crate) async fn apply<C: Cluster>(
                &self,
                cluster: &C,
                manager: FieldManager,
            ) -> Result<Self, ClusterError> {
                match self {
                    $( Self::$kind(object) => {
                        cluster.apply(manager, &**object).await.map(Self::from)
                    } )*
                }
            }

            pub(crate) async fn create<C: Cluster>(&self, cluster: &C) -> Result<Self, ClusterError> {
                match self {
                    $( Self::$kind(object) => cluster.create(&**object).await.map(Self::from), )*
                }
            }

            pub(crate) async fn find<C: Cluster>(
                &self,
                cluster: &C,
            ) -> Result<Option<Self>, ClusterError> {
                match self {
                    $( Self::$kind(object) => {
                        Ok(cluster.get_opt::<$kind>(&ObjectKey::of(&**object)).await?.map(Self::from))
                    } )*
                }
            }

            /// Takes the finalizer off it, as it was read; gone already is as good.
            pub(crate) async fn remove_finalizer<C: Cluster>(
                &self,
                cluster: &C,
                finalizer: &str,
            ) -> Result<(), ClusterError> {
                let held = self.metadata().finalizers.iter().flatten();
                let rest = held.filter(|it| *it != finalizer).cloned().collect();
                let done = match self {
                    $( Self::$kind(object) => {
                        cluster.set_finalizers(&**object, rest).await.map(drop)
                    } )*
                };
                match done {
                    Err(ClusterError::NotFound { .. }) => Ok(()),
                    done => done,
                }
            }

            pub(crate) async fn delete_unchanged<C: Cluster>(
                &self,
                cluster: &C,
            ) -> Result<(), ClusterError> {
                let propagation = PropagationPolicy::Background;
                let done = match self {
                    $( Self::$kind(object) => {
                        cluster.delete_unchanged(&**object, propagation).await
                    } )*
                };
                match done {
                    Err(ClusterError::NotFound { .. }) => Ok(()),
                    done => done,
                }
            }

            /// Deletes it as it was observed. Gives what has its name then: itself while
            /// something holds it, or another.
            pub(crate) async fn delete<C: Cluster>(
                &self,
                cluster: &C,
                propagation: PropagationPolicy,
            ) -> Result<Option<Self>, ClusterError> {
                match self {
                    $( Self::$kind(object) => {
                        let left = cluster.delete_by_uid_and_get(&**object, propagation).await?;
                        Ok(left.map(Self::from))
                    } )*
                }
            }
        }
    };
}

any_object!(
    DataImportCron,
    DataSource,
    DataVolume,
    HttpRoute,
    Ingress,
    KiteSnapshot,
    KiteVirtualMachine,
    KiteVolume,
    Lease,
    Namespace,
    NetworkPolicy,
    PersistentVolumeClaim,
    ResourceQuota,
    RoleBinding,
    Secret,
    Service,
    VirtualMachine,
    VirtualMachineInstanceMigration,
    VolumeSnapshot,
);

#[cfg(test)]
mod tests {
    use kite_render::install::{Installation, Process, Scope};

    use super::RESOURCES;

    /// Whoever adds a kind is told where its rights are missing.
    #[test]
    fn whatever_is_written_may_be() {
        let rights = Installation::default().rights(Process::Controller);
        for resource in RESOURCES {
            let (group, plural) = resource();
            let may = |verb| {
                let mut rights = rights.iter();
                rights.any(|right| {
                    right.group == group
                        && right.resources.contains(&plural.as_str())
                        && right.verbs.contains(&verb)
                })
            };
            for verb in ["list", "watch"] {
                assert!(may(verb), "{verb} {plural}");
            }
            assert!(may("patch") || may("create"), "{plural}");
            // What is written for one owner is bounded to where they may be.
            let is_own = group == kite_core::crd::GROUP || plural == "namespaces";
            let rights = rights.iter().filter(|it| it.group == group);
            let mut rights = rights.filter(|it| it.resources.contains(&plural.as_str()));
            let is_bounded = rights.any(|it| it.reach.is_some() || it.scope == Scope::Users);
            assert!(is_own || is_bounded, "{plural}");
        }
    }
}
