//! The patch formats.

use serde_json::{Value, json};

use super::objects::open_schema;
use crate::answer::ensure;
use crate::site::{JSON_PATCH, MERGE, STRATEGIC, Site, map, maps};
use crate::{Checked, Failure};

table! { Patches;
    merge_patch_sets_and_removes:
        "A merge patch sets members, removes those that are null, and leaves the rest.",
        "RFC 7386.";
    merge_patch_replaces_lists:
        "A merge patch replaces a list as a whole.",
        "RFC 7386 knows no elements.";
    json_patch_does_its_operations:
        "JSON patch adds, replaces, removes, copies, moves and tests, with ~1 for a slash.",
        "RFC 6902; finalizers and annotations are edited with it.";
    json_patch_is_all_or_nothing:
        "A JSON patch whose test fails is 422 and changes nothing.",
        "A test is how a patch is made conditional.";
    json_patch_needs_its_paths:
        "Removing what is not there, or adding below it, is 422.",
        "A patch that was made for another state must not be half done.";
    strategic_merge_uses_keys:
        "A strategic merge patch merges containers by name.",
        "kubectl set image and old kubectl apply rely on it.";
    strategic_merge_deletes_by_directive:
        "$patch: delete removes the element of that key, $patch: replace the whole list.",
        "Old clients send it.";
    strategic_merge_is_not_for_custom_resources:
        "A strategic merge patch of a custom resource is 415.",
        "Clients fall back to merge patch.";
    patches_need_a_known_type:
        "A patch as application/json is 415.",
        "The format cannot be guessed.";
    patches_may_carry_a_version:
        "A merge patch with an old resourceVersion is 409 Conflict.",
        "A patch can be made conditional on what was read.";
    patches_cannot_rename:
        "A patch of metadata.name is 400.",
        "A name is for life.";
    patches_are_validated:
        "A patch that yields an invalid object is 422 and changes nothing.",
        "Patches are updates.";
    broken_patches_are_refused:
        "A patch that is no JSON is 400.",
        "A broken client is told so.";
}

async fn one(s: &Site, data: &Value) -> Result<(String, String), Failure> {
    let ns = s.namespace().await?;
    s.post(&maps(&ns), &map("a", data)).await?.expect(201)?;
    Ok((format!("{}/a", maps(&ns)), ns))
}

async fn merge_patch_sets_and_removes(s: Site) -> Checked {
    let (path, _) = one(&s, &json!({"a": "1", "b": "1", "c": "1"})).await?;
    let patch = json!({"data": {"a": null, "b": "2", "d": "4", "none": null}});
    let answer = s.merge(&path, &patch).await?.expect(200)?;
    answer.is("/data", json!({"b": "2", "c": "1", "d": "4"}))?;
    Ok(())
}

async fn merge_patch_replaces_lists(s: Site) -> Checked {
    let (path, _) = one(&s, &json!({})).await?;
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    s.merge(
        &path,
        &finalizers(json!(["example.com/a", "example.com/b"])),
    )
    .await?
    .expect(200)?;
    let answer = s
        .merge(&path, &finalizers(json!(["example.com/c"])))
        .await?
        .expect(200)?;
    answer.is("/metadata/finalizers", json!(["example.com/c"]))?;
    s.merge(&path, &finalizers(Value::Null))
        .await?
        .expect(200)?
        .lacks("/metadata/finalizers")?;
    Ok(())
}

async fn json_patch_does_its_operations(s: Site) -> Checked {
    let (path, _) = one(&s, &json!({"a": "1", "b": "2"})).await?;
    let patch = json!([
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "x"},
        {"op": "remove", "path": "/data/b"},
        {"op": "copy", "from": "/data/a", "path": "/data/c"},
        {"op": "move", "from": "/data/a", "path": "/data/d"},
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/example.com~1k", "value": "v"},
    ]);
    let answer = s.patch(&path, JSON_PATCH, &patch).await?.expect(200)?;
    answer
        .is("/data", json!({"c": "x", "d": "x"}))?
        .is("/metadata/annotations", json!({"example.com/k": "v"}))?;
    Ok(())
}

async fn json_patch_is_all_or_nothing(s: Site) -> Checked {
    let (path, _) = one(&s, &json!({"a": "1"})).await?;
    let patch = json!([{"op": "replace", "path": "/data/a", "value": "2"},
        {"op": "test", "path": "/data/a", "value": "3"}]);
    s.patch(&path, JSON_PATCH, &patch)
        .await?
        .refused(422, "Invalid")?;
    s.get(&path).await?.expect(200)?.is("/data/a", "1")?;
    Ok(())
}

async fn json_patch_needs_its_paths(s: Site) -> Checked {
    let (path, _) = one(&s, &json!({"a": "1"})).await?;
    for operation in [
        json!({"op": "remove", "path": "/data/none"}),
        json!({"op": "add", "path": "/none/deeper", "value": "x"}),
    ] {
        s.patch(&path, JSON_PATCH, &json!([operation]))
            .await?
            .refused(422, "Invalid")?;
    }
    Ok(())
}

