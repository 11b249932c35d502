//! `PodSecurity`: what the labels of a namespace demand of Pods
//! (`k8s.io/pod-security-admission`).

use serde_json::Value;

use super::ApiServer;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::{GroupResource, Key};

/// Prefix of the labels of a namespace.
const LABEL: &str = "pod-security.kubernetes.io/";

/// Capabilities that containers have by themselves.
const USUAL: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Kernel parameters of one Pod alone.
const SAFE_SYSCTLS: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// Volumes that reach nothing of the node.
const MILD_VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    /// A level that is not known is the strictest.
    fn of(text: &str) -> Self {
        match text {
            "" | "privileged" => Self::Privileged,
            "baseline" => Self::Baseline,
            _ => Self::Restricted,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

impl ApiServer {
    /// Refuses a Pod that its namespace does not take, and warns of one, and of
    /// templates, that it would rather not.
    pub(super) fn check_security(
        &mut self,
        resource: &Resource,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(path) = template_path(resource) else {
            return Ok(());
        };
        let holder = object.pointer(path).unwrap_or(object);
        let same = |old: &Value| {
            let before = old.pointer(path).unwrap_or(old);
            before["spec"]["containers"] == holder["spec"]["containers"]
        };
        if old.is_some_and(same) {
            return Ok(());
        }
        let namespaces = GroupResource::new("", "namespaces");
        let namespace = text(&object["metadata"]["namespace"]);
        let Some(namespace) = self.store.get(&namespaces, &Key::new("", namespace)) else {
            return Ok(());
        };
        let labels = &namespace.value()["metadata"]["labels"];
        let demand = |mode: &str| {
            let level = Level::of(text(&labels[format!("{LABEL}{mode}")]));
            let version = text(&labels[format!("{LABEL}{mode}-version")]);
            let version = if version.is_empty() {
                "latest"
            } else {
                version
            };
            let wrong = violations(&holder["spec"], level);
            (!wrong.is_empty()).then(|| {
                let of = format!("{}:{version}", level.name());
                format!("violate PodSecurity {of:?}: {}", wrong.join(", "))
            })
        };
        let is_pod = resource.plural == "pods";
        let (enforced, warned) = (is_pod.then(|| demand("enforce")).flatten(), demand("warn"));
        if let Some(wrong) = enforced {
            return Err(Status::forbidden(
                &resource.group,
                &resource.plural,
                text(&object["metadata"]["name"]),
                &wrong.replacen("violate", "violates", 1),
            ));
        }
        self.warnings
            .extend(warned.map(|wrong| format!("would {wrong}")));
        Ok(())
    }
}

/// Where a kind holds what becomes a Pod.
fn template_path(resource: &Resource) -> Option<&'static str> {
    Some(match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => "",
        ("", "podtemplates") => "/template",
        ("", "replicationcontrollers")
        | ("apps", "daemonsets" | "deployments" | "replicasets" | "statefulsets")
        | ("batch", "jobs") => "/spec/template",
        ("batch", "cronjobs") => "/spec/jobTemplate/spec/template",
        _ => return None,
    })
}

/// A reason with its details, as refusals print it.
fn told(reason: &str, detail: &str) -> String {
    format!("{reason} ({detail})")
}

fn quoted(names: &[&str]) -> String {
    let all: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    all.join(", ")
}

/// `container "a"` or `containers "a", "b"`.
fn plural(word: &str, names: &[&str]) -> String {
    let ending = if names.len() == 1 { "" } else { "s" };
    format!("{word}{ending} {}", quoted(names))
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|list| spec[list].as_array().into_iter().flatten())
}

/// The names of the containers of which something holds.
fn which(spec: &Value, holds: impl Fn(&Value) -> bool) -> Vec<&str> {
    containers(spec)
        .filter(|container| holds(container))
        .map(|container| text(&container["name"]))
        .collect()
}

fn violations(spec: &Value, level: Level) -> Vec<String> {
    let mut wrong = Vec::new();
    if level == Level::Privileged {
        return wrong;
    }
    let restricted = level == Level::Restricted;
    baseline(spec, restricted, &mut wrong);
    if restricted {
        restrict(spec, &mut wrong);
    }
    wrong
}

/// The capabilities that containers add beyond `allowed`, and who does.
fn added<'a>(spec: &'a Value, allowed: &[&str]) -> (Vec<&'a str>, Vec<&'a str>) {
    let beyond = |container: &'a Value| {
        let all = container["securityContext"]["capabilities"]["add"].as_array();
        let all = all.into_iter().flatten().filter_map(Value::as_str);
        all.filter(|capability| !allowed.contains(capability))
    };
    let who = which(spec, |container| {
        let all = container["securityContext"]["capabilities"]["add"].as_array();
        all.into_iter()
            .flatten()
            .any(|capability| !allowed.contains(&text(capability)))
    });
    let mut what: Vec<&str> = containers(spec).flat_map(beyond).collect();
    what.sort_unstable();
    what.dedup();
    (who, what)
}

