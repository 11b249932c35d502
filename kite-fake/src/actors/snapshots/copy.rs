//! A driver that binds a claim before its data are there: they follow.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::Work;
use super::cut::is_alive;
use crate::actors::actor::{ActorError, Next};
use crate::actors::kind::{Key, VOLUME, VOLUME_SNAPSHOT_CONTENT};
use crate::actors::objects::{ignore_missing, is_deleting};
use crate::actors::rules::{Gate, Stage};
use crate::actors::storage::{ARRIVING, BROKEN, CONTENTS, COPYING_FROM, annotation};

/// Where the data of a volume still come from.
pub(super) fn source(volume: &DynamicObject) -> Option<Key> {
    let (plural, name) = annotation(volume, COPYING_FROM)?.split_once('/')?;
    let kinds = [VOLUME, VOLUME_SNAPSHOT_CONTENT];
    let kind = kinds.iter().find(|kind| kind.plural == plural)?;
    Some(Key::new(kind, None, name))
}

impl Work<'_> {
    pub(super) async fn copy(self) -> Result<Next, ActorError> {
        let Some(source) = source(self.object).filter(|_| !is_deleting(self.object)) else {
            return Ok(Next::Done);
        };
        let found = self.objects.live().get(&source).await?;
        let alive = match &found {
            None => false,
            Some(content) if source.kind == VOLUME_SNAPSHOT_CONTENT => {
                is_alive(self, content).await?
            }
            Some(_) => true,
        };
        let Some(found) = found.filter(|_| alive) else {
            let why = format!("its source {} is gone", source.name);
            return self.end(Value::Null, json!(why)).await;
        };
        match self.context.gate(Stage::COPY_DONE, self.object, "") {
            Gate::Wait(rest) => return Ok(Next::After(rest)),
            Gate::Held => return Ok(Next::Held),
            Gate::Fail(why) => return self.end(Value::Null, json!(why.message)).await,
            Gate::Open => {}
        }
        if annotation(&found, COPYING_FROM).is_some() {
            // Its own data come first, and bring this back.
            return Ok(Next::Done);
        }
        let begun = annotation(self.object, ARRIVING);
        let contents = begun.or_else(|| annotation(&found, CONTENTS));
        self.end(json!(contents), json!(annotation(&found, BROKEN)))
            .await
    }

    async fn end(self, contents: Value, broken: Value) -> Result<Next, ActorError> {
        let annotations = json!({
            COPYING_FROM: null,
            ARRIVING: null,
            CONTENTS: contents,
            BROKEN: broken,
        });
        let patch = json!({"metadata": {"annotations": annotations}});
        let patched = self.objects.merge(self.key, Some(self.object), patch);
        ignore_missing(patched.await)?;
        Ok(Next::Done)
    }
}
