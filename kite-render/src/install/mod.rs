//! An installation of Kite: all that whoever installs it applies, before and beside
//! what its reconcilers make.
//!
//! ```text
//! Namespaces, CRDs, StorageClass
//! per process: ServiceAccount, roles ── NetworkPolicy, PodDisruptionBudget ── Deployment
//! Service kite-api            ValidatingAdmissionPolicies   ServiceMonitor, PrometheusRule
//! KitePlatform, KiteImages
//! ```
//!
//! ```
//! use kite_render::install::Profile;
//!
//! let manifests = Profile::K3s.installation().manifests();
//! assert_eq!(manifests[0].kind(), "Namespace");
//! ```
//!
//! Applied twice (server-side), it changes nothing the second time.

mod access;
mod catalogue;
mod environment;
mod manifest;
mod metadata;
mod monitoring;
mod network;
mod platform;
mod policies;
mod process;
mod profile;
mod provisioning;
mod rights;
mod storage;
mod tenant;
mod validity;
mod workload;

use k8s_openapi::api::core::v1::Namespace;
use kite_core::{
    crd::{self, KiteImage, KitePlatformSpec},
    names,
};

pub use self::{
    catalogue::golden_images,
    environment::{Audit, Options, Recordings, Web},
    manifest::Manifest,
    metadata::PART_OF,
    monitoring::{
        AlertingRule, Endpoint, Monitoring, PrometheusRule, PrometheusRuleSpec, RuleGroup,
        ServiceMonitor, ServiceMonitorSpec, alerts, dashboard,
    },
    network::Network,
    process::Process,
    profile::Profile,
    provisioning::{provisioning_image_role, provisioning_rights, provisioning_role},
    rights::{NOT_THE_CONTROLLERS, Reach, Right, Scope},
    storage::Storage,
    validity::Invalid,
    workload::{Containers, Replicas, Spread},
};

use crate::namespace::PodSecurity;

/// Where `KubeVirt` and CDI are: by themselves, with `OpenShift` Virtualization, and with
/// the operator that it comes from.
const OPERATORS: [&str; 4] = [
    "kubevirt",
    "cdi",
    "openshift-cnv",
    "kubevirt-hyperconverged",
];

/// What is installed, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Installation {
    /// The namespace in which Kite runs.
    pub namespace: String,
    /// Whether Kite's CRDs are among the manifests.
    pub crds: bool,
    /// Where the processes' containers come from.
    pub containers: Containers,
    /// How many pods each process has.
    pub replicas: Replicas,
    /// How strictly they are kept on different nodes.
    pub spread: Spread,
    /// What the `StorageClass` of VM disks stands for; without it there is none,
    /// and the platform has to name one that is there.
    pub storage: Option<Storage>,
    /// The platform's settings. Of these, what differs from the defaults is applied;
    /// the rest is left to administrators.
    pub platform: KitePlatformSpec,
    /// Names of Secrets in Kite's namespace that the settings may name for the web page's
    /// certificate, beside that of the settings to begin with: the controller looks whether
    /// they are there, and may read no others.
    pub certificate_secrets: Vec<String>,
    /// The catalogue to begin with.
    pub images: Vec<KiteImage>,
    /// How people reach the web page.
    pub web: Web,
    /// Whether the web page offers terminals inside VMs, for which the API holds the
    /// keys of all VMs.
    pub terminals: bool,
    /// Whether terminal sessions are recorded.
    pub recordings: Option<Recordings>,
    /// Where the gateway and the API write down who came in, and what was done by whom.
    pub audit: Audit,
    /// What Kite's pods are kept to; without it, nothing.
    pub network: Option<Network>,
    /// Whether there are admission policies. The controller has to run under its
    /// `ServiceAccount` then.
    pub admission_policies: bool,
    /// Namespaces of `KubeVirt` and CDI: who makes pods in users' namespaces. Nobody else
    /// may, by one of these policies.
    pub operators: Vec<String>,
    /// What is demanded of these pods.
    pub pod_security: PodSecurity,
    /// Who reads metrics, for a cluster with the Prometheus operator.
    pub monitoring: Option<Monitoring>,
    /// Further options of the processes.
    pub options: Options,
}

