//! Consoles in the browser, as options of the process.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use clap::Args;
use kite_api::{ApiStateBuilder, console::ConsoleLimits};
use kite_audit::Lines;
use kite_consoles::{GatewayAudit, GatewayTerminals, StoredRecordings};
use kite_gateway::{
    AuditSink, Config, Recordings, TcpConnector,
    audit::LogSink,
    kubernetes::{Reporter, RouteTable, watch_routes},
    terminal::Terminals,
};
use kube::Client;
use tokio_util::sync::CancellationToken;
use url::Url;

/// What consoles may do, and where their records go.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConsoleArgs {
    /// Offers terminals inside VMs, as by ssh. This process then reads the keys of
    /// all VMs, and its pods must be let in to port 22 of them.
    #[arg(long, env = "KITE_TERMINALS")]
    terminals: bool,
    /// Records what these terminals print, as asciicast v2, into this directory,
    /// which no other process may have.
    #[arg(
        long,
        env = "KITE_RECORD_TO",
        value_name = "DIRECTORY",
        requires = "terminals"
    )]
    record_to: Option<PathBuf>,
    /// Carries these recordings on from the directory to an object store, where
    /// --recordings-from finds them, such as `s3://bucket/recordings`.
    #[arg(
        long,
        env = "KITE_RECORD_UPLOAD",
        value_name = "URL",
        requires = "record_to"
    )]
    record_upload: Option<Url>,
    /// Opens nothing in the browser that is not recorded: no serial lines and screens,
    /// and terminals only with --record-to.
    #[arg(long, env = "KITE_ONLY_RECORDED_CONSOLES")]
    only_recorded_consoles: bool,
    /// Where recordings of terminals are read from, for administrators to replay them
    /// in the browser: what the gateways' --record-to or --record-upload is, such as
    /// `file:///var/lib/kite/recordings` or `s3://bucket/recordings`. Which stores it
    /// knows is a matter of the build's features.
    #[arg(long, env = "KITE_RECORDINGS_FROM", value_name = "URL")]
    recordings_from: Option<Url>,
    /// Consoles that one account may have open.
    #[arg(
        long,
        env = "KITE_CONSOLES_PER_USER",
        value_name = "COUNT",
        default_value_t = 8
    )]
    consoles_per_user: usize,
    /// Consoles that one VM may have open.
    #[arg(
        long,
        env = "KITE_CONSOLES_PER_VM",
        value_name = "COUNT",
        default_value_t = 8
    )]
    consoles_per_vm: usize,
    /// Consoles that this process may have open.
    #[arg(
        long,
        env = "KITE_CONSOLES",
        value_name = "COUNT",
        default_value_t = 512
    )]
    consoles: usize,
    /// Ends a console over which nothing goes for so long.
    #[arg(
        long,
        env = "KITE_CONSOLE_IDLE_SECONDS",
        value_name = "SECONDS",
        default_value_t = 1800
    )]
    console_idle_seconds: u64,
    /// Ends a console that is open for so long.
    #[arg(
        long,
        env = "KITE_CONSOLE_LONGEST_SECONDS",
        value_name = "SECONDS",
        default_value_t = 43200
    )]
    console_longest_seconds: u64,
}

impl ConsoleArgs {
    /// Sets up consoles as the options say; what is recorded has to be
    /// [kept](Recordings::keep).
    pub(crate) fn set_up(
        &self,
        builder: ApiStateBuilder,
        client: &Client,
        reporter: &Reporter,
        sinks: Vec<Box<dyn AuditSink>>,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<(ApiStateBuilder, Option<Recordings>)> {
        let builder = builder
            .consoles(ConsoleLimits {
                per_user: self.consoles_per_user,
                per_vm: self.consoles_per_vm,
                total: self.consoles,
                idle: Duration::from_secs(self.console_idle_seconds),
                longest: Duration::from_secs(self.console_longest_seconds),
                only_recorded: self.only_recorded_consoles,
                ..ConsoleLimits::default()
            })
            .instance(reporter.instance().clone())
            .console_audit(GatewayAudit(sinks));
        let builder = match &self.recordings_from {
            Some(url) => builder.recordings(
                StoredRecordings::at(url)
                    .with_context(|| format!("--recordings-from {url} cannot be used"))?,
            ),
            None => builder,
        };
        if !self.terminals {
            return Ok((builder, None));
        }
        let recordings = self.recordings()?;
        let mut terminals = Terminals::new(TcpConnector::default(), &Config::default());
        if let Some(recordings) = recordings.clone() {
            terminals = terminals.recordings(recordings);
        }
        let routes = RouteTable::default();
        let (client, shutdown) = (client.clone(), shutdown.clone());
        tokio::spawn(watch_routes(client, routes.clone(), None, shutdown));
        let builder = builder.terminals(GatewayTerminals::new(routes, terminals));
        Ok((builder, recordings))
    }

    fn recordings(&self) -> anyhow::Result<Option<Recordings>> {
        let Some(directory) = &self.record_to else {
            return Ok(None);
        };
        let recordings = Recordings::open(directory, self.record_upload.as_ref());
        recordings.map(Some).map_err(|error| {
            let option = error.which("--record-to", "--record-upload");
            anyhow::anyhow!("{option} {error}")
        })
    }
}

/// All that take records of consoles: the log, if they are to be there, and `audit`.
pub(crate) fn sinks(
    reporter: Reporter,
    audit: Option<&Lines>,
    are_logged: bool,
) -> Vec<Box<dyn AuditSink>> {
    let mut sinks: Vec<Box<dyn AuditSink>> = vec![Box::new(reporter)];
    if are_logged {
        sinks.push(Box::new(LogSink));
    }
    if let Some(lines) = audit {
        sinks.push(Box::new(lines.clone()));
    }
    sinks
}
