//! Validating webhooks, in process: what the kinds of an operator demand beside
//! their schemas.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::{ApiServer, Call};
use crate::status::{Cause, Details, Status};

/// A write that a webhook is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Review<'a> {
    /// API group of the kind.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// The object as it would be.
    pub object: &'a Value,
    /// The object as it is; `None` for a create.
    pub old: Option<&'a Value>,
}

/// A validating webhook. It sees creates and updates of whole objects, not of
/// their subresources.
pub trait Webhook: Send + Sync + fmt::Debug + 'static {
    /// Its name, which is in the message of a refusal.
    fn name(&self) -> &'static str;

    /// What speaks against the write: nothing lets it pass.
    fn review(&self, review: &Review<'_>) -> Vec<Cause>;
}

impl ApiServer {
    /// Asks `webhook` about every write from now on. One of the same name is
    /// replaced.
    pub fn admit_by(&mut self, webhook: Arc<dyn Webhook>) {
        self.webhooks.retain(|other| other.name() != webhook.name());
        self.webhooks.push(webhook);
    }

    /// Refuses what a webhook refuses.
    pub(crate) fn ask_webhooks(
        &self,
        call: &Call,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if call.target.subresource.is_some() {
            return Ok(());
        }
        let review = Review {
            group: &call.resource.group,
            kind: &call.resource.kind,
            object: new,
            old,
        };
        for webhook in &self.webhooks {
            let causes = webhook.review(&review);
            if causes.is_empty() {
                continue;
            }
            let all: Vec<&str> = causes.iter().map(|c| c.message.as_str()).collect();
            let message = format!(
                "admission webhook \"{}\" denied the request: {}",
                webhook.name(),
                all.join(", ")
            );
            return Err(Status::new(422, "Invalid", message).with_details(Details {
                causes,
                ..Details::default()
            }));
        }
        Ok(())
    }
}
