//! Jobs and their Pods.

use std::time::Duration;

use kite_fake::actors::kind::{JOB, POD};
use kite_fake::actors::{Rule, Rules, Selector, Stage};
use kube::api::{DeleteParams, DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::world::{World, condition};

const SECOND: Duration = Duration::from_secs(1);
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

impl World {
    async fn job(&self, name: &str, spec: Value) {
        let mut spec = spec;
        let template = &mut spec["template"]["spec"];
        if template["restartPolicy"].is_null() {
            template["restartPolicy"] = json!("Never");
        }
        template["containers"] = json!([{"name": "c", "image": "i"}]);
        let body = json!({"metadata": {"name": name}, "spec": spec});
        self.create(&JOB, body).await;
    }

    /// Nothing ends until the rules say so.
    async fn holding() -> Self {
        let world = Self::new().await;
        let hold = Rule::hold(Stage::POD_ENDED, Selector::all());
        world.rules.add(hold);
        world
    }

    /// Pods of all Jobs fail.
    async fn failing(code: &str) -> Self {
        let world = Self::new().await;
        let all = Selector::all();
        world
            .rules
            .add(Rule::fail(Stage::POD_ENDED, all, code, "no luck"));
        world
    }

    async fn phases(&self) -> Vec<String> {
        let pods = self.pods("").await;
        let mut all: Vec<String> = pods
            .iter()
            .map(|it| it.data["status"]["phase"].as_str().unwrap().to_owned())
            .collect();
        all.sort();
        all
    }
}

fn reason<'a>(status: &'a Value, type_: &str) -> &'a str {
    let condition = condition(status, type_);
    assert!(condition.is_null() || condition["status"] == "True");
    condition["reason"].as_str().unwrap_or_default()
}

fn is_tracked(pod: &DynamicObject) -> bool {
    let finalizers = pod.metadata.finalizers.iter().flatten();
    finalizers.into_iter().any(|it| it == FINALIZER)
}