fn baseline(spec: &Value, restricted: bool, wrong: &mut Vec<String>) {
    if !restricted {
        let (who, what) = added(spec, USUAL);
        if !who.is_empty() {
            let detail = format!(
                "{} must not include {} in securityContext.capabilities.add",
                plural("container", &who),
                quoted(&what)
            );
            wrong.push(told("non-default capabilities", &detail));
        }
    }
    let spaces = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let spaces: Vec<String> = spaces
        .filter(|space| spec[space] == true)
        .map(|space| format!("{space}=true"))
        .collect();
    if !spaces.is_empty() {
        wrong.push(told("host namespaces", &spaces.join(", ")));
    }
    if !restricted {
        let volumes = spec["volumes"].as_array().into_iter().flatten();
        let names: Vec<&str> = volumes
            .filter(|volume| volume["hostPath"].is_object())
            .map(|volume| text(&volume["name"]))
            .collect();
        if !names.is_empty() {
            wrong.push(told("hostPath volumes", &plural("volume", &names)));
        }
    }
    host_ports(spec, wrong);
    let who = which(spec, |c| c["securityContext"]["privileged"] == true);
    if !who.is_empty() {
        let detail = format!(
            "{} must not set securityContext.privileged=true",
            plural("container", &who)
        );
        wrong.push(told("privileged", &detail));
    }
    let unmasked = |c: &Value| !matches!(text(&c["securityContext"]["procMount"]), "" | "Default");
    let who = which(spec, unmasked);
    if !who.is_empty() {
        let detail = format!(
            "{} must not set securityContext.procMount to \"Unmasked\"",
            plural("container", &who)
        );
        wrong.push(told("procMount", &detail));
    }
    if !restricted {
        let unconfined =
            |of: &Value| of["securityContext"]["seccompProfile"]["type"] == "Unconfined";
        let who = which(spec, unconfined);
        let mut details = Vec::new();
        if unconfined(spec) {
            details.push("pod".to_owned());
        }
        if !who.is_empty() {
            details.push(plural("container", &who));
        }
        if !details.is_empty() {
            let detail = format!(
                "{} must not set securityContext.seccompProfile.type to \"Unconfined\"",
                details.join(" and ")
            );
            wrong.push(told("seccompProfile", &detail));
        }
    }
    let sysctls = spec["securityContext"]["sysctls"].as_array();
    let unsafe_ones: Vec<&str> = sysctls
        .into_iter()
        .flatten()
        .map(|sysctl| text(&sysctl["name"]))
        .filter(|name| !SAFE_SYSCTLS.contains(name))
        .collect();
    if !unsafe_ones.is_empty() {
        wrong.push(told("forbidden sysctls", &unsafe_ones.join(", ")));
    }
}

fn host_ports(spec: &Value, wrong: &mut Vec<String>) {
    let of = |container: &Value| -> Vec<i64> {
        let ports = container["ports"].as_array().into_iter().flatten();
        ports
            .filter_map(|port| port["hostPort"].as_i64().filter(|n| *n != 0))
            .collect()
    };
    let who = which(spec, |container| !of(container).is_empty());
    if who.is_empty() {
        return;
    }
    let mut ports: Vec<i64> = containers(spec).flat_map(of).collect();
    ports.sort_unstable();
    ports.dedup();
    let shown: Vec<String> = ports.iter().map(ToString::to_string).collect();
    let uses = if who.len() == 1 { "uses" } else { "use" };
    let ending = if ports.len() == 1 { "" } else { "s" };
    let detail = format!(
        "{} {uses} hostPort{ending} {}",
        plural("container", &who),
        shown.join(", ")
    );
    wrong.push(told("hostPort", &detail));
}

