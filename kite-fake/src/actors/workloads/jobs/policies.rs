//! What a Job says of failures and successes of its Pods.

use kube::api::DynamicObject;
use serde_json::Value;

use super::indexes::Indexes;

/// What a Pod's failure means for its Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It counts.
    Count,
    /// It does not count.
    Ignore,
    /// Its index has failed.
    FailIndex,
    /// The Job has failed, in these words.
    FailJob(String),
}

impl Verdict {
    /// Whether the failure is one of those that are counted.
    pub(super) fn is_counted(&self) -> bool {
        *self != Self::Ignore
    }
}

/// By the first rule of the Job's `podFailurePolicy` that fits.
pub(super) fn verdict(policy: &Value, pod: &DynamicObject) -> Verdict {
    let rules = policy["rules"].as_array();
    for (place, rule) in rules.into_iter().flatten().enumerate() {
        let Some(what) = fits(rule, pod) else {
            continue;
        };
        let action = rule["action"].as_str().unwrap_or_default();
        return match action {
            "Ignore" => Verdict::Ignore,
            "FailIndex" => Verdict::FailIndex,
            "FailJob" => {
                Verdict::FailJob(format!("{what} matching {action} rule at index {place}"))
            }
            _ => Verdict::Count,
        };
    }
    Verdict::Count
}

/// What of the Pod fits a rule, as messages tell it.
fn fits(rule: &Value, pod: &DynamicObject) -> Option<String> {
    let word = |text: &Option<String>| text.clone().unwrap_or_default();
    let of = format!(
        "{}/{}",
        word(&pod.metadata.namespace),
        word(&pod.metadata.name)
    );
    if rule["onExitCodes"].is_object() {
        let (name, code) = exit_code(&rule["onExitCodes"], &pod.data["status"])?;
        return Some(format!(
            "Container {name} for pod {of} failed with exit code {code}"
        ));
    }
    let patterns = rule["onPodConditions"].as_array();
    let conditions = pod.data["status"]["conditions"].as_array();
    let found = patterns.into_iter().flatten().find(|pattern| {
        let wanted = pattern["status"].as_str().unwrap_or("True");
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|it| it["type"] == pattern["type"] && it["status"] == wanted)
    })?;
    let condition = found["type"].as_str().unwrap_or_default();
    Some(format!("Pod {of} has condition {condition}"))
}

/// The first container that failed with a code that the rule means.
fn exit_code<'a>(rule: &Value, status: &'a Value) -> Option<(&'a str, i64)> {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut all = lists
        .into_iter()
        .flat_map(|list| status[list].as_array().into_iter().flatten());
    all.find_map(|container| {
        let code = container["state"]["terminated"]["exitCode"].as_i64()?;
        let is_meant =
            rule["containerName"].is_null() || rule["containerName"] == container["name"];
        let mut values = rule["values"].as_array().into_iter().flatten();
        let is_listed = values.any(|value| value.as_i64() == Some(code));
        let fits = is_listed == (rule["operator"] == "In");
        (is_meant && code != 0 && fits)
            .then(|| (container["name"].as_str().unwrap_or_default(), code))
    })
}

/// Which rule of the Job's `successPolicy` these indexes meet, as messages tell it.
pub(super) fn success(policy: &Value, completions: u64, succeeded: &Indexes) -> Option<String> {
    if succeeded.total() == 0 {
        return None;
    }
    let rules = policy["rules"].as_array()?;
    let place = rules.iter().position(|rule| {
        let count = rule["succeededCount"].as_u64();
        match (rule["succeededIndexes"].as_str(), count) {
            (Some(indexes), count) => {
                let needed = Indexes::parse(indexes, completions);
                needed.shared(succeeded) >= count.unwrap_or(needed.total())
            }
            (None, Some(count)) => succeeded.total() >= count,
            (None, None) => false,
        }
    })?;
    Some(format!("Matched rules at index {place}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let pod = json!({"metadata": {"name": "p", "namespace": "a"}, "status": {
            "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 42}}}],
            "conditions": [{"type": "DisruptionTarget", "status": "True"}]}});
        let pod: DynamicObject = serde_json::from_value(pod).unwrap();
        let of = |rules: Value| verdict(&json!({"rules": rules}), &pod);
        let codes = |action: &str, operator: &str, values: Value| {
            json!({"action": action,
            "onExitCodes": {"operator": operator, "values": values}})
        };
        assert_eq!(of(json!([])), Verdict::Count);
        assert_eq!(
            of(json!([codes("Ignore", "In", json!([1, 42]))])),
            Verdict::Ignore
        );
        assert_eq!(
            of(json!([codes("Ignore", "NotIn", json!([42]))])),
            Verdict::Count
        );
        let disrupted = json!({"action": "FailJob", "onPodConditions":
            [{"type": "DisruptionTarget"}]});
        assert_eq!(
            of(json!([codes("FailIndex", "NotIn", json!([42])), disrupted])),
            Verdict::FailJob(
                "Pod a/p has condition DisruptionTarget matching FailJob rule at index 1"
                    .to_owned()
            )
        );
        assert_eq!(
            of(json!([codes("FailJob", "In", json!([42]))])),
            Verdict::FailJob(
                "Container c for pod a/p failed with exit code 42 matching FailJob rule at index 0"
                    .to_owned()
            )
        );
    }

    #[test]
    fn a_success_policy_wants_indexes_or_a_number() {
        let of = |rule: Value, done: &str| {
            success(&json!({"rules": [rule]}), 10, &Indexes::parse(done, 10)).is_some()
        };
        assert!(!of(json!({"succeededCount": 1}), ""));
        assert!(of(json!({"succeededCount": 2}), "3,5"));
        assert!(of(json!({"succeededIndexes": "3-5"}), "0-9"));
        assert!(!of(json!({"succeededIndexes": "3-5"}), "3,4"));
        assert!(of(
            json!({"succeededIndexes": "3-5", "succeededCount": 2}),
            "3,4"
        ));
    }
}
