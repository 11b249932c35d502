//! Which changes of `KubeVirt`'s own object are worth telling all.

use std::sync::{Mutex, PoisonError};

use kite_core::kubevirt::{KubeVirt, KubeVirtSpec};

/// Tells edits of `KubeVirt`'s settings from its reports, which come often.
#[derive(Default)]
pub(super) struct Settings {
    seen: Mutex<Option<KubeVirtSpec>>,
}

impl Settings {
    /// Whether `KubeVirt` is configured in another way than when it was heard of last.
    pub(super) fn are_new(&self, kubevirt: &KubeVirt) -> bool {
        // It is told of in this way when it is gone, too.
        let is_there = kubevirt.metadata.deletion_timestamp.is_none();
        let now = is_there.then(|| kubevirt.spec.clone());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *seen, now.clone()) != now
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn reports_are_nothing_new_and_settings_are() {
        let settings = Settings::default();
        let mut kubevirt = KubeVirt::new("kubevirt", KubeVirtSpec::default());
        assert!(settings.are_new(&kubevirt));
        kubevirt.metadata.resource_version = Some("2".to_owned());
        assert!(!settings.are_new(&kubevirt), "a report");
        kubevirt.spec.configuration = Some(kite_core::kubevirt::KubeVirtConfiguration::default());
        assert!(settings.are_new(&kubevirt), "an edit");
        kubevirt.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert!(settings.are_new(&kubevirt), "its end");
    }
}
