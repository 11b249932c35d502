//! Reads Go's declarations of types, as gofmt writes them.
//!
//! Only what API types are made of: structs with tagged fields, names for other types,
//! and the markers in the comments before them.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};

/// A Go type, with every name qualified by its package: `core.v1.Container`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    /// A built-in one, or a declared one.
    Named(String),
    /// `*T`.
    Pointer(Box<Type>),
    /// `[]T`.
    Slice(Box<Type>),
    /// `map[K]T`; keys are strings.
    Map(Box<Type>),
    /// `interface{}`.
    Any,
}

/// A field of a struct.
#[derive(Debug, Clone)]
pub struct Field {
    /// The name of the field; that of its type, where it is embedded.
    pub name: String,
    /// Its type.
    pub of: Type,
    /// Its tags by their keys: `json`, `protobuf` …
    pub tags: BTreeMap<String, String>,
    /// Its markers: `listType=map` of `// +listType=map`.
    pub markers: Vec<String>,
}

/// What a declaration says.
#[derive(Debug, Clone)]
pub enum Declared {
    /// `type X struct { … }`.
    Struct(Vec<Field>),
    /// `type X Y`.
    Name(Type),
    /// None of an API: why.
    Foreign(String),
}

/// A declared type.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// What it is.
    pub what: Declared,
    /// Its markers.
    pub markers: Vec<String>,
}

/// Names that Go has without a declaration.
const BUILT_IN: [&str; 9] = [
    "bool", "byte", "float64", "int", "int32", "int64", "string", "uint32", "uint64",
];

/// The package of an import path: the last two names of an API's, `core.v1` of
/// `k8s.io/api/core/v1`, and otherwise what `short` makes of it.
fn package_of(path: &str) -> String {
    let names: Vec<&str> = path.split('/').collect();
    match names.as_slice() {
        [.., group, version]
            if version.starts_with('v')
                && version[1..].starts_with(|c: char| c.is_ascii_digit()) =>
        {
            format!("{group}.{version}")
        }
        [.., last] => (*last).to_owned(),
        [] => String::new(),
    }
}

/// The declarations of one file of the package `package`, by their qualified names.
pub fn file(package: &str, text: &str) -> BTreeMap<String, Declaration> {
    let imports = imports(text);
    let mut found = BTreeMap::new();
    let mut markers = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(comment) = line.strip_prefix("//") {
            markers.extend(marker(comment));
            continue;
        }
        if line.is_empty() {
            // Markers stand in the comment of a type or in one of their own before it.
            continue;
        }
        let own = std::mem::take(&mut markers);
        let Some(rest) = line.strip_prefix("type ") else {
            continue;
        };
        let Some((name, rest)) = rest.split_once(' ') else {
            continue;
        };
        let what = if rest == "struct {" {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "}").collect();
            fields(package, &imports, &body).map(Declared::Struct)
        } else if rest == "struct{}" {
            Ok(Declared::Struct(Vec::new()))
        } else if rest.starts_with("interface") || rest.starts_with("func") || rest == "(" {
            continue;
        } else {
            let rest = rest.trim_start_matches("= ");
            let rest = rest.split(" //").next().unwrap_or(rest);
            type_of(package, &imports, rest.trim()).map(Declared::Name)
        };
        let what = what.unwrap_or_else(|error| Declared::Foreign(error.to_string()));
        found.insert(
            format!("{package}.{name}"),
            Declaration { what, markers: own },
        );
    }
    found
}

/// `listType=map` of ` +listType=map`.
fn marker(comment: &str) -> Option<String> {
    comment
        .trim()
        .strip_prefix('+')
        .map(|it| it.trim().to_owned())
}

/// Package by the name that a file calls it by.
fn imports(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for line in text.lines().take_while(|line| !line.starts_with("type ")) {
        let line = line.trim().trim_start_matches("import ");
        let Some((alias, path)) = line.split_once('"') else {
            continue;
        };
        let Some(path) = path.strip_suffix('"') else {
            continue;
        };
        let alias = match alias.trim() {
            "" => path.rsplit('/').next().unwrap_or(path),
            alias => alias,
        };
        found.insert(alias.to_owned(), package_of(path));
    }
    found
}

