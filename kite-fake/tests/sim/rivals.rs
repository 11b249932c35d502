//! What is compared where rivals have been, and what is not.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kite_fake::actors::GarbageCollector;
use kite_fake::fault::{Call, Fault, Plan};
use kite_fake::sim::{Builder, Controller, Rule, Run, Simulation, World};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};

/// What the operator does beside what it should.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// When it makes the first Secret, it makes the second one anew.
    BeginsAnew,
    /// Each Secret tells with what text it was first made.
    Remembers,
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Two Secrets for each `ConfigMap`.
async fn reconcile(flaw: Flaw, map: Arc<ConfigMap>, client: Client) -> Result<Action, kube::Error> {
    let secrets: Api<Secret> = Api::namespaced(client, &map.namespace().unwrap_or_default());
    let name = map.name_any();
    for which in ["a", "b"] {
        let name = format!("{name}-{which}");
        let text = json!({"stringData": map.data});
        let params = PatchParams::default();
        let patched = secrets.patch(&name, &params, &Patch::Merge(text)).await;
        if !patched.as_ref().is_err_and(is_gone) {
            patched?;
            continue;
        }
        if flaw == Flaw::BeginsAnew && which == "a" {
            match secrets.delete("a-b", &DeleteParams::default()).await {
                Err(error) if is_gone(&error) => {}
                other => drop(other?),
            }
        }
        let text = map.data.as_ref().map(|data| data["k"].clone());
        let first = text.filter(|_| flaw == Flaw::Remembers);
        let secret = json!({
            "metadata": {
                "name": name,
                "ownerReferences": [map.controller_owner_ref(&())],
                "annotations": {"x.io/first": first.unwrap_or_default()},
            },
            "stringData": map.data,
        });
        let secret: Secret = serde_json::from_value(secret).unwrap();
        secrets.create(&PostParams::default(), &secret).await?;
    }
    Ok(Action::await_change())
}

fn stage(flaw: Flaw) -> Builder {
    let copier = Controller::new("copier", move |client: Client| {
        move |map: Arc<ConfigMap>| {
            let client = client.clone();
            async move {
                if map.name_any() == "a" {
                    return reconcile(flaw, map, client).await;
                }
                Ok(Action::await_change())
            }
        }
    });
    Simulation::builder()
        .controller(copier.owns::<Secret>())
        .actors(|| vec![Arc::new(GarbageCollector::default())])
        .scenario(async |world: World| {
            let mut map = ConfigMap::default();
            map.metadata.name = Some("a".to_owned());
            map.metadata.namespace = Some("default".to_owned());
            map.data = Some([("k".to_owned(), "1".to_owned())].into());
            let map = world.create(&map).await?;
            world.settle().await?;
            let text: Value = json!({"data": {"k": "2"}});
            world.patch(&map, text).await?;
            world.settle().await
        })
}

/// A run in which a rival deletes the first Secret just before its text changes.
fn disturbed(simulation: &Simulation) -> Run {
    let reference = simulation.reference(0);
    let requests = (1..).zip(&reference.requests);
    let is_meant = |call: &Call| call.verb == "patch" && call.name == "a-a";
    let mut meant = requests.filter(|(_, call)| is_meant(call));
    // Once to find it missing, and once more when it was made.
    let (number, _) = meant.nth(2).unwrap();
    simulation.run(Plan::at(number, Fault::RivalDeletes), 0)
}

#[test]
fn what_a_rival_deletes_may_be_made_again() {
    let simulation = stage(Flaw::None).build();
    let run = disturbed(&simulation);
    assert_eq!(run.injected.len(), 1, "{}", run.trace);
    let lives = run.lives["Secret default/a-a"];
    assert_eq!((lives.created, lives.deleted), (2, 1));
    assert_eq!(run.compare(&simulation.reference(0)), []);
}

#[test]
fn what_no_rival_touched_may_not() {
    let simulation = stage(Flaw::BeginsAnew).build();
    let run = disturbed(&simulation);
    let differences = run.compare(&simulation.reference(0));
    let lives = differences.iter().filter(|it| it.rule == Rule::Lives);
    let lives: Vec<&str> = lives.map(|it| it.text.as_str()).collect();
    assert_eq!(lives.len(), 1, "{lives:?}");
    assert!(lives[0].starts_with("Secret default/a-b"), "{lives:?}");
}

#[test]
fn who_is_spared_by_rivals_is_not_touched() {
    let simulation = stage(Flaw::None).protect_from_rivals("secrets").build();
    for fault in [Fault::RivalDeletes, Fault::RivalRecreates] {
        let at = |call: &Call| call.verb == "patch" && call.name == "a-b";
        let run = simulation.run(Plan::first("once", fault, at), 0);
        assert_eq!(run.injected, [], "{}", run.trace);
    }
}

#[test]
fn the_past_is_compared_where_no_rival_was() {
    let past = "/metadata/annotations/x.io~1first";
    let told = stage(Flaw::Remembers).ignore_field_if_replaced("Secret", "Secret", past);
    let simulation = told.build();
    let run = disturbed(&simulation);
    assert_eq!(run.injected.len(), 1);
    assert_eq!(run.compare(&simulation.reference(0)), []);

    let simulation = stage(Flaw::Remembers).build();
    let differences = disturbed(&simulation).compare(&simulation.reference(0));
    let texts: Vec<&str> = differences.iter().map(|it| it.text.as_str()).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[1].contains("x.io/first"), "{texts:?}");

    // Another kind's past is not that of Secrets.
    let other = stage(Flaw::Remembers).ignore_field_if_replaced("ConfigMap", "Secret", past);
    let simulation = other.build();
    let differences = disturbed(&simulation).compare(&simulation.reference(0));
    assert_eq!(differences.len(), 2, "{differences:?}");
}
