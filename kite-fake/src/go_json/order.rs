//! In which order Go has the members of a type, for each type of the table.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use serde_json::Value;

use crate::go_types::{Field, Form, Kind, Shape, TYPES};

/// What follows for members that the type does not have.
const LAST: u16 = u16::MAX;

/// The orders by the places of their types, each made when it is first asked for.
static ORDERS: LazyLock<Vec<OnceLock<Order>>> =
    LazyLock::new(|| (0..TYPES.len()).map(|_| OnceLock::new()).collect());

/// The order of a type's members.
#[derive(Debug)]
pub(crate) struct Order {
    /// In ascending order of their names.
    names: Box<[Named]>,
}

/// A member that a type has.
#[derive(Debug)]
struct Named {
    name: &'static str,
    rank: u16,
    then: Then,
}

/// In which order what a member holds is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// By name.
    Sorted,
    /// It is of the type of this place, or a list of those.
    Of(usize),
    /// It has values of the type of this place by name.
    MapOf(usize),
    /// It is a set of fields (`fieldsV1`).
    FieldSet,
    /// It may be of a kind that it names itself.
    Named,
}

impl Order {
    /// The order of the kind that a value says it is of; `None` for one that the
    /// server knows as a map.
    pub(crate) fn of(value: &Value) -> Option<&'static Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        Self::of_kind(text("apiVersion").unwrap_or_default(), text("kind")?)
    }

    /// The order of a kind.
    pub(crate) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Self> {
        Self::at(TYPES.of_built_in(api_version, kind)?)
    }

    /// The order of the members of `metadata`.
    pub(crate) fn of_metadata() -> Option<&'static Self> {
        Self::at(TYPES.find("meta.v1.ObjectMeta")?)
    }

    /// The order of the type of a place.
    pub(crate) fn at(place: usize) -> Option<&'static Self> {
        let order = ORDERS.get(place)?;
        Some(order.get_or_init(|| Self::read(place)))
    }

    fn read(place: usize) -> Self {
        let mut ranked = BTreeMap::new();
        if TYPES.message(place).is_kind() {
            for name in ["kind", "apiVersion"] {
                add(&mut ranked, name, Then::Sorted);
            }
        }
        collect(place, &mut ranked);
        let names = ranked
            .into_iter()
            .map(|(name, (rank, then))| Named { name, rank, then });
        Self {
            names: names.collect(),
        }
    }

    /// Where a member stands, and how it goes on.
    pub(crate) fn place(&self, name: &str) -> (u16, Then) {
        let found = self.names.binary_search_by(|named| named.name.cmp(name));
        match found.ok().and_then(|at| self.names.get(at)) {
            Some(named) => (named.rank, named.then),
            None => (LAST, Then::Sorted),
        }
    }
}

impl Then {
    /// The order of what a member holds.
    pub(crate) fn order(self) -> Option<&'static Order> {
        match self {
            Self::Of(place) => Order::at(place),
            _ => None,
        }
    }
}

type Ranked = BTreeMap<&'static str, (u16, Then)>;

fn add(ranked: &mut Ranked, name: &'static str, then: Then) {
    let rank = u16::try_from(ranked.len()).unwrap_or(LAST);
    ranked.entry(name).or_insert((rank, then));
}

/// Adds the members of a type; those of a type in its place stand where that does.
fn collect(place: usize, ranked: &mut Ranked) {
    for field in &TYPES.message(place).fields {
        match (field.name, field.kind) {
            (".", Kind::Message(inner)) => collect(inner, ranked),
            ("=", _) => {}
            (name, _) => add(ranked, name, then(field)),
        }
    }
}

fn then(field: &Field) -> Then {
    let inner = match field.kind {
        Kind::Message(inner) => inner,
        Kind::Raw if field.name == "fieldsV1" => return Then::FieldSet,
        Kind::Raw => return Then::Named,
        _ => return Then::Sorted,
    };
    // A type that is several things in JSON is one that it wraps, or a list of those.
    let wrapped = || {
        let fields = TYPES.message(inner).fields.iter();
        let mut messages = fields.filter_map(|field| match field.kind {
            Kind::Message(inner) => Some(inner),
            _ => None,
        });
        messages.next()
    };
    let inner = match TYPES.message(inner).form {
        Form::Object => Some(inner),
        Form::List | Form::SchemaOrBool | Form::SchemaOrSchemas | Form::SchemaOrNames => wrapped(),
    };
    match (inner, field.shape) {
        (None, _) => Then::Sorted,
        (Some(inner), Shape::Map) => Then::MapOf(inner),
        (Some(inner), Shape::Value | Shape::Pointer | Shape::List) => Then::Of(inner),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn names(order: &Order) -> Vec<&'static str> {
        let mut names: Vec<(u16, &str)> = order.names.iter().map(|n| (n.rank, n.name)).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn members_stand_as_in_go() {
        let order = |version, kind| names(Order::of_kind(version, kind).unwrap());
        assert_eq!(
            order("v1", "Status"),
            [
                "kind",
                "apiVersion",
                "metadata",
                "status",
                "message",
                "reason",
                "details",
                "code"
            ]
        );
        // Those of a struct without a name of its own stand in its place.
        let probe = names(Order::at(TYPES.find("core.v1.Probe").unwrap()).unwrap());
        assert_eq!(
            probe.get(..5).unwrap(),
            [
                "exec",
                "httpGet",
                "tcpSocket",
                "grpc",
                "initialDelaySeconds"
            ]
        );
    }

    #[test]
    fn a_kind_of_a_group_like_a_built_in_one_is_a_map() {
        assert!(Order::of_kind("apps.example.com/v1", "Deployment").is_none());
        assert!(Order::of_kind("example.com/v1", "List").is_none());
        assert!(Order::of_kind("core/v1", "Pod").is_none());
        assert!(Order::of_kind("apps/v1", "Deployment").is_some());
        assert!(Order::of_kind("meta.k8s.io/v1", "Table").is_some());
    }

    #[test]
    fn every_type_has_an_order() {
        for place in 0..TYPES.len() {
            let order = Order::at(place).unwrap();
            assert!(order.names.is_sorted_by(|a, b| a.name < b.name));
        }
    }
}
