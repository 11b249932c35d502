//! Rules of what runs, or is asked, later: what is wrong is refused when it is written.

use serde_json::{Value, json};

use crate::Checked;
use crate::site::Site;

table! { Kinds;
    jobs_go_together:
        "Numbers and policies of a Job that do not go together are told at once, each by its field.",
        "A Job that cannot end would be found much later.";
    a_job_selects_its_own_pods:
        "A selector that somebody chose is refused unless manualSelector says so.",
        "Two Jobs would count each other's Pods.";
    a_job_ends_with_a_reason:
        "A status that ends a Job without the condition that says why is refused.",
        "Controllers of others write it, by managedBy.";
    schedules_are_read:
        "What cannot be read of a CronJob's schedule is told by its part.",
        "It would never run.";
    webhooks_say_what_they_do:
        "A webhook without sideEffects, versions and one place where it is reached is refused.",
        "It would be called in vain by every request.";
    expressions_compile:
        "A policy whose expression knows no such variable, or comes to no bool, is refused.",
        "Every request would fail by it.";
    controllers_select_what_they_make:
        "A ReplicationController whose selector does not take its template is refused.",
        "It would make Pods without end.";
    groups_are_served_under_their_names:
        "An APIService has the name of its version and group.",
        "Two could serve the same.";
}

fn template(policy: &str) -> Value {
    json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]}})
}

fn job(more: Value) -> Value {
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"template": template("Never")}});
    for (member, value) in more.as_object().into_iter().flatten() {
        job["spec"][member] = value.clone();
    }
    job
}

fn jobs(ns: &str) -> String {
    format!("/apis/batch/v1/namespaces/{ns}/jobs")
}

async fn jobs_go_together(s: Site) -> Checked {
    let ns = s.namespace().await?;
    for (more, wrong) in [
        (
            json!({"completionMode": "Indexed", "parallelism": 2}),
            "spec.completions: Required value: when completion mode is Indexed",
        ),
        (
            json!({"backoffLimitPerIndex": 1}),
            "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
        ),
        (
            json!({"podFailurePolicy": {"rules": [{"action": "FailJob",
                "onExitCodes": {"operator": "In", "values": [0]}}]}}),
            "spec.podFailurePolicy.rules[0].onExitCodes.values[0]: Invalid value: 0: must not be 0 for the In operator",
        ),
        (
            json!({"completionMode": "Indexed", "completions": 2,
                "successPolicy": {"rules": [{"succeededCount": 3}]}}),
            "must be less than or equal to 2 (the number of specified completions)",
        ),
        (
            json!({"managedBy": "me"}),
            "spec.managedBy: Invalid value: \"me\": must be a domain-prefixed path (such as \"acme.io/foo\")",
        ),
    ] {
        let answer = s.post(&jobs(&ns), &job(more)).await?;
        answer.refused(422, "Invalid")?.says(wrong)?;
    }
    Ok(())
}

async fn a_job_selects_its_own_pods(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let chosen = job(json!({"selector": {"matchLabels": {"a": "b"}}}));
    s.post(&jobs(&ns), &chosen)
        .await?
        .refused(422, "Invalid")?
        .says("`selector` not auto-generated")?;
    let meant = job(json!({"manualSelector": true, "suspend": true,
        "selector": {"matchLabels": {"a": "b"}}}));
    s.post(&jobs(&ns), &meant).await?.expect(201)?;
    Ok(())
}

async fn a_job_ends_with_a_reason(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let others = job(json!({"managedBy": "example.com/somebody"}));
    s.post(&jobs(&ns), &others).await?.expect(201)?;
    let path = format!("{}/j/status", jobs(&ns));
    let (start, end) = ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
    let conditions = |types: &[&str]| -> Vec<Value> {
        let all = types.iter();
        all.map(|it| json!({"type": it, "status": "True"}))
            .collect()
    };
    let ended = |types: &[&str]| {
        json!({"status": {"startTime": start, "completionTime": end, "succeeded": 1,
            "conditions": conditions(types)}})
    };
    s.merge(&path, &ended(&["Complete"]))
        .await?
        .refused(422, "Invalid")?
        .says("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")?;
    s.merge(&path, &ended(&["SuccessCriteriaMet", "Complete"]))
        .await?
        .expect(200)?;
    s.merge(&path, &json!({"status": {"conditions": []}}))
        .await?
        .refused(422, "Invalid")?
        .says("cannot disable the terminal Complete=True condition")?;
    Ok(())
}

async fn schedules_are_read(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("/apis/batch/v1/namespaces/{ns}/cronjobs");
    for (schedule, wrong) in [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        (
            "*/0 * * * *",
            "step of range should be a positive number: */0",
        ),
        ("@sometimes", "unrecognized descriptor: @sometimes"),
    ] {
        let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"},
            "spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": template("Never")}}}});
        s.post(&path, &cron)
            .await?
            .refused(422, "Invalid")?
            .says(wrong)?;
    }
    Ok(())
}

async fn webhooks_say_what_they_do(s: Site) -> Checked {
    let name = s.unique();
    let hook = json!({"name": "a.b", "clientConfig": {}, "admissionReviewVersions": []});
    let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [hook]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?dryRun=All";
    let answer = s.post(path, &configuration).await?;
    let mut refused = answer.refused(422, "Invalid")?;
    for wrong in [
        "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
        "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
    ] {
        refused = refused.says(wrong)?;
    }
    Ok(())
}

async fn expressions_compile(s: Site) -> Checked {
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies?dryRun=All";
    let policy = |expression: &str| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy", "metadata": {"name": s.unique()}, "spec": {
                "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
                    "operations": ["CREATE"], "resources": ["configmaps"]}]},
                "validations": [{"expression": expression}]}})
    };
    for (expression, wrong) in [
        ("objects.data == null", "undeclared reference to 'objects'"),
        ("request.nothing == ''", "undefined field 'nothing'"),
        ("object.data.a", "must evaluate to bool"),
        ("object.data.a ==", "compilation failed"),
    ] {
        s.post(path, &policy(expression))
            .await?
            .refused(422, "Invalid")?
            .says(wrong)?;
    }
    let fine = "request.namespace == 'a' || object.data.a == 'b'";
    s.post(path, &policy(fine)).await?.expect(201)?;
    Ok(())
}

async fn controllers_select_what_they_make(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("/api/v1/namespaces/{ns}/replicationcontrollers");
    let controller = |selector: Value| {
        json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "r"},
            "spec": {"replicas": 0, "selector": selector, "template": template("Always")}})
    };
    s.post(&path, &controller(json!({"a": "c"})))
        .await?
        .refused(422, "Invalid")?
        .says("`selector` does not match template `labels`")?;
    s.post(&path, &controller(json!({})))
        .await?
        .expect(201)?
        .is("/spec/selector/a", "b")?;
    Ok(())
}

async fn groups_are_served_under_their_names(s: Site) -> Checked {
    let service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": s.unique()}, "spec": {"group": "a.example.com", "version": "v1"}});
    let path = "/apis/apiregistration.k8s.io/v1/apiservices?dryRun=All";
    let answer = s.post(path, &service).await?;
    answer
        .refused(422, "Invalid")?
        .says("must be `spec.version+\".\"+spec.group`: \"v1.a.example.com\"")?
        .says(
            "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
        )?;
    Ok(())
}
