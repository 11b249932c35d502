//! Endpoints: sets of addresses and ports, the older form of an `EndpointSlice`.

use serde_json::{Value, json};

use crate::builtin::check;
use crate::members::{default, has, list, list_mut, number, text};
use crate::names;
use crate::schema::{FieldError, Validation};

type Errors = Vec<FieldError>;

/// What the endpoints controller writes is not warned of.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

pub(in crate::builtin) fn default_endpoints(endpoints: &mut Value) {
    for subset in list_mut(endpoints, "subsets") {
        for port in list_mut(subset, "ports") {
            default(port, "protocol", "TCP");
        }
    }
}

/// Checks new Endpoints.
pub(in crate::builtin) fn validate_new(endpoints: &Value, found: &mut Validation) {
    let managed = text(&endpoints["metadata"]["labels"], MANAGED_BY) == "endpoint-controller";
    for (i, subset) in list(endpoints, "subsets").iter().enumerate() {
        let path = format!("subsets[{i}]");
        let groups = ["addresses", "notReadyAddresses"];
        if groups.iter().all(|group| list(subset, group).is_empty()) {
            found.errors.push(FieldError::required(
                &*path,
                "must specify `addresses` or `notReadyAddresses`",
            ));
        }
        for group in groups {
            for (j, one) in list(subset, group).iter().enumerate() {
                let path = format!("{path}.{group}[{j}]");
                address(one, &path, &mut found.errors);
                if !managed {
                    let warning = check::ip_warnings(&format!("{path}.ip"), text(one, "ip"));
                    found.warnings.extend(warning);
                }
            }
        }
        let ports = list(subset, "ports");
        for (j, one) in ports.iter().enumerate() {
            let path = format!("{path}.ports[{j}]");
            port(one, ports.len() > 1, &path, &mut found.errors);
        }
    }
}

/// Checks changed Endpoints; addresses that were there before stay.
pub(in crate::builtin) fn validate_update(new: &Value, old: &Value, found: &mut Validation) {
    if new.get("subsets") != old.get("subsets") {
        validate_new(new, found);
    }
}

/// Checks an address. As those of slices it may be a loopback address, for what runs in
/// a cluster in one process listens there.
fn address(address: &Value, path: &str, errors: &mut Errors) {
    let field = format!("{path}.ip");
    let value = json!(text(address, "ip"));
    let ip = check::ip(&value, &field, errors);
    let host = text(address, "hostname");
    if !host.is_empty() {
        check::label(host, &format!("{path}.hostname"), errors);
    }
    if has(address, "nodeName") {
        let node = text(address, "nodeName");
        check::subdomain(node, &format!("{path}.nodeName"), errors);
    }
    match ip {
        Some(ip) if ip.is_loopback() => {}
        Some(ip) => check::reachable_ip(ip, &value, &field, errors),
        None => {
            let wrong = "must be a valid IP address";
            errors.push(FieldError::invalid(field, &value, wrong));
        }
    }
}

fn port(port: &Value, named: bool, path: &str, errors: &mut Errors) {
    let name = text(port, "name");
    if !name.is_empty() {
        check::label(name, &format!("{path}.name"), errors);
    } else if named {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    let number = number(port, "port").unwrap_or(0);
    let wrong = names::port_number(number);
    check::invalid(&format!("{path}.port"), &json!(number), wrong, errors);
    check::one_of(port, "protocol", &["SCTP", "TCP", "UDP"], path, errors);
    if has(port, "appProtocol") {
        let protocol = text(port, "appProtocol");
        check::qualified(protocol, &format!("{path}.appProtocol"), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(subsets: &Value) -> Validation {
        let mut endpoints = json!({"metadata": {"name": "x"}, "subsets": subsets});
        default_endpoints(&mut endpoints);
        let mut found = Validation::default();
        validate_new(&endpoints, &mut found);
        found
    }

    fn wrongs(subsets: &Value) -> Vec<String> {
        let errors = of(subsets).errors;
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn subsets_have_addresses() {
        assert_eq!(
            wrongs(
                &json!([{"addresses": [{"ip": "10.0.0.1"}, {"ip": "127.0.0.1"}],
                "ports": [{"port": 80}]}])
            ),
            Vec::<String>::new()
        );
        assert_eq!(
            wrongs(&json!([{"ports": [{"port": 80}]}])),
            ["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"]
        );
        assert_eq!(
            wrongs(
                &json!([{"addresses": [{"ip": "x"}, {"ip": "169.254.0.1", "hostname": "a.b"}],
                "notReadyAddresses": [{"ip": "0.0.0.0", "nodeName": "a"}]}])
            ),
            [
                "subsets[0].addresses[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                "subsets[0].addresses[0].ip: Invalid value: \"x\": must be a valid IP address",
                "subsets[0].addresses[1].hostname: Invalid value: \"a.b\": must not contain dots",
                "subsets[0].addresses[1].ip: Invalid value: \"169.254.0.1\": may not be in the link-local range (169.254.0.0/16, fe80::/10)",
                "subsets[0].notReadyAddresses[0].ip: Invalid value: \"0.0.0.0\": may not be unspecified (0.0.0.0)",
            ]
        );
    }

    #[test]
    fn several_ports_have_names() {
        let ports = json!([{"port": 0, "protocol": "ICMP"},
            {"port": 1, "name": "a", "appProtocol": "http"}]);
        assert_eq!(
            wrongs(&json!([{"addresses": [{"ip": "10.0.0.1"}], "ports": ports}])),
            [
                "subsets[0].ports[0].name: Required value",
                "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "subsets[0].ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ]
        );
    }

    #[test]
    fn an_address_with_leading_zeros_is_warned_of() {
        let found = of(&json!([{"addresses": [{"ip": "010.0.0.1"}]}]));
        assert_eq!(found.errors, []);
        assert_eq!(
            found.warnings,
            [
                "subsets[0].addresses[0].ip: non-standard IP address \"010.0.0.1\" will be considered invalid in a future Kubernetes release: use \"10.0.0.1\""
            ]
        );
    }

    #[test]
    fn what_was_there_stays() {
        let old = json!({"metadata": {"name": "x"}, "subsets": [{"addresses": [{"ip": "x"}]}]});
        let mut found = Validation::default();
        validate_update(&old, &old, &mut found);
        assert_eq!(found.errors, []);
    }
}
