//! Checks that the validation of many kinds is made of. Each adds to a list
//! what is wrong with one value, in the server's words.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::quantity;
use crate::members::{has, list, text};
use crate::names::{self, NameRule};
use crate::schema::FieldError;

/// What is said of a number below zero.
pub(super) const NEGATIVE: &str = "must be greater than or equal to 0";
/// What is said of a value that may not change.
pub(super) const IMMUTABLE: &str = "field is immutable";

type Errors = Vec<FieldError>;

/// Adds one `Invalid value` for each complaint.
pub(super) fn invalid(
    field: &str,
    value: &Value,
    wrongs: impl IntoIterator<Item = impl std::fmt::Display>,
    errors: &mut Errors,
) {
    for wrong in wrongs {
        errors.push(FieldError::invalid(field, value, wrong));
    }
}

/// An RFC 1123 label.
pub(super) fn label(value: &str, field: &str, errors: &mut Errors) {
    invalid(field, &json!(value), names::label(value), errors);
}

/// An RFC 1123 subdomain, as most objects are named.
pub(super) fn subdomain(value: &str, field: &str, errors: &mut Errors) {
    invalid(field, &json!(value), names::subdomain(value), errors);
}

/// A name with an optional domain before a slash.
pub(super) fn qualified(value: &str, field: &str, errors: &mut Errors) {
    invalid(field, &json!(value), names::qualified(value), errors);
}

/// A name that can stand in a path.
pub(super) fn path_segment(value: &str, field: &str, errors: &mut Errors) {
    let wrongs = NameRule::PathSegment.check(value, false);
    invalid(field, &json!(value), wrongs, errors);
}

/// The name of a driver: a domain, in which letters may be upper case.
pub(super) fn driver(of: &Value, member: &str, path: &str, errors: &mut Errors) {
    let name = text(of, member);
    let field = join(path, member);
    if name.is_empty() {
        errors.push(FieldError::required(&*field, ""));
    }
    if name.len() > 63 {
        errors.push(FieldError::too_long(&*field, 63));
    }
    let wrongs = names::subdomain(&name.to_lowercase());
    invalid(&field, &json!(name), wrongs, errors);
}

/// A domain and a path: `example.com/controller`.
pub(super) fn domain_path(value: &str, field: &str, errors: &mut Errors) {
    const EXAMPLE: &str = "must be a domain-prefixed path (such as \"acme.io/foo\")";
    match value.split_once('/') {
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            invalid(field, &json!(domain), names::subdomain(domain), errors);
            let legal = |b: u8| b.is_ascii_alphanumeric() || b"/%_.~!$&'()*+,;=:-".contains(&b);
            if !path.bytes().all(legal) {
                errors.push(FieldError::invalid(
                    field,
                    &json!(path),
                    "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
                ));
            }
        }
        _ => errors.push(FieldError::invalid(field, &json!(value), EXAMPLE)),
    }
}

/// A string member that must be there; `true` if it is.
pub(super) fn required(of: &Value, member: &str, path: &str, errors: &mut Errors) -> bool {
    let there = !text(of, member).is_empty();
    if !there {
        errors.push(FieldError::required(join(path, member), ""));
    }
    there
}

/// A value of an enumeration, if there is one; `supported` in alphabetical order.
pub(super) fn one_of(
    of: &Value,
    member: &str,
    supported: &[&str],
    path: &str,
    errors: &mut Errors,
) {
    if has(of, member) && !supported.contains(&text(of, member)) {
        errors.push(FieldError::not_supported(
            join(path, member),
            &of[member],
            supported,
        ));
    }
}

/// The path of a member; members of the object itself have no path before them.
pub(super) fn join(path: &str, member: &str) -> String {
    if path.is_empty() {
        member.to_owned()
    } else {
        format!("{path}.{member}")
    }
}

/// A number that may not be below zero.
pub(super) fn not_negative(of: &Value, member: &str, path: &str, errors: &mut Errors) {
    at_least(of, member, 0, path, errors);
}

/// A number that may not be below `least`.
pub(super) fn at_least(of: &Value, member: &str, least: i64, path: &str, errors: &mut Errors) {
    if let Some(number) = of[member].as_i64().filter(|n| *n < least) {
        let wrong = if least == 0 {
            NEGATIVE.to_owned()
        } else {
            format!("must be greater than or equal to {least}")
        };
        errors.push(FieldError::invalid(
            join(path, member),
            &json!(number),
            wrong,
        ));
    }
}

