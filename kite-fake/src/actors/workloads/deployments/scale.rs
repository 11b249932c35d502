//! How many replicas each `ReplicaSet` of a Deployment is to have next.

use std::cmp::Ordering;

use super::set::{DESIRED, MAXIMUM, Set};
use super::strategy::Strategy;

/// The sets of a Deployment.
#[derive(Clone, Debug)]
pub(super) struct Sets {
    /// The one of the Deployment's template.
    pub(super) newest: Option<Set>,
    /// All others, the oldest first.
    pub(super) old: Vec<Set>,
}

/// What a set is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Name of the set.
    pub(super) set: String,
    pub(super) replicas: i64,
}

impl Size {
    fn of(set: &Set, replicas: i64) -> Self {
        Self {
            set: set.name().to_owned(),
            replicas,
        }
    }
}

impl Sets {
    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.newest)
    }

    fn active(&self) -> impl Iterator<Item = &Set> {
        self.all().filter(|set| set.replicas > 0)
    }

    /// How many replicas are asked for in all.
    pub(super) fn asked(&self) -> i64 {
        self.all().map(|set| set.replicas).sum()
    }

    /// What the statuses count together.
    pub(super) fn sum(&self, member: &str) -> i64 {
        self.all().map(|set| set.count(member)).sum()
    }

    /// Whether the Deployment has been given another number of replicas since its sets
    /// were last scaled.
    pub(super) fn is_scaled(&self, strategy: Strategy) -> bool {
        let mut active = self.active();
        active.any(|set| {
            set.number(DESIRED)
                .is_some_and(|it| it != strategy.replicas)
        })
    }

    /// How many replicas a set of the newest template has next: as many more as there is
    /// room for.
    pub(super) fn grown(&self, strategy: Strategy, has: i64) -> i64 {
        if strategy.is_recreating {
            return strategy.replicas;
        }
        let room = (strategy.most() - self.asked()).max(0);
        has + room.min(strategy.replicas - has).max(0)
    }

    /// The next step of a rolling update.
    pub(super) fn roll(&self, strategy: Strategy) -> Vec<Size> {
        let Some(newest) = &self.newest else {
            return Vec::new();
        };
        let next = if newest.replicas > strategy.replicas {
            strategy.replicas
        } else {
            self.grown(strategy, newest.replicas)
        };
        if next != newest.replicas {
            return vec![Size::of(newest, next)];
        }
        self.shrink(strategy, newest)
    }

    /// Fewer replicas of the old sets: those first that are not available anyway, then as
    /// many as are available beyond what has to be.
    fn shrink(&self, strategy: Strategy, newest: &Set) -> Vec<Size> {
        let late = newest.replicas - newest.count("availableReplicas");
        let mut room = self.asked() - strategy.least() - late;
        if room <= 0 {
            return Vec::new();
        }
        let mut sizes: Vec<(usize, i64)> = Vec::new();
        for (at, set) in self.old.iter().enumerate() {
            let sick = set.replicas - set.count("availableReplicas");
            let fewer = sick.min(room).max(0).min(set.replicas);
            room -= fewer;
            sizes.push((at, set.replicas - fewer));
        }
        let mut spare = self.sum("availableReplicas") - strategy.least();
        for (_, replicas) in &mut sizes {
            let fewer = spare.min(*replicas).max(0);
            spare -= fewer;
            *replicas -= fewer;
        }
        sizes
            .into_iter()
            .zip(&self.old)
            .filter(|((_, replicas), set)| *replicas != set.replicas)
            .map(|((_, replicas), set)| Size::of(set, replicas))
            .collect()
    }

    /// No replicas of old sets.
    pub(super) fn empty_old(&self) -> Vec<Size> {
        let active = self.old.iter().filter(|set| set.replicas > 0);
        active.map(|set| Size::of(set, 0)).collect()
    }

    /// Another number of replicas without a step to another template: each set has its
    /// share of it.
    pub(super) fn scale(&self, strategy: Strategy) -> Vec<Size> {
        let mut active = self.active();
        let one = match (active.next(), active.next()) {
            // Where nothing is active it is the newest.
            (None, _) => self.newest.as_ref().or(self.old.last()),
            (one, None) => one,
            _ => None,
        };
        if let Some(one) = one {
            return vec![Size::of(one, strategy.replicas)];
        }
        if self.is_saturated(strategy) {
            return self.empty_old();
        }
        if strategy.is_recreating {
            return Vec::new();
        }
        self.in_proportion(strategy)
    }

    fn is_saturated(&self, strategy: Strategy) -> bool {
        self.newest.as_ref().is_some_and(|set| {
            let wanted = strategy.replicas;
            set.replicas == wanted
                && set.number(DESIRED) == Some(wanted)
                && set.count("availableReplicas") == wanted
        })
    }

    fn in_proportion(&self, strategy: Strategy) -> Vec<Size> {
        let most = if strategy.replicas > 0 {
            strategy.most()
        } else {
            0
        };
        let more = most - self.asked();
        let mut sets: Vec<&Set> = self.active().collect();
        // The largest gains or loses first; of those of a size, the newest gains and the
        // oldest loses.
        sets.sort_by(|a, b| {
            let by_age = if more > 0 { b.by_age(a) } else { a.by_age(b) };
            b.replicas.cmp(&a.replicas).then(by_age)
        });
        let mut added = 0;
        let mut sizes: Vec<i64> = Vec::new();
        for set in &sets {
            let part = part(set, strategy, more - added);
            added += part;
            sizes.push(set.replicas + part);
        }
        // What rounding left over is the first one's.
        if let Some(first) = sizes.first_mut() {
            *first = (*first + more - added).max(0);
        }
        let pairs = sets.into_iter().zip(sizes);
        pairs.map(|(set, size)| Size::of(set, size)).collect()
    }
}

