//! One watch for each namespace in which the account may read a kind, where it may not
//! in all of them; all of these fill one cache.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::{
    StreamExt as _,
    stream::{BoxStream, SelectAll, unfold},
};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kite_cluster::{Lenient, Object, ObjectKey};
use kube::{Api, Client, ResourceExt as _, core::NamespaceResourceScope, runtime::watcher};
use rand::RngExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{BLIND, Events, Failing, Feed, all_read, is_forbidden, is_unreadable};
use crate::{
    cache::{reach::Place, retry::Retry},
    health::Health,
};

/// First lists that are asked for at a time: at a start there is one for each user.
const AT_ONCE: usize = 16;
/// Seconds after which the API server ends a watch, so that another one begins: up to
/// what kube's client allows, and not of all in one moment.
const RENEWED: std::ops::Range<u32> = 240..290;

/// Where a kind is watched that is not watched everywhere.
pub(super) struct Given<K> {
    places: watch::Receiver<BTreeSet<Place>>,
    /// Whether what tells of these was listed, or could not be.
    tried: watch::Receiver<bool>,
    open: Open<K>,
}

/// Begins a watch in a namespace; the last says whether each object is read by itself.
type Open<K> = fn(Client, &str, watcher::Config, bool) -> Events<K>;

fn open<K: Object<Scope = NamespaceResourceScope>>(
    client: Client,
    namespace: &str,
    config: watcher::Config,
    is_lenient: bool,
) -> Events<K> {
    if is_lenient {
        let api = Api::<Lenient<K>>::namespaced(client, namespace);
        watcher(api, config).boxed()
    } else {
        let api = Api::<K>::namespaced(client, namespace);
        let events = watcher(api, config);
        events.map(|event| event.map(all_read)).boxed()
    }
}

impl<P: crate::kinds::Kinds> super::Watches<P> {
    /// Watches kind `K`, if it is watched at all, only in namespaces with a `RoleBinding`
    /// of the name `role`, which gives the right to, and beside them these objects, whose
    /// own namespaces are not among those.
    pub fn confine<K: Object<Scope = NamespaceResourceScope>>(
        &mut self,
        role: &str,
        beside: impl IntoIterator<Item = ObjectKey>,
    ) {
        if !self.has::<K>() {
            return;
        }
        let beside: BTreeSet<_> = beside.into_iter().map(Place::Object).collect();
        let apart = beside.iter().map(|it| it.namespace().to_owned());
        let apart: BTreeSet<String> = apart.collect();
        let places = watch::Sender::new(beside);
        let given = Given {
            places: places.subscribe(),
            tried: self.feed::<RoleBinding>().tried.subscribe(),
            open: open::<K>,
        };
        let role = role.to_owned();
        self.listen::<RoleBinding>(move |binding| {
            let namespace = binding.namespace().unwrap_or_default();
            if binding.name_any() == role && !apart.contains(&namespace) {
                let is_leaving = binding.metadata.deletion_timestamp.is_some();
                follow_binding(&places, namespace, is_leaving);
            }
        });
        let feed = self.feed::<K>();
        feed.writer.confine();
        feed.given = Some(given);
    }
}

/// Takes in that a binding is there, or is going.
fn follow_binding(places: &watch::Sender<BTreeSet<Place>>, namespace: String, is_leaving: bool) {
    let place = Place::Namespace(namespace);
    places.send_if_modified(|places| {
        if is_leaving {
            places.remove(&place)
        } else {
            places.insert(place)
        }
    });
}

/// A place that is watched.
struct Watched<K> {
    stop: CancellationToken,
    /// What the list that is coming in has so far.
    coming: Vec<Lenient<K>>,
    /// Whether a list was complete already.
    is_listed: bool,
    /// Since when it is refused for want of a right, and whether that was told.
    refused: Option<(Instant, bool)>,
}

/// How long a place may be refused before it is worth a word: a right that is just being
/// given, or goes with its namespace, is there or not wanted any more by then.
const REFUSED_FOR: Duration = Duration::from_secs(60);

impl<K> Watched<K> {
    /// Takes in that the right is missing: whether that is to be told now. It is told once.
    fn is_refusal_to_tell(&mut self) -> bool {
        let (since, is_told) = self.refused.get_or_insert((Instant::now(), false));
        let is_to_tell = !*is_told && since.elapsed() >= REFUSED_FOR;
        *is_told |= is_to_tell;
        is_to_tell
    }
}

/// What came of a watch.
enum Told<K> {
    Event(watcher::Event<Lenient<K>>),
    /// `is_lost`: what is known may be older than anybody believes.
    Failed {
        error: watcher::Error,
        is_lost: bool,
    },
}

