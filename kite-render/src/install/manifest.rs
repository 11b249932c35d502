//! An object of an installation, of whatever kind.

use k8s_openapi::{
    api::{
        admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
        apps::v1::{Deployment, StatefulSet},
        core::v1::{ConfigMap, Namespace, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
        storage::v1::StorageClass,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kite_core::crd::{KiteImage, KitePlatform};
use kube::{
    Resource,
    api::{ApiResource, ObjectMeta},
};
use serde::{Serialize, Serializer, ser::Error as _};

use super::{PrometheusRule, ServiceMonitor, platform};

macro_rules! manifest {
    ($($kind:ident),* $(,)?) => {
        /// An object of one of the kinds that are installed. It is written like the
        /// object itself; of a `KitePlatform`, what differs from the defaults.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Manifest {
            $(
                #[doc = concat!("A `", stringify!($kind), "`.")]
                $kind(Box<$kind>),
            )*
        }

        $(
            impl From<$kind> for Manifest {
                fn from(object: $kind) -> Self {
                    Self::$kind(Box::new(object))
                }
            }
        )*

        impl Manifest {
            /// Its API version, such as `apps/v1`.
            pub fn api_version(&self) -> String {
                match self { $( Self::$kind(_) => $kind::api_version(&()).into_owned(), )* }
            }

            /// Its kind.
            pub fn kind(&self) -> String {
                match self { $( Self::$kind(_) => $kind::kind(&()).into_owned(), )* }
            }

            /// Its kind, as a client asks for it.
            pub fn resource(&self) -> ApiResource {
                match self { $( Self::$kind(_) => ApiResource::erase::<$kind>(&()), )* }
            }

            /// All kinds that are installed.
            pub fn resources() -> Vec<ApiResource> {
                vec![ $( ApiResource::erase::<$kind>(&()), )* ]
            }

            /// Its metadata.
            pub fn metadata(&self) -> &ObjectMeta {
                match self { $( Self::$kind(object) => object.meta(), )* }
            }

            fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self { $( Self::$kind(object) => object.serialize(serializer), )* }
            }
        }
    };
}

manifest!(
    ClusterRole,
    ClusterRoleBinding,
    ConfigMap,
    CustomResourceDefinition,
    Deployment,
    KiteImage,
    KitePlatform,
    Namespace,
    NetworkPolicy,
    PodDisruptionBudget,
    PrometheusRule,
    Role,
    RoleBinding,
    Service,
    ServiceAccount,
    ServiceMonitor,
    StatefulSet,
    StorageClass,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
);

impl Manifest {
    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }
}

impl Serialize for Manifest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::KitePlatform(object) => platform::sparse(object)
                .map_err(S::Error::custom)?
                .serialize(serializer),
            other => other.write(serializer),
        }
    }
}
