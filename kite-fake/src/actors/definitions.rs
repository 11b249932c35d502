//! Definitions of custom resources that actors play, for an API server that lacks
//! them: every field is kept as it comes and none is judged.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
    CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
};
use kube::core::ObjectMeta;

use super::kind::{
    CERTIFICATE, CLUSTER_ISSUER, GATEWAY, GATEWAY_CLASS, HTTP_ROUTE, Kind, VOLUME_SNAPSHOT,
    VOLUME_SNAPSHOT_CLASS, VOLUME_SNAPSHOT_CONTENT,
};

/// Name, type and path of a printer column.
pub type Column = (&'static str, &'static str, &'static str);

/// How old the object is.
pub const AGE: Column = ("Age", "date", ".metadata.creationTimestamp");
/// Its `status.phase`.
pub const PHASE: Column = ("Phase", "string", ".status.phase");
/// Its condition `Ready`.
pub const READY: Column = (
    "Ready",
    "string",
    ".status.conditions[?(@.type=='Ready')].status",
);

/// A kind with its short names and columns.
///
/// ```
/// use kite_fake::FakeCluster;
/// use kite_fake::actors::Kind;
/// use kite_fake::actors::definitions::{AGE, Definition};
///
/// const KETTLE: Kind = Kind::namespaced("example.com", "v1", "Kettle", "kettles");
/// const KETTLES: Definition = Definition(&KETTLE, &["ktl"], &[AGE]);
/// let cluster = FakeCluster::builder().crds([KETTLES.crd()]).build()?;
/// assert!(cluster.server().registry().get("example.com", "v1", "kettles").is_some());
/// # Ok::<(), kite_fake::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Definition(
    /// The kind.
    pub &'static Kind,
    /// Short names, as `kubectl` takes them.
    pub &'static [&'static str],
    /// Columns, as `kubectl get` prints them.
    pub &'static [Column],
);

impl Definition {
    /// The definition as the API server takes it.
    pub fn crd(&self) -> CustomResourceDefinition {
        definition(self)
    }
}

const SNAPSHOTS: &[Definition] = &[
    Definition(
        &VOLUME_SNAPSHOT,
        &["vs"],
        &[("ReadyToUse", "boolean", ".status.readyToUse"), AGE],
    ),
    Definition(&VOLUME_SNAPSHOT_CLASS, &["vsclass"], &[AGE]),
    Definition(&VOLUME_SNAPSHOT_CONTENT, &["vsc"], &[AGE]),
];

const ROUTES: &[Definition] = &[
    Definition(&CERTIFICATE, &["cert", "certs"], &[READY, AGE]),
    Definition(&CLUSTER_ISSUER, &["ciss"], &[READY, AGE]),
    Definition(&GATEWAY_CLASS, &["gc"], &[AGE]),
    Definition(
        &GATEWAY,
        &["gtw"],
        &[("Class", "string", ".spec.gatewayClassName"), AGE],
    ),
    Definition(&HTTP_ROUTE, &[], &[AGE]),
];

fn all(definitions: &[Definition]) -> Vec<CustomResourceDefinition> {
    definitions.iter().map(Definition::crd).collect()
}

/// The kinds of the CSI external-snapshotter.
pub fn snapshot_definitions() -> Vec<CustomResourceDefinition> {
    all(SNAPSHOTS)
}

/// cert-manager's `Certificate` and `ClusterIssuer`, and the kinds of the Gateway API that are played.
pub fn route_definitions() -> Vec<CustomResourceDefinition> {
    all(ROUTES)
}

fn definition(Definition(kind, short_names, columns): &Definition) -> CustomResourceDefinition {
    let scope = if kind.namespaced {
        "Namespaced"
    } else {
        "Cluster"
    };
    let short_names: Vec<String> = short_names.iter().map(ToString::to_string).collect();
    CustomResourceDefinition {
        metadata: ObjectMeta {
            name: Some(format!("{}.{}", kind.plural, kind.group)),
            // What the API review of `*.k8s.io` groups asks for.
            annotations: kind.group.ends_with(".k8s.io").then(|| {
                let review = "unapproved, played by an actor";
                [("api-approved.kubernetes.io".to_owned(), review.to_owned())].into()
            }),
            ..ObjectMeta::default()
        },
        spec: CustomResourceDefinitionSpec {
            group: kind.group.to_string(),
            names: CustomResourceDefinitionNames {
                kind: kind.kind.to_string(),
                plural: kind.plural.to_string(),
                singular: Some(kind.kind.to_lowercase()),
                list_kind: Some(format!("{}List", kind.kind)),
                short_names: (!short_names.is_empty()).then_some(short_names),
                categories: None,
            },
            scope: scope.to_owned(),
            versions: vec![version(kind, columns)],
            ..CustomResourceDefinitionSpec::default()
        },
        status: None,
    }
}

fn version(kind: &Kind, columns: &[Column]) -> CustomResourceDefinitionVersion {
    let open = JSONSchemaProps {
        type_: Some("object".to_owned()),
        x_kubernetes_preserve_unknown_fields: Some(true),
        ..JSONSchemaProps::default()
    };
    let columns = columns
        .iter()
        .map(|&(name, type_, json_path)| CustomResourceColumnDefinition {
            name: name.to_owned(),
            type_: type_.to_owned(),
            json_path: json_path.to_owned(),
            ..CustomResourceColumnDefinition::default()
        });
    CustomResourceDefinitionVersion {
        name: kind.version.to_string(),
        served: true,
        storage: true,
        subresources: Some(CustomResourceSubresources {
            status: Some(CustomResourceSubresourceStatus(serde_json::json!({}))),
            scale: None,
        }),
        additional_printer_columns: Some(columns.collect()),
        schema: Some(CustomResourceValidation {
            open_api_v3_schema: Some(open),
        }),
        ..CustomResourceDefinitionVersion::default()
    }
}
