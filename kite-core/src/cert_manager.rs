//! What Kite looks at of cert-manager (`cert-manager.io/v1`): whether an issuer is there.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

use crate::crd::foreign::ForeignKind;

/// The API group.
pub const GROUP: &str = "cert-manager.io";

const ISSUER: ForeignKind = ForeignKind {
    group: GROUP,
    version: "v1",
    kind: "ClusterIssuer",
    plural: "clusterissuers",
    short_names: &[],
    columns: &[("Age", "date", ".metadata.creationTimestamp")],
};

/// CRDs of the kinds in this module, for an API server that has no cert-manager: their
/// fields are kept as they come and not judged.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut issuer = ISSUER.crd();
    "Cluster".clone_into(&mut issuer.spec.scope);
    vec![issuer]
}

/// Issues certificates in all namespaces. Kite reads its name and never writes one.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[kube(
    group = "cert-manager.io",
    version = "v1",
    kind = "ClusterIssuer",
    plural = "clusterissuers",
    schema = "disabled",
    derive = "PartialEq",
    derive = "Default"
)]
pub struct ClusterIssuerSpec {}
