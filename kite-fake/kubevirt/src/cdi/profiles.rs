//! Tells what storage can do.

use async_trait::async_trait;
use kite_fake::actors::kind::{Key, STORAGE_CLASS, VOLUME_SNAPSHOT_CLASS};
use kite_fake::actors::objects::Found;
use kite_fake::actors::objects::{
    Deletion, Objects, controller_reference, ignore_missing, is_deleting, text,
};
use kite_fake::actors::storage::annotation;
use kite_fake::actors::{Actor, ActorError, Change, Context, Next, Watches};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::kinds::STORAGE_PROFILE;
use crate::snapshot_class::DEFAULT_CLASS;

/// Plays CDI's controller of `StorageProfile`s: each storage class has one, whose
/// status joins what its spec wants with what is known of the storage.
#[derive(Clone, Copy, Debug, Default)]
pub struct StorageProfiles;

#[async_trait]
impl Actor for StorageProfiles {
    fn name(&self) -> &'static str {
        "cdi-controller"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![STORAGE_PROFILE, STORAGE_CLASS, VOLUME_SNAPSHOT_CLASS])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        if change.kind == VOLUME_SNAPSHOT_CLASS {
            return vec![change.key()];
        }
        vec![Key::new(&STORAGE_PROFILE, None, &change.key().name)]
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        if !context.catalog.has(&STORAGE_PROFILE) {
            return Ok(Next::Done);
        }
        let objects = Objects::new(context, self.name());
        if key.kind == VOLUME_SNAPSHOT_CLASS {
            // Whichever profiles it matters for.
            for class in objects.list(&STORAGE_CLASS, None, "").await? {
                let name = class.metadata.name.as_deref().unwrap_or_default();
                let profile = Key::new(&STORAGE_PROFILE, None, name);
                self.reconcile(context, &profile).await?;
            }
            return Ok(Next::Done);
        }
        let class = objects.find(&STORAGE_CLASS, None, &key.name).await?;
        let profile = objects.get(key).await?;
        let Some(class) = class.filter(|class| !is_deleting(class)) else {
            if let Some(profile) = profile.filter(|p| !is_deleting(p)) {
                objects.delete(key, &profile, Deletion::default()).await?;
            }
            return Ok(Next::Done);
        };
        let Some(profile) = profile else {
            let body = json!({
                "metadata": {
                    "name": key.name,
                    "labels": {
                        "app": "containerized-data-importer",
                        "app.kubernetes.io/component": "storage",
                        "app.kubernetes.io/managed-by": "cdi-controller",
                        "cdi.kubevirt.io": "",
                    },
                    "ownerReferences": [controller_reference(&STORAGE_CLASS, &class)],
                },
                "spec": {},
            });
            objects.create(&STORAGE_PROFILE, None, body).await?;
            return Ok(Next::Done);
        };
        let snapshots = if context.catalog.has(&VOLUME_SNAPSHOT_CLASS) {
            objects.list(&VOLUME_SNAPSHOT_CLASS, None, "").await?
        } else {
            Vec::new()
        };
        let status = status(&profile, &class, &snapshots);
        ignore_missing(objects.set_status(key, &profile, status).await)?;
        Ok(Next::Done)
    }
}

fn status(profile: &DynamicObject, class: &DynamicObject, snapshots: &[Found]) -> Value {
    let spec = &profile.data["spec"];
    let provisioner = text(class, "/provisioner");
    let mut status = json!({
        "storageClass": class.metadata.name,
        "provisioner": provisioner,
    });
    let sets = spec["claimPropertySets"]
        .as_array()
        .filter(|s| !s.is_empty());
    status["claimPropertySets"] = match sets {
        Some(sets) => json!(sets),
        // Of what makes no volumes nobody knows what they can.
        None if provisioner == "kubernetes.io/no-provisioner" => Value::Null,
        None => json!([{"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}]),
    };
    let wanted = spec["snapshotClass"].as_str();
    let fits = |class: &&Found| match wanted {
        Some(wanted) => class.metadata.name.as_deref() == Some(wanted),
        None => text(class, "/driver") == provisioner,
    };
    // The default one, else the first by name.
    let is_default = |class: &&Found| annotation(class, DEFAULT_CLASS) == Some("true");
    let mut default = snapshots
        .iter()
        .filter(|class| fits(class) && is_default(class));
    let found = default.next().or_else(|| snapshots.iter().find(fits));
    let snapshot_class = found.and_then(|class| class.metadata.name.as_deref());
    // CDI leaves a name where the class has gone.
    let old = profile.data["status"]["snapshotClass"].as_str();
    if let Some(name) = snapshot_class.or(old) {
        status["snapshotClass"] = json!(name);
    }
    let strategy = match snapshot_class {
        Some(_) => "snapshot",
        None => "copy",
    };
    let given = |field: &str, default: &str| {
        let wanted = spec[field].as_str();
        json!(wanted.unwrap_or(default))
    };
    status["cloneStrategy"] = given("cloneStrategy", strategy);
    status["dataImportCronSourceFormat"] = given("dataImportCronSourceFormat", "pvc");
    status
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_profile_joins_its_spec_with_what_is_known() {
        let class = object(json!({"metadata": {"name": "fast"}, "provisioner": "csi"}));
        let plain = object(json!({"metadata": {"name": "fast"}, "spec": {}}));
        let told = status(&plain, &class, &[]);
        assert_eq!(told["cloneStrategy"], "copy");
        let modes = &told["claimPropertySets"][0]["accessModes"];
        assert_eq!(*modes, json!(["ReadWriteOnce"]));
        let snapshots = [object(json!({"metadata": {"name": "s"}, "driver": "csi"})).into()];
        assert_eq!(status(&plain, &class, &snapshots)["snapshotClass"], "s");
        let named = |name: &str, default: &str| {
            let marks = json!({DEFAULT_CLASS: default});
            let class = json!({"metadata": {"name": name, "annotations": marks}, "driver": "csi"});
            Found::from(object(class))
        };
        let two = [named("a", "false"), named("b", "true")];
        assert_eq!(status(&plain, &class, &two)["snapshotClass"], "b");
        let undecided = [named("a", "false"), named("b", "false")];
        assert_eq!(status(&plain, &class, &undecided)["snapshotClass"], "a");
        let mut left = plain.clone();
        left.data["status"] = json!({"snapshotClass": "gone"});
        assert_eq!(status(&left, &class, &[])["snapshotClass"], "gone");
        let shared = object(json!({"metadata": {"name": "fast"}, "spec": {
            "claimPropertySets": [{"accessModes": ["ReadWriteMany"], "volumeMode": "Block"}],
        }}));
        let told = status(&shared, &class, &[]);
        assert_eq!(told["claimPropertySets"][0]["volumeMode"], "Block");
    }
}
