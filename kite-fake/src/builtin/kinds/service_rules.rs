//! Validation of Services.

use serde_json::{Value, json};

use super::families;
use super::service::{is_external, kind_of, needs_health_check};
use crate::builtin::check;
use crate::members::{has, list, number, text};
use crate::metadata;
use crate::names::{label, port_number};
use crate::schema::{CauseReason, FieldError, Validation};

/// Longest time that a client stays with an endpoint, in seconds: a day.
const MAX_AFFINITY_SECONDS: i64 = 86_400;

const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

const ONLY_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";

/// Checks a Service.
pub(in crate::builtin) fn validate(service: &Value, found: &mut Validation) {
    warnings(service, &mut found.warnings);
    let errors = &mut found.errors;
    let spec = &service["spec"];
    let kind = kind_of(service);
    annotations(service, errors);
    if list(spec, "ports").is_empty() && !families::is_headless(service) && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    match kind {
        "NodePort" | "LoadBalancer" if families::is_headless(service) => {
            errors.push(FieldError::invalid(
                "spec.clusterIPs[0]",
                &json!("None"),
                format!("may not be set to 'None' for {kind} services"),
            ));
        }
        "ExternalName" => external_name(spec, errors),
        _ => {}
    }
    ports(service, errors);
    metadata::labels(spec, "selector", "spec.selector", errors);
    affinity(spec, errors);
    // Filling in the families finds what is malformed, and what is not there.
    let mut copy = service.clone();
    if let Err(wrong) = families::settle(&mut copy, None) {
        errors.extend(wrong);
    }
    for (place, ip) in list(spec, "externalIPs").iter().enumerate() {
        let field = format!("spec.externalIPs[{place}]");
        if let Some(address) = check::ip(ip, &field, errors) {
            check::reachable_ip(address, ip, &field, errors);
        }
    }
    check::one_of(
        spec,
        "type",
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        "spec",
        errors,
    );
    balancer(service, errors);
    traffic(service, errors);
}

fn annotations(service: &Value, errors: &mut Vec<FieldError>) {
    let annotations = &service["metadata"]["annotations"];
    if has(annotations, HINTS) && has(annotations, MODE) && annotations[HINTS] != annotations[MODE]
    {
        errors.push(FieldError::invalid(
            format!("metadata.annotations[{MODE}]"),
            &annotations[MODE],
            format!("must match annotations[{HINTS}] when both are specified"),
        ));
    }
}

fn external_name(spec: &Value, errors: &mut Vec<FieldError>) {
    for member in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if has(spec, member) {
            errors.push(FieldError::forbidden(
                format!("spec.{member}"),
                "may not be set for ExternalName services",
            ));
        }
    }
    let name = text(spec, "externalName");
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        errors.push(FieldError::required("spec.externalName", ""));
    } else {
        check::subdomain(name, "spec.externalName", errors);
    }
}

fn affinity(spec: &Value, errors: &mut Vec<FieldError>) {
    check::one_of(
        spec,
        "sessionAffinity",
        &["ClientIP", "None"],
        "spec",
        errors,
    );
    match text(spec, "sessionAffinity") {
        "ClientIP" => {
            let seconds = number(&spec["sessionAffinityConfig"]["clientIP"], "timeoutSeconds");
            if let Some(seconds) = seconds.filter(|n| !(1..=MAX_AFFINITY_SECONDS).contains(n)) {
                errors.push(FieldError::invalid(
                    "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
                    &json!(seconds),
                    format!("must be greater than 0 and less than {MAX_AFFINITY_SECONDS}"),
                ));
            }
        }
        "None" if has(spec, "sessionAffinityConfig") => errors.push(FieldError::forbidden(
            "spec.sessionAffinityConfig",
            "must not be set when session affinity is None",
        )),
        _ => {}
    }
}

