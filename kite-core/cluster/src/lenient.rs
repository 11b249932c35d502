//! Objects that are read each by itself, so that one which cannot be read does
//! not spoil the list that it is in.

use std::{borrow::Cow, collections::BTreeMap};

use kube::{Resource, api::ObjectMeta};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use super::{ClusterError, Object, ObjectKey};

/// What a list found.
#[derive(Clone, Debug)]
#[must_use = "objects that cannot be read are not among its items"]
pub struct Listed<K> {
    /// The objects that could be read.
    pub items: Vec<K>,
    /// Objects that are there and could not.
    pub unreadable: Vec<Unread>,
    /// Where the next page begins, if there is one.
    pub continue_token: Option<String>,
}

impl<K> Listed<K> {
    /// These, and no more.
    pub fn of(items: Vec<K>) -> Self {
        Self {
            items,
            unreadable: Vec::new(),
            continue_token: None,
        }
    }
}

impl<K: Object> Listed<K> {
    /// All that is there, or [`ClusterError::Unreadable`]: for decisions that
    /// would be wrong if an object was missing.
    ///
    /// # Errors
    /// [`ClusterError::Unreadable`] with the first object that cannot be read.
    pub fn complete(self) -> Result<Vec<K>, ClusterError> {
        match self.unreadable.first() {
            None => Ok(self.items),
            Some(unread) => Err(ClusterError::Unreadable {
                operation: format!("list {}", K::kind(&())),
                message: unread.to_string(),
            }),
        }
    }
}

/// An object, or why it is none of its kind. Watched as such
/// (`Api<Lenient<K>>`), one that cannot be read does not end the watch.
#[derive(Clone, Debug)]
pub enum Lenient<K> {
    /// The object.
    Read(Box<K>),
    /// It is there, and its kind's type cannot hold it.
    Unreadable(Box<Unread>),
}

/// An object that its kind's type cannot hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Unread {
    /// Its name, namespace, labels, uid and resourceVersion, as far as those can
    /// be read.
    pub meta: ObjectMeta,
    /// Which field cannot be read, and why.
    pub why: String,
}

impl Unread {
    /// Its namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            namespace: self.meta.namespace.clone(),
            name: self.meta.name.clone().unwrap_or_default(),
        }
    }
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (key, why) = (self.key(), &self.why);
        write!(
            f,
            "{key} cannot be read: {why}; mend the field that is named"
        )
    }
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
            labels: BTreeMap::deserialize(&value["metadata"]["labels"]).ok(),
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

impl<K> From<K> for Lenient<K> {
    fn from(object: K) -> Self {
        Self::Read(Box::new(object))
    }
}
