//! What objects count for in quotas (`pkg/quota/v1/evaluator`).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::builtin::quantity;
use crate::status::qualified;

/// Nanounits of one whole.
const ONE: i128 = 1_000_000_000;

/// Amounts by quota resource, in nanounits, with a text that shows the form in
/// which to write them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Usage(pub(crate) BTreeMap<String, (i128, String)>);

impl Usage {
    fn count(&mut self, name: impl Into<String>) {
        self.add(name, ONE, "1");
    }

    fn add(&mut self, name: impl Into<String>, nano: i128, like: &str) {
        let entry = self
            .0
            .entry(name.into())
            .or_insert_with(|| (0, like.to_owned()));
        entry.0 += nano;
    }

    fn quantity(&mut self, name: impl Into<String>, value: &Value) {
        if let Some(text) = value.as_str()
            && let Some(nano) = quantity::nano(text)
        {
            self.add(name, nano, text);
        }
    }

    /// What one object counts for.
    pub(crate) fn of(group: &str, plural: &str, object: &Value) -> Self {
        let mut usage = Self::default();
        usage.count(format!("count/{}", qualified(group, plural)));
        if !group.is_empty() {
            return usage;
        }
        match plural {
            "configmaps" | "replicationcontrollers" | "resourcequotas" | "secrets" => {
                usage.count(plural);
            }
            "services" => usage.service(&object["spec"]),
            "persistentvolumeclaims" => usage.claim(&object["spec"]),
            "pods" => usage.pod(object),
            _ => {}
        }
        usage
    }

    fn service(&mut self, spec: &Value) {
        self.count("services");
        let ports = spec["ports"].as_array().map_or(0, Vec::len);
        let ports = i128::try_from(ports).unwrap_or(0) * ONE;
        match spec["type"].as_str() {
            Some("NodePort") => self.add("services.nodeports", ports, "1"),
            Some("LoadBalancer") => {
                self.count("services.loadbalancers");
                if spec["allocateLoadBalancerNodePorts"] != false {
                    self.add("services.nodeports", ports, "1");
                }
            }
            _ => {}
        }
    }

    fn claim(&mut self, spec: &Value) {
        self.count("persistentvolumeclaims");
        let storage = &spec["resources"]["requests"]["storage"];
        self.quantity("requests.storage", storage);
        if let Some(class) = spec["storageClassName"].as_str() {
            let class = format!("{class}.storageclass.storage.k8s.io");
            self.count(format!("{class}/persistentvolumeclaims"));
            self.quantity(format!("{class}/requests.storage"), storage);
        }
    }

    fn pod(&mut self, pod: &Value) {
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        if matches!(phase, "Succeeded" | "Failed") {
            return;
        }
        self.count("pods");
        for (name, (nano, like)) in pod_totals(&pod["spec"], "requests") {
            let native = !name.contains('/') || name.contains("kubernetes.io/");
            if native {
                self.add(name.as_str(), nano, &like);
            }
            self.add(format!("requests.{name}"), nano, &like);
        }
        for (name, (nano, like)) in pod_totals(&pod["spec"], "limits") {
            self.add(format!("limits.{name}"), nano, &like);
        }
    }
}

