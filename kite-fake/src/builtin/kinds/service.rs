//! Service: defaults, updates and validation.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::builtin::access::{
    copy, default, has, list, list_mut, number, object_mut, set, text, unset,
};
use crate::metadata;
use crate::names::{label, port_name, port_number, subdomain};
use crate::schema::{CauseReason, FieldError, Validation};

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

fn is_external(service: &Value) -> bool {
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
    }
}

pub(in crate::builtin) fn prepare_create(service: &mut Value) {
    normalize_ips(service, None);
    families(service);
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
    families(new);
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

fn families(service: &mut Value) {
    if needs_cluster_ip(service) {
        let spec = object_mut(service, "spec");
        default(spec, "ipFamilyPolicy", "SingleStack");
        default(spec, "ipFamilies", json!(["IPv4"]));
    }
}

pub(in crate::builtin) fn validate(service: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let spec = &service["spec"];
    let kind = kind_of(service);
    let headless = text(spec, "clusterIP") == "None";
    if list(spec, "ports").is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    match kind {
        "NodePort" | "LoadBalancer" if headless => errors.push(FieldError::invalid(
            "spec.clusterIPs[0]",
            &json!("None"),
            format!("may not be set to 'None' for {kind} services"),
        )),
        "ExternalName" => {
            if has(spec, "clusterIPs") {
                errors.push(FieldError::forbidden(
                    "spec.clusterIPs",
                    "may not be set for ExternalName services",
                ));
            }
            let name = text(spec, "externalName").trim_end_matches('.');
            if name.is_empty() {
                errors.push(FieldError::required("spec.externalName", ""));
            } else {
                for wrong in subdomain(name) {
                    errors.push(FieldError::invalid(
                        "spec.externalName",
                        &json!(name),
                        wrong,
                    ));
                }
            }
        }
        _ => {}
    }
    ports(service, errors);
    metadata::labels(spec, "selector", "spec.selector", errors);
    let affinity = text(spec, "sessionAffinity");
    if !matches!(affinity, "None" | "ClientIP") {
        errors.push(FieldError::not_supported(
            "spec.sessionAffinity",
            &json!(affinity),
            &["ClientIP", "None"],
        ));
    }
    if !matches!(
        kind,
        "ClusterIP" | "NodePort" | "LoadBalancer" | "ExternalName"
    ) {
        errors.push(FieldError::not_supported(
            "spec.type",
            &json!(kind),
            &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        ));
    }
    for (place, ip) in list(spec, "externalIPs").iter().enumerate() {
        address(&format!("spec.externalIPs[{place}]"), ip, errors);
    }
    if is_external(service) && !matches!(text(spec, "externalTrafficPolicy"), "Cluster" | "Local") {
        errors.push(FieldError::not_supported(
            "spec.externalTrafficPolicy",
            &spec["externalTrafficPolicy"],
            &["Cluster", "Local"],
        ));
    }
    for (place, ip) in list(spec, "clusterIPs").iter().enumerate() {
        if ip != "None" {
            address(&format!("spec.clusterIPs[{place}]"), ip, errors);
        } else if list(spec, "clusterIPs").len() > 1 {
            errors.push(FieldError::invalid(
                format!("spec.clusterIPs[{place}]"),
                ip,
                "'None' must be the first and only value",
            ));
        }
    }
}

fn address(field: &str, ip: &Value, errors: &mut Vec<FieldError>) {
    if ip
        .as_str()
        .is_none_or(|text| text.parse::<IpAddr>().is_err())
    {
        errors.push(FieldError::invalid(
            field,
            ip,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ));
    }
}

fn ports(service: &Value, errors: &mut Vec<FieldError>) {
    let spec = &service["spec"];
    let all = list(spec, "ports");
    let mut names: Vec<&str> = Vec::new();
    let mut endpoints: Vec<(&Value, &Value)> = Vec::new();
    for (place, port) in all.iter().enumerate() {
        let path = format!("spec.ports[{place}]");
        let name = text(port, "name");
        if all.len() > 1 && name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else if !name.is_empty() {
            for wrong in label(name) {
                errors.push(FieldError::invalid(
                    format!("{path}.name"),
                    &json!(name),
                    wrong,
                ));
            }
            if names.contains(&name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &json!(name)));
            }
            names.push(name);
        }
        let number_of = number(port, "port").unwrap_or(0);
        if let Some(wrong) = port_number(number_of) {
            errors.push(FieldError::invalid(
                format!("{path}.port"),
                &json!(number_of),
                wrong,
            ));
        }
        if !matches!(text(port, "protocol"), "TCP" | "UDP" | "SCTP") {
            errors.push(FieldError::not_supported(
                format!("{path}.protocol"),
                &port["protocol"],
                &["SCTP", "TCP", "UDP"],
            ));
        }
        match &port["targetPort"] {
            Value::String(target) => {
                for wrong in port_name(target) {
                    errors.push(FieldError::invalid(
                        format!("{path}.targetPort"),
                        &json!(target),
                        wrong,
                    ));
                }
            }
            target => {
                if let Some(wrong) = port_number(target.as_i64().unwrap_or(0)) {
                    errors.push(FieldError::invalid(
                        format!("{path}.targetPort"),
                        target,
                        wrong,
                    ));
                }
            }
        }
        if !is_external(service) && number(port, "nodePort").is_some_and(|n| n != 0) {
            errors.push(FieldError::forbidden(
                format!("{path}.nodePort"),
                "may not be used when `type` is 'ClusterIP'",
            ));
        }
    }
    for (place, port) in all.iter().enumerate() {
        let endpoint = (&port["protocol"], &port["port"]);
        if endpoints.contains(&endpoint) {
            errors.push(FieldError::with(
                CauseReason::Duplicate,
                format!("spec.ports[{place}]"),
                format!(
                    "Duplicate value: {{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                    endpoint.0, endpoint.1
                ),
            ));
        }
        endpoints.push(endpoint);
    }
}

pub(in crate::builtin) fn validate_update(new: &Value, old: &Value, found: &mut Validation) {
    if !needs_cluster_ip(old) || !needs_cluster_ip(new) {
        return;
    }
    let before = list(&old["spec"], "clusterIPs");
    let after = list(&new["spec"], "clusterIPs");
    if let Some(first) = before.first()
        && after.first() != Some(first)
    {
        found.errors.push(FieldError::invalid(
            "spec.clusterIPs[0]",
            &json!(after),
            "may not change once set",
        ));
    }
}

/// Whether balancers have to ask nodes if they have an endpoint.
pub(super) fn needs_health_check(service: &Value) -> bool {
    kind_of(service) == "LoadBalancer" && text(&service["spec"], "externalTrafficPolicy") == "Local"
}
