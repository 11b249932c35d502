//! Recognising an apply that changes nothing, without building anything.
//!
//! Controllers apply the same configuration over and over. Such an apply is told
//! by one walk over the configuration, the live object and the manager's
//! `fieldsV1`; whatever is not plainly the same takes the long way.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::managed::{self, is_unowned_metadata};
use super::path::PathElement;
use super::typed::{Shape, element_of, is_leaf, is_named, items, member, shape};
use super::{Context, Operation};
use crate::schema::Schema;

/// Whether the live object has all that `config` says, and the manager owns just that.
pub(super) fn is_noop(context: &Context<'_>, live: &Value, config: &Value) -> bool {
    let Some(entries) = managed::of(live).and_then(Value::as_array) else {
        return false;
    };
    let manager = context.manager;
    let text = |entry: &Value, name: &str, expected: &str| {
        entry.get(name).and_then(Value::as_str).unwrap_or_default() == expected
    };
    let mine = entries.iter().find(|entry| {
        text(entry, "operation", Operation::Apply.as_str())
            && text(entry, "manager", &manager.name)
            && text(entry, "subresource", &manager.subresource)
    });
    let Some(mine) = mine.filter(|mine| text(mine, "apiVersion", &manager.api_version)) else {
        return false;
    };
    let (Some(config), Some(live)) = (config.as_object(), live.as_object()) else {
        return false;
    };
    let Some(fields) = mine.get("fieldsV1").and_then(Value::as_object) else {
        return false;
    };
    let mut walk = Walk {
        context,
        name: String::with_capacity(64),
    };
    walk.members(Some(context.schema), live, config, fields, Level::Root)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Metadata,
    Inner,
}

struct Walk<'a> {
    context: &'a Context<'a>,
    /// A buffer for the names in `fieldsV1`.
    name: String,
}

impl Walk<'_> {
    /// Compares members; `true` if they are all there, and `fields` has nothing else.
    fn members(
        &mut self,
        schema: Option<&Schema>,
        live: &Map<String, Value>,
        config: &Map<String, Value>,
        fields: &Map<String, Value>,
        level: Level,
    ) -> bool {
        let mut expected = 0;
        for (name, value) in config {
            let Some(current) = live.get(name) else {
                return false;
            };
            let unowned = match level {
                Level::Root => {
                    name == "apiVersion" || name == "kind" || self.context.reset.covers(name)
                }
                Level::Metadata => is_unowned_metadata(name),
                Level::Inner => false,
            };
            if unowned {
                if current != value {
                    return false;
                }
                continue;
            }
            let inner = member(schema, name);
            let below = if level == Level::Root && name == "metadata" {
                Level::Metadata
            } else {
                Level::Inner
            };
            self.name.clear();
            self.name.push_str("f:");
            self.name.push_str(name);
            let Some(part) = fields.get(&self.name).and_then(Value::as_object) else {
                // Nothing below is owned: right only if there is nothing to own.
                if below == Level::Metadata && self.nothing_owned(inner, current, value) {
                    continue;
                }
                return false;
            };
            expected += 1;
            let member_too = !is_named(schema, name);
            if !self.part(inner, current, value, part, member_too, below) {
                return false;
            }
        }
        let dot = usize::from(level == Level::Inner && fields.contains_key("."));
        fields.len() == expected + dot
    }

    fn nothing_owned(&mut self, schema: Option<&Schema>, live: &Value, config: &Value) -> bool {
        match (live, config) {
            (Value::Object(live), Value::Object(config)) => {
                self.members(schema, live, config, &Map::new(), Level::Metadata)
            }
            _ => false,
        }
    }

    /// Compares one value with its part of `fieldsV1`.
    fn part(
        &mut self,
        schema: Option<&Schema>,
        live: &Value,
        config: &Value,
        part: &Map<String, Value>,
        member_too: bool,
        level: Level,
    ) -> bool {
        if is_leaf(schema, config) {
            return part.is_empty() && live == config;
        }
        let kinds = shape(schema, Some(config));
        match (kinds, live, config) {
            (Shape::Map(schema), Value::Object(live), Value::Object(config))
                if !config.is_empty() =>
            {
                (level == Level::Metadata || part.contains_key(".") == member_too)
                    && self.members(schema, live, config, part, level)
            }
            (Shape::Set | Shape::Keyed(..), Value::Array(live), Value::Array(config)) => {
                self.elements(kinds, live, config, part)
            }
            _ => false,
        }
    }

    fn elements(
        &mut self,
        list: Shape<'_>,
        live: &[Value],
        config: &[Value],
        part: &Map<String, Value>,
    ) -> bool {
        if config.is_empty() || part.len() != config.len() {
            return false;
        }
        let mut rest = live.iter();
        for element in config {
            let Ok(name) = element_of(list, element) else {
                return false;
            };
            // The elements must follow each other as they do in the live list.
            let Some(current) = rest.find(|other| element_of(list, other).as_ref() == Ok(&name))
            else {
                return false;
            };
            self.name.clear();
            if let PathElement::Value(value) = &name {
                // Writing to a string does not fail.
                let _ = write!(self.name, "v:{value}");
            } else {
                self.name.push_str(&name.encode());
            }
            let Some(owned) = part.get(&self.name).and_then(Value::as_object) else {
                return false;
            };
            let same = match (list, current, element) {
                (Shape::Keyed(_, schema), Value::Object(live), Value::Object(config))
                    if !is_leaf(items(schema), element) =>
                {
                    owned.contains_key(".")
                        && self.members(items(schema), live, config, owned, Level::Inner)
                }
                _ => owned.is_empty() && current == element,
            };
            if !same {
                return false;
            }
        }
        true
    }
}
