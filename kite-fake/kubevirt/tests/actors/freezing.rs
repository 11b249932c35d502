//! File systems that a guest's agent keeps still.

use std::time::Duration;

use kite_fake::actors::kind::POD;
use kite_fake::actors::storage::{STILL, annotation};
use kite_fake::actors::{Rule, Selector};
use kite_fake_kubevirt::kinds::{INSTANCE, MIGRATION, VIRTUAL_MACHINE};
use kite_fake_kubevirt::stages;
use serde_json::{Value, json};

use crate::world::{World, text};

const NS: Option<&str> = Some("default");

async fn world() -> World {
    let world = World::new().await;
    let vm = json!({"metadata": {"name": "v"}, "spec": {
        "runStrategy": "Always",
        "template": {"spec": {"domain": {
            "devices": {"interfaces": [{"name": "default", "masquerade": {}}]},
            "memory": {"guest": "64Mi"},
        }, "networks": [{"name": "default", "pod": {}}]}},
    }});
    world.create(&VIRTUAL_MACHINE, NS, vm).await;
    world.settle().await;
    world
}

fn freeze(timeout: &str) -> Value {
    json!({"unfreezeTimeout": timeout})
}

async fn ask(world: &World, verb: &str, body: Value) -> Result<String, (u16, String)> {
    let path = format!("virtualmachineinstances/v/{verb}");
    world.ask(&path, body).await
}

/// Whether they are, by the launcher that is not over; and what the status says.
async fn is_still(world: &World) -> (bool, bool) {
    let pods = world.list(&POD, NS).await;
    let mut running = pods
        .iter()
        .filter(|pod| text(pod, "/status/phase") == "Running");
    let is_still = running.any(|pod| annotation(pod, STILL).is_some());
    let instance = world.get(&INSTANCE, NS, "v").await.unwrap();
    (
        is_still,
        text(&instance, "/status/fsFreezeStatus") == "frozen",
    )
}

#[tokio::test(start_paused = true)]
async fn they_go_on_by_themselves_after_the_time_of_the_first_request() {
    let world = world().await;
    ask(&world, "freeze", freeze("30s")).await.unwrap();
    world.settle().await;
    assert_eq!(is_still(&world).await, (true, true));
    tokio::time::sleep(Duration::from_secs(20)).await;
    // A second request is fine, and does not begin the time anew.
    ask(&world, "freeze", freeze("1h")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(is_still(&world).await, (true, true));
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.settle().await;
    assert_eq!(is_still(&world).await, (false, false));

    // Never, where that is asked for.
    ask(&world, "freeze", freeze("0s")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10_000)).await;
    assert_eq!(is_still(&world).await, (true, true));
    ask(&world, "unfreeze", Value::Null).await.unwrap();
    world.settle().await;
    assert_eq!(is_still(&world).await, (false, false));
    ask(&world, "unfreeze", Value::Null).await.unwrap();
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_status_hears_of_it_later() {
    let world = world().await;
    let seen = |seconds| {
        let delay = Duration::from_secs(seconds);
        Rule::delay(stages::FREEZE_SEEN, Selector::all(), delay)
    };
    world.rules.add(seen(5));
    ask(&world, "freeze", freeze("1m")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(is_still(&world).await, (true, false));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(is_still(&world).await, (true, true));
    ask(&world, "unfreeze", Value::Null).await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(is_still(&world).await, (false, true));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(is_still(&world).await, (false, false));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_frozen_is_refused_in_kubevirt_s_words() {
    let world = world().await;
    let refused = |code: u16, why: &str| Err((code, why.to_owned()));
    let handler = |message: &str| {
        let said = format!(
            "Internal error occurred: unexpected return code 400 (400 Bad Request), message: \
             {message}"
        );
        Err((500, said))
    };
    let unset = "Unfreeze timeout in freeze request is not set";
    assert_eq!(ask(&world, "freeze", Value::Null).await, handler(unset));
    assert_eq!(ask(&world, "freeze", json!({})).await, handler(unset));
    let unread = "failed to unmarshal unfreeze timeout";
    assert_eq!(ask(&world, "freeze", freeze("soon")).await, handler(unread));

    let (stage, selector) = (stages::GUEST_FROZEN, Selector::named("v"));
    let hung = Rule::fail(stage, selector, "Hung", "guest-fsfreeze-freeze failed");
    world.rules.add(hung);
    let failed = ask(&world, "freeze", freeze("1m")).await;
    assert_eq!(failed, handler("guest-fsfreeze-freeze failed"));
    world.rules.clear(stages::GUEST_FROZEN);

    world
        .rules
        .add(Rule::hold(stages::MIGRATION_DONE, Selector::all()));
    let migration = json!({"metadata": {"name": "m"}, "spec": {"vmiName": "v"}});
    world.create(&MIGRATION, NS, migration).await;
    world.settle().await;
    let moving = "failed to freeze VMI, VMI is currently during migration";
    assert_eq!(ask(&world, "freeze", freeze("1m")).await, handler(moving));
    world.rules.clear(stages::MIGRATION_DONE);
    world.settle().await;

    let off = json!({"spec": {"runStrategy": "Halted"}});
    world
        .rules
        .add(Rule::hold(stages::GUEST_BOOTED, Selector::all()));
    world.merge(&VIRTUAL_MACHINE, NS, "v", off).await;
    world.settle().await;
    let on = json!({"spec": {"runStrategy": "Always"}});
    world.merge(&VIRTUAL_MACHINE, NS, "v", on).await;
    world.settle().await;
    let why = "Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io \"v\": VM is \
               not running";
    assert_eq!(ask(&world, "freeze", freeze("1m")).await, refused(409, why));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_move_nobody_lets_them_go_by_himself() {
    let world = world().await;
    ask(&world, "freeze", freeze("1m")).await.unwrap();
    world.settle().await;
    let migration = json!({"metadata": {"name": "m"}, "spec": {"vmiName": "v"}});
    world.create(&MIGRATION, NS, migration).await;
    world.settle().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    world.settle().await;
    assert_eq!(is_still(&world).await, (true, true));
    ask(&world, "unfreeze", Value::Null).await.unwrap();
    world.settle().await;
    assert_eq!(is_still(&world).await, (false, false));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_takes_as_long_as_the_agent() {
    let world = world().await;
    let delay = Duration::from_secs(40);
    let slow = Rule::delay(stages::GUEST_FROZEN, Selector::all(), delay);
    world.rules.add(slow);
    let asked = ask(&world, "freeze", freeze("1m"));
    let late = tokio::time::timeout(Duration::from_secs(30), asked).await;
    assert!(late.is_err(), "it is answered when it is done");
    let before = tokio::time::Instant::now();
    ask(&world, "freeze", freeze("1m")).await.unwrap();
    assert!(before.elapsed() >= delay);
    world.end().await;
}
