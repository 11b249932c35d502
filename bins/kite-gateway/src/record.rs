//! Where terminal sessions are recorded, as options of the process.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kite_gateway::Recordings;
use url::Url;

/// What is recorded.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// What terminals print.
    Terminals,
    /// What shells and commands without a terminal print, too; not what sftp carries.
    All,
}

/// Whether sessions are recorded, and where to.
#[derive(Args, Clone, Debug)]
pub struct RecordArgs {
    /// Records what terminals print, as asciicast v2, into this directory, which no
    /// other gateway may have. Users are told; who cannot be recorded starts nothing.
    #[arg(long, env = "KITE_RECORD_TO", value_name = "DIRECTORY")]
    record_to: Option<PathBuf>,
    /// Carries recordings on from the directory to an object store, such as the prefix
    /// `s3://bucket/recordings`; credentials are taken from the environment as by the
    /// provider's tools. Which stores it knows is a matter of the build's features.
    #[arg(
        long,
        env = "KITE_RECORD_UPLOAD",
        value_name = "URL",
        requires = "record_to"
    )]
    record_upload: Option<Url>,
    /// What is recorded: what terminals print, or what shells and commands without a
    /// terminal print as well, such as `ssh vm command` and `scp -O`. What the subsystem
    /// sftp and forwards carry is not recorded; the audit log has them.
    #[arg(
        long,
        env = "KITE_RECORD",
        value_enum,
        default_value_t = What::Terminals,
        value_name = "WHAT",
        requires = "record_to"
    )]
    record: What,
}

impl RecordArgs {
    /// Where recordings go; none if nothing is recorded.
    pub fn recordings(&self) -> anyhow::Result<Option<Recordings>> {
        let Some(directory) = &self.record_to else {
            return Ok(None);
        };
        let recordings = Recordings::open(directory, self.record_upload.as_ref());
        let recordings = recordings.map_err(|error| {
            let option = error.which("--record-to", "--record-upload");
            anyhow::anyhow!("{option} {error}")
        })?;
        Ok(Some(recordings.everything(self.record == What::All)))
    }
}