fn ports(service: &Value, errors: &mut Vec<FieldError>) {
    let all = list(&service["spec"], "ports");
    let mut names: Vec<&str> = Vec::new();
    for (place, one) in all.iter().enumerate() {
        let path = format!("spec.ports[{place}]");
        port(one, &path, all.len() > 1, &mut names, errors);
        if kind_of(service) == "ClusterIP" && number(one, "nodePort").is_some_and(|n| n != 0) {
            errors.push(FieldError::forbidden(
                format!("{path}.nodePort"),
                "may not be used when `type` is 'ClusterIP'",
            ));
        }
    }
    let mut node_ports: Vec<(&str, i64)> = Vec::new();
    let mut endpoints: Vec<(&str, i64)> = Vec::new();
    for (place, one) in all.iter().enumerate() {
        let protocol = text(one, "protocol");
        let node_port = (protocol, number(one, "nodePort").unwrap_or(0));
        if node_port.1 != 0 {
            if node_ports.contains(&node_port) {
                let field = format!("spec.ports[{place}].nodePort");
                errors.push(FieldError::duplicate(field, &json!(node_port.1)));
            }
            node_ports.push(node_port);
        }
        let endpoint = (protocol, number(one, "port").unwrap_or(0));
        if endpoints.contains(&endpoint) {
            errors.push(FieldError::with(
                CauseReason::Duplicate,
                format!("spec.ports[{place}]"),
                format!(
                    "Duplicate value: {{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                    json!(endpoint.0),
                    endpoint.1
                ),
            ));
        }
        endpoints.push(endpoint);
    }
}

fn port<'a>(
    port: &'a Value,
    path: &str,
    needs_name: bool,
    names: &mut Vec<&'a str>,
    errors: &mut Vec<FieldError>,
) {
    let name = text(port, "name");
    let field = format!("{path}.name");
    if name.is_empty() {
        if needs_name {
            errors.push(FieldError::required(field, ""));
        }
    } else {
        check::invalid(&field, &json!(name), label(name), errors);
        if names.contains(&name) {
            errors.push(FieldError::duplicate(field, &json!(name)));
        }
        names.push(name);
    }
    let number_of = number(port, "port").unwrap_or(0);
    check::invalid(
        &format!("{path}.port"),
        &json!(number_of),
        port_number(number_of),
        errors,
    );
    check::one_of(port, "protocol", &["SCTP", "TCP", "UDP"], path, errors);
    check::port(&port["targetPort"], &format!("{path}.targetPort"), errors);
    if has(port, "appProtocol") {
        let field = format!("{path}.appProtocol");
        check::qualified(text(port, "appProtocol"), &field, errors);
    }
}

fn balancer(service: &Value, errors: &mut Vec<FieldError>) {
    let spec = &service["spec"];
    let is_balancer = kind_of(service) == "LoadBalancer";
    let ranges = list(spec, "loadBalancerSourceRanges");
    let annotated = &service["metadata"]["annotations"][SOURCE_RANGES];
    if !ranges.is_empty() {
        const FIELD: &str = "spec.LoadBalancerSourceRanges";
        if !is_balancer {
            errors.push(FieldError::forbidden(FIELD, ONLY_BALANCER));
        }
        for (place, range) in ranges.iter().enumerate() {
            let range = json!(range.as_str().unwrap_or_default().trim());
            check::cidr(&range, &format!("{FIELD}[{place}]"), errors);
        }
    } else if let Some(ranges) = annotated.as_str() {
        let field = format!("metadata.annotations[{SOURCE_RANGES}]");
        if !is_balancer {
            errors.push(FieldError::forbidden(&*field, ONLY_BALANCER));
        }
        if !ranges.trim().is_empty() {
            for range in ranges.trim().split(',') {
                check::cidr(&json!(range.trim()), &field, errors);
            }
        }
    }
    if has(spec, "allocateLoadBalancerNodePorts") && !is_balancer {
        errors.push(FieldError::forbidden(
            "spec.allocateLoadBalancerNodePorts",
            ONLY_BALANCER,
        ));
    }
    class(service, errors);
}

