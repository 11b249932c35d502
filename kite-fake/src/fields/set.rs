//! A set of fields, as a tree of path elements; in JSON it is `fieldsV1`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::typed;
use crate::path_element::PathElement;
use crate::schema::Schema;

/// A set of paths to fields.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSet {
    children: BTreeMap<PathElement, Node>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Node {
    /// The path that ends here is in the set.
    member: bool,
    below: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// Whether there is no path in it.
    pub fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Reads `fieldsV1`; `None` if it is malformed.
    pub fn decode(fields: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (name, inner) in fields.as_object()? {
            if name == "." {
                // The set of an object as a whole: only meaningful below the root,
                // where `decode_node` has seen it.
                continue;
            }
            let node = Node {
                member: inner
                    .as_object()
                    .is_some_and(|inner| inner.is_empty() || inner.contains_key(".")),
                below: Self::decode(inner)?,
            };
            set.children.insert(PathElement::decode(name)?, node);
        }
        Some(set)
    }

    /// Writes `fieldsV1`.
    pub fn encode(&self) -> Value {
        Value::Object(self.encode_members())
    }

    fn encode_members(&self) -> Map<String, Value> {
        self.children
            .iter()
            .map(|(element, node)| {
                let mut inner = node.below.encode_members();
                if node.member && !inner.is_empty() {
                    inner.insert(".".to_owned(), json!({}));
                }
                (element.encode(), Value::Object(inner))
            })
            .collect()
    }

    /// Adds the path of one element.
    pub fn insert(&mut self, element: PathElement) {
        self.children.entry(element).or_default().member = true;
    }

    /// The part below an element, made if need be.
    pub(super) fn below_mut(&mut self, element: PathElement) -> &mut Self {
        &mut self.children.entry(element).or_default().below
    }

    /// Adds `below` under an element, and the element itself if `member`.
    pub(super) fn graft(&mut self, element: PathElement, member: bool, below: Self) {
        if member || !below.is_empty() {
            self.children.insert(element, Node { member, below });
        }
    }

    /// Makes parts of what the schema sees as one field that field.
    pub(super) fn settle(&mut self, schema: Option<&Schema>) {
        for (element, node) in &mut self.children {
            if node.below.is_empty() {
                continue;
            }
            let inner = match element {
                PathElement::Field(name) => typed::member(schema, name),
                _ => schema.and_then(typed::items),
            };
            if inner.is_some_and(typed::is_atomic) {
                node.member = true;
                node.below = Self::default();
            } else if inner.is_some() {
                node.below.settle(inner);
            }
        }
    }

    /// Whether the path of one element is in the set.
    pub fn has(&self, element: &PathElement) -> bool {
        self.children.get(element).is_some_and(|node| node.member)
    }

    /// The part below an element.
    pub fn below(&self, element: &PathElement) -> Option<&Self> {
        self.children
            .get(element)
            .map(|node| &node.below)
            .filter(|below| !below.is_empty())
    }

    /// The first elements of all paths.
    pub fn elements(&self) -> impl Iterator<Item = &PathElement> {
        self.children.keys()
    }

    /// Adds all paths of another set.
    pub fn union_with(&mut self, other: &Self) {
        for (element, theirs) in &other.children {
            match self.children.get_mut(element) {
                Some(ours) => {
                    ours.member |= theirs.member;
                    ours.below.union_with(&theirs.below);
                }
                None => {
                    self.children.insert(element.clone(), theirs.clone());
                }
            }
        }
    }

    /// Removes all paths of another set, but not what is below them.
    pub fn subtract(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.children.retain(|element, ours| {
            if let Some(theirs) = other.children.get(element) {
                ours.member &= !theirs.member;
                ours.below.subtract(&theirs.below);
            }
            !ours.is_empty()
        });
    }

    /// The paths that are in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::default();
        for (element, ours) in &self.children {
            if let Some(theirs) = other.children.get(element) {
                both.graft(
                    element.clone(),
                    ours.member && theirs.member,
                    ours.below.intersection(&theirs.below),
                );
            }
        }
        both
    }

    /// Keeps only what begins with a member that passes; what begins otherwise stays.
    pub fn retain_members(&mut self, keep: impl Fn(&str) -> bool) {
        self.children.retain(|element, _| match element {
            PathElement::Field(name) => keep(name),
            PathElement::Key(_) | PathElement::Value(_) | PathElement::Index(_) => true,
        });
    }

    /// Takes out a member of a member, and all below it.
    pub(super) fn remove_within(&mut self, outer: &str, inner: &str) {
        let outer = PathElement::Field(outer.to_owned());
        let Some(node) = self.children.get_mut(&outer) else {
            return;
        };
        node.below.retain_members(|member| member != inner);
        if node.is_empty() {
            self.children.remove(&outer);
        }
    }

    /// All paths, written out: those that end in a node before those that go on.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, prefix: &str, paths: &mut Vec<String>) {
        for (element, node) in &self.children {
            if node.member {
                paths.push(format!("{prefix}{element}"));
            }
        }
        for (element, node) in &self.children {
            node.below.collect(&format!("{prefix}{element}"), paths);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::testing::any_json;

    fn set(fields: &Value) -> FieldSet {
        FieldSet::decode(fields).unwrap()
    }

    #[test]
    fn fields_are_read_and_written() {
        let fields = json!({
            "f:data": {".": {}, "f:a": {}},
            "f:spec": {"f:items": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}}},
            "f:tags": {"v:\"x\"": {}},
        });
        assert_eq!(set(&fields).encode(), fields);
        assert_eq!(
            set(&fields).paths(),
            [
                ".data",
                ".data.a",
                ".spec.items[name=\"a\"]",
                ".spec.items[name=\"a\"].name",
                ".tags[=\"x\"]"
            ]
        );
    }

    #[test]
    fn subtracting_leaves_what_is_below() {
        let mut fields = set(&json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        fields.subtract(&set(&json!({"f:a": {}, "f:c": {}, "f:d": {}})));
        assert_eq!(fields.encode(), json!({"f:a": {"f:b": {}}}));
    }

    #[test]
    fn malformed_fields_are_refused() {
        for fields in [json!([]), json!({"x": {}}), json!({"f:a": 1})] {
            assert_eq!(FieldSet::decode(&fields), None, "{fields}");
        }
    }

    /// A random set, by way of the paths of random JSON.
    fn any_set() -> impl Strategy<Value = FieldSet> {
        fn of(value: &Value) -> FieldSet {
            let mut set = FieldSet::default();
            if let Value::Object(members) = value {
                for (name, inner) in members {
                    let element = PathElement::Field(name.clone());
                    set.graft(element, !inner.is_array(), of(inner));
                }
            }
            set
        }
        any_json().prop_map(|value| of(&value))
    }

    proptest! {
        #[test]
        fn the_laws_of_sets_hold(a in any_set(), b in any_set()) {
            let mut union = a.clone();
            union.union_with(&b);
            let mut only_a = union.clone();
            only_a.subtract(&b);
            let mut again = only_a.clone();
            again.union_with(&a.intersection(&b));
            prop_assert_eq!(&again, &a);
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
            prop_assert!(only_a.intersection(&b).is_empty());
            prop_assert_eq!(FieldSet::decode(&union.encode()), Some(union));
        }

        #[test]
        fn reading_never_panics(value in any_json()) {
            let _ = FieldSet::decode(&value);
        }
    }
}
