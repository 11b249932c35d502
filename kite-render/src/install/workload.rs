//! The processes as Deployments: restricted pods, spread over nodes, that are probed
//! and get the time to end in order. One that keeps recordings is a `StatefulSet`, for
//! each of its pods needs a volume of its own that stays.

use k8s_openapi::{
    api::{
        apps::v1::{
            Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment, StatefulSet,
            StatefulSetSpec,
        },
        core::v1::{
            Capabilities, Container, ContainerPort, HTTPGetAction, Lifecycle, LifecycleHandler,
            LocalObjectReference, PersistentVolumeClaim, PersistentVolumeClaimSpec,
            PodSecurityContext, PodSpec, PodTemplateSpec, Probe, ResourceRequirements,
            SeccompProfile, SecurityContext, SleepAction, TopologySpreadConstraint, VolumeMount,
            VolumeResourceRequirements,
        },
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    },
    apimachinery::pkg::{
        api::resource::Quantity, apis::meta::v1::ObjectMeta, util::intstr::IntOrString,
    },
};

use super::{
    Installation, Manifest, Process,
    environment::{self, RECORDINGS_DIRECTORY},
    metadata,
    monitoring::ADMIN,
    process::API_PAUSE,
};
use kite_core::versions::wrap;

/// The user and group as which processes run: nobody that a node knows.
const NOBODY: i64 = 65532;
/// Label by which the pods of one version of a Deployment are told from others'.
const DEPLOYMENT_REVISION: &str = "pod-template-hash";
/// The same of a `StatefulSet`.
const STATEFUL_SET_REVISION: &str = "controller-revision-hash";
/// Name of the volume with recordings.
const RECORDINGS: &str = "recordings";

/// How strictly the pods of a process are kept on different nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spread {
    /// Where there are nodes enough.
    #[default]
    Preferred,
    /// As evenly as the nodes allow that take pods: none two of them on one node while
    /// another has none.
    Required,
}

/// Where containers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Containers {
    /// What stands before the process' name in an image reference, such as
    /// `registry.example.org/kite`.
    pub registry: String,
    /// The tag, or with a `sha256:` the digest.
    pub tag: String,
    /// Name of a Secret in Kite's namespace with the registry's credentials.
    pub pull_secret: Option<String>,
}

impl Containers {
    /// The image of `process`.
    pub fn image(&self, process: Process) -> String {
        let by = if self.tag.starts_with("sha256:") {
            '@'
        } else {
            ':'
        };
        format!("{}/{}{by}{}", self.registry, process.name(), self.tag)
    }
}

impl Default for Containers {
    fn default() -> Self {
        Self {
            registry: "ghcr.io/hy3ons".to_owned(),
            tag: env!("CARGO_PKG_VERSION").to_owned(),
            pull_secret: None,
        }
    }
}

/// How many pods each process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// Controllers; one works, the others stand by.
    pub controller: u16,
    /// SSH gateways.
    pub gateway: u16,
    /// HTTP APIs.
    pub api: u16,
}

impl Replicas {
    /// The same number of each.
    pub const fn all(count: u16) -> Self {
        Self {
            controller: count,
            gateway: count,
            api: count,
        }
    }

    /// Those of `process`.
    pub const fn of(self, process: Process) -> u16 {
        match process {
            Process::Controller => self.controller,
            Process::Gateway => self.gateway,
            Process::Api => self.api,
        }
    }
}

/// The workload of `process`, and how many of its pods may be taken away at a time.
pub(super) fn manifests(installation: &Installation, process: Process) -> Vec<Manifest> {
    let replicas = installation.replicas.of(process);
    let budget = (replicas > 1).then(|| budget(installation, process).into());
    let workload = match claim(installation, process) {
        None => deployment(installation, process).into(),
        Some(claim) => stateful_set(installation, process, claim).into(),
    };
    [workload].into_iter().chain(budget).collect()
}

fn deployment(installation: &Installation, process: Process) -> Deployment {
    Deployment {
        metadata: metadata::of(process, Some(&installation.namespace)),
        spec: wrap(DeploymentSpec {
            replicas: Some(i32::from(installation.replicas.of(process))),
            selector: metadata::selects(process),
            // A new pod is there before an old one goes.
            strategy: Some(DeploymentStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: Some(IntOrString::Int(1)),
                    max_unavailable: Some(IntOrString::Int(0)),
                }),
            }),
            template: template(installation, process),
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

fn stateful_set(
    installation: &Installation,
    process: Process,
    claim: PersistentVolumeClaim,
) -> StatefulSet {
    StatefulSet {
        metadata: metadata::of(process, Some(&installation.namespace)),
        spec: wrap(StatefulSetSpec {
            replicas: Some(i32::from(installation.replicas.of(process))),
            selector: metadata::selects(process),
            service_name: Some(process.name().to_owned()),
            // They have nothing to wait for from each other.
            pod_management_policy: Some("Parallel".to_owned()),
            template: template(installation, process),
            volume_claim_templates: Some(vec![claim]),
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

/// The claim of a pod's recordings, where it makes some.
fn claim(installation: &Installation, process: Process) -> Option<PersistentVolumeClaim> {
    let recordings = installation.recordings.as_ref()?;
    installation
        .records(process)
        .then(|| PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(RECORDINGS.to_owned()),
                labels: Some(metadata::labels(process)),
                ..ObjectMeta::default()
            },
            spec: Some(PersistentVolumeClaimSpec {
                access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
                storage_class_name: recordings.storage_class.clone(),
                resources: Some(VolumeResourceRequirements {
                    requests: Some([("storage".to_owned(), recordings.size.to_quantity())].into()),
                    limits: None,
                }),
                ..PersistentVolumeClaimSpec::default()
            }),
            status: None,
        })
}

fn template(installation: &Installation, process: Process) -> PodTemplateSpec {
    let containers = &installation.containers;
    let options = environment::options(installation, process);
    let grace = process.grace(&options).as_secs();
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(metadata::labels(process)),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            service_account_name: Some(process.name().to_owned()),
            automount_service_account_token: Some(true),
            // Variables that name Services would begin with KITE_ as options do.
            enable_service_links: Some(false),
            image_pull_secrets: containers
                .pull_secret
                .clone()
                .map(|name| vec![LocalObjectReference { name }]),
            security_context: Some(PodSecurityContext {
                run_as_non_root: Some(true),
                run_as_user: Some(NOBODY),
                run_as_group: Some(NOBODY),
                fs_group: installation.records(process).then_some(NOBODY),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".to_owned(),
                    localhost_profile: None,
                }),
                ..PodSecurityContext::default()
            }),
            termination_grace_period_seconds: i64::try_from(grace).ok(),
            topology_spread_constraints: Some(spread(installation, process)),
            containers: vec![container(installation, process)],
            ..PodSpec::default()
        }),
    }
}

