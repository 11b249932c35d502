//! `EndpointSlice`.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::members::{default, has, list, list_mut, set, text};
use crate::names::{label, subdomain};
use crate::schema::{FieldError, Validation};

/// Most endpoints of one slice, ports of one slice, addresses of one endpoint.
const MAX_ENDPOINTS: usize = 1000;
const MAX_PORTS: usize = 20_000;
const MAX_ADDRESSES: usize = 100;

/// What an address may be.
const KINDS: &[&str] = &["FQDN", "IPv4", "IPv6"];

pub(in crate::builtin) fn default_slice(slice: &mut Value) {
    for port in list_mut(slice, "ports") {
        if !has(port, "name") {
            set(port, "name", "");
        }
        default(port, "protocol", "TCP");
    }
}

pub(in crate::builtin) fn validate_slice(slice: &Value, found: &mut Validation) {
    let errors = &mut found.errors;
    let kind = text(slice, "addressType");
    if kind.is_empty() {
        errors.push(FieldError::required("addressType", ""));
    } else if !KINDS.contains(&kind) {
        errors.push(FieldError::not_supported(
            "addressType",
            &json!(kind),
            KINDS,
        ));
    }
    let endpoints = list(slice, "endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        errors.push(FieldError::too_many(
            "endpoints",
            endpoints.len(),
            MAX_ENDPOINTS as u64,
        ));
        return;
    }
    for (place, endpoint) in endpoints.iter().enumerate() {
        addresses(
            endpoint,
            kind,
            &format!("endpoints[{place}].addresses"),
            errors,
        );
    }
    let ports = list(slice, "ports");
    if ports.len() > MAX_PORTS {
        errors.push(FieldError::too_many("ports", ports.len(), MAX_PORTS as u64));
        return;
    }
    let mut names = Vec::new();
    for (place, port) in ports.iter().enumerate() {
        let name = text(port, "name");
        if names.contains(&name) {
            errors.push(FieldError::duplicate(
                format!("ports[{place}].name"),
                &json!(name),
            ));
        }
        names.push(name);
        if !name.is_empty() {
            for wrong in label(name) {
                errors.push(FieldError::invalid(
                    format!("ports[{place}].name"),
                    &json!(name),
                    wrong,
                ));
            }
        }
        if !matches!(text(port, "protocol"), "TCP" | "UDP" | "SCTP") {
            errors.push(FieldError::not_supported(
                format!("ports[{place}].protocol"),
                &port["protocol"],
                &["SCTP", "TCP", "UDP"],
            ));
        }
    }
}

/// Checks an endpoint's addresses. A real server refuses loopback and link-local
/// ones; this one takes loopback, because what runs in a cluster in one process
/// listens there.
fn addresses(endpoint: &Value, kind: &str, path: &str, errors: &mut Vec<FieldError>) {
    let all = list(endpoint, "addresses");
    if all.is_empty() {
        errors.push(FieldError::required(
            path,
            "must contain at least 1 address",
        ));
    }
    if all.len() > MAX_ADDRESSES {
        errors.push(FieldError::too_many(path, all.len(), MAX_ADDRESSES as u64));
    }
    for (place, address) in all.iter().enumerate() {
        let field = format!("{path}[{place}]");
        let value = address.as_str().unwrap_or_default();
        let parsed = value.parse::<IpAddr>().ok();
        match (kind, parsed) {
            ("FQDN", _) => {
                for wrong in subdomain(value) {
                    errors.push(FieldError::invalid(&*field, address, wrong));
                }
            }
            ("IPv4" | "IPv6", None) => errors.push(FieldError::invalid(
                field,
                address,
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            )),
            ("IPv4", Some(IpAddr::V6(_))) => {
                errors.push(FieldError::invalid(
                    field,
                    address,
                    "must be an IPv4 address",
                ));
            }
            ("IPv6", Some(IpAddr::V4(_))) => {
                errors.push(FieldError::invalid(
                    field,
                    address,
                    "must be an IPv6 address",
                ));
            }
            (_, Some(ip)) if ip.is_unspecified() => errors.push(FieldError::invalid(
                field,
                address,
                format!("may not be unspecified ({ip})"),
            )),
            _ => {}
        }
    }
}

pub(in crate::builtin) fn validate_slice_update(new: &Value, old: &Value, found: &mut Validation) {
    if new["addressType"] != old["addressType"] {
        found.errors.push(FieldError::invalid(
            "addressType",
            &new["addressType"],
            "field is immutable",
        ));
    }
}
