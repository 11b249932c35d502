//! The life of namespaces.

use serde_json::json;

use crate::Checked;
use crate::site::{Site, core, map, maps};

table! { Namespaces;
    namespaces_begin_active:
        "A new Namespace is Active, has the finalizer kubernetes in spec and its name as a label.",
        "Policies select namespaces by that label.";
    namespace_names_are_labels:
        "The name of a Namespace has no dots.",
        "It is part of DNS names.";
    the_name_label_stays:
        "The label kubernetes.io/metadata.name cannot be changed.",
        "Policies rely on it.";
    missing_namespaces_are_named:
        "A create in a namespace that does not exist is 404 and names the namespace; a list is empty.",
        "The cause is told apart from a missing object.";
    namespaces_take_their_content_along [controllers]:
        "Deleting a Namespace deletes all in it, and then the Namespace.",
        "Tenants are removed with one call.";
    terminating_namespaces_take_nothing_new [controllers]:
        "A create in a terminating namespace is 403 with cause NamespaceTerminating; updates go on.",
        "Controllers stop making things there.";
    namespaces_wait_for_finalizers [controllers]:
        "A namespace stays while something in it has a finalizer, and says so in its conditions.",
        "Cleaning up is never skipped.";
    namespaces_get_their_defaults [controllers]:
        "A new namespace gets the ServiceAccount default and the ConfigMap kube-root-ca.crt.",
        "Pods run as default and trust that certificate.";
}

async fn namespaces_begin_active(s: Site) -> Checked {
    let name = s.namespace().await?;
    let answer = s
        .get(&format!("/api/v1/namespaces/{name}"))
        .await?
        .expect(200)?;
    let answer = answer
        .is("/status/phase", "Active")?
        .is("/spec/finalizers", json!(["kubernetes"]))?;
    answer.is("/metadata/labels/kubernetes.io~1metadata.name", name)?;
    Ok(())
}

async fn namespace_names_are_labels(s: Site) -> Checked {
    let name = format!("{}.x", s.unique());
    s.remove_namespace_later(&name);
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let answer = s
        .post("/api/v1/namespaces", &object)
        .await?
        .refused(422, "Invalid")?;
    answer
        .cause("FieldValueInvalid", "metadata.name")?
        .says("must not contain dots")?;
    Ok(())
}

async fn the_name_label_stays(s: Site) -> Checked {
    let name = s.namespace().await?;
    let patch = json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "other"}}});
    let answer = s
        .merge(&format!("/api/v1/namespaces/{name}"), &patch)
        .await?
        .expect(200)?;
    answer.is("/metadata/labels/kubernetes.io~1metadata.name", name)?;
    Ok(())
}

async fn missing_namespaces_are_named(s: Site) -> Checked {
    let none = s.unique();
    let answer = s
        .post(&maps(&none), &map("a", &json!({})))
        .await?
        .refused(404, "NotFound")?;
    answer
        .is("/details/kind", "namespaces")?
        .is("/details/name", none.as_str())?;
    s.get(&maps(&none)).await?.expect(200)?.lists(&[])?;
    Ok(())
}

async fn namespaces_take_their_content_along(s: Site) -> Checked {
    let name = s.namespace().await?;
    s.post(&maps(&name), &map("a", &json!({})))
        .await?
        .expect(201)?;
    let path = format!("/api/v1/namespaces/{name}");
    let answer = s
        .delete(&path)
        .await?
        .expect(200)?
        .is("/kind", "Namespace")?;
    answer
        .is("/status/phase", "Terminating")?
        .has("/metadata/deletionTimestamp")?;
    s.gone(&path).await?;
    s.get(&format!("{}/a", maps(&name))).await?.expect(404)?;
    Ok(())
}

async fn terminating_namespaces_take_nothing_new(s: Site) -> Checked {
    let name = s.namespace().await?;
    let mut held = map("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    s.post(&maps(&name), &held).await?.expect(201)?;
    s.delete(&format!("/api/v1/namespaces/{name}"))
        .await?
        .expect(200)?;
    let answer = s
        .post(&maps(&name), &map("late", &json!({})))
        .await?
        .refused(403, "Forbidden")?;
    let answer = answer.says("because it is being terminated")?;
    answer.cause("NamespaceTerminating", "metadata.namespace")?;
    let path = format!("{}/held", maps(&name));
    s.merge(&path, &json!({"data": {"k": "v"}}))
        .await?
        .expect(200)?;
    Ok(())
}

async fn namespaces_wait_for_finalizers(s: Site) -> Checked {
    let name = s.namespace().await?;
    let mut held = map("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    s.post(&maps(&name), &held).await?.expect(201)?;
    let path = format!("/api/v1/namespaces/{name}");
    s.delete(&path).await?.expect(200)?;
    let told = s.until(&path, "waiting for finalizers", |answer| {
        let conditions = answer.at("/status/conditions").as_array();
        conditions.is_some_and(|all| {
            all.iter()
                .any(|c| c["type"] == "NamespaceFinalizersRemaining" && c["status"] == "True")
        })
    });
    told.await?;
    let held = format!("{}/held", maps(&name));
    s.merge(&held, &json!({"metadata": {"finalizers": null}}))
        .await?
        .expect(200)?;
    s.gone(&path).await
}

async fn namespaces_get_their_defaults(s: Site) -> Checked {
    let name = s.namespace().await?;
    let account = format!("{}/default", core(&name, "serviceaccounts"));
    s.until(&account, "there", |answer| answer.code == 200)
        .await?;
    let root = format!("{}/kube-root-ca.crt", maps(&name));
    s.until(&root, "there", |answer| answer.code == 200)
        .await?
        .has("/data/ca.crt")?;
    Ok(())
}
