//! How a Deployment gets from one template to the next.

use serde_json::Value;

use crate::actors::workloads::shares::{down, share, up};

/// What a Deployment asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strategy {
    /// How many replicas.
    pub(super) replicas: i64,
    /// Old ones go before new ones come.
    pub(super) is_recreating: bool,
    /// How many more there may be while it rolls.
    pub(super) surge: i64,
    /// How many may not be available.
    pub(super) unavailable: i64,
}

impl Strategy {
    pub(super) fn of(spec: &Value) -> Self {
        let replicas = spec["replicas"].as_i64().unwrap_or(1);
        let is_recreating = spec["strategy"]["type"] == "Recreate";
        if is_recreating {
            return Self {
                replicas,
                is_recreating,
                surge: 0,
                unavailable: 0,
            };
        }
        let rolling = &spec["strategy"]["rollingUpdate"];
        // A quarter, where nothing is said.
        let surge = share(&rolling["maxSurge"], replicas, up);
        let surge = surge.unwrap_or_else(|| up(replicas * 25, 100));
        let unavailable = share(&rolling["maxUnavailable"], replicas, down);
        let unavailable = unavailable.unwrap_or_else(|| down(replicas * 25, 100));
        // With nothing of both it could never go on.
        let unavailable = unavailable.max(i64::from(surge == 0));
        Self {
            replicas,
            is_recreating,
            surge,
            unavailable: unavailable.min(replicas),
        }
    }

    /// How many have to be available.
    pub(super) fn least(self) -> i64 {
        self.replicas - self.unavailable
    }

    /// How many there may be in all.
    pub(super) fn most(self) -> i64 {
        self.replicas + self.surge
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shares_are_of_what_is_wanted() {
        let of = |surge: Value, unavailable: Value| {
            let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            let spec = json!({"replicas": 10, "strategy": {"rollingUpdate": rolling}});
            let strategy = Strategy::of(&spec);
            (strategy.most(), strategy.least())
        };
        assert_eq!(of(json!("25%"), json!("25%")), (13, 8));
        assert_eq!(of(json!(2), json!(1)), (12, 9));
        assert_eq!(of(json!(0), json!(0)), (10, 9));
        let recreate = json!({"replicas": 3, "strategy": {"type": "Recreate"}});
        assert_eq!(Strategy::of(&recreate).most(), 3);
    }
}
