//! Watches of objects that a webhook converts: whoever follows one asks, before it is
//! looked at, for what it cannot tell of yet.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::json;

use super::answer;
use super::question::Question;
use super::settled;
use crate::hooks::{HookCall, Said};
use crate::registry::Resource;
use crate::server::hooks::{digest, uid};
use crate::server::{ApiServer, Watch};
use crate::status::Status;
use crate::store::{Object, Stored};

/// What a watch knows of the objects that it tells of, by the revision that made them.
#[derive(Debug, Default)]
pub(in crate::server) struct Converted {
    objects: BTreeMap<u64, Object>,
    failed: Option<Status>,
}

/// The objects of a watch that are being converted.
#[derive(Debug)]
pub(crate) struct Converting {
    question: Question,
    uid: String,
    /// What to send.
    call: HookCall,
    revisions: Vec<u64>,
}

impl Converting {
    /// The call to make.
    pub(crate) fn call(&self) -> &HookCall {
        &self.call
    }
}

/// An object as a version sees it, where no webhook is needed for that, or was asked.
pub(in crate::server) fn known(resource: &Resource, object: &Object) -> Option<Object> {
    if resource.conversion.is_none() {
        return Some(ApiServer::view(resource, object));
    }
    if resource.version == resource.storage_version && object.epoch() == resource.epoch {
        return Some(object.clone());
    }
    if let Some(view) = object.known_view(&resource.version, resource.epoch) {
        return Some(view);
    }
    let own = object.field("apiVersion").unwrap_or_default();
    (own == resource.api_version()).then(|| ApiServer::view(resource, object))
}

impl Converted {
    /// An object as the watch shows it.
    ///
    /// # Errors
    /// It was not converted so far, or cannot be: then why.
    pub(in crate::server) fn seen(
        &self,
        resource: &Resource,
        object: &Object,
    ) -> Result<Object, Option<&Status>> {
        if let Some(converted) = self.objects.get(&object.revision()) {
            return Ok(converted.clone());
        }
        known(resource, object).ok_or(self.failed.as_ref())
    }

    /// Forgets what was told.
    pub(in crate::server) fn forget(&mut self) {
        self.objects.clear();
    }
}

impl ApiServer {
    /// What a watch has to ask before [`poll`](Self::poll) can tell all that has happened.
    pub(crate) fn unconverted(&self, watch: &mut Watch) -> Option<Converting> {
        let objects = self.untold(watch);
        if objects.is_empty() {
            return None;
        }
        let resource = watch.resource();
        let originals = objects.iter().map(|object| object.to_value()).collect();
        let question = match self.question(resource, originals, resource.api_version()) {
            Ok(question) => question,
            Err(status) => {
                watch.converted.failed = Some(status);
                return None;
            }
        };
        let (api_version, kind) = question.envelope();
        let mut request = question.request();
        let asked = digest(&resource.plural, &question.call, &api_version, &request);
        let uid = uid(asked, self.ids.seed());
        request.insert("uid".into(), uid.as_str().into());
        let review = json!({"kind": kind, "apiVersion": api_version, "request": request});
        let mut call = question.call.clone();
        call.body = Bytes::from(review.to_string());
        Some(Converting {
            question,
            uid,
            call,
            revisions: objects.iter().map(|object| object.revision()).collect(),
        })
    }
}

impl Watch {
    /// Whether somebody has to be asked for what it tells.
    pub(crate) fn is_converted(&self) -> bool {
        self.resource().conversion.is_some()
    }

    /// Takes what a webhook made of the objects.
    pub(crate) fn take_converted(&mut self, of: &Converting, said: &Said) {
        let question = &of.question;
        let url = question.call.url();
        let asked = (url.as_str(), question.version, of.uid.as_str());
        match answer::converted(said, asked, &question.originals, &question.desired) {
            Ok(objects) => {
                let resource = self.resource().clone();
                for (revision, object) in of.revisions.iter().zip(objects) {
                    let value = settled(&resource, object);
                    let object = Stored::transient(value, *revision, resource.epoch);
                    self.converted.objects.insert(*revision, object);
                }
            }
            Err(why) => self.converted.failed = Some(question.failed(&why)),
        }
    }
}
