//! A plan of the platform while it is made.

use std::time::Duration;

use kite_core::{
    conditions::NewCondition,
    crd::{KitePlatformStatus, platform_condition::READY},
};
use kite_render::Platform;
use kube::api::ObjectMeta;

use super::{Observed, part::Part};
use crate::{context::Settings, plan::Step, stage::Draft};

/// When to look again for a namespace, or for what nothing tells of.
pub(super) const SOON: Duration = Duration::from_secs(30);

/// What the stages of the platform's plan share.
pub(super) struct PlatformDraft<'a> {
    pub platform: &'a Platform<'a>,
    pub seen: &'a Observed,
    pub settings: &'a Settings,
    /// What is to be done, so far. Each stage adds to it.
    pub steps: Vec<Step>,
    /// How the SSH gateway is reached, and what is to be done for it.
    pub gateway: Part,
    /// How the web page is reached, and what is to be done for it.
    pub web: Part,
}

impl Draft for PlatformDraft<'_> {
    type Seen = Observed;
    type Status = KitePlatformStatus;

    fn meta(&self) -> &ObjectMeta {
        &self.platform.object.metadata
    }

    fn steps(&mut self) -> &mut Vec<Step> {
        &mut self.steps
    }

    fn sum_up(&self, _: &[NewCondition], _: &mut KitePlatformStatus) -> NewCondition {
        let mut parts = [&self.gateway, &self.web].into_iter();
        match parts.find(|part| part.is_lacking) {
            None => NewCondition::new(READY, true, "Ready", "all that is to be exposed is"),
            Some(part) => NewCondition {
                type_: READY,
                ..part.condition.clone()
            },
        }
    }
}
