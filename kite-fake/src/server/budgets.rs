//! Disruption budgets, which evictions spend.

use serde_json::{Value, json};

use super::policies::selects;
use super::{ApiServer, Call};
use crate::clock::rfc3339;
use crate::status::{Cause, Status};
use crate::store::{GroupResource, Object};

/// So many Pods may be about to go.
const MOST_DISRUPTED: usize = 2000;

impl ApiServer {
    /// Takes the eviction of a Pod from the budget that covers it, or refuses it.
    pub(super) fn spend_budget(
        &mut self,
        call: &Call,
        pod: &Object,
        dry_run: bool,
    ) -> Result<(), Status> {
        if is_exempt(pod.value()) {
            return Ok(());
        }
        let budgets = GroupResource::new("policy", "poddisruptionbudgets");
        let labels = &pod.value()["metadata"]["labels"];
        let covering: Vec<_> = self
            .store
            .range(&budgets, Some(pod.meta("namespace")), None)
            .filter(|(_, budget)| {
                // An empty selector means all Pods, none means no Pod.
                let selector = &budget.value()["spec"]["selector"];
                selector.is_object() && selects(selector, labels)
            })
            .map(|(key, budget)| (key.clone(), budget.value().clone()))
            .collect();
        let mut covering = covering.into_iter();
        let Some((key, mut budget)) = covering.next() else {
            return Ok(());
        };
        if covering.next().is_some() {
            return Err(Status::new(
                500,
                "",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        if !is_ready(pod.value()) && spares_unready(&budget) {
            return Ok(());
        }
        let number = |member: &Value| member.as_i64().unwrap_or_default();
        if number(&budget["status"]["observedGeneration"])
            < number(&budget["metadata"]["generation"])
        {
            return Err(unseen(&key.name));
        }
        let allowed = number(&budget["status"]["disruptionsAllowed"]);
        if allowed < 0 {
            let why = "pdb disruptions allowed is negative";
            return Err(Status::forbidden(
                "policy",
                "poddisruptionbudgets",
                &key.name,
                why,
            ));
        }
        if allowed == 0 {
            return Err(exhausted(&key.name, &budget["status"]));
        }
        let named = budget["status"]["disruptedPods"].as_object();
        if named.is_some_and(|named| named.len() > MOST_DISRUPTED) {
            let why =
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
            return Err(Status::forbidden(
                "policy",
                "poddisruptionbudgets",
                &key.name,
                why,
            ));
        }
        if dry_run {
            return Ok(());
        }
        let status = &mut budget["status"];
        status["disruptionsAllowed"] = json!(allowed - 1);
        if !status["disruptedPods"].is_object() {
            status["disruptedPods"] = json!({});
        }
        status["disruptedPods"][pod.meta("name")] = rfc3339(call.now).into();
        if allowed == 1 {
            exhaust(status, call);
        }
        let resource = self.registry.storage(&budgets).cloned();
        if let Some(resource) = resource {
            self.commit(&resource, &key, budget);
        }
        Ok(())
    }
}

/// Says that nothing more is allowed.
fn exhaust(status: &mut Value, call: &Call) {
    let mut all = status["conditions"].as_array().cloned().unwrap_or_default();
    all.retain(|it| it["type"] != "DisruptionAllowed");
    all.push(json!({
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": status["observedGeneration"],
        "lastTransitionTime": rfc3339(call.now),
        "reason": "InsufficientPods",
        "message": "",
    }));
    status["conditions"] = json!(all);
}

fn exhausted(name: &str, status: &Value) -> Status {
    let number = |member: &str| status[member].as_i64().unwrap_or_default();
    refused(format!(
        "The disruption budget {name} needs {} healthy pods and has {} currently",
        number("desiredHealthy"),
        number("currentHealthy"),
    ))
}

/// Nobody has said yet what the budget comes to.
fn unseen(name: &str) -> Status {
    let mut status = refused(format!(
        "The disruption budget {name} is still being processed by the server."
    ));
    if let Some(details) = &mut status.details {
        details.retry_after = Some(10);
    }
    status
}

fn refused(why: String) -> Status {
    Status::new(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )
    .with_causes([Cause::new("DisruptionBudget", why, "")])
}

/// Pods that do no work: no budget counts them.
fn is_exempt(pod: &Value) -> bool {
    matches!(
        pod["status"]["phase"].as_str(),
        Some("Pending" | "Succeeded" | "Failed")
    ) || !pod["metadata"]["deletionTimestamp"].is_null()
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Whether a budget lets go of Pods that are not ready (`unhealthyPodEvictionPolicy`).
fn spares_unready(budget: &Value) -> bool {
    if budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" {
        return true;
    }
    let number = |member: &str| budget["status"][member].as_i64().unwrap_or_default();
    let desired = number("desiredHealthy");
    desired > 0 && number("currentHealthy") >= desired
}
