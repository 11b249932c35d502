//! Ingress, `IngressClass` and `NetworkPolicy`.

use serde_json::{Value, json};

use crate::builtin::check;
use crate::members::{default, has, list, list_mut, number, object_mut, set, text};
use crate::metadata;
use crate::names::{port_name, port_number, subdomain, wildcard_subdomain};
use crate::schema::{FieldError, Validation};

/// How the class of an Ingress was said before there was a field for it.
const CLASS: &str = "kubernetes.io/ingress.class";

pub(in crate::builtin) fn validate_ingress(ingress: &Value, found: &mut Validation) {
    if has(&ingress["metadata"]["annotations"], CLASS) {
        found.warnings.push(format!(
            "annotation \"{CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"
        ));
    }
    let errors = &mut found.errors;
    let spec = &ingress["spec"];
    if list(spec, "rules").is_empty() && !has(spec, "defaultBackend") {
        errors.push(FieldError::invalid(
            "spec",
            &Value::Null,
            "either `defaultBackend` or `rules` must be specified",
        ));
    }
    if has(spec, "defaultBackend") {
        backend(&spec["defaultBackend"], "spec.defaultBackend", errors);
    }
    for (place, rule) in list(spec, "rules").iter().enumerate() {
        rule_of(rule, &format!("spec.rules[{place}]"), errors);
    }
    for (place, tls) in list(spec, "tls").iter().enumerate() {
        for (at, name) in list(tls, "hosts").iter().enumerate() {
            let field = format!("spec.tls[{place}].hosts[{at}]");
            host(name.as_str().unwrap_or_default(), &field, errors);
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            check::subdomain(secret, &format!("spec.tls[{place}].secretName"), errors);
        }
    }
    if has(spec, "ingressClassName") {
        check::subdomain(
            text(spec, "ingressClassName"),
            "spec.ingressClassName",
            errors,
        );
    }
}

/// What only a new Ingress is checked for: the old and the new way to name a class agree.
pub(in crate::builtin) fn validate_new_ingress(ingress: &Value, found: &mut Validation) {
    let annotation = &ingress["metadata"]["annotations"][CLASS];
    let class = &ingress["spec"]["ingressClassName"];
    if annotation.is_string() && class.is_string() && annotation != class {
        found.errors.push(FieldError::invalid(
            format!("annotations.{CLASS}"),
            annotation,
            "must match `ingressClassName` when both are specified",
        ));
    }
}

/// Checks the addresses that a controller gave.
pub(in crate::builtin) fn validate_ingress_status(new: &Value, _: &Value, found: &mut Validation) {
    check::balancer(&new["status"], &mut found.errors);
}

fn host(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    let wrongs = if name.contains('*') {
        wildcard_subdomain(name)
    } else {
        subdomain(name)
    };
    for wrong in wrongs {
        errors.push(FieldError::invalid(field, &json!(name), wrong));
    }
}

fn rule_of(rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let name = text(rule, "host");
    if !name.is_empty() {
        let field = format!("{path}.host");
        if check::sloppy_ip(name).is_some() {
            errors.push(FieldError::invalid(
                &*field,
                &json!(name),
                "must be a DNS name, not an IP address",
            ));
        }
        host(name, &field, errors);
    }
    if !has(rule, "http") {
        return;
    }
    let paths = list(&rule["http"], "paths");
    if paths.is_empty() {
        errors.push(FieldError::required(format!("{path}.http.paths"), ""));
    }
    for (place, entry) in paths.iter().enumerate() {
        http_path(entry, &format!("{path}.http.paths[{place}]"), errors);
    }
}

fn http_path(entry: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(entry, "pathType");
    let value = text(entry, "path");
    if !has(entry, "pathType") {
        errors.push(FieldError::required(
            format!("{path}.pathType"),
            "pathType must be specified",
        ));
        return;
    }
    match kind {
        "ImplementationSpecific" if value.is_empty() || value.starts_with('/') => {}
        "ImplementationSpecific" => relative(value, path, errors),
        "Exact" | "Prefix" => absolute(value, path, errors),
        other => errors.push(FieldError::not_supported(
            format!("{path}.pathType"),
            &json!(other),
            &["Exact", "ImplementationSpecific", "Prefix"],
        )),
    }
    backend(&entry["backend"], &format!("{path}.backend"), errors);
}

