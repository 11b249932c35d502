//! Watches, bookmarks, streaming lists.

use serde_json::{Value, json};

use super::objects::open_schema;
use crate::answer::ensure;
use crate::site::{Site, map, maps};
use crate::{Checked, Failure};

table! { Watches;
    watches_tell_every_change_in_order:
        "A watch from a list's resourceVersion tells ADDED, MODIFIED and DELETED in order, none missing.",
        "Caches follow a list by a watch.";
    deleted_carries_a_new_version:
        "DELETED carries the last state with the resourceVersion of the deletion.",
        "The next watch starts from it.";
    watches_without_version_begin_with_what_is_there:
        "A watch without resourceVersion begins with ADDED for every object.",
        "kubectl get --watch.";
    watches_resume_where_they_ended:
        "A watch from the resourceVersion of an event tells what came after it.",
        "Nothing is lost when a connection breaks.";
    selections_are_entered_and_left:
        "An object that enters a selection is ADDED, one that leaves it DELETED with its earlier state.",
        "A selected cache holds the selection.";
    watches_keep_to_the_namespace:
        "A watch of a namespace tells nothing of others.",
        "Namespaces separate tenants.";
    watches_of_one_name:
        "A watch with metadata.name selected tells of that object alone.",
        "Waiting for one object.";
    writes_without_effect_are_silent:
        "A write that changes nothing sends no event.",
        "Settled reconcilers must not wake each other.";
    marking_for_deletion_is_a_change:
        "DELETE of an object with finalizers is MODIFIED, taking the last finalizer DELETED.",
        "Controllers see that they have to clean up.";
    watches_end_in_time:
        "A watch ends after timeoutSeconds without an error.",
        "Clients renew their watches.";
    streaming_lists_end_with_a_bookmark:
        "sendInitialEvents gives every object and then a BOOKMARK annotated k8s.io/initial-events-end.",
        "A list without the memory for a list.";
    streaming_lists_need_a_match:
        "sendInitialEvents without resourceVersionMatch=NotOlderThan is 422.",
        "The semantics must be asked for.";
    bookmarks_come_before_the_end:
        "With allowWatchBookmarks a watch that times out tells where it got to, if there was progress.",
        "The next watch need not read old events again.";
    bookmarks_pass_what_is_elsewhere:
        "Such a BOOKMARK comes, too, where all progress was made in another namespace.",
        "In a quiet namespace the next watch would otherwise begin in a forgotten past.";
    the_distant_past_is_expired:
        "A watch from a forgotten resourceVersion is ERROR with a Status of code 410, reason Expired.",
        "Clients list again.";
    broken_versions_are_refused:
        "A watch from a resourceVersion that is no number is refused.",
        "Versions come from the server alone.";
}

async fn version(s: &Site, path: &str) -> Result<String, Failure> {
    Ok(s.get(path)
        .await?
        .expect(200)?
        .text("/metadata/resourceVersion"))
}

/// A namespace's path of custom objects, where nobody else writes.
async fn place(s: &Site) -> Result<(String, impl Fn(&str, Value) -> Value), Failure> {
    let ns = s.namespace().await?;
    let widgets = s.definition(&open_schema(), &json!({})).await?;
    let path = widgets.within(&ns);
    Ok((path, move |name: &str, spec: Value| {
        widgets.object(name, &spec)
    }))
}

async fn watches_tell_every_change_in_order(s: Site) -> Checked {
    let (path, object) = place(&s).await?;
    let start = version(&s, &path).await?;
    let mut watch = s.watch(&format!("{path}?resourceVersion={start}")).await?;
    s.post(&path, &object("a", json!({"n": 1})))
        .await?
        .expect(201)?;
    for n in 2..5 {
        s.merge(&format!("{path}/a"), &json!({"spec": {"n": n}}))
            .await?
            .expect(200)?;
    }
    s.post(&path, &object("b", json!({}))).await?.expect(201)?;
    s.delete(&format!("{path}/a")).await?.expect(200)?;
    let added = watch.expect("ADDED", "a").await?;
    ensure(
        added.object["spec"]["n"] == 1,
        "the object as it was created",
    )?;
    for n in 2..5 {
        let modified = watch.expect("MODIFIED", "a").await?;
        ensure(
            modified.object["spec"]["n"] == n,
            format!("the object as it was when n was {n}"),
        )?;
    }
    watch.expect("ADDED", "b").await?;
    watch.expect("DELETED", "a").await?;
    Ok(())
}

async fn deleted_carries_a_new_version(s: Site) -> Checked {
    let (path, object) = place(&s).await?;
    let made = s
        .post(&path, &object("a", json!({"n": 1})))
        .await?
        .expect(201)?;
    let mut watch = s
        .watch(&format!("{path}?resourceVersion={}", made.version()))
        .await?;
    s.delete(&format!("{path}/a")).await?.expect(200)?;
    let event = watch.expect("DELETED", "a").await?;
    ensure(event.version() != made.version(), "another resourceVersion")?;
    ensure(event.object["spec"]["n"] == 1, "the last state")?;
    s.watch(&format!(
        "{path}?resourceVersion={}&timeoutSeconds=1",
        event.version()
    ))
    .await?
    .ends()
    .await
}

