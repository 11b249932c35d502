//! Pods and pod templates: defaults, and what a new Pod has.

use serde_json::{Value, json};

use crate::members::{default, has, list, list_mut, members, object_mut, set, text};

/// The mode of files from Secrets, `ConfigMap`s and the like: 0644.
const FILE_MODE: i64 = 0o644;

const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The defaults of a pod template.
pub(in crate::builtin) fn default_template(template: &mut Value) {
    default_spec(object_mut(template, "spec"));
}

/// The defaults of a Pod, which has some more than a template.
pub(in crate::builtin) fn default_pod(pod: &mut Value) {
    let spec = object_mut(pod, "spec");
    default_spec(spec);
    default(spec, "enableServiceLinks", true);
    for containers in CONTAINER_LISTS {
        for container in list_mut(spec, containers) {
            // What is limited and not requested is requested.
            let resources = object_mut(container, "resources");
            let limits: Vec<(String, Value)> = members(resources, "limits")
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            for (name, value) in limits {
                let requests = object_mut(resources, "requests");
                if !has(requests, &name) {
                    set(requests, &name, value);
                }
            }
        }
    }
}

fn default_spec(spec: &mut Value) {
    default(spec, "restartPolicy", "Always");
    default(spec, "terminationGracePeriodSeconds", 30);
    default(spec, "dnsPolicy", "ClusterFirst");
    default(spec, "securityContext", json!({}));
    default(spec, "schedulerName", "default-scheduler");
    // The old name of the field says the same.
    if has(spec, "serviceAccountName") {
        let account = spec["serviceAccountName"].clone();
        set(spec, "serviceAccount", account);
    } else if has(spec, "serviceAccount") {
        let account = spec["serviceAccount"].clone();
        set(spec, "serviceAccountName", account);
    }
    let host_network = spec["hostNetwork"] == true;
    for volume in list_mut(spec, "volumes") {
        default_volume(volume);
    }
    for containers in CONTAINER_LISTS {
        for container in list_mut(spec, containers) {
            default_container(container, host_network);
        }
    }
}

fn default_volume(volume: &mut Value) {
    let bare = volume.as_object().is_some_and(|members| members.len() <= 1);
    if bare {
        set(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if has(volume, source) {
            default(object_mut(volume, source), "defaultMode", FILE_MODE);
        }
    }
    if has(volume, "hostPath") {
        let path = object_mut(volume, "hostPath");
        if !has(path, "type") {
            set(path, "type", "");
        }
    }
    if has(volume, "projected") {
        for source in list_mut(object_mut(volume, "projected"), "sources") {
            if has(source, "serviceAccountToken") {
                default(
                    object_mut(source, "serviceAccountToken"),
                    "expirationSeconds",
                    3600,
                );
            }
        }
    }
}

fn default_container(container: &mut Value, host_network: bool) {
    let image = text(container, "image").to_owned();
    default(container, "imagePullPolicy", pull_policy(&image));
    default(container, "terminationMessagePath", "/dev/termination-log");
    default(container, "terminationMessagePolicy", "File");
    for port in list_mut(container, "ports") {
        default(port, "protocol", "TCP");
        if host_network {
            let number = port["containerPort"].clone();
            default(port, "hostPort", number);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if has(container, probe) {
            default_probe(object_mut(container, probe));
        }
    }
    for variable in list_mut(container, "env") {
        if let Some(reference) = variable.pointer_mut("/valueFrom/fieldRef") {
            default(reference, "apiVersion", "v1");
        }
    }
    if has(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(get) = container["lifecycle"].pointer_mut(&format!("/{hook}/httpGet")) {
                default_http_get(get);
            }
        }
    }
}

/// Images without a tag, or with `latest`, are pulled always.
fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or_default();
    let latest = match name.split_once(['@', ':']) {
        None => true,
        Some((_, tag)) => tag == "latest",
    };
    if latest { "Always" } else { "IfNotPresent" }
}

fn default_probe(probe: &mut Value) {
    default(probe, "timeoutSeconds", 1);
    default(probe, "periodSeconds", 10);
    default(probe, "successThreshold", 1);
    default(probe, "failureThreshold", 3);
    if has(probe, "httpGet") {
        default_http_get(object_mut(probe, "httpGet"));
    }
    if has(probe, "grpc") {
        let grpc = object_mut(probe, "grpc");
        if !has(grpc, "service") {
            set(grpc, "service", "");
        }
    }
}

fn default_http_get(get: &mut Value) {
    default(get, "path", "/");
    default(get, "scheme", "HTTP");
}

/// A new Pod tolerates a lost node for five minutes (`DefaultTolerationSeconds`).
pub(in crate::builtin) fn tolerate_lost_nodes(pod: &mut Value) {
    let spec = object_mut(pod, "spec");
    let mut tolerations = list(spec, "tolerations").to_vec();
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let tolerated = tolerations.iter().any(|t| {
            // A toleration without a key tolerates everything.
            text(t, "key").is_empty() || text(t, "key") == key
        });
        if !tolerated {
            tolerations.push(json!({"key": key, "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    set(spec, "tolerations", tolerations);
}

/// A new Pod waits, and has the quality of service that its resources say.
pub(in crate::builtin) fn prepare_pod(pod: &mut Value) {
    let class = quality(&pod["spec"]);
    let mut status = json!({"phase": "Pending", "qosClass": class});
    if !list(&pod["spec"], "schedulingGates").is_empty() {
        // No scheduler looks at it: so the server says it.
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": null,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    set(pod, "status", status);
}

/// The quality of service that the resources of the containers give.
pub(in crate::builtin) fn quality(spec: &Value) -> &'static str {
    let containers = || {
        CONTAINER_LISTS[..2]
            .iter()
            .flat_map(|name| list(spec, name))
    };
    let amount = |container: &Value, kind: &str, name: &str| {
        container["resources"][kind][name]
            .as_str()
            .map(str::to_owned)
    };
    let names = ["cpu", "memory"];
    let any = containers().any(|c| {
        names
            .iter()
            .any(|n| amount(c, "limits", n).is_some() || amount(c, "requests", n).is_some())
    });
    if !any {
        return "BestEffort";
    }
    let all = containers().all(|c| {
        names.iter().all(|n| {
            let limit = amount(c, "limits", n);
            limit.is_some() && limit == amount(c, "requests", n)
        })
    });
    if all { "Guaranteed" } else { "Burstable" }
}
