//! Webhooks that change what is written: one after the other, in the order of their
//! configurations, and once more those that want to see what others changed after them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::config::Hook;
use super::{Failure, Write, owners, unfit, verdict};
use crate::registry::Resource;
use crate::rest::options::{FieldValidation, WriteOptions};
use crate::rest::strict::Outline;
use crate::server::{ApiServer, policies, rules};
use crate::status::Status;

/// Who is asked again.
#[derive(Debug, Default)]
struct Again {
    /// Whether anybody has changed anything.
    wanted: bool,
    /// Those that were asked and want to see changes of others.
    asked: BTreeSet<String>,
    /// Those that are asked in the second round.
    due: BTreeSet<String>,
}

impl Again {
    /// Somebody has changed the object.
    fn all_asked(&mut self) {
        self.due.append(&mut self.asked);
    }
}

impl ApiServer {
    /// Has an object changed by webhooks; a write may also be about none.
    ///
    /// # Errors
    /// A webhook refuses, cannot be asked, or is still to be asked.
    pub(in crate::server) fn mutate_by_hooks(
        &mut self,
        write: &Write<'_>,
        object: Option<Value>,
    ) -> Result<Option<Value>, Status> {
        if self.hooks.mutating.is_empty() || write.is_exempt() {
            return Ok(object);
        }
        let owned = object
            .as_ref()
            .map(|object| &object["metadata"]["managedFields"]);
        let owned = owned.filter(|owned| !owned.is_null()).cloned();
        let mut object = self.asked_in_rounds(write, object)?;
        if let Some(object) = &mut object
            && policies::own_kind(write.call).is_none()
        {
            self.warnings.extend(owners::restored(object, owned));
        }
        Ok(object)
    }

    fn asked_in_rounds(
        &mut self,
        write: &Write<'_>,
        object: Option<Value>,
    ) -> Result<Option<Value>, Status> {
        let hooks = Arc::clone(&self.hooks.mutating);
        let mut again = Again::default();
        let mut object = self.mutating_round(&hooks, write, object, &mut again, false)?;
        if !again.wanted {
            return Ok(object);
        }
        // The server's own admission and policies go first in the second round, too.
        if let Some(object) = &mut object
            && policies::own_kind(write.call).is_none()
        {
            let before = object.clone();
            if write.subresource().is_empty() {
                self.mutate_admission(&write.call.resource, object, write.old)?;
            }
            self.mutate_again(write.call, write.operation, object, write.old)?;
            if *object != before {
                again.all_asked();
            }
        }
        self.mutating_round(&hooks, write, object, &mut again, true)
    }

    fn mutating_round(
        &mut self,
        hooks: &[Hook],
        write: &Write<'_>,
        mut object: Option<Value>,
        again: &mut Again,
        second: bool,
    ) -> Result<Option<Value>, Status> {
        for hook in hooks {
            let Some(matched) = self.matched(hook, write, object.as_ref())? else {
                continue;
            };
            if second && !again.due.contains(&hook.id) {
                continue;
            }
            let changed = self.changed_by(hook, write, &matched, object.as_ref());
            if let Ok(Some((_, true))) = &changed {
                again.all_asked();
                again.wanted = true;
            }
            if hook.is_asked_again() {
                again.asked.insert(hook.id.clone());
            }
            match changed {
                Ok(Some((new, _))) => object = Some(new),
                Ok(None) => {}
                Err(failure) => {
                    if let Some(status) = failure.told(hook) {
                        return Err(status);
                    }
                }
            }
        }
        Ok(object)
    }

    /// What a webhook makes of an object, in the version of the request, and whether that
    /// is another; `None` where it changes nothing.
    fn changed_by(
        &mut self,
        hook: &Hook,
        write: &Write<'_>,
        matched: &Arc<Resource>,
        object: Option<&Value>,
    ) -> Result<Option<(Value, bool)>, Failure> {
        let seen = self.shown_of(matched, write, object)?;
        let review = self.ask_hook(hook, write, &seen, true)?;
        if review.patch.is_empty() {
            return Ok(None);
        }
        if !verdict::has_operations(&review.patch).map_err(|why| {
            Failure::Calling(format!(
                "received undecodable patch in webhook response: {why}"
            ))
        })? {
            return Ok(None);
        }
        let Some(shown) = seen.object.as_deref() else {
            return Err(Status::internal_error(format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                hook.name
            ))
            .into());
        };
        if review.patch_type != "JSONPatch" {
            let why = format!("unsupported patch type {:?}", review.patch_type);
            return Err(Failure::Calling(why));
        }
        let patched = unfit::apply(shown, &review.patch).map_err(Status::internal_error)?;
        if let Some((_, _, kind)) = policies::own_kind(write.call) {
            unfit::decode(kind, &patched).map_err(Status::internal_error)?;
            let changed = patched != *shown;
            return Ok(Some((patched, changed)));
        }
        let new = settled(matched, patched)?;
        let changed = new != *shown;
        let asked = &write.call.resource;
        let same = (&matched.group, &matched.version) == (&asked.group, &asked.version);
        let new = if same {
            new
        } else {
            self.in_version_of(asked, new)?
        };
        Ok(Some((new, changed)))
    }
}

/// A patched object in the form of its kind, with its defaults.
fn settled(resource: &Resource, patched: Value) -> Result<Value, Status> {
    let options = WriteOptions {
        validation: FieldValidation::Ignore,
        ..WriteOptions::default()
    };
    match rules::decode(resource, patched, &Outline::default(), &options, None) {
        Ok(decoded) => Ok(decoded.value),
        Err(status) => {
            let what = format!(" cannot be handled as a {}: ", resource.kind);
            let why = status
                .message
                .split_once(&what)
                .map(|(_, why)| why.to_owned());
            Err(Status::internal_error(why.unwrap_or(status.message)))
        }
    }
}
