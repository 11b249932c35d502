//! From the JSON of a schema to the model.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::meta::object_meta;
use super::model::{Bound, Constraints, Kind, ListType, MapType, PatchStrategy, Presence, Schema};
use super::pattern::Pattern;
use super::rule::Rule;

/// Schemas nested deeper than this are refused.
const MAX_DEPTH: usize = 64;

/// A schema that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A schema is a JSON object; this is something else.
    #[error("{path}: a schema must be an object")]
    NotAnObject {
        /// Where in the document.
        path: String,
    },
    /// The document nests too deeply.
    #[error("{path}: schemas may nest at most 64 levels")]
    TooDeep {
        /// Where in the document.
        path: String,
    },
    /// A pattern is no regular expression.
    #[error("{path}: pattern {pattern:?} is not usable: {reason}")]
    Pattern {
        /// Where in the document.
        path: String,
        /// The pattern's text.
        pattern: String,
        /// What the compiler says.
        reason: String,
    },
    /// A reference leads nowhere.
    #[error("{path}: cannot resolve {reference:?}")]
    Reference {
        /// Where in the document.
        path: String,
        /// The reference's text.
        reference: String,
    },
}

impl Schema {
    /// Parses a self-contained JSON schema, such as a CRD's `openAPIV3Schema`
    /// or a part of one. References (`#/…`) are followed within `value`; where
    /// one leads back into itself, the inner node allows anything.
    ///
    /// # Errors
    /// See [`SchemaError`]. CEL rules that do not compile are no error here: they
    /// fail when evaluated, and the CRD's own validation refuses them.
    pub fn from_json(value: &Value) -> Result<Self, SchemaError> {
        Parser::new(value).node(value, "", 0).map(|schema| *schema)
    }

    /// Parses all definitions of a document (its `$defs`), each once.
    ///
    /// # Errors
    /// See [`SchemaError`].
    pub fn from_definitions(document: &Value) -> Result<BTreeMap<String, Arc<Self>>, SchemaError> {
        let mut parser = Parser::new(document);
        let names = document.get("$defs").and_then(Value::as_object);
        names
            .into_iter()
            .flat_map(Map::keys)
            .map(|name| {
                let reference = format!("#/$defs/{name}");
                let schema = parser.reference(&Map::new(), &reference, name, 0)?;
                Ok((name.clone(), Arc::from(schema)))
            })
            .collect()
    }

    /// Parses the schema of a custom resource's version: as [`Schema::from_json`],
    /// with `apiVersion`, `kind` and `metadata` added, which it has in any case.
    ///
    /// # Errors
    /// See [`SchemaError`].
    pub fn for_custom_resource(value: &Value) -> Result<Self, SchemaError> {
        let mut schema = Self::from_json(value)?;
        schema.kind = Kind::Object;
        schema.add_type_meta();
        Ok(schema)
    }

    fn add_type_meta(&mut self) {
        for name in ["apiVersion", "kind"] {
            self.properties.entry(name.to_owned()).or_insert_with(|| {
                Arc::new(Schema {
                    kind: Kind::String,
                    ..Schema::default()
                })
            });
        }
        let metadata = match self.properties.get("metadata") {
            None => object_meta(),
            Some(declared) => Arc::new(with_declared(&object_meta(), declared)),
        };
        self.properties.insert("metadata".to_owned(), metadata);
    }
}

/// `ObjectMeta` with the limits that a definition puts on `name` and `generateName`.
fn with_declared(base: &Schema, declared: &Schema) -> Schema {
    let mut merged = base.clone();
    for (name, limits) in &declared.properties {
        if let Some(known) = base.properties.get(name) {
            let mut node = (**known).clone();
            node.constraints = limits.constraints.clone();
            merged.properties.insert(name.clone(), Arc::new(node));
        }
    }
    merged
}

/// Follows references while it descends.
struct Parser<'a> {
    root: &'a Value,
    /// References being resolved, outermost first.
    open: Vec<String>,
    /// References that have been resolved, and lead nowhere back.
    known: BTreeMap<String, Arc<Schema>>,
    /// How many references led back into themselves so far.
    cycles: usize,
}

impl<'a> Parser<'a> {
    fn new(root: &'a Value) -> Self {
        Self {
            root,
            open: Vec::new(),
            known: BTreeMap::new(),
            cycles: 0,
        }
    }
}

