//! Jobs by the clock.

use std::sync::Arc;
use std::time::Duration;

use kite_fake::FakeCluster;
use kite_fake::actors::kind::{CRON_JOB, JOB};
use kite_fake::actors::{Rule, Rules, Selector, Stage};
use kite_fake::clock::TokioClock;
use serde_json::{Value, json};

use crate::world::World;

const MINUTE: Duration = Duration::from_secs(60);

/// A cluster that begins at a quarter past ten, UTC.
async fn world() -> World {
    let clock = TokioClock::starting_at("2026-11-21T10:15:30Z".parse().unwrap());
    let cluster = FakeCluster::builder().clock(clock).build().unwrap();
    World::on(cluster, Arc::new(Rules::instant())).await
}

impl World {
    async fn cron(&self, name: &str, schedule: &str, more: Value) {
        let mut spec = json!({"schedule": schedule, "jobTemplate": {"spec": {"template": {"spec":
            {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let body = json!({"metadata": {"name": name}, "spec": spec});
        self.create(&CRON_JOB, body).await;
        self.settle().await;
    }

    async fn after(&self, time: Duration) {
        tokio::time::sleep(time).await;
        self.settle().await;
    }

    async fn jobs(&self) -> Vec<String> {
        let jobs = self.list(&JOB).await;
        jobs.into_iter().filter_map(|it| it.metadata.name).collect()
    }

    fn hold(&self) {
        let hold = Rule::hold(Stage::POD_ENDED, Selector::all());
        self.rules.add(hold);
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_are_made_when_it_is_time_and_some_are_kept() {
    let world = world().await;
    world
        .cron(
            "c",
            "*/10 * * * *",
            json!({"successfulJobsHistoryLimit": 2}),
        )
        .await;
    world.is_quiet().await;
    assert!(world.jobs().await.is_empty());
    world.after(5 * MINUTE).await;
    // Twenty past ten, in minutes.
    assert_eq!(world.jobs().await, ["c-29920940"]);
    let status = world.status(&CRON_JOB, "c").await;
    assert_eq!(status["lastScheduleTime"], "2026-11-21T10:20:00Z");
    assert_eq!(status["lastSuccessfulTime"], "2026-11-21T10:20:00Z");
    assert!(status["active"].is_null());
    world.after(30 * MINUTE).await;
    assert_eq!(world.jobs().await, ["c-29920960", "c-29920970"]);
    world.is_quiet().await;
    world.delete(&CRON_JOB, "c").await;
    world.settle().await;
    assert!(world.jobs().await.is_empty());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn zones_and_suspension_are_heeded() {
    let world = world().await;
    // Half past ten there is half past nine here.
    world
        .cron(
            "berlin",
            "30 11 * * *",
            json!({"timeZone": "Europe/Berlin"}),
        )
        .await;
    world.cron("utc", "30 11 * * *", json!({})).await;
    world
        .cron("none", "30 10 * * *", json!({"suspend": true}))
        .await;
    world.after(20 * MINUTE).await;
    assert_eq!(world.jobs().await, ["berlin-29920950"]);
    let job = world.get(&JOB, "berlin-29920950").await;
    let at = &job.metadata.annotations.unwrap()["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(at, "2026-11-21T11:30:00+01:00");
    // What was missed while it was suspended is made up for.
    world
        .merge(&CRON_JOB, "none", json!({"spec": {"suspend": false}}))
        .await;
    world.settle().await;
    assert_eq!(world.jobs().await.len(), 2);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_policy_says_what_becomes_of_the_one_before() {
    let world = world().await;
    world.hold();
    for (name, policy) in [
        ("allow", "Allow"),
        ("forbid", "Forbid"),
        ("replace", "Replace"),
    ] {
        world
            .cron(name, "*/10 * * * *", json!({"concurrencyPolicy": policy}))
            .await;
    }
    world.after(15 * MINUTE).await;
    assert_eq!(
        world.jobs().await,
        [
            "allow-29920940",
            "allow-29920950",
            "forbid-29920940",
            "replace-29920950"
        ]
    );
    let active = async |name: &str| {
        let status = world.status(&CRON_JOB, name).await;
        status["active"].as_array().map_or(0, Vec::len)
    };
    assert_eq!((active("allow").await, active("replace").await), (2, 1));
    // Once the one before is over, the one that was put off comes.
    world.rules.clear(Stage::POD_ENDED);
    world.settle().await;
    assert!(world.jobs().await.contains(&"forbid-29920950".to_owned()));
    world.is_quiet().await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_made_up_for_within_its_time() {
    let world = world().await;
    world.cron("any", "0 11 * * *", json!({})).await;
    world
        .cron("soon", "0 11 * * *", json!({"startingDeadlineSeconds": 60}))
        .await;
    // Nobody is there at eleven.
    let world = world.away(60 * MINUTE).await;
    assert_eq!(world.jobs().await, ["any-29920980"]);
    assert!(world.status(&CRON_JOB, "soon").await["lastScheduleTime"].is_null());
    world.is_quiet().await;
    world.end().await;
}