#[tokio::test(start_paused = true)]
async fn a_job_completes_when_its_pods_have() {
    let world = World::with(Rules::instant().with_events()).await;
    world
        .job("j", json!({"completions": 3, "parallelism": 2}))
        .await;
    world.is_quiet().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(
        (&status["succeeded"], &status["active"], &status["ready"]),
        (&json!(3), &Value::Null, &json!(0))
    );
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    assert_eq!(reason(&status, "SuccessCriteriaMet"), "CompletionsReached");
    assert_eq!(reason(&status, "Complete"), "CompletionsReached");
    assert!(status["completionTime"].is_string());
    assert_eq!(world.phases().await, ["Succeeded"; 3]);
    for pod in world.pods("").await {
        assert!(!is_tracked(&pod));
        let labels = pod.metadata.labels.clone().unwrap();
        assert_eq!(labels["batch.kubernetes.io/job-name"], "j");
        assert!(pod.metadata.name.unwrap().starts_with("j-"));
    }
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_has_as_many_pods_as_may_run_at_a_time() {
    let world = World::holding().await;
    world
        .job("j", json!({"completions": 5, "parallelism": 2}))
        .await;
    world.is_quiet().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(
        (&status["active"], &status["ready"]),
        (&json!(2), &json!(2))
    );
    assert!(world.pods("").await.iter().all(is_tracked));
    world
        .merge(&JOB, "j", json!({"spec": {"parallelism": 4}}))
        .await;
    world.is_quiet().await;
    assert_eq!(world.status(&JOB, "j").await["active"], 4);
    world
        .merge(&JOB, "j", json!({"spec": {"parallelism": 1}}))
        .await;
    world.is_quiet().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(
        (&status["active"], &status["failed"]),
        (&json!(1), &Value::Null)
    );
    assert_eq!(world.pods("").await.len(), 1);
    world.rules.clear(Stage::POD_ENDED);
    world.is_quiet().await;
    assert_eq!(world.status(&JOB, "j").await["succeeded"], 5);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_too_often_fails() {
    let world = World::failing("1").await;
    world.job("j", json!({"backoffLimit": 2})).await;
    world.settle().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(status["failed"], 1);
    tokio::time::sleep(11 * SECOND).await;
    assert_eq!(world.status(&JOB, "j").await["failed"], 2);
    tokio::time::sleep(15 * SECOND).await;
    // Twenty seconds this time.
    assert_eq!(world.status(&JOB, "j").await["failed"], 2);
    tokio::time::sleep(10 * SECOND).await;
    world.is_quiet().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(status["failed"], 3);
    assert_eq!(reason(&status, "FailureTarget"), "BackoffLimitExceeded");
    assert_eq!(reason(&status, "Failed"), "BackoffLimitExceeded");
    assert_eq!(world.phases().await, ["Failed"; 3]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn restarts_of_containers_count_as_well() {
    let world = World::failing("1").await;
    let template = json!({"spec": {"restartPolicy": "OnFailure"}});
    world
        .job("j", json!({"backoffLimit": 2, "template": template}))
        .await;
    world.settle().await;
    assert_eq!(world.status(&JOB, "j").await["active"], 1);
    tokio::time::sleep(60 * SECOND).await;
    world.is_quiet().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(reason(&status, "Failed"), "BackoffLimitExceeded");
    assert!(world.pods("").await.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_past_its_deadline_ends_its_pods() {
    let world = World::holding().await;
    world
        .job(
            "j",
            json!({"activeDeadlineSeconds": 30, "parallelism": 2, "completions": 2}),
        )
        .await;
    world.settle().await;
    tokio::time::sleep(31 * SECOND).await;
    world.is_quiet().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(reason(&status, "Failed"), "DeadlineExceeded");
    assert_eq!(
        (&status["failed"], &status["active"]),
        (&json!(2), &Value::Null)
    );
    assert!(world.pods("").await.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods() {
    let world = World::holding().await;
    world.job("j", json!({"suspend": true})).await;
    world.is_quiet().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(reason(&status, "Suspended"), "JobSuspended");
    assert!(status["startTime"].is_null() && world.pods("").await.is_empty());
    world
        .merge(&JOB, "j", json!({"spec": {"suspend": false}}))
        .await;
    world.is_quiet().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(condition(&status, "Suspended")["reason"], "JobResumed");
    assert_eq!(status["active"], 1);
    world
        .merge(&JOB, "j", json!({"spec": {"suspend": true}}))
        .await;
    world.is_quiet().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(
        (&status["active"], &status["failed"]),
        (&Value::Null, &Value::Null)
    );
    assert!(world.pods("").await.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_does_each_index_once() {
    let world = World::new().await;
    let hold = Selector::all().label("batch.kubernetes.io/job-completion-index", "1");
    world.rules.add(Rule::hold(Stage::POD_ENDED, hold));
    let spec = json!({"completionMode": "Indexed", "completions": 5, "parallelism": 2});
    world.job("j", spec).await;
    world.is_quiet().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(
        (
            &status["completedIndexes"],
            &status["succeeded"],
            &status["active"]
        ),
        (&json!("0,2-4"), &json!(4), &json!(1))
    );
    let pods = world.pods("").await;
    let names = pods
        .iter()
        .map(|it| it.data["spec"]["hostname"].as_str().unwrap());
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    assert_eq!(names, ["j-0", "j-1", "j-2", "j-3", "j-4"]);
    // Others take over, and the index is done anew where its Pod is lost.
    let world = world.take_over().await;
    let lost = pods
        .iter()
        .find(|it| it.data["spec"]["hostname"] == "j-1")
        .unwrap();
    world
        .delete(&POD, lost.metadata.name.as_ref().unwrap())
        .await;
    world.rules.clear(Stage::POD_ENDED);
    tokio::time::sleep(11 * SECOND).await;
    world.is_quiet().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(
        (&status["completedIndexes"], &status["failed"]),
        (&json!("0-4"), &json!(1))
    );
    assert_eq!(reason(&status, "Complete"), "CompletionsReached");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn indexes_fail_by_themselves() {
    let world = World::new().await;
    let bad = Selector::all().label("batch.kubernetes.io/job-completion-index", "1");
    world
        .rules
        .add(Rule::fail(Stage::POD_ENDED, bad, "1", "no luck"));
    let spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3,
        "backoffLimitPerIndex": 1});
    world.job("j", spec.clone()).await;
    // There is no limit for all of them together.
    let made = world.get(&JOB, "j").await;
    assert_eq!(made.data["spec"]["backoffLimit"], i32::MAX);
    let mut most = spec;
    most["maxFailedIndexes"] = json!(0);
    world.job("most", most).await;
    world.settle().await;
    tokio::time::sleep(15 * SECOND).await;
    world.is_quiet().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(
        (
            &status["completedIndexes"],
            &status["failedIndexes"],
            &status["failed"]
        ),
        (&json!("0,2"), &json!("1"), &json!(2))
    );
    assert_eq!(reason(&status, "Failed"), "FailedIndexes");
    let status = world.status(&JOB, "most").await;
    assert_eq!(reason(&status, "Failed"), "MaxFailedIndexesExceeded");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_policy_decides_by_exit_codes() {
    let world = World::failing("42").await;
    let policy = |action: &str| {
        json!({"rules": [{"action": action,
        "onExitCodes": {"operator": "In", "values": [42]}}]})
    };
    world
        .job("fails", json!({"podFailurePolicy": policy("FailJob")}))
        .await;
    world
        .job(
            "ignores",
            json!({"podFailurePolicy": policy("Ignore"), "backoffLimit": 0}),
        )
        .await;
    world.settle().await;
    let status = world.status(&JOB, "fails").await;
    assert_eq!(reason(&status, "Failed"), "PodFailurePolicy");
    let told = condition(&status, "Failed")["message"].as_str().unwrap();
    assert!(
        told.starts_with("Container c for pod default/fails-")
            && told.ends_with(" failed with exit code 42 matching FailJob rule at index 0"),
        "{told}"
    );
    tokio::time::sleep(25 * SECOND).await;
    world.settle().await;
    let status = world.status(&JOB, "ignores").await;
    assert!(status["failed"].is_null() && reason(&status, "Failed").is_empty());
    world.rules.clear(Stage::POD_ENDED);
    tokio::time::sleep(60 * SECOND).await;
    world.settle().await;
    let status = world.status(&JOB, "ignores").await;
    assert_eq!(reason(&status, "Complete"), "CompletionsReached");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_success_policy_ends_the_rest() {
    let world = World::new().await;
    let hold = Selector::all().label("batch.kubernetes.io/job-completion-index", "2");
    world.rules.add(Rule::hold(Stage::POD_ENDED, hold));
    let policy = json!({"rules": [{"succeededIndexes": "0-2", "succeededCount": 2}]});
    let spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3,
        "successPolicy": policy});
    world.job("j", spec).await;
    world.is_quiet().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(reason(&status, "Complete"), "SuccessPolicy");
    assert_eq!(
        condition(&status, "Complete")["message"],
        "Matched rules at index 0"
    );
    assert_eq!(
        (&status["succeeded"], &status["failed"]),
        (&json!(2), &Value::Null)
    );
    assert_eq!(world.pods("").await.len(), 2);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_is_replaced_as_the_job_says() {
    let world = World::holding().await;
    world
        .rules
        .add(Rule::hold(Stage::POD_STOPPED, Selector::all()));
    world.job("soon", json!({})).await;
    world
        .job("late", json!({"podReplacementPolicy": "Failed"}))
        .await;
    world.settle().await;
    for pod in world.pods("").await {
        world
            .delete(&POD, pod.metadata.name.as_ref().unwrap())
            .await;
    }
    tokio::time::sleep(15 * SECOND).await;
    world.settle().await;
    assert_eq!(world.status(&JOB, "soon").await["active"], 1);
    let status = world.status(&JOB, "late").await;
    assert_eq!(
        (&status["active"], &status["terminating"]),
        (&Value::Null, &json!(1))
    );
    world.rules.clear(Stage::POD_STOPPED);
    tokio::time::sleep(15 * SECOND).await;
    world.settle().await;
    let status = world.status(&JOB, "late").await;
    assert_eq!(
        (&status["active"], &status["failed"]),
        (&json!(1), &json!(1))
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_finished_job_goes_after_its_time() {
    let world = World::new().await;
    world
        .job("j", json!({"ttlSecondsAfterFinished": 100}))
        .await;
    world
        .job("other", json!({"managedBy": "example.com/other"}))
        .await;
    world.is_quiet().await;
    assert!(world.status(&JOB, "other").await["startTime"].is_null());
    tokio::time::sleep(90 * SECOND).await;
    assert!(world.find(&JOB, "j").await.is_some());
    let world = world.take_over().await;
    tokio::time::sleep(15 * SECOND).await;
    world.settle().await;
    assert!(world.find(&JOB, "j").await.is_none());
    assert!(world.pods("").await.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn no_pod_is_held_by_a_job_that_goes() {
    let world = World::holding().await;
    for (name, how) in [
        ("background", DeleteParams::background()),
        ("foreground", DeleteParams::foreground()),
    ] {
        world
            .job(name, json!({"parallelism": 2, "completions": 4}))
            .await;
        world.settle().await;
        world.delete_by(&JOB, name, &how).await;
        world.is_quiet().await;
        assert!(world.find(&JOB, name).await.is_none(), "{name}");
        assert!(world.pods("").await.is_empty(), "{name}");
    }
    world
        .job("orphan", json!({"parallelism": 2, "completions": 4}))
        .await;
    world.settle().await;
    let orphan = DeleteParams {
        propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    world.delete_by(&JOB, "orphan", &orphan).await;
    world.is_quiet().await;
    assert!(world.find(&JOB, "orphan").await.is_none());
    let pods = world.pods("").await;
    assert_eq!(pods.len(), 2);
    assert!(
        pods.iter()
            .all(|it| !is_tracked(it) && it.metadata.owner_references.is_none())
    );
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_never_got_a_node_holds_nothing_up() {
    let world = World::new().await;
    world
        .rules
        .add(Rule::hold(Stage::POD_SCHEDULED, Selector::all()));
    world
        .job(
            "j",
            json!({"podReplacementPolicy": "Failed", "backoffLimit": 0}),
        )
        .await;
    world.settle().await;
    for pod in world.pods("").await {
        world
            .delete(&POD, pod.metadata.name.as_ref().unwrap())
            .await;
    }
    world.is_quiet().await;
    let status = world.status(&JOB, "j").await;
    assert_eq!(reason(&status, "Failed"), "BackoffLimitExceeded");
    assert!(world.pods("").await.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_jobs_goes() {
    let world = World::holding().await;
    let namespace = kite_fake::actors::kind::NAMESPACE;
    world
        .create(&namespace, json!({"metadata": {"name": "n"}}))
        .await;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec":
        {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}]}}}});
    let job: DynamicObject = serde_json::from_value(job).unwrap();
    let api = JOB.api(&world.cluster.client(), Some("n"));
    api.create(&PostParams::default(), &job).await.unwrap();
    world.settle().await;
    let api = namespace.api(&world.cluster.client(), None);
    api.delete("n", &DeleteParams::default()).await.unwrap();
    world.settle().await;
    assert!(world.find(&namespace, "n").await.is_none());
    world.end().await;
}