fn fields(
    package: &str,
    imports: &BTreeMap<String, String>,
    body: &[&str],
) -> anyhow::Result<Vec<Field>> {
    let mut found = Vec::new();
    let mut markers = Vec::new();
    let mut is_remark = false;
    for line in body {
        let line = line.trim();
        if is_remark || line.starts_with("/*") {
            is_remark = !line.ends_with("*/");
            continue;
        }
        if let Some(comment) = line.strip_prefix("//") {
            markers.extend(marker(comment));
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let own = std::mem::take(&mut markers);
        let (head, tags) = match line.split_once('`') {
            Some((head, rest)) => (head, rest.split('`').next().unwrap_or_default()),
            None => (line.split("//").next().unwrap_or_default(), ""),
        };
        let words: Vec<&str> = head.split_whitespace().collect();
        let (name, of) = match words.as_slice() {
            [of] => {
                let name = of.trim_start_matches('*').rsplit('.').next();
                (name.unwrap_or_default(), *of)
            }
            [name, of] => (*name, *of),
            _ => bail!("not a field: {line:?}"),
        };
        found.push(Field {
            name: name.to_owned(),
            of: type_of(package, imports, of)?,
            tags: tags_of(tags),
            markers: own,
        });
    }
    Ok(found)
}

/// The tags of a field by their keys.
fn tags_of(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut parts = text.split('"');
    while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
        found.insert(
            key.trim().trim_end_matches(':').to_owned(),
            value.to_owned(),
        );
    }
    found
}

fn type_of(package: &str, imports: &BTreeMap<String, String>, text: &str) -> anyhow::Result<Type> {
    let inner = |text| type_of(package, imports, text).map(Box::new);
    if let Some(rest) = text.strip_prefix('*') {
        return Ok(Type::Pointer(inner(rest)?));
    }
    if let Some(rest) = text.strip_prefix("[]") {
        return Ok(Type::Slice(inner(rest)?));
    }
    if let Some(rest) = text.strip_prefix("map[") {
        let (_, value) = rest
            .split_once(']')
            .with_context(|| format!("not a map: {text:?}"))?;
        return Ok(Type::Map(inner(value)?));
    }
    if matches!(text, "interface{}" | "any") {
        return Ok(Type::Any);
    }
    if BUILT_IN.contains(&text) {
        return Ok(Type::Named(text.to_owned()));
    }
    match text.split_once('.') {
        None => Ok(Type::Named(format!("{package}.{text}"))),
        Some((alias, name)) => {
            let package = imports
                .get(alias)
                .with_context(|| format!("{alias} of {text:?} is not imported"))?;
            Ok(Type::Named(format!("{package}.{name}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"package v1

import (
	"k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Things are many.
// +structType=atomic
type Thing struct {
	metav1.TypeMeta `json:",inline"`

	/*
		Replicas says how many,
	*/
	// +optional
	// +listType=map
	Replicas *int32 `json:"replicas,omitempty" protobuf:"varint,1,opt,name=replicas"` // many
	Pods []v1.Pod `json:"pods" protobuf:"bytes,2,rep,name=pods" patchStrategy:"merge"`
	Nodes map[Name]metav1.Time `json:"nodes"`
}

type Name string

const A Name = "a"
"#;

    #[test]
    fn structs_names_tags_and_markers_are_read() {
        let found = file("things.v1", TEXT);
        let names: Vec<_> = found.keys().collect();
        assert_eq!(names, ["things.v1.Name", "things.v1.Thing"]);
        let thing = &found["things.v1.Thing"];
        assert_eq!(thing.markers, ["structType=atomic"]);
        let Declared::Struct(fields) = &thing.what else {
            unreachable!("{thing:?}");
        };
        let plain = |name: &str| Type::Named(name.to_owned());
        assert_eq!(fields[0].name, "TypeMeta");
        assert_eq!(fields[0].of, plain("meta.v1.TypeMeta"));
        assert_eq!(fields[1].of, Type::Pointer(Box::new(plain("int32"))));
        assert_eq!(fields[1].markers, ["optional", "listType=map"]);
        assert_eq!(fields[1].tags["json"], "replicas,omitempty");
        assert_eq!(fields[2].of, Type::Slice(Box::new(plain("core.v1.Pod"))));
        assert_eq!(fields[2].tags["patchStrategy"], "merge");
        assert_eq!(fields[3].of, Type::Map(Box::new(plain("meta.v1.Time"))));
    }

    #[test]
    fn what_is_of_no_api_is_told() {
        for text in [
            "type X struct {\n\tA B C D\n}\n",
            "type X struct {\n\tA unknown.B\n}\n",
            "type X unknown.B\n",
        ] {
            let found = file("x.v1", text);
            assert!(
                matches!(found["x.v1.X"].what, Declared::Foreign(_)),
                "{text}"
            );
        }
    }
}
