//! What of Kite is there.

use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kite_core::{
    conditions,
    crd::{self, platform_condition},
};
use kube::ResourceExt as _;

use super::{
    Aim,
    cluster::unseen,
    facts::{Facts, Seen},
    finding::{Finding, State},
};

/// What Kite's processes are called.
const PROCESSES: [&str; 3] = ["kite-controller", "kite-gateway", "kite-api"];
const APPLY: &str = "kite crds | kubectl apply --server-side -f -";

/// Whether the kinds are there, and as this version has them.
pub(super) fn custom_resources(facts: &Facts) -> Finding {
    let check = "customResources";
    let Seen::Known(served) = &facts.definitions else {
        return unseen(check, "CustomResourceDefinitions", &facts.definitions);
    };
    let own = crd::all();
    let find = |own: &CustomResourceDefinition| {
        let mut served = served.iter();
        served.find(|it| it.metadata.name == own.metadata.name)
    };
    let missing: Vec<_> = own.iter().filter(|own| find(own).is_none()).collect();
    if missing.len() == own.len() {
        return Finding::of(check, State::Unknown, "Kite is not installed yet", APPLY);
    }
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|it| it.name_any()).collect();
        return Finding::of(
            check,
            State::Unfit,
            format!("there is no {}", names.join(", ")),
            APPLY,
        );
    }
    let differs = |own: &&CustomResourceDefinition| {
        find(own).is_some_and(|served| schema_of(served) != schema_of(own))
    };
    let other: Vec<_> = own.iter().filter(differs).collect();
    if other.is_empty() {
        return Finding::fit(
            check,
            "all of Kite's kinds are there, as this version has them",
        );
    }
    let names: Vec<_> = other.iter().map(|it| it.spec.names.kind.clone()).collect();
    Finding::of(
        check,
        State::Warning,
        format!("another version of Kite made {}", names.join(", ")),
        format!("use the kite of the version that is installed, or to upgrade: {APPLY}"),
    )
}

/// Schemas by version, without what a server adds.
fn schema_of(definition: &CustomResourceDefinition) -> Vec<(String, Option<serde_json::Value>)> {
    let versions = definition.spec.versions.iter();
    let schema = |schema| serde_json::to_value(schema).ok();
    versions
        .map(|it| (it.name.clone(), it.schema.as_ref().and_then(schema)))
        .collect()
}

/// Whether Kite's processes run, and what the platform says of itself.
pub(super) fn processes(facts: &Facts, aim: &Aim) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Seen::Known(deployments) = &facts.deployments {
        let by_name = |name: &str| deployments.iter().find(|it| it.name_any() == name);
        let found = PROCESSES.map(|name| (name, by_name(name)));
        // Somebody may run them elsewhere, or nothing is installed yet.
        if found.iter().any(|(_, deployment)| deployment.is_some()) {
            findings.extend(found.map(|(name, deployment)| process(name, deployment, aim)));
        }
    }
    findings.extend(platform(facts));
    findings
}

fn process(name: &'static str, deployment: Option<&Deployment>, aim: &Aim) -> Finding {
    let namespace = &aim.namespace;
    let Some(deployment) = deployment else {
        return Finding::of(
            name,
            State::Unfit,
            format!("there is no Deployment {name} in {namespace}"),
            "apply the whole of kite manifests",
        );
    };
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let ready = deployment.status.as_ref().and_then(|it| it.ready_replicas);
    let ready = ready.unwrap_or(0);
    let message = format!("{ready} of {wanted} are ready");
    let look =
        format!("look at kubectl -n {namespace} describe pods -l app.kubernetes.io/name={name}");
    match ready {
        0 if wanted > 0 => Finding::of(name, State::Unfit, message, look),
        ready if ready < wanted => Finding::of(name, State::Warning, message, look),
        _ => Finding::fit(name, message),
    }
}

fn platform(facts: &Facts) -> Option<Finding> {
    let check = "platform";
    let status = facts.platform.known()?.status.clone().unwrap_or_default();
    let ready = conditions::find(&status.conditions, platform_condition::READY);
    Some(match ready {
        Some(ready) if ready.status == "True" => Finding::fit(check, "is ready"),
        Some(ready) => Finding::of(
            check,
            State::Warning,
            format!("is not ready: {}", ready.message),
            "look at kubectl describe kiteplatform default",
        ),
        None => Finding::of(
            check,
            State::Unknown,
            "no controller has looked at it yet",
            "see whether kite-controller runs",
        ),
    })
}
