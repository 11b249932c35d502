//! The Jobs of a `CronJob`.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kube::api::{DynamicObject, PropagationPolicy};
use serde_json::{Value, json};

use super::state::State;
use crate::actors::actor::{ActorError, Context};
use crate::actors::events::{self, Said};
use crate::actors::kind::{CRON_JOB, JOB, Key};
use crate::actors::mirror::Found;
use crate::actors::objects::{
    Deletion, Objects, ignore_missing, is_controlled_by, is_deleting, text, uid,
};
use crate::actors::workloads::jobs;
use crate::actors::workloads::making::{Made, make};

const COMPONENT: &str = "cronjob-controller";

/// What a `CronJob` is worked on with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hands<'a> {
    pub(super) context: &'a Context,
    pub(super) objects: Objects<'a>,
    pub(super) cron: &'a DynamicObject,
}

/// What came of a Job that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Started {
    Yes,
    /// There is no place for it.
    No,
    /// It may not be made now.
    Refused,
}

/// How a Job has ended: `Complete` or `Failed`.
fn ending(job: &DynamicObject) -> Option<&str> {
    jobs::ending(&job.data["status"])?["type"].as_str()
}

fn name_of(job: &DynamicObject) -> &str {
    job.metadata.name.as_deref().unwrap_or_default()
}

impl Hands<'_> {
    pub(super) async fn tell(self, said: Said<'_>) {
        events::tell(self.context, COMPONENT, (&CRON_JOB, self.cron), said).await;
    }

    /// Takes into `state` what has become of Jobs.
    pub(super) async fn see(self, state: &mut State, children: &[Found]) {
        for job in children {
            let (name, is_known) = (name_of(job), state.has(uid(job)));
            match ending(job) {
                None if is_known => {}
                None => {
                    let message =
                        format!("Saw a job that the controller did not create or forgot: {name}");
                    self.tell(events::warning("UnexpectedJob", message)).await;
                }
                Some(how) => {
                    if how == "Complete" {
                        state.succeeded(text(job, "/status/completionTime"));
                    }
                    if is_known {
                        state.drop_job(uid(job));
                        let message = format!("Saw completed job: {name}, condition: {how}");
                        self.tell(events::normal("SawCompletedJob", message)).await;
                    }
                }
            }
        }
        for missing in state.active.clone() {
            let id = missing["uid"].as_str().unwrap_or_default();
            if !children.iter().any(|job| uid(job) == id) {
                state.drop_job(id);
                let name = missing["name"].as_str().unwrap_or_default();
                let message = format!("Active job went missing: {name}");
                self.tell(events::normal("MissingJob", message)).await;
            }
        }
    }

    /// Makes the Job that is due.
    pub(super) async fn start(
        self,
        state: &mut State,
        due: Timestamp,
        zone: &TimeZone,
    ) -> Result<Started, ActorError> {
        let namespace = self.cron.metadata.namespace.as_deref();
        let body = super::job(self.cron, due, zone);
        let name = body["metadata"]["name"].clone();
        let name = name.as_str().unwrap_or_default();
        let job = match make(self.objects, self.cron, &JOB, body).await? {
            Made::Object(job) => {
                let message = format!("Created job {name}");
                self.tell(events::normal("SuccessfulCreate", message)).await;
                job
            }
            // Made before, and not told of; or it is somebody else's.
            Made::Exists => {
                let found = self.objects.live().find(&JOB, namespace, name).await?;
                match found.filter(|it| is_controlled_by(it, uid(self.cron))) {
                    Some(job) => job,
                    None => return Ok(Started::No),
                }
            }
            Made::Nothing => return Ok(Started::No),
            Made::Refused(why) => {
                let message = format!("Error creating job: {why}");
                self.tell(events::warning("FailedCreate", message)).await;
                return Ok(Started::Refused);
            }
        };
        if !state.has(uid(&job)) && ending(&job).is_none() {
            state.active.push(reference(&job));
        }
        Ok(Started::Yes)
    }

    /// Ends the Jobs that are active.
    pub(super) async fn replace(self, state: &mut State) -> Result<(), ActorError> {
        let namespace = self.cron.metadata.namespace.as_deref();
        for active in std::mem::take(&mut state.active) {
            let name = active["name"].as_str().unwrap_or_default();
            let found = self.objects.find(&JOB, namespace, name).await?;
            if let Some(job) = found.filter(|it| active["uid"] == uid(it)) {
                self.delete(&job).await?;
            }
        }
        Ok(())
    }

    /// Deletes Jobs that are over: all but the newest of each kind.
    pub(super) async fn clean(self, children: &[Found]) -> Result<(), ActorError> {
        for (how, field, default) in [
            ("Complete", "successfulJobsHistoryLimit", 3),
            ("Failed", "failedJobsHistoryLimit", 1),
        ] {
            let limit = self.cron.data["spec"][field].as_u64().unwrap_or(default);
            let over = children.iter().filter(|it| ending(it) == Some(how));
            let mut over: Vec<&Found> = over.collect();
            over.sort_by_key(|it| (text(it, "/status/startTime").to_owned(), name_of(it)));
            let surplus = over
                .len()
                .saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
            for job in over.into_iter().take(surplus) {
                if !is_deleting(job) {
                    self.delete(job).await?;
                }
            }
        }
        Ok(())
    }

    async fn delete(self, job: &Found) -> Result<(), ActorError> {
        let deletion = Deletion {
            propagation: Some(PropagationPolicy::Background),
            ..Deletion::default()
        };
        let deleted = self
            .objects
            .delete(&Key::of(&JOB, job), job, deletion)
            .await;
        ignore_missing(deleted)?;
        let message = format!("Deleted job {}", name_of(job));
        self.tell(events::normal("SuccessfulDelete", message)).await;
        Ok(())
    }
}

/// As the status names a Job.
fn reference(job: &DynamicObject) -> Value {
    json!({
        "kind": JOB.kind,
        "namespace": job.metadata.namespace,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "apiVersion": JOB.api_version(),
        "resourceVersion": job.metadata.resource_version,
    })
}