impl Default for Installation {
    fn default() -> Self {
        Self {
            namespace: names::PLATFORM_NAMESPACE.to_owned(),
            crds: true,
            containers: Containers::default(),
            replicas: Replicas::all(2),
            spread: Spread::default(),
            storage: None,
            platform: KitePlatformSpec::default(),
            certificate_secrets: Vec::new(),
            images: golden_images(),
            web: Web::default(),
            terminals: false,
            recordings: None,
            audit: Audit::default(),
            network: Some(Network::default()),
            admission_policies: true,
            operators: OPERATORS.map(str::to_owned).into(),
            pod_security: PodSecurity::default(),
            monitoring: None,
            options: Options::default(),
        }
    }
}

impl Installation {
    /// All of it, in the order in which to apply it: nothing comes before what it needs.
    /// What [`check`](Self::check) refuses makes manifests that an API server refuses.
    ///
    /// Objects of Kite's own kinds are last, for their CRDs have to be established.
    pub fn manifests(&self) -> Vec<Manifest> {
        let mut all: Vec<Manifest> = Vec::new();
        all.extend(self.namespaces().map(Manifest::from));
        if self.crds {
            all.extend(crd::all().into_iter().map(Manifest::from));
        }
        all.extend(storage::class(self).map(Manifest::from));
        all.extend(access::accounts(self).into_iter().map(Manifest::from));
        all.extend(access::roles(self));
        all.extend(tenant::roles().map(Manifest::from));
        all.extend(policies::manifests(self));
        all.extend(network::policies(self).into_iter().map(Manifest::from));
        all.extend(network::api_service(self).map(Manifest::from));
        for process in Process::ALL {
            all.extend(workload::manifests(self, process));
        }
        all.extend(monitoring::manifests(self));
        all.push(platform::platform(self).into());
        all.extend(self.images.iter().cloned().map(Manifest::from));
        all
    }

    /// Whether load balancers tell the gateway by the PROXY protocol where connections
    /// come from.
    pub fn is_proxied(&self) -> bool {
        let gateway = self.options.get(&Process::Gateway);
        let proxies = gateway.and_then(|it| it.get("KITE_PROXY_PROTOCOL_FROM"));
        proxies.is_some_and(|proxies| !proxies.is_empty())
    }

    /// Whether the API takes no proxy's word for clients' addresses.
    pub fn is_web_direct(&self) -> bool {
        let api = self.options.get(&Process::Api);
        let proxies = api.and_then(|it| it.get("KITE_TRUSTED_PROXIES"));
        proxies.map_or(self.web.proxies == 0, |proxies| proxies == "0")
    }

    /// The namespace of golden images.
    pub fn image_namespace(&self) -> &str {
        self.platform.image_namespace()
    }

    /// The namespaces of Kite and of its images. Kite's own pods are as restricted as
    /// the Pod Security Standards ask for; those in the other are CDI's.
    fn namespaces(&self) -> [Namespace; 2] {
        let namespace = |name: &str| Namespace {
            metadata: metadata::common(name, None),
            ..Namespace::default()
        };
        let mut own = namespace(&self.namespace);
        let labels = own.metadata.labels.get_or_insert_default();
        labels.insert(
            "pod-security.kubernetes.io/enforce".to_owned(),
            "restricted".to_owned(),
        );
        [own, namespace(self.image_namespace())]
    }

    /// Whether a process logs in to VMs.
    fn enters_vms(&self, process: Process) -> bool {
        match process {
            Process::Controller => false,
            Process::Gateway => true,
            Process::Api => self.terminals,
        }
    }

    /// Whether a process records terminals.
    fn records(&self, process: Process) -> bool {
        self.recordings.is_some() && self.enters_vms(process)
    }

    /// Where recordings are carried to.
    fn store(&self) -> Option<&str> {
        self.recordings.as_ref()?.upload.as_deref()
    }
}
