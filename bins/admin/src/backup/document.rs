//! A backup as a file.

use jiff::Timestamp;
use kite_core::names;
use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::admit::admitted;
use crate::install::ObjectName;

/// What the file says it is.
const FORMAT: &str = "kite-backup";
/// The version of the format that is written and read.
const VERSION: u32 = 1;

/// An object as it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The uid that it had: others name it by that.
    pub former_uid: String,
    /// What is kept of it.
    pub object: DynamicObject,
}

/// All that is kept of an installation.
#[derive(Clone, Debug, PartialEq)]
pub struct Backup {
    /// Namespace in which Kite runs.
    pub namespace: String,
    /// Whether Secrets are in it.
    pub with_secrets: bool,
    /// The objects.
    pub entries: Vec<Entry>,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is no JSON, or not all of it.
    #[error("it is no backup of Kite, or not a whole one: {0}")]
    Broken(#[from] serde_json::Error),
    /// It is something else.
    #[error("it is no backup of Kite: its format is {0:?}, and not {FORMAT:?}")]
    Foreign(String),
    /// It is of another version.
    #[error(
        "it is of version {found} of the format, and this kite reads version {VERSION}: use kite \
         {by}, which wrote it"
    )]
    Version {
        /// The version of the file.
        found: u32,
        /// The kite that wrote it.
        by: String,
    },
    /// Somebody, or something, changed it.
    #[error(
        "its objects are not what was written, for the checksum does not fit: take another copy \
         of it"
    )]
    Changed,
    /// An object in it is of a kind that is not kept.
    #[error("it has a {0}, which is no object of a backup: take another copy of it")]
    Kind(String),
    /// An object in it is where none of its kind can be.
    #[error("it has {0}, and no object of this kind can be called that: take another copy of it")]
    Name(ObjectName),
    /// A Secret in it is none that is kept.
    #[error(
        "it has {0}, and no backup has a Secret of this name, namespace and type: somebody put it \
         in, so take another copy of it"
    )]
    Secret(ObjectName),
}

/// What stands before anything else is read.
#[derive(Deserialize)]
struct Header {
    format: String,
    version: u32,
    #[serde(default)]
    kite: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    format: String,
    version: u32,
    /// The kite that wrote it.
    kite: String,
    taken_at: Timestamp,
    /// For people.
    note: String,
    namespace: String,
    with_secrets: bool,
    /// SHA-256 of the text of `entries`: against accidents, and no signature.
    sha256: String,
    entries: Box<RawValue>,
}

impl Backup {
    /// As a file. `now` is when it was taken.
    ///
    /// # Errors
    /// None is known: an object that was read is JSON.
    pub fn to_text(&self, now: Timestamp) -> Result<String, serde_json::Error> {
        let entries = RawValue::from_string(serde_json::to_string_pretty(&self.entries)?)?;
        let file = File {
            format: FORMAT.to_owned(),
            version: VERSION,
            kite: env!("CARGO_PKG_VERSION").to_owned(),
            taken_at: now,
            note: "The disks of VMs are not in here. Keep this secret: it has hashes of \
                   passwords, and with Secrets also keys."
                .to_owned(),
            namespace: self.namespace.clone(),
            with_secrets: self.with_secrets,
            sha256: names::fingerprint(entries.get()),
            entries,
        };
        Ok(serde_json::to_string_pretty(&file)? + "\n")
    }

    /// Reads a file.
    ///
    /// # Errors
    /// A [`ReadError`] if it is no backup, one of another version, or was changed since it was
    /// taken.
    pub fn of_text(text: &str) -> Result<Self, ReadError> {
        let header: Header = serde_json::from_str(text)?;
        if header.format != FORMAT {
            return Err(ReadError::Foreign(header.format));
        }
        if header.version != VERSION {
            return Err(ReadError::Version {
                found: header.version,
                by: header.kite,
            });
        }
        let file: File = serde_json::from_str(text)?;
        if names::fingerprint(file.entries.get()) != file.sha256 {
            return Err(ReadError::Changed);
        }
        let entries: Vec<Entry> = serde_json::from_str(file.entries.get())?;
        Ok(Self {
            entries: admitted(&file.namespace, entries)?,
            namespace: file.namespace,
            with_secrets: file.with_secrets,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    fn backup() -> Backup {
        let object = json!({
            "apiVersion": "hy3ons.github.io/v1", "kind": "KiteUser",
            "metadata": {"name": "ann"}, "spec": {"username": "ann"},
        });
        Backup {
            namespace: "kite".to_owned(),
            with_secrets: false,
            entries: vec![Entry {
                former_uid: "1".to_owned(),
                object: serde_json::from_value(object).unwrap(),
            }],
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let text = backup().to_text(Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(Backup::of_text(&text).unwrap(), backup());
        let said = |text: &str| Backup::of_text(text).unwrap_err().to_string();
        assert!(said(&text.replace("\"ann\"", "\"eve\"")).contains("checksum"));
        assert!(said(&text[..text.len() - 20]).contains("not a whole one"));
        assert!(said("").contains("no backup of Kite"));
        let other = said(&text.replace("\"version\": 1", "\"version\": 2"));
        assert!(
            other.contains("version 2") && other.contains("use kite 0."),
            "{other}"
        );
        assert!(said(&text.replace(FORMAT, "tar")).contains("\"tar\""));
    }
}
