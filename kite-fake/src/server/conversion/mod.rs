//! Objects in other versions than they are stored in. Most need no more than another
//! `apiVersion`; those of a definition that names a webhook for it (`spec.conversion`) are
//! converted by that: where they are read, written, and told of.

mod answer;
mod question;
mod watching;

pub(super) use watching::Converted;

use std::borrow::Cow;

use serde_json::Value;

use super::{ApiServer, Call, policies, rules, size};
use crate::registry::Resource;
use crate::schema;
use crate::status::Status;
use crate::store::{Key, Object, Stored};

/// An object that a webhook has converted, on its way into the store.
#[derive(Debug)]
pub(crate) struct Form {
    /// As it is stored.
    stored: Value,
    /// As the version of the request sees what is stored.
    shown: Value,
}

impl Form {
    /// As it is stored.
    pub(crate) fn stored(&self) -> &Value {
        &self.stored
    }
}

/// An object in the form of the schema of the version that it is in.
fn settled(resource: &Resource, mut object: Value) -> Value {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let schemas = resource.versions.as_deref();
    if let Some(schema) = schemas.and_then(|schemas| schemas.schema(version)) {
        schema::prune(schema, &mut object);
        schema::apply_defaults(schema, &mut object);
    }
    object
}

impl ApiServer {
    /// An object as clients of `resource`'s version see it.
    ///
    /// # Errors
    /// A webhook cannot convert it, or is still to be asked.
    pub(crate) fn seen(&mut self, resource: &Resource, object: &Object) -> Result<Object, Status> {
        if resource.conversion.is_none() {
            return Ok(Self::view(resource, object));
        }
        let mut all = self.all_seen(resource, std::slice::from_ref(object))?;
        all.pop()
            .ok_or_else(|| Status::internal("nothing was converted"))
    }

    /// The same of many objects, of which those that a webhook converts are converted at
    /// once.
    ///
    /// # Errors
    /// A webhook cannot convert them, or is still to be asked.
    pub(crate) fn all_seen(
        &mut self,
        resource: &Resource,
        objects: &[Object],
    ) -> Result<Vec<Object>, Status> {
        let known = |object: &Object| watching::known(resource, object);
        let known: Vec<Option<Object>> = objects.iter().map(known).collect();
        let missing: Vec<&Object> = objects
            .iter()
            .zip(&known)
            .filter_map(|(object, known)| known.is_none().then_some(object))
            .collect();
        let originals: Vec<Value> = missing.iter().map(|object| object.to_value()).collect();
        let converted = self.by_webhook(resource, originals, resource.api_version())?;
        let mut converted = missing.iter().zip(converted).map(|(object, value)| {
            object.view(&resource.version, resource.epoch, |_| value.clone())
        });
        Ok(known
            .into_iter()
            .filter_map(|known| known.or_else(|| converted.next()))
            .collect())
    }

    /// An object in the version of `resource`.
    ///
    /// # Errors
    /// A webhook cannot convert it, or is still to be asked.
    pub(crate) fn in_version_of(
        &mut self,
        resource: &Resource,
        value: Value,
    ) -> Result<Value, Status> {
        if resource.conversion.is_none() || value["apiVersion"] == resource.api_version() {
            return Ok(rules::convert(resource, value));
        }
        let mut all = self.by_webhook(resource, vec![value], resource.api_version())?;
        all.pop()
            .ok_or_else(|| Status::internal("nothing was converted"))
    }

    /// What a request is about, in another version of its resource.
    ///
    /// # Errors
    /// A webhook cannot convert it, or is still to be asked.
    pub(super) fn shown_as<'a>(
        &mut self,
        matched: &Resource,
        call: &Call,
        object: Option<&'a Value>,
    ) -> Result<Option<Cow<'a, Value>>, Status> {
        let Some(object) = object else {
            return Ok(None);
        };
        let asked = &call.resource;
        let same = (&matched.group, &matched.version) == (&asked.group, &asked.version);
        // Some subresources have a body of a kind of their own.
        if same || policies::own_kind(call).is_some() {
            return Ok(Some(Cow::Borrowed(object)));
        }
        let converted = self.in_version_of(matched, object.clone())?;
        Ok(Some(Cow::Owned(converted)))
    }

    fn by_webhook(
        &mut self,
        resource: &Resource,
        originals: Vec<Value>,
        desired: String,
    ) -> Result<Vec<Value>, Status> {
        if originals.is_empty() {
            return Ok(Vec::new());
        }
        let question = self.question(resource, originals, desired)?;
        let (api_version, kind) = question.envelope();
        let url = question.call.url();
        let (uid, said) = self.said(
            &resource.plural,
            question.call.clone(),
            (&api_version, kind),
            question.request(),
        )?;
        let asked = (url.as_str(), question.version, uid.as_str());
        let converted = answer::converted(&said, asked, &question.originals, &question.desired)
            .map_err(|why| question.failed(&why))?;
        let settled = converted.into_iter().map(|it| settled(resource, it));
        Ok(settled.collect())
    }

    /// The forms of an object that a webhook converts for the store; `None` if none does.
    /// It is asked before anything is stored, and for the way back, too: what a client is
    /// shown is what was stored.
    ///
    /// # Errors
    /// A webhook cannot convert it, or is still to be asked; or it is too large.
    pub(crate) fn form(
        &mut self,
        call: &Call,
        object: &mut Value,
        before: usize,
    ) -> Result<Option<Form>, Status> {
        let resource = &call.resource;
        if resource.conversion.is_none() || resource.version == resource.storage_version {
            return Ok(None);
        }
        size::check(call, object, Some(before))?;
        let mut sent = object.clone();
        // The store knows it, and nobody else.
        if let Some(metadata) = sent["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let mut stored = self.by_webhook(resource, vec![sent], resource.storage_api_version())?;
        for object in &mut stored {
            // It may have become another size.
            size::check(call, object, None)?;
        }
        let mut shown = self.by_webhook(resource, stored.clone(), resource.api_version())?;
        match (stored.pop(), shown.pop()) {
            (Some(stored), Some(shown)) => Ok(Some(Form { stored, shown })),
            _ => Err(Status::internal("nothing was converted")),
        }
    }

    /// Stores an object that was converted, and gives it as the request's version sees it.
    pub(crate) fn commit_form(&mut self, resource: &Resource, key: &Key, form: Form) -> Object {
        let collection = resource.collection();
        let object = self
            .store
            .put(&collection, key.clone(), form.stored, resource.epoch);
        let mut shown = form.shown;
        shown["metadata"]["resourceVersion"] = object.revision().to_string().into();
        let view = object.view(&resource.version, resource.epoch, |_| shown.clone());
        if view.value()["apiVersion"] == resource.api_version() {
            return view;
        }
        Stored::transient(shown, object.revision(), resource.epoch)
    }
}
