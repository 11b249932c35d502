//! Server-side apply: what is written.

use serde_json::{Value, json};

use super::objects::open_schema;
use crate::Checked;
use crate::answer::ensure;
use crate::site::{Site, map, maps};

table! { Apply;
    apply_creates_then_updates:
        "Apply of a missing object is 201, of an existing one 200.",
        "Controllers apply without asking what there is.";
    repeated_apply_changes_nothing:
        "The same apply again keeps the resourceVersion.",
        "A settled reconciler causes no event.";
    apply_removes_what_it_left_out:
        "A field that its only manager leaves out of the next apply is removed.",
        "Apply is declarative: what is not wanted any more goes.";
    apply_keeps_what_others_set:
        "Fields of other managers stay as they are.",
        "Several controllers share an object.";
    apply_needs_a_manager:
        "Apply without fieldManager is 422 with a cause at fieldManager.",
        "Ownership has to belong to somebody.";
    apply_takes_no_managed_fields:
        "Apply with managedFields in the body is 400.",
        "An object that was read cannot be applied as it is.";
    apply_checks_the_schema:
        "Apply of a value of another type is refused and changes nothing.",
        "Ownership is kept by the schema.";
    apply_checks_the_version:
        "Apply with an old resourceVersion is 409; with a uid and no object 409.",
        "A caller may tie an apply to what it has read.";
    apply_merges_map_lists:
        "Elements of a list of type map are merged by their keys, those of others stay.",
        "Ports, containers and conditions have several owners.";
    apply_unites_sets:
        "Elements of a list of type set are united; each manager removes its own.",
        "Finalizers have several owners.";
    apply_replaces_atomic_lists:
        "A list without a type is one value: it conflicts and is replaced as a whole.",
        "Order matters in such lists.";
    apply_refuses_duplicate_keys:
        "Two elements with the same key in a list of type map are refused.",
        "Elements have to be told apart.";
    apply_of_status_is_separate:
        "Apply to /status owns and writes status alone.",
        "A controller's report never touches the intent.";
    apply_validates:
        "What comes of an apply is validated like an update.",
        "Apply is no way around admission.";
    apply_reads_yaml:
        "The body of an apply may be YAML.",
        "kubectl sends files as they are.";
}

