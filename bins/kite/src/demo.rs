//! `kite demo`: all of Kite on an in-memory cluster, in one process.

mod guide;
mod keys;
mod parts;
mod seed;

use std::{io::Write as _, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context as _, bail};
use clap::Args;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, KubeCluster, ObjectKey},
    conditions,
    crd::KiteVirtualMachine,
};
use kite_gateway::kubernetes::RouteTable;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::{cluster, listen, state::StateDir};

/// How long the first VM may take before the demo says what is wrong with it.
const FIRST_VM: Duration = Duration::from_secs(60);

#[derive(Args)]
pub(crate) struct Options {
    /// Directory for the kubeconfig, keys, the bootstrap token and ready.json.
    #[arg(
        long,
        env = "KITE_STATE_DIR",
        default_value = ".kite-demo",
        value_name = "DIR"
    )]
    state_dir: PathBuf,
    /// Address of the in-memory API server; port 0 picks a free one.
    #[arg(
        long,
        env = "KITE_APISERVER_LISTEN",
        default_value = "127.0.0.1:6443",
        value_name = "ADDRESS"
    )]
    apiserver_listen: SocketAddr,
    /// Address of the HTTP API and web page; port 0 picks a free one.
    #[arg(
        long,
        env = "KITE_API_LISTEN",
        default_value = "127.0.0.1:8080",
        value_name = "ADDRESS"
    )]
    api_listen: SocketAddr,
    /// Address of the SSH gateway; port 0 picks a free one.
    #[arg(
        long,
        env = "KITE_GATEWAY_LISTEN",
        default_value = "127.0.0.1:2222",
        value_name = "ADDRESS"
    )]
    gateway_listen: SocketAddr,
    /// Records terminals, those by ssh and those in the browser, into the state
    /// directory. Administrators replay them in the web page.
    #[arg(long, env = "KITE_RECORD")]
    record: bool,
}

/// `ready.json`: where everything is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    apiserver: String,
    api: String,
    gateway: String,
    kubeconfig: PathBuf,
    known_hosts: PathBuf,
    identity: PathBuf,
    bootstrap_token_file: PathBuf,
    pid: u32,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let shutdown = kite_process::on_signal()?;
    let state = StateDir::open(&options.state_dir)?;
    let apiserver = listen::bind("--apiserver-listen", options.apiserver_listen).await?;
    let api = listen::bind("--api-listen", options.api_listen).await?;
    let gateway = listen::bind("--gateway-listen", options.gateway_listen).await?;
    let gateway_address = listen::reachable(gateway.local_addr()?);

    let host_key = keys::load_or_create(&state, "gateway_host_key", "kite-gateway")?;
    let user_key = keys::load_or_create(&state, "id_ed25519", "kite-demo")?;
    let bootstrap_token = format!("{:032x}", rand::random::<u128>());
    let user_public = user_key.public_key().to_openssh()?;
    let builder = cluster::builder().crds(kite_core::crd::all());
    let mut builder = cluster::furnished(builder, &[]);
    let seed = seed::Seed {
        gateway: gateway_address,
        bootstrap_token: &bootstrap_token,
        user_key: &user_public,
    };
    for object in seed::objects(&seed)? {
        builder = builder.object(object);
    }
    builder = builder.object(parts::gateway_host_key_secret(&host_key)?);
    let fake = builder
        .build()
        .context("the in-memory cluster cannot start")?;

    let served = fake.serve_on(apiserver)?;
    let ready = Ready {
        apiserver: served.url(),
        api: format!("http://{}", listen::reachable(api.local_addr()?)),
        gateway: gateway_address.to_string(),
        kubeconfig: cluster::write_kubeconfig(&state, &fake, &served)?,
        known_hosts: state.write(
            "known_hosts",
            known_hosts(gateway_address, &host_key)?.as_bytes(),
        )?,
        identity: state.path("id_ed25519"),
        bootstrap_token_file: state
            .write("bootstrap-token", format!("{bootstrap_token}\n").as_bytes())?,
        pid: std::process::id(),
    };

    let actors = cluster::spawn_actors(&fake, &shutdown);
    let mut parts = JoinSet::new();
    parts.spawn(parts::controller(fake.client(), shutdown.clone()));
    let routes = RouteTable::default();
    let record_to = options.record.then(|| state.path("recordings"));
    let recordings = parts::recordings(record_to.as_deref())?;
    let recorded = record_to.clone();
    parts.spawn(parts::api(
        fake.client(),
        api,
        routes.clone(),
        record_to,
        recordings.clone(),
        shutdown.clone(),
    ));
    parts.spawn(parts::gateway(
        fake.client(),
        gateway,
        routes,
        recordings,
        shutdown.clone(),
    ));

    let result = tokio::select! {
        // In this order: the parts end by the same token, which is no error.
        biased;
        () = shutdown.cancelled() => Ok(()),
        ended = parts.join_next() => ended_early(ended),
        result = async {
            first_vm(&KubeCluster::new(fake.client())).await?;
            state.write_json("ready.json", &ready)?;
            let text = guide::text(&ready, &bootstrap_token, recorded.as_deref());
            std::io::stdout().lock().write_all(text.as_bytes())?;
            shutdown.cancelled().await;
            Ok(())
        } => result,
    };
    state.remove("ready.json")?;
    shutdown.cancel();
    fake.shut_down();
    let ended = async {
        while parts.join_next().await.is_some() {}
        actors.ended().await;
        served.ended().await;
    };
    if tokio::time::timeout(cluster::GRACE, ended).await.is_err() {
        tracing::warn!("some connections did not end in time and are cut");
    }
    result
}

