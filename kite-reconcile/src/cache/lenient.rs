//! Objects that are read each by itself, so that one which cannot be read does
//! not spoil the list that it is in.

use std::borrow::Cow;

use kite_core::cluster::Object;
use kube::{Resource, api::ObjectMeta, runtime::watcher::Event};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

/// An object, or why it is none.
#[derive(Clone, Debug)]
pub(super) enum Lenient<K> {
    Read(Box<K>),
    Unreadable(Box<Unread>),
}

/// An object that its kind's type cannot hold.
#[derive(Clone, Debug)]
pub(super) struct Unread {
    /// What names it.
    pub(super) meta: ObjectMeta,
    pub(super) why: String,
}

impl<'de, K: Object> Deserialize<'de> for Lenient<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let why = match K::deserialize(&value) {
            Ok(object) => return Ok(Self::Read(Box::new(object))),
            Err(why) => why.to_string(),
        };
        let text = |field: &str| value["metadata"][field].as_str().map(str::to_owned);
        let meta = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        if meta.name.is_none() {
            // No object at all.
            return Err(D::Error::custom(why));
        }
        Ok(Self::Unreadable(Box::new(Unread { meta, why })))
    }
}

impl<K: Object> Resource for Lenient<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Read(object) => object.meta(),
            Self::Unreadable(unread) => &unread.meta,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Read(object) => object.meta_mut(),
            Self::Unreadable(unread) => &mut unread.meta,
        }
    }
}

/// The event, of an object that was read.
pub(super) fn all_read<K>(event: Event<K>) -> Event<Lenient<K>> {
    let read = |object| Lenient::Read(Box::new(object));
    match event {
        Event::Apply(object) => Event::Apply(read(object)),
        Event::Delete(object) => Event::Delete(read(object)),
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(read(object)),
        Event::InitDone => Event::InitDone,
    }
}
