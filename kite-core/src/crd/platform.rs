//! `KitePlatform`: what holds for the whole platform. There is one, `default`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AccessLevel, SignInProvider, UserAuthority,
    unread_status::{UnreadStatus, salvaged_status},
};
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
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url"),
    printcolumn(name = "Gateway", type_ = "string", json_path = ".status.gatewayAddresses[*]"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "Sign-up", type_ = "string", json_path = ".spec.signUp"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new("self.metadata.name == 'default'").message("there is one KitePlatform, and its name is default"),
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct KitePlatformSpec {
    /// Domain below which VMs get theirs, such as `vm.example.org`. Without
    /// one no VM is exposed by domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 190),
        regex(pattern = super::SUBDOMAIN_PATTERN)
    )]
    pub base_domain: Option<String>,
    /// How VMs are exposed by domain.
    #[serde(default)]
    pub exposure: Exposure,
    /// How the web page and the HTTP API are reached. They are at the base
    /// domain itself, and so need one.
    #[serde(default)]
    pub web: WebExposure,
    /// Who may sign up.
    #[serde(default)]
    pub sign_up: SignUp,
    /// Most accounts that people make for themselves within 24 hours without an invite,
    /// all addresses together; 100 unless set. Further ones wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub sign_ups_per_day: Option<u32>,
    /// Whose account needs a second factor: without one they sign in with their password
    /// and can do nothing but set one up. It is about sign-ins to the HTTP API and its
    /// page, and API tokens; who signs in at providers only is their matter, and SSH asks
    /// for none.
    #[serde(default, skip_serializing_if = "SecondFactorOf::is_nobody")]
    pub require_second_factor: SecondFactorOf,
    /// OpenID Connect providers at which people sign in, beside local accounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub sign_in_providers: Vec<SignInProvider>,
    /// How users reach the SSH gateway.
    #[serde(default)]
    pub gateway: GatewayExposure,
    /// `StorageClass` of VM disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = super::SUBDOMAIN_PATTERN))]
    pub storage_class: Option<String>,
    /// Namespace of golden images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = super::LABEL_PATTERN))]
    pub image_namespace: Option<String>,
    /// Networks that VMs are kept from, beside private ones and those of nodes,
    /// pods and the API server (CIDR notation). `0.0.0.0/0` and `::/0` keep them
    /// from the internet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "networks_schema")]
    pub blocked_networks: Vec<String>,
    /// Nameservers that VMs ask instead of the cluster's DNS, which tells them the
    /// names of others' VMs: addresses that they reach, one of them IPv4. A VM that
    /// runs goes on asking whom it asked when it was started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "nameservers_schema")]
    pub nameservers: Vec<String>,
    /// Labels below the base domain that no VM gets, since people take them for the
    /// platform. Without this: names such as `www`, `login`, `sso`, `api`, `admin`,
    /// `mail`, `autodiscover`, `wpad`, `ssh`, `kite` and `console`. A VM that has one
    /// keeps it. The label of `gateway.publicHost`, those of sign-in providers and
    /// labels that begin with `xn--` are always reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "labels_schema")]
    pub reserved_domain_prefixes: Option<Vec<String>>,
    /// What addresses of images begin with that administrators of Kite may add to the
    /// catalogue by the HTTP API, such as `https://images.example.org/public/`. Without this:
    /// places of images of common systems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "image_sources_schema")]
    pub image_sources: Option<Vec<String>>,
    /// Sessions of the HTTP API name the epoch in which they began; any other
    /// number ends them all, at once and everywhere.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    #[schemars(range(min = 0))]
    pub session_epoch: i64,
    /// The same for API tokens.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    #[schemars(range(min = 0))]
    pub token_epoch: i64,
    /// Which fields of what is stored cannot be read, and why: what is here in their
    /// place is a stand-in, which keeps closed what they may have closed. Never written.
    #[serde(skip)]
    pub unreadable: Option<String>,
}

/// Host names and addresses. Which of them there is, nobody knows beforehand.
const HOST_PATTERN: &str = r"^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]+)$";

/// Classes of load balancers: names with the domain of whose they are before them.
const CLASS_PATTERN: &str =
    r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$";

/// A bounded set of names of namespaces.
fn namespaces_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 16,
        "items": { "type": "string", "maxLength": 63, "pattern": super::LABEL_PATTERN },
        "x-kubernetes-list-type": "set",
    })
}

