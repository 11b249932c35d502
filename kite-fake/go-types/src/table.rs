//! The table: every message that a served kind is made of, and its fields.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context as _, bail};

use crate::parse::{Declaration, Declared, Field, Type};

/// Types with a form of their own in JSON.
const WELL_KNOWN: [(&str, &str); 7] = [
    ("apiextensions.v1.JSON", "raw"),
    ("intstr.IntOrString", "int-or-string"),
    ("meta.v1.FieldsV1", "raw"),
    ("meta.v1.MicroTime", "micro-time"),
    ("meta.v1.Time", "time"),
    ("resource.Quantity", "quantity"),
    ("runtime.RawExtension", "raw"),
];

/// `kind` and `apiVersion`, which the envelope of a message has.
const TYPE_META: [&str; 2] = ["meta.v1.TypeMeta", "runtime.TypeMeta"];

/// The text of the table: what is reached from types with a kind in the packages `served`.
///
/// # Errors
/// A type that is reached is not declared, or is none of an API.
pub fn text(declared: &BTreeMap<String, Declaration>, served: &[String]) -> anyhow::Result<String> {
    let table = Table { declared };
    let mut open: Vec<&str> = declared
        .iter()
        .filter(|(name, declaration)| {
            let package = name.rsplit_once('.').map_or("", |(package, _)| package);
            served.iter().any(|it| it == package) && is_kind(declaration)
        })
        .map(|(name, _)| name.as_str())
        .collect();
    let mut rows = BTreeMap::new();
    let mut seen: BTreeSet<String> = open.iter().map(|&name| name.to_owned()).collect();
    while let Some(name) = open.pop() {
        let (row, reached) = table.message(name).with_context(|| name.to_owned())?;
        rows.insert(name.to_owned(), row);
        for name in reached {
            if let Some((name, _)) = declared.get_key_value(&name)
                && seen.insert(name.clone())
            {
                open.push(name);
            }
        }
    }
    Ok(rows.into_values().collect())
}

fn is_kind(declaration: &Declaration) -> bool {
    match &declaration.what {
        Declared::Struct(fields) => fields.iter().any(is_type_meta),
        Declared::Name(_) | Declared::Foreign(_) => false,
    }
}

fn is_type_meta(field: &Field) -> bool {
    matches!(&field.of, Type::Named(name) if TYPE_META.contains(&name.as_str()))
}

struct Table<'a> {
    declared: &'a BTreeMap<String, Declaration>,
}

