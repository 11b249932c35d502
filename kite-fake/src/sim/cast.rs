//! The actors of a simulation: the rest of the cluster, one step at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube::Client;
use kube::api::DynamicObject;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::due::{Due, Why, backoff};
use crate::FakeCluster;
use crate::actors::kind::CRD;
use crate::actors::loose::Loose;
use crate::actors::mirror::{Mirror, Mirrors};
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

/// All actors. They hear of everything at once, straight from the store, and read
/// what they watch as it is: they are what is simulated around the participants,
/// not what is tried.
pub(super) struct Cast {
    players: Vec<Player>,
    cluster: FakeCluster,
    client: Client,
    catalog: Catalog,
    /// What another cast has discovered that began with the same cluster.
    discovered: Arc<OnceLock<Catalog>>,
    /// The revision that the cluster began with.
    beginning: u64,
    kinds: Vec<Kind>,
    known: BTreeSet<Kind>,
    mirrors: Mirrors,
    /// The revision up to which everything was read.
    read: u64,
    /// What was read and not heard, with its revisions.
    news: Vec<(u64, Change)>,
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
        discovered: Arc<OnceLock<Catalog>>,
    ) -> Self {
        let client = cluster.control_plane_client();
        let catalog = Catalog::default();
        let mirrors = Mirrors::default();
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
                context: context.mirrored(Arc::clone(&mirrors)),
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
            discovered,
            beginning: cluster.server().store().revision(),
            kinds: Vec::new(),
            known: BTreeSet::new(),
            mirrors,
            read: 0,
            news: Vec::new(),
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
        self.read();
        let mut news = self.take_news();
        if news.iter().any(|change| change.kind == CRD) {
            self.discover().await?;
            self.read();
            news.extend(self.take_news());
        }
        self.heard = self.read;
        let now = Instant::now();
        for change in news {
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

    /// What was read since the last call, in the order in which it happened.
    fn take_news(&mut self) -> Vec<Change> {
        let mut news = std::mem::take(&mut self.news);
        news.sort_by_key(|(revision, _)| *revision);
        news.into_iter().map(|(_, change)| change).collect()
    }

    async fn discover(&mut self) -> Result<(), kube::Error> {
        let is_as_it_began = self.is_as_it_began();
        match self.discovered.get() {
            Some(known) if is_as_it_began => self.catalog.set(known),
            _ => self.catalog.refresh(&self.client).await?,
        }
        if is_as_it_began {
            self.discovered.get_or_init(|| self.catalog.copy());
        }
        let there = self.catalog.kinds(&["list", "watch"]);
        let players = &self.players;
        let is_wanted = |kind: &Kind| {
            *kind == CRD || players.iter().any(|player| player.watches.contains(kind))
        };
        self.kinds = there.into_iter().filter(is_wanted).collect();
        let kinds = &self.kinds;
        self.mirrors.lock().retain(|kind, _| kinds.contains(kind));
        Ok(())
    }

    /// Whether the cluster serves the same kinds as at the beginning.
    fn is_as_it_began(&self) -> bool {
        let server = self.cluster.server();
        let serve = [
            ("apiextensions.k8s.io", "customresourcedefinitions"),
            ("apiregistration.k8s.io", "apiservices"),
        ];
        serve.into_iter().all(|(group, plural)| {
            let resource = GroupResource::new(group, plural);
            let since = server.store().events_since(&resource, self.beginning);
            since.is_ok_and(|mut events| events.next().is_none())
        })
    }

    /// Reads what happened since the last call.
    fn read(&mut self) {
        let server = self.cluster.server();
        let store = server.store();
        if store.revision() == self.read && self.kinds.iter().all(|it| self.known.contains(it)) {
            return;
        }
        let mut mirrors = self.mirrors.lock();
        for kind in &self.kinds {
            let resource = GroupResource::new(kind.group.clone(), kind.plural.clone());
            let typed = |object: &store::Object| {
                let object = serde_json::from_slice::<Loose>(&object.json()).ok()?;
                Some(Arc::new(object.0))
            };
            let change = |object: Arc<DynamicObject>, gone| Change {
                kind: kind.clone(),
                object,
                gone,
            };
            if self.known.insert(kind.clone()) {
                let mut mirror = Mirror::default();
                mirror.begin();
                for (_, object) in store.range(&resource, None, None) {
                    let Some(found) = typed(object) else { continue };
                    let change = change(found, false);
                    mirror.show(&change.key(), &change.object);
                    self.news.push((object.revision(), change));
                }
                mirror.end();
                mirrors.insert(kind.clone(), Arc::new(Mutex::new(mirror)));
                continue;
            }
            // Only a restored state or a very short history leaves a gap.
            let Ok(events) = store.events_since(&resource, self.read) else {
                self.unheard.push(format!(
                    "the actors did not hear what became of {} after revision {}: it is \
                     forgotten (a state was restored, or the history is too short)",
                    crate::status::qualified(&kind.group, &kind.plural),
                    self.read
                ));
                mirrors.remove(kind);
                continue;
            };
            for event in events {
                let Some(found) = typed(&event.object) else {
                    continue;
                };
                let change = change(found, event.change == store::Change::Deleted);
                if let Some(mirror) = mirrors.get(kind) {
                    let mut mirror = mirror.lock();
                    if change.gone {
                        mirror.hide(&change.key(), &change.object);
                    } else {
                        mirror.show(&change.key(), &change.object);
                    }
                }
                self.news.push((event.revision, change));
            }
        }
        self.read = store.revision();
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
        // What it reads is no older than what requests would show.
        self.read();
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
