//! The cluster itself: what it runs, and what runs it.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Node;
use kube::{ResourceExt as _, api::DynamicObject};

use super::{
    facts::{Facts, Seen},
    finding::{Finding, State},
    version::Version,
};

/// CEL rules with `quantity()` and selectable fields of custom resources.
const OLDEST_KUBERNETES: Version = Version(1, 31);
/// What Kite is tested with.
const KUBEVIRT: Version = Version(1, 9);
const CDI: Version = Version(1, 66);
/// Beyond this codes of authenticator apps and times of sessions go wrong.
const MOST_AHEAD: SignedDuration = SignedDuration::from_secs(5);
/// Label of nodes that take VMs.
const TAKES_VMS: &str = "kubevirt.io/schedulable";
/// Hardware virtualisation, as nodes tell of it.
const KVM: &str = "devices.kubevirt.io/kvm";
/// `DaemonSets` of network plugins that enforce `NetworkPolicies`, by what their
/// names begin with.
const ENFORCING: [&str; 8] = [
    "calico-node",
    "cilium",
    "antrea-agent",
    "kube-router",
    "weave-net",
    "ovnkube-node",
    "kube-ovn-cni",
    "canal",
];

pub(super) fn api_server(facts: &Facts) -> Finding {
    let check = "apiServer";
    let text = match &facts.version {
        Seen::Known(text) => text,
        Seen::Failed(error) => {
            return Finding::of(
                check,
                State::Unfit,
                format!("does not answer: {error}"),
                "see whether kubectl version reaches it, and name another context with --context",
            );
        }
        Seen::Absent | Seen::Refused => {
            return Finding::of(
                check,
                State::Unfit,
                "does not tell its version",
                "use credentials that the cluster knows: see kubectl auth whoami",
            );
        }
    };
    match Version::parse(text) {
        Some(version) if version >= OLDEST_KUBERNETES => {
            Finding::fit(check, format!("Kubernetes {text}"))
        }
        Some(_) => Finding::of(
            check,
            State::Unfit,
            format!("Kubernetes {text} is too old"),
            format!("upgrade the cluster to {OLDEST_KUBERNETES} or newer"),
        ),
        None => Finding::of(
            check,
            State::Unknown,
            format!("its version {text:?} is none that can be read"),
            format!("see to it that it is {OLDEST_KUBERNETES} or newer"),
        ),
    }
}

pub(super) fn clock(facts: &Facts) -> Finding {
    let check = "clock";
    match facts.ahead {
        None => Finding::of(
            check,
            State::Unknown,
            "the API server does not say what time it is",
            "see to it that all nodes take their time from one source (NTP)",
        ),
        Some(ahead) if ahead.abs() <= MOST_AHEAD => {
            Finding::fit(check, "the API server's clock and this machine's agree")
        }
        Some(ahead) => {
            let (seconds, which) = (ahead.abs().as_secs(), ahead.is_positive());
            let which = if which { "ahead of" } else { "behind" };
            Finding::of(
                check,
                State::Warning,
                format!("the API server's clock is {seconds} s {which} this machine's"),
                "set both by NTP: sign-in codes, sessions and elections go by time",
            )
        }
    }
}

/// An operator of the `KubeVirt` project, as its own object tells of it.
struct Operator {
    check: &'static str,
    name: &'static str,
    version_field: &'static str,
    tested: Version,
    remedy: &'static str,
}

pub(super) fn kubevirt(facts: &Facts) -> Finding {
    let operator = Operator {
        check: "kubevirt",
        name: "KubeVirt",
        version_field: "observedKubeVirtVersion",
        tested: KUBEVIRT,
        remedy: "install KubeVirt's operator and a KubeVirt object: \
                 https://kubevirt.io/user-guide/cluster_admin/installation/",
    };
    operator.judge(&facts.kubevirt)
}

pub(super) fn cdi(facts: &Facts) -> Finding {
    let operator = Operator {
        check: "cdi",
        name: "CDI",
        version_field: "observedVersion",
        tested: CDI,
        remedy: "install CDI's operator and a CDI object: \
                 https://kubevirt.io/user-guide/storage/containerized_data_importer/",
    };
    operator.judge(&facts.cdi)
}

