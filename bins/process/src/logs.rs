//! Logs on standard error, as text or JSON.

use clap::{Args, ValueEnum};
use tracing_subscriber::{EnvFilter, fmt};

/// How a process logs.
#[derive(Args, Clone, Debug)]
pub struct LogArgs {
    /// Format of the logs on standard error.
    #[arg(long, env = "KITE_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
    /// What is logged, such as `info` or `info,kite_gateway=debug`.
    #[arg(long, env = "KITE_LOG", value_name = "FILTER")]
    pub log: Option<String>,
}

/// Format of logs.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl LogArgs {
    /// Starts logging; `default` is what is logged unless told otherwise. Call
    /// it once, first.
    ///
    /// # Errors
    /// The filter cannot be read.
    pub fn init(&self, default: &str) -> anyhow::Result<()> {
        let filter = self.log.as_deref().unwrap_or(default);
        let filter = EnvFilter::try_new(filter).map_err(|error| {
            anyhow::anyhow!(
                "--log {filter:?} is no filter: {error}; write info or info,kite_gateway=debug"
            )
        })?;
        let logs = fmt().with_env_filter(filter).with_writer(std::io::stderr);
        match self.log_format {
            LogFormat::Text => logs
                .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
                .init(),
            LogFormat::Json => logs.json().flatten_event(true).init(),
        }
        Ok(())
    }
}
