//! Conditions after the Kubernetes API conventions ("Typical status properties").

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::StoredStatus;

/// A status with conditions, as the Kubernetes API conventions have it.
pub trait ReportedStatus: Clone + Default + PartialEq + StoredStatus {
    /// The conditions in it.
    fn conditions(&self) -> &[Condition];

    /// The generation that it speaks of.
    fn observed_generation(&self) -> Option<i64>;

    /// The same with these conditions, of this generation, as it will stand once it is
    /// written.
    #[must_use]
    fn complete(self, conditions: Vec<Condition>, generation: Option<i64>) -> Self;
}

/// What a condition says: `True`, `False` or `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It cannot be told now.
    Unknown,
}

impl ConditionStatus {
    /// The spelling of the Kubernetes API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// A condition as planned: without the time, which depends on what was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition {
    /// Its type, in CamelCase, such as `Ready`.
    pub type_: &'static str,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// One word in CamelCase for programs.
    pub reason: String,
    /// A sentence for people, with the remedy where there is one.
    pub message: String,
}

impl NewCondition {
    /// A condition of type `type_`.
    pub fn new(
        type_: &'static str,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            type_,
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// Puts `new` into the place of `old`: `lastTransitionTime` moves to `now` only
/// where the status changed, so that the same plan gives the same conditions.
/// Conditions that `new` does not mention are dropped. The result is in the
/// order of `new`.
///
/// ```
/// use kite_cluster::conditions::{NewCondition, merge};
/// let (t1, t2) = ("2026-01-01T00:00:00Z".parse()?, "2026-01-02T00:00:00Z".parse()?);
/// let first = merge(&[], &[NewCondition::new("Ready", false, "Starting", "wait")], 1, t1);
/// let same = merge(&first, &[NewCondition::new("Ready", false, "Booting", "wait more")], 2, t2);
/// assert_eq!(same[0].last_transition_time.0, t1);
/// let changed = merge(&same, &[NewCondition::new("Ready", true, "Running", "")], 2, t2);
/// assert_eq!(changed[0].last_transition_time.0, t2);
/// # Ok::<(), jiff::Error>(())
/// ```
pub fn merge(
    old: &[Condition],
    new: &[NewCondition],
    observed_generation: i64,
    now: Timestamp,
) -> Vec<Condition> {
    new.iter()
        .map(|new| {
            let status = new.status.as_str();
            let since = old
                .iter()
                .find(|old| old.type_ == new.type_ && old.status == status)
                .map_or(Time(now), |old| old.last_transition_time.clone());
            Condition {
                type_: new.type_.to_owned(),
                status: status.to_owned(),
                reason: new.reason.clone(),
                message: new.message.clone(),
                last_transition_time: since,
                observed_generation: Some(observed_generation),
            }
        })
        .collect()
}

/// The condition of type `type_`, if there is one.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of type `type_` is `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == "True")
}
