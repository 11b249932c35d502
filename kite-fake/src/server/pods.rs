//! Admission that looks at other objects: the priority, the runtime and the
//! account of a Pod, and default classes (`plugin/pkg/admission`).

use serde_json::{Value, json};

use super::ApiServer;
use crate::builtin::quantity;
use crate::registry::Resource;
use crate::status::Status;
use crate::store::{GroupResource, Key, Object};

const SCHEDULING: &str = "scheduling.k8s.io";
const STORAGE: &str = "storage.k8s.io";
const NETWORKING: &str = "networking.k8s.io";

/// Marks the class of claims that name none.
const DEFAULT_STORAGE: &str = "storageclass.kubernetes.io/is-default-class";
/// Marks the class of Ingresses that name none.
const DEFAULT_INGRESS: &str = "ingressclass.kubernetes.io/is-default-class";
/// How the class of an Ingress was said before.
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

/// Priorities that every cluster has.
const SYSTEM_PRIORITIES: [(&str, i64); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn forbid(resource: &Resource, object: &Value, why: &str) -> Status {
    let name = text(&object["metadata"]["name"]);
    Status::forbidden(&resource.group, &resource.plural, name, why)
}

impl ApiServer {
    /// Fills in what depends on other objects.
    pub(super) fn admit_new(
        &mut self,
        resource: &Resource,
        object: &mut Value,
    ) -> Result<(), Status> {
        match (resource.group.as_str(), resource.plural.as_str()) {
            ("", "pods") => {
                if self.service_accounts {
                    self.set_account(resource, object)?;
                }
                self.set_runtime(resource, object)?;
                self.set_priority(resource, object)?;
                crate::builtin::tolerate_lost_nodes(object);
                Ok(())
            }
            ("", "persistentvolumeclaims") => {
                if object["spec"]["storageClassName"].is_null()
                    && let Some(class) =
                        self.default_class(STORAGE, "storageclasses", DEFAULT_STORAGE)
                {
                    object["spec"]["storageClassName"] = class.into();
                }
                Ok(())
            }
            (NETWORKING, "ingresses") => {
                let named = !object["spec"]["ingressClassName"].is_null()
                    || !object["metadata"]["annotations"][INGRESS_CLASS].is_null();
                if !named
                    && let Some(class) =
                        self.default_class(NETWORKING, "ingressclasses", DEFAULT_INGRESS)
                {
                    object["spec"]["ingressClassName"] = class.into();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The class that is marked as the default: the newest, if there are several.
    fn default_class(&self, group: &str, plural: &str, mark: &str) -> Option<String> {
        let classes = GroupResource::new(group, plural);
        let marked = self
            .store
            .range(&classes, None, None)
            .filter(|(_, class)| class.value()["metadata"]["annotations"][mark] == "true");
        let newest = |(key, class): &(&Key, &Object)| {
            let made = class.meta("creationTimestamp").to_owned();
            // Of those of one second the first by name.
            (made, std::cmp::Reverse(key.name.clone()))
        };
        marked.max_by_key(newest).map(|(key, _)| key.name.clone())
    }

    /// The runtime that a Pod names is there, and says what it costs.
    fn set_runtime(&self, resource: &Resource, pod: &mut Value) -> Result<(), Status> {
        let name = text(&pod["spec"]["runtimeClassName"]).to_owned();
        if name.is_empty() {
            return Ok(());
        }
        let classes = GroupResource::new("node.k8s.io", "runtimeclasses");
        let class = self
            .store
            .get(&classes, &Key::new("", name.as_str()))
            .ok_or_else(|| {
                let why = format!("pod rejected: RuntimeClass {name:?} not found");
                forbid(resource, pod, &why)
            })?;
        let overhead = &class.value()["overhead"]["podFixed"];
        if overhead.is_object() && pod["spec"]["overhead"].is_null() {
            pod["spec"]["overhead"] = overhead.clone();
        }
        let selector = class.value()["scheduling"]["nodeSelector"].as_object();
        for (key, value) in selector.into_iter().flatten() {
            let chosen = &mut pod["spec"]["nodeSelector"];
            if !chosen.is_object() {
                *chosen = json!({});
            }
            if !chosen[key].is_null() && chosen[key] != *value {
                let why = format!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                    text(value),
                    text(&chosen[key])
                );
                return Err(forbid(resource, pod, &why));
            }
            chosen[key] = value.clone();
        }
        Ok(())
    }

    /// A Pod's priority is that of its class.
    fn set_priority(&self, resource: &Resource, pod: &mut Value) -> Result<(), Status> {
        let classes = GroupResource::new(SCHEDULING, "priorityclasses");
        let spec = &pod["spec"];
        let mut name = text(&spec["priorityClassName"]).to_owned();
        let class = if name.is_empty() {
            let all = self.store.range(&classes, None, None);
            let lowest = all
                .filter(|(_, class)| class.value()["globalDefault"] == true)
                .min_by_key(|(_, class)| class.value()["value"].as_i64());
            lowest.map(|(key, class)| {
                name.clone_from(&key.name);
                class.to_value()
            })
        } else {
            let stored = self.store.get(&classes, &Key::new("", name.as_str()));
            let known = SYSTEM_PRIORITIES.iter().find(|(system, _)| *system == name);
            let class = stored
                .map(|class| class.to_value())
                .or_else(|| known.map(|(_, value)| json!({"value": value})));
            let none = || {
                let why = format!("no PriorityClass with name {name} was found");
                forbid(resource, pod, &why)
            };
            Some(class.ok_or_else(none)?)
        };
        let class = class.unwrap_or_default();
        let priority = class["value"].as_i64().unwrap_or(0);
        let policy = class["preemptionPolicy"]
            .as_str()
            .unwrap_or("PreemptLowerPriority");
        if let Some(given) = spec["priority"].as_i64().filter(|given| *given != priority) {
            let why = format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
            );
            return Err(forbid(resource, pod, &why));
        }
        if let Some(given) = spec["preemptionPolicy"]
            .as_str()
            .filter(|given| *given != policy)
        {
            let why = format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            );
            return Err(forbid(resource, pod, &why));
        }
        let policy = policy.to_owned();
        let spec = &mut pod["spec"];
        if !name.is_empty() {
            spec["priorityClassName"] = name.into();
        }
        spec["priority"] = priority.into();
        spec["preemptionPolicy"] = policy.into();
        Ok(())
    }

    /// Refuses what other objects speak against.
    pub(super) fn check_others(
        &self,
        resource: &Resource,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        match (resource.group.as_str(), resource.plural.as_str(), old) {
            ("", "persistentvolumeclaims", Some(old)) => self.check_resize(resource, new, old),
            (SCHEDULING, "priorityclasses", _) if new["globalDefault"] == true => {
                let classes = GroupResource::new(SCHEDULING, "priorityclasses");
                let own = text(&new["metadata"]["name"]);
                let other = self
                    .store
                    .range(&classes, None, None)
                    .find(|(key, class)| key.name != own && class.value()["globalDefault"] == true);
                match other {
                    Some((key, _)) => Err(forbid(
                        resource,
                        new,
                        &format!(
                            "PriorityClass {} is already marked as default. Only one default can exist",
                            key.name
                        ),
                    )),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// A claim grows only where its class lets it.
    fn check_resize(&self, resource: &Resource, new: &Value, old: &Value) -> Result<(), Status> {
        let size = |claim: &Value| {
            let wanted = &claim["spec"]["resources"]["requests"]["storage"];
            wanted.as_str().and_then(quantity::nano).unwrap_or(0)
        };
        if size(new) <= size(old) || old["status"]["phase"] != "Bound" {
            return Ok(());
        }
        let classes = GroupResource::new(STORAGE, "storageclasses");
        let class = text(&new["spec"]["storageClassName"]);
        // Where there is no such class somebody else made the volume, and may
        // let it grow, too.
        let grows = self
            .store
            .get(&classes, &Key::new("", class))
            .is_none_or(|class| class.value()["allowVolumeExpansion"] == true);
        if grows {
            return Ok(());
        }
        Err(forbid(
            resource,
            new,
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        ))
    }
}