/// A Deployment without replicas and a patch's way into its Pods.
fn deployment() -> Value {
    let container = |name: &str| json!({"name": name, "image": "example.com/i:1"});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
        "replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [container("one"), container("two")]}}}})
}

fn containers(list: Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": list}}}})
}

async fn strategic_merge_uses_keys(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("/apis/apps/v1/namespaces/{ns}/deployments");
    s.post(&path, &deployment()).await?.expect(201)?;
    let patch = containers(json!([{"name": "two", "image": "example.com/i:2"}]));
    let answer = s
        .patch(&format!("{path}/a"), STRATEGIC, &patch)
        .await?
        .expect(200)?;
    let containers = answer
        .at("/spec/template/spec/containers")
        .as_array()
        .cloned()
        .unwrap_or_default();
    let images: Vec<(&str, &str)> = containers
        .iter()
        .map(|c| {
            (
                c["name"].as_str().unwrap_or_default(),
                c["image"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    let both = images.contains(&("one", "example.com/i:1"))
        && images.contains(&("two", "example.com/i:2"));
    ensure(
        images.len() == 2 && both,
        format!("the containers are {images:?}"),
    )
}

async fn strategic_merge_deletes_by_directive(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("/apis/apps/v1/namespaces/{ns}/deployments");
    s.post(&path, &deployment()).await?.expect(201)?;
    let item = format!("{path}/a");
    let delete = containers(json!([{"name": "one", "$patch": "delete"}]));
    let answer = s.patch(&item, STRATEGIC, &delete).await?.expect(200)?;
    let answer = answer.is("/spec/template/spec/containers/0/name", "two")?;
    answer.lacks("/spec/template/spec/containers/1")?;
    let replace =
        containers(json!([{"name": "three", "image": "example.com/i:3"}, {"$patch": "replace"}]));
    let answer = s.patch(&item, STRATEGIC, &replace).await?.expect(200)?;
    let answer = answer.is("/spec/template/spec/containers/0/name", "three")?;
    answer.lacks("/spec/template/spec/containers/1")?;
    Ok(())
}

async fn strategic_merge_is_not_for_custom_resources(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s.definition(&open_schema(), &json!({})).await?;
    s.post(&widgets.within(&ns), &widgets.object("a", &json!({})))
        .await?
        .expect(201)?;
    let path = format!("{}/a", widgets.within(&ns));
    s.patch(&path, STRATEGIC, &json!({"spec": {"n": 1}}))
        .await?
        .refused(415, "UnsupportedMediaType")?;
    Ok(())
}

async fn patches_need_a_known_type(s: Site) -> Checked {
    let (path, _) = one(&s, &json!({})).await?;
    let answer = s
        .patch(&path, "application/json", &json!({"data": {}}))
        .await?;
    answer.refused(415, "UnsupportedMediaType")?;
    Ok(())
}

async fn patches_may_carry_a_version(s: Site) -> Checked {
    let (path, _) = one(&s, &json!({"a": "1"})).await?;
    let old = s.get(&path).await?.expect(200)?.version();
    let new = s
        .merge(&path, &json!({"data": {"a": "2"}}))
        .await?
        .expect(200)?
        .version();
    let patch =
        |version: &str| json!({"metadata": {"resourceVersion": version}, "data": {"a": "3"}});
    s.merge(&path, &patch(&old))
        .await?
        .refused(409, "Conflict")?;
    s.merge(&path, &patch(&new))
        .await?
        .expect(200)?
        .is("/data/a", "3")?;
    Ok(())
}

async fn patches_cannot_rename(s: Site) -> Checked {
    let (path, _) = one(&s, &json!({})).await?;
    s.merge(&path, &json!({"metadata": {"name": "b"}}))
        .await?
        .refused(400, "BadRequest")?;
    s.merge(&path, &json!({"metadata": {"namespace": "default"}}))
        .await?
        .refused(400, "BadRequest")?;
    Ok(())
}

async fn patches_are_validated(s: Site) -> Checked {
    let (path, _) = one(&s, &json!({"a": "1"})).await?;
    let patch = json!({"metadata": {"labels": {"a": "not a value"}}, "data": {"a": "2"}});
    s.merge(&path, &patch).await?.refused(422, "Invalid")?;
    s.get(&path).await?.expect(200)?.is("/data/a", "1")?;
    Ok(())
}

async fn broken_patches_are_refused(s: Site) -> Checked {
    let (path, _) = one(&s, &json!({})).await?;
    for media in [MERGE, STRATEGIC, JSON_PATCH] {
        s.send(http::Method::PATCH, &path, media, b"{".to_vec())
            .await?
            .refused(400, "BadRequest")?;
    }
    Ok(())
}
