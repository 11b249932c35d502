//! Policies that change what is written.

use serde_json::{Value, json};

use crate::answer::{Answer, differs};
use crate::site::{Site, map, maps};
use crate::{Checked, Failure};

table! { Policies;
    a_policy_changes_what_is_written:
        "A bound MutatingAdmissionPolicy changes objects that its rules are about.",
        "Defaults of one's own without a webhook.";
    a_policy_whose_condition_is_false_changes_nothing:
        "A MutatingAdmissionPolicy whose matchConditions do not hold changes nothing.",
        "Policies are narrow.";
}

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";

/// A bound policy that marks the `ConfigMaps` of a namespace for which a condition holds.
async fn bound(s: &Site, ns: &str, condition: &str) -> Checked {
    let name = s.unique();
    let head = |kind: &str| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": name}})
    };
    let expression = r#"Object{data: {"marked": "yes"}}"#;
    let mut policy: Value = head("MutatingAdmissionPolicy");
    policy["spec"] = json!({
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}},
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["configmaps"]}]},
        "matchConditions": [{"name": "wanted", "expression": condition}],
        "mutations": [{"patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": expression}}],
    });
    let mut binding = head("MutatingAdmissionPolicyBinding");
    binding["spec"] = json!({"policyName": name});
    for (path, object) in [(POLICIES, policy), (BINDINGS, binding)] {
        s.remove_later(format!("{path}/{name}"));
        s.post(path, &object).await?.expect(201)?;
    }
    Ok(())
}

/// An object that a bound policy has marked: a server looks at its policies now and then.
async fn marked(s: &Site, ns: &str) -> Result<Answer, Failure> {
    for number in 0..200 {
        let made = s
            .post(&maps(ns), &map(&format!("a{number}"), &json!({"k": "v"})))
            .await?;
        let made = made.expect(201)?;
        if made.text("/data/marked") == "yes" {
            return Ok(made);
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    differs("nothing was changed in 20 s")
}

async fn a_policy_changes_what_is_written(s: Site) -> Checked {
    let ns = s.namespace().await?;
    bound(&s, &ns, "object.metadata.name.startsWith('a')").await?;
    marked(&s, &ns).await?.is("/data/k", "v")?;
    Ok(())
}

async fn a_policy_whose_condition_is_false_changes_nothing(s: Site) -> Checked {
    let ns = s.namespace().await?;
    bound(&s, &ns, "object.metadata.name.startsWith('a')").await?;
    // Now it is in effect.
    marked(&s, &ns).await?;
    let made = s.post(&maps(&ns), &map("b", &json!({"k": "v"}))).await?;
    made.expect(201)?.is("/data", json!({"k": "v"}))?;
    Ok(())
}