fn restrict(spec: &Value, wrong: &mut Vec<String>) {
    let escalates = |c: &Value| c["securityContext"]["allowPrivilegeEscalation"] != false;
    let who = which(spec, escalates);
    if !who.is_empty() {
        let detail = format!(
            "{} must set securityContext.allowPrivilegeEscalation=false",
            plural("container", &who)
        );
        wrong.push(told("allowPrivilegeEscalation != false", &detail));
    }
    capabilities(spec, wrong);
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let mut names = Vec::new();
    let mut kinds: Vec<&str> = Vec::new();
    for volume in volumes {
        let all = volume
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::keys);
        for kind in all.filter(|kind| *kind != "name") {
            if !MILD_VOLUMES.contains(&kind.as_str()) {
                names.push(text(&volume["name"]));
                kinds.push(kind);
            }
        }
    }
    if !names.is_empty() {
        kinds.sort_unstable();
        kinds.dedup();
        let uses = if names.len() == 1 { "uses" } else { "use" };
        let detail = format!(
            "{} {uses} restricted volume {}",
            plural("volume", &names),
            plural("type", &kinds)
        );
        wrong.push(told("restricted volume types", &detail));
    }
    non_root(spec, wrong);
    let confined = |of: &Value| {
        let kind = text(&of["securityContext"]["seccompProfile"]["type"]);
        matches!(kind, "RuntimeDefault" | "Localhost")
    };
    let said = |of: &Value| !of["securityContext"]["seccompProfile"]["type"].is_null();
    let who = which(spec, |c| !confined(c) && (said(c) || !confined(spec)));
    if !who.is_empty() {
        let whose = if confined(spec) { "" } else { "pod or " };
        let detail = format!(
            "{whose}{} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            plural("container", &who)
        );
        wrong.push(told("seccompProfile", &detail));
    }
}

fn capabilities(spec: &Value, wrong: &mut Vec<String>) {
    let keeps = |c: &Value| {
        let dropped = c["securityContext"]["capabilities"]["drop"].as_array();
        !dropped.into_iter().flatten().any(|one| one == "ALL")
    };
    let mut details = Vec::new();
    let who = which(spec, keeps);
    if !who.is_empty() {
        details.push(format!(
            "{} must set securityContext.capabilities.drop=[\"ALL\"]",
            plural("container", &who)
        ));
    }
    let (who, what) = added(spec, &["NET_BIND_SERVICE"]);
    if !who.is_empty() {
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            plural("container", &who),
            quoted(&what)
        ));
    }
    if !details.is_empty() {
        wrong.push(told("unrestricted capabilities", &details.join("; ")));
    }
}

fn non_root(spec: &Value, wrong: &mut Vec<String>) {
    let says = |of: &Value| of["securityContext"]["runAsNonRoot"].as_bool();
    let pod = says(spec);
    let refused = which(spec, |c| says(c) == Some(false));
    let silent = which(spec, |c| says(c).is_none());
    let mut details = Vec::new();
    if pod == Some(false) {
        details.push("pod must not set securityContext.runAsNonRoot=false".to_owned());
    }
    if !refused.is_empty() {
        details.push(format!(
            "{} must not set securityContext.runAsNonRoot=false",
            plural("container", &refused)
        ));
    }
    if details.is_empty() && pod != Some(true) && !silent.is_empty() {
        details.push(format!(
            "pod or {} must set securityContext.runAsNonRoot=true",
            plural("container", &silent)
        ));
    }
    if !details.is_empty() {
        wrong.push(told("runAsNonRoot != true", &details.join(", ")));
    }
    let root = |of: &Value| of["securityContext"]["runAsUser"] == 0;
    let mut details = Vec::new();
    if root(spec) {
        details.push("pod".to_owned());
    }
    let who = which(spec, root);
    if !who.is_empty() {
        details.push(plural("container", &who));
    }
    if !details.is_empty() {
        let detail = format!("{} must not set runAsUser=0", details.join(" and "));
        wrong.push(told("runAsUser=0", &detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plain_pod_is_not_restricted_enough() {
        let spec = json!({"containers": [{"name": "c"}]});
        assert_eq!(violations(&spec, Level::Baseline), Vec::<String>::new());
        assert_eq!(
            violations(&spec, Level::Restricted).join(", "),
            "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
        );
    }

    #[test]
    fn a_pod_that_reaches_the_node_is_not_even_baseline() {
        let spec = json!({"hostNetwork": true, "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
            "containers": [{"name": "c", "securityContext": {"privileged": true}},
                {"name": "d", "ports": [{"containerPort": 1, "hostPort": 80}]}]});
        assert_eq!(
            violations(&spec, Level::Baseline),
            [
                "host namespaces (hostNetwork=true)",
                "hostPath volumes (volume \"v\")",
                "hostPort (container \"d\" uses hostPort 80)",
                "privileged (container \"c\" must not set securityContext.privileged=true)",
            ]
        );
    }

    #[test]
    fn a_careful_pod_is_taken() {
        let spec = json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "c", "securityContext": {"allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}}]});
        assert_eq!(violations(&spec, Level::Restricted), Vec::<String>::new());
    }
}
