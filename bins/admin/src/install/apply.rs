//! Applying what is to be installed.

use std::time::Duration;

use kite_render::install::Manifest;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{
    Error, MADE_HERE, MANAGER,
    check::{Coming, check},
    object::{ObjectName, is_absent},
    settings::{Kept, apply_beside, remedy},
    widen::widened,
};

/// How long definitions of custom resources get until their kinds are served.
pub(super) const ESTABLISHED: Duration = Duration::from_secs(60);
/// Between two looks whether they are.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// What became of an object; in a dry run, what would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "change")]
pub enum Change {
    /// It is new.
    Created,
    /// It was there and is another now.
    Changed,
    /// It was as it should be.
    Unchanged,
    /// Somebody else has set some of its fields, which administrators may: these stay
    /// as they are, and the rest is as it should be. Only of Kite's settings and images.
    Kept(Kept),
}

/// Applies `manifests` in their order, and tells of each. With `dry_run` the API
/// server judges all and stores nothing. Before the first write it is looked whether
/// their kinds are served, and whether what is there can become what is wanted.
///
/// What others have written into fields that are installed is overwritten, but not
/// in Kite's own kinds: administrators change those.
///
/// A role that allows more than is wanted goes on to allow it, for the pods that are
/// there: what comes back takes that away once they have been replaced.
///
/// # Errors
/// An [`Error`] if the API server refuses something, a kind is not served, or what is there
/// cannot become what is wanted.
pub async fn apply<'a>(
    client: &Client,
    manifests: &'a [Manifest],
    dry_run: bool,
    mut told: impl FnMut(&ObjectName, Change),
) -> Result<Narrowing<'a>, Error> {
    let coming = Coming::of(manifests);
    check(client, manifests, &coming).await?;
    let run = Run {
        client,
        trying: dry_run.then_some(coming),
    };
    let mut wider = Vec::new();
    for (at, manifest) in manifests.iter().enumerate() {
        let object = ObjectName::of(manifest);
        let before = run.find(manifest, &object).await?;
        let widened = before.as_ref().and_then(|it| widened(manifest, it));
        if let Some(widened) = widened.filter(|_| !dry_run) {
            // It is told of when it is as it shall be.
            run.apply(&widened, &object, before).await?;
            wider.push(manifest);
        } else {
            let change = run.apply(manifest, &object, before).await?;
            told(&object, change);
        }
        // The last definition: from here on its kinds are needed.
        let next = manifests.get(at + 1);
        let is_last = !matches!(next, Some(Manifest::CustomResourceDefinition(_)));
        if matches!(manifest, Manifest::CustomResourceDefinition(_)) && is_last && !dry_run {
            established(client, manifests).await?;
        }
    }
    Ok(Narrowing(wider))
}

/// The roles that still allow what the version before needs.
#[must_use = "until it is done, roles allow more than is wanted"]
#[derive(Debug)]
pub struct Narrowing<'a>(Vec<&'a Manifest>);

impl Narrowing<'_> {
    /// Whether there is nothing to take away.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes it away, and tells of each role.
    ///
    /// # Errors
    /// An [`Error`] if the API server refuses something; a second call goes on.
    pub async fn finish(
        self,
        client: &Client,
        mut told: impl FnMut(&ObjectName, Change),
    ) -> Result<(), Error> {
        let run = Run {
            client,
            trying: None,
        };
        for manifest in self.0 {
            let object = ObjectName::of(manifest);
            let before = run.find(manifest, &object).await?;
            told(&object, run.apply(manifest, &object, before).await?);
        }
        Ok(())
    }
}

/// Whether administrators change objects of this kind.
fn is_setting(manifest: &Manifest) -> bool {
    matches!(manifest, Manifest::KitePlatform(_) | Manifest::KiteImage(_))
}

struct Run<'a> {
    client: &'a Client,
    /// In a dry run, what would be there by then.
    trying: Option<Coming<'a>>,
}

