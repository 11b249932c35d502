//! The subset of the Gateway API that Kite reads and writes
//! (`gateway.networking.k8s.io/v1`). Minimal for the same reasons as
//! [`crate::kubevirt`].
//!
//! The Gateway API's schemas have defaults for much of a route. Set what they
//! set (see [`BackendRef::service`], [`HttpRouteMatch::everything`],
//! [`ParentReference::listener`]), and a route is stored as it was applied.

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::crd::foreign::{Column, ForeignKind};

/// The API group.
pub const GROUP: &str = "gateway.networking.k8s.io";

const COLUMN_AGE: Column = ("Age", "date", ".metadata.creationTimestamp");

const KINDS: &[ForeignKind] = &[
    ForeignKind {
        group: GROUP,
        version: "v1",
        kind: "Gateway",
        plural: "gateways",
        short_names: &["gtw"],
        columns: &[
            ("Class", "string", ".spec.gatewayClassName"),
            ("Address", "string", ".status.addresses[*].value"),
            COLUMN_AGE,
        ],
    },
    ForeignKind {
        group: GROUP,
        version: "v1",
        kind: "HTTPRoute",
        plural: "httproutes",
        short_names: &[],
        columns: &[("Hostnames", "string", ".spec.hostnames"), COLUMN_AGE],
    },
];

/// CRDs of the kinds in this module, for an API server that has no Gateway API:
/// their fields are kept as they come and not judged.
pub fn crds() -> Vec<CustomResourceDefinition> {
    KINDS.iter().map(ForeignKind::crd).collect()
}

/// Where traffic comes in. Kite reads Gateways and never writes one.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "gateway.networking.k8s.io",
    version = "v1",
    kind = "Gateway",
    plural = "gateways",
    namespaced,
    schema = "disabled",
    status = "GatewayStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    /// Its class.
    #[serde(default)]
    pub gateway_class_name: String,
    /// What it listens for.
    #[serde(default)]
    pub listeners: Vec<Listener>,
}

/// A port on which a Gateway listens.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Listener {
    /// Its name: the `sectionName` by which a route attaches to it.
    pub name: String,
    /// The port.
    #[serde(default)]
    pub port: i32,
    /// `HTTP`, `HTTPS`, `TLS`, `TCP`, `UDP`, or an implementation's own.
    #[serde(default)]
    pub protocol: String,
    /// The hosts it is for; all of them where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
}

/// Observed state of a Gateway.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct GatewayStatus {
    /// Where it is reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<GatewayAddress>,
    /// `Accepted`, `Programmed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// An address of a Gateway.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayAddress {
    /// The address or host name.
    pub value: String,
}

/// Leads requests from Gateways to Services.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "gateway.networking.k8s.io",
    version = "v1",
    kind = "HTTPRoute",
    root = "HttpRoute",
    plural = "httproutes",
    namespaced,
    schema = "disabled",
    status = "HttpRouteStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteSpec {
    /// What it attaches to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parent_refs: Vec<ParentReference>,
    /// The hosts it is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<String>,
    /// What is done with a request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<HttpRouteRule>,
}

/// A Gateway, or one of its listeners, that a route attaches to.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ParentReference {
    /// API group; the schema's default is the Gateway API's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Kind; the schema's default is `Gateway`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its namespace; by default the route's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Name of one listener; all of them where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
}

impl ParentReference {
    /// The Gateway `name` in `namespace`: its listener `section`, or all of them.
    pub fn listener(
        namespace: impl Into<String>,
        name: impl Into<String>,
        section: Option<String>,
    ) -> Self {
        Self {
            group: Some(GROUP.to_owned()),
            kind: Some("Gateway".to_owned()),
            namespace: Some(namespace.into()),
            name: name.into(),
            section_name: section,
        }
    }
}

/// What is done with requests that match.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteRule {
    /// Which requests; the schema's default is [`HttpRouteMatch::everything`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<HttpRouteMatch>,
    /// What is changed about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<HttpRouteFilter>,
    /// Where they go; nowhere if a filter answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backend_refs: Vec<BackendRef>,
}

/// Which requests a rule is for.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct HttpRouteMatch {
    /// By path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<HttpPathMatch>,
}

impl HttpRouteMatch {
    /// Every request.
    pub fn everything() -> Self {
        Self {
            path: Some(HttpPathMatch {
                type_: Some("PathPrefix".to_owned()),
                value: Some("/".to_owned()),
            }),
        }
    }
}

/// Which paths.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpPathMatch {
    /// `PathPrefix`, `Exact` or `RegularExpression`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// The path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Changes or answers a request.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteFilter {
    /// Which of the fields is meant, such as `RequestRedirect`.
    #[serde(default, rename = "type")]
    pub type_: String,
    /// Where to send the client instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_redirect: Option<RequestRedirect>,
}

impl HttpRouteFilter {
    /// Sends the client to the same place over HTTPS, for good.
    pub fn redirect_to_https() -> Self {
        Self {
            type_: "RequestRedirect".to_owned(),
            request_redirect: Some(RequestRedirect {
                scheme: Some("https".to_owned()),
                status_code: Some(301),
            }),
        }
    }
}

/// Where to send a client.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct RequestRedirect {
    /// `http` or `https`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// 301 or 302.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i32>,
}

/// Where requests go.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendRef {
    /// API group; empty for the core group, which is the schema's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Kind; the schema's default is `Service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its name, in the route's namespace.
    pub name: String,
    /// Its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// Its share of the requests; the schema's default is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

impl BackendRef {
    /// Port `port` of the Service `name`, with every field that has a default.
    pub fn service(name: impl Into<String>, port: u16) -> Self {
        Self {
            group: Some(String::new()),
            kind: Some("Service".to_owned()),
            name: name.into(),
            port: Some(i32::from(port)),
            weight: Some(1),
        }
    }
}

/// Observed state of a route.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct HttpRouteStatus {
    /// What each Gateway says of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<RouteParentStatus>,
}

/// What a Gateway says of a route.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct RouteParentStatus {
    /// Which one.
    #[serde(default)]
    pub parent_ref: ParentReference,
    /// `Accepted`, `ResolvedRefs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