impl Parser<'_> {
    /// One node and all below it. Frames stay small, for there can be many:
    /// what does not recurse is read in functions of their own.
    fn node(
        &mut self,
        value: &Value,
        path: &str,
        depth: usize,
    ) -> Result<Box<Schema>, SchemaError> {
        if depth > MAX_DEPTH {
            return Err(SchemaError::TooDeep {
                path: path.to_owned(),
            });
        }
        let object = match value {
            Value::Bool(_) => return Ok(Box::new(Schema::any())),
            Value::Object(object) => object,
            _ => {
                return Err(SchemaError::NotAnObject {
                    path: path.to_owned(),
                });
            }
        };
        if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
            return self.reference(object, reference, path, depth);
        }
        let mut schema = own_part(object, path)?;
        self.children(&mut schema, object, path, depth)?;
        if schema.embedded_resource {
            schema.add_type_meta();
        }
        let below = |holds: fn(&Schema) -> bool| {
            let children = schema.properties.values();
            let mut children = children.chain(&schema.additional).chain(&schema.items);
            children.any(|child| holds(child))
        };
        let rules_below = below(|child| child.has_rules_below);
        let transitions_below = below(|child| child.has_transitions_below);
        let embedded_below = below(|child| child.has_embedded_below);
        schema.has_rules_below = rules_below || !schema.rules.is_empty();
        schema.has_transitions_below =
            transitions_below || schema.rules.iter().any(Rule::is_transition);
        schema.has_embedded_below = embedded_below || schema.embedded_resource;
        Ok(schema)
    }

    /// The schemas within a schema.
    fn children(
        &mut self,
        schema: &mut Schema,
        object: &Map<String, Value>,
        path: &str,
        depth: usize,
    ) -> Result<(), SchemaError> {
        if let Some(inner) = object.get("additionalProperties")
            && !matches!(inner, Value::Bool(false) | Value::Null)
        {
            schema.additional = Some(self.child(inner, path, "additionalProperties", depth)?);
        }
        if let Some(inner) = object.get("items").filter(|v| !v.is_null()) {
            schema.items = Some(self.child(inner, path, "items", depth)?);
        }
        if let Some(inner) = object.get("not").filter(|v| !v.is_null()) {
            schema.constraints.not = Some(self.child(inner, path, "not", depth)?);
        }
        schema.constraints.all_of = self.list(object, "allOf", path, depth)?;
        schema.constraints.any_of = self.list(object, "anyOf", path, depth)?;
        schema.constraints.one_of = self.list(object, "oneOf", path, depth)?;
        if let Some(Value::Object(members)) = object.get("properties") {
            for (name, inner) in members {
                let child = self.child(inner, path, &format!("properties[{name}]"), depth)?;
                schema.properties.insert(name.clone(), child);
            }
        }
        Ok(())
    }

    fn child(
        &mut self,
        value: &Value,
        path: &str,
        name: &str,
        depth: usize,
    ) -> Result<Arc<Schema>, SchemaError> {
        let path = if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        };
        self.node(value, &path, depth + 1).map(Arc::from)
    }

    /// A reference and what stands beside it (a description, a default).
    fn reference(
        &mut self,
        object: &Map<String, Value>,
        reference: &str,
        path: &str,
        depth: usize,
    ) -> Result<Box<Schema>, SchemaError> {
        if self.open.iter().any(|open| open == reference) {
            self.cycles += 1;
            return Ok(Box::new(Schema::any()));
        }
        let mut schema = match self.known.get(reference) {
            Some(known) => Box::new(Schema::clone(known)),
            None => self.resolve(reference, path, depth)?,
        };
        if let Some(description) = text(object, "description") {
            schema.description = Some(description.to_owned());
        }
        if let Some(default) = object.get("default").filter(|v| !v.is_null()) {
            schema.default = Some(default.clone());
        }
        if object.contains_key("x-presence") {
            schema.presence = presence(object);
        }
        if text(object, "x-kubernetes-map-type") == Some("granular") {
            schema.map_type = MapType::Granular;
        }
        Ok(schema)
    }

    /// What a reference leads to.
    fn resolve(
        &mut self,
        reference: &str,
        path: &str,
        depth: usize,
    ) -> Result<Box<Schema>, SchemaError> {
        let root = self.root;
        let target = reference
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer));
        let Some(target) = target else {
            return Err(SchemaError::Reference {
                path: path.to_owned(),
                reference: reference.to_owned(),
            });
        };
        let before = self.cycles;
        self.open.push(reference.to_owned());
        let resolved = self.node(target, path, depth + 1);
        self.open.pop();
        let schema = resolved?;
        // Where a cycle was cut depends on where it was entered: not for reuse.
        if self.cycles == before {
            let shared = Arc::new(Schema::clone(&schema));
            self.known.insert(reference.to_owned(), shared);
        }
        Ok(schema)
    }

    fn list(
        &mut self,
        object: &Map<String, Value>,
        name: &str,
        path: &str,
        depth: usize,
    ) -> Result<Vec<Arc<Schema>>, SchemaError> {
        let Some(Value::Array(schemas)) = object.get(name) else {
            return Ok(Vec::new());
        };
        schemas
            .iter()
            .enumerate()
            .map(|(i, inner)| self.child(inner, path, &format!("{name}[{i}]"), depth))
            .collect()
    }
}

