//! The sweep finds what is wrong with an operator, and nothing in one that is
//! right.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kite_fake::fault::{Fault, Plan};
use kite_fake::sim::{Controller, Rule, Simulation, Summary, World};
use kite_fake::store::Change;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use crate::operator::{Flaw, controller, life, short_life, simulation, site, stage};

fn sweep(flaw: Flaw, faults: &[Fault]) -> Summary {
    simulation(flaw).sweep().faults(faults).run()
}

#[track_caller]
fn assert_found(summary: &Summary, rule: Rule, words: &str) {
    let found = summary.findings.iter().any(|finding| {
        let mut violations = finding.violations.iter();
        violations.any(|violation| violation.rule == rule && violation.text.contains(words))
    });
    assert!(found, "no {rule:?} with {words:?} in {summary}");
}

#[test]
fn the_operator_that_is_right_survives_every_fault_at_every_request() {
    let short = stage()
        .controller(controller(Flaw::None))
        .scenario(short_life);
    let summary = short.build().sweep().run();
    println!("{summary}");
    assert!(summary.is_clean(), "{summary}");
    assert!(summary.injected > 100, "{summary}");
    for fault in Fault::ALL {
        assert!(
            summary.faults[fault].0 > 0,
            "{fault} was never injected: {summary}"
        );
    }
}

#[test]
fn the_operator_that_is_right_survives_any_order_of_steps() {
    let simulation = simulation(Flaw::None);
    let summary = simulation.sweep().seeds(0..8).faults(&[]).run();
    assert!(summary.is_clean(), "{summary}");
    let crashes = simulation
        .sweep()
        .seeds([7])
        .faults(&[Fault::CrashAfterCommit]);
    let crashes = crashes.run();
    assert!(crashes.is_clean(), "{crashes}");
}

#[test]
fn two_copies_of_the_operator_come_to_the_same() {
    let single = simulation(Flaw::None).run(Plan::none(), 0);
    let pair = stage()
        .controller(controller(Flaw::None).replicas(2))
        .scenario(life)
        .build();
    for seed in 0..4 {
        let run = pair.run(Plan::none(), seed);
        if let Err(finding) = run.check(&single) {
            panic!("{finding}\n{}", run.trace);
        }
    }
}

#[test]
fn a_generated_name_is_made_twice_when_the_first_is_forgotten() {
    let summary = sweep(Flaw::GeneratesNames, &[Fault::CrashAfterCommit]);
    assert_found(
        &summary,
        Rule::State,
        "ConfigMap default/config-<gen:2> is there",
    );
}

#[test]
fn who_does_not_adopt_never_comes_to_rest() {
    let summary = sweep(Flaw::DoesNotAdopt, &[Fault::CrashAfterCommit]);
    assert_found(&summary, Rule::Settles, "sites: default/a failed");
    assert_found(&summary, Rule::Settles, "already exists");
}

#[test]
fn a_status_that_comes_first_is_believed_after_a_crash() {
    let summary = sweep(Flaw::StatusFirst, &[Fault::CrashAfterCommit]);
    assert_found(
        &summary,
        Rule::State,
        "ConfigMap default/config-a is missing",
    );
}

#[test]
fn a_deletion_that_was_done_already_has_to_count() {
    let summary = sweep(Flaw::FailsOnGone, &[Fault::ResetAfterCommit]);
    assert_found(&summary, Rule::Settles, "not found");
}

#[test]
fn who_remembers_what_it_made_comes_out_otherwise_than_who_forgot() {
    let summary = sweep(Flaw::RemembersNames, &[Fault::CrashAfterCommit]);
    assert_found(&summary, Rule::State, "ConfigMap default/config-a");
}

#[test]
fn a_claim_is_lost_to_a_stale_cache() {
    let keep = stage()
        .controller(controller(Flaw::TrustsItsCache))
        .scenario(async |world| {
            world.create(&site("a")).await?;
            world.settle().await
        })
        .always("no claim is deleted", |_, event| {
            event.kind != "PersistentVolumeClaim" || event.change != Change::Deleted
        })
        .build();
    let summary = keep.sweep().faults(&[Fault::WatchLags]).run();
    assert_found(
        &summary,
        Rule::Invariant,
        "\"no claim is deleted\" does not hold",
    );
    assert_found(
        &summary,
        Rule::Lives,
        "PersistentVolumeClaim default/data-a",
    );
}

/// What is wrong when a site is deleted after so many steps of its making.
fn cut_short(flaw: Flaw) -> Vec<String> {
    let after = |steps| {
        let simulation = stage()
            .controller(controller(flaw))
            .scenario(move |world: World| async move {
                let site = world.create(&site("a")).await?;
                world.steps(steps).await?;
                world.delete(&site).await?;
                world.settle().await?;
                let left = world.list::<ConfigMap>().await?;
                world
                    .expect(left.is_empty(), "an entry is left behind")
                    .await;
                Ok(())
            })
            .build();
        simulation.run(Plan::none(), 0).violations
    };
    let all = (4..20).flat_map(after);
    all.map(|violation| violation.text).collect()
}

#[test]
fn what_is_made_before_the_finalizer_is_left_behind() {
    assert_eq!(cut_short(Flaw::None), [""; 0]);
    let found = cut_short(Flaw::RegistersFirst);
    assert!(
        found.contains(&"an entry is left behind".to_owned()),
        "{found:?}"
    );
}

#[test]
fn a_status_that_counts_never_rests() {
    let run = simulation(Flaw::CountsPasses).run(Plan::none(), 0);
    assert!(!run.is_settled);
    let violation = &run.violations[0];
    assert_eq!(violation.rule, Rule::Settles);
    assert!(violation.text.contains("sites"), "{violation}");
}

#[test]
fn a_panic_is_a_finding_and_not_the_end() {
    let summary = sweep(Flaw::Panics, &[Fault::ServerError]);
    assert_found(
        &summary,
        Rule::Panic,
        "sites panics while it reconciles default/a: apply",
    );
}

#[test]
fn an_error_that_is_ignored_leaves_the_world_as_it_was() {
    let summary = sweep(Flaw::IgnoresErrors, &[Fault::ServerError]);
    assert_found(
        &summary,
        Rule::State,
        "ConfigMap default/config-a differs in data.text",
    );
}

#[test]
fn what_is_wrong_without_faults_is_told_at_once_and_at_which_request() {
    async fn reconcile(map: Arc<ConfigMap>, client: Client) -> Result<Action, kube::Error> {
        let maps: Api<ConfigMap> = Api::namespaced(client, "default");
        let params = PatchParams::apply("labels");
        let wrong = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": map.name_any(), "labels": {"of": "no label value"}},
        });
        let patch = Patch::Apply(wrong);
        maps.patch(&map.name_any(), &params, &patch).await?;
        Ok(Action::await_change())
    }
    let simulation = Simulation::builder()
        .controller(Controller::new("labels", |client: Client| {
            move |map| reconcile(map, client.clone())
        }))
        .scenario(async |world: World| {
            let mut map = ConfigMap::default();
            map.metadata.name = Some("a".to_owned());
            map.metadata.namespace = Some("default".to_owned());
            world.create(&map).await?;
            world.settle().await
        })
        .build();
    let summary = simulation.sweep().run();
    assert_eq!(summary.runs, 1, "{summary}");
    assert!(summary.is_cut_short, "{summary}");
    let told = summary.to_string();
    assert!(told.contains("mend that first"), "{told}");
    let refused = "last refused request: patch configmaps default/a → 422";
    assert_found(&summary, Rule::Settles, refused);
}
