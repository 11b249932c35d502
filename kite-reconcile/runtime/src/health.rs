//! Whether a controller can do its work, and what it lacks if it cannot.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kite_cluster::Object;
use tokio::time::Instant;

use crate::{
    kinds::KindOptions,
    leader::{LeaderState, Leadership},
};

/// What a controller watches, and whether it can: shared by the watches, which
/// report, and by `/readyz`, which asks.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<Mutex<BTreeMap<Name, Kind>>>);

/// The name of a kind, and its group.
type Name = (String, String);

#[derive(Clone, Debug)]
struct Kind {
    watch: Watch,
    is_optional: bool,
    remedy: Option<&'static str>,
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
    /// Objects of kind `K` are going to be watched, as `options` say.
    pub fn expect<K: Object>(&self, options: &KindOptions<K>) {
        let mut kinds = self.lock();
        let kind = kinds.entry(name::<K>()).or_default();
        *kind = Kind {
            watch: Watch::Starting,
            is_optional: options.is_optional,
            remedy: options.remedy,
        };
    }

    /// Objects of kind `K` are watched.
    pub fn watching<K: Object>(&self) {
        self.lock().entry(name::<K>()).or_default().watch = Watch::Running;
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
        let mut kinds = self.lock();
        let watch = &mut kinds.entry(name::<K>()).or_default().watch;
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

    /// What is lacking, a line each: kind, reason and remedy. Kinds that
    /// are optional are not among them.
    pub fn lacking(&self) -> Vec<String> {
        self.lock()
            .iter()
            .filter(|(_, kind)| !kind.is_optional)
            .filter_map(|((name, _), kind)| match &kind.watch {
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
                Watch::Failing { why, .. } => Some(match kind.remedy {
                    Some(remedy) => format!("{name}: {why}; {remedy}"),
                    None => format!("{name}: {why}"),
                }),
            })
            .collect()
    }

    /// Whether the process of `leadership` is ready, and a text for people either
    /// way. Who stands by is ready: nothing else is asked of it, and a rollout
    /// that waited for it would wait for the leader to go first.
    ///
    /// # Errors
    /// The text that says what the process waits for.
    pub fn check(&self, leadership: &Leadership) -> Result<String, String> {
        if let LeaderState::Candidate(leader) = leadership.state() {
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

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Name, Kind>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            watch: Watch::Starting,
            is_optional: false,
            remedy: None,
        }
    }
}

fn name<K: Object>() -> Name {
    (K::kind(&()).into_owned(), K::group(&()).into_owned())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Pod, Secret};

    use super::*;

    fn of_pods() -> KindOptions<Pod> {
        KindOptions {
            remedy: Some("install what makes Pods"),
            ..KindOptions::default()
        }
    }

    #[test]
    fn what_is_lacking_is_said_with_its_remedy() {
        let health = Health::default();
        let alone = Leadership::always();
        health.expect::<Secret>(&KindOptions::default());
        assert_eq!(
            health.check(&alone).unwrap_err(),
            "not ready\nSecret: not listed yet"
        );
        health.watching::<Secret>();
        health.expect::<Pod>(&of_pods());
        health.failing::<Pod>(&"404 page not found");
        let lacking = health.check(&alone).unwrap_err();
        assert!(
            lacking.contains("Pod: 404 page not found; install what makes Pods")
                && !lacking.contains("Secret"),
            "{lacking}"
        );
        health.forbidden::<Pod>(&"pods is forbidden");
        let lacking = health.check(&alone).unwrap_err();
        assert!(
            lacking.contains("grant the controller's account") && !lacking.contains("install"),
            "{lacking}"
        );
        health.watching::<Pod>();
        assert_eq!(health.check(&alone).unwrap(), "ok");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_breaks_is_told_of_only_while_it_cannot_be_mended() {
        let (health, alone) = (Health::default(), Leadership::always());
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
        health.expect::<Pod>(&of_pods());
        health.failing::<Pod>(&"404");
        tokio::time::sleep(Duration::from_secs(1000)).await;
        health.check(&alone).unwrap_err();
    }

    #[test]
    fn who_stands_by_is_ready_whatever_is_lacking() {
        let health = Health::default();
        health.expect::<Secret>(&KindOptions::default());
        assert_eq!(
            health.check(&Leadership::candidate()).unwrap(),
            "ok: stands by"
        );
    }
}
