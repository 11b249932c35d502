//! Objects of whatever kind.

use std::fmt;

use kite_core::names;
use kite_render::install::Manifest;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
};
use serde::Serialize;

/// What an object is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ObjectName {
    /// Its kind.
    pub kind: String,
    /// Its namespace, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectName {
    /// That of the platform's settings.
    pub(super) fn platform() -> Self {
        Self {
            kind: "KitePlatform".to_owned(),
            namespace: None,
            name: names::PLATFORM.to_owned(),
        }
    }

    /// That of an object which is to be installed.
    pub fn of(manifest: &Manifest) -> Self {
        Self {
            kind: manifest.kind(),
            namespace: manifest.metadata().namespace.clone(),
            name: manifest.name().to_owned(),
        }
    }

    pub(crate) fn found(kind: &ApiResource, object: &DynamicObject) -> Self {
        Self {
            kind: kind.kind.clone(),
            namespace: object.metadata.namespace.clone(),
            name: object.metadata.name.clone().unwrap_or_default(),
        }
    }

    /// Where objects of this kind and namespace are.
    pub(crate) fn api(&self, client: &Client, kind: &ApiResource) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, kind),
            None => Api::all_with(client.clone(), kind),
        }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// Whether the API server says that there is no such thing.
pub(super) fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
