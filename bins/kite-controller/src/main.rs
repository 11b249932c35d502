//! `kite-controller`: the reconcilers as a process.

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::{Context as _, bail};
use clap::{
    Args, Parser,
    builder::{PossibleValuesParser, TypedValueParser},
};
use kite_core::{cluster::KubeCluster, managers, names};
use kite_process::{Admin, ClusterArgs, LogArgs, Readiness};
use kite_reconcile::{
    Context, Settings, leader::Election, metrics, operator::Operator, request_metrics,
    wire::RateLimiter,
};
use kite_render::{install::Process, namespace::PodSecurity};
use mimalloc::MiMalloc;
use prometheus_client::registry::Registry;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Watches of thousands of objects are mostly allocation; the C library's
/// allocator takes half as long again, and keeps what it was once given.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Kite's controller: makes the cluster match Kite's custom resources.
#[derive(Parser)]
#[command(name = "kite-controller", version, about)]
struct Cli {
    /// Address of /livez, /readyz and /metrics.
    #[arg(
        long,
        env = "KITE_ADMIN_LISTEN",
        default_value = "127.0.0.1:8081",
        value_name = "ADDRESS"
    )]
    admin_listen: SocketAddr,
    /// Namespace in which Kite runs: its gateway's and its API's.
    #[arg(
        long,
        env = "KITE_NAMESPACE",
        default_value = names::PLATFORM_NAMESPACE,
        value_name = "NAMESPACE"
    )]
    namespace: String,
    /// The HTTP API offers terminals inside VMs (`kite-api --terminals`): the network policies let
    /// its pods in to port 22, as they do the gateway's.
    #[arg(long, env = "KITE_TERMINALS")]
    terminals: bool,
    #[command(flatten)]
    clients: ClientArgs,
    /// Give Kite's `ServiceAccounts` their rights in each user's namespace, and so in no
    /// other: by the `ClusterRoles` kite-gateway-users, kite-api-users, and
    /// kite-controller-users for this controller's own over Secrets, which it then watches
    /// namespace by namespace.
    #[arg(long, env = "KITE_GRANTS")]
    grants: bool,
    /// What the Pod Security admission of Kubernetes demands of pods in users'
    /// namespaces: privileged, which demands nothing, where `KubeVirt` runs VMs as root.
    #[arg(long, env = "KITE_POD_SECURITY", default_value = PodSecurity::default().name(), value_parser = pod_security(), value_name = "LEVEL")]
    pod_security: PodSecurity,
    /// Writes a second in the long run; 0 sets no limit. Twice as many may be
    /// sent at once.
    #[arg(
        long,
        env = "KITE_WRITE_RATE",
        default_value_t = 500,
        value_name = "COUNT"
    )]
    write_rate: u32,
    /// Seconds that what is under way gets to finish after SIGTERM.
    #[arg(long, env = "KITE_DRAIN", default_value_t = 10, value_name = "SECONDS")]
    drain: u64,
    #[command(flatten)]
    election: ElectionArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    logs: LogArgs,
}

fn pod_security() -> impl TypedValueParser<Value = PodSecurity> {
    PossibleValuesParser::new(PodSecurity::ALL.map(PodSecurity::name)).try_map(|name| {
        let mut all = PodSecurity::ALL.into_iter();
        all.find(|it| it.name() == name)
            .ok_or_else(|| format!("there is no level {name}"))
    })
}

/// Whose addresses the gateway and the API see.
#[derive(Args)]
struct ClientArgs {
    /// Load balancers tell the gateway by the PROXY protocol where connections come from
    /// (`kite-gateway --proxy-protocol-from`): so it sees clients' addresses, which the
    /// `KitePlatform`'s conditions tell.
    #[arg(long, env = "KITE_PROXIED")]
    proxied: bool,
    /// The HTTP API takes no proxy's word for clients' addresses (`kite-api
    /// --trusted-proxies 0`): where the web page is exposed it sees those of proxies, which
    /// the `KitePlatform`'s conditions tell.
    #[arg(long, env = "KITE_WEB_DIRECT")]
    web_direct: bool,
}

