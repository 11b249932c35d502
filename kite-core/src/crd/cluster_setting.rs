//! Settings of the platform that are for administrators of the *cluster*: through them
//! the controller acts on what is not Kite's, such as Ingresses with annotations that
//! other controllers obey, addresses of load balancers, ports of nodes, names in DNS; or
//! somebody gets into what users have, without their being told.
//!
//! Whoever administers Kite is not trusted with the cluster. So the HTTP API changes none
//! of these, and an admission policy refuses it to the API's account.

use serde_json::{Map, Value};

use super::{
    KitePlatformSpec, image_source::IMAGE_SOURCES_AS_JSON, reserved_domain::RESERVED_AS_JSON,
};
use crate::names;

/// What the HTTP API may do to such a setting all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApiMay {
    /// Nothing.
    Nothing,
    /// Set it while it has no value; from then on nothing.
    SetOnce,
    /// Add entries to the list, and take none away.
    Add,
    /// Set it to one of these.
    SetTo(&'static [&'static str]),
}

/// A setting that is for administrators of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterSetting {
    /// Its path below `spec`, such as `web.annotations`.
    pub path: &'static str,
    /// What it is where nothing is set, as JSON, which is CEL, too.
    pub default: &'static str,
    /// What the HTTP API may do to it.
    pub api_may: ApiMay,
}

const fn setting(path: &'static str, default: &'static str, api_may: ApiMay) -> ClusterSetting {
    ClusterSetting {
        path,
        default,
        api_may,
    }
}

const TEXT: &str = "\"\"";

impl ClusterSetting {
    /// All of them.
    pub const ALL: [Self; 19] = [
        setting("baseDomain", TEXT, ApiMay::SetOnce),
        setting("storageClass", TEXT, ApiMay::Nothing),
        setting("imageNamespace", TEXT, ApiMay::Nothing),
        setting("blockedNetworks", "[]", ApiMay::Add),
        // The network policies open to them, wherever they are.
        setting("nameservers", "[]", ApiMay::Nothing),
        setting("reservedDomainPrefixes", RESERVED_AS_JSON, ApiMay::Add),
        // What an importer reaches people read.
        setting("imageSources", IMAGE_SOURCES_AS_JSON, ApiMay::Nothing),
        setting("exposure.ingressClassName", TEXT, ApiMay::Nothing),
        setting("exposure.gateway", "{}", ApiMay::Nothing),
        setting("exposure.controllerNamespaces", "[]", ApiMay::Nothing),
        // A certificate that is put in takes the place of another one.
        setting(
            "exposure.certificate.clusterIssuer",
            TEXT,
            ApiMay::SetTo(&[""]),
        ),
        setting(
            "exposure.certificate.secretName",
            TEXT,
            ApiMay::SetTo(&["", names::UPLOADED_CERTIFICATE]),
        ),
        setting("web.annotations", "{}", ApiMay::Nothing),
        setting("gateway.annotations", "{}", ApiMay::Nothing),
        setting("gateway.loadBalancerClass", TEXT, ApiMay::Nothing),
        setting("gateway.serviceType", "\"LoadBalancer\"", ApiMay::Nothing),
        setting("gateway.nodePort", "0", ApiMay::Nothing),
        // Some load balancers take that port on every node.
        setting("gateway.servicePort", "22", ApiMay::Nothing),
        // Who is vouched for gets into others' VMs, and their owners are not told.
        setting("gateway.userAuthorities", "[]", ApiMay::Nothing),
    ];

    /// What is said to whoever may not change it: the remedy.
    pub fn refusal(&self) -> String {
        let but = match self.api_may {
            ApiMay::Nothing => "",
            ApiMay::SetOnce => ", once it is set",
            ApiMay::Add => ", but to add to it",
            ApiMay::SetTo(_) => ", but to have a certificate that was put in",
        };
        format!(
            "is changed by administrators of the cluster only{but}: leave it out here, and have \
             one of them write spec.{} with kubectl edit kiteplatform {}",
            self.path,
            names::PLATFORM
        )
    }

