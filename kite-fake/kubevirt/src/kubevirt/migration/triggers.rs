//! Migrations that nobody asked for by name.

use std::time::Duration;

use async_trait::async_trait;
use kite_fake::actors::kind::{Key, Kind, NODE};
use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{Objects, is_deleting, suffix, text, uid};
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::state::{is_active, is_final};
use crate::kinds::{INSTANCE, KUBEVIRT_CR, MIGRATION};
use crate::kubevirt::conditions::find;
use crate::kubevirt::configuration::Configuration;
use crate::kubevirt::live_update;

/// The taint that tells instances to leave a node.
const DRAIN_TAINT: &str = "kubevirt.io/drain";
/// Pause after the first evacuation that failed; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(20);

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[INSTANCE, NODE];

/// Plays the controllers that start migrations by themselves: the evacuation of
/// a node (the taint `kubevirt.io/drain`, or `status.evacuationNodeName`) for
/// instances whose eviction strategy says so, and the update of an instance
/// that was given more processors or memory, where `KubeVirt` is configured to
/// migrate for that.
#[derive(Clone, Copy, Debug, Default)]
pub struct MigrationTriggers;

#[async_trait]
impl Actor for MigrationTriggers {
    fn name(&self) -> &'static str {
        "virt-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![INSTANCE, MIGRATION, NODE, KUBEVIRT_CR])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        let key = change.key();
        if change.kind == MIGRATION {
            let instance = text(&change.object, "/spec/vmiName");
            return vec![Key::new(&INSTANCE, key.namespace.as_deref(), instance)];
        }
        vec![key]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        if !context.catalog.has(&MIGRATION) {
            return Ok(Next::Done);
        }
        if key.kind == NODE {
            let Some(node) = objects.get(key).await?.filter(|node| is_drained(node)) else {
                return Ok(Next::Done);
            };
            let name = node.metadata.name.clone().unwrap_or_default();
            for instance in objects.list(&INSTANCE, None, "").await? {
                if text(&instance, "/status/nodeName") == name {
                    let key = Key::of(&INSTANCE, &instance);
                    evacuate(context, objects, &key, &instance).await?;
                }
            }
            return Ok(Next::Done);
        }
        if key.kind == KUBEVIRT_CR {
            for instance in objects.list(&INSTANCE, None, "").await? {
                let key = Key::of(&INSTANCE, &instance);
                update(context, objects, &key, &instance).await?;
            }
            return Ok(Next::Done);
        }
        let Some(instance) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        let node = text(&instance, "/status/nodeName");
        let told = !node.is_empty() && text(&instance, "/status/evacuationNodeName") == node;
        let node = objects.find(&NODE, None, node).await?;
        if told || node.as_deref().is_some_and(is_drained) {
            return evacuate(context, objects, key, &instance).await;
        }
        update(context, objects, key, &instance).await
    }
}

fn is_drained(node: &DynamicObject) -> bool {
    let taints = node.data["spec"]["taints"].as_array();
    let mut taints = taints.into_iter().flatten();
    taints.any(|taint| taint["key"] == DRAIN_TAINT && taint["effect"] == "NoSchedule")
}

/// Whether an instance can migrate now.
fn may_leave(instance: &DynamicObject) -> bool {
    let status = &instance.data["status"];
    text(instance, "/status/phase") == "Running"
        && !is_deleting(instance)
        && !is_active(status)
        && find(status, "LiveMigratable").is_some_and(|c| c["status"] == "True")
}

/// Has an instance moved to a launcher that has what it was given more.
async fn update(
    context: &Context,
    objects: Objects<'_>,
    key: &Key,
    instance: &DynamicObject,
) -> Result<Next, ActorError> {
    if !live_update::is_wanted(&instance.data["status"]) || !may_leave(instance) {
        return Ok(Next::Done);
    }
    if !Configuration::read(context, objects)
        .await?
        .migrates_updates
    {
        return Ok(Next::Done);
    }
    let mark = json!({"kubevirt.io/workloadUpdateMigration": ""});
    start(context, objects, key, instance, "workload-update", mark).await
}

async fn evacuate(
    context: &Context,
    objects: Objects<'_>,
    key: &Key,
    instance: &DynamicObject,
) -> Result<Next, ActorError> {
    let strategy = text(instance, "/spec/evictionStrategy");
    if !strategy.starts_with("LiveMigrate") || !may_leave(instance) {
        return Ok(Next::Done);
    }
    let node = text(instance, "/status/nodeName");
    let mark = json!({"kubevirt.io/evacuationMigration": node});
    start(context, objects, key, instance, "evacuation", mark).await
}

/// Makes a migration, unless one is under way or the last one failed just now.
async fn start(
    context: &Context,
    objects: Objects<'_>,
    key: &Key,
    instance: &DynamicObject,
    why: &str,
    mark: Value,
) -> Result<Next, ActorError> {
    let namespace = key.namespace.as_deref();
    let all = objects.list(&MIGRATION, namespace, "").await?;
    let theirs: Vec<&Found> = all
        .iter()
        .filter(|m| text(m, "/spec/vmiName") == key.name)
        .collect();
    if theirs.iter().any(|m| !is_final(text(m, "/status/phase"))) {
        return Ok(Next::Done);
    }
    let marks = mark.as_object().into_iter().flatten();
    let marks: Vec<&String> = marks.map(|(name, _)| name).collect();
    let earlier = theirs.iter().filter(|m| {
        let annotations = m.metadata.annotations.as_ref();
        annotations.is_some_and(|a| marks.iter().all(|mark| a.contains_key(*mark)))
            && text(m, "/status/phase") == "Failed"
    });
    let ends = earlier.filter_map(|m| failed_at(m));
    let ends: Vec<jiff::Timestamp> = ends.collect();
    if let Some(last) = ends.iter().max() {
        let exponent = u32::try_from(ends.len()).unwrap_or(1).clamp(1, 10) - 1;
        let due = last.checked_add(FIRST_PAUSE * 2_u32.pow(exponent));
        let left = due.ok().map(|due| due.duration_since(context.clock.now()));
        if let Some(left) = left.and_then(|left| Duration::try_from(left).ok())
            && !left.is_zero()
        {
            return Ok(Next::After(left));
        }
    }
    let number = theirs.len();
    let body = json!({
        "metadata": {
            "name": format!("kubevirt-{why}-{}", suffix(&format!("{number}{}", uid(instance)))),
            "generateName": format!("kubevirt-{why}-"),
            "namespace": key.namespace,
            "annotations": mark,
        },
        "spec": {"vmiName": key.name},
    });
    objects.create(&MIGRATION, namespace, body).await?;
    Ok(Next::Done)
}

/// When a migration failed.
fn failed_at(migration: &DynamicObject) -> Option<jiff::Timestamp> {
    let times = migration.data["status"]["phaseTransitionTimestamps"].as_array()?;
    let failed = times.iter().find(|time| time["phase"] == "Failed")?;
    failed["phaseTransitionTimestamp"].as_str()?.parse().ok()
}
