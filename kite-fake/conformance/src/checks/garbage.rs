//! Owners and dependents.

use serde_json::{Value, json};

use crate::answer::{Answer, ensure};
use crate::site::{Site, map, maps};
use crate::{Checked, Failure};

table! { Garbage;
    dependents_go_with_their_owner [controllers]:
        "When an owner is gone its dependents are deleted, by default in the background.",
        "Operators clean up by owner references alone.";
    dependents_have_several_owners [controllers]:
        "A dependent stays while one of its owners lives; the reference to the dead one is taken away.",
        "Shared objects go last.";
    owners_are_meant_by_uid [controllers]:
        "A reference with a uid that no object has is a dead owner, even if an object has the name.",
        "A recreated owner does not adopt what was the old one's.";
    foreground_waits_for_dependents [controllers]:
        "Foreground deletion keeps the owner until blocking dependents are gone.",
        "Whoever sees the owner gone knows that all is gone.";
    orphans_lose_their_reference [controllers]:
        "With policy Orphan dependents stay, without the owner reference.",
        "kubectl delete --cascade=orphan.";
    owners_of_another_namespace_are_absent [controllers]:
        "An owner in another namespace counts as absent.",
        "References do not cross namespaces.";
    one_controller_at_most:
        "Two owner references with controller: true are 422.",
        "Two controllers must not manage one object.";
    owner_references_are_complete:
        "An owner reference without apiVersion, kind, name or uid is 422.",
        "The garbage collector needs all four.";
    policies_are_finalizers:
        "Foreground and Orphan are marked by a finalizer on the owner.",
        "Deletion may outlive the collector's process.";
}

fn owned(name: &str, owners: &[&Answer]) -> Value {
    let mut object = map(name, &json!({}));
    let references = owners.iter().map(|owner| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner.text("/metadata/name"),
            "uid": owner.uid(), "blockOwnerDeletion": true})
    });
    object["metadata"]["ownerReferences"] = references.collect();
    object
}

async fn make(s: &Site, ns: &str, object: &Value) -> Result<Answer, Failure> {
    s.post(&maps(ns), object).await?.expect(201)
}

async fn dependents_go_with_their_owner(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let owner = make(&s, &ns, &map("owner", &json!({}))).await?;
    make(&s, &ns, &owned("child", &[&owner])).await?;
    s.wait().await;
    s.get(&format!("{}/child", maps(&ns))).await?.expect(200)?;
    s.delete(&format!("{}/owner", maps(&ns)))
        .await?
        .expect(200)?;
    s.gone(&format!("{}/child", maps(&ns))).await
}

async fn dependents_have_several_owners(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let one = make(&s, &ns, &map("one", &json!({}))).await?;
    let two = make(&s, &ns, &map("two", &json!({}))).await?;
    make(&s, &ns, &owned("child", &[&one, &two])).await?;
    let child = format!("{}/child", maps(&ns));
    s.delete(&format!("{}/one", maps(&ns))).await?.expect(200)?;
    let kept = s.until(&child, "without the dead owner", |answer| {
        answer
            .at("/metadata/ownerReferences")
            .as_array()
            .is_some_and(|all| all.len() == 1)
    });
    kept.await?
        .is("/metadata/ownerReferences/0/uid", two.uid())?;
    s.delete(&format!("{}/two", maps(&ns))).await?.expect(200)?;
    s.gone(&child).await
}

async fn owners_are_meant_by_uid(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let owner = make(&s, &ns, &map("owner", &json!({}))).await?;
    let mut child = owned("child", &[&owner]);
    child["metadata"]["ownerReferences"][0]["uid"] = "11111111-2222-3333-4444-555555555555".into();
    make(&s, &ns, &child).await?;
    s.gone(&format!("{}/child", maps(&ns))).await?;
    s.get(&format!("{}/owner", maps(&ns))).await?.expect(200)?;
    Ok(())
}

