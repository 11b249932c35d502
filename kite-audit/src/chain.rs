//! What ties a line to the one before.

use std::{
    fmt::{self, Write as _},
    str::FromStr,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// The event of a stream's first line.
pub(crate) const BEGINS: &str = "audit_begins";
/// The event of a stream's last line, where the process ended in order.
pub(crate) const ENDS: &str = "audit_ends";
/// The event of a line that says how many records could not be written.
pub(crate) const LOST: &str = "audit_lost";

/// The SHA-256 of a line without its end, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hash(String);

impl Hash {
    /// That of a line.
    pub fn of(line: &[u8]) -> Self {
        let mut digits = String::new();
        for byte in Sha256::digest(line) {
            // A text takes all.
            let _ = write!(digits, "{byte:02x}");
        }
        Self(digits)
    }

    /// What stands where no line was before.
    pub(crate) fn none() -> Self {
        Self("0".repeat(64))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Hash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_hash = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hash {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err("a hash has 64 hexadecimal digits".to_owned())
        }
    }
}

/// Who writes.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its name, such as `kite-api`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The pod or host in which it runs, as far as known.
    pub server: Option<String>,
}

/// Where a line stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    pub(crate) stream: String,
    pub(crate) n: u64,
    pub(crate) after: Hash,
}

/// Gives lines their links.
pub(crate) struct Chain {
    next: Link,
}

impl Chain {
    /// That of a new stream, whose first line comes after the one with the hash `last`.
    pub(crate) fn new(last: Option<Hash>) -> Self {
        Self {
            next: Link {
                stream: format!("{:016x}", rand::random::<u64>()),
                n: 0,
                after: last.unwrap_or_else(Hash::none),
            },
        }
    }

    /// The line of a record, which is a JSON object.
    pub(crate) fn line(&self, record: &str) -> Option<String> {
        let link = serde_json::to_string(&self.next).ok()?;
        let fields = record.trim_end().strip_suffix('}')?;
        let comma = if fields.trim_end().ends_with('{') {
            ""
        } else {
            ","
        };
        Some(format!("{fields}{comma}\"chain\":{link}}}"))
    }

    /// The line was written: the next one comes after it.
    pub(crate) fn advance(&mut self, line: &str) {
        self.next.n += 1;
        self.next.after = Hash::of(line.as_bytes());
    }
}

/// The first record of a process's stream.
pub(crate) fn begins(process: &Process) -> String {
    json!({
        "time": Timestamp::now(),
        "event": BEGINS,
        "process": process.name,
        "version": process.version,
        "server": process.server,
    })
    .to_string()
}

/// The last one.
pub(crate) fn ends() -> String {
    json!({ "time": Timestamp::now(), "event": ENDS }).to_string()
}

/// What says how many are not there.
pub(crate) fn lost(count: u64) -> String {
    json!({ "time": Timestamp::now(), "event": LOST, "records": count }).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::Value;

    use super::*;

    #[test]
    fn a_line_keeps_its_fields_and_names_the_one_before() {
        let mut chain = Chain::new(None);
        for (n, record) in ["{}", r#"{"a":1}"#, r#"{"a":"}"}"#].into_iter().enumerate() {
            let after = chain.next.after.clone();
            let line = chain.line(record).unwrap();
            let mut read: Value = serde_json::from_str(&line).unwrap();
            let tie: Link =
                serde_json::from_value(read.as_object_mut().unwrap().remove("chain").unwrap())
                    .unwrap();
            assert_eq!((tie.n, tie.after), (u64::try_from(n).unwrap(), after));
            assert_eq!(read, serde_json::from_str::<Value>(record).unwrap());
            chain.advance(&line);
            assert_eq!(chain.next.after, Hash::of(line.as_bytes()));
        }
        assert_eq!(chain.line("7"), None);
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Hash::of(b""), empty.parse().unwrap());
    }
}
