//! Caches between a plain cluster and a watch that is moved by hand.
#![allow(clippy::unwrap_used)]

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kite_cluster::{Cluster as _, ClusterExt as _, FieldManager, KubeCluster, Listed, NotLeader};
use kite_fake::FakeCluster;
use kube::{
    Client, ResourceExt,
    api::{ListParams, PropagationPolicy},
    client::Body,
    runtime::watcher::Event,
};
use parking_lot::Mutex;
use tower::{BoxError, ServiceExt as _, service_fn};

use super::*;
use crate::cache::reading::noted;

pub(super) const ME: FieldManager = FieldManager::new("me");

/// A cluster, and a cache of its `ConfigMaps` that hears what it is told.
pub(super) struct Lagging {
    pub(super) fake: FakeCluster,
    pub(super) plain: KubeCluster,
    pub(super) cached: CachedCluster<KubeCluster>,
    pub(super) writer: CacheWriter<ConfigMap>,
    /// What becomes of the next writes.
    pub(super) next: Arc<Mutex<Fate>>,
}

/// What becomes of a write.
#[derive(Clone, Copy, Default)]
pub(super) enum Fate {
    #[default]
    Answered,
    /// It is carried out, and nobody hears of that.
    Lost,
    NotLeader(NotLeader),
}

/// A client of `fake` of whose writes this becomes.
fn fateful(fake: &FakeCluster, next: &Arc<Mutex<Fate>>) -> Client {
    let (service, next) = (fake.service(), Arc::clone(next));
    let service = service_fn(move |request: Request<Body>| {
        let is_read = request.method() == http::Method::GET;
        let (service, next) = (service.clone(), *next.lock());
        async move {
            if let (Fate::NotLeader(why), false) = (next, is_read) {
                return Err(BoxError::from(why));
            }
            let answer = service.oneshot(request).await.map_err(BoxError::from);
            if matches!(next, Fate::Lost) && !is_read {
                return Err(BoxError::from("connection reset"));
            }
            answer
        }
    });
    Client::new(service, "default")
}

impl Lagging {
    fn new() -> Self {
        let fake = FakeCluster::builder().build().unwrap();
        let plain = KubeCluster::new(fake.client());
        let mut builder = Caches::builder();
        let writer = builder.packed(Some(Indexers::NAMESPACE), |_| {});
        let next = Arc::default();
        let inner = KubeCluster::new(fateful(&fake, &next));
        let cached = CachedCluster::new(inner, builder.build());
        Self {
            fake,
            plain,
            cached,
            writer,
            next,
        }
    }

    /// A cache whose first list is complete and empty.
    pub(super) fn filled() -> Self {
        let mut it = Self::new();
        it.lists(Vec::new());
        it
    }

    pub(super) fn lists(&mut self, objects: Vec<ConfigMap>) -> Vec<String> {
        let mut touched = Vec::new();
        let events = objects.into_iter().map(Event::InitApply);
        for event in [Event::Init]
            .into_iter()
            .chain(events)
            .chain([Event::InitDone])
        {
            self.writer
                .apply(event, |object| touched.push(object.name_any()));
        }
        touched.sort();
        touched
    }

    pub(super) fn hears(&mut self, event: Event<ConfigMap>) {
        self.writer.apply(event, |_| {});
    }

    /// The labels of each object that is told of when this is heard.
    fn told(&mut self, event: Event<ConfigMap>) -> Vec<usize> {
        let mut told = Vec::new();
        self.writer
            .apply(event, |object| told.push(object.labels().len()));
        told
    }

    pub(super) async fn seen(&self, name: &str) -> Option<String> {
        let found = self.cached.get_opt::<ConfigMap>(&key(name)).await.unwrap();
        found.and_then(|map| map.data?.get("value").cloned())
    }

    /// Names in the list, and how many requests all of it took.
    pub(super) async fn listed(&self) -> Vec<String> {
        let all = ListParams::default();
        let namespace = Some("default".to_owned());
        let found = self
            .cached
            .list::<ConfigMap>(namespace, &all)
            .await
            .unwrap();
        found.items.iter().map(ResourceExt::name_any).collect()
    }

    /// How many requests `work` takes.
    pub(super) async fn requests<T>(&self, work: impl Future<Output = T>) -> (T, usize) {
        let mark = self.fake.log().mark();
        let done = work.await;
        (done, self.fake.log().since(&mark).entries.len())
    }
}

