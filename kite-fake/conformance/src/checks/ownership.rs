//! Server-side apply: who owns what.

use serde_json::{Value, json};

use crate::answer::{Answer, ensure};
use crate::site::{JSON_PATCH, Site, map, maps};
use crate::{Checked, Failure};

table! { Apply;
    managers_are_recorded:
        "managedFields names each manager with operation, version, time and fields.",
        "kubectl and controllers see who set what.";
    another_value_is_a_conflict:
        "Applying another value to a field that somebody else owns is 409 with a cause that names manager and field.",
        "Two controllers never fight silently.";
    all_conflicts_are_told:
        "A conflict names all fields concerned.",
        "A person settles them at once.";
    force_takes_over:
        "Forced apply takes the field; the former manager loses it and gets the conflict.",
        "Controllers win over what they own by design.";
    the_same_value_is_shared:
        "Applying the value that is there is no conflict: both own it, and it stays until both let go.",
        "Agreement needs no owner.";
    updates_take_ownership:
        "An update or patch that changes a field takes it from its applier.",
        "kubectl edit is seen by the next apply.";
    unchanged_fields_keep_their_owner:
        "An update owns only the fields that it changed.",
        "Writing back what was read takes nothing.";
    the_manager_is_the_user_agent:
        "Without fieldManager an update's manager is the first part of the User-Agent.",
        "Old clients are told apart, too.";
    managed_fields_can_be_cleared:
        "Setting managedFields to a list with one empty entry forgets all owners, and none is recorded by later updates.",
        "The way out for objects that nobody should own.";
    first_apply_finds_earlier_writers:
        "What was there before the first tracked write belongs to before-first-apply.",
        "Old objects can be applied to.";
    owning_changes_the_version_alone:
        "An apply that only changes ownership moves the resourceVersion and nothing else.",
        "Watchers see who manages what.";
}

fn managers(answer: &Answer) -> Vec<Value> {
    let fields = answer.at("/metadata/managedFields").as_array();
    fields.cloned().unwrap_or_default()
}

fn manager(answer: &Answer, name: &str) -> Result<Value, Failure> {
    let all = managers(answer);
    let found = all.iter().find(|entry| entry["manager"] == name);
    found
        .cloned()
        .ok_or_else(|| Failure::Differs(format!("{}: {name} is not among {all:?}", answer.request)))
}

