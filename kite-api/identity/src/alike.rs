//! Whether replicas of an earlier version serve, which know passwords by the hash in the
//! account and by nothing else.
//!
//! A replica that knows more says so by a Lease, which is its pod's and goes with it: one
//! of an earlier version has none. One that just starts has none yet either; where it is
//! made from the same template as this one, it is of the same version, so that no hash is
//! shown because a pod is replaced or another is wanted. Where there are no pods of the API,
//! as where it runs outside of the cluster, there are none of an earlier version either, for
//! all that is known.

use std::collections::HashSet;

use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kite_core::{
    cluster::{Cluster as _, ClusterError},
    labels, names,
};
use kube::{
    Resource as _, ResourceExt as _,
    api::{ListParams, ObjectMeta},
};
use tokio::time::Instant;

use crate::{state::Accounts, state::replicas::Known};

/// Labels by which Kubernetes tells pods from different templates of one Deployment or
/// `StatefulSet`.
const REVISIONS: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];

/// Whether all replicas have known passwords as this one does for some minutes: then
/// hashes may go out of accounts.
pub(crate) async fn are_alike(state: &Accounts) -> bool {
    let age = state.settings().take_in_after;
    look(state).await.are_alike(age, Instant::now())
}

/// Whether a new password is to be in its account as well, since a replica of an earlier
/// version knows it by nothing else.
pub(crate) async fn has_older(state: &Accounts) -> bool {
    let known = look(state).await;
    known.has_older && !known.are_alike(state.settings().take_in_after, Instant::now())
}

/// Looks, unless somebody just has or does.
async fn look(state: &Accounts) -> Known {
    let replicas = state.replicas();
    let before = *replicas.known.lock();
    if before.is_believed() {
        return before;
    }
    let _looking = replicas.looking.lock().await;
    let before = *replicas.known.lock();
    if before.is_believed() {
        return before;
    }
    let found = match older(state).await {
        Ok(None) => Some(false),
        Ok(Some(pod)) => {
            if before.alike_since.is_some() || before.looked.is_none() {
                tracing::info!(
                    pod,
                    "a replica of an earlier version serves, or one that is just starting: \
                     hashes of passwords stay in accounts"
                );
            }
            Some(true)
        }
        // It is asked again and again.
        Err(error) if before.has_failed => {
            tracing::debug!(%error, "replicas of an earlier version still cannot be seen");
            None
        }
        Err(error) => {
            tracing::warn!(
                %error,
                "nobody can say whether replicas of an earlier version serve, so hashes of \
                 passwords stay in accounts: the role kite-api needs `list` of pods in Kite's \
                 namespace"
            );
            None
        }
    };
    let mut known = replicas.known.lock();
    known.note(found, Instant::now());
    if known.are_alike(state.settings().take_in_after, Instant::now()) {
        known.has_older = false;
    }
    *known
}

/// A pod of the API that does not say that it knows passwords as this one does. Says so of
/// this one.
async fn older(state: &Accounts) -> Result<Option<String>, ClusterError> {
    let namespace = &state.settings().namespace;
    let cluster = state.cluster();
    let of_api = format!("{}={}", labels::APP_NAME, names::API_SERVICE);
    let params = ListParams::default().labels(&of_api);
    let mut pods = cluster
        .list::<Pod>(Some(namespace.clone()), &params)
        .await?;
    pods.items.retain(|pod| !is_over(pod));
    if pods.items.is_empty() {
        return Ok(None);
    }
    let saying = format!(
        "{}={}",
        labels::COMPONENT,
        labels::COMPONENT_KEEPS_PASSWORDS
    );
    let params = ListParams::default().labels(&saying);
    let leases = cluster
        .list::<Lease>(Some(namespace.clone()), &params)
        .await?;
    let mut alike: HashSet<String> = leases.items.iter().flat_map(owners).collect();
    let own = state.settings().server.as_deref();
    if let Some(own) = pods.items.iter().find(|it| own == Some(&*it.name_any()))
        && let Some(uid) = own.uid().filter(|uid| !alike.contains(uid))
    {
        match cluster.create(&saying_so(namespace, own, &uid)).await {
            Ok(_) | Err(ClusterError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
        alike.insert(uid);
    }
    let own = pods.items.iter().find(|it| own == Some(&*it.name_any()));
    let older = pods.items.iter().find(|pod| {
        let says_so = pod.uid().is_some_and(|uid| alike.contains(&uid));
        !says_so && !own.is_some_and(|own| is_same(pod, own))
    });
    Ok(older.map(kube::ResourceExt::name_any))
}

/// Whether a pod is made as `own` is, and runs the very images, or none yet: of a tag that
/// is moved there may be several versions.
fn is_same(pod: &Pod, own: &Pod) -> bool {
    let (revision, images) = (revision_of(own), images_of(own));
    revision.is_some()
        && revision_of(pod) == revision
        && !images.is_empty()
        && images_of(pod).is_subset(&images)
}

/// Which template a pod was made from.
fn revision_of(pod: &Pod) -> Option<&String> {
    let labels = pod.metadata.labels.as_ref()?;
    REVISIONS.iter().find_map(|name| labels.get(*name))
}

/// What the containers of a pod run, as far as they do.
fn images_of(pod: &Pod) -> HashSet<&str> {
    let status = pod.status.as_ref();
    let containers = status.and_then(|it| it.container_statuses.as_ref());
    let containers = containers.into_iter().flatten();
    containers
        .map(|it| it.image_id.as_str())
        .filter(|image| !image.is_empty())
        .collect()
}

/// Whether nothing in it runs any more. One that is being ended still serves.
fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn owners(lease: &Lease) -> Vec<String> {
    let owners = lease.metadata.owner_references.iter().flatten();
    owners.map(|owner| owner.uid.clone()).collect()
}

/// That the replica in `pod` knows passwords as this one does.
fn saying_so(namespace: &str, pod: &Pod, uid: &str) -> Lease {
    let label = (
        labels::COMPONENT.to_owned(),
        labels::COMPONENT_KEEPS_PASSWORDS.to_owned(),
    );
    Lease {
        metadata: ObjectMeta {
            name: Some(names::heartbeat(uid)),
            namespace: Some(namespace.to_owned()),
            labels: Some([label].into()),
            owner_references: Some(vec![OwnerReference {
                api_version: Pod::api_version(&()).into_owned(),
                kind: Pod::kind(&()).into_owned(),
                name: pod.name_any(),
                uid: uid.to_owned(),
                controller: None,
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(pod.name_any()),
            ..LeaseSpec::default()
        }),
    }
}

#[cfg(test)]
mod tests;