pub(super) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

pub(super) fn map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap {
        data: Some([("value".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    };
    map.metadata.name = Some(name.to_owned());
    map.metadata.namespace = Some("default".to_owned());
    map
}

#[tokio::test(start_paused = true)]
async fn before_the_first_list_is_complete_reads_are_requests() {
    let mut it = Lagging::new();
    it.plain.create(&map("a", "1")).await.unwrap();
    assert_eq!(it.requests(it.seen("a")).await, (Some("1".to_owned()), 1));
    assert_eq!(it.requests(it.listed()).await.1, 1);
    it.lists(Vec::new());
    assert_eq!(it.requests(it.seen("b")).await, (None, 0));
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_seen_though_the_watch_lags() {
    let mut it = Lagging::filled();
    let made = it.cached.apply(ME, &map("a", "1")).await.unwrap();
    let changed = it.cached.apply(ME, &map("a", "2")).await.unwrap();
    assert_eq!(it.requests(it.seen("a")).await, (Some("2".to_owned()), 0));
    assert_eq!(it.requests(it.listed()).await, (vec!["a".to_owned()], 0));
    it.hears(Event::Apply(made));
    assert_eq!(it.seen("a").await.as_deref(), Some("2"));
    it.hears(Event::Apply(changed));
    assert_eq!(it.seen("a").await.as_deref(), Some("2"));
    assert_eq!(it.cached.caches().remembered(), 0);
}

#[tokio::test(start_paused = true)]
async fn how_long_the_watch_is_behind_is_known() {
    let mut it = Lagging::filled();
    let behind = |it: &Lagging| it.cached.caches().stats()[0].longest_unshown.as_secs();
    // Busy: each version is shown when the next one is written already.
    let mut before = it.cached.apply(ME, &map("a", "0")).await.unwrap();
    for i in 1..100 {
        tokio::time::advance(Duration::from_secs(60)).await;
        let next = it
            .cached
            .apply(ME, &map("a", &i.to_string()))
            .await
            .unwrap();
        it.hears(Event::Apply(std::mem::replace(&mut before, next)));
        assert_eq!(behind(&it), 0);
    }
    // Behind, however often the API server says the same.
    for _ in 0..10 {
        tokio::time::advance(Duration::from_secs(180)).await;
        assert_eq!(it.seen("a").await.as_deref(), Some("99"));
    }
    assert_eq!(behind(&it), 1800);
    it.hears(Event::Apply(before.clone()));
    assert_eq!(behind(&it), 0);
    it.cached
        .delete_by_uid(&before, PropagationPolicy::Background)
        .await
        .unwrap();
    assert_eq!(it.seen("a").await, None);
    tokio::time::advance(Duration::from_secs(1800)).await;
    assert_eq!(behind(&it), 1800, "nor that it went");
    it.hears(Event::Delete(before));
    assert_eq!(behind(&it), 0);
}

#[tokio::test(start_paused = true)]
async fn what_others_deleted_before_the_watch_showed_our_write_is_gone() {
    let mut it = Lagging::filled();
    let made = it.cached.apply(ME, &map("a", "1")).await.unwrap();
    it.plain
        .delete_by_uid(&made, PropagationPolicy::Background)
        .await
        .unwrap();
    it.hears(Event::Apply(made.clone()));
    it.hears(Event::Delete(made));
    assert_eq!(it.requests(it.seen("a")).await, (None, 0));
    assert_eq!(it.cached.caches().remembered(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_lacks_what_was_written_is_doubted_after_a_while() {
    let mut it = Lagging::filled();
    let made = it.cached.apply(ME, &map("a", "1")).await.unwrap();
    it.lists(Vec::new());
    // The list may be older than the write.
    assert_eq!(it.requests(it.seen("a")).await, (Some("1".to_owned()), 0));
    it.plain
        .delete_by_uid(&made, PropagationPolicy::Background)
        .await
        .unwrap();
    tokio::time::sleep(PATIENCE * 2).await;
    assert_eq!(it.requests(it.seen("a")).await, (None, 1));
    assert_eq!(it.requests(it.seen("a")).await, (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_not_seen_again_in_an_old_store() {
    let mut it = Lagging::filled();
    let made = it.cached.apply(ME, &map("a", "1")).await.unwrap();
    it.hears(Event::Apply(made.clone()));
    it.cached
        .delete_by_uid(&made, PropagationPolicy::Background)
        .await
        .unwrap();
    // That nothing holds it was answered.
    assert_eq!(it.requests(it.seen("a")).await, (None, 0));
    assert_eq!(it.requests(it.listed()).await, (Vec::new(), 0));
    // Another of the same name is another.
    let again = it.plain.create(&map("a", "2")).await.unwrap();
    it.hears(Event::Apply(again));
    assert_eq!(it.requests(it.seen("a")).await, (Some("2".to_owned()), 0));
}

#[tokio::test(start_paused = true)]
async fn a_late_watch_does_not_bring_a_deleted_object_back() {
    let mut it = Lagging::filled();
    let made = it.cached.apply(ME, &map("a", "1")).await.unwrap();
    it.cached
        .delete_by_uid(&made, PropagationPolicy::Background)
        .await
        .unwrap();
    assert_eq!(it.seen("a").await, None);
    it.hears(Event::Apply(made));
    assert_eq!(it.requests(it.seen("a")).await, (None, 0));
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_write_the_api_server_is_asked() {
    let mut it = Lagging::filled();
    let made = it.cached.apply(ME, &map("a", "1")).await.unwrap();
    it.hears(Event::Apply(made));
    it.plain.apply(ME, &map("a", "2")).await.unwrap();
    let refused = it.cached.create(&map("a", "3")).await;
    assert_eq!(refused.unwrap_err().category(), "already_exists");
    assert_eq!(it.requests(it.seen("a")).await, (Some("2".to_owned()), 1));
    assert_eq!(it.requests(it.seen("a")).await, (Some("2".to_owned()), 0));
}

#[tokio::test(start_paused = true)]
async fn live_reads_pass_the_cache_by_and_correct_it() {
    let mut it = Lagging::filled();
    let made = it.plain.create(&map("a", "1")).await.unwrap();
    it.hears(Event::Apply(made));
    it.plain.apply(ME, &map("a", "2")).await.unwrap();
    assert_eq!(it.seen("a").await.as_deref(), Some("1"));
    assert_eq!(
        it.requests(uncached(it.seen("a"))).await,
        (Some("2".to_owned()), 1)
    );
    assert_eq!(it.requests(it.seen("a")).await, (Some("2".to_owned()), 0));
}

#[tokio::test(start_paused = true)]
async fn what_went_while_nobody_watched_is_told_at_the_end_of_a_list() {
    let mut it = Lagging::filled();
    let a = it.plain.create(&map("a", "1")).await.unwrap();
    let b = it.plain.create(&map("b", "1")).await.unwrap();
    assert_eq!(it.lists(vec![a, b.clone()]), ["a", "b"]);
    assert_eq!(it.lists(vec![b]), ["a", "b"]);
    assert_eq!(it.listed().await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn selectors_that_a_cache_cannot_judge_are_requests() {
    let mut it = Lagging::filled();
    let mut with_label = map("a", "1");
    with_label.metadata.labels = Some([("of".to_owned(), "x".to_owned())].into());
    let made = it.plain.create(&with_label).await.unwrap();
    it.hears(Event::Apply(made));
    for (selector, requests) in [("of=x", 0), ("of==x", 0), ("of in (x)", 1), ("of!=y", 1)] {
        let params = ListParams::default().labels(selector);
        let list = it.cached.list::<ConfigMap>(None, &params);
        let (found, asked) = it.requests(list).await;
        let names: Vec<_> = found
            .unwrap()
            .items
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        assert!(names.contains(&"a".to_owned()), "{selector}");
        assert_eq!(asked, requests, "{selector}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_the_watch_has_confirmed_can_be_checked_later() {
    let mut it = Lagging::filled();
    let made = it.cached.apply(ME, &map("a", "1")).await.unwrap();
    let (_, account) = noted(it.seen("a")).await;
    assert!(account.reads.is_none() && account.is_ahead);
    it.hears(Event::Apply(made));
    let (_, account) = noted(async { (it.seen("a").await, it.listed().await) }).await;
    let reads = account.reads.unwrap();
    let holds = || reads.iter().all(memo::Read::would_be_the_same);
    assert!(holds());
    it.cached.apply(ME, &map("a", "2")).await.unwrap();
    assert!(!holds());
    let (_, account) = noted(uncached(it.seen("a"))).await;
    assert!(account.reads.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_index_follows_the_objects() {
    let mut builder = Caches::builder();
    let indexers = Indexers::<ConfigMap> {
        functions: |map| {
            let value = map.data.iter().flatten().find(|(key, _)| *key == "value");
            value
                .map(|(_, value)| ("value", value.clone()))
                .into_iter()
                .collect()
        },
        ..Indexers::NAMESPACE
    };
    let mut writer = builder.writer(Some(indexers), |_| {});
    let caches = builder.build();
    let of = |value: &str| {
        let found = caches.by_index::<ConfigMap>("value", value).unwrap();
        found
            .into_iter()
            .map(|found| found.name)
            .collect::<Vec<_>>()
    };
    for event in [
        Event::Init,
        Event::InitApply(map("a", "1")),
        Event::InitApply(map("b", "1")),
        Event::InitDone,
    ] {
        writer.apply(event, |_| {});
    }
    assert_eq!(of("1"), ["a", "b"]);
    writer.apply(Event::Apply(map("a", "2")), |_| {});
    assert_eq!(
        (of("1"), of("2")),
        (vec!["b".to_owned()], vec!["a".to_owned()])
    );
    writer.apply(Event::Delete(map("b", "1")), |_| {});
    assert!(of("1").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_does_not_cover_a_newer_write() {
    let mut it = Lagging::filled();
    let old = it.cached.apply(ME, &map("a", "1")).await.unwrap();
    it.hears(Event::Apply(old.clone()));
    let caches = it.cached.caches().clone();
    let table = caches.table::<ConfigMap>().unwrap();
    let asked = table.mark();
    it.cached.apply(ME, &map("a", "2")).await.unwrap();
    // Answers to a read and to a list that were under way meanwhile.
    table.note(&old, asked);
    assert_eq!(it.requests(it.seen("a")).await, (Some("2".to_owned()), 0));
    let all = table::Query::of(Some("default"), &ListParams::default()).unwrap();
    table.note_all(&all, &Listed::of(vec![old]), asked);
    assert_eq!(it.requests(it.seen("a")).await, (Some("2".to_owned()), 0));
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_that_nothing_is_there_does_not_cover_a_newer_write() {
    let it = Lagging::filled();
    let caches = it.cached.caches().clone();
    let table = caches.table::<ConfigMap>().unwrap();
    let asked = table.mark();
    it.cached.create(&map("a", "1")).await.unwrap();
    table.note_absence(&key("a"), asked);
    assert_eq!(it.requests(it.seen("a")).await, (Some("1".to_owned()), 0));
    let all = table::Query::of(Some("default"), &ListParams::default()).unwrap();
    table.note_all(&all, &Listed::of(Vec::new()), asked);
    assert_eq!(it.requests(it.seen("a")).await, (Some("1".to_owned()), 0));
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_does_not_bring_back_what_was_shown_to_be_gone() {
    let mut it = Lagging::filled();
    let made = it.plain.create(&map("a", "1")).await.unwrap();
    let other = it.plain.create(&map("b", "1")).await.unwrap();
    it.hears(Event::Apply(made.clone()));
    it.hears(Event::Apply(other));
    let caches = it.cached.caches().clone();
    let table = caches.table::<ConfigMap>().unwrap();
    let asked = table.mark();
    let gone = it.plain.delete_by_uid(&made, PropagationPolicy::Background);
    gone.await.unwrap();
    it.hears(Event::Delete(made.clone()));
    table.note(&made, asked);
    assert_eq!(it.requests(it.seen("a")).await, (None, 1), "asked once");
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_that_nothing_is_there_does_not_hide_what_was_shown_since() {
    let mut it = Lagging::filled();
    let caches = it.cached.caches().clone();
    let table = caches.table::<ConfigMap>().unwrap();
    let asked = table.mark();
    let made = it.plain.create(&map("a", "1")).await.unwrap();
    it.hears(Event::Apply(made));
    table.note_absence(&key("a"), asked);
    assert_eq!(it.requests(it.seen("a")).await, (Some("1".to_owned()), 0));
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_does_not_end_a_doubt_that_is_younger() {
    let mut it = Lagging::filled();
    let old = it.cached.apply(ME, &map("a", "1")).await.unwrap();
    it.hears(Event::Apply(old.clone()));
    let caches = it.cached.caches().clone();
    let table = caches.table::<ConfigMap>().unwrap();
    let asked = table.mark();
    it.plain.apply(ME, &map("a", "2")).await.unwrap();
    table.doubt(key("a"), written::Doubt::Anything);
    table.note(&old, asked);
    assert_eq!(it.requests(it.seen("a")).await, (Some("2".to_owned()), 1));
}

/// With a label, to be found by.
pub(super) fn labelled(name: &str, of: &str) -> ConfigMap {
    let mut map = map(name, "1");
    map.metadata.labels = Some([("of".to_owned(), of.to_owned())].into());
    map
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_in_doubt_until_it_is_shown_and_only_where_it_matters() {
    let mut it = Lagging::filled();
    for name in ["a", "b"] {
        let made = it.plain.create(&labelled(name, name)).await.unwrap();
        it.hears(Event::Apply(made));
    }
    let a = it
        .plain
        .get_opt::<ConfigMap>(&key("a"))
        .await
        .unwrap()
        .unwrap();
    let list = async |it: &Lagging, of: &str| {
        let params = ListParams::default().labels(&format!("of={of}"));
        let list = it.cached.list::<ConfigMap>(None, &params);
        let (found, requests) = it.requests(list).await;
        (found.unwrap().items.len(), requests)
    };
    *it.next.lock() = Fate::Lost;
    let gone = PropagationPolicy::Background;
    it.cached.delete_by_uid(&a, gone.clone()).await.unwrap_err();
    assert_eq!(list(&it, "b").await, (1, 0), "it cannot be among these");
    assert_eq!(list(&it, "a").await, (0, 1), "asked once");
    assert_eq!(list(&it, "a").await, (0, 0), "and believed");
    let b = it
        .plain
        .get_opt::<ConfigMap>(&key("b"))
        .await
        .unwrap()
        .unwrap();
    it.cached.delete_by_uid(&b, gone).await.unwrap_err();
    it.hears(Event::Delete(b));
    assert_eq!(list(&it, "b").await, (0, 0), "shown");
    it.hears(Event::Delete(a));
    assert_eq!(it.cached.caches().remembered(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_finalizers_hold_up_is_shown_by_its_beginning() {
    let mut it = Lagging::filled();
    let mut held = map("a", "1");
    held.metadata.finalizers = Some(vec!["example.org/held".to_owned()]);
    let made = it.plain.create(&held).await.unwrap();
    it.hears(Event::Apply(made.clone()));
    let gone = PropagationPolicy::Background;
    let left = it.cached.delete_by_uid_and_get(&made, gone).await.unwrap();
    assert!(left.unwrap().metadata.deletion_timestamp.is_some());
    assert_eq!(it.requests(it.seen("a")).await, (Some("1".to_owned()), 0));
    let going = it
        .plain
        .get_opt::<ConfigMap>(&key("a"))
        .await
        .unwrap()
        .unwrap();
    it.hears(Event::Apply(going));
    assert_eq!(it.requests(it.seen("a")).await, (Some("1".to_owned()), 0));
    assert_eq!(it.cached.caches().remembered(), 0);
}

#[tokio::test]
async fn an_object_that_lost_its_labels_is_told_of_as_it_was_too() {
    let mut it = Lagging::filled();
    let bare = |version: &str| {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".to_owned());
        map.metadata.namespace = Some("default".to_owned());
        map.metadata.resource_version = Some(version.to_owned());
        map
    };
    let mut labelled = bare("1");
    labelled.metadata.labels = Some([("of".to_owned(), "x".to_owned())].into());
    assert_eq!(it.told(Event::Apply(labelled.clone())), [1]);
    assert_eq!(
        it.told(Event::Apply(labelled.clone())),
        [1],
        "nothing moved"
    );
    assert_eq!(it.told(Event::Apply(bare("2"))), [1, 0]);
    assert_eq!(it.told(Event::Apply(labelled)), [0, 1]);
    // In a list that comes after a gap, too.
    let mut told = Vec::new();
    for event in [Event::Init, Event::InitApply(bare("3")), Event::InitDone] {
        told.extend(it.told(event));
    }
    assert_eq!(told, [1, 0]);
}
