//! Writes of which it is not known what came of them, and objects that the watch
//! does not show.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kite_cluster::{Cluster as _, ClusterExt as _, NotLeader};
use kube::{
    ResourceExt as _,
    api::{ListParams, PropagationPolicy},
    runtime::watcher::Event,
};

use super::{
    tests::{Fate, Lagging, ME, labelled, map},
    uncached,
};

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// How many objects with this label are found, and by how many requests.
async fn of(it: &Lagging, of: &str) -> (usize, usize) {
    let params = ListParams::default().labels(&format!("of={of}"));
    let list = it.cached.list::<ConfigMap>(None, &params);
    let (found, requests) = it.requests(list).await;
    (found.unwrap().items.len(), requests)
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_costs_one_request_and_no_list() {
    let mut it = Lagging::filled();
    for name in ["a", "b"] {
        let made = it.plain.create(&map(name, "1")).await.unwrap();
        it.hears(Event::Apply(made));
    }
    *it.next.lock() = Fate::Lost;
    it.cached.create(&map("c", "1")).await.unwrap_err();
    it.cached.apply(ME, &map("a", "2")).await.unwrap_err();
    *it.next.lock() = Fate::Answered;
    let all = names(&["a", "b", "c"]);
    assert_eq!(
        it.requests(it.listed()).await,
        (all.clone(), 2),
        "one for each"
    );
    assert_eq!(it.requests(it.listed()).await, (all, 0));
    assert_eq!(it.requests(it.seen("a")).await, (Some("2".to_owned()), 0));
}

#[tokio::test(start_paused = true)]
async fn of_many_lost_answers_one_list_tells() {
    let it = Lagging::filled();
    *it.next.lock() = Fate::Lost;
    for number in 0..20 {
        let map = map(&format!("a{number:02}"), "1");
        it.cached.create(&map).await.unwrap_err();
    }
    let (found, requests) = it.requests(it.listed()).await;
    assert_eq!((found.len(), requests), (20, 1));
    assert_eq!(it.requests(it.listed()).await.1, 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_matters_only_where_the_object_may_be() {
    let mut it = Lagging::filled();
    let made = it.plain.create(&labelled("a", "a")).await.unwrap();
    it.hears(Event::Apply(made));
    *it.next.lock() = Fate::Lost;
    it.cached.create(&labelled("b", "b")).await.unwrap_err();
    assert_eq!(of(&it, "a").await, (1, 0));
    assert_eq!(of(&it, "b").await, (1, 1), "asked once");
    assert_eq!(of(&it, "b").await, (1, 0), "and believed");
    // Whether it has the old label or the new one is not known.
    it.cached.apply(ME, &labelled("a", "c")).await.unwrap_err();
    assert_eq!(of(&it, "b").await, (1, 0));
    assert_eq!(of(&it, "a").await, (0, 1));
    assert_eq!(of(&it, "c").await, (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_or_not_sent_casts_no_doubt() {
    let mut it = Lagging::filled();
    let mut fixed = map("a", "1");
    fixed.immutable = Some(true);
    let made = it.plain.create(&fixed).await.unwrap();
    it.hears(Event::Apply(made.clone()));
    let refused = it.cached.apply(ME, &map("a", "2")).await.unwrap_err();
    assert_eq!(refused.category(), "invalid");
    assert_eq!(it.requests(it.seen("a")).await, (Some("1".to_owned()), 0));
    *it.next.lock() = Fate::NotLeader(NotLeader::NotSent);
    it.cached.create(&map("b", "1")).await.unwrap_err();
    let removed = it
        .cached
        .delete_by_uid(&made, PropagationPolicy::Background);
    removed.await.unwrap_err();
    assert_eq!(it.requests(it.listed()).await, (names(&["a"]), 0));
    assert_eq!(it.requests(it.seen("b")).await, (None, 0));
    // What was under way when the Lease was lost may have arrived.
    *it.next.lock() = Fate::NotLeader(NotLeader::LeadershipLost);
    it.cached.create(&map("b", "1")).await.unwrap_err();
    assert_eq!(it.requests(it.seen("b")).await, (None, 1));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_the_end_was_shown_is_not_believed() {
    let mut it = Lagging::filled();
    let caches = it.cached.caches().clone();
    let table = caches.table::<ConfigMap>().unwrap();
    let asked = table.mark();
    let made = it.plain.create(&map("a", "1")).await.unwrap();
    it.hears(Event::Apply(made.clone()));
    let removed = it.plain.delete_by_uid(&made, PropagationPolicy::Background);
    removed.await.unwrap();
    it.hears(Event::Delete(made.clone()));
    table.note(&made, asked);
    assert_eq!(it.requests(it.seen("a")).await, (None, 1));
    assert_eq!(it.requests(it.listed()).await, (Vec::new(), 0));
    assert_eq!(it.requests(it.seen("a")).await, (None, 0));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_replaced_unseen_is_told_to_be_gone() {
    let mut it = Lagging::filled();
    let first = it.plain.create(&map("a", "1")).await.unwrap();
    it.hears(Event::Apply(first.clone()));
    let replace = async |it: &Lagging, old: &ConfigMap| {
        let removed = it.plain.delete_by_uid(old, PropagationPolicy::Background);
        removed.await.unwrap();
        it.plain.create(&map("a", "2")).await.unwrap()
    };
    // Who is told of, and whether as gone.
    let told = |it: &mut Lagging, events: Vec<Event<ConfigMap>>| {
        let mut told = Vec::new();
        for event in events {
            it.writer.apply(event, |map| {
                told.push((map.uid(), map.metadata.deletion_timestamp.is_some()));
            });
        }
        told
    };
    let second = replace(&it, &first).await;
    assert_eq!(
        told(&mut it, vec![Event::Apply(second.clone())]),
        [(first.uid(), true), (second.uid(), false)]
    );
    let third = replace(&it, &second).await;
    let list = vec![
        Event::Init,
        Event::InitApply(third.clone()),
        Event::InitDone,
    ];
    assert_eq!(
        told(&mut it, list),
        [(second.uid(), true), (third.uid(), false)]
    );
    assert_eq!(
        told(&mut it, vec![Event::Apply(third.clone())]),
        [(third.uid(), false)],
        "the same"
    );
}

/// Such as a Secret of a type that is not watched.
#[tokio::test(start_paused = true)]
async fn an_object_outside_of_what_is_watched_is_asked_for_less_and_less_often() {
    let it = Lagging::filled();
    let made = it.plain.create(&map("a", "1")).await.unwrap();
    assert_eq!(
        it.requests(uncached(it.seen("a"))).await,
        (Some("1".to_owned()), 1)
    );
    let hour = async {
        for _ in 0..720 {
            assert_eq!(it.seen("a").await.as_deref(), Some("1"));
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    };
    let ((), requests) = it.requests(hour).await;
    assert!((5..=15).contains(&requests), "{requests}");
    // Its end is noticed all the same.
    let removed = it.plain.delete_by_uid(&made, PropagationPolicy::Background);
    removed.await.unwrap();
    tokio::time::sleep(Duration::from_secs(601)).await;
    assert_eq!(it.seen("a").await, None);
}

#[tokio::test(start_paused = true)]
async fn what_lies_outside_of_what_is_watched_can_be_settled_by() {
    let it = Lagging::filled();
    it.plain.create(&map("a", "1")).await.unwrap();
    uncached(it.seen("a")).await;
    let account = async || super::reading::noted(it.seen("a")).await.1;
    assert!(account().await.is_ahead, "the watch may show it yet");
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(account().await.reads.is_none(), "asked again");
    let reads = account().await.reads.unwrap();
    let holds = || reads.iter().all(super::memo::Read::would_be_the_same);
    assert!(holds());
    tokio::time::sleep(Duration::from_secs(21)).await;
    assert!(!holds(), "to be asked again");
}
