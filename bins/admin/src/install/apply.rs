//! Applying what is to be installed.

use std::time::Duration;

use kite_render::install::Manifest;
use kube::{
    Client, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams},
};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{
    Error, MADE_HERE, MANAGER,
    object::{ObjectName, is_absent},
};

/// How long definitions of custom resources get until their kinds are served.
const ESTABLISHED: Duration = Duration::from_secs(60);
/// Between two looks whether they are.
const PAUSE: Duration = Duration::from_millis(200);

/// What became of an object; in a dry run, what would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// It is new.
    Created,
    /// It was there and is another now.
    Changed,
    /// It was as it should be.
    Unchanged,
    /// Somebody else changed the same fields, which administrators may: it stays as
    /// it is. Only of Kite's settings and images.
    Kept,
}

/// Applies `manifests` in their order, and tells of each. With `dry_run` the API
/// server judges all and stores nothing.
///
/// What others have written into fields that are installed is overwritten, but not
/// in Kite's own kinds: administrators change those.
pub async fn apply(
    client: &Client,
    manifests: &[Manifest],
    dry_run: bool,
    mut told: impl FnMut(&ObjectName, Change),
) -> Result<(), Error> {
    for (at, manifest) in manifests.iter().enumerate() {
        let object = ObjectName::of(manifest);
        let change = apply_one(client, manifest, &object, dry_run).await?;
        told(&object, change);
        // The last definition: from here on its kinds are needed.
        let next = manifests.get(at + 1);
        let is_last = !matches!(next, Some(Manifest::CustomResourceDefinition(_)));
        if matches!(manifest, Manifest::CustomResourceDefinition(_)) && is_last && !dry_run {
            established(client, manifests).await?;
        }
    }
    Ok(())
}

/// Whether administrators change objects of this kind.
fn is_setting(manifest: &Manifest) -> bool {
    matches!(manifest, Manifest::KitePlatform(_) | Manifest::KiteImage(_))
}

async fn apply_one(
    client: &Client,
    manifest: &Manifest,
    object: &ObjectName,
    dry_run: bool,
) -> Result<Change, Error> {
    let api = object.api(client, &manifest.resource());
    let failed = |error| Error::of(object, error);
    let before = match api.get_opt(&object.name).await {
        Ok(before) => before,
        Err(error) if dry_run && is_absent(&error) => None,
        Err(error) => return Err(failed(error)),
    };
    let mut wanted = serde_json::to_value(manifest)?;
    let is_new = |before: &DynamicObject| before.annotations().contains_key(MADE_HERE);
    if matches!(manifest, Manifest::Namespace(_)) && before.as_ref().is_none_or(is_new) {
        wanted["metadata"]["annotations"][MADE_HERE] = "true".into();
    }
    let wanted = Patch::Apply(wanted);
    let mut params = PatchParams::apply(MANAGER);
    params.dry_run = dry_run;
    params.force = !is_setting(manifest);
    let after: DynamicObject = match api.patch(&object.name, &params, &wanted).await {
        Ok(after) => after,
        Err(kube::Error::Api(status)) if status.code == 409 && is_setting(manifest) => {
            return Ok(Change::Kept);
        }
        // Its namespace or its kind would be made in the same run.
        Err(error) if dry_run && is_absent(&error) => return Ok(Change::Created),
        Err(error) => return Err(failed(error)),
    };
    let Some(before) = before else {
        return Ok(Change::Created);
    };
    let is_same = if dry_run {
        content(before) == content(after)
    } else {
        before.resource_version() == after.resource_version()
    };
    Ok(if is_same {
        Change::Unchanged
    } else {
        Change::Changed
    })
}

/// An object without what says when and by whom it was written.
fn content(mut object: DynamicObject) -> DynamicObject {
    object.metadata.managed_fields = None;
    object.metadata.resource_version = None;
    object.metadata.generation = None;
    object
}

/// Waits until the kinds that were applied are served.
async fn established(client: &Client, manifests: &[Manifest]) -> Result<(), Error> {
    let started = Instant::now();
    for manifest in manifests {
        if !matches!(manifest, Manifest::CustomResourceDefinition(_)) {
            continue;
        }
        let object = ObjectName::of(manifest);
        let api = object.api(client, &manifest.resource());
        loop {
            let found = api.get(&object.name).await;
            let found = found.map_err(|error| Error::of(&object, error))?;
            if is_established(&found) {
                break;
            }
            if started.elapsed() > ESTABLISHED {
                return Err(Error::Late {
                    what: format!("{object} is not established"),
                    seconds: ESTABLISHED.as_secs(),
                    remedy: format!("look at kubectl describe crd {}", object.name),
                });
            }
            sleep(PAUSE).await;
        }
    }
    Ok(())
}

fn is_established(definition: &DynamicObject) -> bool {
    let conditions = definition.data["status"]["conditions"].as_array();
    conditions.is_some_and(|conditions| {
        let mut conditions = conditions.iter();
        conditions.any(|it| it["type"] == "Established" && it["status"] == "True")
    })
}
