//! Quotas: admission refuses what would exceed one, and `status.used` is kept
//! with every create, update and removal.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::ApiServer;
use super::scopes;
use super::usage::{Usage, collection_of};
use crate::builtin::quantity;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::{GroupResource, Key, Object};

fn quotas() -> GroupResource {
    GroupResource::new("", "resourcequotas")
}

fn amounts(list: &Value) -> BTreeMap<&str, (i128, &str)> {
    list.as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| {
            let text = value.as_str()?;
            Some((name.as_str(), (quantity::nano(text)?, text)))
        })
        .collect()
}

impl ApiServer {
    /// Checks a create or update against the namespace's quotas, and charges
    /// it. Runs before the object is stored, so that a dry run is refused, too.
    pub(crate) fn charge_quota(
        &mut self,
        resource: &Resource,
        new: &Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<(), Status> {
        let namespace = new["metadata"]["namespace"].as_str().unwrap_or_default();
        let found = self.quotas_of(resource, namespace);
        if found.is_empty() {
            return Ok(());
        }
        let (group, plural) = (&resource.group, &resource.plural);
        let usage = |quota: &Value, object: Option<&Value>| match object {
            Some(object) if scopes::matches(quota, group, plural, object) => {
                Usage::of(group, plural, object)
            }
            _ => Usage::default(),
        };
        let name = new["metadata"]["name"].as_str().unwrap_or_default();
        let refused = |why: String| Status::forbidden(group, plural, name, &why);
        let new_pod = old.is_none() && group.is_empty() && plural == "pods";
        // A Pod that is there is not refused what it needs.
        let bounded = old.is_none() || plural != "pods";
        let mut charged = Vec::new();
        for (key, quota) in found {
            let value = quota.value();
            let after = usage(value, Some(new));
            if new_pod
                && !after.0.is_empty()
                && let Some(unsaid) = scopes::unsaid(value, new)
            {
                return Err(refused(format!("failed quota: {}: {unsaid}", key.name)));
            }
            let before = usage(value, old);
            let Some(status) = charge(value, &after, &before, bounded.then_some(key.name.as_str()))
                .map_err(refused)?
            else {
                continue;
            };
            charged.push((key, quota, status));
        }
        if !dry_run {
            for (key, quota, status) in charged {
                self.put_quota_status(key, &quota, status);
            }
        }
        Ok(())
    }

    /// Gives back what a removed object was charged for.
    pub(crate) fn refund_quota(&mut self, resource: &Resource, old: &Value) {
        let namespace = old["metadata"]["namespace"].as_str().unwrap_or_default();
        let before = Usage::of(&resource.group, &resource.plural, old);
        for (key, quota) in self.quotas_of(resource, namespace) {
            if !scopes::matches(quota.value(), &resource.group, &resource.plural, old) {
                continue;
            }
            if let Ok(Some(status)) = charge(quota.value(), &Usage::default(), &before, None) {
                self.put_quota_status(key, &quota, status);
            }
        }
    }

    /// Sets the status of a quota that was created or changed: what is there now.
    pub(crate) fn settle_quota(&mut self, key: &Key, quota: &Object) {
        let hard = &quota.value()["spec"]["hard"];
        let mut used = Map::new();
        for (name, (_, like)) in amounts(hard) {
            let Some((group, plural)) = collection_of(name) else {
                continue;
            };
            let collection = GroupResource::new(group, plural);
            let mut sum = 0;
            let mut form = like.to_owned();
            for (_, object) in self.store.range(&collection, Some(&key.namespace), None) {
                if !scopes::matches(quota.value(), group, plural, object.value()) {
                    continue;
                }
                let usage = Usage::of(group, plural, object.value());
                if let Some((nano, text)) = usage.0.get(name) {
                    sum += nano;
                    form.clone_from(text);
                }
            }
            used.insert(name.to_owned(), quantity::text_like(sum, &form).into());
        }
        let status = json!({"hard": hard, "used": used});
        if quota.value()["status"] != status {
            self.put_quota_status(key.clone(), quota, status);
        }
    }

    fn quotas_of(&self, resource: &Resource, namespace: &str) -> Vec<(Key, Object)> {
        if !resource.namespaced || namespace.is_empty() {
            return Vec::new();
        }
        self.store
            .range(&quotas(), Some(namespace), None)
            .map(|(key, quota)| (key.clone(), quota.clone()))
            .collect()
    }

    fn put_quota_status(&mut self, key: Key, quota: &Object, status: Value) {
        let mut new = quota.value().clone();
        new["status"] = status;
        self.store.put(&quotas(), key, new, quota.epoch());
    }
}

/// The quota's status after the change, if the change is about it at all. What
/// exceeds it is refused where its name is given.
fn charge(
    quota: &Value,
    after: &Usage,
    before: &Usage,
    name: Option<&str>,
) -> Result<Option<Value>, String> {
    let hard = amounts(&quota["spec"]["hard"]);
    let used = amounts(&quota["status"]["used"]);
    let mut status = quota["status"].clone();
    let (mut requested, mut present, mut limited) = (Vec::new(), Vec::new(), Vec::new());
    let mut changed = false;
    for (resource, (limit, limit_text)) in &hard {
        let nothing = (0, "0".to_owned());
        let (new, like) = after.0.get(*resource).unwrap_or(&nothing);
        let (old, _) = before.0.get(*resource).unwrap_or(&nothing);
        let delta = new - old;
        if delta == 0 {
            continue;
        }
        changed = true;
        let (now, now_text) = used.get(resource).copied().unwrap_or((0, "0"));
        if delta > 0 && now + delta > *limit {
            requested.push(format!("{resource}={}", quantity::text_like(delta, like)));
            present.push(format!("{resource}={now_text}"));
            limited.push(format!("{resource}={limit_text}"));
        }
        let like = if now == 0 { like.as_str() } else { now_text };
        let text = quantity::text_like((now + delta).max(0), like);
        status["used"][*resource] = text.into();
    }
    if let Some(name) = name
        && !requested.is_empty()
    {
        return Err(format!(
            "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
            requested.join(","),
            present.join(","),
            limited.join(",")
        ));
    }
    Ok(changed.then_some(status))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_is_named_and_what_fits_is_charged() {
        let quota = json!({
            "spec": {"hard": {"count/secrets": "1", "secrets": "5"}},
            "status": {"used": {"count/secrets": "1", "secrets": "1"}},
        });
        let one = Usage::of("", "secrets", &json!({}));
        assert_eq!(
            charge(&quota, &one, &Usage::default(), Some("q")).unwrap_err(),
            "exceeded quota: q, requested: count/secrets=1, used: count/secrets=1, limited: count/secrets=1"
        );
        let freed = charge(&quota, &Usage::default(), &one, Some("q"))
            .unwrap()
            .unwrap();
        assert_eq!(freed["used"], json!({"count/secrets": "0", "secrets": "0"}));
        assert_eq!(charge(&quota, &one, &one, Some("q")).unwrap(), None);
    }
}
