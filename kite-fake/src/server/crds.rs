//! Stored `CustomResourceDefinition`s become served resources.

use std::sync::Arc;

use serde_json::Value;

use super::ApiServer;
use crate::clock::rfc3339;
use crate::fields::{self, Context, Manager, Operation, Reset, Versions};
use crate::registry::{
    Column, Origin, Registry, Resource, ResourceSchema, ScalePaths, Subresource, join_version,
};
use crate::schema::Schema;
use crate::schema::crd;
use crate::store::{GroupResource, Key, Object};

/// Verbs of custom resources, in the order of discovery.
const VERBS: &[&str] = &[
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

/// The resources that a CRD defines, one for each served version; versions
/// whose schema does not parse are left out.
pub fn resources(crd: &Value, epoch: u64) -> Vec<Resource> {
    let spec = &crd["spec"];
    let names = &spec["names"];
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let storage_version = versions
        .iter()
        .find(|v| v["storage"] == true)
        .map(|v| text(&v["name"]))
        .unwrap_or_default();
    let kind = text(&names["kind"]);
    let or = |value: &Value, other: String| {
        let given = text(value);
        if given.is_empty() { other } else { given }
    };
    let group = text(&spec["group"]);
    let schemas: Versions = versions
        .iter()
        .filter_map(|version| {
            let schema = Schema::for_custom_resource(&version["schema"]["openAPIV3Schema"]).ok()?;
            let name = join_version(&group, &text(&version["name"]));
            Some((name, Arc::new(schema)))
        })
        .collect();
    let schemas = Arc::new(schemas);
    let conversion = &spec["conversion"];
    let conversion =
        (conversion["strategy"] == "Webhook").then(|| Arc::new(conversion["webhook"].clone()));
    versions
        .iter()
        .filter(|v| v["served"] == true)
        .filter_map(|version| {
            let schema = schemas.schema(&join_version(&group, &text(&version["name"])))?;
            Some(Resource {
                group: group.clone(),
                version: text(&version["name"]),
                list_kind: or(&names["listKind"], format!("{kind}List")),
                plural: text(&names["plural"]),
                singular: or(&names["singular"], kind.to_lowercase()),
                kind: kind.clone(),
                short_names: texts(&names["shortNames"]),
                categories: texts(&names["categories"]),
                namespaced: spec["scope"] == "Namespaced",
                verbs: VERBS.to_vec(),
                subresources: subresources(&version["subresources"]),
                schema: ResourceSchema::Own(Arc::clone(schema)),
                versions: Some(Arc::clone(&schemas)),
                columns: columns(&version["additionalPrinterColumns"]),
                selectable_fields: version["selectableFields"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|f| text(&f["jsonPath"]).trim_start_matches('.').to_owned())
                    .collect(),
                storage_version: storage_version.clone(),
                origin: Origin::Custom,
                epoch,
                deprecation: deprecation(spec, version, &kind),
                definition: Some(Arc::new(version.clone())),
                terminating: !crd["metadata"]["deletionTimestamp"].is_null(),
                conversion: conversion.clone(),
            })
        })
        .collect()
}

fn deprecation(spec: &Value, version: &Value, kind: &str) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    let given = text(&version["deprecationWarning"]);
    Some(if given.is_empty() {
        format!(
            "{}/{} {kind} is deprecated",
            text(&spec["group"]),
            text(&version["name"])
        )
    } else {
        given
    })
}

fn subresources(value: &Value) -> Vec<Subresource> {
    let mut out = Vec::new();
    if value["status"].is_object() {
        out.push(Subresource::Status);
    }
    if value["scale"].is_object() {
        let scale = &value["scale"];
        out.push(Subresource::Scale(ScalePaths {
            spec_replicas: text(&scale["specReplicasPath"]),
            status_replicas: text(&scale["statusReplicasPath"]),
            label_selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
        }));
    }
    out
}

fn columns(value: &Value) -> Vec<Column> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| Column {
            name: text(&c["name"]),
            kind: text(&c["type"]),
            format: text(&c["format"]),
            description: text(&c["description"]),
            priority: c["priority"].as_i64().unwrap_or(0),
            json_path: text(&c["jsonPath"]),
        })
        .collect()
}

/// Whether the definition's names are its own, so that it is served.
fn is_established(crd: &Value) -> bool {
    crd["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|c| c["type"] == "Established" && c["status"] == "True")
}

impl Registry {
    /// The built-in resources, and those of stored definitions.
    pub fn with_definitions<'a>(crds: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut registry = Self::built_in();
        for crd in crds.into_iter().filter(|crd| is_established(crd)) {
            let epoch = registry.generation();
            for resource in resources(crd, epoch) {
                registry.insert(resource);
            }
        }
        registry
    }
}

impl ApiServer {
    /// What the controllers of the extensions API server do once a definition
    /// was written: accept its names and serve it.
    pub(crate) fn settle_crd(&mut self, resource: &Resource, object: &Object) {
        let collection = resource.collection();
        let crd = object.value();
        let others: Vec<Object> = self
            .store
            .range(&collection, None, None)
            .map(|(_, o)| o.clone())
            .collect();
        let now = rfc3339(self.now);
        let status = crd::accept(crd, others.iter().map(|o| o.value()), &now);
        if crd["status"] == status {
            self.publish_crd(crd, is_established(crd));
            return;
        }
        let new = self.write_definition_status(resource, crd, status);
        self.publish_crd(&new, is_established(&new));
        let group = text(&crd["spec"]["group"]);
        self.settle_waiting(resource, &group);
    }

    /// Stores a definition with another status, as the extensions API server does.
    pub(super) fn write_definition_status(
        &mut self,
        resource: &Resource,
        crd: &Value,
        status: Value,
    ) -> Value {
        let mut new = crd.clone();
        new["status"] = status;
        let manager = Manager {
            name: "kube-apiserver".into(),
            operation: Operation::Update,
            api_version: resource.api_version(),
            subresource: "status".into(),
        };
        let context = Context {
            schema: &resource.schema,
            versions: None,
            manager: &manager,
            reset: Reset::AllBut(&["status"]),
            empty: &Value::Null,
            now: self.now,
        };
        let new = fields::update(&context, Some(crd), new);
        let key = Key::new("", text(&crd["metadata"]["name"]));
        let collection = resource.collection();
        self.store
            .put(&collection, key, new.clone(), resource.epoch);
        new
    }

    /// Looks again at the definitions of a group that wait for names, because
    /// another definition may have let go of them.
    pub(crate) fn settle_waiting(&mut self, resource: &Resource, group: &str) {
        let waits = |crd: &Value| {
            let mut conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
            crd["spec"]["group"] == group
                && conditions.any(|c| c["type"] == "NamesAccepted" && c["status"] == "False")
        };
        let waiting: Vec<Object> = self
            .store
            .range(&resource.collection(), None, None)
            .map(|(_, object)| object.clone())
            .filter(|object| waits(object.value()))
            .collect();
        for object in waiting {
            self.settle_crd(resource, &object);
        }
    }

    /// Serves what a stored CRD defines, or stops serving it.
    pub(crate) fn publish_crd(&mut self, crd: &Value, present: bool) {
        let of = GroupResource::new(
            text(&crd["spec"]["group"]),
            text(&crd["spec"]["names"]["plural"]),
        );
        self.registry.remove(&of);
        if !present {
            // Watches find out and end.
            self.store.wake(&of);
            return;
        }
        let epoch = self.registry.generation();
        for resource in resources(crd, epoch) {
            self.registry.insert(resource);
        }
    }
}
