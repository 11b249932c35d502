//! The addresses and ports that a Service gets: unique in the cluster.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::service::{needs_cluster_ip, needs_health_check, needs_node_ports, node_ports};
use crate::builtin::Env;
use crate::members::{list, list_mut, number, object_mut, set, text};
use crate::schema::{CauseReason, FieldError};

/// Cluster IPs are 10.96.0.0/16.
const NETWORK: [u8; 2] = [10, 96];

/// Node ports.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;

/// Gives a Service the addresses and ports it needs. The choice depends only on
/// the Service's name and on what is taken.
pub(in crate::builtin) fn allocate(
    new: &mut Value,
    old: Option<&Value>,
    env: &dyn Env,
) -> Result<(), Vec<FieldError>> {
    cluster_ip(new, old, env)?;
    if needs_node_ports(new) {
        allocate_node_ports(new, old, env)?;
    }
    if needs_health_check(new) && number(&new["spec"], "healthCheckNodePort").is_none() {
        let used = node_ports(new);
        let port = free_port(new, &used, env)?;
        set(object_mut(new, "spec"), "healthCheckNodePort", port);
    }
    Ok(())
}

fn cluster_ip(new: &mut Value, old: Option<&Value>, env: &dyn Env) -> Result<(), Vec<FieldError>> {
    if !needs_cluster_ip(new) {
        return Ok(());
    }
    let wanted = text(&new["spec"], "clusterIP").to_owned();
    let refused = |why: &str| {
        let error = FieldError::invalid(
            "spec.clusterIPs",
            &json!([wanted]),
            format!("failed to allocate IP {wanted}: {why}"),
        );
        Err(vec![error])
    };
    if wanted == "None"
        || old.is_some_and(|old| text(&old["spec"], "clusterIP") == wanted && !wanted.is_empty())
    {
        return Ok(());
    }
    if !wanted.is_empty() {
        let Some(ip) = wanted.parse::<Ipv4Addr>().ok().filter(|ip| in_range(*ip)) else {
            return refused("the provided network does not match the current range");
        };
        if env.cluster_ip_taken(ip) {
            return refused("provided IP is already allocated");
        }
        return Ok(());
    }
    let start = hash(new);
    let free = (0..65_279u32)
        // Neither the network's own address, nor 10.96.0.1, the API server's, nor broadcast.
        .map(|step| 2 + (start.wrapping_add(step)) % 65_279)
        .map(|host| {
            let [_, _, high, low] = host.to_be_bytes();
            Ipv4Addr::new(NETWORK[0], NETWORK[1], high, low)
        })
        .find(|ip| !env.cluster_ip_taken(*ip));
    let Some(ip) = free else {
        return Err(vec![FieldError::with(
            CauseReason::Internal,
            "spec.clusterIPs",
            "Internal error: failed to allocate a serviceIP: range is full",
        )]);
    };
    let spec = object_mut(new, "spec");
    set(spec, "clusterIP", ip.to_string());
    set(spec, "clusterIPs", json!([ip.to_string()]));
    Ok(())
}

fn in_range(ip: Ipv4Addr) -> bool {
    ip.octets().starts_with(&NETWORK) && !matches!(ip.octets()[2..], [0, 0] | [255, 255])
}

