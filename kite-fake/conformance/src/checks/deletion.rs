//! Deletion, finalizers, preconditions.

use serde_json::{Value, json};

use super::objects::open_schema;
use crate::answer::ensure;
use crate::site::{Site, core, map, maps};
use crate::{Checked, Failure};

table! { Deletion;
    delete_tells_the_uid:
        "DELETE of a ConfigMap answers a Status with name, kind and uid of what is gone.",
        "The caller knows which object it deleted.";
    delete_by_uid:
        "A delete with the uid of another object is 409 Conflict, with its own it is done.",
        "A controller must not delete what was made anew under the same name.";
    delete_by_version:
        "A delete with an old resourceVersion is 409 Conflict.",
        "A delete may depend on what was read.";
    finalizers_hold:
        "With a finalizer, DELETE sets deletionTimestamp and the object stays, changed in its generation.",
        "Controllers clean up before an object goes.";
    last_finalizer_releases:
        "Taking the last finalizer of a deleted object removes it.",
        "That is the end of cleaning up.";
    no_new_finalizers_while_deleting:
        "A deleted object takes no new finalizer: 422.",
        "Nobody can hold what is on its way out.";
    deleting_goes_on:
        "A second DELETE keeps the deletionTimestamp; nothing takes it back.",
        "Deletion cannot be undone.";
    deletion_timestamp_is_the_servers:
        "Clients cannot set deletionTimestamp.",
        "Only DELETE deletes.";
    name_is_taken_until_gone:
        "Creating the name of an object that is being deleted is 409 AlreadyExists and says so.",
        "Recreating has to wait.";
    deleting_objects_can_be_written:
        "An object that is being deleted can still be updated.",
        "Controllers report the progress of cleaning up.";
    delete_collection_selects:
        "DELETE of a collection deletes what the selectors choose and answers a list.",
        "Cleaning up by label.";
    service_accounts_answer_themselves:
        "DELETE of a Service or ServiceAccount answers the object.",
        "Not every type answers a Status.";
    unknown_policy_is_refused:
        "An unknown propagationPolicy, or two at once, is 422.",
        "A misspelt orphan must not become a cascade.";
    grace_does_not_hold:
        "gracePeriodSeconds has no effect on a ConfigMap.",
        "Only Pods are stopped gracefully.";
}

