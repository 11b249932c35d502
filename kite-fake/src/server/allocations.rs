//! The addresses and ports that Services have, kept beside the store: to look
//! for a free one among all Services, for each new one, would take a server with
//! many of them most of its time.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use serde_json::Value;

use crate::builtin::Env;
use crate::store::{Change, GroupResource, Object, Store};

/// What is taken, as of a revision of the store.
#[derive(Debug, Default)]
pub(crate) struct Allocations {
    revision: u64,
    /// How many Services have an address, and a port.
    addresses: HashMap<String, u32>,
    ports: HashMap<u64, u32>,
}

impl Allocations {
    /// Takes in what has changed since the last call; everything, where that is
    /// not known any more.
    pub(crate) fn follow(&mut self, store: &Store) {
        let services = GroupResource::new("", "services");
        if let Ok(events) = store.events_since(&services, self.revision) {
            for event in events {
                if let Some(previous) = &event.previous {
                    self.give_back(previous);
                }
                if event.change != Change::Deleted {
                    self.take(&event.object);
                }
            }
        } else {
            *self = Self::default();
            for (_, service) in store.range(&services, None, None) {
                self.take(service);
            }
        }
        self.revision = store.revision();
    }

    fn take(&mut self, service: &Object) {
        let (address, ports) = of(service);
        if let Some(address) = address {
            *self.addresses.entry(address).or_default() += 1;
        }
        for port in ports {
            *self.ports.entry(port).or_default() += 1;
        }
    }

    fn give_back(&mut self, service: &Object) {
        let (address, ports) = of(service);
        if let Some(address) = address {
            less(&mut self.addresses, &address);
        }
        for port in ports {
            less(&mut self.ports, &port);
        }
    }
}

fn less<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// What a Service has.
fn of(service: &Object) -> (Option<String>, Vec<u64>) {
    let spec = service.field("spec").unwrap_or_default();
    let address = spec["clusterIP"].as_str().map(str::to_owned);
    let of_ports = spec["ports"].as_array().into_iter().flatten();
    let ports = of_ports
        .map(|port| &port["nodePort"])
        .chain([&spec["healthCheckNodePort"]])
        .filter_map(Value::as_u64);
    (address, ports.collect())
}

impl Env for Allocations {
    fn cluster_ip_taken(&self, ip: Ipv4Addr) -> bool {
        self.addresses.contains_key(&ip.to_string())
    }

    fn node_port_taken(&self, port: u16) -> bool {
        self.ports.contains_key(&u64::from(port))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::Key;

    fn service(address: &str, port: u16) -> Value {
        json!({"metadata": {}, "spec": {"clusterIP": address, "ports": [{"nodePort": port}]}})
    }

    #[test]
    fn what_is_taken_is_known_after_every_change() {
        let services = GroupResource::new("", "services");
        // A history so short that it is sometimes not enough.
        let mut store = Store::new(2);
        let mut taken = Allocations::default();
        let key = |name: &str| Key::new("a", name);
        let ip = |last| Ipv4Addr::new(10, 96, 0, last);
        store.put(&services, key("one"), service("10.96.0.2", 30000), 0);
        store.put(&services, key("two"), service("10.96.0.3", 30001), 0);
        taken.follow(&store);
        assert!(taken.cluster_ip_taken(ip(2)) && taken.cluster_ip_taken(ip(3)));
        assert!(taken.node_port_taken(30000) && !taken.node_port_taken(30002));

        store.put(&services, key("one"), service("10.96.0.4", 30002), 0);
        taken.follow(&store);
        assert!(!taken.cluster_ip_taken(ip(2)) && taken.cluster_ip_taken(ip(4)));
        assert!(!taken.node_port_taken(30000) && taken.node_port_taken(30002));

        store.remove(&services, &key("one"));
        store.remove(&services, &key("two"));
        store.put(&services, key("three"), service("10.96.0.5", 30005), 0);
        taken.follow(&store);
        assert_eq!(taken.addresses.len(), 1);
        assert!(taken.cluster_ip_taken(ip(5)) && taken.node_port_taken(30005));
    }
}
