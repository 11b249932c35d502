//! Admission by webhooks of the cluster: what `MutatingWebhookConfiguration` and
//! `ValidatingWebhookConfiguration` name is asked about writes, as a real API server asks
//! (`k8s.io/apiserver/pkg/admission/plugin/webhook`).

mod below;
mod config;
mod consult;
mod matching;
mod mutate;
mod options;
mod owners;
mod place;
mod review;
mod unfit;
mod validate;
mod verdict;

use std::time::Duration;

use serde_json::Value;

pub(super) use config::read;
pub(crate) use config::{Client, Hooks};
use config::{GROUP, Hook};
pub use consult::Ask;
pub(crate) use consult::Consultation;
pub(super) use consult::{digest, uid};
pub(crate) use options::Options;

use super::{ApiServer, Call};
use crate::status::Status;
use verdict::Review;
pub(super) use verdict::body_of;

/// Time that a webhook has, where its configuration gives none.
const TIMEOUT: u64 = 10;

/// A write that webhooks are asked about.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    pub(super) call: &'a Call,
    pub(super) operation: &'static str,
    /// Name of the object, empty where it is not known yet.
    pub(super) name: &'a str,
    pub(super) options: Options<'a>,
    pub(super) dry_run: bool,
    /// The object as it is.
    pub(super) old: Option<&'a Value>,
}

impl Write<'_> {
    /// Configurations and policies are not asked about each other, lest they lock
    /// themselves in.
    fn is_exempt(&self) -> bool {
        let resource = &self.call.resource;
        resource.group == GROUP
            && matches!(
                resource.kind.as_str(),
                "ValidatingWebhookConfiguration"
                    | "MutatingWebhookConfiguration"
                    | "ValidatingAdmissionPolicy"
                    | "ValidatingAdmissionPolicyBinding"
                    | "MutatingAdmissionPolicy"
                    | "MutatingAdmissionPolicyBinding"
            )
    }

    /// The namespace of the request; that of a namespace is itself.
    fn namespace(&self) -> &str {
        let resource = &self.call.resource;
        if resource.group.is_empty() && resource.plural == "namespaces" {
            return self.name;
        }
        self.call.namespace()
    }

    fn subresource(&self) -> &str {
        self.call.target.subresource.as_deref().unwrap_or_default()
    }
}

/// Why a webhook did not let a write pass.
#[derive(Debug)]
enum Failure {
    /// It could not be asked, or its answer is none: its failure policy decides.
    Calling(String),
    /// It refuses, or the server does.
    Refused(Box<Status>),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

impl Failure {
    /// What a client is told, if anything.
    fn told(self, hook: &Hook) -> Option<Status> {
        match self {
            Self::Refused(status) => Some(*status),
            Self::Calling(_) if hook.fails_open() => None,
            Self::Calling(why) => Some(Status::internal_error(format!(
                "failed calling webhook {:?}: {why}",
                hook.name
            ))),
        }
    }
}

impl ApiServer {
    /// Whether configurations name any webhook.
    pub(super) fn has_hooks(&self) -> bool {
        !self.hooks.is_empty()
    }

    /// What a webhook says of a write that it is to be asked about.
    fn ask_hook(
        &mut self,
        hook: &Hook,
        write: &Write<'_>,
        seen: &review::Seen<'_>,
        mutating: bool,
    ) -> Result<Review, Failure> {
        if write.dry_run && !hook.takes_dry_runs() {
            let why = format!("admission webhook {:?} does not support dry run", hook.name);
            return Err(Status::bad_request(why).into());
        }
        let known = |version: &&String| matches!(version.as_str(), "v1" | "v1beta1");
        let Some(version) = hook.admission_review_versions.iter().find(known) else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Err(Failure::Calling(why.to_owned()));
        };
        let timeout = Duration::from_secs(hook.timeout_seconds.unwrap_or(TIMEOUT));
        let call = self
            .call_to(&hook.client_config, timeout)
            .map_err(|why| Failure::Calling(format!("could not get REST client: {why}")))?;
        let url = call.url();
        let api_version = format!("admission.k8s.io/{version}");
        let (uid, said) = self.said(
            &hook.id,
            call,
            (&api_version, "AdmissionReview"),
            review::request(write, seen),
        )?;
        let review = verdict::review(&said, &url, version)
            .map_err(|why| Failure::Calling(format!("failed to call webhook: {why}")))?;
        let review = verdict::verified(&review, version, &uid, mutating)
            .map_err(|why| Failure::Calling(format!("received invalid webhook response: {why}")))?;
        self.warnings.extend(review.warnings.iter().cloned());
        if review.allowed {
            Ok(review)
        } else {
            Err(verdict::refusal(&hook.name, review.status).into())
        }
    }
}