    /// The settings that the HTTP API may not change as `patch` (a JSON merge patch of the
    /// spec) would. What a setting is that cannot be read nobody knows: it is not changed.
    pub fn refused(spec: &KitePlatformSpec, patch: &Map<String, Value>) -> Vec<&'static Self> {
        let before = serde_json::to_value(spec).unwrap_or_default();
        let mut after = before.clone();
        merge(&mut after, &Value::Object(patch.clone()));
        let changed = |setting: &&Self| {
            let (was, is) = (setting.value_in(&before), setting.value_in(&after));
            let field = setting.field();
            let is_blind = patch.contains_key(field) && spec.is_unread(field);
            is_blind || (was != is && !setting.admits(&was, &is))
        };
        Self::ALL.iter().filter(changed).collect()
    }

    fn admits(&self, was: &Value, is: &Value) -> bool {
        match self.api_may {
            ApiMay::Nothing => false,
            ApiMay::SetOnce => *was == self.unset(),
            ApiMay::Add => was.as_array().is_some_and(|was| {
                let is = is.as_array();
                was.iter().all(|it| is.is_some_and(|is| is.contains(it)))
            }),
            ApiMay::SetTo(values) => is.as_str().is_some_and(|it| values.contains(&it)),
        }
    }

    /// The field of the spec that it is, or that it is in.
    fn field(&self) -> &str {
        self.path.split('.').next().unwrap_or(self.path)
    }

    fn unset(&self) -> Value {
        serde_json::from_str(self.default).unwrap_or_default()
    }

    fn value_in(&self, spec: &Value) -> Value {
        let pointer = format!("/{}", self.path.replace('.', "/"));
        let found = spec.pointer(&pointer).filter(|it| !it.is_null());
        found.cloned().unwrap_or_else(|| self.unset())
    }
}

