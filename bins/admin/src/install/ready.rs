//! Waiting until what was installed is up.

use std::time::Duration;

use kite_render::install::Manifest;
use kube::{Client, api::DynamicObject};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{Error, object::ObjectName};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// How many pods of a workload are ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// Which one.
    pub object: ObjectName,
    /// Pods of its newest version that are ready.
    pub ready: i64,
    /// Pods that it shall have.
    pub wanted: i64,
    /// Pods of an older version that are still there.
    pub older: i64,
}

impl Workload {
    fn of(object: ObjectName, found: &DynamicObject) -> Self {
        let (spec, status) = (&found.data["spec"], &found.data["status"]);
        let number = |field: &str| status[field].as_i64().unwrap_or(0);
        let wanted = spec["replicas"].as_i64().unwrap_or(1);
        let is_seen = status["observedGeneration"].as_i64() >= found.metadata.generation;
        // Pods of an older version are ready, too, and do not count.
        let updated = number("updatedReplicas");
        let older = number("replicas") - updated;
        let ready = if is_seen {
            (number("readyReplicas") - older).clamp(0, updated)
        } else {
            0
        };
        Self {
            object,
            ready,
            wanted,
            older,
        }
    }

    fn is_ready(&self) -> bool {
        self.ready >= self.wanted && self.older == 0
    }
}

/// Waits until all workloads among `manifests` have as many ready pods as they shall and
/// none of an older version, and tells how it stands whenever that is another.
///
/// # Errors
/// An [`Error`] if the API server refuses to say, or some are not ready after `longest`.
pub async fn wait_until_ready(
    client: &Client,
    manifests: &[Manifest],
    longest: Duration,
    mut told: impl FnMut(&[Workload]),
) -> Result<(), Error> {
    let started = Instant::now();
    let mut seen = Vec::new();
    loop {
        let mut now = Vec::new();
        for manifest in manifests {
            if !matches!(manifest, Manifest::Deployment(_) | Manifest::StatefulSet(_)) {
                continue;
            }
            let object = ObjectName::of(manifest);
            let api = object.api(client, &manifest.resource());
            let found = api.get(&object.name).await;
            let found = found.map_err(|error| Error::of(&object, error))?;
            now.push(Workload::of(object, &found));
        }
        if now != seen {
            told(&now);
            seen = now;
        }
        let mut waiting = seen.iter().filter(|it| !it.is_ready());
        let Some(first) = waiting.next() else {
            return Ok(());
        };
        if started.elapsed() > longest {
            let namespace = first.object.namespace.clone().unwrap_or_default();
            return Err(Error::Late {
                what: format!(
                    "{} has {} of {} pods ready, and {} of the version before",
                    first.object, first.ready, first.wanted, first.older
                ),
                seconds: longest.as_secs(),
                remedy: format!(
                    "look at kubectl -n {namespace} describe pods -l \
                     app.kubernetes.io/name={}; all is applied, and goes on by itself",
                    first.object.name
                ),
            });
        }
        sleep(PAUSE).await;
    }
}
