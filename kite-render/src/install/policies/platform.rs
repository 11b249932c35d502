//! The settings by which the controller acts on the rest of the cluster: neither an
//! administrator of Kite changes them, nor whoever has taken over the API.

use kite_core::crd::{self, ApiMay, ClusterSetting};

use super::{Policy, written_by};
use crate::install::Process;

/// The API changes none of the settings that are for administrators of the cluster.
pub(super) fn settings(namespace: &str) -> Policy {
    Policy {
        name: "kite-platform",
        about: vec![(crd::GROUP, vec!["kiteplatforms"], vec!["CREATE", "UPDATE"])],
        when: vec![("by-the-api", written_by(Process::Api, namespace))],
        rules: ClusterSetting::ALL
            .iter()
            .map(|setting| {
                let message = format!("spec.{} {}", setting.path, setting.refusal());
                (rule(setting), message)
            })
            .collect(),
    }
}

/// What has to hold of a setting.
fn rule(setting: &ClusterSetting) -> String {
    let is = value("object", setting);
    let was = format!(
        "(request.operation == 'CREATE' ? {} : {})",
        setting.default,
        value("oldObject", setting)
    );
    let or = match setting.api_may {
        ApiMay::SetOnce => format!(" || {was} == {}", setting.default),
        ApiMay::Add => format!(" || {was}.all(it, it in {is})"),
        ApiMay::SetTo(values) => format!(" || {is} in {}", super::list(values)),
        // Also what is new and nobody has thought of here.
        _ => String::new(),
    };
    format!("{is} == {was}{or}")
}

/// The value of a setting, and what stands for none.
fn value(object: &str, setting: &ClusterSetting) -> String {
    let mut path = format!("{object}.spec");
    let mut there = Vec::new();
    for field in setting.path.split('.') {
        path = format!("{path}.{field}");
        there.push(format!("has({path})"));
    }
    format!("({} ? {path} : {})", there.join(" && "), setting.default)
}