fn container(installation: &Installation, process: Process) -> Container {
    let port = |name: &str, number: u16| ContainerPort {
        name: Some(name.to_owned()),
        container_port: i32::from(number),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    let ports = process.port().map(|(name, number)| port(name, number));
    let admin = port(ADMIN, process.admin_port());
    Container {
        name: process.name().to_owned(),
        image: Some(installation.containers.image(process)),
        ports: Some(ports.into_iter().chain([admin]).collect()),
        env: Some(environment::variables(installation, process)),
        env_from: environment::credentials(installation, process),
        resources: Some(resources(process)),
        startup_probe: Some(probe("/livez", 2, 60)),
        liveness_probe: Some(probe("/livez", 10, 3)),
        readiness_probe: Some(probe("/readyz", 5, 2)),
        lifecycle: (process == Process::Api).then(|| Lifecycle {
            pre_stop: Some(LifecycleHandler {
                sleep: i64::try_from(API_PAUSE)
                    .ok()
                    .map(|seconds| SleepAction { seconds }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                add: None,
            }),
            ..SecurityContext::default()
        }),
        volume_mounts: installation.records(process).then(|| {
            vec![VolumeMount {
                name: RECORDINGS.to_owned(),
                mount_path: RECORDINGS_DIRECTORY.to_owned(),
                ..VolumeMount::default()
            }]
        }),
        ..Container::default()
    }
}

/// A probe of the admin port.
fn probe(path: &str, period: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String(ADMIN.to_owned()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        failure_threshold: Some(failures),
        timeout_seconds: Some(3),
        ..Probe::default()
    }
}

/// What a container gets. Processor time has no limit: it would hold up bulk transfers
/// and password hashes while the node idles. `docs/performance.md` and
/// `docs/gateway-performance.md` say what the memory is for.
fn resources(process: Process) -> ResourceRequirements {
    let (cpu, memory, limit) = match process {
        // 250 MB with 10,000 VMs.
        Process::Controller => ("100m", "128Mi", "512Mi"),
        // 0.1 MB for each of 4096 connections, and what is on its way in them.
        Process::Gateway => ("100m", "128Mi", "1Gi"),
        // Copies of Kite's objects, a password hash of 19 MB for each processor, and what
        // requests may hold: of that 352 MB are the budgets of bodies and streams, which
        // take at most half of the limit.
        Process::Api => ("100m", "192Mi", "1Gi"),
    };
    let quantity = |name: &str, amount: &str| (name.to_owned(), Quantity(amount.to_owned()));
    ResourceRequirements {
        requests: Some([quantity("cpu", cpu), quantity("memory", memory)].into()),
        limits: Some([quantity("memory", limit)].into()),
        claims: None,
    }
}

fn spread(installation: &Installation, process: Process) -> Vec<TopologySpreadConstraint> {
    let over_nodes = match installation.spread {
        Spread::Preferred => "ScheduleAnyway",
        Spread::Required => "DoNotSchedule",
    };
    let revision = if installation.records(process) {
        STATEFUL_SET_REVISION
    } else {
        DEPLOYMENT_REVISION
    };
    let constraint = |key: &str, otherwise: &str| TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.to_owned(),
        when_unsatisfiable: otherwise.to_owned(),
        label_selector: Some(metadata::selects(process)),
        // Those of a rollout are spread among themselves: with those that they replace
        // counted in, two could end up on one node.
        match_label_keys: Some(vec![revision.to_owned()]),
        // A node that takes none of them, such as one of the control plane or one that
        // is drained, would for ever be the one with too few.
        node_taints_policy: Some("Honor".to_owned()),
        ..TopologySpreadConstraint::default()
    };
    vec![
        constraint("kubernetes.io/hostname", over_nodes),
        constraint("topology.kubernetes.io/zone", "ScheduleAnyway"),
    ]
}

fn budget(installation: &Installation, process: Process) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: metadata::of(process, Some(&installation.namespace)),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(metadata::selects(process)),
            // A pod that does not work anyway holds up no drain.
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".to_owned()),
            min_available: None,
        }),
        status: None,
    }
}
