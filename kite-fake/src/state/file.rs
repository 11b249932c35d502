//! A state as a file, so that it outlives the process.
//!
//! The file is JSON: objects as they are stored, the revision, where the
//! sequence of identifiers stands, and the digests of the tokens. What is left
//! out is made again: the served kinds from the stored definitions, and the
//! history is forgotten, as after a compaction.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Snapshot;
use crate::auth::{Identity, Token, Tokens};
use crate::clock::Ids;
use crate::registry::Registry;
use crate::store::{GroupResource, Key, Object, Remains, Saved, Stored};

/// The edition of the format.
const FORMAT: u32 = 1;

/// Edition of a schema that no resource has: the object is pruned and defaulted
/// again when it is read.
const OUTDATED: u64 = u64::MAX;

/// What went wrong with a filed state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The text is no filed state.
    #[error("this is no saved cluster state: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// A later release wrote it.
    #[error("the state is of format {found}, and this release reads format {FORMAT}")]
    Format {
        /// The format that the file names.
        found: u32,
    },
    /// A part of the file contradicts itself.
    #[error("the saved state is damaged: {0}")]
    Damaged(String),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Filed {
    format: u32,
    revision: u64,
    taken: Timestamp,
    seed: u64,
    drawn: u64,
    tokens: Vec<FiledToken>,
    collections: Vec<FiledCollection>,
}

#[derive(Serialize, Deserialize)]
struct FiledToken {
    /// SHA-256 of the token, in hexadecimal digits.
    digest: String,
    user: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    audiences: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct FiledCollection {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    group: String,
    plural: String,
    objects: Vec<Value>,
    /// Which of the objects were written under an earlier schema.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outdated: Vec<usize>,
    /// `namespace/name` of what every new cluster has and was removed here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gone: Vec<String>,
}

impl FiledToken {
    fn new(digest: [u8; 32], token: &Token) -> Self {
        let digits = digest.iter().map(|byte| format!("{byte:02x}"));
        let identity = &token.identity;
        Self {
            digest: digits.collect(),
            user: identity.name.clone(),
            uid: identity.uid.clone(),
            groups: identity.groups.clone(),
            extra: identity.extra.clone(),
            until: token.until,
            audiences: token.audiences.clone(),
        }
    }

    fn enter(self, tokens: &mut Tokens) -> Result<(), FileError> {
        let damaged = || FileError::Damaged("a token's digest is not 64 hexadecimal digits".into());
        let mut digest = [0; 32];
        if self.digest.len() != 64 || !self.digest.is_ascii() {
            return Err(damaged());
        }
        for (byte, at) in digest.iter_mut().zip((0..).step_by(2)) {
            let digits = &self.digest[at..at + 2];
            *byte = u8::from_str_radix(digits, 16).map_err(|_| damaged())?;
        }
        let identity = Identity {
            name: self.user,
            uid: self.uid,
            groups: self.groups,
            extra: self.extra,
        };
        let token = Token {
            identity,
            until: self.until,
            audiences: self.audiences,
        };
        tokens.insert_digest(digest, token);
        Ok(())
    }
}

impl FiledCollection {
    fn new(snapshot: &Snapshot, resource: &GroupResource, objects: &BTreeMap<Key, Object>) -> Self {
        let epoch = snapshot.registry.storage(resource).map(|r| r.epoch);
        let outdated = objects.values().enumerate();
        Self {
            group: resource.group.clone(),
            plural: resource.plural.clone(),
            objects: objects.values().map(|o| o.to_value()).collect(),
            outdated: outdated
                .filter(|(_, object)| Some(object.epoch()) != epoch)
                .map(|(index, _)| index)
                .collect(),
            gone: snapshot
                .store
                .gone(resource)
                .map(|key| format!("{}/{}", key.namespace, key.name))
                .collect(),
        }
    }

