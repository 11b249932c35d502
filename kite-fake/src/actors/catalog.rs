//! The kinds that an API server has, by its discovery.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use parking_lot::RwLock;

use super::kind::Kind;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    kind: Kind,
    verbs: Vec<String>,
    status: bool,
    preferred: bool,
}

/// What discovery said last. Clones are handles to the same catalog.
#[derive(Clone, Debug, Default)]
pub struct Catalog(Arc<RwLock<Vec<Entry>>>);

impl Catalog {
    /// Asks the server again.
    ///
    /// # Errors
    /// When a part of discovery cannot be read; the catalog stays as it was.
    pub async fn refresh(&self, client: &Client) -> Result<(), kube::Error> {
        let mut entries = Vec::new();
        read(
            &client.list_core_api_resources("v1").await?,
            "",
            "v1",
            true,
            &mut entries,
        );
        for group in client.list_api_groups().await?.groups {
            let preferred = group.preferred_version.as_ref().map(|v| v.version.clone());
            for version in &group.versions {
                let list = client
                    .list_api_group_resources(&version.group_version)
                    .await?;
                let is_preferred = preferred.as_ref() == Some(&version.version);
                read(
                    &list,
                    &group.name,
                    &version.version,
                    is_preferred,
                    &mut entries,
                );
            }
        }
        // A kind that only another than the preferred version has is reached
        // through that one.
        for at in 0..entries.len() {
            let alone = !entries.iter().any(|e| {
                e.preferred
                    && e.kind.group == entries[at].kind.group
                    && e.kind.plural == entries[at].kind.plural
            });
            if alone {
                entries[at].preferred = true;
            }
        }
        *self.0.write() = entries;
        Ok(())
    }

    /// Takes over what `other` knows.
    pub(crate) fn set(&self, other: &Self) {
        let entries = other.0.read().clone();
        *self.0.write() = entries;
    }

    /// The same kinds in a catalog by itself.
    pub(crate) fn copy(&self) -> Self {
        Self(Arc::new(RwLock::new(self.0.read().clone())))
    }

    /// Every kind once, in its group's preferred version, that allows `verbs`.
    pub fn kinds(&self, verbs: &[&str]) -> Vec<Kind> {
        let can = |e: &Entry| verbs.iter().all(|verb| e.verbs.iter().any(|v| v == verb));
        let entries = self.0.read();
        let found = entries.iter().filter(|e| e.preferred && can(e));
        found.map(|e| e.kind.clone()).collect()
    }

    /// Whether the server has `kind`.
    pub fn has(&self, kind: &Kind) -> bool {
        self.0.read().iter().any(|e| e.kind == *kind)
    }

    /// The kind that an owner reference names.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<Kind> {
        let entries = self.0.read();
        let found = entries
            .iter()
            .find(|e| e.kind.kind == kind && e.kind.api_version() == api_version)?;
        Some(found.kind.clone())
    }

    /// Whether `kind` allows `verb`.
    pub fn allows(&self, kind: &Kind, verb: &str) -> bool {
        let entries = self.0.read();
        let entry = entries.iter().find(|e| e.kind == *kind);
        entry.is_some_and(|e| e.verbs.iter().any(|v| v == verb))
    }

    /// Whether the status of `kind` is a subresource.
    pub fn has_status(&self, kind: &Kind) -> bool {
        self.0.read().iter().any(|e| e.kind == *kind && e.status)
    }
}

fn read(
    list: &APIResourceList,
    group: &str,
    version: &str,
    preferred: bool,
    into: &mut Vec<Entry>,
) {
    let main = list.resources.iter().filter(|r| !r.name.contains('/'));
    into.extend(main.map(|resource| {
        Entry {
            kind: Kind {
                group: Cow::Owned(group.to_owned()),
                version: Cow::Owned(version.to_owned()),
                kind: Cow::Owned(resource.kind.clone()),
                plural: Cow::Owned(resource.name.clone()),
                namespaced: resource.namespaced,
            },
            verbs: resource.verbs.clone(),
            status: list
                .resources
                .iter()
                .any(|r| r.name.strip_suffix("/status") == Some(&resource.name)),
            preferred,
        }
    }));
}
