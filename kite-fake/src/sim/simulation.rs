//! [`Simulation`] and what it is built of.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use parking_lot::Mutex;

use super::cast::Cast;
use super::controller::{Controller, Role};
use super::engine::{Engine, Limits};
use super::essence::{Constants, History, Ignored, essence, orphans};
use super::feed::Watched;
use super::observer::{Event, Invariant, Observer};
use super::participant::Participant;
use super::run::{Rule, Run};
use super::sweep::Sweep;
use super::world::{ScenarioError, World};
use crate::actors::{Actor, Catalog, Rules};
use crate::clock::{ManualClock, TokioClock};
use crate::fault::{Faults, Plan};
use crate::state::Snapshot;
use crate::{BuildError, FakeCluster};

/// When every simulation begins: 2026-01-01T00:00:00Z, in seconds since 1970.
const BEGINNING: i64 = 1_767_225_600;
/// Stack of a simulation's thread; futures of debug builds are large.
const STACK: usize = 16 * 1024 * 1024;

type Scenario =
    Arc<dyn Fn(World) -> LocalBoxFuture<'static, Result<(), ScenarioError>> + Send + Sync>;
type Actors = Arc<dyn Fn() -> Vec<Arc<dyn Actor>> + Send + Sync>;
type Settings = Arc<dyn Fn(crate::Builder) -> crate::Builder + Send + Sync>;
type Prepare = Arc<dyn Fn(&FakeCluster) + Send + Sync>;
type MakeRules = Arc<dyn Fn() -> Rules + Send + Sync>;

/// Participants, actors and a scenario: see the [module](super).
pub struct Simulation {
    parts: Builder,
    made: Arc<Made>,
}

/// What was made once, for all runs.
#[derive(Default)]
struct Made {
    /// The cluster before anything happens.
    beginning: OnceLock<Result<Snapshot, String>>,
    /// What of it can be compared without being read again.
    constants: OnceLock<Constants>,
    /// The kinds that it serves.
    discovered: Arc<OnceLock<Catalog>>,
    /// The runs without faults that were asked for, by seed.
    references: Mutex<BTreeMap<u64, Arc<Run>>>,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

/// See [`Simulation::builder`].
#[derive(Clone)]
pub struct Builder {
    settings: Settings,
    crds: Vec<CustomResourceDefinition>,
    prepare: Prepare,
    actors: Actors,
    rules: MakeRules,
    roles: Vec<Arc<dyn Role>>,
    scenario: Scenario,
    invariants: Vec<Invariant>,
    ignored: Vec<Ignored>,
    spared: Vec<String>,
    history: Arc<Vec<History>>,
    limits: Limits,
    forbids_noop_writes: bool,
    is_uncounted: bool,
    is_one_process: bool,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles: Vec<&str> = self.roles.iter().map(|role| role.name()).collect();
        f.debug_struct("Builder")
            .field("controllers", &roles)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Installs CRDs at the start.
    #[must_use]
    pub fn crds(mut self, crds: impl IntoIterator<Item = CustomResourceDefinition>) -> Self {
        self.crds.extend(crds);
        self
    }

    /// Other settings of the cluster, such as objects that are there at the
    /// start. The seed and the clock are the simulation's.
    #[must_use]
    pub fn cluster(
        mut self,
        settings: impl Fn(crate::Builder) -> crate::Builder + Send + Sync + 'static,
    ) -> Self {
        self.settings = Arc::new(settings);
        self
    }

    /// Called with the new cluster of each run, to give it webhooks and
    /// extensions.
    #[must_use]
    pub fn prepare(mut self, prepare: impl Fn(&FakeCluster) + Send + Sync + 'static) -> Self {
        self.prepare = Arc::new(prepare);
        self
    }

    /// The actors of each run, such as `kite_fake::actors::control_plane`. They
    /// are part of the stage: nothing goes wrong with their requests.
    #[must_use]
    pub fn actors(
        mut self,
        actors: impl Fn() -> Vec<Arc<dyn Actor>> + Send + Sync + 'static,
    ) -> Self {
        self.actors = Arc::new(actors);
        self
    }

    /// Delays and failures of the actors in each run; everything at once if not
    /// set.
    #[must_use]
    pub fn rules(mut self, rules: impl Fn() -> Rules + Send + Sync + 'static) -> Self {
        self.rules = Arc::new(rules);
        self
    }

