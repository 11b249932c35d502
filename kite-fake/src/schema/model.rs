//! The schema of one kind: a tree of [`Schema`] nodes.
//!
//! One model serves custom resources (parsed from `openAPIV3Schema`) and
//! built-in types (parsed from generated JSON schemas). It carries everything
//! that pruning, defaulting, validation, server-side apply, strategic merge
//! patch and the published `OpenAPI` documents need to know.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::pattern::Pattern;
use super::rule::Rule;

/// What a node's value must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// A JSON object: with known `properties`, or a map (`additional`).
    Object,
    /// A JSON array.
    Array,
    /// A JSON string.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A whole number or a string (`x-kubernetes-int-or-string`).
    IntOrString,
    /// Not restricted.
    #[default]
    Any,
}

/// How the elements of a list are told apart (`x-kubernetes-list-type`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListType {
    /// The list is one value; what lists without the extension are.
    #[default]
    Atomic,
    /// Elements are scalars and unique.
    Set,
    /// Elements are objects, told apart by these members, in this order.
    Map(Vec<String>),
}

/// How the members of an object are owned (`x-kubernetes-map-type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MapType {
    /// Each member for itself.
    #[default]
    Granular,
    /// The object is one value.
    Atomic,
}

/// What a strategic merge patch does with a list or object (`x-kubernetes-patch-strategy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PatchStrategy {
    /// Lists are replaced, objects merged; the default.
    #[default]
    Replace,
    /// Lists are merged by [`Schema::patch_merge_key`], or as a set of scalars.
    Merge,
    /// Members that the patch does not name are removed (`retainKeys`).
    RetainKeys,
    /// Both.
    MergeRetainKeys,
}

/// How a typed server writes a member that has its zero value (built-in types only).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Presence {
    /// As it was given; what custom resources and Go's pointers do.
    #[default]
    AsGiven,
    /// The zero value is left out (`omitempty`).
    OmitEmpty,
    /// Always there, with the zero value of its type if nothing else.
    Always,
    /// Always there, `null` if nothing else.
    AlwaysNull,
}

/// One node of a schema.
#[expect(
    clippy::struct_excessive_bools,
    reason = "as in the JSON schema, where they are independent of one another"
)]
#[derive(Debug, Clone, Default)]
pub struct Schema {
    /// The type of the value.
    pub kind: Kind,
    /// Known members of an object.
    pub properties: BTreeMap<String, Arc<Schema>>,
    /// The schema of an object's other members (`additionalProperties`).
    pub additional: Option<Arc<Schema>>,
    /// The schema of an array's elements.
    pub items: Option<Arc<Schema>>,
    /// How elements are told apart.
    pub list_type: ListType,
    /// How members are owned.
    pub map_type: MapType,
    /// Members that the schema does not name are kept.
    pub preserve_unknown: bool,
    /// The value is a Kubernetes object with `apiVersion`, `kind` and `metadata`.
    pub embedded_resource: bool,
    /// `null` is a value.
    pub nullable: bool,
    /// The value of an absent member.
    pub default: Option<Value>,
    /// The member by which a strategic merge patch matches elements.
    pub patch_merge_key: Option<String>,
    /// What a strategic merge patch does here.
    pub patch_strategy: PatchStrategy,
    /// Limits on the value.
    pub constraints: Constraints,
    /// CEL rules (`x-kubernetes-validations`), compiled.
    pub rules: Vec<Rule>,
    /// This node or one below it has CEL rules.
    pub has_rules_below: bool,
    /// This node or one below it has CEL rules that compare with the value before.
    pub has_transitions_below: bool,
    /// This node or one below it is a whole object (`x-kubernetes-embedded-resource`).
    pub has_embedded_below: bool,
    /// What people read about it.
    pub description: Option<String>,
    /// What happens to the zero value (`x-presence`).
    pub presence: Presence,
    /// The name of the Go type, which decoding errors quote (`x-go-type`).
    pub type_name: Option<String>,
}

/// Limits on a value, as in JSON schema validation.
#[derive(Debug, Clone, Default)]
pub struct Constraints {
    /// Members that must be there, in the order of the document.
    pub required: Vec<String>,
    /// The values allowed, in the order of the document.
    pub enumeration: Vec<Value>,
    /// The regular expression that a string must match somewhere.
    pub pattern: Option<Pattern>,
    /// A named format such as `date-time` or `int32`.
    pub format: Option<String>,
    /// Least number.
    pub minimum: Option<Bound>,
    /// Greatest number.
    pub maximum: Option<Bound>,
    /// The number is a multiple of this.
    pub multiple_of: Option<f64>,
    /// Least length of a string, in characters.
    pub min_length: Option<u64>,
    /// Greatest length of a string, in characters.
    pub max_length: Option<u64>,
    /// Least number of elements.
    pub min_items: Option<u64>,
    /// Greatest number of elements.
    pub max_items: Option<u64>,
    /// No element occurs twice.
    pub unique_items: bool,
    /// Least number of members.
    pub min_properties: Option<u64>,
    /// Greatest number of members.
    pub max_properties: Option<u64>,
    /// Every one of these holds.
    pub all_of: Vec<Arc<Schema>>,
    /// At least one of these holds.
    pub any_of: Vec<Arc<Schema>>,
    /// Exactly one of these holds.
    pub one_of: Vec<Arc<Schema>>,
    /// This does not hold.
    pub not: Option<Arc<Schema>>,
}

/// One end of a range of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The limit itself.
    pub value: f64,
    /// The limit is not part of the range.
    pub exclusive: bool,
}

impl Schema {
    /// A node that allows anything and keeps everything.
    pub fn any() -> Self {
        Self {
            preserve_unknown: true,
            ..Self::default()
        }
    }

    /// The schema of a member, whether named or one of a map's; `None` if unknown.
    pub fn member(&self, name: &str) -> Option<&Arc<Schema>> {
        self.properties.get(name).or(self.additional.as_ref())
    }

    /// The object is a map: it names no members, but what they all are.
    pub fn is_map(&self) -> bool {
        self.kind == Kind::Object && self.properties.is_empty() && self.additional.is_some()
    }
}