/// A bounded set of labels of domains.
fn labels_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 256,
        "items": { "type": "string", "maxLength": 63, "pattern": super::LABEL_PATTERN },
        "x-kubernetes-list-type": "set",
    })
}

/// A bounded set of ranges of addresses.
fn networks_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 64,
        "items": {
            "type": "string",
            "maxLength": 43,
            "x-kubernetes-validations": [{
                "rule": "isCIDR(self)",
                "message": "blockedNetworks must be ranges in CIDR notation, such as 198.51.100.0/24 or 2001:db8::/32",
                "messageExpression": "'blockedNetworks: ' + self + ' is no range in CIDR notation: write it like 198.51.100.0/24 or 2001:db8::/32'",
            }],
        },
        "x-kubernetes-list-type": "set",
    })
}

/// What addresses begin with: see [`super::image_source`].
fn image_sources_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "maxLength": 512, "pattern": super::image_source::PATTERN},
    })
}

/// Addresses, in the order in which they are asked; of more than three, resolvers look
/// at the first three.
fn nameservers_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": 3,
        "items": {
            "type": "string",
            "maxLength": 39,
            "x-kubernetes-validations": [{
                "rule": "isIP(self) && !ip(self).isLoopback() && !ip(self).isUnspecified()",
                "message": "nameservers must be addresses of other machines, such as 192.0.2.53 or 2001:db8::53",
                "messageExpression": "'nameservers: ' + self + ' is no address of another machine: write it like 192.0.2.53 or 2001:db8::53'",
            }],
        },
        "x-kubernetes-validations": [{
            "rule": "self.size() == 0 || self.exists(it, isIP(it) && ip(it).family() == 4)",
            "message": "nameservers needs an IPv4 address, for guests learn theirs by DHCP over IPv4: add one such as 192.0.2.53",
        }],
        "x-kubernetes-list-type": "atomic",
    })
}

impl KitePlatformSpec {
    /// The `StorageClass` of VM disks.
    pub fn storage_class(&self) -> &str {
        self.storage_class
            .as_deref()
            .unwrap_or(names::STORAGE_CLASS)
    }

    /// Most accounts that people make for themselves within 24 hours.
    pub fn sign_ups_per_day(&self) -> u32 {
        self.sign_ups_per_day.unwrap_or(SIGN_UPS_PER_DAY)
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
#[x_kube(validation = Rule::new("!has(self.gateway) || !has(self.certificate) || !(has(self.certificate.clusterIssuer) || has(self.certificate.secretName))").message("with gateway the certificate is that of the Gateway's listener: leave certificate out and set it there"))]
#[serde(rename_all = "camelCase")]
pub struct Exposure {
    /// Class of the Ingresses; without one the cluster's default class is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = super::SUBDOMAIN_PATTERN))]
    pub ingress_class_name: Option<String>,
    /// The Gateway that `HTTPRoutes` attach to, instead of Ingresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayReference>,
    /// Namespaces in which the pods of the ingress controller, or of the
    /// Gateway's implementation, are: port 80 of VMs is open to them. By default
    /// those of ingress-nginx and Traefik, and the Gateway's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "namespaces_schema")]
    pub controller_namespaces: Vec<String>,
    /// Where certificates come from; by default the controller of the Ingress
    /// or Gateway brings its own.
    #[serde(default)]
    pub certificate: Certificate,
}

/// A Gateway of the Gateway API.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
pub struct GatewayReference {
    /// Its namespace.
    #[schemars(length(min = 1, max = 63), regex(pattern = super::LABEL_PATTERN))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = super::SUBDOMAIN_PATTERN))]
    pub name: String,
}

/// Where certificates come from: at most one of the fields.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[x_kube(validation = Rule::new("!(has(self.clusterIssuer) && has(self.secretName))").message("set clusterIssuer or secretName, not both"))]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// A cert-manager `ClusterIssuer` that issues one certificate per VM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = super::SUBDOMAIN_PATTERN))]
    pub cluster_issuer: Option<String>,
    /// Name of a TLS Secret that is present in Kite's namespace and in each user's.
    /// `kite-certificate`, which is put in over HTTP, is the web page's alone; VMs
    /// then have what the controller brings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = super::SUBDOMAIN_PATTERN))]
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

/// Who needs a second factor.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecondFactorOf {
    /// Nobody: who wants one sets it up.
    #[default]
    Nobody,
    /// Accounts with the access level `Admin`.
    Administrators,
    /// All accounts.
    Everybody,
}

impl SecondFactorOf {
    /// Whether an account of this level needs one.
    pub fn covers(self, level: AccessLevel) -> bool {
        match self {
            Self::Nobody => false,
            Self::Administrators => level == AccessLevel::Admin,
            Self::Everybody => true,
        }
    }

    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde hands over a reference"
    )]
    fn is_nobody(&self) -> bool {
        *self == Self::Nobody
    }
}

