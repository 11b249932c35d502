//! Generation and the status subresource.

use serde_json::json;

use super::objects::open_schema;
use crate::Checked;
use crate::answer::ensure;
use crate::site::{Site, core};

table! { Status;
    generation_counts_changes_of_spec:
        "generation starts at 1 and grows by one with every change of spec, not with labels or status.",
        "observedGeneration tells whether a controller has seen the last intent.";
    status_is_ignored_by_main_writes:
        "With a status subresource, creates and updates ignore status.",
        "Users cannot write what controllers report.";
    status_writes_touch_status_alone:
        "A write to /status ignores spec and metadata of a custom resource.",
        "Controllers cannot change the intent by accident.";
    without_subresource_status_is_a_field:
        "Without a status subresource status is an ordinary field, counts for generation, and /status is 404.",
        "The subresource has to be asked for.";
    status_writes_are_optimistic:
        "A PUT to /status with an old resourceVersion is 409 Conflict.",
        "Status and spec share one resourceVersion.";
    core_status_takes_patches:
        "The status of a Service is written by a patch of /status, not of the Service.",
        "Load balancers report addresses this way.";
    scale_reads_and_writes_replicas:
        "/scale shows the paths that the definition names, and a write to it changes the replicas and generation.",
        "Autoscalers know only scale.";
}

async fn generation_counts_changes_of_spec(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s
        .definition(&open_schema(), &json!({"subresources": {"status": {}}}))
        .await?;
    let path = format!("{}/a", widgets.within(&ns));
    let made = s
        .post(&widgets.within(&ns), &widgets.object("a", &json!({"n": 1})))
        .await?;
    made.expect(201)?.is("/metadata/generation", 1)?;
    let labelled = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}});
    s.merge(&path, &labelled)
        .await?
        .expect(200)?
        .is("/metadata/generation", 1)?;
    s.merge(&path, &json!({"spec": {"n": 2}}))
        .await?
        .expect(200)?
        .is("/metadata/generation", 2)?;
    s.merge(&path, &json!({"spec": {"n": 2}}))
        .await?
        .expect(200)?
        .is("/metadata/generation", 2)?;
    let status = s
        .merge(&format!("{path}/status"), &json!({"status": {"seen": 2}}))
        .await?;
    status
        .expect(200)?
        .is("/metadata/generation", 2)?
        .is("/status/seen", 2)?;
    s.merge(&path, &json!({"metadata": {"generation": 9}}))
        .await?
        .expect(200)?
        .is("/metadata/generation", 2)?;
    Ok(())
}

async fn status_is_ignored_by_main_writes(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s
        .definition(&open_schema(), &json!({"subresources": {"status": {}}}))
        .await?;
    let path = format!("{}/a", widgets.within(&ns));
    let mut object = widgets.object("a", &json!({"n": 1}));
    object["status"] = json!({"seen": 1});
    let made = s
        .post(&widgets.within(&ns), &object)
        .await?
        .expect(201)?
        .lacks("/status")?;
    let patched = s
        .merge(&path, &json!({"status": {"seen": 2}}))
        .await?
        .expect(200)?
        .lacks("/status")?;
    ensure(
        patched.version() == made.version(),
        "such a patch is no change at all",
    )
}

async fn status_writes_touch_status_alone(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s
        .definition(&open_schema(), &json!({"subresources": {"status": {}}}))
        .await?;
    let path = format!("{}/a", widgets.within(&ns));
    let made = s
        .post(&widgets.within(&ns), &widgets.object("a", &json!({"n": 1})))
        .await?
        .expect(201)?;
    let mut object = made.body.clone();
    object["spec"]["n"] = 9.into();
    object["metadata"]["labels"] = json!({"a": "b"});
    object["status"] = json!({"seen": 1});
    let put = s
        .put(&format!("{path}/status"), &object)
        .await?
        .expect(200)?;
    put.is("/spec/n", 1)?
        .is("/status/seen", 1)?
        .lacks("/metadata/labels")?;
    s.get(&format!("{path}/status"))
        .await?
        .expect(200)?
        .is("/spec/n", 1)?
        .is("/status/seen", 1)?;
    Ok(())
}

async fn without_subresource_status_is_a_field(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s.definition(&open_schema(), &json!({})).await?;
    let path = format!("{}/a", widgets.within(&ns));
    let mut object = widgets.object("a", &json!({"n": 1}));
    object["status"] = json!({"seen": 1});
    s.post(&widgets.within(&ns), &object)
        .await?
        .expect(201)?
        .is("/status/seen", 1)?;
    let patched = s
        .merge(&path, &json!({"status": {"seen": 2}}))
        .await?
        .expect(200)?;
    patched
        .is("/status/seen", 2)?
        .is("/metadata/generation", 2)?;
    s.get(&format!("{path}/status")).await?.expect(404)?;
    Ok(())
}

async fn status_writes_are_optimistic(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s
        .definition(&open_schema(), &json!({"subresources": {"status": {}}}))
        .await?;
    let path = format!("{}/a", widgets.within(&ns));
    let made = s
        .post(&widgets.within(&ns), &widgets.object("a", &json!({"n": 1})))
        .await?
        .expect(201)?;
    s.merge(&path, &json!({"spec": {"n": 2}}))
        .await?
        .expect(200)?;
    let mut late = made.body.clone();
    late["status"] = json!({"seen": 1});
    s.put(&format!("{path}/status"), &late)
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}

async fn core_status_takes_patches(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}});
    let path = format!("{}/a", core(&ns, "services"));
    s.post(&core(&ns, "services"), &service)
        .await?
        .expect(201)?;
    let conditions = json!({"status": {"conditions": [{"type": "example.com/Checked", "status": "True",
        "reason": "Checked", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    s.merge(&path, &conditions)
        .await?
        .expect(200)?
        .lacks("/status/conditions")?;
    let patched = s
        .merge(&format!("{path}/status"), &conditions)
        .await?
        .expect(200)?;
    patched.is("/status/conditions/0/type", "example.com/Checked")?;
    Ok(())
}

async fn scale_reads_and_writes_replicas(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"size": {"type": "integer"}, "selector": {"type": "string"}}}}});
    let extras = json!({"subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"}}});
    let widgets = s.definition(&schema, &extras).await?;
    let path = format!("{}/a", widgets.within(&ns));
    s.post(
        &widgets.within(&ns),
        &widgets.object("a", &json!({"size": 2})),
    )
    .await?
    .expect(201)?;
    let status = json!({"status": {"size": 1, "selector": "app=a"}});
    s.merge(&format!("{path}/status"), &status)
        .await?
        .expect(200)?;
    let scale = s.get(&format!("{path}/scale")).await?.expect(200)?;
    let scale = scale
        .is("/kind", "Scale")?
        .is("/apiVersion", "autoscaling/v1")?;
    let scale = scale
        .is("/spec/replicas", 2)?
        .is("/status/replicas", 1)?
        .is("/status/selector", "app=a")?;
    let mut wanted = scale.body.clone();
    wanted["spec"]["replicas"] = 5.into();
    s.put(&format!("{path}/scale"), &wanted)
        .await?
        .expect(200)?
        .is("/spec/replicas", 5)?;
    let read = s.get(&path).await?.expect(200)?;
    read.is("/spec/size", 5)?.is("/metadata/generation", 2)?;
    s.put(&format!("{path}/scale"), &wanted)
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}
