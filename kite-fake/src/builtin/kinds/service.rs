//! Service: defaults, and what an update keeps and drops.

use serde_json::{Value, json};

use super::families;
use crate::members::{copy, default, has, list, list_mut, number, object_mut, set, text, unset};

/// The default of `sessionAffinityConfig.clientIP.timeoutSeconds`.
const AFFINITY_SECONDS: i64 = 10_800;

pub(super) fn kind_of(service: &Value) -> &str {
    text(&service["spec"], "type")
}

pub(super) fn needs_cluster_ip(service: &Value) -> bool {
    matches!(kind_of(service), "ClusterIP" | "NodePort" | "LoadBalancer")
}

pub(super) fn needs_node_ports(service: &Value) -> bool {
    match kind_of(service) {
        "NodePort" => true,
        "LoadBalancer" => service["spec"]["allocateLoadBalancerNodePorts"] != Value::Bool(false),
        _ => false,
    }
}

pub(super) fn is_external(service: &Value) -> bool {
    matches!(kind_of(service), "NodePort" | "LoadBalancer")
}

pub(in crate::builtin) fn defaults(service: &mut Value) {
    let spec = object_mut(service, "spec");
    default(spec, "sessionAffinity", "None");
    if text(spec, "sessionAffinity") == "ClientIP" {
        let config = object_mut(spec, "sessionAffinityConfig");
        default(
            object_mut(config, "clientIP"),
            "timeoutSeconds",
            AFFINITY_SECONDS,
        );
    }
    default(spec, "type", "ClusterIP");
    for port in list_mut(spec, "ports") {
        default(port, "protocol", "TCP");
        let target = port.get("targetPort");
        if target.is_none_or(|t| *t == json!(0) || *t == json!("")) {
            let number = port.get("port").cloned().unwrap_or(json!(0));
            set(port, "targetPort", number);
        }
    }
    let kind = text(spec, "type").to_owned();
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "ClusterIP" | "NodePort" | "LoadBalancer") {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
        let balancer = service.pointer_mut("/status/loadBalancer");
        for ingress in balancer.map_or(&mut [][..], |it| list_mut(it, "ingress")) {
            if !text(ingress, "ip").is_empty() {
                default(ingress, "ipMode", "VIP");
            }
        }
    }
}

pub(in crate::builtin) fn prepare_create(service: &mut Value) {
    normalize_ips(service, None);
    // What does not fit is told by validation.
    let _ = families::settle(service, None);
}

pub(in crate::builtin) fn prepare_update(new: &mut Value, old: &Value, subresource: &str) {
    if subresource == "status" {
        return;
    }
    normalize_ips(new, Some(old));
    let external = |service: &Value| kind_of(service) == "ExternalName";
    // What was allocated stays unless it is named or no longer needed.
    if needs_cluster_ip(old) && needs_cluster_ip(new) {
        for member in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if !has(&new["spec"], member) {
                copy(object_mut(new, "spec"), &old["spec"], member);
            }
        }
    } else if needs_cluster_ip(old) && external(new) {
        for member in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if new["spec"].get(member) == old["spec"].get(member) {
                unset(object_mut(new, "spec"), member);
            }
        }
    }
    if needs_node_ports(old) && needs_node_ports(new) {
        keep_node_ports(new, old);
    } else if needs_node_ports(old) && node_ports(new) == node_ports(old) {
        for port in list_mut(object_mut(new, "spec"), "ports") {
            unset(port, "nodePort");
        }
    }
    if is_external(old) && !is_external(new) {
        drop_if_same(new, old, "externalTrafficPolicy");
    }
    if needs_health_check(old) {
        if !needs_health_check(new) {
            drop_if_same(new, old, "healthCheckNodePort");
        } else if !has(&new["spec"], "healthCheckNodePort") {
            copy(object_mut(new, "spec"), &old["spec"], "healthCheckNodePort");
        }
    }
    if kind_of(old) == "LoadBalancer" && kind_of(new) != "LoadBalancer" {
        drop_if_same(new, old, "allocateLoadBalancerNodePorts");
        drop_if_same(new, old, "loadBalancerClass");
    }
    if external(new) {
        drop_if_same(new, old, "internalTrafficPolicy");
    }
    // What does not fit is told by validation.
    let _ = families::settle(new, Some(old));
}

fn drop_if_same(new: &mut Value, old: &Value, member: &str) {
    if new["spec"].get(member) == old["spec"].get(member) {
        unset(object_mut(new, "spec"), member);
    }
}

pub(super) fn node_ports(service: &Value) -> Vec<i64> {
    list(&service["spec"], "ports")
        .iter()
        .filter_map(|port| number(port, "nodePort"))
        .collect()
}

fn keep_node_ports(new: &mut Value, old: &Value) {
    let taken = node_ports(new);
    for port in list_mut(object_mut(new, "spec"), "ports") {
        if number(port, "nodePort").is_some() {
            continue;
        }
        let same = |other: &&Value| {
            other.get("port") == port.get("port") && other.get("protocol") == port.get("protocol")
        };
        let before = list(&old["spec"], "ports").iter().find(same);
        if let Some(kept) = before.and_then(|b| number(b, "nodePort"))
            && !taken.contains(&kept)
        {
            set(port, "nodePort", kept);
        }
    }
}

/// `clusterIP` and `clusterIPs[0]` say the same; who sets one means both.
fn normalize_ips(new: &mut Value, old: Option<&Value>) {
    let spec = object_mut(new, "spec");
    let single = text(spec, "clusterIP").to_owned();
    match old {
        None => {
            if !single.is_empty() && list(spec, "clusterIPs").is_empty() {
                set(spec, "clusterIPs", json!([single]));
            } else if single.is_empty()
                && let Some(first) = list(spec, "clusterIPs").first().cloned()
            {
                set(spec, "clusterIP", first);
            }
        }
        Some(old) => {
            let before = text(&old["spec"], "clusterIP");
            let same_list = spec.get("clusterIPs") == old["spec"].get("clusterIPs");
            if single != before && same_list {
                if single.is_empty() {
                    unset(spec, "clusterIPs");
                } else {
                    set(spec, "clusterIPs", json!([single]));
                }
            } else if single == before
                && !same_list
                && let Some(first) = list(spec, "clusterIPs").first().cloned()
            {
                set(spec, "clusterIP", first);
            } else if !single.is_empty() && list(spec, "clusterIPs").is_empty() {
                set(spec, "clusterIPs", json!([single]));
            }
        }
    }
}

/// Whether balancers have to ask nodes if they have an endpoint.
pub(super) fn needs_health_check(service: &Value) -> bool {
    kind_of(service) == "LoadBalancer" && text(&service["spec"], "externalTrafficPolicy") == "Local"
}
