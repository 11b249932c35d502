//! `kite smoke`: whether an installation works, by a user's whole way through it.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use kite_admin::smoke::{self, Address, HostKey, News, State, Step};
use kite_core::names;
use kite_process::ClusterArgs;

use crate::{
    client::client,
    output::{Lines, Output, bar, print, print_json},
};

/// How long the gateway may take to hear of a VM.
const UNKNOWN: Duration = Duration::from_secs(30);

#[derive(Args)]
pub(crate) struct Options {
    /// Namespace in which Kite runs.
    #[arg(long, env = "KITE_NAMESPACE", default_value = names::PLATFORM_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Where the web page is, if not where the platform says.
    #[arg(long, value_name = "URL", value_parser = url)]
    api_url: Option<String>,
    /// Where the SSH gateway is, if not where the platform says.
    #[arg(long, value_name = "HOST:PORT")]
    gateway: Option<Address>,
    /// The gateway's host key: a fingerprint (SHA256:…) or a public key. By default those
    /// that the platform's status names, or the one in the gateway's Secret.
    #[arg(long, value_name = "KEY")]
    host_key: Option<HostKey>,
    /// Where nothing is known of the gateway's host key, take the one that is shown
    /// first; without this that is a failure.
    #[arg(long, conflicts_with = "host_key")]
    accept_host_key: bool,
    /// Image of the VM; by default the smallest that is ready.
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Seconds that each step may wait.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86400))]
    timeout: u64,
    /// Leave the user and the VM there, to be looked at.
    #[arg(long)]
    keep: bool,
    /// How it is told what was seen.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    cluster: ClusterArgs,
}

fn url(text: &str) -> Result<String, String> {
    let url = url::Url::parse(text).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("it must begin with https:// or http://".to_owned());
    }
    Ok(text.to_owned())
}

/// The exit code is 0 if all went well, 3 if something did not, 4 if all went well that
/// may be looked at, and 130 if it was broken off.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let stop = kite_process::on_signal()?;
    let client = client(&options.cluster).await?;
    let smoke = smoke::Options {
        namespace: options.namespace,
        api_url: options.api_url,
        gateway: options.gateway,
        host_key: options.host_key,
        accept_host_key: options.accept_host_key,
        image: options.image,
        timeout: Duration::from_secs(options.timeout),
        unknown: UNKNOWN,
        keep: options.keep,
    };
    let mut lines = Lines::new(options.output);
    let report = smoke::run(&client, &smoke, stop.cancelled(), |news| match news {
        News::Waiting(at, "") => {
            let (done, all) = at.progress();
            lines.progress(&format!("{} {}", bar(done, all), at.name()));
        }
        News::Waiting(at, what) => lines.step(&format!("…        {:<11}  {what}", at.name())),
        News::Done(done) => lines.line(&done.to_string()),
        News::Swept(user) => {
            lines.line(&format!(
                "swept    {user}, which a test that was killed left"
            ));
        }
    })
    .await;
    match options.output {
        Output::Json => print_json(&report)?,
        Output::Text => {
            let is_made = report.steps.iter().any(|it| it.step == Step::User);
            let text = match report.state {
                State::Passed => "Kite works here.",
                State::NotLookedAt => {
                    "Kite works here; whether all of it is gone was not looked at."
                }
                State::Failed => "Kite does not work here.",
                State::Interrupted => "Broken off.",
            };
            print(&format!("{text}\n"))?;
            if options.keep && is_made {
                let user = &report.user;
                lines.line(&format!(
                    "The user {user} and the VM are still there: kubectl delete kiteuser {user}"
                ));
            }
        }
    }
    Ok(match report.state {
        State::Passed => ExitCode::SUCCESS,
        State::Failed => ExitCode::from(3),
        State::NotLookedAt => ExitCode::from(4),
        State::Interrupted => ExitCode::from(130),
    })
}
