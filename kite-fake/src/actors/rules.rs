//! Rules: how long the parts of the cluster take, and where they fail.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::core::ObjectMeta;
use parking_lot::RwLock;
use tokio::sync::watch;

/// A point that an object passes on its way, by a name. Who plays another part of a
/// cluster has stages of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stage(&'static str);

impl Stage {
    /// A Pod gets its node.
    pub const POD_SCHEDULED: Self = Self::new("PodScheduled");
    /// A Pod's containers are ready.
    pub const POD_READY: Self = Self::new("PodReady");
    /// A Pod whose work has an end comes to it: one that is not always restarted, and
    /// that nobody or a Job controls. A failure's message is what it leaves behind, and
    /// its reason, where that is a number, the exit code.
    pub const POD_ENDED: Self = Self::new("PodEnded");
    /// A Pod's containers have ended after its deletion.
    pub const POD_STOPPED: Self = Self::new("PodStopped");
    /// A `PersistentVolumeClaim` is bound.
    pub const CLAIM_BOUND: Self = Self::new("ClaimBound");
    /// A Service or an Ingress gets its external address.
    pub const LOAD_BALANCER_ADDRESS: Self = Self::new("LoadBalancerAddress");
    /// A snapshot of a claim is cut: it has what is on the volume then. Rules select the
    /// `VolumeSnapshot`, as with the next three.
    pub const SNAPSHOT_CUT: Self = Self::new("SnapshotCut");
    /// A snapshot of a claim can be used.
    pub const SNAPSHOT_READY: Self = Self::new("SnapshotReady");
    /// It is known how large a snapshot of a claim is.
    pub const SNAPSHOT_SIZED: Self = Self::new("SnapshotSized");
    /// A deleted snapshot of a claim is gone from its storage.
    pub const SNAPSHOT_DELETED: Self = Self::new("SnapshotDeleted");
    /// The data of a volume are there whose claim was bound before
    /// ([`Driver::binds_early`](super::storage::Driver)). Rules select the volume.
    pub const COPY_DONE: Self = Self::new("CopyDone");
    /// A certificate is issued.
    pub const CERTIFICATE_ISSUED: Self = Self::new("CertificateIssued");
    /// A Gateway or a route is accepted and in effect.
    pub const ROUTE_PROGRAMMED: Self = Self::new("RouteProgrammed");
    /// A played holder renews its lease.
    pub const LEASE_RENEWED: Self = Self::new("LeaseRenewed");

    /// A stage of one's own.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }
}

/// What an object finds at a [`Stage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It passes.
    Open,
    /// It passes or fails after this time.
    Wait(Duration),
    /// It stays where it is until the rules change.
    Held,
    /// It fails for good.
    Fail(Failure),
}

/// How something fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// One word for programs, as in a condition's reason.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
}

/// Which objects a [`Rule`] is for: those that match everything that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Their namespace.
    pub namespace: Option<String>,
    /// Their name.
    pub name: Option<String>,
    /// Labels they have.
    pub labels: BTreeMap<String, String>,
}

impl Selector {
    /// Every object.
    pub fn all() -> Self {
        Self::default()
    }

    /// The object `name` of any namespace.
    pub fn named(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// Only in `namespace`.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only with the label `name=value`.
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Whether an object is meant.
    pub fn matches(&self, object: &ObjectMeta) -> bool {
        let same = |want: &Option<String>, have: &Option<String>| want.is_none() || want == have;
        same(&self.namespace, &object.namespace)
            && same(&self.name, &object.name)
            && self.labels.iter().all(|(name, value)| {
                object.labels.as_ref().and_then(|l| l.get(name)) == Some(value)
            })
    }
}

/// What happens to selected objects at a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The stage.
    pub stage: Stage,
    /// The objects.
    pub selector: Selector,
    /// How long it takes before the outcome.
    pub delay: Duration,
    /// What comes of it.
    pub outcome: Outcome,
}

/// What comes of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The object passes.
    Pass,
    /// It fails.
    Fail(Failure),
    /// It stays there until the rules change.
    Hold,
}

impl Rule {
    /// Selected objects pass `stage` after `delay`.
    pub fn delay(stage: Stage, selector: Selector, delay: Duration) -> Self {
        Self {
            stage,
            selector,
            delay,
            outcome: Outcome::Pass,
        }
    }

    /// Selected objects fail at `stage`, at once.
    pub fn fail(stage: Stage, selector: Selector, reason: &str, message: &str) -> Self {
        Self {
            stage,
            selector,
            delay: Duration::ZERO,
            outcome: Outcome::Fail(Failure {
                reason: reason.to_owned(),
                message: message.to_owned(),
            }),
        }
    }

    /// Selected objects stay before `stage` until the rule is taken away.
    pub fn hold(stage: Stage, selector: Selector) -> Self {
        Self {
            stage,
            selector,
            delay: Duration::ZERO,
            outcome: Outcome::Hold,
        }
    }
}

