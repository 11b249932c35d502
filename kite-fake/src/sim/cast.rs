//! The actors of a simulation: the rest of the cluster, one step at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::DynamicObject;
use tokio::sync::watch;
use tokio::time::Instant;

use super::due::{Due, Why, backoff};
use crate::FakeCluster;
use crate::actors::kind::CRD;
use crate::actors::{Actor, Catalog, Change, Context, Key, Kind, Next, Rules, Watches};
use crate::store::{self, GroupResource};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

struct Player {
    actor: Arc<dyn Actor>,
    watches: Watches,
    context: Context,
    due: Due<Key>,
    failures: BTreeMap<Key, (u32, String)>,
    held: BTreeSet<Key>,
}

/// All actors. They hear of everything at once, straight from the store: they
/// are what is simulated around the participants, not what is tried.
pub(super) struct Cast {
    players: Vec<Player>,
    cluster: FakeCluster,
    client: Client,
    catalog: Catalog,
    kinds: Vec<Kind>,
    known: BTreeSet<Kind>,
    /// The revision up to which everything was heard.
    heard: u64,
    rules: watch::Receiver<u64>,
    /// Gaps in what was heard, in words.
    pub(super) unheard: Vec<String>,
}

impl Cast {
    pub(super) fn new(
        cluster: &FakeCluster,
        actors: Vec<Arc<dyn Actor>>,
        rules: &Arc<Rules>,
    ) -> Self {
        let client = cluster.client();
        let catalog = Catalog::default();
        let now = Instant::now();
        let players = actors.into_iter().map(|actor| {
            let clock = Arc::clone(cluster.clock());
            let context = Context::new(client.clone(), clock, Arc::clone(rules), catalog.clone());
            let mut due = Due::default();
            for key in actor.initial_keys() {
                due.push(key, now, Why::Change);
            }
            Player {
                watches: actor.watches(),
                actor,
                context,
                due,
                failures: BTreeMap::new(),
                held: BTreeSet::new(),
            }
        });
        Self {
            players: players.collect(),
            cluster: cluster.clone(),
            client,
            catalog,
            kinds: Vec::new(),
            known: BTreeSet::new(),
            heard: 0,
            rules: rules.changes(),
            unheard: Vec::new(),
        }
    }

    /// Whether something happened that was not heard of yet.
    pub(super) fn is_waiting(&self) -> bool {
        !self.players.is_empty() && self.cluster.server().store().revision() > self.heard
    }

    /// Hears of all that happened.
    pub(super) async fn hear(&mut self) -> Result<(), kube::Error> {
        if self.kinds.is_empty() {
            self.discover().await?;
        }
        let mut changes = self.changes();
        if changes.iter().any(|change| change.kind == CRD) {
            self.discover().await?;
            changes.extend(self.changes());
        }
        let now = Instant::now();
        for change in changes {
            for player in &mut self.players {
                if !player.watches.contains(&change.kind) {
                    continue;
                }
                for key in player.actor.keys(&change) {
                    player.held.remove(&key);
                    player.due.push(key, now, Why::Change);
                }
            }
        }
        Ok(())
    }

    async fn discover(&mut self) -> Result<(), kube::Error> {
        self.catalog.refresh(&self.client).await?;
        let there = self.catalog.kinds(&["list", "watch"]);
        let players = &self.players;
        let is_wanted = |kind: &Kind| {
            *kind == CRD || players.iter().any(|player| player.watches.contains(kind))
        };
        self.kinds = there.into_iter().filter(is_wanted).collect();
        Ok(())
    }

    /// What happened since the last call, in the order in which it happened.
    fn changes(&mut self) -> Vec<Change> {
        let server = self.cluster.server();
        let store = server.store();
        let mut changes: Vec<(u64, Change)> = Vec::new();
        for kind in &self.kinds {
            let resource = GroupResource::new(kind.group.clone(), kind.plural.clone());
            let change = |object: &store::Object, gone| {
                let object = serde_json::from_value::<DynamicObject>(object.to_value()).ok()?;
                Some(Change {
                    kind: kind.clone(),
                    object: Arc::new(object),
                    gone,
                })
            };
            if self.known.insert(kind.clone()) {
                let there = store.range(&resource, None, None);
                changes.extend(
                    there.filter_map(|(_, object)| {
                        Some((object.revision(), change(object, false)?))
                    }),
                );
                continue;
            }
            // Only a restored state or a very short history leaves a gap.
            let Ok(events) = store.events_since(&resource, self.heard) else {
                self.unheard.push(format!(
                    "the actors did not hear what became of {} after revision {}: it is \
                     forgotten (a state was restored, or the history is too short)",
                    crate::status::qualified(&kind.group, &kind.plural),
                    self.heard
                ));
                continue;
            };
            changes.extend(events.filter_map(|event| {
                let gone = event.change == store::Change::Deleted;
                Some((event.revision, change(&event.object, gone)?))
            }));
        }
        self.heard = store.revision();
        changes.sort_by_key(|(revision, _)| *revision);
        changes.into_iter().map(|(_, change)| change).collect()
    }

    /// What is due now: an actor's number and a key.
    pub(super) fn due(&mut self, now: Instant) -> Vec<(usize, Key)> {
        if self.rules.has_changed().unwrap_or(false) {
            self.rules.borrow_and_update();
            for player in &mut self.players {
                for key in std::mem::take(&mut player.held) {
                    player.due.push(key, now, Why::Change);
                }
                player.due.hurry(now);
            }
        }
        let players = self.players.iter().enumerate();
        players
            .flat_map(|(at, player)| player.due.now(now).map(move |key| (at, key.clone())))
            .collect()
    }

    pub(super) fn name(&self, player: usize) -> &'static str {
        self.players.get(player).map_or("", |p| p.actor.name())
    }

    /// Has an actor reconcile a key, to its end.
    pub(super) async fn play(&mut self, player: usize, key: Key) -> Result<(), String> {
        let Some(player) = self.players.get_mut(player) else {
            return Ok(());
        };
        player.due.remove(&key);
        let result = player.actor.reconcile(&player.context, &key).await;
        let now = Instant::now();
        match result {
            Ok(next) => {
                player.failures.remove(&key);
                match next {
                    Next::Done => {}
                    Next::After(pause) => player.due.push(key, now + pause, Why::Change),
                    Next::Later(pause) => player.due.push(key, now + pause, Why::Routine),
                    Next::Held => drop(player.held.insert(key)),
                }
                Ok(())
            }
            Err(error) => {
                let text = error.to_string();
                let (count, last) = player.failures.entry(key.clone()).or_default();
                *count += 1;
                last.clone_from(&text);
                let pause = backoff(*count, FIRST_PAUSE, LONGEST_PAUSE);
                player.due.push(key, now + pause, Why::Retry);
                Err(text)
            }
        }
    }

    /// All that waits for its time.
    pub(super) fn timers(&self) -> impl Iterator<Item = (Instant, Why)> {
        let players = self.players.iter();
        players.flat_map(|p| p.due.iter().map(|(_, entry)| (entry.at, entry.why)))
    }

    /// Who is still busy, in words.
    pub(super) fn busy(&self) -> Vec<String> {
        let players = self.players.iter();
        players
            .flat_map(|player| {
                player.due.iter().map(|(key, _)| {
                    let name = player.actor.name();
                    match player.failures.get(key) {
                        Some((count, error)) => {
                            format!("{name}: {key} failed {count} times, last: {error}")
                        }
                        None => format!("{name}: {key} is due"),
                    }
                })
            })
            .collect()
    }
}
