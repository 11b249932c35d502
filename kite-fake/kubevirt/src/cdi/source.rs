//! Where a `DataVolume`'s contents come from.

use kite_fake::actors::ActorError;
use kite_fake::actors::kind::{CLAIM, Key, POD, VOLUME_SNAPSHOT};
use kite_fake::actors::objects::{Objects, text};
use kite_fake::actors::storage::{claim_size, claims_of, is_bound};
use kube::api::DynamicObject;
use serde_json::Value;

use super::status::Family;
use crate::kinds::{DATA_SOURCE, DATA_VOLUME};

/// A source as the spec names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// An image behind a URL, a container disk, or a bucket.
    Import,
    /// Nothing.
    Blank,
    /// Whatever a client uploads.
    Upload,
    /// Another claim.
    Claim {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A snapshot of a claim.
    Snapshot {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl Source {
    /// Reads one of the sources of a `DataVolume` or a `DataSource`; objects
    /// named without a namespace are in `namespace`.
    pub(super) fn read(source: &Value, namespace: &str) -> Option<Self> {
        let members = source.as_object()?;
        let (kind, body) = members.iter().find(|(_, body)| !body.is_null())?;
        let word = |field: &str| body[field].as_str().map(str::to_owned);
        Some(match kind.as_str() {
            "blank" => Self::Blank,
            "upload" => Self::Upload,
            "snapshot" => Self::Snapshot {
                namespace: word("namespace").unwrap_or_else(|| namespace.to_owned()),
                name: word("name")?,
            },
            "pvc" => Self::Claim {
                namespace: word("namespace").unwrap_or_else(|| namespace.to_owned()),
                name: word("name")?,
            },
            _ => Self::Import,
        })
    }

    /// The object that it is, where it is one.
    pub(super) fn key(&self) -> Option<Key> {
        match self {
            Self::Claim { namespace, name } => Some(Key::new(&CLAIM, Some(namespace), name)),
            Self::Snapshot { namespace, name } => {
                Some(Key::new(&VOLUME_SNAPSHOT, Some(namespace), name))
            }
            _ => None,
        }
    }

    /// The names of the phases that filling from it has.
    pub(super) fn family(&self) -> Family {
        match self {
            Self::Import | Self::Blank => Family::Import,
            Self::Claim { .. } => Family::Clone,
            Self::Snapshot { .. } => Family::Snapshot,
            Self::Upload => Family::Upload,
        }
    }
}

/// Whether a source can be used now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// It can.
    Ready {
        /// The source.
        source: Source,
        /// The size of the claim that is cloned.
        size: Option<String>,
    },
    /// It is not there.
    Missing {
        /// One word.
        reason: &'static str,
        /// A sentence.
        message: String,
    },
    /// It is being filled itself.
    Filling {
        /// A sentence.
        message: String,
    },
    /// A Pod uses it.
    InUse {
        /// A sentence.
        message: String,
    },
}

/// Resolves the source of `volume` through a `DataSource` where it names one.
pub(super) async fn resolve(
    objects: Objects<'_>,
    volume: &DynamicObject,
) -> Result<Readiness, ActorError> {
    let namespace = volume.metadata.namespace.as_deref().unwrap_or_default();
    let spec = &volume.data["spec"];
    let source = if spec["sourceRef"].is_object() {
        let reference = &spec["sourceRef"];
        let within = reference["namespace"].as_str().unwrap_or(namespace);
        let name = reference["name"].as_str().unwrap_or_default();
        let found = objects.find(&DATA_SOURCE, Some(within), name).await?;
        let Some(found) = found else {
            return Ok(Readiness::Missing {
                reason: "DataSourceNotFound",
                message: format!("DataSource {within}/{name} not found"),
            });
        };
        Source::read(&found.data["spec"]["source"], within)
    } else {
        Source::read(&spec["source"], namespace)
    };
    let Some(source) = source else {
        return Ok(Readiness::Missing {
            reason: "NoSource",
            message: "the DataVolume names no source".to_owned(),
        });
    };
    match &source {
        Source::Claim { namespace, name } => {
            if let Some(message) = user(objects, namespace, name).await? {
                return Ok(Readiness::InUse { message });
            }
            let key = Key::new(&CLAIM, Some(namespace), name);
            if objects
                .get(&key)
                .await?
                .is_some_and(|claim| !is_bound(&claim))
            {
                let message = format!("The source PVC {namespace}/{name} is not bound");
                return Ok(Readiness::Filling { message });
            }
            claim_readiness(objects, namespace, name).await
        }
        Source::Snapshot { namespace, name } => {
            let found = snapshot_readiness(objects, namespace, name).await?;
            let sizeless = matches!(found, Readiness::Ready { size: None, .. });
            Ok(if sizeless {
                let message = "snapshot has no restore size".to_owned();
                Readiness::Filling { message }
            } else {
                found
            })
        }
        _ => Ok(Readiness::Ready { source, size: None }),
    }
}

/// Which Pod uses a claim, so that it cannot be cloned now.
async fn user(
    objects: Objects<'_>,
    namespace: &str,
    name: &str,
) -> Result<Option<String>, ActorError> {
    let pods = objects.list(&POD, Some(namespace), "").await?;
    let user = pods.iter().find(|pod| {
        !["Succeeded", "Failed"].contains(&text(pod, "/status/phase"))
            && claims_of(pod).any(|claim| claim == name)
    });
    Ok(user.map(|pod| {
        let pod = pod.metadata.name.as_deref().unwrap_or_default();
        format!("pod {namespace}/{pod} using PersistentVolumeClaim {name}")
    }))
}

/// Whether a snapshot of a claim is there and can be used.
pub(super) async fn snapshot_readiness(
    objects: Objects<'_>,
    namespace: &str,
    name: &str,
) -> Result<Readiness, ActorError> {
    let key = Key::new(&VOLUME_SNAPSHOT, Some(namespace), name);
    let Some(snapshot) = objects.get(&key).await? else {
        return Ok(Readiness::Missing {
            reason: "CloneWithoutSource",
            message: format!("The source snapshot {namespace}/{name} doesn't exist"),
        });
    };
    if snapshot.data["status"]["readyToUse"] != true {
        return Ok(Readiness::Filling {
            message: format!("The source snapshot {namespace}/{name} is not ready to use"),
        });
    }
    let size = text(&snapshot, "/status/restoreSize");
    Ok(Readiness::Ready {
        source: Source::Snapshot {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        },
        size: (!size.is_empty()).then(|| size.to_owned()),
    })
}

/// Whether a claim is there and filled.
pub(super) async fn claim_readiness(
    objects: Objects<'_>,
    namespace: &str,
    name: &str,
) -> Result<Readiness, ActorError> {
    let key = Key::new(&CLAIM, Some(namespace), name);
    let Some(claim) = objects.get(&key).await? else {
        return Ok(Readiness::Missing {
            reason: "CloneWithoutSource",
            message: format!("The source PVC {namespace}/{name} doesn't exist"),
        });
    };
    let filled_by = objects.find(&DATA_VOLUME, Some(namespace), name).await?;
    let filled = filled_by.is_none_or(|volume| text(&volume, "/status/phase") == "Succeeded");
    if !filled {
        return Ok(Readiness::Filling {
            message: format!("The source PVC {namespace}/{name} is being populated"),
        });
    }
    Ok(Readiness::Ready {
        source: Source::Claim {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        },
        size: Some(claim_size(&claim).to_owned()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use serde_json::json;

    #[test]
    fn a_source_is_read_by_its_member() {
        let read = |v: Value| Source::read(&v, "here").unwrap();
        assert_eq!(read(json!({"http": {"url": "x"}})), Source::Import);
        assert_eq!(read(json!({"blank": {}})), Source::Blank);
        let claim = |namespace: &str| Source::Claim {
            namespace: namespace.to_owned(),
            name: "p".to_owned(),
        };
        assert_eq!(read(json!({"pvc": {"name": "p"}})), claim("here"));
        let there = json!({"http": null, "pvc": {"name": "p", "namespace": "there"}});
        assert_eq!(read(there), claim("there"));
        assert_eq!(Source::read(&json!({}), "here"), None);
    }
}
