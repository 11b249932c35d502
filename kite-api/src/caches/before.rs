//! What audit records say of Kite's objects, and what those were before a write.

use kite_core::{cluster::ObjectKey, crd::GROUP};
use kite_rest::audit::{Before, spec};
use serde_json::{Map, Value};

use super::Caches;

/// Fields of specs that are shown: what says who may do what, who comes in by what, and
/// what is reachable from where. All others are named when they change, and not shown.
const SHOWN: [&str; 32] = [
    "accessLevel",
    "baseDomain",
    "blockedNetworks",
    "cpu",
    "disk",
    "domainPrefix",
    "email",
    "end",
    "expiresAt",
    "exposure",
    "gateway",
    "identities",
    "identity",
    "image",
    "imageNamespace",
    "memory",
    "offer",
    "owner",
    "powerState",
    "quota",
    "requireSecondFactor",
    "scopes",
    "sessionEpoch",
    "signInProviders",
    "signUp",
    "signUpsPerDay",
    "sshId",
    "sshLogin",
    "sshPublicKeys",
    "suspended",
    "tokenEpoch",
    "user",
];

impl Before for Caches {
    fn group(&self) -> &'static str {
        GROUP
    }

    fn shown(&self) -> &'static [&'static str] {
        &SHOWN
    }

    fn spec_of(&self, kind: &str, key: &ObjectKey) -> Option<Map<String, Value>> {
        match kind {
            "KiteVirtualMachine" => spec(&*self.vms.get(key)?),
            "KiteVirtualMachineOffer" => spec(&*self.offers.get(key)?),
            "KiteImage" => spec(&*self.images.get(key)?),
            "KiteConnection" => spec(&*self.connections.get(key)?),
            _ => self.of_accounts().spec_of(kind, key),
        }
    }

    fn came_in<'a>(&self, kind: &str, spec: &'a Map<String, Value>) -> Option<&'a str> {
        self.of_accounts().came_in(kind, spec)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kite_rest::audit::is_secret;
    use serde_json::json;

    use super::*;

    /// A name that no kind has would show nothing, and nobody would miss it.
    #[test]
    fn what_is_shown_is_a_field_of_some_kind() {
        let mut there = BTreeSet::new();
        for definition in kite_core::crd::all() {
            let definition = json!(definition);
            let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let fields = schema["properties"]["spec"]["properties"].as_object();
            there.extend(fields.into_iter().flat_map(Map::keys).cloned());
        }
        assert!(there.contains("username"), "{there:?}");
        for name in SHOWN {
            assert!(there.contains(name), "{name} is in no spec");
        }
    }

    #[test]
    fn what_is_shown_is_in_order_and_no_secret() {
        assert!(SHOWN.is_sorted());
        assert!(!SHOWN.iter().any(|name| is_secret(name)));
    }
}