/// A member that stays as it is.
pub(super) fn immutable(new: &Value, old: &Value, member: &str, path: &str, errors: &mut Errors) {
    if new.get(member) != old.get(member) {
        errors.push(FieldError::invalid(
            join(path, member),
            &new[member],
            IMMUTABLE,
        ));
    }
}

/// The number or the name of a port.
pub(super) fn port(value: &Value, field: &str, errors: &mut Errors) {
    match value {
        Value::String(name) => invalid(field, value, names::port_name(name), errors),
        number => invalid(
            field,
            number,
            names::port_number(number.as_i64().unwrap_or(0)),
            errors,
        ),
    }
}

/// An address, as old fields take it: with leading zeros, too.
pub(super) fn sloppy_ip(value: &str) -> Option<IpAddr> {
    let plain: Vec<&str> = value
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            rest => rest,
        })
        .collect();
    value
        .parse()
        .ok()
        .or_else(|| plain.join(".").parse().ok().filter(IpAddr::is_ipv4))
}

/// An address; what it is, if it is one.
pub(super) fn ip(value: &Value, field: &str, errors: &mut Errors) -> Option<IpAddr> {
    let parsed = value.as_str().and_then(sloppy_ip);
    if parsed.is_none() {
        errors.push(FieldError::invalid(
            field,
            value,
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ));
    }
    parsed
}

