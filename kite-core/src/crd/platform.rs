//! `KitePlatform`: what holds for the whole platform. There is one, `default`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names;

/// Desired state of the platform.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "hy3ons.github.io",
    version = "v1",
    kind = "KitePlatform",
    plural = "kiteplatforms",
    shortname = "kp",
    category = "kite",
    status = "KitePlatformStatus",
    derive = "PartialEq",
    doc = "Settings of the whole platform. There is one, named `default`.",
    printcolumn(name = "Domain", type_ = "string", json_path = ".spec.baseDomain"),
    printcolumn(name = "Sign-up", type_ = "string", json_path = ".spec.signUp"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name == 'default'").message("there is one KitePlatform, and its name is default"),
)]
#[serde(rename_all = "camelCase")]
pub struct KitePlatformSpec {
    /// Domain below which VMs get theirs, such as `vm.example.org`. Without
    /// one no VM is exposed by domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 190),
        regex(pattern = r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$")
    )]
    pub base_domain: Option<String>,
    /// How VMs are exposed by domain.
    #[serde(default)]
    pub exposure: Exposure,
    /// Who may sign up.
    #[serde(default)]
    pub sign_up: SignUp,
    /// How users reach the SSH gateway.
    #[serde(default)]
    pub gateway: GatewayExposure,
    /// `StorageClass` of VM disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class: Option<String>,
    /// Namespace of golden images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub image_namespace: Option<String>,
}

impl KitePlatformSpec {
    /// The `StorageClass` of VM disks.
    pub fn storage_class(&self) -> &str {
        self.storage_class
            .as_deref()
            .unwrap_or(names::STORAGE_CLASS)
    }

    /// The namespace of golden images.
    pub fn image_namespace(&self) -> &str {
        self.image_namespace
            .as_deref()
            .unwrap_or(names::IMAGE_NAMESPACE)
    }
}

/// How VMs are exposed by domain.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("!(has(self.ingressClassName) && has(self.gateway))").message("set ingressClassName or gateway, not both"))]
#[serde(rename_all = "camelCase")]
pub struct Exposure {
    /// Class of the Ingresses; without one the cluster's default class is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub ingress_class_name: Option<String>,
    /// The Gateway that `HTTPRoutes` attach to, instead of Ingresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayReference>,
    /// Where certificates come from; by default the controller of the Ingress
    /// or Gateway brings its own.
    #[serde(default)]
    pub certificate: Certificate,
}

/// A Gateway of the Gateway API.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct GatewayReference {
    /// Its namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Where certificates come from: at most one of the fields.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("!(has(self.clusterIssuer) && has(self.secretName))").message("set clusterIssuer or secretName, not both"))]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// A cert-manager `ClusterIssuer` that issues one certificate per VM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub cluster_issuer: Option<String>,
    /// Name of a TLS Secret that is present in each user's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: Option<String>,
}

/// Who may sign up.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SignUp {
    /// Everybody.
    Open,
    /// Whoever has an invitation.
    Invite,
    /// Nobody: administrators create users.
    #[default]
    Closed,
}

/// How users reach the SSH gateway.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct GatewayExposure {
    /// Whether the gateway is exposed outside the cluster.
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// Port of the gateway's Service.
    #[serde(default = "ssh_port")]
    #[schemars(range(min = 1, max = 65_535))]
    pub service_port: u16,
    /// Port that users connect to.
    #[serde(default = "ssh_port")]
    #[schemars(range(min = 1, max = 65_535))]
    pub public_port: u16,
    /// Host name or address that users connect to; by default the base domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub public_host: Option<String>,
}

fn enabled() -> bool {
    true
}

fn ssh_port() -> u16 {
    22
}

impl Default for GatewayExposure {
    fn default() -> Self {
        Self {
            enabled: enabled(),
            service_port: ssh_port(),
            public_port: ssh_port(),
            public_host: None,
        }
    }
}

/// Observed state of the platform.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct KitePlatformStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Addresses at which the platform is reachable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// `Ready`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