    /// Adds a participant.
    #[must_use]
    pub fn controller<K: Watched>(mut self, controller: Controller<K>) -> Self {
        self.roles.push(Arc::new(controller));
        self
    }

    /// What happens. It starts in a cluster where nobody has begun to work.
    #[must_use]
    pub fn scenario<F>(mut self, scenario: impl Fn(World) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), ScenarioError>> + 'static,
    {
        self.scenario = Arc::new(move |world| scenario(world).boxed_local());
        self
    }

    /// What must hold after every change of an object: gets the state after the
    /// step, and the change.
    #[must_use]
    pub fn always(
        mut self,
        name: impl Into<String>,
        holds: impl Fn(&Snapshot, &Event) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.invariants.push(Invariant {
            name: name.into(),
            holds: Arc::new(holds),
        });
        self
    }

    /// Does not compare a field of a kind, for it is random: a JSON pointer
    /// (RFC 6901), such as `/data/password`.
    #[must_use]
    pub fn ignore_field(mut self, kind: impl Into<String>, pointer: impl Into<String>) -> Self {
        self.ignored.push(Ignored {
            kind: kind.into(),
            pointer: pointer.into(),
            with_object: false,
        });
        self
    }

    /// Does not compare objects of a kind that have this field, a JSON pointer: how
    /// many of them there are depends on how far something had come.
    #[must_use]
    pub fn ignore_objects_with(
        mut self,
        kind: impl Into<String>,
        pointer: impl Into<String>,
    ) -> Self {
        self.ignored.push(Ignored {
            kind: kind.into(),
            pointer: pointer.into(),
            with_object: true,
        });
        self
    }

    /// A field that tells what an object of kind `of` has lived through, such as how
    /// often it was written: it is not compared in a run in which a rival replaced or
    /// removed such an object, and in every other run it is. Of an empty pointer, not
    /// even whether objects of the kind are there is compared then.
    #[must_use]
    pub fn ignore_field_if_replaced(
        mut self,
        of: impl Into<String>,
        kind: impl Into<String>,
        pointer: impl Into<String>,
    ) -> Self {
        let field = Ignored {
            kind: kind.into(),
            pointer: pointer.into(),
            with_object: false,
        };
        let of = of.into();
        Arc::make_mut(&mut self.history).push(History { of, field });
        self
    }

    /// Rivals delete no object of this resource, by plural and group, not even to
    /// create it again: where that is an order by a person with which the outcome is
    /// another, as when the data in it are gone.
    #[must_use]
    pub fn protect_from_rivals(mut self, resource: impl Into<String>) -> Self {
        self.spared.push(resource.into());
        self
    }

    /// Whoever looks at a settled world once more must not even send a write.
    /// If not set, writes without an effect are fine.
    #[must_use]
    pub fn forbid_noop_writes(mut self) -> Self {
        self.forbids_noop_writes = true;
        self
    }

    /// Does not compare how often objects were created and deleted: for scenarios
    /// that change course after a number of steps, when more or less has been
    /// done in one run than in another.
    #[must_use]
    pub fn ignore_counts(mut self) -> Self {
        self.is_uncounted = true;
        self
    }

    /// All controllers run in one process, as those of one binary do: when one
    /// crashes, all are gone. Of several copies, the first of each make one
    /// process, the second another, and so on. If not set, each controller is a
    /// process by itself.
    #[must_use]
    pub fn one_process(mut self) -> Self {
        self.is_one_process = true;
        self
    }

    /// Requeues that are further off are not waited for; a minute if not set.
    #[must_use]
    pub fn horizon(mut self, horizon: Duration) -> Self {
        self.limits.horizon = horizon;
        self
    }

    /// How long the world may take to settle, in simulated time; two hours if
    /// not set.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limits.timeout = timeout;
        self
    }

    /// How many steps the world may take to settle; 20 000 if not set.
    #[must_use]
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.limits.steps = steps;
        self
    }

    /// The simulation.
    pub fn build(self) -> Simulation {
        Simulation {
            parts: self,
            made: Arc::default(),
        }
    }
}

