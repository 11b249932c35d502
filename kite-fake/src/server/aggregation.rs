//! Roles that gather the rules of others: the server keeps them with every
//! write, as a controller does later on a real cluster.

use serde_json::{Value, json};

use super::ApiServer;
use crate::builtin::selects;
use crate::clock::rfc3339;
use crate::store::{GroupResource, Key, Object};

/// Field manager of gathered rules.
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Roles gather roles that gather; nobody goes deeper than this.
const DEPTH: usize = 8;

fn collection() -> GroupResource {
    GroupResource::new("rbac.authorization.k8s.io", "clusterroles")
}

impl ApiServer {
    /// Brings all gathering roles up to date.
    pub(super) fn settle_roles(&mut self) {
        for _ in 0..DEPTH {
            let stale: Vec<(Key, Object, Vec<Value>)> = self
                .store
                .range(&collection(), None, None)
                .filter_map(|(key, role)| {
                    let value = role.value();
                    let selectors = value["aggregationRule"]["clusterRoleSelectors"].as_array()?;
                    let rules = self.gathered(&key.name, selectors);
                    let held = value["rules"].as_array().map_or(&[][..], Vec::as_slice);
                    (held != rules).then(|| (key.clone(), role.clone(), rules))
                })
                .collect();
            if stale.is_empty() {
                return;
            }
            for (key, role, rules) in stale {
                let mut value = role.to_value();
                value["rules"] = json!(rules);
                let now = rfc3339(self.now);
                own_rules(&mut value, &now);
                self.store.put(&collection(), key, value, role.epoch());
            }
        }
    }

    /// The rules of the other roles that the selectors take, in the order of
    /// their names, and each once.
    fn gathered(&self, own: &str, selectors: &[Value]) -> Vec<Value> {
        let mut rules: Vec<Value> = Vec::new();
        for selector in selectors {
            for (key, role) in self.store.range(&collection(), None, None) {
                let role = role.value();
                if key.name == own || !selects(selector, &role["metadata"]["labels"]) {
                    continue;
                }
                for rule in role["rules"].as_array().into_iter().flatten() {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
        rules
    }
}

/// Says in `managedFields` whose the rules are.
fn own_rules(role: &mut Value, now: &str) {
    let entries = &mut role["metadata"]["managedFields"];
    let mut all = entries.as_array().cloned().unwrap_or_default();
    all.retain(|entry| entry["manager"] != MANAGER);
    all.insert(
        0,
        json!({
            "manager": MANAGER,
            "operation": "Apply",
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:rules": {}},
        }),
    );
    *entries = json!(all);
}