async fn held(s: &Site) -> Result<(String, String), Failure> {
    let ns = s.namespace().await?;
    let mut object = map("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    s.post(&maps(&ns), &object).await?.expect(201)?;
    Ok((format!("{}/a", maps(&ns)), ns))
}

async fn delete_tells_the_uid(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let made = s
        .post(&maps(&ns), &map("a", &json!({})))
        .await?
        .expect(201)?;
    let path = format!("{}/a", maps(&ns));
    let answer = s
        .delete(&path)
        .await?
        .expect(200)?
        .is("/kind", "Status")?
        .is("/status", "Success")?;
    let answer = answer
        .is("/details/name", "a")?
        .is("/details/kind", "configmaps")?;
    answer.is("/details/uid", made.uid())?;
    s.get(&path).await?.expect(404)?;
    Ok(())
}

async fn delete_by_uid(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let made = s
        .post(&maps(&ns), &map("a", &json!({})))
        .await?
        .expect(201)?;
    let path = format!("{}/a", maps(&ns));
    let by = |uid: &str| json!({"preconditions": {"uid": uid}});
    let answer = s
        .delete_with(&path, &by("11111111-2222-3333-4444-555555555555"))
        .await?;
    answer
        .refused(409, "Conflict")?
        .says("the UID in the precondition")?;
    s.delete_with(&path, &by(&made.uid())).await?.expect(200)?;
    Ok(())
}

async fn delete_by_version(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let old = s
        .post(&maps(&ns), &map("a", &json!({})))
        .await?
        .expect(201)?
        .version();
    let path = format!("{}/a", maps(&ns));
    let new = s
        .merge(&path, &json!({"data": {"k": "v"}}))
        .await?
        .expect(200)?
        .version();
    let by = |version: &str| json!({"preconditions": {"resourceVersion": version}});
    let answer = s
        .delete_with(&path, &by(&old))
        .await?
        .refused(409, "Conflict")?;
    answer.says("the ResourceVersion in the precondition")?;
    s.delete_with(&path, &by(&new)).await?.expect(200)?;
    Ok(())
}

async fn finalizers_hold(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s.definition(&open_schema(), &json!({})).await?;
    let path = format!("{}/a", widgets.within(&ns));
    let mut object = widgets.object("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let made = s.post(&widgets.within(&ns), &object).await?.expect(201)?;
    let answer = s.delete(&path).await?.expect(200)?.is("/kind", "Widget")?;
    let answer = answer
        .has("/metadata/deletionTimestamp")?
        .is("/metadata/deletionGracePeriodSeconds", 0)?;
    let answer = answer.is("/metadata/generation", 2)?;
    ensure(answer.version() != made.version(), "the mark is a write")?;
    s.get(&path)
        .await?
        .expect(200)?
        .has("/metadata/deletionTimestamp")?;
    Ok(())
}

async fn last_finalizer_releases(s: Site) -> Checked {
    let (path, _) = held(&s).await?;
    s.merge(
        &path,
        &json!({"metadata": {"finalizers": ["example.com/hold", "example.com/too"]}}),
    )
    .await?
    .expect(200)?;
    s.delete(&path).await?.expect(200)?;
    s.merge(
        &path,
        &json!({"metadata": {"finalizers": ["example.com/too"]}}),
    )
    .await?
    .expect(200)?;
    s.get(&path).await?.expect(200)?;
    s.merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await?
        .expect(200)?;
    s.get(&path).await?.expect(404)?;
    Ok(())
}

async fn no_new_finalizers_while_deleting(s: Site) -> Checked {
    let (path, _) = held(&s).await?;
    s.delete(&path).await?.expect(200)?;
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/late"]}});
    let answer = s.merge(&path, &more).await?.refused(422, "Invalid")?;
    answer.cause("FieldValueForbidden", "metadata.finalizers")?;
    Ok(())
}

async fn deleting_goes_on(s: Site) -> Checked {
    let (path, _) = held(&s).await?;
    let first = s
        .delete(&path)
        .await?
        .expect(200)?
        .text("/metadata/deletionTimestamp");
    let second = s
        .delete(&path)
        .await?
        .expect(200)?
        .text("/metadata/deletionTimestamp");
    ensure(first == second, "the time of the first request stays")?;
    let undo = json!({"metadata": {"deletionTimestamp": null}, "data": {"k": "v"}});
    s.merge(&path, &undo)
        .await?
        .expect(200)?
        .is("/metadata/deletionTimestamp", first)?;
    Ok(())
}

async fn deletion_timestamp_is_the_servers(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let mut object = map("a", &json!({}));
    object["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z".into();
    let made = s.post(&maps(&ns), &object).await?.expect(201)?;
    made.lacks("/metadata/deletionTimestamp")?;
    let patch = json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z"}});
    let answer = s.merge(&format!("{}/a", maps(&ns)), &patch).await?;
    let answer = answer.refused(422, "Invalid")?;
    answer.cause("FieldValueInvalid", "metadata.deletionTimestamp")?;
    Ok(())
}

async fn name_is_taken_until_gone(s: Site) -> Checked {
    let (path, ns) = held(&s).await?;
    s.delete(&path).await?.expect(200)?;
    let answer = s
        .post(&maps(&ns), &map("a", &json!({})))
        .await?
        .refused(409, "AlreadyExists")?;
    answer.says("object is being deleted")?;
    Ok(())
}

async fn deleting_objects_can_be_written(s: Site) -> Checked {
    let (path, _) = held(&s).await?;
    s.delete(&path).await?.expect(200)?;
    let patch = json!({"data": {"k": "v"}, "metadata": {"labels": {"a": "b"}}});
    s.merge(&path, &patch)
        .await?
        .expect(200)?
        .is("/data/k", "v")?;
    Ok(())
}

async fn delete_collection_selects(s: Site) -> Checked {
    let ns = s.namespace().await?;
    for (name, label) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let mut object = map(name, &json!({}));
        object["metadata"]["labels"] = json!({"l": label});
        s.post(&maps(&ns), &object).await?.expect(201)?;
    }
    let answer = s
        .delete(&format!("{}?labelSelector=l%3Dx", maps(&ns)))
        .await?
        .expect(200)?;
    answer.is("/kind", "ConfigMapList")?.lists(&["a", "b"])?;
    let left = s
        .get(&format!("{}?labelSelector=l", maps(&ns)))
        .await?
        .expect(200)?;
    left.lists(&["c"])?;
    Ok(())
}

async fn service_accounts_answer_themselves(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
    let path = core(&ns, "serviceaccounts");
    s.post(&path, &account).await?.expect(201)?;
    s.delete(&format!("{path}/a"))
        .await?
        .expect(200)?
        .is("/kind", "ServiceAccount")?;
    let service: Value = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"clusterIP": "None", "ports": [{"port": 80}]}});
    let path = core(&ns, "services");
    s.post(&path, &service).await?.expect(201)?;
    s.delete(&format!("{path}/a"))
        .await?
        .expect(200)?
        .is("/kind", "Service")?;
    Ok(())
}

async fn unknown_policy_is_refused(s: Site) -> Checked {
    let ns = s.namespace().await?;
    s.post(&maps(&ns), &map("a", &json!({})))
        .await?
        .expect(201)?;
    let path = format!("{}/a", maps(&ns));
    let answer = s
        .delete_with(&path, &json!({"propagationPolicy": "Sideways"}))
        .await?;
    answer
        .refused(422, "Invalid")?
        .cause("FieldValueNotSupported", "propagationPolicy")?;
    let both = json!({"propagationPolicy": "Background", "orphanDependents": true});
    s.delete_with(&path, &both).await?.refused(422, "Invalid")?;
    s.get(&path).await?.expect(200)?;
    Ok(())
}

async fn grace_does_not_hold(s: Site) -> Checked {
    let ns = s.namespace().await?;
    s.post(&maps(&ns), &map("a", &json!({})))
        .await?
        .expect(201)?;
    let path = format!("{}/a", maps(&ns));
    s.delete(&format!("{path}?gracePeriodSeconds=30"))
        .await?
        .expect(200)?;
    s.get(&path).await?.expect(404)?;
    Ok(())
}
