//! Settling, time, and what a run tells.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kite_fake::fault::{Fault, Plan};
use kite_fake::sim::{Controller, Rule, ScenarioError, Simulation, World};
use kite_fake::store::Change;
use kube::Api;
use kube::api::DeleteParams;
use kube::runtime::controller::Action;
use serde_json::json;

use crate::operator::{Flaw, controller, simulation, site, stage};

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.namespace = Some("default".to_owned());
    map
}

/// A controller that does what `answer` says, whatever it is asked.
fn idle(
    answer: impl Fn() -> Result<Action, String> + Clone + Send + Sync + 'static,
) -> Controller<ConfigMap> {
    Controller::new("idle", move |_| {
        let answer = answer.clone();
        move |_: Arc<ConfigMap>| std::future::ready(answer())
    })
}

fn with(controller: Controller<ConfigMap>) -> Simulation {
    Simulation::builder()
        .controller(controller)
        .scenario(async |world| {
            world.create(&map("a")).await?;
            world.settle().await
        })
        .build()
}

#[test]
fn a_timer_that_is_far_off_is_not_waited_for_and_a_near_one_only_for_a_while() {
    let hourly = with(idle(|| Ok(Action::requeue(Duration::from_secs(3600)))));
    let run = hourly.run(Plan::none(), 0);
    assert!(
        run.is_settled && run.violations.is_empty(),
        "{:?}",
        run.violations
    );
    assert!(run.elapsed < Duration::from_secs(1), "{:?}", run.elapsed);

    let every_second = with(idle(|| Ok(Action::requeue(Duration::from_secs(1)))));
    let run = every_second.run(Plan::none(), 0);
    assert!(
        run.is_settled && run.violations.is_empty(),
        "{:?}",
        run.violations
    );
    assert!(run.elapsed > Duration::from_secs(100), "{:?}", run.elapsed);
}

#[test]
fn who_fails_again_and_again_is_named() {
    let run = with(idle(|| Err("no luck".to_owned()))).run(Plan::none(), 0);
    assert!(!run.is_settled);
    let [violation] = run.violations.as_slice() else {
        panic!("{:?}", run.violations);
    };
    assert_eq!(violation.rule, Rule::Settles);
    let words = "times in a row, last: no luck";
    assert!(
        violation.text.contains("idle: default/a failed"),
        "{violation}"
    );
    assert!(violation.text.contains(words), "{violation}");
}

#[test]
fn who_never_returns_is_named() {
    let stuck = Controller::new("stuck", |_| {
        |_: Arc<ConfigMap>| std::future::pending::<Result<Action, String>>()
    });
    let run = with(stuck).run(Plan::none(), 0);
    let text = &run.violations[0].text;
    assert!(text.ends_with("stuck: reconciles default/a"), "{text}");
}

#[test]
fn time_passes_as_the_scenario_wants() {
    let simulation = Simulation::builder()
        .controller(idle(|| Ok(Action::requeue(Duration::from_secs(600)))))
        .scenario(async |world| {
            world.create(&map("a")).await?;
            world.settle().await?;
            world.run_for(Duration::from_secs(3600)).await
        })
        .build();
    let run = simulation.run(Plan::none(), 0);
    let passes = run.trace.matches("idle reconciles default/a").count();
    // Once for the object, six times by its timer, the second look, and that of who
    // begins anew.
    assert_eq!(passes, 9, "{}", run.trace);
}

#[test]
fn more_time_than_it_may_take_to_settle_can_pass() {
    let simulation = Simulation::builder()
        .timeout(Duration::from_secs(60))
        .max_steps(5)
        .controller(idle(|| Ok(Action::requeue(Duration::from_secs(90)))))
        .scenario(async |world| {
            world.create(&map("a")).await?;
            world.settle().await?;
            world.run_for(Duration::from_secs(3600)).await
        })
        .build();
    let run = simulation.run(Plan::none(), 0);
    assert!(run.is_settled, "{:?}", run.violations);
}

/// A site whose map the scenario deletes, by its client or by one of the cluster.
fn without_its_map(by_client: bool) -> Simulation {
    let scenario = move |world: World| async move {
        world.create(&site("a")).await?;
        world.settle().await?;
        if by_client {
            let maps: Api<ConfigMap> = Api::namespaced(world.client().clone(), "default");
            maps.delete("config-a", &DeleteParams::default()).await?;
        } else {
            let maps: Api<ConfigMap> = Api::namespaced(world.cluster().client(), "default");
            maps.delete("config-a", &DeleteParams::default()).await?;
        }
        world.settle().await?;
        let found = world.get::<ConfigMap>("default", "config-a").await?;
        world.expect(found.is_some(), "it is made again").await;
        Ok(())
    };
    stage()
        .controller(controller(Flaw::None))
        .scenario(scenario)
        .always("only the scenario deletes", |_, event| {
            event.change != Change::Deleted || event.by == "scenario"
        })
        .build()
}

