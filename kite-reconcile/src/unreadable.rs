//! What is said of an object that cannot be read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_core::conditions::{ConditionStatus, NewCondition, find};

/// Those of `old` of these types, as they are: nothing is known by which they could be
/// judged anew.
pub(crate) fn as_before(
    old: &[Condition],
    types: impl IntoIterator<Item = &'static str>,
) -> Vec<NewCondition> {
    let told = types.into_iter().filter_map(|type_| {
        let told = find(old, type_)?;
        let status = match told.status.as_str() {
            "True" => ConditionStatus::True,
            "False" => ConditionStatus::False,
            _ => ConditionStatus::Unknown,
        };
        let (reason, message) = (told.reason.clone(), told.message.clone());
        Some(NewCondition::new(type_, status, reason, message))
    });
    told.collect()
}

/// The condition `type_` of an object of which `why` says what cannot be read of it.
pub(crate) fn unreadable(type_: &'static str, what: &str, why: &str) -> NewCondition {
    let is_of_status = why.split("; ").any(|fault| fault.starts_with("status"));
    let edit = if is_of_status {
        "kubectl edit --subresource=status"
    } else {
        "kubectl edit"
    };
    NewCondition::new(
        type_,
        false,
        "Unreadable",
        format!(
            "{what} cannot be read: {why}; mend the field that is named ({edit}), or delete \
             {what}; until then nothing is made or changed for it"
        ),
    )
}
