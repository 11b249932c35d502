//! What an installation was made with, kept beside it for the next version.

use std::collections::BTreeMap;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kite_render::install::{Manifest, PART_OF, Process};
use kube::{Api, Client, api::ObjectMeta};

use super::{Error, ObjectName, object::is_absent};

/// The `ConfigMap` in Kite's namespace that it is kept in.
const NAME: &str = "kite-installation";
/// Its entry for the version.
const VERSION: &str = "version";
/// Its entry for the options.
const OPTIONS: &str = "options";

/// What an installation was made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The version that made it.
    pub version: String,
    /// The options that were named, each as an argument such as `--profile=k3s`.
    pub options: Vec<String>,
}

impl Memory {
    /// The object that keeps it. It belongs to the installation, and goes with it.
    ///
    /// # Errors
    /// None is known: options are JSON.
    pub fn manifest(&self, namespace: &str) -> Result<Manifest, Error> {
        let (key, value) = PART_OF;
        // Options may have line breaks in them. One a line, for whoever looks at it.
        let options = serde_json::to_string_pretty(&self.options)?;
        Ok(Manifest::from(ConfigMap {
            metadata: ObjectMeta {
                labels: Some(BTreeMap::from([(key.to_owned(), value.to_owned())])),
                ..metadata(namespace)
            },
            data: Some(BTreeMap::from([
                (VERSION.to_owned(), self.version.clone()),
                (OPTIONS.to_owned(), options),
            ])),
            ..ConfigMap::default()
        }))
    }
}

fn metadata(namespace: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(NAME.to_owned()),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    }
}

/// Whether Kite's controller is installed in `namespace`, by whatever means.
///
/// # Errors
/// An [`Error`] if the API server refuses to say.
pub async fn is_installed(client: &Client, namespace: &str) -> Result<bool, Error> {
    let deployments = Api::<Deployment>::namespaced(client.clone(), namespace);
    let name = Process::Controller.name();
    match deployments.get_opt(name).await {
        Ok(found) => Ok(found.is_some()),
        Err(error) => {
            let object = ObjectName {
                kind: "Deployment".to_owned(),
                namespace: Some(namespace.to_owned()),
                name: name.to_owned(),
            };
            Err(Error::of(&object, error))
        }
    }
}

/// What the installation in `namespace` was made with; nothing where there is none, or
/// where something else than [`super::apply`] made it.
///
/// # Errors
/// An [`Error`] if the API server refuses to say, or what is there was not written by
/// [`super::apply`].
pub async fn recall(client: &Client, namespace: &str) -> Result<Option<Memory>, Error> {
    let object = || {
        ObjectName::of(&Manifest::from(ConfigMap {
            metadata: metadata(namespace),
            ..ConfigMap::default()
        }))
    };
    let kept = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let kept = match kept.get_opt(NAME).await {
        Ok(None) => return Ok(None),
        Ok(Some(kept)) => kept.data.unwrap_or_default(),
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(Error::of(&object(), error)),
    };
    let unreadable = |what: String| Error::Memory {
        object: Box::new(object()),
        what,
    };
    let of = |entry: &str| {
        let found = kept.get(entry);
        found.ok_or_else(|| unreadable(format!("has no entry {entry:?}")))
    };
    let options = of(OPTIONS)?;
    Ok(Some(Memory {
        version: of(VERSION)?.clone(),
        options: serde_json::from_str(options).map_err(|error| {
            unreadable(format!(
                "has an entry {OPTIONS:?} that is no JSON array of texts ({error})"
            ))
        })?,
    }))
}
