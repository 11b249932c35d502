//! The question to a conversion webhook: `ConversionReview`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::hooks::HookCall;
use crate::registry::Resource;
use crate::server::ApiServer;
use crate::server::hooks::{Client, read};
use crate::status::Status;

/// Time that a webhook has for a conversion.
const TIMEOUT: Duration = Duration::from_secs(30);

/// `spec.conversion.webhook` of a definition.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Webhook {
    client_config: Client,
    conversion_review_versions: Vec<String>,
}

/// Objects that are to be converted, and by whom.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) call: HookCall,
    /// Version of the review.
    pub(super) version: &'static str,
    pub(super) originals: Vec<Value>,
    /// The `apiVersion` that they are to have.
    pub(super) desired: String,
}

impl Question {
    /// The review's own version and kind.
    pub(super) fn envelope(&self) -> (String, &'static str) {
        let version = self.version;
        (
            format!("apiextensions.k8s.io/{version}"),
            "ConversionReview",
        )
    }

    /// The request, but for its uid.
    pub(super) fn request(&self) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("desiredAPIVersion".into(), self.desired.as_str().into());
        out.insert("objects".into(), json!(self.originals));
        out
    }

    /// A failure: `why` follows on `conversion webhook for <kind> `.
    pub(super) fn failed(&self, why: &str) -> Status {
        let of = self.originals.first().unwrap_or(&Value::Null);
        failure(of, why)
    }
}

fn failure(of: &Value, why: &str) -> Status {
    let text = |member: &str| of[member].as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    Status::internal(format!(
        "conversion webhook for {version}, Kind={kind} {why}"
    ))
}

impl ApiServer {
    /// How to ask for objects of a resource in another version of it.
    ///
    /// # Errors
    /// Nobody can be asked.
    pub(super) fn question(
        &self,
        resource: &Resource,
        originals: Vec<Value>,
        desired: String,
    ) -> Result<Question, Status> {
        let of = originals.first().unwrap_or(&Value::Null);
        let webhook = resource.conversion.as_deref().unwrap_or(&Value::Null);
        let webhook: Webhook = read(webhook).unwrap_or_default();
        let mut versions = webhook.conversion_review_versions.iter();
        let version = versions.find_map(|version| match version.as_str() {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        });
        let Some(version) = version else {
            return Err(Status::internal("no supported conversion review versions"));
        };
        let call = self
            .call_to(&webhook.client_config, TIMEOUT)
            .map_err(|why| failure(of, &format!("failed: {why}")))?;
        Ok(Question {
            call,
            version,
            originals,
            desired,
        })
    }
}
