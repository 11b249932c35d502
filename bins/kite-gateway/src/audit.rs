//! Where audit records go, as options of the process.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use kite_gateway::AuditSink;
use kite_gateway::audit::{JsonLines, LogSink};

/// Where else than to the log records go.
#[derive(Args, Clone, Debug)]
pub struct AuditArgs {
    /// File that gets each audit record as one line of JSON, beside the log.
    #[arg(long, env = "KITE_AUDIT_TO", value_name = "FILE")]
    audit_to: Option<PathBuf>,
}

impl AuditArgs {
    /// All that take records.
    pub fn sinks(&self) -> anyhow::Result<Vec<Box<dyn AuditSink>>> {
        let mut sinks: Vec<Box<dyn AuditSink>> = vec![Box::new(LogSink)];
        if let Some(path) = &self.audit_to {
            // Commands are in it, and in commands there are secrets at times.
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(path)
                .with_context(|| format!("--audit-to {} cannot be written to", path.display()))?;
            let lines = JsonLines::new(file).context("no thread for --audit-to can be had")?;
            sinks.push(Box::new(lines));
        }
        Ok(sinks)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_file_is_one_more_and_what_is_none_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let sinks = |path: Option<PathBuf>| AuditArgs { audit_to: path }.sinks();
        assert_eq!(sinks(None).unwrap().len(), 1);
        let file = directory.path().join("audit.jsonl");
        assert_eq!(sinks(Some(file.clone())).unwrap().len(), 2);
        assert!(file.exists());
        let nowhere = directory.path().join("no/audit.jsonl");
        let error = sinks(Some(nowhere)).err().unwrap().to_string();
        assert!(
            error.contains("--audit-to") && error.contains("no/audit"),
            "{error}"
        );
    }
}
