//! The webhooks that the stored configurations name, read once for each change of them:
//! a server without any looks at nothing more than that there are none.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::registry::Resource;
use crate::server::ApiServer;
use crate::store::GroupResource;

/// API group of configurations and policies.
pub(super) const GROUP: &str = "admissionregistration.k8s.io";

/// All webhooks, in the order in which they are asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hooks {
    pub(super) mutating: Arc<[Hook]>,
    pub(super) validating: Arc<[Hook]>,
}

impl Hooks {
    pub(crate) fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty()
    }
}

/// One webhook of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Hook {
    /// What tells it from all others.
    #[serde(skip)]
    pub(super) id: String,
    pub(super) name: String,
    pub(super) client_config: Client,
    pub(super) rules: Vec<Rule>,
    failure_policy: Option<String>,
    match_policy: Option<String>,
    pub(super) namespace_selector: Value,
    pub(super) object_selector: Value,
    pub(super) match_conditions: Vec<Value>,
    pub(super) side_effects: Option<String>,
    pub(super) timeout_seconds: Option<u64>,
    pub(super) admission_review_versions: Vec<String>,
    reinvocation_policy: Option<String>,
}

impl Hook {
    /// Whether the write goes on where the webhook cannot be asked.
    pub(super) fn fails_open(&self) -> bool {
        self.failure_policy.as_deref() == Some("Ignore")
    }

    /// Whether rules that name another version of the resource count.
    pub(super) fn takes_equivalents(&self) -> bool {
        self.match_policy.as_deref() != Some("Exact")
    }

    /// Whether it is asked again when others change the object after it.
    pub(super) fn is_asked_again(&self) -> bool {
        self.reinvocation_policy.as_deref() == Some("IfNeeded")
    }

    /// Whether it does nothing but answer where nothing is to be stored.
    pub(super) fn takes_dry_runs(&self) -> bool {
        matches!(self.side_effects.as_deref(), Some("None" | "NoneOnDryRun"))
    }
}

/// Where a webhook is, as its configuration says.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Client {
    pub(super) url: Option<String>,
    pub(super) service: Option<Service>,
    pub(super) ca_bundle: Option<String>,
}

/// A Service that stands before a webhook.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Service {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) path: Option<String>,
    pub(super) port: Option<u16>,
}

/// What a webhook is asked about.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Rule {
    operations: Vec<String>,
    api_groups: Vec<String>,
    api_versions: Vec<String>,
    resources: Vec<String>,
    scope: Option<String>,
}

impl Rule {
    /// Whether the rule is about an operation on a resource.
    pub(super) fn is_about(&self, operation: &str, resource: &Resource, below: &str) -> bool {
        let has = |all: &[String], one: &str| all.iter().any(|it| it == "*" || it == one);
        let scoped = match self.scope.as_deref() {
            Some("Namespaced") => resource.namespaced,
            Some("Cluster") => !resource.namespaced,
            _ => true,
        };
        let named = |wanted: &String| {
            let (plural, part) = wanted.split_once('/').unwrap_or((wanted, ""));
            (plural == "*" || plural == resource.plural) && (part == "*" || part == below)
        };
        scoped
            && has(&self.operations, operation)
            && has(&self.api_groups, &resource.group)
            && has(&self.api_versions, &resource.version)
            && self.resources.iter().any(named)
    }
}

/// Reads a part of a stored object, where null stands for what is left out.
///
/// # Errors
/// A member is of another type.
pub(in crate::server) fn read<T: DeserializeOwned>(value: &Value) -> serde_json::Result<T> {
    serde_json::from_value(without_nulls(value))
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(_, member)| !member.is_null());
            members
                .map(|(name, member)| (name.clone(), without_nulls(member)))
                .collect()
        }
        Value::Array(elements) => elements.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

impl ApiServer {
    /// Reads the configurations anew if this is one.
    pub(in crate::server) fn settle_hooks(&mut self, resource: &Resource) {
        if resource.group == GROUP && resource.plural.ends_with("webhookconfigurations") {
            self.read_hooks();
        }
    }

    /// Reads all configurations.
    pub(crate) fn read_hooks(&mut self) {
        self.hooks = Hooks {
            mutating: self.hooks_of("mutatingwebhookconfigurations"),
            validating: self.hooks_of("validatingwebhookconfigurations"),
        };
    }

    /// In the order of the names of the configurations.
    fn hooks_of(&self, plural: &str) -> Arc<[Hook]> {
        let mut hooks = Vec::new();
        for (key, configuration) in self
            .store
            .range(&GroupResource::new(GROUP, plural), None, None)
        {
            let configuration = configuration.value();
            let all = configuration["webhooks"].as_array().into_iter().flatten();
            for (place, hook) in all.enumerate() {
                // The rules of the kind have seen to the types of all members.
                if let Ok(mut hook) = read::<Hook>(hook) {
                    hook.id = format!("{}/{}/{place}", key.name, hook.name);
                    hooks.push(hook);
                }
            }
        }
        hooks.into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Hook, read};

    #[test]
    fn a_null_is_as_good_as_nothing() {
        let hook = json!({"name": "a", "rules": null, "matchConditions": null,
            "clientConfig": {"url": "https://a/", "service": null}});
        let hook = read::<Hook>(&hook).ok();
        assert_eq!(hook.map(|hook| hook.name).as_deref(), Some("a"));
    }
}
