//! What `KubeVirt`'s webhooks demand of migrations.

use kite_fake::server::{Review, Webhook};
use kite_fake::status::Cause;
use serde_json::Value;

use super::conditions::find;
use super::instances::is_over;

/// Refuses migrations of instances that are missing, have ended, cannot migrate
/// or are migrating; and changes of a migration's spec.
#[derive(Clone, Copy, Debug, Default)]
pub struct MigrationAdmission;

impl Webhook for MigrationAdmission {
    fn name(&self) -> &'static str {
        "migration-create-validator.kubevirt.io"
    }

    fn review(&self, review: &Review<'_>) -> Vec<Cause> {
        if !is_migration(review) {
            return Vec::new();
        }
        let spec = &review.object["spec"];
        match review.old {
            Some(old) if old["spec"] != *spec => {
                vec![Cause::new(
                    "FieldValueNotSupported",
                    "update of Migration object's spec is restricted",
                    "",
                )]
            }
            None if spec["vmiName"].as_str().unwrap_or_default().is_empty() => {
                vec![Cause::new(
                    "FieldValueRequired",
                    "vmiName is missing",
                    "spec.vmiName",
                )]
            }
            _ => Vec::new(),
        }
    }

    fn veto(&self, review: &Review<'_>) -> Option<String> {
        if !is_migration(review) || review.old.is_some() {
            return None;
        }
        let namespace = review.object["metadata"]["namespace"].as_str()?;
        let name = review.object["spec"]["vmiName"].as_str()?;
        let around = review.around?;
        let (group, plural) = ("kubevirt.io", "virtualmachineinstances");
        let instance = around.object(group, plural, namespace, name);
        let Some(instance) = instance else {
            return Some(format!("the VMI \"{namespace}/{name}\" does not exist"));
        };
        let status = &instance["status"];
        let phase = status["phase"].as_str().unwrap_or_default();
        // The receiving end of a migration between clusters waits for its start.
        let receives = review.object["spec"]["receive"].is_object();
        if is_over(phase) {
            return Some("Cannot migrate VMI in finalized state.".to_owned());
        }
        if let Some(condition) = find(status, "LiveMigratable")
            && condition["status"] == "False"
            && !receives
        {
            let word = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            let (reason, message) = (word("reason"), word("message"));
            return Some(format!(
                "Cannot migrate VMI, Reason: {reason}, Message: {message}"
            ));
        }
        // By the orders there are, of which the instance need not have heard yet.
        let mut orders = around
            .objects(group, "virtualmachineinstancemigrations", namespace)
            .into_iter();
        let current = orders.find(|it| {
            let phase = it["status"]["phase"].as_str().unwrap_or_default();
            it["spec"]["vmiName"] == name && !matches!(phase, "Succeeded" | "Failed")
        })?;
        Some(format!(
            "in-flight migration detected. Active migration job ({}) is currently already in \
             progress for VMI {name}.",
            current["metadata"]["uid"].as_str().unwrap_or_default()
        ))
    }
}

fn is_migration(review: &Review<'_>) -> bool {
    review.group == "kubevirt.io"
        && review.kind == "VirtualMachineInstanceMigration"
        && !matches!(
            review.object["metadata"]["deletionTimestamp"],
            Value::String(_)
        )
}