async fn watches_without_version_begin_with_what_is_there(s: Site) -> Checked {
    let (path, object) = place(&s).await?;
    for name in ["a", "b"] {
        s.post(&path, &object(name, json!({}))).await?.expect(201)?;
    }
    let mut watch = s.watch(&path).await?;
    let mut names = Vec::new();
    for _ in 0..2 {
        names.push(watch.expect("ADDED", "").await?.name().to_owned());
    }
    names.sort();
    ensure(names == ["a", "b"], format!("both objects: {names:?}"))?;
    s.post(&path, &object("c", json!({}))).await?.expect(201)?;
    watch.expect("ADDED", "c").await?;
    Ok(())
}

async fn watches_resume_where_they_ended(s: Site) -> Checked {
    let (path, object) = place(&s).await?;
    let start = version(&s, &path).await?;
    for name in ["a", "b", "c"] {
        s.post(&path, &object(name, json!({}))).await?.expect(201)?;
    }
    let mut first = s.watch(&format!("{path}?resourceVersion={start}")).await?;
    let seen = first.expect("ADDED", "a").await?.version().to_owned();
    drop(first);
    let mut second = s.watch(&format!("{path}?resourceVersion={seen}")).await?;
    second.expect("ADDED", "b").await?;
    second.expect("ADDED", "c").await?;
    Ok(())
}

async fn selections_are_entered_and_left(s: Site) -> Checked {
    let (path, object) = place(&s).await?;
    let start = version(&s, &path).await?;
    let mut watch = s
        .watch(&format!(
            "{path}?resourceVersion={start}&labelSelector=l%3Dx"
        ))
        .await?;
    let item = format!("{path}/a");
    s.post(&path, &object("a", json!({"n": 1})))
        .await?
        .expect(201)?;
    let label = |value: &str| json!({"metadata": {"labels": {"l": value}}});
    s.merge(&item, &label("x")).await?.expect(200)?;
    s.merge(&item, &json!({"spec": {"n": 2}}))
        .await?
        .expect(200)?;
    let left = s.merge(&item, &label("y")).await?.expect(200)?.version();
    s.merge(&item, &label("x")).await?.expect(200)?;
    watch.expect("ADDED", "a").await?;
    watch.expect("MODIFIED", "a").await?;
    let event = watch.expect("DELETED", "a").await?;
    ensure(
        event.object["metadata"]["labels"]["l"] == "x",
        "the state that was in the selection",
    )?;
    ensure(event.version() == left, "the resourceVersion of the change")?;
    watch.expect("ADDED", "a").await?;
    Ok(())
}

async fn watches_keep_to_the_namespace(s: Site) -> Checked {
    let (one, two) = (s.namespace().await?, s.namespace().await?);
    let start = version(&s, &maps(&one)).await?;
    let mut watch = s
        .watch(&format!(
            "{}?resourceVersion={start}&labelSelector=l",
            maps(&one)
        ))
        .await?;
    for (ns, name) in [(&two, "other"), (&one, "own")] {
        let mut object = map(name, &json!({}));
        object["metadata"]["labels"] = json!({"l": "x"});
        s.post(&maps(ns), &object).await?.expect(201)?;
    }
    watch.expect("ADDED", "own").await?;
    Ok(())
}

async fn watches_of_one_name(s: Site) -> Checked {
    let (path, object) = place(&s).await?;
    let start = version(&s, &path).await?;
    let selector = "fieldSelector=metadata.name%3Db";
    let mut watch = s
        .watch(&format!("{path}?resourceVersion={start}&{selector}"))
        .await?;
    for name in ["a", "b", "c"] {
        s.post(&path, &object(name, json!({}))).await?.expect(201)?;
    }
    s.delete(&format!("{path}/b")).await?.expect(200)?;
    watch.expect("ADDED", "b").await?;
    watch.expect("DELETED", "b").await?;
    Ok(())
}

async fn writes_without_effect_are_silent(s: Site) -> Checked {
    let (path, object) = place(&s).await?;
    let made = s
        .post(&path, &object("a", json!({"n": 1})))
        .await?
        .expect(201)?;
    let mut watch = s
        .watch(&format!("{path}?resourceVersion={}", made.version()))
        .await?;
    let item = format!("{path}/a");
    s.put(&item, &made.body).await?.expect(200)?;
    s.merge(&item, &json!({"spec": {"n": 1}}))
        .await?
        .expect(200)?;
    s.merge(&item, &json!({"spec": {"n": 2}}))
        .await?
        .expect(200)?;
    let event = watch.expect("MODIFIED", "a").await?;
    ensure(
        event.object["spec"]["n"] == 2,
        "the first event is of the first real change",
    )
}

