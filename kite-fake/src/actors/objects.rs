//! Reading and writing objects as an actor does: by its field manager, with
//! the preconditions that keep it from harming what it has not seen.

use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy, TypeMeta,
};
use serde_json::{Value, json};

use super::actor::{ActorError, Context};
use super::kind::{Key, Kind};
use super::loose::{Loose, beside, within};
use super::mirror::{Look, Mirror};

pub use super::mirror::Found;
use crate::clock::NAME_LETTERS;
use crate::rest::selector::LabelSelector;

/// Turns a client's error into an actor's.
pub(super) fn api_error(doing: &'static str) -> impl FnOnce(kube::Error) -> ActorError {
    move |source| ActorError::Api {
        doing,
        source: Box::new(source),
    }
}

fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// The objects of the API server, as one actor uses them.
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a> {
    context: &'a Context,
    manager: &'static str,
    /// Kinds that are read from what watches have shown.
    seen: &'static [Kind],
}

impl<'a> Objects<'a> {
    /// All of them, read by requests.
    pub fn new(context: &'a Context, manager: &'static str) -> Self {
        Self {
            context,
            manager,
            seen: &[],
        }
    }

    /// The same, with objects of `kinds` as watches have shown them. What is
    /// read so may be a little old. So only kinds can be meant that the actor
    /// itself watches, and whose changes bring every key back whose reconcile
    /// reads them.
    #[must_use]
    pub fn seeing(self, kinds: &'static [Kind]) -> Self {
        Self {
            seen: kinds,
            ..self
        }
    }

    /// The same, read by requests: before something that cannot be undone.
    #[must_use]
    pub fn live(self) -> Self {
        Self { seen: &[], ..self }
    }

    fn mirror<T>(self, kind: &Kind, look: impl FnOnce(&mut Mirror) -> T) -> Option<T> {
        let mirror = self.context.mirrors.lock().get(kind).cloned()?;
        Some(look(&mut mirror.lock()))
    }

    /// Remembers what came of a write: how the object is now, or that nobody
    /// knows.
    fn noted(self, key: &Key, result: Result<Loose, kube::Error>) -> Result<Found, kube::Error> {
        let result = result.map(|found| Found::new(found.0));
        self.mirror(&key.kind, |mirror| match &result {
            Ok(object) => mirror.note(key, object),
            Err(_) => mirror.doubt(key),
        });
        result
    }

    /// Something was done to the object beside these functions.
    pub(in crate::actors) fn doubt(self, key: &Key) {
        self.mirror(&key.kind, |mirror| mirror.doubt(key));
    }

    fn post(self) -> PostParams {
        PostParams {
            field_manager: Some(self.manager.to_owned()),
            ..PostParams::default()
        }
    }

    /// The object, if it is there.
    ///
    /// # Errors
    /// An [`ActorError`] if the API server refuses.
    pub async fn get(self, key: &Key) -> Result<Option<Found>, ActorError> {
        if key.name.is_empty() {
            // A reference that is not set: a client would refuse to ask.
            return Ok(None);
        }
        let mut asked = None;
        if self.seen.contains(&key.kind) {
            match self.mirror(&key.kind, |mirror| mirror.look(key)) {
                Some(Look::Known(found)) => {
                    return Ok(found);
                }
                Some(Look::Ask(number)) => asked = Some(number),
                None => {}
            }
        }
        let found = beside(&self.context.client, key).get_opt(&key.name).await;
        let found = found.map_err(api_error("reading an object"))?;
        let found = found.map(|found| Found::new(found.0));
        if let Some(asked) = asked {
            self.mirror(&key.kind, |mirror| {
                mirror.learn(key, asked, found.as_ref());
            });
        }
        Ok(found)
    }

