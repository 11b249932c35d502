//! Ends that need not be asked for again, and those that have to be.
#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kite_cluster::{Cluster as _, ClusterError, ClusterExt as _, NotLeader};
use kube::{api::PropagationPolicy, runtime::watcher::Event};

use super::{
    reading::{as_known, final_look, last_look, restless, seeing_off},
    tests::{Fate, Lagging, key, map},
    uncached,
};

/// For whose sake things go.
fn web() -> Arc<str> {
    Arc::from("uid-of-web")
}

/// A cluster with this object, of which the cache has heard.
async fn with(object: &ConfigMap) -> (Lagging, ConfigMap) {
    let mut it = Lagging::filled();
    let made = it.plain.create(object).await.unwrap();
    it.hears(Event::Apply(made.clone()));
    (it, made)
}

async fn sees_off(it: &Lagging, object: &ConfigMap) -> Result<(), ClusterError> {
    let background = PropagationPolicy::Background;
    seeing_off(Some(web()), it.cached.delete_by_uid(object, background)).await
}

/// What the last look at the object finds, and by how many requests.
async fn found(it: &Lagging, name: &str) -> (Option<String>, usize) {
    it.requests(last_look(Some(web()), it.seen(name))).await
}

/// Somebody else has the object deleted.
async fn deleted(it: &Lagging, object: &ConfigMap) {
    let gone = it
        .plain
        .delete_by_uid(object, PropagationPolicy::Background);
    gone.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_to_be_gone_is_not_asked_for_again() {
    let (mut it, made) = with(&map("a", "1")).await;
    sees_off(&it, &made).await.unwrap();
    assert_eq!(found(&it, "a").await, (None, 0));
    it.hears(Event::Delete(made));
    assert_eq!(found(&it, "a").await, (None, 0));
    // Whoever goes for another reason, or does not go, asks.
    let other = Some(Arc::from("uid-of-other"));
    let look = last_look(other, it.seen("a"));
    assert_eq!(it.requests(look).await, (None, 1));
    assert_eq!(it.requests(uncached(it.seen("a"))).await, (None, 1));
    let look = last_look(None, it.seen("a"));
    assert_eq!(it.requests(look).await, (None, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_held_up_is_gone_when_the_watch_has_shown_it() {
    let mut held = map("a", "1");
    held.metadata.finalizers = Some(vec!["example.org/held".to_owned()]);
    let (mut it, made) = with(&held).await;
    sees_off(&it, &made).await.unwrap();
    assert_eq!(found(&it, "a").await, (Some("1".to_owned()), 1));
    let going: ConfigMap = it.plain.get(&key("a")).await.unwrap();
    it.hears(Event::Apply(going.clone()));
    assert_eq!(found(&it, "a").await, (Some("1".to_owned()), 1));
    it.plain.set_finalizers(&going, Vec::new()).await.unwrap();
    it.hears(Event::Delete(going));
    assert_eq!(found(&it, "a").await, (None, 0));
}

#[tokio::test(start_paused = true)]
async fn what_others_had_deleted_is_asked_for() {
    let (mut it, made) = with(&map("a", "1")).await;
    deleted(&it, &made).await;
    it.hears(Event::Delete(made));
    assert_eq!(it.requests(it.seen("a")).await, (None, 0));
    assert_eq!(found(&it, "a").await, (None, 1));
    assert_eq!(found(&it, "a").await, (None, 1), "each time");
    assert_eq!(found(&it, "never-there").await, (None, 1));
}

#[tokio::test(start_paused = true)]
async fn another_that_has_come_by_the_name_is_asked_for() {
    let (mut it, made) = with(&map("a", "1")).await;
    sees_off(&it, &made).await.unwrap();
    it.hears(Event::Delete(made));
    let again = it.plain.create(&map("a", "2")).await.unwrap();
    it.hears(Event::Apply(again.clone()));
    assert_eq!(found(&it, "a").await, (Some("2".to_owned()), 1));
    // That one was not told to go from here.
    deleted(&it, &again).await;
    it.hears(Event::Delete(again));
    assert_eq!(found(&it, "a").await, (None, 1));
    // Nor is what was made from here.
    let (it, made) = with(&map("a", "1")).await;
    sees_off(&it, &made).await.unwrap();
    it.cached.create(&map("a", "2")).await.unwrap();
    assert_eq!(found(&it, "a").await, (Some("2".to_owned()), 1));
}

#[tokio::test(start_paused = true)]
async fn another_that_took_the_place_unseen_is_not_what_was_told_to_go() {
    let (mut it, made) = with(&map("a", "1")).await;
    deleted(&it, &made).await;
    let again = it.plain.create(&map("a", "2")).await.unwrap();
    // A conflict, upon which it is looked who has the name.
    sees_off(&it, &made).await.unwrap();
    it.hears(Event::Delete(made));
    deleted(&it, &again).await;
    assert_eq!(found(&it, "a").await, (None, 1));
}

#[tokio::test(start_paused = true)]
async fn an_old_view_of_what_has_gone_says_nothing() {
    let (mut it, made) = with(&map("a", "1")).await;
    sees_off(&it, &made).await.unwrap();
    it.hears(Event::Apply(made));
    assert_eq!(found(&it, "a").await.0, None);
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_answer_the_watch_has_to_tell() {
    let (mut it, made) = with(&map("a", "1")).await;
    *it.next.lock() = Fate::Lost;
    sees_off(&it, &made).await.unwrap_err();
    *it.next.lock() = Fate::Answered;
    assert_eq!(found(&it, "a").await, (None, 1));
    assert_eq!(found(&it, "a").await, (None, 1), "nobody has witnessed it");
    it.hears(Event::Delete(made));
    assert_eq!(found(&it, "a").await, (None, 0));
}

#[tokio::test(start_paused = true)]
async fn what_was_not_told_to_go_by_the_leader_is_asked_for() {
    let (mut it, made) = with(&map("a", "1")).await;
    *it.next.lock() = Fate::NotLeader(NotLeader::NotSent);
    sees_off(&it, &made).await.unwrap_err();
    *it.next.lock() = Fate::Answered;
    deleted(&it, &made).await;
    it.hears(Event::Delete(made));
    assert_eq!(found(&it, "a").await, (None, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_made_any_more_is_asked_for_once() {
    let mut it = Lagging::filled();
    let look = async |it: &Lagging| it.requests(final_look(Some(web()), it.seen("a"))).await;
    assert_eq!(look(&it).await, (None, 1));
    assert_eq!(look(&it).await, (None, 0));
    assert_eq!(found(&it, "a").await, (None, 0));
    // Where somebody may still make it, that is forgotten.
    let look_anew = final_look(Some(web()), restless(it.seen("a")));
    assert_eq!(it.requests(look_anew).await, (None, 1));
    assert_eq!(look(&it).await, (None, 1));
    assert_eq!(it.requests(restless(it.seen("a"))).await, (None, 0));
    assert_eq!(look(&it).await, (None, 1));
    // It was made all the same.
    let made = it.plain.create(&map("a", "1")).await.unwrap();
    it.hears(Event::Apply(made.clone()));
    assert_eq!(look(&it).await, (Some("1".to_owned()), 1));
    deleted(&it, &made).await;
    it.hears(Event::Delete(made));
    assert_eq!(look(&it).await, (None, 1));
}

#[tokio::test(start_paused = true)]
async fn an_end_is_believed_while_the_cache_is_and_not_for_ever() {
    let (mut it, made) = with(&map("a", "1")).await;
    sees_off(&it, &made).await.unwrap();
    it.hears(Event::Delete(made));
    it.writer.lost();
    assert_eq!(found(&it, "a").await, (None, 1));
    it.lists(Vec::new());
    assert_eq!(found(&it, "a").await, (None, 0));
    tokio::time::sleep(Duration::from_secs(601)).await;
    assert_eq!(found(&it, "a").await, (None, 1));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_wrong_for_being_old_is_read_as_it_is_known() {
    let (it, _) = with(&map("a", "1")).await;
    let read = uncached(as_known(it.seen("a")));
    assert_eq!(it.requests(read).await, (Some("1".to_owned()), 0));
    let reads = async { (as_known(it.seen("a")).await, it.seen("a").await) };
    assert_eq!(it.requests(uncached(reads)).await.1, 1, "the other is");
}