async fn managers_are_recorded(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let applied = s
        .apply(&path, "m1", &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    let entry = manager(&applied, "m1")?;
    ensure(
        entry["operation"] == "Apply" && entry["apiVersion"] == "v1",
        format!("{entry}"),
    )?;
    ensure(
        entry["fieldsType"] == "FieldsV1" && entry["time"].is_string(),
        format!("{entry}"),
    )?;
    ensure(
        entry["fieldsV1"] == json!({"f:data": {"f:k": {}}}),
        format!("{entry}"),
    )?;
    let patched = s
        .merge(
            &format!("{path}?fieldManager=m2"),
            &json!({"data": {"l": "2"}}),
        )
        .await?
        .expect(200)?;
    let entry = manager(&patched, "m2")?;
    ensure(entry["operation"] == "Update", format!("{entry}"))?;
    ensure(
        entry["fieldsV1"] == json!({"f:data": {"f:l": {}}}),
        format!("{entry}"),
    )
}

async fn another_value_is_a_conflict(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    s.apply(&path, "m1", &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    let answer = s
        .apply(&path, "m2", &map("a", &json!({"k": "2"})))
        .await?
        .refused(409, "Conflict")?;
    let answer = answer.is(
        "/message",
        "Apply failed with 1 conflict: conflict with \"m1\": .data.k",
    )?;
    answer.cause("FieldManagerConflict", ".data.k")?;
    s.get(&path).await?.expect(200)?.is("/data/k", "1")?;
    Ok(())
}

async fn all_conflicts_are_told(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    s.apply(&path, "m1", &map("a", &json!({"k": "1", "l": "1"})))
        .await?
        .expect(201)?;
    let answer = s
        .apply(&path, "m2", &map("a", &json!({"k": "2", "l": "2"})))
        .await?
        .refused(409, "Conflict")?;
    let answer = answer
        .says("Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.k\n- .data.l")?;
    answer
        .cause("FieldManagerConflict", ".data.k")?
        .cause("FieldManagerConflict", ".data.l")?;
    Ok(())
}

async fn force_takes_over(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    s.apply(&path, "m1", &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    let forced = s
        .apply(
            &format!("{path}?force=true"),
            "m2",
            &map("a", &json!({"k": "2"})),
        )
        .await?
        .expect(200)?;
    let forced = forced.is("/data/k", "2")?;
    ensure(
        managers(&forced).iter().all(|m| m["manager"] != "m1"),
        "m1 owns nothing any more",
    )?;
    let answer = s
        .apply(&path, "m1", &map("a", &json!({"k": "1"})))
        .await?
        .refused(409, "Conflict")?;
    answer.says("conflict with \"m2\"")?;
    Ok(())
}

async fn the_same_value_is_shared(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    s.apply(&path, "m1", &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    s.apply(&path, "m2", &map("a", &json!({"k": "1"})))
        .await?
        .expect(200)?;
    let after = s
        .apply(&path, "m1", &map("a", &json!({})))
        .await?
        .expect(200)?;
    let after = after.is("/data/k", "1")?;
    manager(&after, "m2")?;
    s.apply(&path, "m2", &map("a", &json!({})))
        .await?
        .expect(200)?
        .lacks("/data/k")?;
    Ok(())
}

async fn updates_take_ownership(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    s.apply(&path, "m1", &map("a", &json!({"k": "1", "l": "1"})))
        .await?
        .expect(201)?;
    let edited = s
        .merge(
            &format!("{path}?fieldManager=edit"),
            &json!({"data": {"k": "2"}}),
        )
        .await?
        .expect(200)?;
    let entry = manager(&edited, "m1")?;
    ensure(
        entry["fieldsV1"] == json!({"f:data": {"f:l": {}}}),
        format!("m1 keeps the rest: {entry}"),
    )?;
    let answer = s
        .apply(&path, "m1", &map("a", &json!({"k": "1", "l": "1"})))
        .await?
        .refused(409, "Conflict")?;
    answer.is(
        "/message",
        "Apply failed with 1 conflict: conflict with \"edit\" using v1: .data.k",
    )?;
    Ok(())
}

async fn unchanged_fields_keep_their_owner(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let made = s
        .apply(&path, "m1", &map("a", &json!({"k": "1", "l": "1"})))
        .await?
        .expect(201)?;
    let mut object = made.body.clone();
    object["data"]["l"] = "2".into();
    let put = s
        .put(&format!("{path}?fieldManager=m2"), &object)
        .await?
        .expect(200)?;
    let entry = manager(&put, "m2")?;
    ensure(
        entry["fieldsV1"] == json!({"f:data": {"f:l": {}}}),
        format!("{entry}"),
    )?;
    manager(&put, "m1")?;
    Ok(())
}

async fn the_manager_is_the_user_agent(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let client = s.with_header("user-agent", "my-operator/v1.2 (linux)");
    let made = client
        .post(&maps(&ns), &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    let entry = manager(&made, "my-operator")?;
    ensure(entry["operation"] == "Update", format!("{entry}"))
}

async fn managed_fields_can_be_cleared(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    s.apply(&path, "m1", &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    let cleared = s
        .merge(&path, &json!({"metadata": {"managedFields": [{}]}}))
        .await?
        .expect(200)?;
    cleared.lacks("/metadata/managedFields")?;
    let later = s
        .merge(&path, &json!({"data": {"k": "2"}}))
        .await?
        .expect(200)?;
    later.lacks("/metadata/managedFields")?;
    Ok(())
}

async fn first_apply_finds_earlier_writers(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    s.post(&maps(&ns), &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    let clear = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]);
    s.patch(&path, JSON_PATCH, &clear).await?.expect(200)?;
    let applied = s
        .apply(&path, "m1", &map("a", &json!({"l": "1"})))
        .await?
        .expect(200)?;
    let entry = manager(&applied, "before-first-apply")?;
    ensure(entry["operation"] == "Update", format!("{entry}"))?;
    ensure(
        entry["fieldsV1"]["f:data"]["f:k"].is_object(),
        format!("{entry}"),
    )
}

async fn owning_changes_the_version_alone(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let object = map("a", &json!({"k": "1"}));
    let one = s.apply(&path, "m1", &object).await?.expect(201)?;
    let two = s.apply(&path, "m2", &object).await?.expect(200)?;
    ensure(one.version() != two.version(), "the resourceVersion moves")?;
    ensure(one.at("/data") == two.at("/data"), "the data stay")?;
    ensure(managers(&two).len() == 2, "both are owners")
}
