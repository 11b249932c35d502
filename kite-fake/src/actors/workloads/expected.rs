//! How many Pods a disruption budget expects, and how many of them have to be healthy.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::owned::{Controller, controller};
use super::shares::{share, up};
use crate::actors::actor::{ActorError, Context};
use crate::actors::kind::{DEPLOYMENT, Kind, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET};
use crate::actors::mirror::Found;
use crate::actors::objects::{Objects, api_error, uid};

/// The numbers of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) pods: i64,
    pub(super) desired: i64,
}

/// By the budget's spec and what controls its Pods; or why nobody can tell.
pub(super) async fn expected(
    context: &Context,
    objects: Objects<'_>,
    spec: &Value,
    pods: &[Found],
) -> Result<Result<Expected, String>, ActorError> {
    let (most, least) = (&spec["maxUnavailable"], &spec["minAvailable"]);
    if most.is_null()
        && let Some(least) = least.as_i64()
    {
        let pods = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        return Ok(Ok(Expected {
            pods,
            desired: least,
        }));
    }
    if most.is_null() && least.is_null() {
        return Ok(Ok(Expected {
            pods: 0,
            desired: 0,
        }));
    }
    let pods = match scale(context, objects, pods).await? {
        Ok(pods) => pods,
        Err(why) => return Ok(Err(why)),
    };
    let desired = if most.is_null() {
        share(least, pods, up).unwrap_or_default()
    } else {
        (pods - share(most, pods, up).unwrap_or_default()).max(0)
    };
    Ok(Ok(Expected { pods, desired }))
}

/// For how many Pods their controllers ask. Those that are nobody's do not count.
async fn scale(
    context: &Context,
    objects: Objects<'_>,
    pods: &[Found],
) -> Result<Result<i64, String>, ActorError> {
    let mut scales: BTreeMap<String, i64> = BTreeMap::new();
    // All Pods of one controller are counted by one question.
    let mut asked: BTreeSet<&str> = BTreeSet::new();
    for pod in pods {
        let Some(owner) = controller(pod) else {
            continue;
        };
        if !asked.insert(owner.uid) {
            continue;
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let found = match asks_for(context, objects, owner, namespace).await? {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let Some((uid, count)) = found else {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            return Ok(Err(format!("found no controllers for pod {name:?}")));
        };
        scales.insert(uid, count);
    }
    Ok(Ok(scales.values().sum()))
}

/// What controls a Pod in the end, and for how many it asks.
async fn asks_for(
    context: &Context,
    objects: Objects<'_>,
    owner: Controller<'_>,
    namespace: &str,
) -> Result<Result<Option<(String, i64)>, String>, ActorError> {
    let known = [REPLICATION_CONTROLLER, REPLICA_SET, STATEFUL_SET];
    let Some(kind) = known.iter().find(|kind| owner.is(kind)) else {
        return by_scale(context, owner, namespace).await;
    };
    let Some(object) = find(objects, kind, owner, namespace).await? else {
        return Ok(Ok(None));
    };
    if *kind == REPLICA_SET
        && let Some(above) = controller(&object).filter(|it| it.is(&DEPLOYMENT))
    {
        let deployment = find(objects, &DEPLOYMENT, above, namespace).await?;
        return Ok(Ok(deployment.map(|it| replicas(&it))));
    }
    Ok(Ok(Some(replicas(&object))))
}

async fn find(
    objects: Objects<'_>,
    kind: &Kind,
    owner: Controller<'_>,
    namespace: &str,
) -> Result<Option<Found>, ActorError> {
    let found = objects.find(kind, Some(namespace), owner.name).await?;
    Ok(found.filter(|it| uid(it) == owner.uid))
}

fn replicas(object: &Found) -> (String, i64) {
    let count = object.data["spec"]["replicas"].as_i64().unwrap_or(1);
    (uid(object).to_owned(), count)
}

/// By the subresource `scale` of a controller of another kind.
async fn by_scale(
    context: &Context,
    owner: Controller<'_>,
    namespace: &str,
) -> Result<Result<Option<(String, i64)>, String>, ActorError> {
    let Some(kind) = context.catalog.find(owner.api_version, owner.kind) else {
        return Ok(Err(format!(
            "no matches for kind {:?} in version {:?}",
            owner.kind, owner.api_version
        )));
    };
    let resource = if kind.group.is_empty() {
        kind.plural.to_string()
    } else {
        format!("{}.{}", kind.plural, kind.group)
    };
    let scale = kind
        .api(&context.client, Some(namespace))
        .get_scale(owner.name)
        .await;
    match scale {
        Ok(scale) if scale.metadata.uid.as_deref() == Some(owner.uid) => {
            let count = scale.spec.and_then(|it| it.replicas).unwrap_or_default();
            Ok(Ok(Some((owner.uid.to_owned(), count.into()))))
        }
        Ok(_) => Ok(Ok(None)),
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 405 => Ok(Err(
            format!("{resource} does not implement the scale subresource"),
        )),
        Err(error) => Err(api_error("reading a scale")(error)),
    }
}