fn relative(value: &str, path: &str, errors: &mut Vec<FieldError>) {
    errors.push(FieldError::invalid(
        format!("{path}.path"),
        &json!(value),
        "must be an absolute path",
    ));
}

fn absolute(value: &str, path: &str, errors: &mut Vec<FieldError>) {
    if !value.starts_with('/') {
        relative(value, path, errors);
    }
    let mut refuse = |wrong: String| {
        errors.push(FieldError::invalid(
            format!("{path}.path"),
            &json!(value),
            wrong,
        ));
    };
    for sequence in ["//", "/./", "/../", "%2f", "%2F"] {
        if value.contains(sequence) {
            refuse(format!("must not contain '{sequence}'"));
        }
    }
    for suffix in ["/..", "/."] {
        if value.ends_with(suffix) {
            refuse(format!("cannot end with '{suffix}'"));
        }
    }
}

fn backend(backend: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let nothing = json!("");
    match (has(backend, "service"), has(backend, "resource")) {
        (true, true) => errors.push(FieldError::invalid(
            path,
            &nothing,
            "cannot set both resource and service backends",
        )),
        (false, false) => errors.push(FieldError::invalid(
            path,
            &nothing,
            "resource or service backend is required",
        )),
        (false, true) => {
            reference(&backend["resource"], &format!("{path}.resource"), errors);
        }
        (true, false) => {
            let service = &backend["service"];
            let name = text(service, "name");
            if name.is_empty() {
                errors.push(FieldError::required(format!("{path}.service.name"), ""));
            } else {
                check::label(name, &format!("{path}.service.name"), errors);
            }
            let port = &service["port"];
            let number_of = number(port, "number").unwrap_or(0);
            match (text(port, "name"), number_of) {
                ("", 0) => errors.push(FieldError::required(
                    path,
                    "port name or number is required",
                )),
                ("", n) => {
                    if let Some(wrong) = port_number(n) {
                        let field = format!("{path}.service.port.number");
                        errors.push(FieldError::invalid(field, &json!(n), wrong));
                    }
                }
                (name, 0) => {
                    for wrong in port_name(name) {
                        let field = format!("{path}.service.port.name");
                        errors.push(FieldError::invalid(field, &json!(name), wrong));
                    }
                }
                _ => errors.push(FieldError::invalid(
                    path,
                    &nothing,
                    "cannot set both port name & port number",
                )),
            }
        }
    }
}

/// A reference to an object of any kind.
fn reference(reference: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if has(reference, "apiGroup") {
        let field = format!("{path}.apiGroup");
        check::subdomain(text(reference, "apiGroup"), &field, errors);
    }
    for member in ["kind", "name"] {
        if check::required(reference, member, path, errors) {
            let field = format!("{path}.{member}");
            check::path_segment(text(reference, member), &field, errors);
        }
    }
}

/// Longest name of a controller, in bytes.
const MAX_CONTROLLER: usize = 250;

pub(in crate::builtin) fn validate_ingress_class(class: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let spec = &class["spec"];
    let controller = text(spec, "controller");
    if check::required(spec, "controller", "spec", errors) {
        if controller.len() > MAX_CONTROLLER {
            errors.push(FieldError::too_long(
                "spec.controller",
                MAX_CONTROLLER as u64,
            ));
        }
        check::domain_path(controller, "spec.controller", errors);
    }
    if has(spec, "parameters") {
        parameters(&spec["parameters"], errors);
    }
}

fn parameters(parameters: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.parameters";
    const NAMESPACE: &str = "spec.parameters.namespace";
    reference(parameters, PATH, errors);
    let named = has(parameters, "namespace");
    match text(parameters, "scope") {
        "" => errors.push(FieldError::required(format!("{PATH}.scope"), "")),
        "Cluster" if named => errors.push(FieldError::forbidden(
            NAMESPACE,
            "`parameters.scope` is set to 'Cluster'",
        )),
        "Cluster" => {}
        "Namespace" if named => check::label(text(parameters, "namespace"), NAMESPACE, errors),
        "Namespace" => errors.push(FieldError::required(
            NAMESPACE,
            "`parameters.scope` is set to 'Namespace'",
        )),
        _ => check::one_of(parameters, "scope", &["Cluster", "Namespace"], PATH, errors),
    }
}