/// How many of `rest` replicas that come or go are a set's.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn part(set: &Set, strategy: Strategy, rest: i64) -> i64 {
    if set.replicas == 0 || rest == 0 {
        return 0;
    }
    let fraction = if strategy.replicas == 0 {
        -set.replicas
    } else {
        let before = set.number(MAXIMUM).filter(|it| *it > 0);
        let before = before.unwrap_or(set.replicas);
        let exact = (set.replicas * strategy.most()) as f64 / before as f64;
        exact.round() as i64 - set.replicas
    };
    match rest.cmp(&0) {
        Ordering::Greater => fraction.min(rest),
        _ => fraction.max(rest),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use serde_json::json;

    use super::*;

    /// A set with so many replicas, of which so many are available.
    fn set(name: &str, replicas: i64, available: i64, most: i64) -> Set {
        let object = json!({
            "metadata": {"name": name, "annotations": {
                DESIRED: "10", MAXIMUM: most.to_string(),
            }},
            "spec": {"replicas": replicas},
            "status": {"replicas": replicas, "availableReplicas": available},
        });
        let object: kube::api::DynamicObject = serde_json::from_value(object).unwrap();
        Set::of(object.into())
    }

    fn strategy(replicas: i64, surge: i64, unavailable: i64) -> Strategy {
        Strategy {
            replicas,
            is_recreating: false,
            surge,
            unavailable,
        }
    }

    fn sizes(sizes: &[Size]) -> Vec<(&str, i64)> {
        sizes
            .iter()
            .map(|it| (it.set.as_str(), it.replicas))
            .collect()
    }

    fn sets(newest: Option<Set>, old: Vec<Set>) -> Sets {
        Sets { newest, old }
    }

    #[test]
    fn a_rolling_update_goes_as_far_as_it_may() {
        let rolling = strategy(10, 3, 2);
        // Room for three more.
        let begun = sets(Some(set("b", 0, 0, 13)), vec![set("a", 10, 10, 13)]);
        assert_eq!(sizes(&begun.roll(rolling)), [("b", 3)]);
        // Two old ones may go although no new one is there yet.
        let under_way = sets(Some(set("b", 3, 0, 13)), vec![set("a", 10, 10, 13)]);
        assert_eq!(sizes(&under_way.roll(rolling)), [("a", 8)]);
        // Then there is room again, and then it waits.
        let waiting = sets(Some(set("b", 5, 0, 13)), vec![set("a", 8, 8, 13)]);
        assert_eq!(sizes(&waiting.roll(rolling)), []);
        // What is sick goes first, and of the oldest.
        let sick = sets(
            Some(set("c", 3, 3, 13)),
            vec![set("a", 5, 5, 13), set("b", 5, 1, 13)],
        );
        assert_eq!(sizes(&sick.roll(rolling)), [("a", 4), ("b", 1)]);
        let done = sets(Some(set("b", 10, 10, 13)), vec![set("a", 0, 0, 13)]);
        assert_eq!(sizes(&done.roll(rolling)), []);
        // Fewer at once where fewer are wanted.
        assert_eq!(sizes(&done.roll(strategy(4, 1, 1))), [("b", 4)]);
    }

    #[test]
    fn the_only_active_set_has_all_and_several_have_their_shares() {
        let one = sets(Some(set("b", 0, 0, 13)), vec![set("a", 10, 10, 13)]);
        assert_eq!(sizes(&one.scale(strategy(4, 1, 1))), [("a", 4)]);
        let idle = sets(Some(set("b", 0, 0, 13)), vec![set("a", 0, 0, 13)]);
        assert_eq!(sizes(&idle.scale(strategy(4, 1, 1))), [("b", 4)]);
        // 13 are there of at most 13; 26 may be of 20 wanted.
        let two = || sets(Some(set("b", 5, 0, 13)), vec![set("a", 8, 8, 13)]);
        assert_eq!(
            sizes(&two().scale(strategy(20, 6, 2))),
            [("a", 16), ("b", 10)]
        );
        assert_eq!(sizes(&two().scale(strategy(5, 2, 1))), [("a", 4), ("b", 3)]);
        assert_eq!(sizes(&two().scale(strategy(0, 0, 0))), [("a", 0), ("b", 0)]);
        let saturated = sets(Some(set("b", 10, 10, 13)), vec![set("a", 3, 3, 13)]);
        assert_eq!(sizes(&saturated.scale(strategy(10, 3, 2))), [("a", 0)]);
    }

    #[test]
    fn a_new_set_begins_with_the_room_there_is() {
        let rolling = strategy(10, 3, 2);
        let old = |replicas| sets(None, vec![set("a", replicas, replicas, 13)]);
        assert_eq!(old(0).grown(rolling, 0), 10);
        assert_eq!(old(10).grown(rolling, 0), 3);
        assert_eq!(old(15).grown(rolling, 0), 0);
    }
}