impl Table<'_> {
    /// A message, and the messages that its fields name.
    fn message(&self, name: &str) -> anyhow::Result<(String, Vec<String>)> {
        let declaration = self.declared.get(name).context("is not declared")?;
        let mut row = name.to_owned();
        for marker in &declaration.markers {
            if let Some(("structType" | "mapType", how)) = marker.split_once('=') {
                write!(row, " map={how}")?;
            }
        }
        if is_kind(declaration) {
            row.push_str(" kind");
        }
        row.push('\n');
        let mut reached = Vec::new();
        match &declaration.what {
            Declared::Struct(fields) => {
                for (at, field) in fields.iter().enumerate() {
                    // Text begins with them; nobody has looked at anything else.
                    if is_type_meta(field) && at > 0 {
                        bail!("kind and apiVersion are not its first fields");
                    }
                    self.field(field, &mut row, &mut reached)
                        .with_context(|| field.name.clone())?;
                }
            }
            // A named list that may be null is a message with a list.
            Declared::Name(of) => {
                let of = self
                    .shown(of, &mut reached)?
                    .context("has no form in JSON")?;
                writeln!(row, "  1 = {of}")?;
            }
            Declared::Foreign(why) => bail!("{why}"),
        }
        Ok((row, reached))
    }

    fn field(
        &self,
        field: &Field,
        row: &mut String,
        reached: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        if is_type_meta(field) {
            return Ok(());
        }
        let tag = |key: &str| field.tags.get(key).map_or("", String::as_str);
        let mut protobuf = tag("protobuf").split(',');
        let number = match protobuf.nth(1) {
            Some(number) => number.parse::<u32>().context("the number of the field")?,
            None => 0,
        };
        let mut json = tag("json").split(',');
        let written = json.next().unwrap_or_default();
        let options: Vec<&str> = json.collect();
        if number == 0 && (written == "-" || written.is_empty() && !options.contains(&"inline")) {
            // Go's own affair.
            return Ok(());
        }
        let name = match written {
            "" if options.contains(&"inline") => ".",
            "" | "-" => protobuf
                .find_map(|part| part.strip_prefix("name="))
                .context("the field has no name")?,
            name => name,
        };
        let Some(of) = self.shown(&field.of, reached)? else {
            bail!("{:?} has no form in JSON", field.of);
        };
        write!(row, "  {number} {name} {of}")?;
        for option in ["omitempty", "omitzero"] {
            if options.contains(&option) {
                write!(row, " {option}")?;
            }
        }
        if name != "." && !field.name.eq_ignore_ascii_case(name)
            || name.eq_ignore_ascii_case(&field.name) && capitalized(name) != field.name
        {
            write!(row, " go={}", field.name)?;
        }
        let marker = |key: &str| -> Vec<&str> {
            let markers = field.markers.iter();
            markers
                .filter_map(|it| it.strip_prefix(key)?.strip_prefix('='))
                .collect()
        };
        for how in marker("listType") {
            write!(row, " list={how}")?;
        }
        let keys = marker("listMapKey");
        if !keys.is_empty() {
            write!(row, " keys={}", keys.join(","))?;
        }
        for how in marker("mapType").into_iter().chain(marker("structType")) {
            write!(row, " map={how}")?;
        }
        for (tag_name, shown) in [("patchStrategy", "patch"), ("patchMergeKey", "merge")] {
            if !tag(tag_name).is_empty() {
                write!(row, " {shown}={}", tag(tag_name))?;
            }
        }
        row.push('\n');
        Ok(())
    }

    /// How the table writes a type; `None` for what is not of an API.
    fn shown(&self, of: &Type, reached: &mut Vec<String>) -> anyhow::Result<Option<String>> {
        let mut prefixed = |prefix: &str, inner: &Type| {
            let inner = self.shown(inner, reached)?;
            Ok(inner.map(|inner| format!("{prefix}{inner}")))
        };
        match of {
            Type::Any => Ok(Some("any".to_owned())),
            Type::Slice(inner) if **inner == Type::Named("byte".to_owned()) => {
                Ok(Some("bytes".to_owned()))
            }
            Type::Pointer(inner) => prefixed("*", inner),
            Type::Slice(inner) => prefixed("[]", inner),
            Type::Map(inner) => prefixed("{}", inner),
            Type::Named(name) => self.named(name, reached),
        }
    }

    fn named(&self, name: &str, reached: &mut Vec<String>) -> anyhow::Result<Option<String>> {
        if let Some((_, form)) = WELL_KNOWN.iter().find(|(known, _)| *known == name) {
            return Ok(Some((*form).to_owned()));
        }
        match name {
            "string" | "int32" | "int64" | "bool" | "float64" => return Ok(Some(name.to_owned())),
            _ if !name.contains('.') => return Ok(None),
            _ => {}
        }
        let declaration = self
            .declared
            .get(name)
            .with_context(|| format!("{name} is not declared"))?;
        match &declaration.what {
            Declared::Name(of)
                if !declaration
                    .markers
                    .iter()
                    .any(|it| it == "protobuf.nullable=true") =>
            {
                self.shown(of, reached)
            }
            _ => {
                reached.push(name.to_owned());
                Ok(Some(name.to_owned()))
            }
        }
    }
}

/// `hostIP` as `HostIP`: how Go mostly calls a field.
fn capitalized(name: &str) -> String {
    let mut letters = name.chars();
    match letters.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + letters.as_str(),
        None => String::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::parse;

    const THINGS: &str = r#"package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

type Thing struct {
	metav1.TypeMeta `json:",inline"`
	Spec ThingSpec `json:"spec,omitempty" protobuf:"bytes,2,opt,name=spec"`
	Source `json:",inline" protobuf:"bytes,3,opt,name=source"`
}

// +structType=atomic
type ThingSpec struct {
	UID Name `json:"uid" protobuf:"bytes,1,opt,name=uid"`
	// +listType=map
	// +listMapKey=a
	// +listMapKey=b
	Others []ThingSpec `json:"others,omitempty" protobuf:"bytes,2,rep,name=others" patchStrategy:"merge,retainKeys" patchMergeKey:"a"`
	At *metav1.Time `json:"at" protobuf:"bytes,3,opt,name=at"`
	Data map[Name][]byte `json:"data,omitempty,omitzero" protobuf:"bytes,4,rep,name=data"`
	Words Words `json:"words" protobuf:"bytes,5,opt,name=words"`
	Raw []byte `json:"-" protobuf:"bytes,6,opt,name=raw"`
	Own metav1.Time `json:"-"`
}

type Source struct {
	Cells []interface{} `json:"cells"`
}

type Name string

// +protobuf.nullable=true
type Words []string

type Unreached struct {
	A string `json:"a"`
}
"#;

    #[test]
    fn what_a_kind_reaches_is_written() {
        let declared = parse::file("things.v1", THINGS);
        let text = text(&declared, &["things.v1".to_owned()]).unwrap();
        let expected = "\
things.v1.Source
  0 cells []any
things.v1.Thing kind
  2 spec things.v1.ThingSpec omitempty
  3 . things.v1.Source
things.v1.ThingSpec map=atomic
  1 uid string go=UID
  2 others []things.v1.ThingSpec omitempty list=map keys=a,b patch=merge,retainKeys merge=a
  3 at *time
  4 data {}bytes omitempty omitzero
  5 words things.v1.Words
  6 raw bytes
things.v1.Words
  1 = []string
";
        assert_eq!(text, expected);
    }
}