impl Operator {
    fn judge(&self, seen: &Seen<Vec<DynamicObject>>) -> Finding {
        let (check, name) = (self.check, self.name);
        let objects = match seen {
            Seen::Known(objects) => objects,
            Seen::Absent => {
                return Finding::of(
                    check,
                    State::Unfit,
                    format!("{name} is not installed"),
                    self.remedy,
                );
            }
            Seen::Refused | Seen::Failed(_) => return unseen(check, name, seen),
        };
        let Some(object) = objects.first() else {
            return Finding::of(
                check,
                State::Unfit,
                format!("{name}'s operator is there, and no {name} object that has it work"),
                self.remedy,
            );
        };
        let status = |field: &str| object.data["status"][field].as_str();
        if status("phase") != Some("Deployed") {
            let phase = status("phase").unwrap_or("unknown");
            return Finding::of(
                check,
                State::Unfit,
                format!("{name} is not up: its phase is {phase}"),
                format!("look at kubectl describe {}", check_kind(check, object)),
            );
        }
        let text = status(self.version_field).unwrap_or("of an unknown version");
        match Version::parse(text) {
            Some(version) if version < self.tested => Finding::of(
                check,
                State::Warning,
                format!("{name} {text} is older than what Kite is tested with"),
                format!("upgrade it to {} or newer", self.tested),
            ),
            _ => Finding::fit(check, format!("{name} {text}")),
        }
    }
}

fn check_kind(kind: &str, object: &DynamicObject) -> String {
    let namespace = object.namespace();
    let place = namespace.map(|it| format!(" -n {it}")).unwrap_or_default();
    format!("{kind}{place} {}", object.name_any())
}

/// What to say of what could not be looked at.
pub(super) fn unseen<T>(check: &'static str, what: &str, seen: &Seen<T>) -> Finding {
    match seen {
        Seen::Failed(error) => Finding::of(
            check,
            State::Unknown,
            format!("{what} cannot be looked at: {error}"),
            "try again",
        ),
        Seen::Refused | Seen::Absent | Seen::Known(_) => Finding::of(
            check,
            State::Unknown,
            format!("you may not look at {what}"),
            "ask as somebody who may: a cluster administrator",
        ),
    }
}

pub(super) fn nodes(facts: &Facts) -> Finding {
    let check = "nodes";
    let Seen::Known(nodes) = &facts.nodes else {
        return unseen(check, "nodes", &facts.nodes);
    };
    let takes_vms = |node: &&Node| node.labels().get(TAKES_VMS).is_some_and(|it| it == "true");
    let fit: Vec<_> = nodes.iter().filter(takes_vms).collect();
    let all = nodes.len();
    if fit.is_empty() {
        return Finding::of(
            check,
            State::Unfit,
            format!("none of {all} nodes takes VMs (label {TAKES_VMS})"),
            "see whether KubeVirt's virt-handler runs on the nodes: kubectl get pods -A -l \
             kubevirt.io=virt-handler",
        );
    }
    let has_kvm = |node: &&&Node| {
        let status = node.status.as_ref();
        let devices = status.and_then(|it| it.allocatable.as_ref()?.get(KVM));
        devices.is_some_and(|count| count.0 != "0")
    };
    let quick = fit.iter().filter(has_kvm).count();
    if quick == 0 {
        return Finding::of(
            check,
            State::Warning,
            format!(
                "{} of {all} nodes take VMs, and none has hardware virtualisation",
                fit.len()
            ),
            "turn virtualisation on in the firmware, or nested virtualisation where nodes are VMs \
             themselves; without it KubeVirt starts VMs only if useEmulation is set, and slowly",
        );
    }
    Finding::fit(
        check,
        format!("{} of {all} nodes take VMs, {quick} by hardware", fit.len()),
    )
}

pub(super) fn network_policies(facts: &Facts) -> Finding {
    let check = "networkPolicies";
    let sets = facts.daemon_sets.known();
    let plugin = sets.into_iter().flatten().find_map(|set| {
        let name = set.name_any();
        ENFORCING.iter().find(|known| name.starts_with(**known))?;
        Some(name)
    });
    let k3s = facts.nodes.known().into_iter().flatten().any(|node| {
        let info = node.status.as_ref().and_then(|it| it.node_info.as_ref());
        info.is_some_and(|info| {
            let version = &info.kubelet_version;
            version.contains("+k3s") || version.contains("+rke2")
        })
    });
    match (plugin, k3s) {
        (Some(plugin), _) => Finding::fit(check, format!("{plugin} enforces them")),
        (None, true) => Finding::fit(check, "k3s enforces them, unless it was told not to"),
        (None, false) => Finding::of(
            check,
            State::Unknown,
            "no network plugin is known here that enforces NetworkPolicies",
            "see to it that yours does: without one nothing keeps tenants apart",
        ),
    }
}