/// Changes `target` as a JSON merge patch (RFC 7386) says.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        patch.clone_into(target);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kube::CustomResourceExt as _;
    use serde_json::json;

    use super::*;
    use crate::crd::KitePlatform;

    fn refused(before: &Value, patch: &Value) -> Vec<&'static str> {
        let before: KitePlatformSpec = serde_json::from_value(before.clone()).unwrap();
        let refused = ClusterSetting::refused(&before, patch.as_object().unwrap());
        refused.iter().map(|it| it.path).collect()
    }

    /// Settings by which nobody reaches out of Kite. One that is new belongs into this
    /// list or into [`ClusterSetting::ALL`]: think of all that the controller does with it.
    const OF_KITE: [&str; 12] = [
        "gateway.enabled",
        "gateway.publicHost",
        "gateway.publicPort",
        "gateway.trafficPolicy",
        "requireSecondFactor",
        "sessionEpoch",
        "signInProviders",
        "signUp",
        "signUpsPerDay",
        "tokenEpoch",
        "web.enabled",
        "web.httpsRedirect",
    ];

    /// The leaves of a schema; maps and lists are leaves.
    fn leaves(schema: &Value, path: &str, found: &mut Vec<String>) {
        match schema["properties"].as_object() {
            None => found.push(path.to_owned()),
            Some(fields) => {
                for (name, below) in fields {
                    let dot = if path.is_empty() { "" } else { "." };
                    leaves(below, &format!("{path}{dot}{name}"), found);
                }
            }
        }
    }

    #[test]
    fn every_setting_is_kites_or_the_clusters() {
        let definition = serde_json::to_value(KitePlatform::crd()).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut there = Vec::new();
        leaves(&schema["properties"]["spec"], "", &mut there);
        there.sort_unstable();
        let known = ClusterSetting::ALL.iter().map(|it| it.path);
        let known: Vec<_> = known.chain(OF_KITE).collect();
        let is_in = |leaf: &str, known: &str| {
            let below = leaf.strip_prefix(known);
            below.is_some_and(|it| it.is_empty() || it.starts_with('.'))
        };
        for leaf in &there {
            let of = known.iter().filter(|known| is_in(leaf, known));
            assert_eq!(of.count(), 1, "{leaf}");
        }
        for known in known {
            assert!(there.iter().any(|leaf| is_in(leaf, known)), "{known}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_changed() {
        let before = json!({"baseDomain": ["vm.test"], "web": 1, "signUp": "Sometimes"});
        for (patch, expected) in [
            // It may have been set.
            (json!({"baseDomain": "corp.example"}), vec!["baseDomain"]),
            (json!({"web": {"enabled": true}}), vec!["web.annotations"]),
            (json!({"signUp": "Closed"}), vec![]),
        ] {
            assert_eq!(refused(&before, &patch), expected, "{patch}");
        }
    }

    #[test]
    fn what_is_unset_is_what_the_schema_has() {
        let spec = serde_json::to_value(KitePlatformSpec::default()).unwrap();
        for setting in ClusterSetting::ALL {
            assert!(!setting.unset().is_null(), "{}", setting.path);
            assert_eq!(setting.value_in(&spec), setting.unset(), "{}", setting.path);
        }
    }

    #[test]
    fn nothing_reaches_out_of_kite_whichever_way_it_is_written() {
        let free = json!({});
        let taken = json!({
            "baseDomain": "vm.test", "blockedNetworks": ["198.51.100.0/24"],
            "web": {"annotations": {"a": "b"}},
            "exposure": {"certificate": {"clusterIssuer": "own"}},
        });
        for (before, patch, expected) in [
            (
                &free,
                json!({"web": {"annotations": {"a": "b"}}}),
                vec!["web.annotations"],
            ),
            (
                &taken,
                json!({"web": {"annotations": {"a": null}}}),
                vec!["web.annotations"],
            ),
            (&taken, json!({"web": null}), vec!["web.annotations"]),
            (&taken, json!({"web": {"annotations": {"a": "b"}}}), vec![]),
            (&taken, json!({"web": {"httpsRedirect": false}}), vec![]),
            (
                &free,
                json!({"gateway": {"annotations": {"a": "b"}, "publicPort": 23, "nodePort": 30022}}),
                vec!["gateway.annotations", "gateway.nodePort"],
            ),
            (&free, json!({"gateway": null}), vec![]),
            (&free, json!({"baseDomain": "corp.example"}), vec![]),
            (
                &taken,
                json!({"baseDomain": "corp.example"}),
                vec!["baseDomain"],
            ),
            // Otherwise it could be set once more.
            (&taken, json!({"baseDomain": null}), vec!["baseDomain"]),
            (
                &taken,
                json!({"blockedNetworks": ["203.0.113.0/24", "198.51.100.0/24"]}),
                vec![],
            ),
            (
                &taken,
                json!({"blockedNetworks": ["203.0.113.0/24"]}),
                vec!["blockedNetworks"],
            ),
            (
                &taken,
                json!({"blockedNetworks": null}),
                vec!["blockedNetworks"],
            ),
            (
                &free,
                json!({"nameservers": ["10.96.0.10"]}),
                vec!["nameservers"],
            ),
            (&free, json!({"nameservers": []}), vec![]),
            (
                &taken,
                json!({"exposure": {"certificate": {"clusterIssuer": "other"}}}),
                vec!["exposure.certificate.clusterIssuer"],
            ),
            (
                &taken,
                json!({"exposure": {"certificate": {"clusterIssuer": null, "secretName": "kite-certificate"}}}),
                vec![],
            ),
            (
                &free,
                json!({"exposure": {"certificate": {"secretName": "kite-seal"}}}),
                vec!["exposure.certificate.secretName"],
            ),
            (
                &free,
                json!({"exposure": {"gateway": {"namespace": "infra", "name": "front"}}}),
                vec!["exposure.gateway"],
            ),
        ] {
            assert_eq!(refused(before, &patch), expected, "{before} {patch}");
        }
    }
}