    /// The object `name` of `kind`, if it is there.
    ///
    /// # Errors
    /// An [`ActorError`] if the API server refuses.
    pub async fn find(
        self,
        kind: &Kind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Found>, ActorError> {
        self.get(&Key::new(kind, namespace, name)).await
    }

    /// All objects of `kind` in `namespace` with the labels that `selector` asks for.
    ///
    /// # Errors
    /// An [`ActorError`] if the API server refuses.
    pub async fn list(
        self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Found>, ActorError> {
        if self.seen.contains(kind)
            && let Ok(selector) = LabelSelector::parse(selector)
            && let Some(Some(found)) = self.mirror(kind, |mirror| mirror.list(namespace, &selector))
        {
            return Ok(found);
        }
        let params = ListParams::default().labels(selector);
        let api = within(&self.context.client, kind, namespace);
        let listed = api.list(&params).await;
        let listed = listed.map_err(api_error("listing objects"))?.items;
        Ok(listed
            .into_iter()
            .map(|found| Found::new(found.0))
            .collect())
    }

    /// Creates an object. `None` when one of that name is there already. One with
    /// `metadata.generateName` alone gets its name from the server.
    ///
    /// # Errors
    /// An [`ActorError`] if the API server refuses, unless an object of that name is there.
    pub async fn create(
        self,
        kind: &Kind,
        namespace: Option<&str>,
        body: Value,
    ) -> Result<Option<Found>, ActorError> {
        let object = decode(kind, namespace, body)?;
        let mut key = Key::of(kind, &object);
        let api = within(&self.context.client, kind, namespace);
        let created = api.create(&self.post(), &Loose(object)).await;
        if key.name.is_empty() {
            // The server makes the name. Where no answer tells it, the watch will.
            let Ok(named) = &created else {
                return created
                    .map(|_| None)
                    .map_err(api_error("creating an object"));
            };
            key.name = named.0.metadata.name.clone().unwrap_or_default();
        }
        match self.noted(&key, created) {
            Ok(created) => Ok(Some(created)),
            Err(error) if has_code(&error, 409) => Ok(None),
            Err(error) => Err(api_error("creating an object")(error)),
        }
    }

    /// Changes an object by a merge patch, as it is there or, where `seen` is
    /// given, only if it still is as seen.
    ///
    /// # Errors
    /// An [`ActorError`] if the API server refuses; see [`ActorError::is_conflict`] where it is
    /// not as seen any more.
    pub async fn merge(
        self,
        key: &Key,
        seen: Option<&DynamicObject>,
        mut patch: Value,
    ) -> Result<Found, ActorError> {
        if let Some(version) = seen.and_then(|o| o.metadata.resource_version.as_ref()) {
            patch["metadata"]["resourceVersion"] = json!(version);
        }
        let params = PatchParams {
            field_manager: Some(self.manager.to_owned()),
            ..PatchParams::default()
        };
        let api = beside(&self.context.client, key);
        let patched = api.patch(&key.name, &params, &Patch::Merge(&patch)).await;
        self.noted(key, patched)
            .map_err(api_error("patching an object"))
    }

    /// Replaces an object by `body`, which has the version that was seen.
    ///
    /// # Errors
    /// An [`ActorError`] if the API server refuses; see [`ActorError::is_conflict`] where there
    /// is another version.
    pub async fn replace(self, key: &Key, body: Value) -> Result<(), ActorError> {
        let object = decode(&key.kind, key.namespace.as_deref(), body)?;
        let api = beside(&self.context.client, key);
        let replaced = api.replace(&key.name, &self.post(), &Loose(object)).await;
        let replaced = self.noted(key, replaced);
        replaced.map(drop).map_err(api_error("replacing an object"))
    }

    /// Gives `object` another status, unless it has it already.
    ///
    /// # Errors
    /// An [`ActorError`] if the API server refuses; see [`ActorError::is_conflict`] where there
    /// is another version.
    pub async fn set_status(
        self,
        key: &Key,
        object: &DynamicObject,
        status: Value,
    ) -> Result<bool, ActorError> {
        if object.data.get("status") == Some(&status) {
            return Ok(false);
        }
        let mut changed = object.clone();
        changed.data["status"] = status;
        // Items of lists of core kinds come without their type.
        changed.types = Some(TypeMeta {
            api_version: key.kind.api_version(),
            kind: key.kind.kind.to_string(),
        });
        let changed = Loose(changed);
        let api = beside(&self.context.client, key);
        let post = self.post();
        let written = if self.context.catalog.has_status(&key.kind) {
            api.replace_status(&key.name, &post, &changed).await
        } else {
            api.replace(&key.name, &post, &changed).await
        };
        self.noted(key, written)
            .map_err(api_error("writing a status"))?;
        Ok(true)
    }

    /// Puts those of `finalizers` on that `object` lacks. Whether there were some.
    ///
    /// # Errors
    /// An [`ActorError`] if the API server refuses. That the object is gone is none.
    pub async fn add_finalizers(
        self,
        key: &Key,
        object: &DynamicObject,
        finalizers: &[&str],
    ) -> Result<bool, ActorError> {
        let mut all = object.metadata.finalizers.clone().unwrap_or_default();
        let before = all.len();
        for name in finalizers {
            if !all.iter().any(|it| it == name) {
                all.push((*name).to_owned());
            }
        }
        if all.len() == before {
            return Ok(false);
        }
        let patch = json!({"metadata": {"finalizers": all}});
        ignore_missing(self.merge(key, Some(object), patch).await)?;
        Ok(true)
    }

    /// Takes a finalizer off.
    ///
    /// # Errors
    /// An [`ActorError`] if the API server refuses. That the object is gone is none.
    pub async fn remove_finalizer(
        self,
        key: &Key,
        object: &DynamicObject,
        finalizer: &str,
    ) -> Result<(), ActorError> {
        let all = object.metadata.finalizers.clone().unwrap_or_default();
        let rest: Vec<&String> = all.iter().filter(|f| *f != finalizer).collect();
        if rest.len() == all.len() {
            return Ok(());
        }
        let patch = json!({"metadata": {"finalizers": rest}});
        ignore_missing(self.merge(key, Some(object), patch).await)
    }

    /// Deletes exactly the object that was seen; fine when it is gone or has
    /// been replaced by another.
    ///
    /// # Errors
    /// An [`ActorError`] if the API server refuses; with [`Deletion::unchanged`] also if it has
    /// changed.
    pub async fn delete(
        self,
        key: &Key,
        object: &DynamicObject,
        options: Deletion,
    ) -> Result<(), ActorError> {
        let params = DeleteParams {
            propagation_policy: options.propagation,
            grace_period_seconds: options.grace_seconds,
            preconditions: Some(Preconditions {
                uid: object.metadata.uid.clone(),
                resource_version: options
                    .unchanged
                    .then(|| object.metadata.resource_version.clone())
                    .flatten(),
            }),
            ..DeleteParams::default()
        };
        let api: Api<DynamicObject> = key.api(&self.context.client);
        let deleted = api.delete(&key.name, &params).await;
        self.doubt(key);
        match deleted {
            Ok(_) => Ok(()),
            Err(error) if has_code(&error, 404) => Ok(()),
            Err(error) if has_code(&error, 409) && !options.unchanged => Ok(()),
            Err(error) => Err(api_error("deleting an object")(error)),
        }
    }
}

fn decode(
    kind: &Kind,
    namespace: Option<&str>,
    mut body: Value,
) -> Result<DynamicObject, ActorError> {
    let name = body["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    body["apiVersion"] = json!(kind.api_version());
    body["kind"] = json!(kind.kind);
    serde_json::from_value(body).map_err(|error| ActorError::Unreadable {
        key: Box::new(Key::new(kind, namespace, &name)),
        why: error.to_string(),
    })
}

/// How an object is deleted.
#[derive(Clone, Debug, Default)]
pub struct Deletion {
    /// What becomes of its dependents; by default what the kind says.
    pub propagation: Option<PropagationPolicy>,
    /// Seconds it gets to end; by default what the object says.
    pub grace_seconds: Option<u32>,
    /// Only if it is still as it was seen.
    pub unchanged: bool,
}

/// Fine when the object was not there any more.
///
/// # Errors
/// Any other error.
pub fn ignore_missing<T>(result: Result<T, ActorError>) -> Result<(), ActorError> {
    match result {
        Ok(_) => Ok(()),
        Err(error) if error.is_missing() => Ok(()),
        Err(error) => Err(error),
    }
}

/// The text at a JSON pointer of `object`'s data; empty when there is none.
pub fn text<'a>(object: &'a DynamicObject, pointer: &str) -> &'a str {
    object
        .data
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether `object` has a finalizer.
pub fn has_finalizer(object: &DynamicObject, finalizer: &str) -> bool {
    let all = object.metadata.finalizers.iter().flatten();
    all.into_iter().any(|it| it == finalizer)
}

/// Whether `object` is being deleted.
pub fn is_deleting(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

/// The uid of `object`; empty when it has none.
pub fn uid(object: &DynamicObject) -> &str {
    object.metadata.uid.as_deref().unwrap_or_default()
}

/// An owner reference to `owner` as its controller.
pub fn controller_reference(kind: &Kind, owner: &DynamicObject) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Whether `object`'s controller is the object with this uid.
pub fn is_controlled_by(object: &DynamicObject, owner: &str) -> bool {
    let owners = object.metadata.owner_references.iter().flatten();
    owners
        .into_iter()
        .any(|o| o.controller == Some(true) && o.uid == owner)
}

/// Five characters that stand at the end of names which controllers make for
/// the object with this uid. They look generated, but are the same each time,
/// so that making the same object twice fails.
pub fn suffix(uid: &str) -> String {
    let digits = uid.bytes().filter(u8::is_ascii_alphanumeric);
    let pairs: Vec<usize> = digits
        .collect::<Vec<u8>>()
        .chunks(2)
        .map(|pair| {
            pair.iter()
                .fold(0, |sum, byte| sum * 31 + usize::from(*byte))
        })
        .collect();
    let letter = |n: usize| {
        let pair = pairs.get(n).copied().unwrap_or_default();
        char::from(NAME_LETTERS[pair % NAME_LETTERS.len()])
    };
    (0..5).map(letter).collect()
}
