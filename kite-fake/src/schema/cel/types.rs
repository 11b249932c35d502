//! Types of CEL expressions, as cel-go's checker has them.

use std::fmt;

use super::super::model::{Kind, Schema};
use super::super::rule::READABLE_METADATA;
use super::value::escape;

/// The type of an expression.
#[derive(Debug, Clone)]
pub(super) enum Type<'a> {
    Dyn,
    /// Of something that is wrong already: fits everything.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    /// The type of a type.
    Of(Box<Type<'a>>),
    List(Box<Type<'a>>),
    Map(Box<Type<'a>>, Box<Type<'a>>),
    Optional(Box<Type<'a>>),
    /// A value of a schema that names its members.
    Object(&'a Schema),
    /// A type of a library.
    Named(&'static str),
    /// A parameter of a declaration.
    Param(char),
    /// What a parameter stands for in one call.
    Var(usize),
}

impl<'a> Type<'a> {
    /// What values of a schema are to CEL; `None` if rules cannot see them.
    pub(super) fn of(schema: &'a Schema) -> Option<Self> {
        Some(match schema.kind {
            Kind::Any => return None,
            Kind::IntOrString => Self::Dyn,
            Kind::Boolean => Self::Bool,
            Kind::Integer => Self::Int,
            Kind::Number => Self::Double,
            Kind::String => match schema.constraints.format.as_deref() {
                Some("date-time" | "date") => Self::Timestamp,
                Some("duration") => Self::Duration,
                Some("byte") => Self::Bytes,
                _ => Self::Text,
            },
            Kind::Array => Self::List(Box::new(Self::of(schema.items.as_deref()?)?)),
            Kind::Object => match &schema.additional {
                Some(values) if schema.properties.is_empty() => {
                    Self::Map(Box::new(Self::Text), Box::new(Self::of(values)?))
                }
                _ => Self::Object(schema),
            },
        })
    }

    pub(super) fn list(of: Self) -> Self {
        Self::List(Box::new(of))
    }
}

/// The member of an object that a rule calls `name`.
pub(super) fn member<'a>(schema: &'a Schema, name: &str) -> Option<&'a Schema> {
    // Of whole objects within, rules see the name alone, as of the object itself.
    if name == "metadata" && schema.embedded_resource {
        return Some(&READABLE_METADATA);
    }
    // What the server declares itself is named as it is.
    if schema.type_name.is_some() {
        return schema.properties.get(name).map(|inner| &**inner);
    }
    schema
        .properties
        .iter()
        .find(|(property, _)| escape(property) == name)
        .map(|(_, inner)| &**inner)
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn | Self::Var(_) => f.write_str("dyn"),
            Self::Error => f.write_str("!error!"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::Of(of) => write!(f, "type({of})"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(keys, values) => write!(f, "map({keys}, {values})"),
            Self::Optional(of) => write!(f, "optional_type({of})"),
            Self::Object(schema) => f.write_str(schema.type_name.as_deref().unwrap_or("object")),
            Self::Named(name) => f.write_str(name),
            Self::Param(name) => write!(f, "{name}"),
        }
    }
}