impl Run<'_> {
    /// Whether it is only missing because the API server stores nothing.
    fn would_be(&self, manifest: &Manifest, error: &kube::Error) -> bool {
        let coming = self.trying.as_ref();
        is_absent(error) && coming.is_some_and(|it| it.brings(manifest))
    }

    /// The object as it is.
    async fn find(
        &self,
        manifest: &Manifest,
        object: &ObjectName,
    ) -> Result<Option<DynamicObject>, Error> {
        let api = object.api(self.client, &manifest.resource());
        match api.get_opt(&object.name).await {
            Ok(before) => Ok(before),
            Err(error) if self.would_be(manifest, &error) => Ok(None),
            Err(error) => Err(Error::of(object, error)),
        }
    }

    async fn apply(
        &self,
        manifest: &Manifest,
        object: &ObjectName,
        before: Option<DynamicObject>,
    ) -> Result<Change, Error> {
        let api = object.api(self.client, &manifest.resource());
        let mut wanted = serde_json::to_value(manifest)?;
        let is_new = |before: &DynamicObject| before.annotations().contains_key(MADE_HERE);
        if matches!(manifest, Manifest::Namespace(_)) && before.as_ref().is_none_or(is_new) {
            wanted["metadata"]["annotations"][MADE_HERE] = "true".into();
        }
        let mut params = PatchParams::apply(MANAGER);
        params.dry_run = self.trying.is_some();
        params.force = !is_setting(manifest);
        let name = &*object.name;
        let started = Instant::now();
        let applied = if is_setting(manifest) {
            loop {
                let applied = apply_beside(&api, name, &params, wanted.clone(), before.as_ref());
                match applied.await {
                    // Another server of the cluster, which has not heard of the kind yet.
                    Err(error)
                        if is_absent(&error)
                            && self.trying.is_none()
                            && started.elapsed() < ESTABLISHED =>
                    {
                        sleep(PAUSE).await;
                    }
                    applied => break applied,
                }
            }
        } else {
            let after = api.patch(name, &params, &Patch::Apply(&wanted)).await;
            after.map(|after| (after, Vec::new()))
        };
        let (after, settings) = match applied {
            Ok(applied) => applied,
            Err(error) if self.would_be(manifest, &error) => return Ok(Change::Created),
            Err(error) => return Err(Error::of(object, error)),
        };
        let Some(before) = before else {
            return Ok(Change::Created);
        };
        let is_same = if self.trying.is_some() {
            content(before) == content(after)
        } else {
            before.resource_version() == after.resource_version()
        };
        Ok(if !settings.is_empty() {
            Change::Kept(Kept {
                remedy: remedy(&object.kind, name, &wanted, &settings),
                changed: !is_same,
                settings,
            })
        } else if is_same {
            Change::Unchanged
        } else {
            Change::Changed
        })
    }
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
            if is_established(&found) && is_served(client, manifest, &object).await? {
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

/// Whether the kind is served: that takes a moment longer, and the servers of a cluster
/// hear of it one after the other.
async fn is_served(
    client: &Client,
    definition: &Manifest,
    object: &ObjectName,
) -> Result<bool, Error> {
    let Manifest::CustomResourceDefinition(definition) = definition else {
        return Ok(true);
    };
    let (spec, names) = (&definition.spec, &definition.spec.names);
    let version = spec.versions.first().map_or("", |it| &it.name);
    let kind = GroupVersionKind::gvk(&spec.group, version, &names.kind);
    let kind = ApiResource::from_gvk_with_plural(&kind, &names.plural);
    let api = Api::<DynamicObject>::all_with(client.clone(), &kind);
    match api.list_metadata(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        // Who may not list may apply all the same.
        Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => Ok(true),
        Err(error) => Err(Error::of(object, error)),
    }
}

fn is_established(definition: &DynamicObject) -> bool {
    let conditions = definition.data["status"]["conditions"].as_array();
    conditions.is_some_and(|conditions| {
        let mut conditions = conditions.iter();
        conditions.any(|it| it["type"] == "Established" && it["status"] == "True")
    })
}
