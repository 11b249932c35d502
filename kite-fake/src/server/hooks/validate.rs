//! Webhooks that refuse: all at once, after everything else that changes or refuses.

use std::sync::Arc;

use serde_json::Value;

use super::Write;
use crate::server::ApiServer;
use crate::status::Status;

impl ApiServer {
    /// Refuses what a webhook refuses; a write may also be about no object.
    ///
    /// # Errors
    /// A webhook refuses, cannot be asked, or is still to be asked.
    pub(in crate::server) fn validate_by_hooks(
        &mut self,
        write: &Write<'_>,
        object: Option<&Value>,
    ) -> Result<(), Status> {
        if self.hooks.validating.is_empty() || write.is_exempt() {
            return Ok(());
        }
        let hooks = Arc::clone(&self.hooks.validating);
        let mut due = Vec::new();
        for hook in hooks.iter() {
            if let Some(matched) = self.matched(hook, write, object)? {
                due.push((hook, matched));
            }
        }
        // Each is asked, whatever the others say; of what they say the first counts.
        let mut first = None;
        for (hook, matched) in due {
            let asked = match self.shown_of(&matched, write, object) {
                Ok(seen) => self.ask_hook(hook, write, &seen, false).map(drop),
                Err(status) => Err(status.into()),
            };
            if let Err(failure) = asked {
                let told = failure.told(hook);
                first = first.or(told);
            }
        }
        first.map_or(Ok(()), Err)
    }
}
