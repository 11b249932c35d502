//! Addresses of the cluster that its network policies close, and for how long.
//!
//! An API server that restarts withdraws its endpoint for a moment, and a node that
//! registers again is gone for one. Its address is in use all the same. So an address
//! that nobody names any more stays closed for [`LINGER`]. The egress policy itself
//! remembers which those are, in an annotation: controllers come and go.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kite_core::labels::CLOSED_ADDRESSES;
use kite_render::isolation::{self, Isolation};

use super::Observed;

/// How long an address stays closed after nobody names it any more.
const LINGER: SignedDuration = SignedDuration::from_mins(10);
/// How many addresses at most stay closed that nobody names any more. Beyond it those go
/// that were withdrawn first: an object has a bounded size.
const LINGERING: usize = 256;

/// Ranges that the network policies close because they are the cluster's own, in CIDR notation,
/// each with the end of that where nobody names it any more.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Closed(BTreeMap<String, Option<Timestamp>>);

impl Closed {
    /// What is to be closed now: what `seen.cluster` names, and what the network policy that stands
    /// has closed and nobody has named for less than [`LINGER`]. What `isolation` closes in any
    /// case is left out.
    pub(super) fn of(seen: &Observed, isolation: &Isolation) -> Self {
        let mut all: BTreeMap<_, _> = seen.cluster.iter().map(|it| (it.clone(), None)).collect();
        let mut withdrawn: Vec<_> = Self::stored(seen)
            .0
            .into_iter()
            .filter(|(range, _)| !all.contains_key(range))
            .map(|(range, until)| (until.unwrap_or_else(|| end(seen.now)), range))
            .filter(|(until, _)| *until > seen.now)
            .collect();
        withdrawn.sort_by(|a, b| b.cmp(a));
        withdrawn.truncate(LINGERING);
        let withdrawn = withdrawn.into_iter();
        all.extend(withdrawn.map(|(until, range)| (range, Some(until))));
        all.retain(|range, _| isolation.around([range]) != *isolation);
        Self(all)
    }

    /// What the egress policy that stands has in its annotation. What cannot be read there
    /// is nothing: somebody else has written it.
    fn stored(seen: &Observed) -> Self {
        let policy = seen.policy(Some(isolation::EGRESS_POLICY));
        let annotations = policy.and_then(|policy| policy.metadata.annotations.as_ref());
        let text = annotations.and_then(|all| all.get(CLOSED_ADDRESSES));
        let all = text.and_then(|text| serde_json::from_str(text).ok());
        Self(all.unwrap_or_default())
    }

    /// The ranges.
    pub(super) fn ranges(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// When the next of them opens, if one does.
    fn until(&self) -> Option<Timestamp> {
        self.0.values().flatten().min().copied()
    }

    /// How long until then, seen from `now`.
    pub(super) fn wait(&self, now: Timestamp) -> Option<Duration> {
        let wait = self.until()?.duration_since(now);
        Some(wait.unsigned_abs())
    }

    /// Notes them on the network policy that closes them.
    pub(super) fn note(&self, policy: &mut NetworkPolicy) {
        if self.0.is_empty() || policy.metadata.name.as_deref() != Some(isolation::EGRESS_POLICY) {
            return;
        }
        // A map of texts and times has a spelling as JSON.
        if let Ok(text) = serde_json::to_string(&self.0) {
            let annotations = policy.metadata.annotations.get_or_insert_default();
            annotations.insert(CLOSED_ADDRESSES.to_owned(), text);
        }
    }
}

/// When the network policy that stands opens to an address that it closes, if it does.
pub(super) fn opens(seen: &Observed) -> Option<Timestamp> {
    Closed::stored(seen).until()
}

/// In whole seconds, which are enough and read well.
fn end(now: Timestamp) -> Timestamp {
    let end = now.saturating_add(LINGER).unwrap_or(Timestamp::MAX);
    Timestamp::from_second(end.as_second()).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const NODE: &str = "203.0.113.6/32";
    const OTHER: &str = "203.0.113.7/32";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// What is seen at a time, of these addresses and the network policy as it was left.
    fn seen(now: i64, cluster: &[&str], left: &Closed) -> Observed {
        let mut policy = NetworkPolicy::default();
        policy.metadata.name = Some(isolation::EGRESS_POLICY.to_owned());
        left.note(&mut policy);
        Observed {
            now: at(now),
            cluster: cluster.iter().map(ToString::to_string).collect(),
            policies: vec![policy],
            ..Observed::default()
        }
    }

    fn ranges(closed: &Closed) -> BTreeSet<&str> {
        closed.ranges().map(String::as_str).collect()
    }

    #[test]
    fn what_is_withdrawn_opens_later_and_what_comes_back_does_not() {
        let isolation = Isolation::default();
        let first = Closed::of(&seen(0, &[NODE, OTHER], &Closed::default()), &isolation);
        assert_eq!(ranges(&first), BTreeSet::from([NODE, OTHER]));
        assert_eq!(first.until(), None);
        // One of several, or all of them.
        for left in [&[OTHER][..], &[]] {
            let gone = Closed::of(&seen(100, left, &first), &isolation);
            assert_eq!(ranges(&gone), BTreeSet::from([NODE, OTHER]));
            assert_eq!(gone.until(), Some(at(700)));
            let still = Closed::of(&seen(699, left, &gone), &isolation);
            assert_eq!(still, gone);
            assert_eq!(still.wait(at(699)), Some(Duration::from_secs(1)));
            let back = Closed::of(&seen(699, &[NODE, OTHER], &gone), &isolation);
            assert_eq!(back, first);
            let over = Closed::of(&seen(700, left, &gone), &isolation);
            assert_eq!(ranges(&over), left.iter().copied().collect());
        }
    }

    #[test]
    fn what_is_closed_in_any_case_is_not_noted() {
        let private = seen(0, &["10.1.2.3/32", NODE], &Closed::default());
        assert_eq!(
            ranges(&Closed::of(&private, &Isolation::default())),
            BTreeSet::from([NODE])
        );
    }

    #[test]
    fn what_somebody_else_wrote_closes_nothing_and_stops_nothing() {
        for text in ["", "[]", "{\"203.0.113.6/32\": 7}", "{\"x\": null}"] {
            let mut seen = seen(0, &[OTHER], &Closed::default());
            let annotations = &mut seen.policies[0].metadata.annotations;
            *annotations = Some(BTreeMap::from([(
                CLOSED_ADDRESSES.to_owned(),
                text.to_owned(),
            )]));
            let closed = Closed::of(&seen, &Isolation::default());
            assert_eq!(ranges(&closed), BTreeSet::from([OTHER]), "{text}");
        }
    }

    #[test]
    fn many_that_were_withdrawn_are_bounded_and_the_latest_stay() {
        let many: Vec<_> = (0..300).map(|n| format!("2a01:db9::{n:x}/128")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let isolation = Isolation::default();
        let first = Closed::of(&seen(0, &many, &Closed::default()), &isolation);
        assert_eq!(first.ranges().count(), 300);
        let earlier = Closed::of(&seen(10, &many[..100], &first), &isolation);
        assert_eq!(earlier.ranges().count(), 300);
        let later = Closed::of(&seen(20, &[], &earlier), &isolation);
        assert_eq!(later.ranges().count(), LINGERING);
        let all = ranges(&later);
        assert!(many[..100].iter().all(|it| all.contains(it)));
    }
}
