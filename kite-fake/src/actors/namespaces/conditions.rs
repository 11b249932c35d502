//! Conditions of a terminating namespace, as `kube-controller-manager` words them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What is left in a namespace after its contents were deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Remaining {
    /// Objects per `resource.group`.
    pub(super) resources: BTreeMap<String, usize>,
    /// Objects per finalizer that holds them.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// What could not be deleted, and why.
    pub(super) failures: Vec<String>,
}

impl Remaining {
    /// Whether the namespace is empty.
    pub(super) fn is_nothing(&self) -> bool {
        self.resources.is_empty() && self.failures.is_empty()
    }

    /// The conditions (type, status, reason, message) in the controller's order.
    fn conditions(&self) -> [(&'static str, &'static str, &'static str, String); 5] {
        let counted = |counts: &BTreeMap<String, usize>, word: &str| {
            let each = counts
                .iter()
                .map(|(what, count)| format!("{what} {word} {count} resource instances"));
            each.collect::<Vec<_>>().join(", ")
        };
        [
            (
                "NamespaceDeletionDiscoveryFailure",
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered".to_owned(),
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed".to_owned(),
            ),
            if self.failures.is_empty() {
                (
                    "NamespaceDeletionContentFailure",
                    "False",
                    "ContentDeleted",
                    "All content successfully deleted, may be waiting on finalization".to_owned(),
                )
            } else {
                (
                    "NamespaceDeletionContentFailure",
                    "True",
                    "ContentDeletionFailed",
                    format!(
                        "Failed to delete all resource types, {} remaining: {}",
                        self.failures.len(),
                        self.failures.join(", ")
                    ),
                )
            },
            if self.resources.is_empty() {
                (
                    "NamespaceContentRemaining",
                    "False",
                    "ContentRemoved",
                    "All content successfully removed".to_owned(),
                )
            } else {
                (
                    "NamespaceContentRemaining",
                    "True",
                    "SomeResourcesRemain",
                    format!(
                        "Some resources are remaining: {}",
                        counted(&self.resources, "has")
                    ),
                )
            },
            if self.finalizers.is_empty() {
                (
                    "NamespaceFinalizersRemaining",
                    "False",
                    "ContentHasNoFinalizers",
                    "All content-preserving finalizers finished".to_owned(),
                )
            } else {
                (
                    "NamespaceFinalizersRemaining",
                    "True",
                    "SomeFinalizersRemain",
                    format!(
                        "Some content in the namespace has finalizers remaining: {}",
                        counted(&self.finalizers, "in")
                    ),
                )
            },
        ]
    }
}

/// The status of a terminating namespace that had the status `old`. A
/// condition's time moves only when the condition changes.
pub(super) fn status(old: &Value, remaining: &Remaining, now: &str) -> Value {
    let before = old["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let conditions: Vec<Value> = remaining
        .conditions()
        .into_iter()
        .map(|(type_, status, reason, message)| {
            let since = before
                .iter()
                .find(|c| c["type"] == type_ && c["status"] == status)
                .map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
            json!({
                "type": type_,
                "status": status,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            })
        })
        .collect();
    json!({"phase": "Terminating", "conditions": conditions})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_remains_is_counted_by_resource_and_finalizer() {
        let remaining = Remaining {
            resources: BTreeMap::from([
                ("configmaps.".to_owned(), 2),
                ("widgets.demo.example.com".to_owned(), 1),
            ]),
            finalizers: BTreeMap::from([("example.com/hold".to_owned(), 3)]),
            failures: Vec::new(),
        };
        let status = status(&Value::Null, &remaining, "T1");
        assert_eq!(
            status["conditions"][3]["message"],
            "Some resources are remaining: configmaps. has 2 resource instances, \
             widgets.demo.example.com has 1 resource instances"
        );
        assert_eq!(
            status["conditions"][4]["message"],
            "Some content in the namespace has finalizers remaining: \
             example.com/hold in 3 resource instances"
        );
    }

    #[test]
    fn the_time_of_a_condition_stays_while_its_status_does() {
        let first = status(&Value::Null, &Remaining::default(), "T1");
        let again = status(&first, &Remaining::default(), "T2");
        assert_eq!(first, again);
    }
}
