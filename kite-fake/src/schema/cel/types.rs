//! Types of CEL expressions, as far as a schema tells them.

use std::fmt;

use super::super::model::{Kind, Schema};

/// The type of an expression. `Dyn` fits everything.
#[derive(Debug, Clone)]
pub(super) enum Type<'a> {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    List(Box<Type<'a>>),
    Map(Box<Type<'a>>),
    Object(&'a Schema),
}

impl<'a> Type<'a> {
    /// What values of a schema are to CEL.
    pub(super) fn of(schema: &'a Schema) -> Self {
        match schema.kind {
            Kind::Any | Kind::IntOrString => Self::Dyn,
            Kind::Boolean => Self::Bool,
            Kind::Integer => Self::Int,
            Kind::Number => Self::Double,
            Kind::String => match schema.constraints.format.as_deref() {
                Some("date-time" | "date") => Self::Timestamp,
                Some("duration") => Self::Duration,
                Some("byte") => Self::Bytes,
                _ => Self::Text,
            },
            Kind::Array => Self::List(Box::new(
                schema.items.as_deref().map_or(Self::Dyn, Self::of),
            )),
            Kind::Object => match &schema.additional {
                Some(values) if schema.properties.is_empty() => {
                    Self::Map(Box::new(Self::of(values)))
                }
                _ => Self::Object(schema),
            },
        }
    }

    /// Whether the type is not known, or is `null`, which is compared with anything.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Dyn | Self::Null)
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    /// Whether a value of the one may stand for one of the other.
    pub(super) fn fits(&self, other: &Type<'_>) -> bool {
        match (self, other) {
            (a, b) if a.is_open() || b.is_open() => true,
            (Self::List(a), Type::List(b)) | (Self::Map(a), Type::Map(b)) => a.fits(b),
            (Self::Object(a), Type::Object(b)) => std::ptr::eq(*a, *b),
            // A map literal has no type of its own to speak of.
            (Self::Object(_), Type::Map(_)) | (Self::Map(_), Type::Object(_)) => true,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(of) => write!(f, "map(string, {of})"),
            Self::Object(_) => f.write_str("object"),
        }
    }
}
