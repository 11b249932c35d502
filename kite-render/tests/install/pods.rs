//! The processes' pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use k8s_openapi::{
    api::core::v1::{Container, PodSpec, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kite_render::install::{Audit, Installation, Manifest, Process};

use crate::stage::{all, everything};

struct Workload {
    what: String,
    process: Process,
    is_stateful: bool,
    selector: LabelSelector,
    template: PodTemplateSpec,
}

impl Workload {
    fn pod(&self) -> &PodSpec {
        self.template.spec.as_ref().unwrap()
    }

    fn container(&self) -> &Container {
        let [container] = self.pod().containers.as_slice() else {
            panic!("{}: not one container", self.what);
        };
        container
    }

    fn option(&self, name: &str) -> Option<&str> {
        let variables = self.container().env.iter().flatten();
        let mut found = variables.filter(|it| it.name == name);
        let value = found.next()?.value.as_deref();
        assert!(found.next().is_none(), "{}: {name} twice", self.what);
        value
    }
}

fn workloads(name: &str, installation: &Installation) -> Vec<Workload> {
    let manifests = installation.manifests();
    let workloads = manifests.into_iter().filter_map(|manifest| {
        let what = format!("{name}: {}", manifest.name());
        let process = Process::ALL
            .into_iter()
            .find(|it| it.name() == manifest.name())?;
        let is_stateful = matches!(manifest, Manifest::StatefulSet(_));
        let (selector, template) = match manifest {
            Manifest::Deployment(it) => (it.spec.selector, it.spec.template),
            Manifest::StatefulSet(it) => (it.spec.selector, it.spec.template),
            _ => return None,
        };
        Some(Workload {
            what,
            process,
            is_stateful,
            selector,
            template,
        })
    });
    let found: Vec<_> = workloads.collect();
    assert_eq!(found.len(), Process::ALL.len(), "{name}");
    found
}

fn all_workloads() -> Vec<Workload> {
    all()
        .iter()
        .flat_map(|(name, installation)| workloads(name, installation))
        .collect()
}

/// The Pod Security Standard `restricted`, and a file system that nobody writes to.
#[test]
fn pods_are_restricted() {
    for workload in all_workloads() {
        let what = &workload.what;
        let pod = workload.pod();
        let security = pod.security_context.as_ref().unwrap();
        assert_eq!(security.run_as_non_root, Some(true), "{what}");
        assert!(security.run_as_user.unwrap() > 0, "{what}");
        let seccomp = security.seccomp_profile.as_ref().unwrap();
        assert_eq!(seccomp.type_, "RuntimeDefault", "{what}");
        for shared in [pod.host_network, pod.host_pid, pod.host_ipc] {
            assert_eq!(shared, None, "{what}");
        }
        let container = workload.container();
        let security = container.security_context.as_ref().unwrap();
        assert_eq!(security.allow_privilege_escalation, Some(false), "{what}");
        assert_eq!(security.read_only_root_filesystem, Some(true), "{what}");
        let capabilities = security.capabilities.as_ref().unwrap();
        assert_eq!(capabilities.drop.as_deref().unwrap(), ["ALL"], "{what}");
        assert_eq!(capabilities.add, None, "{what}");
        let resources = container.resources.as_ref().unwrap();
        let requests = resources.requests.as_ref().unwrap();
        assert!(requests.contains_key("cpu") && requests.contains_key("memory"));
        assert!(resources.limits.as_ref().unwrap().contains_key("memory"));
    }
}

#[test]
fn selectors_find_the_pods_of_their_process_and_no_others() {
    let matches = |selector: &LabelSelector, labels: &BTreeMap<String, String>| {
        let wanted = selector.match_labels.as_ref().unwrap();
        wanted
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    };
    for (name, installation) in all() {
        let workloads = workloads(name, &installation);
        for one in &workloads {
            for other in &workloads {
                let labels = other.template.metadata.as_ref().unwrap();
                let is_found = matches(&one.selector, labels.labels.as_ref().unwrap());
                assert_eq!(is_found, one.process == other.process, "{}", one.what);
            }
        }
    }
}

/// A rollout that waits for a place which no node has would wait for ever.
#[test]
fn pods_are_spread_over_nodes_that_take_them_and_each_version_by_itself() {
    let mut versions = BTreeSet::new();
    for workload in all_workloads() {
        let what = &workload.what;
        let constraints = workload.pod().topology_spread_constraints.as_ref().unwrap();
        assert!(!constraints.is_empty(), "{what}");
        for constraint in constraints {
            assert_eq!(
                constraint.node_taints_policy.as_deref(),
                Some("Honor"),
                "{what}"
            );
            // The label that its controller puts on pods of one version.
            let version = if workload.is_stateful {
                "controller-revision-hash"
            } else {
                "pod-template-hash"
            };
            let keys = constraint.match_label_keys.as_deref().unwrap();
            assert_eq!(keys, [version], "{what}");
            versions.insert(version);
            assert_eq!(
                constraint.label_selector.as_ref(),
                Some(&workload.selector),
                "{what}"
            );
        }
    }
    assert_eq!(versions.len(), 2, "no workload keeps recordings");
}

#[test]
fn probes_and_listeners_agree() {
    for workload in all_workloads() {
        let what = &workload.what;
        let container = workload.container();
        let ports: BTreeMap<_, _> = container
            .ports
            .iter()
            .flatten()
            .map(|port| (port.name.clone().unwrap(), port.container_port))
            .collect();
        let listens = |option: &str| -> i32 {
            let address: SocketAddr = workload.option(option).unwrap().parse().unwrap();
            assert!(
                address.ip().is_unspecified(),
                "{what}: only the pod reaches it"
            );
            address.port().into()
        };
        assert_eq!(ports["admin"], listens("KITE_ADMIN_LISTEN"), "{what}");
        if let Some((name, port)) = workload.process.port() {
            assert_eq!(
                (ports[name], i32::from(port)),
                (listens("KITE_LISTEN"), ports[name])
            );
        }
        let probes = [
            (&container.startup_probe, "/livez"),
            (&container.liveness_probe, "/livez"),
            (&container.readiness_probe, "/readyz"),
        ];
        for (probe, path) in probes {
            let get = probe.as_ref().unwrap().http_get.as_ref().unwrap();
            assert_eq!(get.path.as_deref(), Some(path), "{what}");
        }
    }
}

#[test]
fn pods_get_the_time_that_their_end_takes() {
    for workload in all_workloads() {
        let grace = workload.pod().termination_grace_period_seconds.unwrap();
        let seconds = |option: &str| -> i64 { workload.option(option).unwrap().parse().unwrap() };
        let needed = match workload.process {
            // --drain is 10 s unless told otherwise.
            Process::Controller => 10,
            Process::Gateway => {
                seconds("KITE_DRAIN_DELAY_SECONDS") + seconds("KITE_DRAIN_SECONDS") + 60
            }
            Process::Api => 5 + 10,
        };
        assert!(grace >= needed, "{}: {grace} s", workload.what);
    }
}

#[test]
fn pods_get_the_time_that_their_options_ask_for() {
    for (process, options, wanted) in [
        (
            Process::Gateway,
            &[("KITE_DRAIN_SECONDS", "3600")][..],
            3670,
        ),
        (
            Process::Gateway,
            &[
                ("KITE_DRAIN_SECONDS", "5"),
                ("KITE_DRAIN_DELAY_SECONDS", "0"),
            ],
            65,
        ),
        (
            Process::Gateway,
            &[("KITE_DRAIN_DELAY_SECONDS", "120")],
            240,
        ),
        (Process::Controller, &[("KITE_DRAIN", "600")], 620),
        (Process::Controller, &[("KITE_DRAIN", "1")], 21),
        (Process::Api, &[("KITE_DRAIN_SECONDS", "600")], 45),
    ] {
        let mut installation = Installation::default();
        let options = options
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        installation.options.insert(process, options.collect());
        for workload in workloads("options", &installation) {
            let grace = workload.pod().termination_grace_period_seconds.unwrap();
            if workload.process == process {
                assert_eq!(grace, wanted, "{process:?}");
            }
        }
    }
}

#[test]
fn a_variable_is_there_once() {
    let mut installation = everything();
    for process in Process::ALL {
        let options = installation.options.entry(process).or_default();
        options.insert("KITE_NAMESPACE".to_owned(), "elsewhere".to_owned());
        options.insert("KITE_LOG_FORMAT".to_owned(), "text".to_owned());
    }
    for workload in workloads("twice", &installation) {
        // It looks for a second one.
        assert_eq!(workload.option("KITE_NAMESPACE"), None, "the pod's own");
        assert_eq!(workload.option("KITE_LOG_FORMAT"), Some("text"));
    }
}

#[test]
fn the_api_knows_its_own_pod_by_what_kubernetes_tells() {
    for workload in all_workloads() {
        let variables = workload.container().env.iter().flatten();
        let mut names = variables.filter(|it| it.name == "KITE_POD_NAME");
        let name = names.next().and_then(|it| it.value_from.clone());
        let field = name.and_then(|it| it.field_ref);
        let field = field.map(|it| it.field_path);
        let wanted = (workload.process == Process::Api).then_some("metadata.name");
        assert_eq!(field.as_deref(), wanted, "{}", workload.what);
        assert!(names.next().is_none(), "{}", workload.what);
    }
}

/// Whoever installs it has an audit log: where a pod may write, each for itself, and where
/// what collects logs finds it.
#[test]
fn the_audit_log_goes_to_standard_output_unless_told_otherwise() {
    let audited = |process: Process| process != Process::Controller;
    for workload in all_workloads() {
        let what = &workload.what;
        let wanted = audited(workload.process).then_some("-");
        assert_eq!(workload.option("KITE_AUDIT_TO"), wanted, "{what}");
        assert_eq!(workload.option("KITE_LOG"), None, "{what}");
    }
    let silent = "info,kite_api::audit=off,kite_gateway::audit=off";
    for (audit, log) in [(Audit::Log, None), (Audit::Nowhere, Some(silent))] {
        let installation = Installation {
            audit,
            ..Installation::default()
        };
        for workload in workloads(audit.name(), &installation) {
            let what = &workload.what;
            assert_eq!(workload.option("KITE_AUDIT_TO"), None, "{what}");
            let log = log.filter(|_| audited(workload.process));
            assert_eq!(workload.option("KITE_LOG"), log, "{what}");
        }
    }
    let mut installation = Installation::default();
    for process in Process::ALL {
        let file = ("KITE_AUDIT_TO".to_owned(), "/audit/log".to_owned());
        installation.options.insert(process, [file].into());
    }
    for workload in workloads("a file", &installation) {
        assert_eq!(workload.option("KITE_AUDIT_TO"), Some("/audit/log"));
    }
}

#[test]
fn accounts_are_there_and_are_no_others() {
    for (name, installation) in all() {
        let accounts: BTreeSet<_> = installation
            .manifests()
            .into_iter()
            .filter(|it| it.kind() == "ServiceAccount")
            .map(|it| it.name().to_owned())
            .collect();
        let used: BTreeSet<_> = workloads(name, &installation)
            .iter()
            .map(|it| it.pod().service_account_name.clone().unwrap())
            .collect();
        assert_eq!(accounts, used, "{name}");
    }
}

#[test]
fn options_of_ones_own_win() {
    let mut installation = everything();
    let gateway = installation.options.get_mut(&Process::Gateway).unwrap();
    gateway.insert("KITE_DRAIN_SECONDS".to_owned(), "5".to_owned());
    let workloads = workloads("everything", &installation);
    let gateway = workloads.iter().find(|it| it.process == Process::Gateway);
    let gateway = gateway.unwrap();
    assert_eq!(gateway.option("KITE_DRAIN_SECONDS"), Some("5"));
    assert_eq!(
        gateway.option("KITE_PROXY_PROTOCOL_FROM"),
        Some("10.0.0.0/8")
    );
}