async fn foreground_waits_for_dependents(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let (path, child) = (
        format!("{}/owner", maps(&ns)),
        format!("{}/child", maps(&ns)),
    );
    let owner = make(&s, &ns, &map("owner", &json!({}))).await?;
    let mut object = owned("child", &[&owner]);
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    make(&s, &ns, &object).await?;
    s.wait().await;
    s.delete_with(&path, &json!({"propagationPolicy": "Foreground"}))
        .await?
        .expect(200)?;
    let marked = |answer: &Answer| !answer.at("/metadata/deletionTimestamp").is_null();
    s.until(&child, "being deleted", marked).await?;
    s.wait().await;
    let waiting = s.get(&path).await?.expect(200)?;
    waiting.is("/metadata/finalizers", json!(["foregroundDeletion"]))?;
    s.merge(&child, &json!({"metadata": {"finalizers": null}}))
        .await?
        .expect(200)?;
    s.gone(&child).await?;
    s.gone(&path).await
}

async fn orphans_lose_their_reference(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let owner = make(&s, &ns, &map("owner", &json!({}))).await?;
    make(&s, &ns, &owned("child", &[&owner])).await?;
    s.wait().await;
    let path = format!("{}/owner", maps(&ns));
    s.delete_with(&path, &json!({"propagationPolicy": "Orphan"}))
        .await?
        .expect(200)?;
    s.gone(&path).await?;
    s.wait().await;
    let child = s.get(&format!("{}/child", maps(&ns))).await?.expect(200)?;
    child
        .lacks("/metadata/ownerReferences")?
        .lacks("/metadata/deletionTimestamp")?;
    Ok(())
}

async fn owners_of_another_namespace_are_absent(s: Site) -> Checked {
    let (ns, other) = (s.namespace().await?, s.namespace().await?);
    let owner = make(&s, &other, &map("owner", &json!({}))).await?;
    make(&s, &ns, &owned("child", &[&owner])).await?;
    s.gone(&format!("{}/child", maps(&ns))).await?;
    s.get(&format!("{}/owner", maps(&other)))
        .await?
        .expect(200)?;
    Ok(())
}

async fn one_controller_at_most(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let one = make(&s, &ns, &map("one", &json!({}))).await?;
    let two = make(&s, &ns, &map("two", &json!({}))).await?;
    let mut child = owned("child", &[&one, &two]);
    for index in 0..2 {
        child["metadata"]["ownerReferences"][index]["controller"] = true.into();
    }
    let answer = s.post(&maps(&ns), &child).await?.refused(422, "Invalid")?;
    answer.cause("FieldValueInvalid", "metadata.ownerReferences")?;
    Ok(())
}

async fn owner_references_are_complete(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let mut child = map("child", &json!({}));
    child["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "", "kind": "", "name": "", "uid": ""}]);
    let answer = s.post(&maps(&ns), &child).await?.refused(422, "Invalid")?;
    for field in ["apiVersion", "kind", "name", "uid"] {
        let field = format!("metadata.ownerReferences.{field}");
        answer.clone().cause("FieldValueInvalid", &field)?;
    }
    Ok(())
}

async fn policies_are_finalizers(s: Site) -> Checked {
    let ns = s.namespace().await?;
    for (policy, finalizer) in [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")] {
        let name = policy.to_lowercase();
        let mut object = map(&name, &json!({}));
        object["metadata"]["finalizers"] = json!(["example.com/hold"]);
        make(&s, &ns, &object).await?;
        let path = format!("{}/{name}", maps(&ns));
        let answer = s
            .delete_with(&path, &json!({"propagationPolicy": policy}))
            .await?
            .expect(200)?;
        let answer = answer
            .is("/kind", "ConfigMap")?
            .has("/metadata/deletionTimestamp")?;
        let finalizers = answer
            .at("/metadata/finalizers")
            .as_array()
            .cloned()
            .unwrap_or_default();
        ensure(
            finalizers.iter().any(|f| *f == finalizer),
            format!("{policy}: {finalizers:?}"),
        )?;
    }
    Ok(())
}