fn class(service: &Value, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "spec.loadBalancerClass";
    let spec = &service["spec"];
    if !has(spec, "loadBalancerClass") {
        return;
    }
    if kind_of(service) == "LoadBalancer" {
        check::qualified(text(spec, "loadBalancerClass"), FIELD, errors);
    } else {
        errors.push(FieldError::forbidden(FIELD, ONLY_BALANCER));
    }
}

fn traffic(service: &Value, errors: &mut Vec<FieldError>) {
    let spec = &service["spec"];
    if is_external(service) {
        check::one_of(
            spec,
            "externalTrafficPolicy",
            &["Cluster", "Local"],
            "spec",
            errors,
        );
    } else if !text(spec, "externalTrafficPolicy").is_empty() {
        errors.push(FieldError::invalid(
            "spec.externalTrafficPolicy",
            &spec["externalTrafficPolicy"],
            "may only be set for externally-accessible services",
        ));
    }
    if let Some(port) = number(spec, "healthCheckNodePort").filter(|n| *n != 0) {
        const FIELD: &str = "spec.healthCheckNodePort";
        if needs_health_check(service) {
            check::invalid(FIELD, &json!(port), port_number(port), errors);
        } else {
            errors.push(FieldError::invalid(
                FIELD,
                &json!(port),
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
            ));
        }
    }
    check::one_of(
        spec,
        "internalTrafficPolicy",
        &["Cluster", "Local"],
        "spec",
        errors,
    );
    check::one_of(
        spec,
        "trafficDistribution",
        &["PreferClose", "PreferSameNode", "PreferSameZone"],
        "spec",
        errors,
    );
}

/// Checks an update of a Service.
pub(in crate::builtin) fn validate_update(new: &Value, old: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    families::update(new, old, errors);
    if kind_of(old) == "LoadBalancer"
        && kind_of(new) == "LoadBalancer"
        && new["spec"].get("loadBalancerClass") != old["spec"].get("loadBalancerClass")
    {
        errors.push(FieldError::invalid(
            "spec.loadBalancerClass",
            &new["spec"]["loadBalancerClass"],
            "may not change once set",
        ));
    }
    // Once more, as the server does: the class is checked with the change, too.
    class(new, errors);
    if needs_health_check(old)
        && needs_health_check(new)
        && new["spec"].get("healthCheckNodePort") != old["spec"].get("healthCheckNodePort")
    {
        errors.push(FieldError::forbidden(
            "spec.healthCheckNodePort",
            "field is immutable",
        ));
    }
}

/// Checks a new status.
pub(in crate::builtin) fn validate_status(new: &Value, _: &Value, found: &mut Validation) {
    let status = &new["status"];
    check::balancer(status, &mut found.errors);
    for (place, entry) in list(&status["loadBalancer"], "ingress").iter().enumerate() {
        if kind_of(new) != "LoadBalancer" {
            found.errors.push(FieldError::forbidden(
                "status.loadBalancer.ingress",
                "may only be used when `spec.type` is 'LoadBalancer'",
            ));
            break;
        }
        let field = format!("status.loadBalancer.ingress[{place}].ipMode");
        let has_ip = !text(entry, "ip").is_empty();
        let mode = text(entry, "ipMode");
        if has_ip && mode.is_empty() {
            found.errors.push(FieldError::required(
                field,
                "must be specified when `ip` is set",
            ));
        } else if !has_ip && !mode.is_empty() {
            found.errors.push(FieldError::forbidden(
                field,
                "may not be specified when `ip` is not set",
            ));
        } else if has_ip && !matches!(mode, "VIP" | "Proxy") {
            found.errors.push(FieldError::not_supported(
                field,
                &json!(mode),
                &["Proxy", "VIP"],
            ));
        }
    }
}