type AllTold<K> = SelectAll<BoxStream<'static, (Place, Told<K>)>>;

impl<K: Object> Feed<K> {
    /// Follows the watches of all places until `shutdown`.
    pub(super) async fn follow_places(
        &mut self,
        mut given: Given<K>,
        health: &Health,
        shutdown: &CancellationToken,
    ) {
        let are_known = async {
            // Without a sender nobody tells of places.
            let _ = given.tried.wait_for(|tried| *tried).await;
        };
        tokio::select! {
            () = are_known => {}
            () = shutdown.cancelled() => return,
        }
        let lists = Arc::new(Semaphore::new(AT_ONCE));
        let (mut watched, mut told) = (HashMap::new(), AllTold::new());
        let wanted = given.places.borrow_and_update().clone();
        self.move_to(&wanted, &given, &lists, &mut watched, &mut told);
        let mut untried: Option<HashSet<Place>> = Some(wanted.into_iter().collect());
        loop {
            if untried.as_ref().is_some_and(HashSet::is_empty) {
                untried = None;
                self.begin(&watched, health);
            }
            tokio::select! {
                changed = given.places.changed() => {
                    if changed.is_err() {
                        // Whoever told of places has ended, and so does all of this.
                        shutdown.cancelled().await;
                        return;
                    }
                    let wanted = given.places.borrow_and_update().clone();
                    self.move_to(&wanted, &given, &lists, &mut watched, &mut told);
                    match &mut untried {
                        Some(untried) => untried.retain(|place| wanted.contains(place)),
                        // What could not be watched is not to be watched any more.
                        None if !wanted.iter().any(is_namespace) => health.watching::<K>(),
                        None => {}
                    }
                }
                Some((place, what)) = told.next() => {
                    let is_tried = matches!(
                        what,
                        Told::Failed { .. } | Told::Event(watcher::Event::InitDone)
                    );
                    if let Some(watched) = watched.get_mut(&place) {
                        self.hear(&place, watched, what, health);
                    }
                    if let Some(untried) = untried.as_mut().filter(|_| is_tried) {
                        untried.remove(&place);
                    }
                }
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// The first lists are complete, or failed: reads are answered from them.
    fn begin(&self, watched: &HashMap<Place, Watched<K>>, health: &Health) {
        self.writer.begin();
        if self.writer.knows_any_namespace() || !watched.keys().any(is_namespace) {
            health.watching::<K>();
        }
        self.tried.send_replace(true);
    }

    /// Begins the watches that are wanted, and ends those that are not.
    fn move_to(
        &mut self,
        wanted: &BTreeSet<Place>,
        given: &Given<K>,
        lists: &Arc<Semaphore>,
        watched: &mut HashMap<Place, Watched<K>>,
        told: &mut AllTold<K>,
    ) {
        self.writer.want(wanted.len());
        let left: Vec<_> = watched
            .keys()
            .filter(|place| !wanted.contains(*place))
            .cloned()
            .collect();
        for place in left {
            if let Some(watched) = watched.remove(&place) {
                watched.stop.cancel();
            }
            self.change(|writer, tell| writer.leave(&place, tell));
            tracing::debug!(kind = %K::kind(&()), ?place, "not watched any more");
        }
        for place in wanted {
            if watched.contains_key(place) {
                continue;
            }
            let attempt = Attempt {
                client: self.client.clone(),
                config: config(&self.options.config, place),
                open: given.open,
                namespace: place.namespace().to_owned(),
                is_lenient: false,
                events: None,
                retry: Retry::default(),
                wait: None,
                failing: Failing::default(),
                lists: Arc::clone(lists),
                listing: None,
            };
            let stop = CancellationToken::new();
            let of = place.clone();
            let all = unfold(attempt, |mut attempt| async move {
                let what = attempt.next().await?;
                Some((what, attempt))
            });
            let all = all.take_until(stop.clone().cancelled_owned());
            told.push(all.map(move |what| (of.clone(), what)).boxed());
            let new = Watched {
                stop,
                coming: Vec::new(),
                is_listed: false,
                refused: None,
            };
            watched.insert(place.clone(), new);
        }
    }

    fn hear(&mut self, place: &Place, watched: &mut Watched<K>, what: Told<K>, health: &Health) {
        let event = match what {
            Told::Event(event) => event,
            Told::Failed { error, is_lost } => {
                return self.failed(place, watched, &error, is_lost, health);
            }
        };
        match event {
            watcher::Event::Init => watched.coming.clear(),
            watcher::Event::InitApply(object) => watched.coming.push(object),
            watcher::Event::InitDone => {
                let listed = std::mem::take(&mut watched.coming);
                let is_first = !std::mem::replace(&mut watched.is_listed, true);
                watched.refused = None;
                self.change(|writer, tell| writer.list_in(place, listed, is_first, tell));
                if is_namespace(place) {
                    health.watching::<K>();
                }
            }
            event @ (watcher::Event::Apply(_) | watcher::Event::Delete(_)) => self.take_in(event),
        }
    }

    /// Where one namespace of several cannot be watched, what is there is read by
    /// requests; where none can, it is told.
    fn failed(
        &self,
        place: &Place,
        watched: &mut Watched<K>,
        error: &watcher::Error,
        is_lost: bool,
        health: &Health,
    ) {
        let kind = K::kind(&());
        let was_known = self.writer.knows(place);
        if is_lost {
            self.writer.lost_in(place);
        }
        if is_forbidden(error) && !was_known && watched.is_refusal_to_tell() {
            tracing::warn!(
                %kind, ?place, %error,
                "may not be watched for more than a minute, so that each look at it there is a \
                 request that is refused: see whether the RoleBinding there names the controller's \
                 account and its role is there"
            );
        } else if is_forbidden(error) && !was_known {
            // The right has just been given, or just been taken with its namespace.
            tracing::debug!(%kind, ?place, %error, "may not be watched, will be tried again");
        } else {
            tracing::warn!(%kind, ?place, %error, "watch failed, will be tried again");
        }
        if !is_namespace(place) || self.writer.knows_any_namespace() {
            return;
        }
        if is_forbidden(error) {
            health.forbidden::<K>(error);
        } else {
            health.failing::<K>(error);
        }
    }
}

fn is_namespace(place: &Place) -> bool {
    matches!(place, Place::Namespace(_))
}

/// How a place is watched. One object is selected by its name and nothing else: so it
/// is asked for by its name, as rights see it.
fn config(all: &watcher::Config, place: &Place) -> watcher::Config {
    let config = all.clone().timeout(rand::rng().random_range(RENEWED));
    match place {
        Place::Namespace(_) => config,
        Place::Object(key) => config.fields(&format!("metadata.name={}", key.name)),
    }
}

/// The watch of a place, begun again whenever it fails.
struct Attempt<K> {
    client: Client,
    config: watcher::Config,
    open: Open<K>,
    namespace: String,
    /// Whether each object is read by itself, since one of them cannot be.
    is_lenient: bool,
    /// None where it is to be begun anew.
    events: Option<Events<K>>,
    retry: Retry,
    /// How long nothing is asked, since it has just failed.
    wait: Option<Duration>,
    failing: Failing,
    lists: Arc<Semaphore>,
    /// Held while a list comes in.
    listing: Option<OwnedSemaphorePermit>,
}

impl<K: Object> Attempt<K> {
    /// What comes next. Kube's watches never end.
    async fn next(&mut self) -> Option<Told<K>> {
        if let Some(wait) = self.wait.take() {
            sleep(wait).await;
        }
        if self.events.is_none() {
            self.listing = Arc::clone(&self.lists).acquire_owned().await.ok();
        }
        let events = self.events.get_or_insert_with(|| {
            let (client, config) = (self.client.clone(), self.config.clone());
            (self.open)(client, &self.namespace, config, self.is_lenient)
        });
        match events.next().await? {
            Ok(event) => {
                // Before each list it says that it begins.
                if !matches!(event, watcher::Event::Init) {
                    self.failing = Failing::default();
                }
                if matches!(event, watcher::Event::InitDone) {
                    self.listing = None;
                }
                Some(Told::Event(event))
            }
            Err(error) => Some(self.failed(error)),
        }
    }

    fn failed(&mut self, error: watcher::Error) -> Told<K> {
        self.listing = None;
        self.wait = Some(self.retry.after(false));
        let has_no_list = matches!(error, watcher::Error::InitialListFailed(_));
        let is_lost = self.failing.again(&error) >= BLIND || has_no_list;
        if is_unreadable(&error) {
            // Which object it is shows when each is read by itself.
            self.is_lenient = true;
            self.events = None;
        } else if is_lost {
            // Only a list tells for certain that all is known again.
            self.events = None;
        }
        Told::Failed { error, is_lost }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_place_that_stays_refused_is_told_of_once() {
        let mut watched = Watched::<Secret> {
            stop: CancellationToken::new(),
            coming: Vec::new(),
            is_listed: false,
            refused: None,
        };
        assert!(!watched.is_refusal_to_tell());
        tokio::time::advance(REFUSED_FOR / 2).await;
        assert!(!watched.is_refusal_to_tell());
        tokio::time::advance(REFUSED_FOR / 2).await;
        assert!(watched.is_refusal_to_tell());
        tokio::time::advance(REFUSED_FOR).await;
        assert!(!watched.is_refusal_to_tell());
    }
}
