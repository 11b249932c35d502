//! Whether a controller can do its work, and what it lacks if it cannot.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kite_core::{
    cert_manager,
    cluster::Object,
    gateway_api,
    kubevirt::{KubeVirt, VirtualMachineInstanceMigration},
};
use kube::Resource as _;
use tokio::time::Instant;

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
    /// It cannot be listed or watched.
    Failing {
        why: String,
        /// The account has no right to.
        is_forbidden: bool,
        /// Whether it was listed before: then its objects are known, and a watch
        /// that runs again may have nothing to say.
        listed: bool,
        first: Instant,
        last: Instant,
    },
}

/// A watch that was running and breaks is begun anew at once; only when that
/// fails for this long it is worth a word.
const HICCUP: Duration = Duration::from_secs(5);
/// A watch that fails says so again within less than this: one that has not runs
/// again, in silence.
const SILENCE: Duration = Duration::from_secs(120);

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
        self.fail::<K>(why, false);
    }

    /// Objects of kind `K` may not be watched by the account that this process
    /// has.
    pub fn forbidden<K: Object>(&self, why: &dyn std::fmt::Display) {
        self.fail::<K>(why, true);
    }

    fn fail<K: Object>(&self, why: &dyn std::fmt::Display, is_forbidden: bool) {
        let now = Instant::now();
        let why = why.to_string();
        let mut watches = self.lock();
        let watch = watches.entry(Kind::of::<K>()).or_insert(Watch::Starting);
        let (listed, first) = match watch {
            Watch::Starting => (false, now),
            Watch::Running => (true, now),
            Watch::Failing {
                listed,
                first,
                last,
                ..
            } if last.elapsed() < SILENCE => (*listed, *first),
            Watch::Failing { listed, .. } => (*listed, now),
        };
        *watch = Watch::Failing {
            why,
            is_forbidden,
            listed,
            first,
            last: now,
        };
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
                    Watch::Failing {
                        listed: true,
                        first,
                        last,
                        ..
                    } if *last - *first < HICCUP || last.elapsed() > SILENCE => None,
                    Watch::Failing {
                        why,
                        is_forbidden: true,
                        ..
                    } => Some(format!(
                        "{name}: {why}; grant the controller's account get, list and watch of it"
                    )),
                    Watch::Failing { why, .. } => Some(match kind.remedy() {
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
        self.lock().insert(Kind::of::<K>(), watch);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Kind, Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kind {
    fn of<K: Object>() -> Self {
        Self {
            name: K::kind(&()).into_owned(),
            group: K::group(&()).into_owned(),
        }
    }

    fn is_optional(&self) -> bool {
        is_optional(&self.group, &self.name)
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

/// Whether Kite works in a cluster without this kind.
pub(crate) fn is_optional(group: &str, kind: &str) -> bool {
    [gateway_api::GROUP, cert_manager::GROUP].contains(&group)
        || kind == KubeVirt::kind(&())
        || kind == VirtualMachineInstanceMigration::kind(&())
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
        health.forbidden::<VirtualMachine>(&"virtualmachines is forbidden");
        let lacking = health.check(&alone).unwrap_err();
        assert!(
            lacking.contains("grant the controller's account") && !lacking.contains("install"),
            "{lacking}"
        );
        health.watching::<VirtualMachine>();
        assert_eq!(health.check(&alone).unwrap(), "ok");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_breaks_is_told_of_only_while_it_cannot_be_mended() {
        let (health, alone) = (Health::default(), Leadership::alone());
        health.watching::<Secret>();
        health.failing::<Secret>(&"connection reset");
        health.check(&alone).unwrap();
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            health.failing::<Secret>(&"connection refused");
        }
        let lacking = health.check(&alone).unwrap_err();
        assert!(lacking.contains("Secret: connection refused"), "{lacking}");
        // It runs again and has nothing to say.
        tokio::time::sleep(Duration::from_secs(121)).await;
        health.check(&alone).unwrap();
        // What was never listed is lacking however silent it is.
        health.expect::<VirtualMachine>();
        health.failing::<VirtualMachine>(&"404");
        tokio::time::sleep(Duration::from_secs(1000)).await;
        health.check(&alone).unwrap_err();
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