/// The parameters of a class are of the whole cluster unless they say otherwise.
pub(in crate::builtin) fn default_ingress_class(class: &mut Value) {
    if has(&class["spec"], "parameters") {
        let spec = object_mut(class, "spec");
        default(object_mut(spec, "parameters"), "scope", "Cluster");
    }
}

pub(in crate::builtin) fn validate_ingress_class_update(
    new: &Value,
    old: &Value,
    found: &mut Validation,
) {
    if new["spec"]["controller"] != old["spec"]["controller"] {
        found.errors.push(FieldError::invalid(
            "spec.controller",
            &new["spec"]["controller"],
            "field is immutable",
        ));
    }
}

pub(in crate::builtin) fn default_policy(policy: &mut Value) {
    let spec = object_mut(policy, "spec");
    if list(spec, "policyTypes").is_empty() {
        // Without egress rules a policy says nothing of egress.
        let types = if has(spec, "egress") {
            json!(["Ingress", "Egress"])
        } else {
            json!(["Ingress"])
        };
        set(spec, "policyTypes", types);
    }
    for direction in ["ingress", "egress"] {
        for rule in list_mut(spec, direction) {
            for port in list_mut(rule, "ports") {
                default(port, "protocol", "TCP");
            }
        }
    }
}

pub(in crate::builtin) fn validate_policy(policy: &Value, found: &mut Validation) {
    warn_of_blocks(policy, &mut found.warnings);
    let errors = &mut found.errors;
    let spec = &policy["spec"];
    selector(&spec["podSelector"], "spec.podSelector", errors);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (place, rule) in list(spec, direction).iter().enumerate() {
            let path = format!("spec.{direction}[{place}]");
            for (at, port) in list(rule, "ports").iter().enumerate() {
                policy_port(port, &format!("{path}.ports[{at}]"), errors);
            }
            for (at, peer) in list(rule, peers).iter().enumerate() {
                policy_peer(peer, &format!("{path}.{peers}[{at}]"), errors);
            }
        }
    }
    let types = list(spec, "policyTypes");
    if types.len() > 2 {
        errors.push(FieldError::invalid(
            "spec.policyTypes",
            &spec["policyTypes"],
            "may not specify more than two policyTypes",
        ));
        return;
    }
    for (place, kind) in types.iter().enumerate() {
        if !matches!(kind.as_str(), Some("Ingress" | "Egress")) {
            errors.push(FieldError::not_supported(
                format!("spec.policyTypes[{place}]"),
                kind,
                &["Ingress", "Egress"],
            ));
        }
    }
}

fn policy_port(port: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if has(port, "protocol") && !matches!(text(port, "protocol"), "TCP" | "UDP" | "SCTP") {
        errors.push(FieldError::not_supported(
            format!("{path}.protocol"),
            &port["protocol"],
            &["SCTP", "TCP", "UDP"],
        ));
    }
    match &port["port"] {
        Value::Null => {
            if has(port, "endPort") {
                errors.push(FieldError::invalid(
                    format!("{path}.endPort"),
                    &port["endPort"],
                    "may not be specified when `port` is not specified",
                ));
            }
        }
        Value::String(name) => {
            if has(port, "endPort") {
                errors.push(FieldError::invalid(
                    format!("{path}.endPort"),
                    &port["endPort"],
                    "may not be specified when `port` is non-numeric",
                ));
            }
            for wrong in port_name(name) {
                errors.push(FieldError::invalid(
                    format!("{path}.port"),
                    &json!(name),
                    wrong,
                ));
            }
        }
        value => {
            let first = value.as_i64().unwrap_or(0);
            if let Some(wrong) = port_number(first) {
                errors.push(FieldError::invalid(format!("{path}.port"), value, wrong));
            }
            if let Some(last) = number(port, "endPort") {
                if last < first {
                    // The server quotes the port, not the end.
                    errors.push(FieldError::invalid(
                        format!("{path}.endPort"),
                        value,
                        "must be greater than or equal to `port`",
                    ));
                }
                if let Some(wrong) = port_number(last) {
                    let field = format!("{path}.endPort");
                    errors.push(FieldError::invalid(field, &json!(last), wrong));
                }
            }
        }
    }
}

