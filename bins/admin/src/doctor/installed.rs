//! What of Kite is there.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::apps::v1::{Deployment, StatefulSet},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kite_core::{
    conditions,
    crd::{self, platform_condition},
    names,
};
use kite_render::install::Process;
use kube::ResourceExt as _;

use super::{
    Aim,
    cluster::unseen,
    facts::{Facts, Seen},
    finding::{Finding, State},
};

/// What Kite's processes are called.
const PROCESSES: [&str; 3] = ["kite-controller", "kite-gateway", "kite-api"];
/// So many VMs are named at most.
const NAMED: usize = 10;
/// What to do where nothing is installed.
const INSTALL: &str = "kite install --profile PROFILE: kite install --help tells which there are";
/// What to do where an installation lacks something.
const AGAIN: &str = "run kite upgrade, which takes the options of the last kite install, or apply \
                     kite crds and then kite manifests as you did";

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
        return Finding::of(check, State::Unknown, "Kite is not installed yet", INSTALL);
    }
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|it| it.name_any()).collect();
        return Finding::of(
            check,
            State::Unfit,
            format!("there is no {}", names.join(", ")),
            AGAIN,
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
        format!("use the kite of the version that is installed, or, to go to this one, {AGAIN}"),
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

/// VMs in namespaces that are no user's, where nobody has given the controller its role: it
/// may not see their Secrets, and neither makes them nor clears away after them.
pub(super) fn vms_elsewhere(facts: &Facts, aim: &Aim) -> Option<Finding> {
    let (vms, bindings) = (facts.vms.known()?, facts.own_bindings.known()?);
    let bound: BTreeSet<_> = bindings
        .iter()
        .filter_map(kube::ResourceExt::namespace)
        .collect();
    let elsewhere: Vec<_> = vms
        .iter()
        .filter_map(|vm| Some((vm.namespace()?, vm.name_any())))
        .filter(|(namespace, _)| {
            names::user_of_namespace(namespace).is_none() && !bound.contains(namespace)
        })
        .collect();
    let (first, _) = elsewhere.first()?;
    let named = elsewhere.iter().take(NAMED);
    let named: Vec<_> = named.map(|(space, vm)| format!("{space}/{vm}")).collect();
    let more = elsewhere.len().saturating_sub(NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let home = &aim.namespace;
    let binds: Vec<_> = Process::ALL
        .into_iter()
        .filter_map(|it| Some((it.name(), it.role_for_users()?)))
        .map(|(account, role)| {
            format!(
                "kubectl -n {first} create rolebinding {role} --clusterrole={role} \
                 --serviceaccount={home}:{account}"
            )
        })
        .collect();
    Some(Finding::of(
        "vmsElsewhere",
        State::Warning,
        format!(
            "{}{more} are in namespaces that are no user's, where Kite's processes have no rights \
             over Secrets: these VMs are not kept in order any more",
            named.join(", ")
        ),
        format!(
            "delete them, or bind the roles in each of these namespaces: {}",
            binds.join("; ")
        ),
    ))
}

/// Whether Kite's processes run, and what the platform says of itself.
pub(super) fn processes(facts: &Facts, aim: &Aim) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let (Seen::Known(deployments), Seen::Known(sets)) =
        (&facts.deployments, &facts.stateful_sets)
    {
        let counts = |name: &str| {
            let deployment = deployments.iter().find(|it| it.name_any() == name);
            let set = sets.iter().find(|it| it.name_any() == name);
            deployment.map(pods_of_deployment).or(set.map(pods_of_set))
        };
        let found = PROCESSES.map(|name| (name, counts(name)));
        // Somebody may run them elsewhere, or nothing is installed yet.
        if found.iter().any(|(_, pods)| pods.is_some()) {
            findings.extend(found.map(|(name, pods)| process(name, pods, aim)));
        }
    }
    findings.extend(platform(facts));
    findings
}

/// How many pods are ready, and how many shall be.
type Pods = (i32, i32);

fn pods_of_deployment(deployment: &Deployment) -> Pods {
    let ready = deployment.status.as_ref().and_then(|it| it.ready_replicas);
    (ready.unwrap_or(0), deployment.spec.replicas.unwrap_or(1))
}

fn pods_of_set(set: &StatefulSet) -> Pods {
    let ready = set.status.as_ref().and_then(|it| it.ready_replicas);
    (ready.unwrap_or(0), set.spec.replicas.unwrap_or(1))
}

fn process(name: &'static str, pods: Option<Pods>, aim: &Aim) -> Finding {
    let namespace = &aim.namespace;
    let Some((ready, wanted)) = pods else {
        return Finding::of(
            name,
            State::Unfit,
            format!("there is no Deployment or StatefulSet {name} in {namespace}"),
            AGAIN,
        );
    };
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
    if let Some(why) = &facts.unread_settings {
        return Some(Finding::of(
            check,
            State::Unfit,
            format!("its settings cannot be read: {why}"),
            "mend the field that is named: kubectl edit kiteplatform default",
        ));
    }
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