async fn apply_creates_then_updates(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    s.apply(&path, "m1", &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?
        .is("/data/k", "1")?;
    s.apply(&path, "m1", &map("a", &json!({"k": "2"})))
        .await?
        .expect(200)?
        .is("/data/k", "2")?;
    Ok(())
}

async fn repeated_apply_changes_nothing(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let object = map("a", &json!({"k": "1"}));
    let first = s.apply(&path, "m1", &object).await?.expect(201)?;
    let second = s.apply(&path, "m1", &object).await?.expect(200)?;
    ensure(
        first.body == second.body,
        "the answers are the same to the last field",
    )
}

async fn apply_removes_what_it_left_out(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    s.apply(&path, "m1", &map("a", &json!({"k": "1", "l": "1"})))
        .await?
        .expect(201)?;
    let next = s
        .apply(&path, "m1", &map("a", &json!({"k": "1"})))
        .await?
        .expect(200)?;
    next.is("/data", json!({"k": "1"}))?;
    Ok(())
}

async fn apply_keeps_what_others_set(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    s.apply(&path, "m1", &map("a", &json!({"one": "1"})))
        .await?
        .expect(201)?;
    s.merge(
        &path,
        &json!({"data": {"two": "2"}, "metadata": {"labels": {"a": "b"}}}),
    )
    .await?
    .expect(200)?;
    let next = s
        .apply(&path, "m1", &map("a", &json!({"one": "x"})))
        .await?
        .expect(200)?;
    next.is("/data", json!({"one": "x", "two": "2"}))?
        .is("/metadata/labels/a", "b")?;
    Ok(())
}

async fn apply_needs_a_manager(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let answer = s
        .apply(&path, "", &map("a", &json!({})))
        .await?
        .refused(422, "Invalid")?;
    answer.cause("FieldValueRequired", "fieldManager")?;
    Ok(())
}

async fn apply_takes_no_managed_fields(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let made = s
        .apply(&path, "m1", &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    let answer = s
        .apply(&path, "m1", &made.body)
        .await?
        .refused(400, "BadRequest")?;
    answer.says("metadata.managedFields must be nil")?;
    Ok(())
}

async fn apply_checks_the_schema(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let made = s
        .apply(&path, "m1", &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    let answer = s
        .apply(&path, "m1", &map("a", &json!({"k": 1})))
        .await?
        .expect(500)?;
    answer
        .says("failed to create typed patch object")?
        .says(".data.k")?;
    let read = s.get(&path).await?.expect(200)?;
    ensure(read.body == made.body, "the object is as it was")
}

async fn apply_checks_the_version(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let made = s
        .apply(&path, "m1", &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    s.merge(&path, &json!({"data": {"l": "1"}}))
        .await?
        .expect(200)?;
    let mut object = map("a", &json!({"k": "2"}));
    object["metadata"]["resourceVersion"] = made.version().into();
    s.apply(&path, "m1", &object)
        .await?
        .refused(409, "Conflict")?;
    let mut object = map("b", &json!({}));
    object["metadata"]["uid"] = made.uid().into();
    let answer = s.apply(&format!("{}/b", maps(&ns)), "m1", &object).await?;
    answer.refused(409, "Conflict")?.says("uid mismatch")?;
    Ok(())
}

/// A definition whose spec has lists of every type.
fn lists() -> Value {
    let text = json!({"type": "string"});
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": text, "a": text, "b": text}}},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "args": {"type": "array", "items": text}}}}})
}

async fn apply_merges_map_lists(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s.definition(&lists(), &json!({})).await?;
    let path = format!("{}/a", widgets.within(&ns));
    let items = |items: Value| widgets.object("a", &json!({"items": items}));
    s.apply(
        &path,
        "m1",
        &items(json!([{"name": "x", "a": "1"}, {"name": "y", "a": "1"}])),
    )
    .await?
    .expect(201)?;
    let both = s
        .apply(
            &path,
            "m2",
            &items(json!([{"name": "x", "b": "2"}, {"name": "z", "a": "2"}])),
        )
        .await?;
    both.expect(200)?.is(
        "/spec/items",
        json!([
        {"name": "x", "a": "1", "b": "2"}, {"name": "y", "a": "1"}, {"name": "z", "a": "2"}]),
    )?;
    let less = s
        .apply(&path, "m1", &items(json!([{"name": "y", "a": "1"}])))
        .await?
        .expect(200)?;
    less.is(
        "/spec/items",
        json!([{"name": "x", "b": "2"}, {"name": "y", "a": "1"}, {"name": "z", "a": "2"}]),
    )?;
    let conflict = s
        .apply(&path, "m1", &items(json!([{"name": "z", "a": "3"}])))
        .await?;
    conflict
        .refused(409, "Conflict")?
        .cause("FieldManagerConflict", ".spec.items[name=\"z\"].a")?;
    Ok(())
}

async fn apply_unites_sets(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let with = |finalizers: Value| {
        let mut object = map("a", &json!({}));
        object["metadata"]["finalizers"] = finalizers;
        object
    };
    s.apply(&path, "m1", &with(json!(["example.com/a"])))
        .await?
        .expect(201)?;
    let both = s
        .apply(&path, "m2", &with(json!(["example.com/b"])))
        .await?
        .expect(200)?;
    both.is(
        "/metadata/finalizers",
        json!(["example.com/a", "example.com/b"]),
    )?;
    let one = s.apply(&path, "m1", &with(json!([]))).await?.expect(200)?;
    one.is("/metadata/finalizers", json!(["example.com/b"]))?;
    Ok(())
}

async fn apply_replaces_atomic_lists(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s.definition(&lists(), &json!({})).await?;
    let path = format!("{}/a", widgets.within(&ns));
    let args = |args: Value| widgets.object("a", &json!({"args": args}));
    s.apply(&path, "m1", &args(json!(["x", "y"])))
        .await?
        .expect(201)?;
    let conflict = s
        .apply(&path, "m2", &args(json!(["x", "y", "z"])))
        .await?
        .refused(409, "Conflict")?;
    conflict.cause("FieldManagerConflict", ".spec.args")?;
    let forced = s
        .apply(&format!("{path}?force=true"), "m2", &args(json!(["z"])))
        .await?
        .expect(200)?;
    forced.is("/spec/args", json!(["z"]))?;
    Ok(())
}

async fn apply_refuses_duplicate_keys(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s.definition(&lists(), &json!({})).await?;
    let path = format!("{}/a", widgets.within(&ns));
    let twice = widgets.object("a", &json!({"items": [{"name": "x"}, {"name": "x"}]}));
    let answer = s.apply(&path, "m1", &twice).await?.expect(500)?;
    answer.says("duplicate entries for key [name=\"x\"]")?;
    s.get(&path).await?.expect(404)?;
    Ok(())
}

async fn apply_of_status_is_separate(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s
        .definition(&open_schema(), &json!({"subresources": {"status": {}}}))
        .await?;
    let path = format!("{}/a", widgets.within(&ns));
    s.apply(&path, "user", &widgets.object("a", &json!({"n": 1})))
        .await?
        .expect(201)?;
    let mut report = widgets.object("a", &json!({"n": 9}));
    report["status"] = json!({"seen": 1});
    let answer = s
        .apply(&format!("{path}/status"), "ctl", &report)
        .await?
        .expect(200)?;
    let answer = answer
        .is("/spec/n", 1)?
        .is("/status/seen", 1)?
        .is("/metadata/generation", 1)?;
    let managers = answer
        .at("/metadata/managedFields")
        .as_array()
        .cloned()
        .unwrap_or_default();
    let ctl = managers.iter().find(|m| m["manager"] == "ctl");
    ensure(
        ctl.is_some_and(|m| m["subresource"] == "status" && m["fieldsV1"]["f:spec"].is_null()),
        format!("ctl owns status alone: {managers:?}"),
    )?;
    let other = json!({"status": {"seen": 2}});
    let mut rival = widgets.object("a", &json!({}));
    rival["status"] = other["status"].clone();
    s.apply(&format!("{path}/status"), "rival", &rival)
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}

async fn apply_validates(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}}}}});
    let widgets = s.definition(&schema, &json!({})).await?;
    let path = format!("{}/a", widgets.within(&ns));
    let answer = s
        .apply(&path, "m1", &widgets.object("a", &json!({"n": 0})))
        .await?;
    answer
        .refused(422, "Invalid")?
        .cause("FieldValueInvalid", "spec.n")?;
    Ok(())
}

async fn apply_reads_yaml(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a?fieldManager=m1", maps(&ns));
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: |\n    two\n    lines\n";
    let media = crate::site::APPLY;
    let answer = s
        .send(http::Method::PATCH, &path, media, yaml.into())
        .await?
        .expect(201)?;
    answer.is("/data/k", "two\nlines\n")?;
    Ok(())
}