/// An address at which something else can be reached.
pub(super) fn reachable_ip(ip: IpAddr, value: &Value, field: &str, errors: &mut Errors) {
    let mut refuse = |wrong: String| errors.push(FieldError::invalid(field, value, wrong));
    if ip.is_unspecified() {
        refuse(format!(
            "may not be unspecified ({})",
            value.as_str().unwrap_or_default()
        ));
    }
    if ip.is_loopback() {
        refuse("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets().starts_with(&[224, 0, 0])),
        IpAddr::V6(ip) => (
            ip.is_unicast_link_local(),
            ip.octets()[0] == 0xff && ip.octets()[1] & 0x0f == 2,
        ),
    };
    if link_local {
        refuse("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if link_local_multicast {
        refuse("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
}

/// A block of addresses: the address's bits and how many of them count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    bits: u128,
    length: u32,
    width: u32,
}

impl Block {
    /// Reads `10.0.0.0/8`, with leading zeros, too.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let length: u32 = length.parse().ok()?;
        let (bits, width) = match sloppy_ip(address)? {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32),
            IpAddr::V6(ip) => (u128::from(ip), 128),
        };
        (length <= width).then_some(Self {
            bits,
            length,
            width,
        })
    }

    /// Whether the addresses are of the older family.
    pub(super) fn is_v4(self) -> bool {
        self.width == 32
    }

    fn prefix(self, bits: u128) -> u128 {
        bits.checked_shr(self.width - self.length).unwrap_or(0)
    }

    /// Whether `inner` is a smaller part of this block.
    pub(super) fn strictly_contains(self, inner: Self) -> bool {
        self.width == inner.width
            && self.length < inner.length
            && self.prefix(self.bits) == self.prefix(inner.bits)
    }

    fn written(self, bits: u128, length: u32) -> String {
        let address = if self.width == 32 {
            let low = u32::try_from(bits & u128::from(u32::MAX)).unwrap_or_default();
            IpAddr::V4(low.into())
        } else {
            IpAddr::V6(bits.into())
        };
        format!("{address}/{length}")
    }

    /// What the server warns of in a block that it accepts.
    pub(super) fn warnings(self, field: &str, value: &str) -> Vec<String> {
        let network = self
            .prefix(self.bits)
            .checked_shl(self.width - self.length)
            .unwrap_or(0);
        let proper = self.written(network, self.length);
        let mut warnings = Vec::new();
        if network != self.bits {
            warnings.push(format!(
                "{field}: CIDR value {value:?} is ambiguous in this context (should be {proper:?} or {:?}?)",
                self.written(self.bits, self.width)
            ));
        }
        let strict = value
            .split_once('/')
            .is_some_and(|(address, _)| address.parse::<IpAddr>().is_ok());
        if !strict {
            warnings.push(format!(
                "{field}: non-standard CIDR value {value:?} will be considered invalid in a future Kubernetes release: use {proper:?}"
            ));
        }
        if warnings.is_empty() && self.width == 128 && proper != value {
            warnings.push(format!(
                "{field}: IPv6 CIDR value {value:?} should be in RFC 5952 canonical format ({proper:?})"
            ));
        }
        warnings
    }
}

/// A block of addresses; what it is, if it is one.
pub(super) fn cidr(value: &Value, field: &str, errors: &mut Errors) -> Option<Block> {
    let block = value.as_str().and_then(Block::parse);
    if block.is_none() {
        errors.push(FieldError::invalid(
            field,
            value,
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ));
    }
    block
}

/// What the server warns of in an address that it accepts.
pub(super) fn ip_warnings(field: &str, value: &str) -> Option<String> {
    let ip = sloppy_ip(value)?;
    let proper = ip.to_string();
    if value.parse::<IpAddr>().is_err() {
        return Some(format!(
            "{field}: non-standard IP address {value:?} will be considered invalid in a future Kubernetes release: use {proper:?}"
        ));
    }
    (ip.is_ipv6() && proper != value).then(|| {
        format!(
            "{field}: IPv6 address {value:?} should be in RFC 5952 canonical format ({proper:?})"
        )
    })
}

/// The addresses that a balancer gave, in `status.loadBalancer.ingress`.
pub(super) fn balancer(status: &Value, errors: &mut Errors) {
    for (place, entry) in list(&status["loadBalancer"], "ingress").iter().enumerate() {
        let path = format!("status.loadBalancer.ingress[{place}]");
        if !text(entry, "ip").is_empty() {
            ip(&entry["ip"], &format!("{path}.ip"), errors);
        }
        let host = text(entry, "hostname");
        if !host.is_empty() {
            let field = format!("{path}.hostname");
            subdomain(host, &field, errors);
            if sloppy_ip(host).is_some() {
                errors.push(FieldError::invalid(
                    field,
                    &json!(host),
                    "must be a DNS name, not an IP address",
                ));
            }
        }
    }
}

/// A quantity of a resource: not negative, and whole where things are counted.
pub(super) fn resource_value(name: &str, value: &Value, field: &str, errors: &mut Errors) {
    let Some(nano) = value.as_str().and_then(quantity::nano) else {
        return;
    };
    if nano < 0 {
        errors.push(FieldError::invalid(field, value, NEGATIVE));
    }
    let counted = matches!(
        name,
        "pods"
            | "services"
            | "replicationcontrollers"
            | "resourcequotas"
            | "secrets"
            | "configmaps"
            | "persistentvolumeclaims"
            | "services.nodeports"
            | "services.loadbalancers"
    ) || is_extended(name);
    if counted && nano % 1_000_000_000 != 0 {
        errors.push(FieldError::invalid(field, value, "must be an integer"));
    }
}

/// Whether a resource is one that Kubernetes itself defines.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource is somebody else's, such as a device.
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified(&format!("requests.{name}")).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_have_leading_zeros_in_old_fields() {
        assert_eq!(sloppy_ip("010.000.0.1"), "10.0.0.1".parse().ok());
        assert_eq!(sloppy_ip("fe80::1"), "fe80::1".parse().ok());
        for wrong in ["", "1.2.3", "a.b.c.d", "1.2.3.4.5", "300.0.0.1"] {
            assert_eq!(sloppy_ip(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_block_with_bits_beyond_its_length_is_ambiguous() {
        let warnings = |text: &str| Block::parse(text).map(|b| b.warnings("f", text));
        assert_eq!(warnings("10.0.0.0/8"), Some(vec![]));
        assert_eq!(
            warnings("10.0.0.1/8"),
            Some(vec![
                "f: CIDR value \"10.0.0.1/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.0.0.1/32\"?)"
                    .to_owned()
            ])
        );
        assert_eq!(warnings("10.0.0.0/33"), None);
    }

    #[test]
    fn addresses_that_lead_nowhere_are_refused() {
        for (text, count) in [
            ("10.0.0.1", 0),
            ("127.0.0.1", 1),
            ("0.0.0.0", 1),
            ("fe80::1", 1),
        ] {
            let mut errors = Vec::new();
            let value = json!(text);
            if let Some(address) = ip(&value, "f", &mut errors) {
                reachable_ip(address, &value, "f", &mut errors);
            }
            assert_eq!(errors.len(), count, "{text}");
        }
    }

    #[test]
    fn what_is_counted_is_whole() {
        let mut errors = Vec::new();
        resource_value("pods", &json!("1500m"), "f", &mut errors);
        resource_value("example.com/gpu", &json!("500m"), "f", &mut errors);
        resource_value("cpu", &json!("500m"), "f", &mut errors);
        assert_eq!(errors.len(), 2);
    }
}