/// Sign-ups within 24 hours where the platform does not say how many.
const SIGN_UPS_PER_DAY: u32 = 100;

/// How the web page and the HTTP API are reached.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct WebExposure {
    /// Whether they are exposed outside the cluster.
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// Whether requests over HTTP are sent to HTTPS.
    #[serde(default = "enabled")]
    pub https_redirect: bool,
    /// Annotations of the Ingress, for what its controller lets one choose. Not
    /// used with a Gateway.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "annotations_schema")]
    pub annotations: BTreeMap<String, String>,
}

impl Default for WebExposure {
    fn default() -> Self {
        Self {
            enabled: enabled(),
            https_redirect: enabled(),
            annotations: BTreeMap::new(),
        }
    }
}

/// A bounded map of annotations. Their names are judged where they are applied.
fn annotations_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": { "type": "string", "maxLength": 4096 },
    })
}

/// How users reach the SSH gateway.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[x_kube(validation = Rule::new("!has(self.loadBalancerClass) || !has(self.serviceType) || self.serviceType == 'LoadBalancer'").message("loadBalancerClass works with serviceType LoadBalancer only: leave it out, or choose that type"))]
#[serde(rename_all = "camelCase")]
pub struct GatewayExposure {
    /// Whether the gateway is exposed outside the cluster.
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// Port of the gateway's Service.
    #[serde(default = "ssh_port")]
    #[schemars(range(min = 1, max = 65_535))]
    pub service_port: u16,
    /// Port that users connect to. With serviceType `NodePort`, 22 stands for the
    /// port on every node.
    #[serde(default = "ssh_port")]
    #[schemars(range(min = 1, max = 65_535))]
    pub public_port: u16,
    /// Host name or address that users connect to; by default the base domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = HOST_PATTERN))]
    pub public_host: Option<String>,
    /// Type of the gateway's Service.
    #[serde(default)]
    pub service_type: GatewayServiceType,
    /// Port on every node; by default Kubernetes picks one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub node_port: Option<u16>,
    /// Which load balancer controller is meant, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = CLASS_PATTERN))]
    pub load_balancer_class: Option<String>,
    /// What becomes of connections on their way to the gateway's pods.
    #[serde(default)]
    pub traffic_policy: TrafficPolicy,
    /// Annotations of the Service, for what its controller lets one choose.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "annotations_schema")]
    pub annotations: BTreeMap<String, String>,
    /// Authorities whose certificates of users log in, beside keys and passwords. Who
    /// holds the private key of one gets into every VM.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub user_authorities: Vec<UserAuthority>,
}

/// Type of the gateway's Service.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GatewayServiceType {
    /// The cluster's load balancer controller gives it an address.
    #[default]
    LoadBalancer,
    /// It is reached at a port of every node.
    NodePort,
}

impl GatewayServiceType {
    /// The spelling of the Kubernetes API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LoadBalancer => "LoadBalancer",
            Self::NodePort => "NodePort",
        }
    }
}

/// What becomes of connections from outside (`externalTrafficPolicy`).
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrafficPolicy {
    /// Any node takes them on to any pod; the gateway sees the node's address, by which
    /// it can tell nobody from anybody else.
    Cluster,
    /// Only nodes with a pod take them; the gateway sees the client's address,
    /// which its bounds and bans go by.
    #[default]
    Local,
}

impl TrafficPolicy {
    /// The spelling of the Kubernetes API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Local => "Local",
        }
    }
}

fn enabled() -> bool {
    true
}

fn ssh_port() -> u16 {
    22
}

impl GatewayExposure {
    /// The port that users connect to; none while Kubernetes has not picked it.
    /// `seen` is the port in the platform's status.
    pub fn port_of_users(&self, seen: Option<u16>) -> Option<u16> {
        match self.service_type {
            GatewayServiceType::NodePort if self.public_port == ssh_port() => {
                self.node_port.or(seen)
            }
            GatewayServiceType::NodePort | GatewayServiceType::LoadBalancer => {
                Some(self.public_port)
            }
        }
    }
}

