//! Holds classes of volume attributes that claims or volumes have.

use std::time::Duration;

use async_trait::async_trait;
use kube::api::DynamicObject;

use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{ATTRIBUTES_CLASS, CLAIM, Key, Kind, VOLUME};
use crate::actors::objects::{Objects, is_deleting, text};

/// What is read as watches have shown it.
const SEEN: &[Kind] = &[ATTRIBUTES_CLASS];
const FINALIZER: &str = "kubernetes.io/vac-protection";
/// How often a class that is to go is looked at: nobody says which class a claim had before.
const AGAIN: Duration = Duration::from_secs(10);

/// Plays the protection of `VolumeAttributesClass`es: one that is deleted is held while a
/// claim or a volume has it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttributesProtection;

#[async_trait]
impl Actor for AttributesProtection {
    fn name(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![ATTRIBUTES_CLASS, CLAIM, VOLUME])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        if change.kind == ATTRIBUTES_CLASS {
            return vec![change.key()];
        }
        classes(&change.object)
            .map(|name| Key::new(&ATTRIBUTES_CLASS, None, name))
            .collect()
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name()).seeing(SEEN);
        let Some(class) = objects.get(key).await? else {
            return Ok(Next::Done);
        };
        if !is_deleting(&class) {
            objects.add_finalizers(key, &class, &[FINALIZER]).await?;
            return Ok(Next::Done);
        }
        for kind in [VOLUME, CLAIM] {
            let all = objects.list(&kind, None, "").await?;
            let has = |object: &DynamicObject| classes(object).any(|name| name == key.name);
            if all.iter().any(|object| has(object)) {
                return Ok(Next::Later(AGAIN));
            }
        }
        objects.remove_finalizer(key, &class, FINALIZER).await?;
        Ok(Next::Done)
    }
}

/// The classes that a claim or a volume has, or is to have.
fn classes(object: &DynamicObject) -> impl Iterator<Item = &str> {
    [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ]
    .into_iter()
    .map(|at| text(object, at))
    .filter(|name| !name.is_empty())
}
