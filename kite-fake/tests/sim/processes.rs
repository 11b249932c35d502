//! Who shares a process with whom, and what that means in a crash.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kite_fake::fault::{Fault, Plan};
use kite_fake::sim::{Builder, Controller, Simulation, World};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::runtime::watcher;
use serde_json::json;

/// A controller that puts a label of its own on each map.
fn labels(name: &'static str, copies: usize) -> Controller<ConfigMap> {
    let controller = Controller::new(name, move |client: kube::Client| {
        move |map: Arc<ConfigMap>| {
            let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
            async move {
                let label = json!({"metadata": {"labels": {name: "seen"}}});
                let object = map.metadata.name.clone().unwrap_or_default();
                let patch = Patch::Merge(label);
                maps.patch(&object, &PatchParams::default(), &patch).await?;
                maps.list(&ListParams::default()).await?;
                Ok::<_, kube::Error>(Action::await_change())
            }
        }
    });
    let semantic = watcher::Config::default().any_semantic();
    controller.watching(semantic).replicas(copies)
}

fn stage(copies: usize) -> Builder {
    Simulation::builder()
        .controller(labels("left", copies))
        .controller(labels("right", copies))
        .scenario(async |world: World| {
            let mut map = ConfigMap::default();
            map.metadata.name = Some("a".to_owned());
            map.metadata.namespace = Some("default".to_owned());
            world.create(&map).await?;
            world.settle().await
        })
}

fn first_write(fault: Fault) -> Plan {
    Plan::first("left writes", fault, |call| {
        call.is_write() && ["left", "left-1"].contains(&call.participant.as_str())
    })
}

/// What happened until the world was settled: at the end all begin anew.
fn until_settled(trace: &str) -> &str {
    let end = trace.split_once("everybody begins anew");
    end.expect("it is looked at in the end").0
}

/// How often each controller was gone until then.
fn crashes(trace: &str) -> Vec<(&str, usize)> {
    let trace = until_settled(trace);
    let gone = " is gone, with all it had in memory";
    let count = |name: &str| trace.matches(&format!(" {name}{gone}")).count();
    let all = ["left", "right", "left-1", "right-1", "left-2", "right-2"];
    let all = all.into_iter().map(|name| (name, count(name)));
    all.filter(|(_, count)| *count > 0).collect()
}

#[test]
fn controllers_of_one_process_are_gone_together() {
    for fault in [Fault::CrashBeforeSend, Fault::CrashAfterCommit] {
        let alone = stage(1).build().run(first_write(fault), 0);
        assert_eq!(crashes(&alone.trace), [("left", 1)]);
        let simulation = stage(1).one_process().build();
        let together = simulation.run(first_write(fault), 0);
        assert_eq!(crashes(&together.trace), [("left", 1), ("right", 1)]);
        let starts = until_settled(&together.trace).matches("right starts");
        assert_eq!(starts.count(), 2);
        assert!(together.violations.is_empty(), "{:?}", together.violations);
        assert_eq!(together.compare(&simulation.reference(0)), []);
    }
}

#[test]
fn controllers_of_one_process_can_be_tried_apart() {
    let together = stage(1).one_process().build();
    let apart = together.apart();
    let run = apart.run(first_write(Fault::CrashAfterCommit), 0);
    assert_eq!(crashes(&run.trace), [("left", 1)]);
    assert!(Arc::ptr_eq(&together.reference(0), &apart.reference(0)));
    assert_eq!(run.compare(&apart.reference(0)), []);
}

#[test]
fn a_restart_by_order_ends_everybody() {
    let simulation = stage(1).scenario(async |world: World| {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".to_owned());
        map.metadata.namespace = Some("default".to_owned());
        world.create(&map).await?;
        // Until both have begun, and one of them has written.
        world.steps(8).await?;
        world.restart().await;
        world.settle().await
    });
    let run = simulation.build().run(Plan::none(), 0);
    assert_eq!(crashes(&run.trace), [("left", 1), ("right", 1)]);
    assert!(run.violations.is_empty(), "{:?}", run.violations);
    assert!(run.is_settled);
}

#[test]
fn of_several_copies_only_those_of_one_process_are_gone() {
    let simulation = stage(2).one_process().build();
    let run = simulation.run(first_write(Fault::CrashAfterCommit), 0);
    assert_eq!(crashes(&run.trace), [("left-1", 1), ("right-1", 1)]);
    assert!(run.violations.is_empty(), "{:?}", run.violations);
}

#[test]
fn the_whole_process_begins_again_in_the_past() {
    let simulation = stage(1).one_process().build();
    let run = simulation.run(first_write(Fault::StaleRestart), 0);
    assert_eq!(crashes(&run.trace), [("left", 1), ("right", 1)]);
    let again = run.trace.split("right is gone").nth(1).unwrap();
    let listed = again
        .lines()
        .find(|line| line.contains("right hears: ConfigMap listed"));
    // As it was before the write: that the map is there, and not yet labelled.
    assert!(
        listed.is_some_and(|line| line.ends_with("1 there")),
        "{again}"
    );
    assert!(again.contains("late events reach right"), "{again}");
    assert!(run.violations.is_empty(), "{:?}", run.violations);
}

#[test]
fn a_sweep_tells_of_findings_as_they_come() {
    let simulation = stage(1)
        .always("nobody writes", |_, event| event.by == "scenario")
        .build();
    let told = std::sync::Mutex::new(Vec::new());
    let summary = simulation
        .sweep()
        .faults(&[Fault::ServerError])
        .on_finding(|finding| told.lock().unwrap().push(finding.to_string()))
        .run();
    // That of the run without faults, of which nothing went wrong by order, too.
    let mut expected: Vec<String> = summary.findings.iter().map(ToString::to_string).collect();
    let mut told = told.into_inner().unwrap();
    expected.sort();
    told.sort();
    assert!(!expected.is_empty());
    assert_eq!(told, expected);
}
