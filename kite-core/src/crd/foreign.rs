//! CRDs of foreign kinds with schemas that keep every field.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
    CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
};
use kube::core::ObjectMeta;

/// Name, type and JSONPath of a printer column.
pub(crate) type Column = (&'static str, &'static str, &'static str);

/// A namespaced kind with a status subresource; whoever needs another scope sets it.
pub(crate) struct ForeignKind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) columns: &'static [Column],
}

impl ForeignKind {
    pub(crate) fn crd(&self) -> CustomResourceDefinition {
        CustomResourceDefinition {
            metadata: ObjectMeta {
                name: Some(format!("{}.{}", self.plural, self.group)),
                // What the API review of `*.k8s.io` groups asks for.
                annotations: self.group.ends_with(".k8s.io").then(|| {
                    let review = "unapproved, a stand-in";
                    [("api-approved.kubernetes.io".to_owned(), review.to_owned())].into()
                }),
                ..ObjectMeta::default()
            },
            spec: CustomResourceDefinitionSpec {
                group: self.group.to_owned(),
                names: CustomResourceDefinitionNames {
                    kind: self.kind.to_owned(),
                    plural: self.plural.to_owned(),
                    singular: Some(self.kind.to_lowercase()),
                    list_kind: Some(format!("{}List", self.kind)),
                    short_names: (!self.short_names.is_empty())
                        .then(|| self.short_names.iter().map(ToString::to_string).collect()),
                    categories: None,
                },
                scope: "Namespaced".to_owned(),
                versions: vec![self.version()],
                ..CustomResourceDefinitionSpec::default()
            },
            status: None,
        }
    }

    fn version(&self) -> CustomResourceDefinitionVersion {
        let open = || JSONSchemaProps {
            type_: Some("object".to_owned()),
            x_kubernetes_preserve_unknown_fields: Some(true),
            ..JSONSchemaProps::default()
        };
        CustomResourceDefinitionVersion {
            name: self.version.to_owned(),
            served: true,
            storage: true,
            subresources: Some(CustomResourceSubresources {
                status: Some(CustomResourceSubresourceStatus(serde_json::json!({}))),
                scale: None,
            }),
            additional_printer_columns: Some(
                self.columns
                    .iter()
                    .map(|&(name, type_, json_path)| CustomResourceColumnDefinition {
                        name: name.to_owned(),
                        type_: type_.to_owned(),
                        json_path: json_path.to_owned(),
                        ..CustomResourceColumnDefinition::default()
                    })
                    .collect(),
            ),
            schema: Some(CustomResourceValidation {
                open_api_v3_schema: Some(JSONSchemaProps {
                    type_: Some("object".to_owned()),
                    properties: Some(
                        [("spec".to_owned(), open()), ("status".to_owned(), open())].into(),
                    ),
                    ..JSONSchemaProps::default()
                }),
            }),
            ..CustomResourceDefinitionVersion::default()
        }
    }
}
