//! Workloads and their Pods, as far as that needs no node.

use serde_json::{Value, json};

use crate::answer::{Answer, ensure};
use crate::site::{Site, core};
use crate::{Checked, Failure};

table! { Workloads;
    deployments_have_a_set_for_each_template [controllers]:
        "A Deployment makes a ReplicaSet for each template, and numbers them.",
        "kubectl rollout history and undo.";
    deployments_are_scaled_to_nothing [controllers]:
        "A Deployment of no replicas has no Pods.",
        "What costs is turned off.";
    sets_adopt_and_let_go_by_labels [controllers]:
        "A ReplicaSet takes Pods that it selects and nobody controls, and lets go of others.",
        "A Pod is taken out of service to be looked at.";
    stateful_pods_have_numbers_and_claims [controllers]:
        "A StatefulSet makes its first Pod by its number, with its claim and a revision.",
        "Databases have names.";
    jobs_mark_and_keep_their_pods [controllers]:
        "The Pods of a Job have its labels and a finalizer until they are counted.",
        "No Pod is lost from the count.";
    suspended_jobs_say_so [controllers]:
        "A suspended Job has no Pods and the condition Suspended.",
        "Queues hold Jobs back.";
    budgets_count_pods [controllers]:
        "The status of a PodDisruptionBudget counts the Pods that it is about.",
        "Evictions go by it.";
    roots_are_put_back [controllers]:
        "kube-root-ca.crt is put right where somebody edits it.",
        "Pods trust the API server by it.";
    account_secrets_get_tokens [controllers]:
        "A Secret of the type service-account-token gets a token.",
        "Tools outside of the cluster.";
}

fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": image}], "terminationGracePeriodSeconds": 0}})
}

fn workload(kind: &str, replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": template("web", "a")}})
}

fn apps(ns: &str, plural: &str) -> String {
    format!("/apis/apps/v1/namespaces/{ns}/{plural}")
}

/// The list at a path once it has so many items.
async fn listed(s: &Site, path: &str, count: usize) -> Result<Answer, Failure> {
    s.until(path, &format!("{count} objects"), |answer| {
        answer.names().len() == count
    })
    .await
}

const REVISION: &str = "/metadata/annotations/deployment.kubernetes.io~1revision";

async fn deployments_have_a_set_for_each_template(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/web", apps(&ns, "deployments"));
    let web = workload("Deployment", 1);
    s.post(&apps(&ns, "deployments"), &web).await?.expect(201)?;
    let sets = format!("{}?labelSelector=app%3Dweb", apps(&ns, "replicasets"));
    let first = listed(&s, &sets, 1).await?;
    first
        .is(&format!("/items/0{REVISION}"), "1")?
        .is("/items/0/metadata/ownerReferences/0/kind", "Deployment")?;
    listed(&s, &core(&ns, "pods"), 1).await?;
    let newer = json!({"spec": {"template": template("web", "b")}});
    s.merge(&path, &newer).await?.expect(200)?;
    let mut revisions = listed(&s, &sets, 2).await?.each(REVISION);
    revisions.sort();
    ensure(
        revisions == ["1", "2"],
        format!("revisions are {revisions:?}"),
    )?;
    s.until(&path, "numbered", |it| it.text(REVISION) == "2")
        .await?;
    Ok(())
}

async fn deployments_are_scaled_to_nothing(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/web", apps(&ns, "deployments"));
    let web = workload("Deployment", 2);
    s.post(&apps(&ns, "deployments"), &web).await?.expect(201)?;
    listed(&s, &core(&ns, "pods"), 2).await?;
    let none = json!({"spec": {"replicas": 0}});
    s.merge(&format!("{path}/scale"), &none)
        .await?
        .expect(200)?;
    listed(&s, &core(&ns, "pods"), 0).await?;
    Ok(())
}

async fn sets_adopt_and_let_go_by_labels(s: Site) -> Checked {
    let ns = s.namespace().await?;
    s.until(&core(&ns, "serviceaccounts/default"), "there", |it| {
        it.code == 200
    })
    .await?;
    let own = template("web", "a");
    let stray = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
        "name": "stray", "labels": {"app": "web"}}, "spec": own["spec"]});
    s.post(&core(&ns, "pods"), &stray).await?.expect(201)?;
    let set = workload("ReplicaSet", 1);
    s.post(&apps(&ns, "replicasets"), &set).await?.expect(201)?;
    let stray = core(&ns, "pods/stray");
    let is_owned = |it: &Answer| it.text("/metadata/ownerReferences/0/name") == "web";
    s.until(&stray, "adopted", is_owned).await?;
    let other = json!({"metadata": {"labels": {"app": "other"}}});
    s.merge(&stray, &other).await?.expect(200)?;
    s.until(&stray, "let go", |it| !is_owned(it)).await?;
    listed(&s, &core(&ns, "pods"), 2).await?;
    Ok(())
}