    fn restore(self, registry: &Registry) -> Result<(GroupResource, Remains), FileError> {
        let resource = GroupResource::new(self.group, self.plural);
        let epoch = registry.storage(&resource).map_or(OUTDATED, |r| r.epoch);
        let mut objects = BTreeMap::new();
        for (index, value) in self.objects.into_iter().enumerate() {
            let metadata = &value["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            let key = Key::new(text("namespace"), text("name"));
            let revision = text("resourceVersion").parse();
            let (false, Ok(revision)) = (key.name.is_empty(), revision) else {
                let what = format!("object {index} of {}", resource.plural);
                let why = "has no name or no resourceVersion";
                return Err(FileError::Damaged(format!("{what} {why}")));
            };
            let epoch = if self.outdated.contains(&index) {
                OUTDATED
            } else {
                epoch
            };
            objects.insert(key, Stored::transient(value, revision, epoch));
        }
        let gone = self.gone.iter().map(|at| {
            let (namespace, name) = at.split_once('/').unwrap_or(("", at));
            Key::new(namespace, name)
        });
        Ok((resource, (objects, gone.collect())))
    }
}

impl Snapshot {
    /// The state as JSON text, to read with [`from_json`](Self::from_json).
    /// Secrets are in it as they are stored, of tokens only the digests.
    ///
    /// # Errors
    /// None is known: an object that is stored is JSON.
    pub fn to_json(&self) -> Result<Vec<u8>, FileError> {
        let tokens = self.tokens.digests().into_iter();
        let collections = self.store.collections();
        Ok(serde_json::to_vec(&Filed {
            format: FORMAT,
            revision: self.revision(),
            taken: self.taken,
            seed: self.ids.seed(),
            drawn: self.ids.drawn(),
            tokens: tokens
                // A cluster lets its own administrator in by a token of its own.
                .filter(|(_, token)| !token.identity.is_master() || token.until.is_some())
                .map(|(digest, token)| FiledToken::new(digest, token))
                .collect(),
            collections: collections
                .filter(|(resource, objects)| {
                    !objects.is_empty() || self.store.gone(resource).next().is_some()
                })
                .map(|(resource, objects)| FiledCollection::new(self, resource, objects))
                .collect(),
        })?)
    }

    /// The state that [`to_json`](Self::to_json) wrote, without its history.
    ///
    /// # Errors
    /// The text is no such state, or one of a later release.
    pub fn from_json(text: &[u8]) -> Result<Self, FileError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let Format { format } = serde_json::from_slice(text)?;
        if format != FORMAT {
            return Err(FileError::Format { found: format });
        }
        let filed: Filed = serde_json::from_slice(text)?;
        let mut tokens = Tokens::default();
        for token in filed.tokens {
            token.enter(&mut tokens)?;
        }
        let definitions = filed.collections.iter();
        let registry = Registry::with_definitions(
            definitions
                .filter(|c| {
                    c.group == "apiextensions.k8s.io" && c.plural == "customresourcedefinitions"
                })
                .flat_map(|c| &c.objects),
        );
        let mut collections = Vec::new();
        for collection in filed.collections {
            collections.push(collection.restore(&registry)?);
        }
        Ok(Self {
            store: Saved::of(filed.revision, collections),
            registry,
            ids: Ids::at(filed.seed, filed.drawn),
            tokens,
            taken: filed.taken,
        })
    }

    /// Writes the state to a file that only its owner reads. A reader finds the
    /// whole old file or the whole new one, never a part.
    ///
    /// ```
    /// use kite_fake::{FakeCluster, state::Snapshot};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("state.json");
    /// let cluster = FakeCluster::builder().build()?;
    /// cluster.snapshot().save(&path)?;
    ///
    /// let again = FakeCluster::builder().snapshot(Snapshot::load(&path)?).build()?;
    /// assert_eq!(again.dump(), cluster.dump());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), FileError> {
        let text = self.to_json()?;
        let mut draft = path.as_os_str().to_owned();
        draft.push(".new");
        let draft = PathBuf::from(draft);
        let written = || -> io::Result<()> {
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create(true).truncate(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(&draft)?;
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&draft, path)
        };
        written().map_err(|source| FileError::Io {
            path: path.to_owned(),
            source,
        })
    }

    /// Reads a state that [`save`](Self::save) wrote.
    ///
    /// # Errors
    /// The file cannot be read, or is no such state.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read(path).map_err(|source| FileError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::from_json(&text)
    }
}
