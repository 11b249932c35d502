//! What the API server refuses to an object and that holds up nothing else of it: it is told,
//! and tried again after a while or once the object is another.

use std::time::Duration;

use jiff::Timestamp;
use kite_runtime::plan::Done;
use kube::api::ObjectMeta;

use crate::{
    context::Clock,
    plan::{Outcome, Refusal},
    reports,
};

/// When what is made of an offer is: each try claims the offer and gives it back.
const PAUSE_OF_OFFER: Duration = Duration::from_secs(600);

/// When all else is tried again. No event makes it otherwise: what a webhook says may differ each
/// time, and be written, and so be an event itself.
const PAUSE: Duration = Duration::from_secs(60);

/// When a guest is asked again: there is a minute for all of it.
const PAUSE_OF_FREEZE: Duration = Duration::from_secs(5);

/// What may be refused so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// That a disk grows.
    Growth,
    /// That a VM is exposed.
    Exposure,
    /// What is made of an offer.
    Offer,
    /// That a guest is frozen.
    Freeze,
    /// That it goes on.
    Thaw,
    /// That a snapshot is asked for.
    Taking,
    /// That a disk is made for a restore.
    Copying,
    /// That an old snapshot goes.
    Clearing,
}

impl Refused {
    /// What it is remembered by: of another object of the name, and of another spec, it says
    /// nothing.
    fn of(self, meta: &ObjectMeta) -> String {
        let uid = meta.uid.as_deref().unwrap_or_default();
        let generation = meta.generation.unwrap_or_default();
        format!("{self:?} of {uid} at {generation}")
    }

    fn pause(self) -> Duration {
        match self {
            Self::Offer => PAUSE_OF_OFFER,
            Self::Growth | Self::Exposure | Self::Taking | Self::Copying | Self::Clearing => PAUSE,
            Self::Freeze | Self::Thaw => PAUSE_OF_FREEZE,
        }
    }

    /// What is remembered where it was refused to the object of `meta`.
    pub(crate) fn because(self, why: &str, meta: &ObjectMeta, now: Timestamp) -> Refusal {
        Refusal {
            of: self.of(meta),
            why: reports::bounded(why).unwrap_or_default(),
            until: now.checked_add(self.pause()).unwrap_or(Timestamp::MAX),
        }
    }

    /// The same as what came of a change.
    pub(crate) fn done(self, why: &str, meta: &ObjectMeta, clock: &Clock) -> Done<Outcome> {
        let refusal = self.because(why, meta, clock());
        Done {
            outcome: Outcome::Refused(refusal.clone()),
            refusal: Some(refusal),
        }
    }

    /// That of the object among those that are known.
    pub(crate) fn among<'a>(self, known: &'a [Refusal], meta: &ObjectMeta) -> Option<&'a Refusal> {
        let of = self.of(meta);
        known.iter().find(|it| it.of == of)
    }
}