async fn stateful_pods_have_numbers_and_claims(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let mut set = workload("StatefulSet", 1);
    set["spec"]["serviceName"] = json!("web");
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "resources": {"requests": {"storage": "1Mi"}}}}]);
    s.post(&apps(&ns, "statefulsets"), &set)
        .await?
        .expect(201)?;
    let first = core(&ns, "pods/web-0");
    let pod = s.until(&first, "there", |it| it.code == 200).await?;
    pod.is("/spec/hostname", "web-0")?
        .is("/metadata/labels/apps.kubernetes.io~1pod-index", "0")?
        .has("/metadata/labels/controller-revision-hash")?;
    s.get(&core(&ns, "persistentvolumeclaims/data-web-0"))
        .await?
        .expect(200)?;
    listed(&s, &apps(&ns, "controllerrevisions"), 1).await?;
    Ok(())
}

fn job(suspend: bool) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work"}, "spec": {
        "suspend": suspend, "template": {"spec": {
            // Nothing ends while nobody schedules it.
            "schedulingGates": [{"name": "example.org/wait"}],
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
}

fn batch(ns: &str) -> String {
    format!("/apis/batch/v1/namespaces/{ns}/jobs")
}

async fn jobs_mark_and_keep_their_pods(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let made = s.post(&batch(&ns), &job(false)).await?.expect(201)?;
    let uid = made.uid();
    let pods = listed(&s, &core(&ns, "pods"), 1).await?;
    pods.is(
        "/items/0/metadata/labels/batch.kubernetes.io~1job-name",
        "work",
    )?
    .is(
        "/items/0/metadata/labels/batch.kubernetes.io~1controller-uid",
        uid,
    )?
    .is(
        "/items/0/metadata/finalizers/0",
        "batch.kubernetes.io/job-tracking",
    )?;
    Ok(())
}

async fn suspended_jobs_say_so(s: Site) -> Checked {
    let ns = s.namespace().await?;
    s.post(&batch(&ns), &job(true)).await?.expect(201)?;
    let path = format!("{}/work", batch(&ns));
    let told = s
        .until(&path, "suspended", |it| {
            it.text("/status/conditions/0/type") == "Suspended"
        })
        .await?;
    told.is("/status/conditions/0/status", "True")?
        .is("/status/conditions/0/reason", "JobSuspended")?;
    listed(&s, &core(&ns, "pods"), 0).await?;
    s.merge(&path, &json!({"spec": {"suspend": false}}))
        .await?
        .expect(200)?;
    listed(&s, &core(&ns, "pods"), 1).await?;
    Ok(())
}

async fn budgets_count_pods(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let set = workload("ReplicaSet", 2);
    s.post(&apps(&ns, "replicasets"), &set).await?.expect(201)?;
    let path = format!("/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets");
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "a"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    s.post(&path, &budget).await?.expect(201)?;
    let counted = s
        .until(&format!("{path}/a"), "counted", |it| {
            *it.at("/status/expectedPods") == json!(2)
        })
        .await?;
    counted.is("/status/desiredHealthy", 1)?;
    Ok(())
}

async fn roots_are_put_back(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = core(&ns, "configmaps/kube-root-ca.crt");
    let made = s.until(&path, "there", |it| it.code == 200).await?;
    let right = made.text("/data/ca.crt");
    let wrong = json!({"data": {"ca.crt": "wrong"}});
    s.merge(&path, &wrong).await?.expect(200)?;
    s.until(&path, "put back", |it| it.text("/data/ca.crt") == right)
        .await?;
    Ok(())
}

async fn account_secrets_get_tokens(s: Site) -> Checked {
    let ns = s.namespace().await?;
    s.until(&core(&ns, "serviceaccounts/default"), "there", |it| {
        it.code == 200
    })
    .await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "type": "kubernetes.io/service-account-token", "metadata": {
            "name": "token", "annotations": {"kubernetes.io/service-account.name": "default"}}});
    s.post(&core(&ns, "secrets"), &secret).await?.expect(201)?;
    s.until(&core(&ns, "secrets/token"), "filled", |it| {
        !it.text("/data/token").is_empty()
    })
    .await?;
    Ok(())
}