/// What a node says about itself.
fn own_part(object: &Map<String, Value>, path: &str) -> Result<Box<Schema>, SchemaError> {
    Ok(Box::new(Schema {
        kind: kind_of(object),
        list_type: list_type(object),
        map_type: match text(object, "x-kubernetes-map-type") {
            Some("atomic") => MapType::Atomic,
            _ => MapType::Granular,
        },
        preserve_unknown: flag(object, "x-kubernetes-preserve-unknown-fields"),
        embedded_resource: flag(object, "x-kubernetes-embedded-resource"),
        nullable: flag(object, "nullable"),
        default: object.get("default").filter(|v| !v.is_null()).cloned(),
        patch_merge_key: text(object, "x-kubernetes-patch-merge-key").map(str::to_owned),
        patch_strategy: patch_strategy(object),
        constraints: own_constraints(object, path)?,
        rules: Rule::parse_all(object),
        description: text(object, "description").map(str::to_owned),
        presence: presence(object),
        type_name: text(object, "x-go-type").map(str::to_owned),
        ..Schema::default()
    }))
}

fn own_constraints(object: &Map<String, Value>, path: &str) -> Result<Constraints, SchemaError> {
    let pattern = match text(object, "pattern") {
        None | Some("") => None,
        Some(source) => Some(Pattern::new(source).map_err(|error| SchemaError::Pattern {
            path: path.to_owned(),
            pattern: source.to_owned(),
            reason: error.to_string(),
        })?),
    };
    let count = |name: &str| object.get(name).and_then(Value::as_u64);
    Ok(Constraints {
        required: object
            .get("required")
            .and_then(Value::as_array)
            .map(|names| {
                names
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect()
            })
            .unwrap_or_default(),
        enumeration: object
            .get("enum")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default(),
        pattern,
        format: text(object, "format").map(str::to_owned),
        minimum: bound(object, "minimum", "exclusiveMinimum"),
        maximum: bound(object, "maximum", "exclusiveMaximum"),
        multiple_of: object.get("multipleOf").and_then(Value::as_f64),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        unique_items: flag(object, "uniqueItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        ..Constraints::default()
    })
}

fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    object.get(name).and_then(Value::as_str)
}

fn flag(object: &Map<String, Value>, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// The type; generated schemas write `["string", "null"]` for an optional one.
fn kind_of(object: &Map<String, Value>) -> Kind {
    if flag(object, "x-kubernetes-int-or-string") || text(object, "format") == Some("int-or-string")
    {
        return Kind::IntOrString;
    }
    let name = match object.get("type") {
        Some(Value::String(name)) => Some(name.as_str()),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .find(|name| *name != "null"),
        _ => None,
    };
    match name {
        Some("object") => Kind::Object,
        Some("array") => Kind::Array,
        Some("string") => Kind::String,
        Some("integer") => Kind::Integer,
        Some("number") => Kind::Number,
        Some("boolean") => Kind::Boolean,
        _ => Kind::Any,
    }
}

fn list_type(object: &Map<String, Value>) -> ListType {
    match text(object, "x-kubernetes-list-type") {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(
            object
                .get("x-kubernetes-list-map-keys")
                .and_then(Value::as_array)
                .map(|keys| {
                    keys.iter()
                        .filter_map(Value::as_str)
                        .map(str::to_owned)
                        .collect()
                })
                .unwrap_or_default(),
        ),
        _ => ListType::Atomic,
    }
}

fn presence(object: &Map<String, Value>) -> Presence {
    match text(object, "x-presence") {
        Some("omitempty") => Presence::OmitEmpty,
        Some("always") => Presence::Always,
        Some("null") => Presence::AlwaysNull,
        _ => Presence::AsGiven,
    }
}

fn patch_strategy(object: &Map<String, Value>) -> PatchStrategy {
    let words: Vec<&str> = text(object, "x-kubernetes-patch-strategy")
        .map(|s| s.split(',').collect())
        .unwrap_or_default();
    match (words.contains(&"merge"), words.contains(&"retainKeys")) {
        (false, false) => PatchStrategy::Replace,
        (true, false) => PatchStrategy::Merge,
        (false, true) => PatchStrategy::RetainKeys,
        (true, true) => PatchStrategy::MergeRetainKeys,
    }
}

/// A bound: `OpenAPI` 3.0 has a flag beside it, JSON schema a number of its own.
fn bound(object: &Map<String, Value>, name: &str, exclusive: &str) -> Option<Bound> {
    let inclusive = object.get(name).and_then(Value::as_f64);
    match object.get(exclusive) {
        Some(Value::Bool(exclusive)) => inclusive.map(|value| Bound {
            value,
            exclusive: *exclusive,
        }),
        Some(Value::Number(number)) => number.as_f64().map(|value| Bound {
            value,
            exclusive: true,
        }),
        _ => inclusive.map(|value| Bound {
            value,
            exclusive: false,
        }),
    }
}