/// Delays and failures of the whole cluster. The last rule that selects an
/// object at a stage decides; without one the default delay of the stage does.
#[derive(Debug)]
pub struct Rules {
    list: RwLock<Vec<Rule>>,
    delays: BTreeMap<Stage, Duration>,
    steps: BTreeMap<Stage, u32>,
    events: bool,
    version: watch::Sender<u64>,
}

impl Rules {
    /// Nothing takes any time; for tests.
    pub fn instant() -> Self {
        Self {
            list: RwLock::default(),
            delays: BTreeMap::new(),
            steps: BTreeMap::new(),
            events: false,
            version: watch::Sender::new(0),
        }
    }

    /// Things take as long as a person likes to watch.
    pub fn demo() -> Self {
        let ms = Duration::from_millis;
        Self::instant().with_delays([
            (Stage::POD_SCHEDULED, ms(100)),
            (Stage::POD_READY, ms(200)),
            (Stage::POD_ENDED, ms(1000)),
            (Stage::POD_STOPPED, ms(100)),
            (Stage::CLAIM_BOUND, ms(50)),
            (Stage::LOAD_BALANCER_ADDRESS, ms(300)),
            (Stage::SNAPSHOT_CUT, ms(100)),
            (Stage::SNAPSHOT_READY, ms(200)),
            (Stage::COPY_DONE, ms(1000)),
            (Stage::CERTIFICATE_ISSUED, ms(300)),
            (Stage::ROUTE_PROGRAMMED, ms(300)),
        ])
    }

    /// Sets how long stages take where no rule says otherwise.
    #[must_use]
    pub fn with_delays(mut self, delays: impl IntoIterator<Item = (Stage, Duration)>) -> Self {
        self.delays.extend(delays);
        self
    }

    /// Sets in how many steps a stage is passed where it is not passed at once.
    #[must_use]
    pub fn with_steps(mut self, stage: Stage, steps: u32) -> Self {
        self.steps.insert(stage, steps);
        self
    }

    /// Has the actors tell Events of what they do.
    #[must_use]
    pub fn with_events(mut self) -> Self {
        self.events = true;
        self
    }

    /// Whether actors tell Events.
    pub fn wants_events(&self) -> bool {
        self.events
    }

    /// In how many steps a stage is passed; one if not set.
    pub fn steps(&self, stage: Stage) -> u32 {
        self.steps.get(&stage).map_or(1, |steps| (*steps).max(1))
    }

    /// Adds a rule, which goes before those that are there.
    pub fn add(&self, rule: Rule) {
        self.list.write().push(rule);
        self.version.send_modify(|version| *version += 1);
    }

    /// Takes every rule of `stage` away; default delays stay.
    pub fn clear(&self, stage: Stage) {
        self.list.write().retain(|rule| rule.stage != stage);
        self.version.send_modify(|version| *version += 1);
    }

    /// Tells whenever rules change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The delay at `stage` for an object and the gate behind it; no gate where
    /// the object is held.
    pub(super) fn effect(&self, stage: Stage, object: &ObjectMeta) -> (Duration, Option<Gate>) {
        let rules = self.list.read();
        let rule = rules
            .iter()
            .rev()
            .find(|rule| rule.stage == stage && rule.selector.matches(object));
        match rule {
            None => {
                let delay = self.delays.get(&stage).copied().unwrap_or_default();
                (delay, Some(Gate::Open))
            }
            Some(rule) => {
                let gate = match &rule.outcome {
                    Outcome::Pass => Some(Gate::Open),
                    Outcome::Fail(failure) => Some(Gate::Fail(failure.clone())),
                    Outcome::Hold => None,
                };
                (rule.delay, gate)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn meta(name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("a".to_owned()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn the_last_rule_that_selects_decides() {
        let rules = Rules::demo();
        let at = |name| rules.effect(Stage::POD_READY, &meta(name));
        assert_eq!(at("x"), (Duration::from_millis(200), Some(Gate::Open)));
        rules.add(Rule::hold(Stage::POD_READY, Selector::all()));
        rules.add(Rule::fail(
            Stage::POD_READY,
            Selector::named("x").within("a"),
            "NoImage",
            "there is no such image",
        ));
        assert!(matches!(at("x").1, Some(Gate::Fail(f)) if f.reason == "NoImage"));
        assert_eq!(at("y").1, None);
        rules.clear(Stage::POD_READY);
        assert_eq!(at("y").1, Some(Gate::Open));
    }

    #[test]
    fn a_selector_wants_all_that_it_names() {
        let mut object = meta("x");
        let selector = Selector::all().label("tier", "db");
        assert!(!selector.matches(&object));
        object.labels = Some(BTreeMap::from([("tier".to_owned(), "db".to_owned())]));
        assert!(selector.matches(&object));
        assert!(!selector.within("b").matches(&object));
    }

    #[test]
    fn a_change_of_rules_is_told() {
        let rules = Rules::instant();
        let mut changes = rules.changes();
        assert!(!changes.has_changed().unwrap());
        rules.add(Rule::delay(
            Stage::POD_READY,
            Selector::all(),
            Duration::ZERO,
        ));
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
    }
}
