//! What becomes of an object, by the state of its owners.

use std::collections::BTreeSet;

use kube::api::DynamicObject;

/// State of an owner that an object names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is there, or it cannot be told.
    There,
    /// No object has that uid.
    Absent,
    /// It is being deleted in the foreground and waits for its dependents.
    Waits,
}

/// What is to be done with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// It stays as it is.
    Keep,
    /// It stays without the references to these uids.
    Disown(BTreeSet<String>),
    /// It is deleted; in the foreground where an owner waits for it and it has
    /// dependents of its own.
    Delete {
        /// Whether its dependents go before it.
        foreground: bool,
    },
}

/// An object goes only when **all** its owners are absent or wait for it.
pub(super) fn plan(owners: &[(String, Owner)], has_dependents: bool) -> Plan {
    let with = |state: Owner| owners.iter().filter(move |(_, owner)| *owner == state);
    let lost: BTreeSet<String> = with(Owner::Absent)
        .chain(with(Owner::Waits))
        .map(|(uid, _)| uid.clone())
        .collect();
    if lost.is_empty() {
        return Plan::Keep;
    }
    if with(Owner::There).next().is_some() {
        return Plan::Disown(lost);
    }
    Plan::Delete {
        foreground: has_dependents && with(Owner::Waits).next().is_some(),
    }
}

/// Whether `dependent` keeps the owner with this uid from going in the foreground.
pub(super) fn blocks(dependent: &DynamicObject, owner: &str) -> bool {
    let references = dependent.metadata.owner_references.iter().flatten();
    references
        .into_iter()
        .any(|o| o.uid == owner && o.block_owner_deletion == Some(true))
}

/// Whether `object` has the finalizer `name`.
pub(super) fn has_finalizer(object: &DynamicObject, name: &str) -> bool {
    let finalizers = object.metadata.finalizers.iter().flatten();
    finalizers.into_iter().any(|f| f == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(states: &[Owner]) -> Vec<(String, Owner)> {
        let numbered = states.iter().enumerate();
        numbered.map(|(n, state)| (n.to_string(), *state)).collect()
    }

    #[test]
    fn one_living_owner_keeps_an_object() {
        let lost = BTreeSet::from(["1".to_owned()]);
        assert_eq!(plan(&[], false), Plan::Keep);
        assert_eq!(plan(&owners(&[Owner::There]), true), Plan::Keep);
        for other in [Owner::Absent, Owner::Waits] {
            let plan = plan(&owners(&[Owner::There, other]), true);
            assert_eq!(plan, Plan::Disown(lost.clone()));
        }
    }

    #[test]
    fn without_any_it_goes() {
        let of = |states: &[Owner], dependents| plan(&owners(states), dependents);
        let delete = |foreground| Plan::Delete { foreground };
        assert_eq!(of(&[Owner::Absent, Owner::Absent], true), delete(false));
        assert_eq!(of(&[Owner::Waits], false), delete(false));
        assert_eq!(of(&[Owner::Absent, Owner::Waits], true), delete(true));
    }
}