fn warnings(service: &Value, warnings: &mut Vec<String>) {
    let spec = &service["spec"];
    let external_name = kind_of(service) == "ExternalName";
    let headless = kind_of(service) == "ClusterIP" && text(spec, "clusterIP") == "None";
    if has(&service["metadata"]["annotations"], HINTS) {
        warnings.push(format!(
            "annotation {HINTS} is deprecated, please use {MODE} instead"
        ));
    }
    if !matches!(text(spec, "clusterIP"), "" | "None") {
        warn_of_ips(spec, "clusterIPs", warnings);
    }
    let mut say = |text: &str| warnings.push(text.to_owned());
    let external_ips = !list(spec, "externalIPs").is_empty();
    if headless {
        if !text(spec, "loadBalancerIP").is_empty() {
            say("spec.loadBalancerIP is ignored for headless services");
        }
        if external_ips {
            say("spec.externalIPs is ignored for headless services");
        }
        if text(spec, "sessionAffinity") != "None" {
            say("spec.SessionAffinity is ignored for headless services");
        }
    }
    if external_ips && !headless && !external_name {
        say("spec.externalIPs is deprecated and may no longer be implemented in some clusters");
    }
    if external_name && external_ips {
        say("spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    }
    if !external_name && !text(spec, "externalName").is_empty() {
        say("spec.externalName is ignored when spec.type is not \"ExternalName\"");
    }
    if text(spec, "trafficDistribution") == "PreferClose" {
        say("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"");
    }
    warn_of_ips(spec, "externalIPs", warnings);
    let balancer = text(spec, "loadBalancerIP");
    if !balancer.is_empty() {
        warnings.extend(check::ip_warnings("spec.loadBalancerIP", balancer));
    }
    for (place, range) in list(spec, "loadBalancerSourceRanges").iter().enumerate() {
        let range = range.as_str().unwrap_or_default();
        if let Some(block) = check::Block::parse(range) {
            let field = format!("spec.loadBalancerSourceRanges[{place}]");
            warnings.extend(block.warnings(&field, range));
        }
    }
}

fn warn_of_ips(spec: &Value, member: &str, warnings: &mut Vec<String>) {
    for (place, ip) in list(spec, member).iter().enumerate() {
        let field = format!("spec.{member}[{place}]");
        warnings.extend(check::ip_warnings(&field, ip.as_str().unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::kinds::service;

    #[expect(clippy::needless_pass_by_value, reason = "written in place")]
    fn wrongs(spec: Value) -> Vec<String> {
        let mut service = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec});
        service::defaults(&mut service);
        service::prepare_create(&mut service);
        let mut found = Validation::default();
        validate(&service, &mut found);
        found.errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_type_has_fields_of_its_own() {
        let port = json!([{"port": 80}]);
        assert_eq!(
            wrongs(json!({"ports": port, "externalTrafficPolicy": "Local"})),
            [
                "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services"
            ]
        );
        assert_eq!(
            wrongs(json!({"ports": port, "loadBalancerClass": "x.io/y"})),
            ["spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"]
        );
        assert_eq!(
            wrongs(json!({"type": "ExternalName", "externalName": "a.b.", "clusterIP": "None"})),
            ["spec.clusterIPs: Forbidden: may not be set for ExternalName services"]
        );
        assert_eq!(
            wrongs(json!({"ports": port, "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 90000}}})),
            [
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 90000: must be greater than 0 and less than 86400"
            ]
        );
        assert_eq!(
            wrongs(json!({"ports": port, "externalIPs": ["127.0.0.1"]})),
            [
                "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)"
            ]
        );
    }

    #[test]
    fn node_ports_are_told_apart_by_protocol() {
        let ports = |other: &str| {
            json!({"type": "NodePort", "ports": [
                {"name": "a", "port": 1, "nodePort": 30001},
                {"name": "b", "port": 2, "nodePort": 30001, "protocol": other}]})
        };
        assert_eq!(wrongs(ports("UDP")), Vec::<String>::new());
        assert_eq!(
            wrongs(ports("TCP")),
            ["spec.ports[1].nodePort: Duplicate value: 30001"]
        );
    }
}
