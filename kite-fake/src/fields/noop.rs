//! Recognising an apply that changes nothing, without building anything.
//!
//! Controllers apply the same configuration over and over. Such an apply is told
//! by one walk over the texts of the configuration and of the live object with
//! the manager's `fieldsV1`; whatever is not plainly the same takes the long way.

use super::managed::is_unowned_metadata;
use super::tape::{Elements, Members, Node, Tape, write_quoted};
use super::typed::{Shape, is_named, items, member, shape_of};
use super::{Context, Operation};
use crate::schema::Schema;

/// Which object a configuration must be of.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// Its `apiVersion`.
    pub api_version: &'a str,
    /// Its `kind`.
    pub kind: &'a str,
    /// Its `metadata.name`.
    pub name: &'a str,
}

/// Whether an apply of a configuration plainly changes nothing: the live object
/// has all that it says, and the manager owns just that. Both are JSON texts.
///
/// `false` says nothing: [`super::apply`] finds out.
pub fn is_unchanged(context: &Context<'_>, named: Named<'_>, live: &[u8], config: &[u8]) -> bool {
    let Some(config) = Tape::read(config) else {
        return false;
    };
    let config = config.root();
    let is = |node: Option<Node<'_>>, text: &str| node.and_then(Node::as_str) == Some(text);
    let metadata = config.get("metadata");
    if !is(config.get("apiVersion"), named.api_version)
        || !is(config.get("kind"), named.kind)
        || !is(metadata.and_then(|m| m.get("name")), named.name)
        || metadata.is_some_and(|m| m.get("managedFields").is_some())
    {
        return false;
    }
    Tape::read_own(live).is_some_and(|live| is_noop(context, live.root(), config).unwrap_or(false))
}

fn is_noop(context: &Context<'_>, live: Node<'_>, config: Node<'_>) -> Option<bool> {
    let mut entries = live.get("metadata")?.get("managedFields")?.array()?;
    let manager = context.manager;
    let text = |entry: &Node<'_>, name: &str, expected: &str| {
        entry.get(name).and_then(Node::as_str).unwrap_or_default() == expected
    };
    let mine = entries.find(|entry| {
        text(entry, "operation", Operation::Apply.as_str())
            && text(entry, "manager", &manager.name)
            && text(entry, "subresource", &manager.subresource)
    })?;
    if !text(&mine, "apiVersion", &manager.api_version) {
        return None;
    }
    let mut walk = Walk {
        context,
        name: String::with_capacity(64),
        other: String::new(),
    };
    let fields = mine.get("fieldsV1")?.object()?;
    Some(walk.members(
        Some(context.schema),
        live.object()?,
        config.object()?,
        Some(fields),
        Level::Root,
    ))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Metadata,
    Inner,
}

struct Walk<'a> {
    context: &'a Context<'a>,
    /// Buffers for the names in `fieldsV1`.
    name: String,
    other: String,
}

impl Walk<'_> {
    /// Compares members; `true` if they are all there, and `fields` has nothing else.
    fn members(
        &mut self,
        schema: Option<&Schema>,
        mut live: Members<'_>,
        config: Members<'_>,
        mut fields: Option<Members<'_>>,
        level: Level,
    ) -> bool {
        let mut expected = 0;
        for (name, value) in config {
            let Some(current) = live.find(name) else {
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
            let part = fields.as_mut().and_then(|fields| fields.find(&self.name));
            let Some(part) = part.and_then(Node::object) else {
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
        let Some(mut fields) = fields else {
            return expected == 0;
        };
        let dot = usize::from(level == Level::Inner && fields.find(".").is_some());
        fields.len() == expected + dot
    }

    fn nothing_owned(&mut self, schema: Option<&Schema>, live: Node<'_>, config: Node<'_>) -> bool {
        match (live.object(), config.object()) {
            (Some(live), Some(config)) => self.members(schema, live, config, None, Level::Metadata),
            _ => false,
        }
    }

    /// Compares one value with its part of `fieldsV1`.
    fn part(
        &mut self,
        schema: Option<&Schema>,
        live: Node<'_>,
        config: Node<'_>,
        mut part: Members<'_>,
        member_too: bool,
        level: Level,
    ) -> bool {
        let kinds = shape_of(schema, config.is_object());
        if is_leaf(kinds, config) {
            return part.len() == 0 && live == config;
        }
        match kinds {
            Shape::Map(schema) => {
                let (Some(live), Some(config)) = (live.object(), config.object()) else {
                    return false;
                };
                config.len() > 0
                    && (level == Level::Metadata || part.find(".").is_some() == member_too)
                    && self.members(schema, live, config, Some(part), level)
            }
            Shape::Set | Shape::Keyed(..) => match (live.array(), config.array()) {
                (Some(live), Some(config)) => self.elements(kinds, live, config, part),
                _ => false,
            },
            Shape::Leaf => false,
        }
    }

    fn elements(
        &mut self,
        list: Shape<'_>,
        mut live: Elements<'_>,
        config: Elements<'_>,
        mut part: Members<'_>,
    ) -> bool {
        if config.len() == 0 || part.len() != config.len() {
            return false;
        }
        for element in config {
            if !write_name(list, element, &mut self.name) {
                return false;
            }
            // The elements must follow each other as they do in the live list.
            let (name, other) = (&self.name, &mut self.other);
            let Some(current) = live.find(|node| write_name(list, *node, other) && name == other)
            else {
                return false;
            };
            let Some(mut owned) = part.find(&self.name).and_then(Node::object) else {
                return false;
            };
            let inner = match list {
                Shape::Keyed(_, schema) => items(schema),
                _ => None,
            };
            let divided = matches!(list, Shape::Keyed(..))
                && !is_leaf(shape_of(inner, element.is_object()), element);
            let same = match (current.object(), element.object()) {
                (Some(live), Some(config)) if divided => {
                    owned.find(".").is_some()
                        && self.members(inner, live, config, Some(owned), Level::Inner)
                }
                _ => owned.len() == 0 && current == element,
            };
            if !same {
                return false;
            }
        }
        true
    }
}

/// Whether a value is one field as a whole.
fn is_leaf(kinds: Shape<'_>, value: Node<'_>) -> bool {
    match kinds {
        Shape::Leaf => true,
        Shape::Map(_) => !value.is_object() && !value.is_null(),
        Shape::Set | Shape::Keyed(..) => !value.is_array() && !value.is_null(),
    }
}

/// Writes how an element is named in `fieldsV1`; `false` if that is not plain.
fn write_name(list: Shape<'_>, element: Node<'_>, out: &mut String) -> bool {
    out.clear();
    let Shape::Keyed(keys, schema) = list else {
        out.push_str("v:");
        return element.write_scalar(out);
    };
    out.push_str("k:{");
    let Some(mut members) = element.object() else {
        return false;
    };
    // Keys are written in the order of their names.
    let mut written: Option<&str> = None;
    for _ in keys {
        let next = keys
            .iter()
            .map(String::as_str)
            .filter(|key| written.is_none_or(|before| *key > before))
            .min();
        let Some(key) = next else { break };
        written = Some(key);
        let length = out.len();
        if !out.ends_with('{') {
            out.push(',');
        }
        write_quoted(key, out);
        out.push(':');
        if let Some(value) = members.find(key) {
            if !value.write_scalar(out) {
                return false;
            }
            continue;
        }
        let default = items(schema)
            .and_then(|item| item.properties.get(key))
            .and_then(|key| key.default.as_ref());
        match default {
            Some(default) => out.push_str(&default.to_string()),
            None => out.truncate(length),
        }
    }
    let any = !out.ends_with('{');
    out.push('}');
    any
}