impl Simulation {
    /// Nobody, nothing, and a scenario in which nothing happens.
    pub fn builder() -> Builder {
        Builder {
            settings: Arc::new(|builder| builder),
            crds: Vec::new(),
            prepare: Arc::new(|_| {}),
            actors: Arc::new(Vec::new),
            rules: Arc::new(Rules::instant),
            roles: Vec::new(),
            scenario: Arc::new(|world| async move { world.settle().await }.boxed_local()),
            invariants: Vec::new(),
            ignored: Vec::new(),
            spared: Vec::new(),
            history: Arc::default(),
            limits: Limits {
                horizon: Duration::from_secs(60),
                calm: Duration::from_secs(120),
                timeout: Duration::from_secs(2 * 3600),
                steps: 20_000,
            },
            forbids_noop_writes: false,
            is_uncounted: false,
            is_one_process: false,
        }
    }

    /// Plays the scenario once, on a thread and a runtime of its own. With seed
    /// 0 everything goes in turn; any other seed is another order.
    pub fn run(&self, plan: Plan, seed: u64) -> Run {
        let planned = plan.clone();
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .map_err(|error| error.to_string())?;
            runtime.block_on(self.play(plan, seed))
        };
        let done = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("simulation".to_owned())
                .stack_size(STACK);
            let thread = thread.spawn_scoped(scope, work);
            match thread.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(done)) => done,
                Ok(Err(panic)) => Err(super::panic_message(&*panic)),
                Err(error) => Err(error.to_string()),
            }
        });
        done.unwrap_or_else(|why| Run::failed(planned, seed, why))
    }

    /// The run without faults, played once for each seed.
    pub fn reference(&self, seed: u64) -> Arc<Run> {
        let mut references = self.made.references.lock();
        let reference = references.entry(seed);
        Arc::clone(reference.or_insert_with(|| Arc::new(self.run(Plan::none(), seed))))
    }

    /// The same with each controller in a process of its own, whatever
    /// [`Builder::one_process`] said: who crashes is gone alone, and the others go
    /// on with what they remember. It shares the runs without faults, in which
    /// nobody crashes.
    #[must_use]
    pub fn apart(&self) -> Self {
        let mut parts = self.parts.clone();
        parts.is_one_process = false;
        Self {
            parts,
            made: Arc::clone(&self.made),
        }
    }

    /// Every fault at every request of the run without faults.
    pub fn sweep(&self) -> Sweep<'_> {
        Sweep::new(self)
    }

    /// The cluster before anything happens.
    fn beginning(&self) -> Result<Snapshot, String> {
        let beginning = self.made.beginning.get_or_init(|| {
            let clock = Arc::new(ManualClock::new(beginning_of_time()));
            let crds = self.parts.crds.iter().cloned();
            let builder = (self.parts.settings)(FakeCluster::builder().crds(crds));
            let cluster = builder.clock(clock).build();
            cluster
                .map(|cluster| cluster.snapshot())
                .map_err(|error| in_words(&error))
        });
        beginning.clone()
    }

    fn constants(&self) -> Result<&Constants, String> {
        let beginning = self.beginning()?;
        let make = || Constants::of(&beginning, &self.parts.ignored);
        Ok(self.made.constants.get_or_init(make))
    }

    fn cluster(&self) -> Result<FakeCluster, String> {
        let beginning = self.beginning()?;
        let clock = Arc::new(TokioClock::starting_at(beginning_of_time()));
        // Turning CRDs into JSON takes longer than many a whole run.
        let builder = (self.parts.settings)(FakeCluster::builder());
        let builder = builder.again(beginning).clock(clock);
        let cluster = builder.build().map_err(|error| in_words(&error))?;
        (self.parts.prepare)(&cluster);
        Ok(cluster)
    }

    fn participants(&self, faults: &Faults) -> Vec<Participant> {
        let mut all = Vec::new();
        for role in &self.parts.roles {
            for copy in 1..=role.replicas() {
                let name = match role.replicas() {
                    1 => role.name().to_owned(),
                    _ => format!("{}-{copy}", role.name()),
                };
                let process = if self.parts.is_one_process {
                    copy
                } else {
                    all.len()
                };
                let layer = faults.layer(name.clone());
                all.push(Participant::new(name, process, Arc::clone(role), layer));
            }
        }
        all
    }

    async fn play(&self, plan: Plan, seed: u64) -> Result<Run, String> {
        let cluster = self.cluster()?;
        let faults = Faults::with_lateness(plan.clone(), None);
        for resource in &self.parts.spared {
            faults.spare_all(resource);
        }
        let rules = Arc::new((self.parts.rules)());
        let engine = Engine::new(
            cluster.clone(),
            faults.clone(),
            self.participants(&faults),
            Cast::new(
                &cluster,
                (self.parts.actors)(),
                &rules,
                Arc::clone(&self.made.discovered),
            ),
            Observer::new(&cluster, self.parts.invariants.clone()),
            self.parts.limits,
            seed,
        );
        let world = World {
            engine: Arc::new(tokio::sync::Mutex::new(engine)),
            client: cluster.client(),
            cluster: cluster.clone(),
            rules,
        };
        let engine = Arc::clone(&world.engine);
        let scenario = AssertUnwindSafe((self.parts.scenario)(world)).catch_unwind();
        let ended = scenario.await;
        let mut engine = engine.lock().await;
        match ended {
            Ok(Ok(())) => self.finish(&mut engine).await,
            Ok(Err(ScenarioError::Unsettled(why))) => engine.violate(Rule::Settles, why),
            Ok(Err(error)) => {
                engine.violate(Rule::Scenario, format!("the scenario stops: {error}"));
            }
            Err(panic) => {
                let text = super::panic_message(&*panic);
                engine.violate(Rule::Scenario, format!("the scenario panics: {text}"));
            }
        }
        cluster.shut_down();
        let states = std::mem::take(&mut engine.states);
        let constants = self.constants()?;
        let essences = states
            .iter()
            .map(|state| essence(state, &self.parts.ignored, constants));
        Ok(Run {
            plan,
            seed,
            trace: std::mem::take(&mut engine.trace),
            requests: std::mem::take(&mut engine.requests),
            injected: faults.injected(),
            violations: std::mem::take(&mut engine.violations),
            lives: if self.parts.is_uncounted {
                BTreeMap::new()
            } else {
                std::mem::take(&mut engine.observer.lives)
            },
            essences: essences.collect(),
            history: Arc::clone(&self.parts.history),
            disturbed: std::mem::take(&mut engine.observer.disturbed),
            states,
            revision: cluster.server().store().revision(),
            is_settled: engine.is_settled,
            elapsed: engine.elapsed(),
        })
    }

    /// What is checked at rest.
    async fn finish(&self, engine: &mut Engine) {
        if let Err(why) = engine.settle().await {
            engine.violate(Rule::Settles, why);
            return;
        }
        for line in orphans(&engine.cluster.snapshot()) {
            engine.violate(Rule::Orphan, line);
        }
        for line in engine.faults.unfired() {
            let text = format!("{line} never happened: no request was fit for it");
            engine.violate(Rule::Unfired, text);
        }
        // Faults are for the way there.
        engine.faults.disarm();
        let sent = engine.requests.len();
        engine.written.clear();
        let looked = engine.second_pass().await;
        self.looked(engine, looked, sent, "a second look");
        // Who looks again may remember that nothing was to be done.
        let looked = engine.fresh_pass().await;
        self.looked(engine, looked, sent, "controllers that start anew");
    }

    /// What is asked of a look at a settled world; the requests from `sent` on are
    /// those of the look, and forgotten.
    fn looked(&self, engine: &mut Engine, ended: Result<(), String>, sent: usize, by: &str) {
        if let Err(why) = ended {
            engine.violate(Rule::Settles, format!("by {by}, {why}"));
        }
        for line in std::mem::take(&mut engine.written) {
            let text = format!("the settled world is changed by {by}: {line}");
            engine.violate(Rule::SecondPass, text);
        }
        let again = engine.requests.split_off(sent);
        if self.parts.forbids_noop_writes {
            for call in again.iter().filter(|call| call.is_write()) {
                let who = &call.participant;
                let text = format!("{who} writes to a settled world, by {by}: {call}");
                engine.violate(Rule::SecondPass, text);
            }
        }
    }
}

fn beginning_of_time() -> Timestamp {
    Timestamp::from_second(BEGINNING).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn in_words(error: &BuildError) -> String {
    format!("the cluster cannot be built: {error}")
}
