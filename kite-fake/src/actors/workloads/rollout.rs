//! What a Deployment has while its new replicas are not ready yet, by its strategy.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// How many replicas there are: in all, of the newest template, and ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replicas {
    pub(super) all: u64,
    pub(super) updated: u64,
    pub(super) ready: u64,
}

/// What a Deployment asks for.
#[derive(Debug)]
pub(super) struct Rollout {
    pub(super) wanted: u64,
    /// The `ReplicaSet` that it would have: another one for each template.
    pub(super) replica_set: String,
    /// Old replicas go before new ones come.
    is_recreating: bool,
    most_surge: u64,
    most_unavailable: u64,
}

impl Rollout {
    pub(super) fn of(name: &str, spec: &Value) -> Self {
        let wanted = spec["replicas"].as_u64().unwrap_or(1);
        let digest = Sha256::digest(spec["template"].to_string());
        let hash = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
        let rolling = &spec["strategy"]["rollingUpdate"];
        let most_surge = share(&rolling["maxSurge"], wanted, u64::div_ceil);
        let most_unavailable = share(&rolling["maxUnavailable"], wanted, |part, of| part / of);
        Self {
            wanted,
            replica_set: format!("{name}-{hash:08x}"),
            is_recreating: spec["strategy"]["type"] == "Recreate",
            most_surge,
            // With nothing of both it could never go on.
            most_unavailable: most_unavailable.max(u64::from(most_surge == 0)),
        }
    }

    /// How many have to be ready for the Deployment to be available.
    pub(super) fn least(&self) -> u64 {
        self.wanted.saturating_sub(self.most_unavailable)
    }

    pub(super) fn settled(&self) -> Replicas {
        Replicas {
            all: self.wanted,
            updated: self.wanted,
            ready: self.wanted,
        }
    }

    /// While none of the new ones is ready, of `ready` that were there, which are of an
    /// older template or not.
    pub(super) fn under_way(&self, ready: u64, are_older: bool) -> Replicas {
        let ready = ready.min(self.wanted);
        if ready == 0 || !are_older || self.is_recreating {
            return Replicas {
                ready: if are_older { 0 } else { ready },
                ..self.settled()
            };
        }
        let ready = ready.min(self.least());
        let updated = (self.wanted + self.most_surge - ready).min(self.wanted);
        Replicas {
            all: ready + updated,
            updated,
            ready,
        }
    }
}

/// A number of replicas, or a share of those that are wanted; a quarter if nothing is
/// said.
fn share(said: &Value, wanted: u64, divide: impl Fn(u64, u64) -> u64) -> u64 {
    said.as_u64().unwrap_or_else(|| {
        let percent = said.as_str().and_then(|it| it.strip_suffix('%'));
        let percent = percent.and_then(|it| it.parse().ok()).unwrap_or(25);
        divide(wanted.saturating_mul(percent), 100)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn under_way(strategy: &Value, wanted: u64, ready: u64) -> (u64, u64, u64) {
        let spec = json!({"replicas": wanted, "strategy": strategy, "template": {}});
        let Replicas {
            all,
            updated,
            ready,
        } = Rollout::of("web", &spec).under_way(ready, true);
        (all, updated, ready)
    }

    #[test]
    fn old_replicas_stay_as_the_strategy_says() {
        let rolling = |surge: Value, unavailable: Value| json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        // As long as new ones are not ready: all, new, and old that are ready.
        assert_eq!(under_way(&Value::Null, 2, 2), (3, 1, 2));
        assert_eq!(under_way(&Value::Null, 8, 8), (10, 4, 6));
        assert_eq!(under_way(&rolling(json!(1), json!(0)), 3, 3), (4, 1, 3));
        assert_eq!(under_way(&rolling(json!(0), json!(0)), 3, 3), (3, 1, 2));
        assert_eq!(
            under_way(&rolling(json!("100%"), json!(0)), 3, 3),
            (6, 3, 3)
        );
        assert_eq!(under_way(&json!({"type": "Recreate"}), 3, 3), (3, 3, 0));
        // The first ones, and a step later.
        assert_eq!(under_way(&Value::Null, 3, 0), (3, 3, 0));
        assert_eq!(under_way(&Value::Null, 8, 6), (10, 4, 6));
    }

    #[test]
    fn each_template_has_a_replica_set_of_its_own() {
        let of = |image: &str, replicas: u64| {
            let spec = json!({"replicas": replicas, "template": {"image": image}});
            Rollout::of("web", &spec).replica_set
        };
        assert_eq!(of("a", 1), of("a", 2));
        assert_ne!(of("a", 1), of("b", 1));
    }
}
