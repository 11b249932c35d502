//! `kite apiserver`: only the in-memory API server.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::json;

use crate::{cluster, keep, listen, state::StateDir};

#[derive(Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of a command line, which combine"
)]
pub(crate) struct Options {
    /// Directory for the kubeconfig and ready.json.
    #[arg(
        long,
        env = "KITE_STATE_DIR",
        default_value = ".kite-apiserver",
        value_name = "DIR"
    )]
    state_dir: PathBuf,
    /// Address of the API server; port 0 picks a free one.
    #[arg(
        long,
        env = "KITE_APISERVER_LISTEN",
        default_value = "127.0.0.1:6443",
        value_name = "ADDRESS"
    )]
    apiserver_listen: SocketAddr,
    /// Install the CRDs of all YAML files in this directory at the start.
    #[arg(long, env = "KITE_CRDS", value_name = "DIR")]
    crds: Option<PathBuf>,
    /// Keep what is stored in the state directory, and go on from there when
    /// started again; CRDs that are kept are not installed anew.
    #[arg(long, env = "KITE_KEEP")]
    keep: bool,
    /// Also start the actors that play the rest of a cluster: KubeVirt and CDI
    /// (with their CRDs, unless --crds brings them), namespaces, garbage collection,
    /// guests; with a default `StorageClass`, standard, of which snapshots can be taken, and a
    /// default `IngressClass`, demo.
    #[arg(long, env = "KITE_ACTORS")]
    actors: bool,
    /// Let RBAC decide what a request may do, as in a real cluster. Requests need
    /// a token then: the kubeconfig has the administrator's.
    #[arg(long, env = "KITE_RBAC")]
    rbac: bool,
    /// Give every Pod its `ServiceAccount`, with a token mounted, and refuse Pods of
    /// accounts that are not there, as a real cluster does. --actors makes the account
    /// `default` of each namespace.
    #[arg(long, env = "KITE_SERVICE_ACCOUNTS")]
    service_accounts: bool,
    /// Serve HTTP without TLS. kubectl and Go's clients send no token then, and who sends
    /// none is the administrator unless --rbac is set.
    #[arg(long, env = "KITE_PLAIN_HTTP")]
    plain_http: bool,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let shutdown = kite_process::on_signal()?;
    let state = StateDir::open(&options.state_dir)?;
    let listener = listen::bind("--apiserver-listen", options.apiserver_listen).await?;

    let mut builder = cluster::builder();
    let mut given = Vec::new();
    if let Some(dir) = &options.crds {
        for (path, text) in yaml_files(dir)? {
            let crds =
                cluster::read_crds(&text).with_context(|| format!("--crds: {}", path.display()))?;
            given.extend(crds);
        }
    }
    builder = builder
        .crds(given.clone())
        .rbac(options.rbac)
        .service_accounts(options.service_accounts);
    if options.actors {
        builder = cluster::furnished(builder, &given);
    }
    if options.keep
        && let Some(kept) = keep::load(&state)?
    {
        builder = builder.snapshot(kept);
    }
    let fake = builder.build().context("the API server cannot start")?;
    let actors = options
        .actors
        .then(|| cluster::spawn_actors(&fake, &shutdown));
    let served = if options.plain_http {
        fake.serve_on(listener)
    } else {
        fake.serve_tls_on(listener)
    };
    let served = served.context("the API server cannot listen")?;
    let kubeconfig = cluster::write_kubeconfig(&state, &fake, &served)?;
    let mut ready = json!({
        "apiserver": served.url(),
        "kubeconfig": kubeconfig,
        "pid": std::process::id(),
    });
    if let Some(authority) = served.certificate_authority() {
        let path = state.write("ca.crt", authority.as_bytes())?;
        ready["certificateAuthority"] = json!(path);
    }
    state.write_json("ready.json", &ready)?;
    eprintln!(
        "The API server serves {}.\n\n  export KUBECONFIG={}\n",
        served.url(),
        cluster::quoted(&kubeconfig)
    );

    if options.keep {
        keep::until(&shutdown, &fake, &state).await?;
    }
    shutdown.cancelled().await;
    state.remove("ready.json")?;
    fake.shut_down();
    let ended = async {
        if let Some(actors) = actors {
            actors.ended().await;
        }
        served.ended().await;
    };
    if tokio::time::timeout(cluster::GRACE, ended).await.is_err() {
        tracing::warn!("some connections did not end in time and are cut");
    }
    Ok(())
}

/// The YAML files of `dir` in the order of their names.
fn yaml_files(dir: &Path) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let entries =
        fs::read_dir(dir).with_context(|| format!("--crds {} cannot be read", dir.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    paths.retain(|path| {
        path.extension()
            .is_some_and(|end| end == "yaml" || end == "yml" || end == "json")
    });
    paths.sort();
    ensure!(
        !paths.is_empty(),
        "--crds {} has no .yaml, .yml or .json file",
        dir.display()
    );
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("--crds: {} cannot be read", path.display()))?;
            Ok((path, text))
        })
        .collect()
}