/// Which of several controllers works.
#[derive(Args)]
struct ElectionArgs {
    /// Whether to take part in an election. Without one no other controller may
    /// run on this cluster.
    #[arg(
        long,
        env = "KITE_LEADER_ELECT",
        default_value_t = true,
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    leader_elect: bool,
    /// Namespace of the Lease, if it is not --namespace.
    #[arg(long, env = "KITE_LEASE_NAMESPACE", value_name = "NAMESPACE")]
    lease_namespace: Option<String>,
    /// Name of the Lease.
    #[arg(
        long,
        env = "KITE_LEASE_NAME",
        default_value = "kite-controller",
        value_name = "NAME"
    )]
    lease_name: String,
    /// Seconds after which another controller takes over from one that is silent.
    #[arg(
        long,
        env = "KITE_LEASE_DURATION",
        default_value_t = 15,
        value_name = "SECONDS"
    )]
    lease_duration: u64,
    /// Seconds after its last renewal when the leader stops; less than
    /// --lease-duration.
    #[arg(
        long,
        env = "KITE_RENEW_DEADLINE",
        default_value_t = 10,
        value_name = "SECONDS"
    )]
    renew_deadline: u64,
    /// Seconds within which a controller that stands by looks again; by default 2, and at
    /// most a third of --renew-deadline.
    #[arg(long, env = "KITE_RETRY_PERIOD", value_name = "SECONDS")]
    retry_period: Option<u64>,
}

impl ElectionArgs {
    fn election(&self, namespace: &str) -> anyhow::Result<Option<Election>> {
        if !self.leader_elect {
            return Ok(None);
        }
        let namespace = self.lease_namespace.as_deref().unwrap_or(namespace);
        let renew_deadline = Duration::from_secs(self.renew_deadline);
        let default = Duration::from_secs(2).min(renew_deadline / 3);
        let mut election = Election::new(namespace, &self.lease_name, identity());
        election.lease_duration = Duration::from_secs(self.lease_duration);
        election.renew_deadline = renew_deadline;
        election.retry_period = self.retry_period.map_or(default, Duration::from_secs);
        election
            .validate()
            .context("no leader election is possible with these options")?;
        Ok(Some(election))
    }
}

/// Who this process is: its host, which in a pod is the pod's name, and a number
/// that not even its next start has.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "kite-controller",
        host => host,
    };
    format!("{host}_{}", uuid::Uuid::new_v4())
}

/// Lets this process have as many files open as it may. Each user's Secrets have a watch,
/// which is a connection, and many machines begin a process with a thousand.
fn open_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, most) {
        tracing::warn!(%error, "no more files can be open at once than were allowed");
    }
}

fn main() -> ExitCode {
    kite_process::exit_code(run(&Cli::parse()))
}

#[tokio::main]
async fn run(cli: &Cli) -> anyhow::Result<()> {
    cli.logs.init("info")?;
    open_many_files();
    let election = cli.election.election(&cli.namespace)?;
    let shutdown = kite_process::on_signal()?;
    let admin = Admin::bind(cli.admin_listen).await?;
    let client = cli.cluster.client_without_retries().await?;
    let version = client
        .apiserver_version()
        .await
        .context("the API server does not answer")?;
    tracing::info!(apiserver = %version.git_version, "the controller starts");

    let mut registry = Registry::default();
    let metrics = metrics();
    metrics.register(&mut registry);
    let requests = request_metrics();
    requests.register(&mut registry);
    let mut operator = match election {
        Some(election) => Operator::with_election(election),
        None => Operator::without_election(),
    }
    .counted(requests)
    .draining_for(Duration::from_secs(cli.drain));
    if cli.write_rate > 0 {
        let burst = cli.write_rate.saturating_mul(2);
        operator = operator.rate_limited(RateLimiter::per_second(f64::from(cli.write_rate), burst));
    }
    operator.register(&mut registry);
    let (health, leadership) = (operator.health().clone(), operator.leadership().clone());
    let readiness = Readiness::checked(move || health.check(&leadership));
    readiness.set(true);
    let admin = tokio::spawn(admin.serve(readiness, registry, shutdown.clone()));
    let mut settings = Settings::in_namespace(&cli.namespace).with_pod_security(cli.pod_security);
    if cli.grants {
        let granted = Process::ALL.into_iter();
        settings = settings.with_grants(granted.filter_map(|it| it.grant(&cli.namespace)));
        settings.own_role = Process::Controller.role_for_users().map(str::to_owned);
    }
    settings.proxied = cli.clients.proxied;
    settings.web_direct = cli.clients.web_direct;
    if cli.terminals {
        settings = settings.with_terminals();
    }
    let context = |client| {
        Context::new(KubeCluster::new(client).with_field_manager(managers::CONTROLLER))
            .with_settings(settings.clone())
            .with_metrics(metrics.clone())
    };
    operator.run(client, context, shutdown.clone()).await?;
    if !shutdown.is_cancelled() {
        // The admin port must not go on saying that all is well.
        shutdown.cancel();
        admin.await??;
        bail!("the controllers ended without being told to: the log says which broke down");
    }
    admin.await?
}
