//! What has to be there before Kite starts: its namespaces, the `StorageClass`
//! of VM disks, the Service of the HTTP API, and the right to clone golden
//! images. Whoever installs Kite applies it; no reconciler changes it.
//!
//! ```
//! let install = kite_render::install::Install::default();
//! assert_eq!(install.clone_role().metadata.namespace.as_deref(), Some("kite-images"));
//! ```

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        core::v1::{Namespace, Service, ServiceAccount, ServicePort, ServiceSpec},
        rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
        storage::v1::StorageClass,
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use kite_core::{labels, names};

/// Name of the Role, and of its binding, that allows to clone golden images.
const CLONE_ROLE: &str = "kite-clone-images";

/// Where Kite is installed, and on what storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// The namespace in which Kite runs.
    pub namespace: String,
    /// The namespace of golden images; `imageNamespace` of the platform.
    pub image_namespace: String,
    /// What the `StorageClass` of VM disks stands for; without it there is none,
    /// and the platform has to name one that is there.
    pub storage: Option<Storage>,
}

/// What provisions VM disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The CSI driver, such as `rook-ceph.rbd.csi.ceph.com`.
    pub provisioner: String,
    /// Whether a disk is made where its VM is going to run, and so not before
    /// that is known. Storage that every node reaches does without.
    pub waits_for_consumer: bool,
    /// Parameters for the driver.
    pub parameters: BTreeMap<String, String>,
}

impl Default for Install {
    fn default() -> Self {
        Self {
            namespace: names::PLATFORM_NAMESPACE.to_owned(),
            image_namespace: names::IMAGE_NAMESPACE.to_owned(),
            storage: None,
        }
    }
}

impl Install {
    /// The namespaces of Kite and of its images.
    pub fn namespaces(&self) -> [Namespace; 2] {
        [&self.namespace, &self.image_namespace].map(|name| Namespace {
            metadata: metadata(name, None),
            ..Namespace::default()
        })
    }

    /// The `StorageClass` of VM disks. Its volumes can grow, and go with their
    /// claims, which go only with their VM.
    pub fn storage_class(&self) -> Option<StorageClass> {
        let storage = self.storage.as_ref()?;
        let mode = if storage.waits_for_consumer {
            "WaitForFirstConsumer"
        } else {
            "Immediate"
        };
        let parameters = storage.parameters.clone();
        Some(StorageClass {
            metadata: metadata(names::STORAGE_CLASS, None),
            provisioner: storage.provisioner.clone(),
            parameters: (!parameters.is_empty()).then_some(parameters),
            allow_volume_expansion: Some(true),
            reclaim_policy: Some("Delete".to_owned()),
            volume_binding_mode: Some(mode.to_owned()),
            ..StorageClass::default()
        })
    }

    /// The account under which the controller runs.
    pub fn controller_account(&self) -> ServiceAccount {
        ServiceAccount {
            metadata: metadata(names::CONTROLLER_ACCOUNT, Some(&self.namespace)),
            ..ServiceAccount::default()
        }
    }

    /// The Service to which the platform's Ingress or route leads.
    pub fn api_service(&self) -> Service {
        let port = i32::from(names::API_PORT);
        Service {
            metadata: metadata(names::API_SERVICE, Some(&self.namespace)),
            spec: Some(ServiceSpec {
                selector: Some(BTreeMap::from([(
                    labels::APP_NAME.to_owned(),
                    names::API_SERVICE.to_owned(),
                )])),
                ports: Some(vec![ServicePort {
                    name: Some("http".to_owned()),
                    port,
                    target_port: Some(IntOrString::Int(port)),
                    protocol: Some("TCP".to_owned()),
                    ..ServicePort::default()
                }]),
                ..ServiceSpec::default()
            }),
            status: None,
        }
    }

    /// The right to clone what is in the image namespace, and only there: CDI
    /// asks for `create` of `datavolumes/source` in the namespace of the source.
    pub fn clone_role(&self) -> Role {
        Role {
            metadata: metadata(CLONE_ROLE, Some(&self.image_namespace)),
            rules: Some(vec![PolicyRule {
                api_groups: Some(vec!["cdi.kubevirt.io".to_owned()]),
                resources: Some(vec!["datavolumes/source".to_owned()]),
                verbs: vec!["create".to_owned()],
                ..PolicyRule::default()
            }]),
        }
    }

    /// Gives that right to the controller.
    pub fn clone_binding(&self) -> RoleBinding {
        RoleBinding {
            metadata: metadata(CLONE_ROLE, Some(&self.image_namespace)),
            role_ref: RoleRef {
                api_group: Some("rbac.authorization.k8s.io".to_owned()),
                kind: "Role".to_owned(),
                name: CLONE_ROLE.to_owned(),
            },
            subjects: Some(vec![Subject {
                api_group: None,
                kind: "ServiceAccount".to_owned(),
                name: names::CONTROLLER_ACCOUNT.to_owned(),
                namespace: Some(self.namespace.clone()),
            }]),
        }
    }
}

fn metadata(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: namespace.map(str::to_owned),
        labels: Some(BTreeMap::from([(
            "app.kubernetes.io/part-of".to_owned(),
            "kite".to_owned(),
        )])),
        ..ObjectMeta::default()
    }
}