#[test]
fn what_the_scenario_does_by_itself_is_heard_and_is_its_own_doing() {
    for by_client in [true, false] {
        let run = without_its_map(by_client).run(Plan::none(), 0);
        assert_eq!(run.violations, [], "{}", run.trace);
    }
}

#[test]
fn a_fault_that_finds_no_request_is_told() {
    let plan = Plan::at(1, Fault::TooManyRequests).and_at(5_000, Fault::Conflict);
    let run = simulation(Flaw::None).run(plan, 0);
    let [violation] = run.violations.as_slice() else {
        panic!("{:?}", run.violations);
    };
    assert_eq!(violation.rule, Rule::Unfired);
    let words = "\"409 Conflict, not applied\" at request 5000 never happened";
    assert!(violation.text.starts_with(words), "{violation}");
}

#[test]
fn faults_are_over_when_the_settled_world_is_looked_at_once_more() {
    let plan = || Plan::random(3, 150, &[Fault::RivalEdits, Fault::ResetAfterCommit]);
    let simulation = simulation(Flaw::None);
    let run = simulation.run(plan(), 0);
    let last = run.injected.last().unwrap().number;
    assert!(last <= u64::try_from(run.requests.len()).unwrap());
    assert_eq!(run.violations, [], "{}", run.trace);
}

#[test]
fn a_restored_state_leaves_a_gap_that_is_told() {
    let simulation = Simulation::builder().scenario(async |world| {
        let before = world.cluster().snapshot();
        world.create(&map("a")).await?;
        world.cluster().restore(&before);
        world.settle().await
    });
    let run = simulation.build().run(Plan::none(), 0);
    let told = |v: &kite_fake::sim::Violation| v.text.starts_with("what became of configmaps");
    assert!(run.violations.iter().any(told), "{:?}", run.violations);
}

#[test]
fn a_scenario_that_fails_or_panics_is_a_violation() {
    let failing = Simulation::builder().scenario(async |world| {
        world.create(&map("Not A Name")).await?;
        Ok(())
    });
    let run = failing.build().run(Plan::none(), 0);
    let text = &run.violations[0].text;
    assert!(
        text.starts_with("the scenario stops: create ConfigMap"),
        "{text}"
    );

    let panicking =
        Simulation::builder().scenario(async |_| -> Result<(), ScenarioError> { panic!("oh") });
    let run = panicking.build().run(Plan::none(), 0);
    assert_eq!(run.violations[0].text, "the scenario panics: oh");
}

#[test]
fn an_object_whose_owner_is_gone_is_an_orphan() {
    let simulation = Simulation::builder().scenario(async |world| {
        let mut left = map("b");
        let owner = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "a",
            "uid": "00000000-0000-4000-8000-000000000000",
        });
        left.metadata.owner_references = Some(vec![serde_json::from_value(owner).unwrap()]);
        world.create(&left).await?;
        world.settle().await
    });
    let run = simulation.build().run(Plan::none(), 0);
    let violation = &run.violations[0];
    assert_eq!(violation.rule, Rule::Orphan);
    let text = "ConfigMap default/b is owned by ConfigMap a, which is gone or was replaced";
    assert_eq!(violation.text, text);
}

#[test]
fn a_finding_says_what_is_wrong_under_which_fault_and_how_to_see_it_again() {
    let simulation = simulation(Flaw::StatusFirst);
    let reference = simulation.run(Plan::none(), 0);
    let number = reference
        .requests
        .iter()
        .position(|call| call.subresource == "status")
        .unwrap();
    let number = u64::try_from(number).unwrap() + 1;
    let run = simulation.run(Plan::at(number, Fault::CrashAfterCommit), 0);
    let text = run.check(&reference).unwrap_err().to_string();
    let first = format!(
        "request {number} (sites: patch sites.x.io/status default/a): crash after commit:\n"
    );
    assert!(text.starts_with(&first), "{text}");
    assert!(
        text.contains("time, ConfigMap default/config-a is missing\n"),
        "{text}"
    );
    let last = format!("simulation.run(Plan::at({number}, Fault::CrashAfterCommit), 0).trace);\n");
    assert!(text.ends_with(&last), "{text}");
}