/// A part that ends before it was told to is an error, even without one.
fn ended_early(
    ended: Option<Result<anyhow::Result<&'static str>, tokio::task::JoinError>>,
) -> anyhow::Result<()> {
    match ended {
        Some(Ok(Ok(part))) => bail!("the {part} ended"),
        Some(Ok(Err(error))) => Err(error),
        Some(Err(error)) => Err(error).context("a part panicked"),
        None => bail!("all parts ended"),
    }
}

/// Makes the first VM, as soon as its user's namespace is there, and waits
/// until it can be logged in to.
async fn first_vm(cluster: &KubeCluster) -> anyhow::Result<()> {
    let vm = seed::first_vm()?;
    let key = ObjectKey::of(&vm);
    let mut seen = "its namespace is not there".to_owned();
    let made_and_ready = async {
        let pause = Duration::from_millis(100);
        loop {
            match cluster.create(&vm).await {
                Ok(_) | Err(ClusterError::AlreadyExists { .. }) => break,
                Err(ClusterError::NotFound { .. }) => tokio::time::sleep(pause).await,
                Err(error) => return Err(anyhow::Error::from(error)),
            }
        }
        loop {
            let vm = cluster.get_opt::<KiteVirtualMachine>(&key).await?;
            let status = vm.and_then(|vm| vm.status).unwrap_or_default();
            if conditions::is_true(&status.conditions, "Ready") {
                return Ok(());
            }
            if let Some(ready) = conditions::find(&status.conditions, "Ready") {
                seen.clone_from(&ready.message);
            }
            tokio::time::sleep(pause).await;
        }
    };
    match tokio::time::timeout(FIRST_VM, made_and_ready).await {
        Ok(result) => result.context("the first VM cannot be made"),
        Err(_) => bail!(
            "the first VM is not ready after {} s: {seen}",
            FIRST_VM.as_secs()
        ),
    }
}

fn known_hosts(gateway: SocketAddr, key: &russh::keys::PrivateKey) -> anyhow::Result<String> {
    let public = key.public_key().to_openssh()?;
    // OpenSSH looks for the bare address when the port is 22.
    let host = match gateway.port() {
        22 => gateway.ip().to_string(),
        port => format!("[{}]:{port}", gateway.ip()),
    };
    Ok(format!("{host} {public}\n"))
}