/// What a whole Pod requests or may use: the sum of its containers, or the most
/// that an init container takes before they start, and the overhead.
pub(crate) fn pod_totals(spec: &Value, kind: &str) -> BTreeMap<String, (i128, String)> {
    let mut total: BTreeMap<String, (i128, String)> = BTreeMap::new();
    let each = |list: &Value, total: &mut BTreeMap<String, (i128, String)>, sum: bool| {
        for (name, value) in list.as_object().into_iter().flatten() {
            let Some(text) = value.as_str() else { continue };
            let Some(nano) = quantity::nano(text) else {
                continue;
            };
            let entry = total
                .entry(name.clone())
                .or_insert_with(|| (0, text.to_owned()));
            if sum {
                entry.0 += nano;
            } else {
                entry.0 = entry.0.max(nano);
            }
        }
    };
    for container in spec["containers"].as_array().into_iter().flatten() {
        each(&container["resources"][kind], &mut total, true);
    }
    let mut beside: BTreeMap<String, (i128, String)> = BTreeMap::new();
    let mut most: BTreeMap<String, (i128, String)> = BTreeMap::new();
    for container in spec["initContainers"].as_array().into_iter().flatten() {
        let resources = &container["resources"][kind];
        if container["restartPolicy"] == "Always" {
            // It stays beside the others.
            each(resources, &mut total, true);
            each(resources, &mut beside, true);
            for (name, (nano, like)) in &beside {
                let entry = most.entry(name.clone()).or_insert((0, like.clone()));
                entry.0 = entry.0.max(*nano);
            }
        } else {
            let mut alone = beside.clone();
            each(resources, &mut alone, true);
            for (name, (nano, like)) in alone {
                let entry = most.entry(name).or_insert((0, like));
                entry.0 = entry.0.max(nano);
            }
        }
    }
    for (name, (nano, like)) in most {
        let entry = total.entry(name).or_insert((0, like));
        entry.0 = entry.0.max(nano);
    }
    // What is said of the whole Pod counts instead.
    for (name, value) in spec["resources"][kind].as_object().into_iter().flatten() {
        if let Some(text) = value.as_str()
            && let Some(nano) = quantity::nano(text)
        {
            total.insert(name.clone(), (nano, text.to_owned()));
        }
    }
    let overhead = &spec["overhead"];
    if kind == "requests" {
        each(overhead, &mut total, true);
    } else {
        let known: Vec<String> = total.keys().cloned().collect();
        let mut of_known = overhead.clone();
        if let Some(members) = of_known.as_object_mut() {
            members.retain(|name, _| known.contains(name));
        }
        each(&of_known, &mut total, true);
    }
    total
}

/// The collection that a name in `spec.hard` is about, as group and plural.
pub(crate) fn collection_of(name: &str) -> Option<(&str, &str)> {
    if let Some(rest) = name.strip_prefix("count/") {
        return Some(rest.split_once('.').map_or(("", rest), |(p, g)| (g, p)));
    }
    Some(match name {
        "configmaps" => ("", "configmaps"),
        "replicationcontrollers" => ("", "replicationcontrollers"),
        "resourcequotas" => ("", "resourcequotas"),
        "secrets" => ("", "secrets"),
        "services" | "services.nodeports" | "services.loadbalancers" => ("", "services"),
        "persistentvolumeclaims" | "requests.storage" => ("", "persistentvolumeclaims"),
        "pods" | "cpu" | "memory" | "ephemeral-storage" => ("", "pods"),
        _ if name.contains(".storageclass.storage.k8s.io/") => ("", "persistentvolumeclaims"),
        _ if name.starts_with("requests.")
            || name.starts_with("limits.")
            || name.starts_with("hugepages-") =>
        {
            ("", "pods")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_claim_counts_by_number_size_and_class() {
        let claim = json!({"spec": {"storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}}}});
        let usage = Usage::of("", "persistentvolumeclaims", &claim);
        let names: Vec<&str> = usage.0.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "count/persistentvolumeclaims",
                "fast.storageclass.storage.k8s.io/persistentvolumeclaims",
                "fast.storageclass.storage.k8s.io/requests.storage",
                "persistentvolumeclaims",
                "requests.storage"
            ]
        );
        assert_eq!(usage.0["requests.storage"].0, (1 << 30) * ONE);
    }

    #[test]
    fn names_lead_back_to_collections() {
        assert_eq!(
            collection_of("count/widgets.x.io"),
            Some(("x.io", "widgets"))
        );
        assert_eq!(collection_of("limits.cpu"), Some(("", "pods")));
        assert_eq!(collection_of("bananas"), None);
    }
}
