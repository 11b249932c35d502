//! Where the watches of a kind show all that there is.

use std::collections::HashSet;

use kite_cluster::ObjectKey;

/// What one watch shows of a kind that is not watched everywhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// All objects in a namespace.
    Namespace(String),
    /// One object.
    Object(ObjectKey),
}

impl Place {
    /// The namespace in which it is.
    pub(super) fn namespace(&self) -> &str {
        match self {
            Self::Namespace(name) => name,
            Self::Object(key) => key.namespace.as_deref().unwrap_or_default(),
        }
    }

    /// Whether an object with this key is shown there.
    pub(super) fn has(&self, key: &ObjectKey) -> bool {
        match self {
            Self::Namespace(name) => key.namespace.as_ref() == Some(name),
            Self::Object(one) => one == key,
        }
    }
}

/// Where all is known of a kind, once its first list is complete.
#[derive(Debug)]
pub(super) enum Reach {
    /// Wherever there is something.
    Everywhere,
    /// In places whose lists are complete: nothing is known of any other.
    Within(Within),
}

/// Places whose lists are complete.
#[derive(Debug, Default)]
pub(super) struct Within {
    namespaces: HashSet<String>,
    /// Few.
    objects: HashSet<ObjectKey>,
    /// How many places are to be known.
    wanted: usize,
}

impl Reach {
    /// No place yet.
    pub(super) fn nowhere() -> Self {
        Self::Within(Within::default())
    }

    /// Whether all is known that may have this namespace and this name: any name,
    /// any namespace, where none is given.
    pub(super) fn covers(&self, namespace: Option<&str>, name: Option<&str>) -> bool {
        let Self::Within(known) = self else {
            return true;
        };
        let Some(namespace) = namespace else {
            return false;
        };
        let is_it = |key: &ObjectKey| {
            key.namespace.as_deref() == Some(namespace) && Some(key.name.as_str()) == name
        };
        known.namespaces.contains(namespace) || known.objects.iter().any(is_it)
    }

    /// How many places are to be known, and how many are; none where it is not by places.
    pub(super) fn places(&self) -> (usize, usize) {
        match self {
            Self::Everywhere => (0, 0),
            Self::Within(known) => {
                let there = known.namespaces.len() + known.objects.len();
                (known.wanted, there)
            }
        }
    }

    /// So many places are to be known from now on.
    pub(super) fn want(&mut self, places: usize) {
        if let Self::Within(known) = self {
            known.wanted = places;
        }
    }

    /// Whether all is known of everything.
    pub(super) fn is_everywhere(&self) -> bool {
        matches!(self, Self::Everywhere)
    }

    /// Whether all is known of any namespace.
    pub(super) fn has_any_namespace(&self) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Within(known) => !known.namespaces.is_empty(),
        }
    }

    /// Whether the place is known.
    pub(super) fn has(&self, place: &Place) -> bool {
        match (self, place) {
            (Self::Everywhere, _) => true,
            (Self::Within(known), Place::Namespace(name)) => known.namespaces.contains(name),
            (Self::Within(known), Place::Object(key)) => known.objects.contains(key),
        }
    }

    /// The place is known from now on.
    pub(super) fn add(&mut self, place: &Place) {
        let Self::Within(known) = self else {
            return;
        };
        match place {
            Place::Namespace(name) => known.namespaces.insert(name.clone()),
            Place::Object(key) => known.objects.insert(key.clone()),
        };
    }

    /// The place is not known any more.
    pub(super) fn remove(&mut self, place: &Place) {
        let Self::Within(known) = self else {
            return;
        };
        match place {
            Place::Namespace(name) => known.namespaces.remove(name),
            Place::Object(key) => known.objects.remove(key),
        };
    }
}
