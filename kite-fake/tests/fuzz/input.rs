//! Bytes as choices: the same bytes make the same input, few bytes a small one.

use arbitrary::Unstructured;
use serde_json::{Map, Value};

/// Where choices are taken from. When the bytes are used up every choice is the
/// first one, so that every input ends.
pub struct Input<'a>(Unstructured<'a>);

/// Words that mean something to the server somewhere.
const WORDS: &[&str] = &[
    "",
    "a",
    "b",
    "0",
    "1",
    "-1",
    "v1",
    "x.io/v1",
    "Thing",
    "ConfigMap",
    "default",
    "Foreground",
    "Orphan",
    "Background",
    "Opaque",
    "ClusterIP",
    "10.96.0.9",
    "1Gi",
    "500m",
    "TCP",
    "é",
    "~1",
    "kubernetes.io/metadata.name",
    "x.io/hold",
    "2024-01-01T00:00:00Z",
    "2024-01-01T00:00:00.000000Z",
    "replace",
    "delete",
    "merge",
    "*",
    "$",
    "k",
    "<nil>",
    "\u{0}",
    "true",
    "null",
    "f:metadata",
];

/// Member names that lead somewhere.
const NAMES: &[&str] = &[
    "metadata",
    "name",
    "namespace",
    "spec",
    "status",
    "finalizers",
    "labels",
    "annotations",
    "ownerReferences",
    "managedFields",
    "data",
    "stringData",
    "binaryData",
    "immutable",
    "type",
    "list",
    "set",
    "map",
    "atomic",
    "k",
    "n",
    "rules",
    "subjects",
    "roleRef",
    "hard",
    "scopes",
    "ports",
    "port",
    "protocol",
    "nodePort",
    "clusterIP",
    "versions",
    "names",
    "schema",
    "uid",
    "resourceVersion",
    "generation",
    "generateName",
    "deletionTimestamp",
    "preconditions",
    "resourceAttributes",
    "containers",
    "template",
    "selector",
    "matchLabels",
    "limits",
    "replicas",
    "apiVersion",
    "kind",
    "controller",
    "blockOwnerDeletion",
    "propagationPolicy",
    "orphanDependents",
    "gracePeriodSeconds",
    "$patch",
    "$retainKeys",
    "$setElementOrder/ports",
    "f:spec",
    ".",
    "a",
    "",
];

impl<'a> Input<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Self(Unstructured::new(data))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0
            .int_in_range(0..=end.saturating_sub(1))
            .unwrap_or_default()
    }

    pub fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A word that means something, or any text.
    pub fn text(&mut self) -> String {
        if self.below(4) == 0 {
            let length = self.below(24);
            let bytes = self.0.bytes(length.min(self.0.len())).unwrap_or_default();
            return String::from_utf8_lossy(bytes).into_owned();
        }
        self.pick(WORDS).to_owned()
    }

    pub fn name(&mut self) -> String {
        if self.below(16) == 0 {
            return self.text();
        }
        self.pick(NAMES).to_owned()
    }

    /// Any JSON, at most `depth` deep.
    pub fn value(&mut self, depth: usize) -> Value {
        let kinds = if depth == 0 { 5 } else { 8 };
        match self.below(kinds) {
            0 => Value::Null,
            1 => self.flag().into(),
            2 => self.number(),
            3 | 4 => self.text().into(),
            5 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            _ => self.object(depth - 1).into(),
        }
    }

    pub fn object(&mut self, depth: usize) -> Map<String, Value> {
        (0..self.below(5))
            .map(|_| (self.name(), self.value(depth)))
            .collect()
    }

    fn number(&mut self) -> Value {
        match self.below(6) {
            0 => self.0.arbitrary::<i64>().unwrap_or_default().into(),
            1 => self.0.arbitrary::<f64>().unwrap_or_default().into(),
            2 => u64::MAX.into(),
            3 => (-1).into(),
            _ => self.below(200).into(),
        }
    }
}