async fn marking_for_deletion_is_a_change(s: Site) -> Checked {
    let (path, object) = place(&s).await?;
    let mut held = object("a", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let made = s.post(&path, &held).await?.expect(201)?;
    let mut watch = s
        .watch(&format!("{path}?resourceVersion={}", made.version()))
        .await?;
    let item = format!("{path}/a");
    s.delete(&item).await?.expect(200)?;
    let event = watch.expect("MODIFIED", "a").await?;
    ensure(
        event.object["metadata"]["deletionTimestamp"].is_string(),
        "the mark is there",
    )?;
    s.merge(&item, &json!({"metadata": {"finalizers": null}}))
        .await?
        .expect(200)?;
    watch.expect("DELETED", "a").await?;
    Ok(())
}

async fn watches_end_in_time(s: Site) -> Checked {
    let (path, _) = place(&s).await?;
    let start = version(&s, &path).await?;
    let began = tokio::time::Instant::now();
    s.watch(&format!("{path}?resourceVersion={start}&timeoutSeconds=1"))
        .await?
        .ends()
        .await?;
    ensure(began.elapsed().as_millis() >= 900, "not before its time")
}

async fn streaming_lists_end_with_a_bookmark(s: Site) -> Checked {
    let (path, object) = place(&s).await?;
    for name in ["a", "b"] {
        s.post(&path, &object(name, json!({}))).await?.expect(201)?;
    }
    let options =
        "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    let mut watch = s.watch(&format!("{path}?{options}")).await?;
    for _ in 0..2 {
        watch.expect("ADDED", "").await?;
    }
    let mark = watch.expect("BOOKMARK", "").await?;
    let annotations = &mark.object["metadata"]["annotations"];
    ensure(
        annotations["k8s.io/initial-events-end"] == "true",
        "the bookmark says that the list is whole",
    )?;
    ensure(!mark.version().is_empty(), "and of which version it is")?;
    s.post(&path, &object("c", json!({}))).await?.expect(201)?;
    watch.expect("ADDED", "c").await?;
    Ok(())
}

async fn streaming_lists_need_a_match(s: Site) -> Checked {
    let (path, _) = place(&s).await?;
    let answer = s
        .get(&format!(
            "{path}?watch=true&sendInitialEvents=true&timeoutSeconds=1"
        ))
        .await?;
    answer
        .refused(422, "Invalid")?
        .cause("FieldValueForbidden", "resourceVersionMatch")?;
    Ok(())
}

async fn bookmarks_come_before_the_end(s: Site) -> Checked {
    let (path, object) = place(&s).await?;
    let start = version(&s, &path).await?;
    let query = format!("resourceVersion={start}&allowWatchBookmarks=true&timeoutSeconds=6");
    let mut watch = s.watch(&format!("{path}?{query}")).await?;
    s.post(&path, &object("a", json!({}))).await?.expect(201)?;
    watch.expect("ADDED", "a").await?;
    let mark = watch.expect("BOOKMARK", "").await?;
    ensure(
        mark.object["kind"] == "Widget",
        "a bookmark is an object of the kind",
    )?;
    ensure(
        !mark.version().is_empty() && mark.version() != start,
        "it says how far the watch got",
    )
}

async fn bookmarks_pass_what_is_elsewhere(s: Site) -> Checked {
    let widgets = s.definition(&open_schema(), &json!({})).await?;
    let (here, elsewhere) = (s.namespace().await?, s.namespace().await?);
    let (path, elsewhere) = (widgets.within(&here), widgets.within(&elsewhere));
    let start = version(&s, &path).await?;
    let query = format!("resourceVersion={start}&allowWatchBookmarks=true&timeoutSeconds=6");
    let mut watch = s.watch(&format!("{path}?{query}")).await?;
    let made = async {
        // The stream is read by then.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        s.post(&elsewhere, &widgets.object("n", &json!({}))).await
    };
    let (mark, made) = tokio::join!(watch.expect("BOOKMARK", ""), made);
    let (mark, made) = (mark?, made?.expect(201)?.version());
    let number = |text: &str| text.parse::<u64>().unwrap_or_default();
    ensure(
        number(mark.version()) >= number(&made),
        "it says that the watch got past what was made",
    )
}

async fn the_distant_past_is_expired(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let mut watch = s.watch(&format!("{}?resourceVersion=1", maps(&ns))).await?;
    let event = watch.expect("ERROR", "").await?;
    let status = &event.object;
    ensure(
        status["code"] == 410 && status["reason"] == "Expired",
        format!("{status}"),
    )
}

async fn broken_versions_are_refused(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let answer = s
        .get(&format!("{}?watch=true&resourceVersion=abc", maps(&ns)))
        .await?;
    ensure(answer.code >= 400, "not a stream")?;
    answer.says("abc")?;
    Ok(())
}
