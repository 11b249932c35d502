//! Makes the Pods that a Job lacks, and deletes those that are too many.

use std::cmp::Ordering;
use std::time::Duration;

use kube::api::DynamicObject;

use super::look::Look;
use super::pods::{self, FINALIZER, Part};
use super::{COMPONENT, Indexes, SHORTEST};
use crate::actors::actor::{ActorError, Context};
use crate::actors::events::{self, Said};
use crate::actors::kind::{Key, POD};
use crate::actors::mirror::Found;
use crate::actors::objects::{Deletion, Objects, ignore_missing};
use crate::actors::workloads::making::{Made, TRY_AGAIN, make};
use crate::actors::workloads::owned::Owner;
use crate::actors::workloads::pod_state::{by_worth, is_ready};

/// Most Pods that are made or deleted at a time.
const BURST: u64 = 500;

/// What a Job is managed with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hands<'a> {
    pub(super) context: &'a Context,
    pub(super) objects: Objects<'a>,
    pub(super) owner: Owner<'a>,
}

impl Hands<'_> {
    /// Brings the number of active Pods to what the Job asks for, and counts them. Gives
    /// the time after which there is more to do.
    pub(super) async fn manage(self, look: &mut Look<'_>) -> Result<Option<Duration>, ActorError> {
        let spec = look.spec;
        let active = look.active.len() as u64;
        if spec.is_suspended() {
            let all = look.active.clone();
            self.delete(look, all, true).await?;
            return Ok(None);
        }
        let wanted = match spec.completions() {
            // Once one has succeeded, the others go on as they are.
            None if look.succeeded > 0 => active,
            None => spec.parallelism(),
            Some(completions) => completions
                .saturating_sub(look.succeeded)
                .min(spec.parallelism()),
        };
        let surplus = surplus(look, active.saturating_sub(wanted).min(BURST));
        if !surplus.is_empty() {
            self.delete(look, surplus, true).await?;
            return Ok(None);
        }
        let ending = if spec.replaces_only_failed() {
            look.terminating
        } else {
            0
        };
        let lacking = wanted.saturating_sub(ending + active).min(BURST);
        if lacking == 0 {
            return Ok(None);
        }
        self.make(look, lacking).await
    }

    /// Makes so many Pods.
    async fn make(self, look: &mut Look<'_>, count: u64) -> Result<Option<Duration>, ActorError> {
        let (spec, now) = (look.spec, self.context.clock.now());
        let later = |rest: Duration| Ok(Some(rest.max(SHORTEST)));
        if spec.limit_per_index().is_none() {
            let rest = look.back_off(now);
            if !rest.is_zero() {
                return later(rest);
            }
        }
        let mut waits = None;
        let bodies: Vec<_> = if spec.is_indexed() {
            let completions = spec.completions().unwrap_or_default();
            let mut taken = look.taken(completions);
            taken.extend(&look.succeeded_indexes);
            if let Some(failed) = &look.failed_indexes {
                taken.extend(failed);
            }
            let indexes = missing(&taken, count, completions);
            let (ready, rest): (Vec<u64>, Vec<u64>) = indexes
                .into_iter()
                .partition(|index| look.back_off_of(*index, now).is_zero());
            waits = rest.iter().map(|it| look.back_off_of(*it, now)).min();
            let parts = ready.into_iter().map(|index| Part {
                index,
                instead_of: look.to_replace.get(&index).map(|it| &**it),
            });
            parts.map(|it| pods::new(self.owner, Some(it))).collect()
        } else {
            (0..count).map(|_| pods::new(self.owner, None)).collect()
        };
        for body in bodies {
            let said = match make(self.objects, self.owner.object, &POD, body).await? {
                Made::Object(pod) => {
                    let name = pod.metadata.name.clone().unwrap_or_default();
                    look.active.push(pod);
                    events::normal("SuccessfulCreate", format!("Created pod: {name}"))
                }
                Made::Exists | Made::Nothing => break,
                Made::Refused(message) => {
                    let message = format!("Error creating: {message}");
                    self.tell(events::warning("FailedCreate", message)).await;
                    return later(TRY_AGAIN);
                }
            };
            self.tell(said).await;
        }
        Ok(waits.map(|rest| rest.max(SHORTEST)))
    }

    /// Deletes active Pods. Where they `lets_go` of their finalizer first they are not
    /// among the failures.
    pub(super) async fn delete(
        self,
        look: &mut Look<'_>,
        pods: Vec<Found>,
        lets_go: bool,
    ) -> Result<(), ActorError> {
        for pod in pods {
            let key = Key::of(&POD, &pod);
            if lets_go {
                self.objects.remove_finalizer(&key, &pod, FINALIZER).await?;
            }
            let deleted = self.objects.delete(&key, &pod, Deletion::default()).await;
            ignore_missing(deleted)?;
            look.active.retain(|it| it.metadata.uid != pod.metadata.uid);
            look.ready -= u64::from(is_ready(&pod)).min(look.ready);
            look.terminating += 1;
            let said = events::normal("SuccessfulDelete", format!("Deleted pod: {}", key.name));
            self.tell(said).await;
        }
        Ok(())
    }

    async fn tell(self, said: Said<'_>) {
        let about = (self.owner.kind, self.owner.object);
        events::tell(self.context, COMPONENT, about, said).await;
    }
}

fn missing(taken: &Indexes, count: u64, completions: u64) -> Vec<u64> {
    taken.first_missing(usize::try_from(count).unwrap_or(usize::MAX), completions)
}

/// Active Pods that are too many: `least` of them, and of an indexed Job those that have
/// no index, or one that another has.
fn surplus(look: &Look<'_>, least: u64) -> Vec<Found> {
    let least = usize::try_from(least).unwrap_or(usize::MAX);
    let mut left = look.active.clone();
    left.sort_by(|a, b| worth(a, b));
    let mut gone = Vec::new();
    if look.spec.is_indexed() {
        let completions = look.spec.completions().unwrap_or_default();
        let mut seen = Indexes::default();
        // The best of each index stays.
        let mut kept = Vec::new();
        for pod in left.into_iter().rev() {
            match pods::index(&pod, completions) {
                Some(index) if !seen.has(index) => {
                    seen.add(index);
                    kept.push(pod);
                }
                _ => gone.push(pod),
            }
        }
        kept.reverse();
        left = kept;
    }
    let more = least.saturating_sub(gone.len()).min(left.len());
    gone.extend(left.drain(..more));
    gone
}

fn worth(a: &DynamicObject, b: &DynamicObject) -> Ordering {
    by_worth((a, 0), (b, 0))
}
