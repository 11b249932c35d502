//! Audit records as lines of JSON, each with the hash of the one before, so that it shows
//! when lines are changed, moved or taken out.
//!
//! [`Lines`] writes them. A process that begins to write begins a *stream*: its first line
//! names the process, and the hash of the line that was last in the file. Every line says
//! of which stream it is, its number there, and the SHA-256 of the line before:
//!
//! ```json
//! {"time":"2026-01-01T00:00:00Z","event":"login","chain":{"stream":"6f…","n":7,"after":"ab…"}}
//! ```
//!
//! [`Verifier`] reads files of them, and [`Collected`] logs in which they stand among other
//! lines, such as those of containers that write them to standard output. Who can write a
//! file can also write all of it anew, and the end of the last stream can be cut off without
//! a trace: so keep the last hash, which both tell, somewhere else, and ask later whether it
//! is still there.
//!
//! ```
//! use std::{fs, io::BufReader};
//!
//! use kite_audit::{Lines, Process, Verifier};
//!
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("audit.jsonl");
//! let process = Process {
//!     name: "door".to_owned(),
//!     version: "1.0".to_owned(),
//!     server: None,
//! };
//! let lines = Lines::to_file(&path, &process)?;
//! lines.record(&serde_json::json!({ "event": "login", "user": "ann" }));
//! drop(lines);
//!
//! let mut verifier = Verifier::default();
//! verifier.file("audit.jsonl", BufReader::new(fs::File::open(&path)?))?;
//! let verdict = verifier.finish();
//! assert!(verdict.faults.is_empty());
//! // The beginning, the record, and the end.
//! assert_eq!(verdict.records, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Feature flags
//!
//! There are no features.

mod chain;
mod collected;
mod file;
mod lines;
mod verify;

pub use self::{
    chain::{Hash, Process},
    collected::Collected,
    lines::{Lines, OpenError},
    verify::{Remark, Verdict, Verifier},
};
