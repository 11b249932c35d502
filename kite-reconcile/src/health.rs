//! Whether a controller can do its work, and what it lacks if it cannot.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use kite_core::cluster::Object;

use crate::leader::{Leadership, Standing};

/// What a controller watches, and whether it can: shared by the watches, which
/// report, and by `/readyz`, which asks.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<BTreeMap<Kind, Watch>>>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    name: String,
    group: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Watch {
    /// The first list is not complete yet.
    Starting,
    /// It is watched.
    Running,
    /// It cannot be listed or watched, for this reason.
    Failing(String),
}

impl Health {
    /// Objects of kind `K` are going to be watched.
    pub fn expect<K: Object>(&self) {
        self.set::<K>(Watch::Starting);
    }

    /// Objects of kind `K` are watched.
    pub fn watching<K: Object>(&self) {
        self.set::<K>(Watch::Running);
    }

    /// Objects of kind `K` cannot be watched at the moment.
    pub fn failing<K: Object>(&self, why: &dyn std::fmt::Display) {
        self.set::<K>(Watch::Failing(why.to_string()));
    }

    /// Forgets all kinds: who watched them has ended.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// What is lacking, a line each: kind, reason and remedy. Kinds that Kite can
    /// do without are not among them.
    pub fn lacking(&self) -> Vec<String> {
        self.lock()
            .iter()
            .filter(|(kind, _)| !kind.is_optional())
            .filter_map(|(kind, watch)| {
                let name = &kind.name;
                match watch {
                    Watch::Running => None,
                    Watch::Starting => Some(format!("{name}: not listed yet")),
                    Watch::Failing(why) => Some(match kind.remedy() {
                        Some(remedy) => format!("{name}: {why}; {remedy}"),
                        None => format!("{name}: {why}"),
                    }),
                }
            })
            .collect()
    }

    /// Whether the process of `leadership` is ready, and a text for people either
    /// way. Who stands by is ready: nothing else is asked of it, and a rollout
    /// that waited for it would wait for the leader to go first.
    pub fn check(&self, leadership: &Leadership) -> Result<String, String> {
        if let Standing::Candidate(leader) = leadership.standing() {
            return Ok(match leader {
                Some(leader) => format!("ok: stands by, {leader} leads"),
                None => "ok: stands by".to_owned(),
            });
        }
        let lacking = self.lacking();
        if lacking.is_empty() {
            return Ok("ok".to_owned());
        }
        Err(format!("not ready\n{}", lacking.join("\n")))
    }

    fn set<K: Object>(&self, watch: Watch) {
        let kind = Kind {
            name: K::kind(&()).into_owned(),
            group: K::group(&()).into_owned(),
        };
        self.lock().insert(kind, watch);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Kind, Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kind {
    /// Whether Kite works without this kind.
    fn is_optional(&self) -> bool {
        self.group == "gateway.networking.k8s.io"
    }

    fn remedy(&self) -> Option<&'static str> {
        Some(match self.group.as_str() {
            kite_core::crd::GROUP => "apply Kite's CRDs (kite crds | kubectl apply -f -)",
            "kubevirt.io" => "install KubeVirt",
            "cdi.kubevirt.io" => "install CDI",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use kite_core::kubevirt::VirtualMachine;

    use super::*;

    #[test]
    fn what_is_lacking_is_said_with_its_remedy() {
        let health = Health::default();
        let alone = Leadership::alone();
        health.expect::<Secret>();
        assert_eq!(
            health.check(&alone).unwrap_err(),
            "not ready\nSecret: not listed yet"
        );
        health.watching::<Secret>();
        health.failing::<VirtualMachine>(&"404 page not found");
        let lacking = health.check(&alone).unwrap_err();
        assert!(
            lacking.contains("VirtualMachine: 404 page not found; install KubeVirt")
                && !lacking.contains("Secret"),
            "{lacking}"
        );
        health.watching::<VirtualMachine>();
        assert_eq!(health.check(&alone).unwrap(), "ok");
    }

    #[test]
    fn who_stands_by_is_ready_whatever_is_lacking() {
        let health = Health::default();
        health.expect::<Secret>();
        assert_eq!(
            health.check(&Leadership::contended()).unwrap(),
            "ok: stands by"
        );
    }
}
