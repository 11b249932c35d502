//! One of the ways in which the platform is reached, while it is planned.

use kite_core::{cluster::Object, conditions::NewCondition};
use kite_render::Platform;
use kube::ResourceExt as _;
use kube::api::{ObjectMeta, PropagationPolicy};

use crate::{
    objects::AnyObject,
    plan::{Change, Step},
    standing::{Needed, Standing, guarded, needed, standing},
};

/// One thing that the platform exposes, or does not.
pub(super) struct Part {
    pub steps: Vec<Step>,
    pub condition: NewCondition,
    /// It is wanted, and not there yet.
    pub is_lacking: bool,
    pub addresses: Vec<String>,
    pub port: Option<u16>,
    pub url: Option<String>,
}

impl Part {
    pub(super) fn new(
        type_: &'static str,
        holds: bool,
        reason: &str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            steps: Vec::new(),
            condition: NewCondition::new(type_, holds, reason, message),
            is_lacking: false,
            addresses: Vec::new(),
            port: None,
            url: None,
        }
    }

    /// It is wanted and not there, for this reason.
    pub(super) fn lacks(type_: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self {
            is_lacking: true,
            ..Self::new(type_, false, reason, message)
        }
    }

    /// It is not wanted.
    pub(super) fn unwanted(type_: &'static str, reason: &str, message: impl Into<String>) -> Self {
        Self::new(type_, false, reason, message)
    }
}

/// Has `desired` applied if that changes anything; or says what is in the way.
pub(super) fn want<K: Object>(
    steps: &mut Vec<Step>,
    desired: &K,
    stored: Option<&K>,
    type_: &'static str,
) -> Result<(), Box<Part>>
where
    AnyObject: From<K>,
{
    match needed(desired, stored, "platform") {
        Needed::Nothing => Ok(()),
        Needed::Apply => {
            steps.push(Step::Change(Change::Apply(guarded(desired, stored).into())));
            Ok(())
        }
        Needed::Wait(message) => Err(Box::new(Part::lacks(type_, "WaitingForDeletion", message))),
        Needed::Blocked(_) => {
            let name = desired.meta().name.as_deref().unwrap_or_default();
            let kind = K::kind(&());
            Err(Box::new(Part::lacks(
                type_,
                "NameTaken",
                format!("{kind} {name} is there and belongs to something else: delete it"),
            )))
        }
    }
}

/// Has an object that is not wanted any more deleted, if it is the platform's.
pub(super) fn remove<K: Object>(platform: &Platform<'_>, steps: &mut Vec<Step>, stored: Option<&K>)
where
    AnyObject: From<K>,
{
    let Some(stored) = stored else { return };
    let like: ObjectMeta = platform.metadata(&stored.name_any());
    if standing(stored.meta(), &like) == Standing::Ours {
        let step = Step::Change(Change::Delete(
            stored.clone().into(),
            PropagationPolicy::Background,
        ));
        steps.push(step);
    }
}