impl KitePlatformSpec {
    /// The host that users connect to by SSH: what the platform says, or else the
    /// gateway's own address, of which `seen` are those in the platform's status.
    /// None while there is neither, or the gateway is not exposed.
    pub fn host_of_users<'a>(&'a self, seen: &'a [String]) -> Option<&'a str> {
        let said = self.gateway.public_host.as_deref();
        said.or(self.base_domain.as_deref())
            .or(seen.first().map(String::as_str))
            .filter(|_| self.gateway.enabled)
    }
}

impl Default for GatewayExposure {
    fn default() -> Self {
        Self {
            enabled: enabled(),
            service_port: ssh_port(),
            public_port: ssh_port(),
            public_host: None,
            service_type: GatewayServiceType::default(),
            node_port: None,
            load_balancer_class: None,
            traffic_policy: TrafficPolicy::default(),
            annotations: BTreeMap::new(),
            user_authorities: Vec::new(),
        }
    }
}

/// Observed state of the platform.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[schemars(rename = "KitePlatformStatus")]
pub struct KitePlatformStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the web page and the API are reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Addresses of the web page and the API: what the base domain and the names
    /// below it have to resolve to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Addresses of the SSH gateway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateway_addresses: Vec<String>,
    /// Port at those addresses, or at every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_port: Option<u16>,
    /// Host keys of the SSH gateway: who connects for the first time compares them
    /// with what the client shows. They stay told when their Secret goes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub gateway_host_keys: Vec<GatewayHostKey>,
    /// Addresses of nodes, pods and load balancers (CIDR notation), behind each of which
    /// there may be many clients: the gateway bans none of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_addresses: Vec<String>,
    /// `Ready`, `GatewayExposed`, `WebExposed`, `ResolvedRefs`, `ClientAddressesSeen`,
    /// `UserAuthoritiesUsable`, `GatewayHostKeyKept`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[serde(deserialize_with = "crate::time::conditions")]
    pub conditions: Vec<Condition>,
    /// What of it cannot be read, and counts as absent. Never written, but for the fields
    /// that nothing else tells.
    #[serde(skip)]
    pub unreadable: Option<Box<UnreadStatus>>,
}

salvaged_status!(KitePlatformStatus, kept: []);

/// A host key of the SSH gateway, the public half.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct GatewayHostKey {
    /// The key in OpenSSH's format, as it stands in `known_hosts` after the host:
    /// its type and base64.
    #[schemars(length(max = 1024))]
    pub public_key: String,
    /// Its fingerprint, as `ssh` shows it: `SHA256:` and base64.
    #[schemars(length(max = 128))]
    pub fingerprint: String,
    /// The fingerprint of the key that users were told of before, for a week: clients that
    /// know that one refuse this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub replaces: Option<String>,
    /// When it came in the place of that one.
    #[serde(
        default,
        deserialize_with = "crate::time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("replacedAt must be before the year 9000"))]
    pub replaced_at: Option<Time>,
}

/// Types of the conditions in [`KitePlatformStatus::conditions`].
pub mod platform_condition {
    /// Summary: all that is to be exposed is.
    pub const READY: &str = "Ready";
    /// The SSH gateway has an address.
    pub const GATEWAY_EXPOSED: &str = "GatewayExposed";
    /// The web page and the API have an address.
    pub const WEB_EXPOSED: &str = "WebExposed";
    /// All objects that settings name are there, such as the storage class. Its message
    /// names those that are not, with the settings. `Unknown` where that of some cannot be
    /// told, as the controller may not look at them.
    pub const RESOLVED_REFS: &str = "ResolvedRefs";
    /// The SSH gateway and the API see the addresses of clients. Absent while the gateway
    /// is not exposed and nothing is wrong with the API.
    pub const CLIENT_ADDRESSES_SEEN: &str = "ClientAddressesSeen";
    /// The keys of all user authorities can be read. Absent where there is none.
    pub const USER_AUTHORITIES_USABLE: &str = "UserAuthoritiesUsable";
    /// The SSH gateway's host key is the one that users were told of. Absent while there never
    /// was one, or the gateway is not exposed.
    pub const GATEWAY_HOST_KEY_KEPT: &str = "GatewayHostKeyKept";
}
