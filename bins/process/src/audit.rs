//! Where audit records go, as options of a process.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use kite_audit::{Lines, Process};

/// What stands for standard output.
const OUTPUT: &str = "-";

/// Where else than to the log records go.
#[derive(Args, Clone, Debug)]
pub struct AuditArgs {
    /// File that gets each audit record as one line of JSON, beside the log. Each line has
    /// the hash of the one before, which `kite audit verify` looks at. No other process may
    /// write to it. `-` is standard output, and the log has no records then.
    #[arg(long, env = "KITE_AUDIT_TO", value_name = "FILE")]
    audit_to: Option<PathBuf>,
}

impl AuditArgs {
    /// What writes the file of the process called `name`, if there is to be one.
    ///
    /// # Errors
    /// The file cannot be opened, or what is in it cannot be gone on with.
    pub fn lines(&self, name: &str) -> anyhow::Result<Option<Lines>> {
        let Some(path) = &self.audit_to else {
            return Ok(None);
        };
        let process = Process {
            name: name.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            server: crate::server_name(),
        };
        if path == Path::new(OUTPUT) {
            let lines = Lines::to(std::io::stdout(), &process).context("--audit-to")?;
            return Ok(Some(lines));
        }
        let lines = Lines::to_file(path, &process).context("--audit-to")?;
        Ok(Some(lines))
    }

    /// Whether the log has the records. What collects a container's log collects its
    /// standard output, too, and would have each of them twice.
    pub fn are_logged(&self) -> bool {
        self.audit_to.as_deref() != Some(Path::new(OUTPUT))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_file_is_made_and_what_is_none_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let lines = |path: Option<PathBuf>| AuditArgs { audit_to: path }.lines("kite-test");
        assert!(lines(None).unwrap().is_none());
        let file = directory.path().join("audit.jsonl");
        let logged = |path: Option<&Path>| {
            let audit_to = path.map(Path::to_owned);
            AuditArgs { audit_to }.are_logged()
        };
        assert!(logged(None) && logged(Some(&file)));
        assert!(!logged(Some(Path::new("-"))));
        assert!(lines(Some(file.clone())).unwrap().is_some());
        assert!(file.exists());
        let nowhere = directory.path().join("no/audit.jsonl");
        let error = format!("{:#}", lines(Some(nowhere)).err().unwrap());
        assert!(
            error.contains("--audit-to") && error.contains("no/audit"),
            "{error}"
        );
    }
}