fn policy_peer(peer: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut kinds = 0;
    for member in ["podSelector", "namespaceSelector"] {
        if has(peer, member) {
            kinds += 1;
            selector(&peer[member], &format!("{path}.{member}"), errors);
        }
    }
    if has(peer, "ipBlock") {
        ip_block(&peer["ipBlock"], &format!("{path}.ipBlock"), errors);
        if kinds > 0 {
            errors.push(FieldError::forbidden(
                path,
                "may not specify both ipBlock and another peer",
            ));
        }
        kinds += 1;
    }
    if kinds == 0 {
        errors.push(FieldError::required(path, "must specify a peer"));
    }
}

fn ip_block(block: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if !check::required(block, "cidr", path, errors) {
        return;
    }
    let outer = check::cidr(&block["cidr"], &format!("{path}.cidr"), errors);
    let Some(outer) = outer else {
        return;
    };
    for (place, except) in list(block, "except").iter().enumerate() {
        let field = format!("{path}.except[{place}]");
        if let Some(inner) = check::cidr(except, &field, errors)
            && !outer.strictly_contains(inner)
        {
            errors.push(FieldError::invalid(
                field,
                except,
                "must be a strict subset of `cidr`",
            ));
        }
    }
}

/// What is odd about the blocks of a policy.
fn warn_of_blocks(policy: &Value, warnings: &mut Vec<String>) {
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (place, rule) in list(&policy["spec"], direction).iter().enumerate() {
            for (at, peer) in list(rule, peers).iter().enumerate() {
                let path = format!("spec.{direction}[{place}].{peers}[{at}].ipBlock");
                let block = &peer["ipBlock"];
                let mut warn = |field: String, value: &Value| {
                    let value = value.as_str().unwrap_or_default();
                    if let Some(block) = check::Block::parse(value) {
                        warnings.extend(block.warnings(&field, value));
                    }
                };
                warn(format!("{path}.cidr"), &block["cidr"]);
                for (number, except) in list(block, "except").iter().enumerate() {
                    warn(format!("{path}.except[{number}]"), except);
                }
            }
        }
    }
}

/// Checks a label selector.
pub(in crate::builtin) fn selector(selector: &Value, path: &str, errors: &mut Vec<FieldError>) {
    metadata::labels(
        selector,
        "matchLabels",
        &format!("{path}.matchLabels"),
        errors,
    );
    for (place, expression) in list(selector, "matchExpressions").iter().enumerate() {
        let path = format!("{path}.matchExpressions[{place}]");
        let values = list(expression, "values");
        match text(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if values.is_empty() => {}
            "Exists" | "DoesNotExist" => errors.push(FieldError::forbidden(
                format!("{path}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            other => errors.push(FieldError::invalid(
                format!("{path}.operator"),
                &json!(other),
                "not a valid selector operator",
            )),
        }
        for (at, value) in values.iter().enumerate() {
            let wrongs = crate::names::label_value(value.as_str().unwrap_or_default());
            check::invalid(&format!("{path}.values[{at}]"), value, wrongs, errors);
        }
        let key = text(expression, "key");
        for wrong in crate::names::qualified(key) {
            errors.push(FieldError::invalid(
                format!("{path}.key"),
                &json!(key),
                wrong,
            ));
        }
    }
}

/// Checks the ranges that Services get addresses from: one of each family.
pub(in crate::builtin) fn validate_service_cidr(cidr: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let ranges = list(&cidr["spec"], "cidrs");
    if ranges.is_empty() {
        errors.push(FieldError::required(
            "spec.cidrs",
            "at least one CIDR required",
        ));
    }
    if ranges.len() > 2 {
        errors.push(FieldError::too_many("spec.cidrs", ranges.len(), 2));
    }
    for (place, range) in ranges.iter().enumerate() {
        check::cidr(range, &format!("spec.cidrs[{place}]"), errors);
    }
}
