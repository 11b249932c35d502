//! How a Deployment gets from one template to the next.

use serde_json::Value;

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
        let surge = share(&rolling["maxSurge"], replicas, up);
        let unavailable = share(&rolling["maxUnavailable"], replicas, down);
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

/// The part, rounded up.
pub(in crate::actors::workloads) fn up(part: i64, of: i64) -> i64 {
    (part + of - 1) / of
}

/// The part, rounded down.
pub(in crate::actors::workloads) fn down(part: i64, of: i64) -> i64 {
    part / of
}

/// A number of replicas, or a share of those that are wanted; a quarter if nothing is
/// said.
pub(in crate::actors::workloads) fn share(
    said: &Value,
    wanted: i64,
    divide: fn(i64, i64) -> i64,
) -> i64 {
    said.as_i64().unwrap_or_else(|| {
        let percent = said.as_str().and_then(|it| it.strip_suffix('%'));
        let percent = percent.and_then(|it| it.parse().ok()).unwrap_or(25);
        divide(wanted.saturating_mul(percent), 100)
    })
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