fn allocate_node_ports(
    new: &mut Value,
    old: Option<&Value>,
    env: &dyn Env,
) -> Result<(), Vec<FieldError>> {
    let own: Vec<i64> = old.map(node_ports).unwrap_or_default();
    let mut used = node_ports(new);
    let mut errors = Vec::new();
    for (place, port) in used.iter().enumerate() {
        if own.contains(port) {
            continue;
        }
        let number = u16::try_from(*port).ok().filter(|p| NODE_PORTS.contains(p));
        let wrong = match number {
            None => Some(
                "provided port is not in the valid range. The range of valid ports is 30000-32767",
            ),
            Some(number) if env.node_port_taken(number) => {
                Some("provided port is already allocated")
            }
            Some(_) => None,
        };
        if let Some(wrong) = wrong {
            let field = format!("spec.ports[{place}].nodePort");
            errors.push(FieldError::invalid(field, &json!(port), wrong));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    for place in 0..list(&new["spec"], "ports").len() {
        if number(&new["spec"]["ports"][place], "nodePort").is_some() {
            continue;
        }
        let free = free_port(new, &used, env)?;
        used.push(i64::from(free));
        if let Some(port) = list_mut(object_mut(new, "spec"), "ports").get_mut(place) {
            set(port, "nodePort", free);
        }
    }
    Ok(())
}

/// The first free node port from where the Service's name says.
fn free_port(service: &Value, used: &[i64], env: &dyn Env) -> Result<u16, Vec<FieldError>> {
    let start = hash(service);
    let size = u32::from(NODE_PORTS.end() - NODE_PORTS.start()) + 1;
    (0..size)
        .filter_map(|step| {
            let offset = u16::try_from(start.wrapping_add(step) % size).ok()?;
            Some(NODE_PORTS.start() + offset)
        })
        .find(|port| !env.node_port_taken(*port) && !used.contains(&i64::from(*port)))
        .ok_or_else(|| {
            vec![FieldError::with(
                CauseReason::Internal,
                "spec.ports",
                "Internal error: failed to allocate a nodePort: range is full",
            )]
        })
}

/// Where the search begins: FNV-1a over namespace and name.
fn hash(service: &Value) -> u32 {
    let metadata = &service["metadata"];
    let key = format!("{}/{}", text(metadata, "namespace"), text(metadata, "name"));
    key.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;

    #[derive(Default)]
    struct Taken {
        ips: BTreeSet<Ipv4Addr>,
        ports: BTreeSet<u16>,
    }

    impl Env for Taken {
        fn cluster_ip_taken(&self, ip: Ipv4Addr) -> bool {
            self.ips.contains(&ip)
        }
        fn node_port_taken(&self, port: u16) -> bool {
            self.ports.contains(&port)
        }
    }

    fn service() -> Value {
        let mut service = json!({"metadata": {"name": "a", "namespace": "n"},
            "spec": {"type": "NodePort", "ports": [{"port": 80}, {"port": 81}]}});
        crate::builtin::kinds::service::defaults(&mut service);
        service
    }

    #[test]
    fn allocation_is_deterministic_and_avoids_what_is_taken() {
        let mut taken = Taken::default();
        let mut first = service();
        allocate(&mut first, None, &taken).unwrap();
        let mut again = service();
        allocate(&mut again, None, &taken).unwrap();
        assert_eq!(first, again);

        let ip: Ipv4Addr = text(&first["spec"], "clusterIP").parse().unwrap();
        assert!(in_range(ip));
        taken.ips.insert(ip);
        for port in node_ports(&first) {
            taken.ports.insert(u16::try_from(port).unwrap());
        }
        assert_eq!(taken.ports.len(), 2);
        let mut other = service();
        allocate(&mut other, None, &taken).unwrap();
        assert_ne!(other["spec"]["clusterIP"], first["spec"]["clusterIP"]);
        assert!(
            node_ports(&other)
                .iter()
                .all(|p| !node_ports(&first).contains(p))
        );
    }

    #[test]
    fn a_wanted_address_must_be_free() {
        let mut taken = Taken::default();
        taken.ips.insert(Ipv4Addr::new(10, 96, 7, 7));
        for (ip, why) in [
            ("10.96.7.7", "provided IP is already allocated"),
            (
                "192.0.2.1",
                "the provided network does not match the current range",
            ),
        ] {
            let mut wants = service();
            set(&mut wants["spec"], "clusterIP", ip);
            let errors = allocate(&mut wants, None, &taken).unwrap_err();
            assert_eq!(
                errors[0].message,
                format!("Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: {why}")
            );
        }
    }
}
