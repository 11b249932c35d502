//! Kubernetes' types as Go declares them: what the schemas of its API leave out.
//!
//! `table.txt` is written by `kite-go-types` from Kubernetes' own declarations and says
//! its format at its head.

mod check;

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

pub(crate) use check::check;

/// All types that a served kind is made of.
pub(crate) static TYPES: LazyLock<Types> = LazyLock::new(|| Types::read(include_str!("table.txt")));

/// The groups of the table's packages, but for the core group.
const GROUPS: [(&str, &str); 21] = [
    ("admissionregistration", "admissionregistration.k8s.io"),
    ("apidiscovery", "apidiscovery.k8s.io"),
    ("apiextensions", "apiextensions.k8s.io"),
    ("apiregistration", "apiregistration.k8s.io"),
    ("apps", "apps"),
    ("authentication", "authentication.k8s.io"),
    ("authorization", "authorization.k8s.io"),
    ("autoscaling", "autoscaling"),
    ("batch", "batch"),
    ("certificates", "certificates.k8s.io"),
    ("coordination", "coordination.k8s.io"),
    ("discovery", "discovery.k8s.io"),
    ("events", "events.k8s.io"),
    ("flowcontrol", "flowcontrol.apiserver.k8s.io"),
    ("networking", "networking.k8s.io"),
    ("node", "node.k8s.io"),
    ("policy", "policy"),
    ("rbac", "rbac.authorization.k8s.io"),
    ("resource", "resource.k8s.io"),
    ("scheduling", "scheduling.k8s.io"),
    ("storage", "storage.k8s.io"),
];

/// The types of a table.
#[derive(Debug)]
pub(crate) struct Types {
    entries: Vec<Entry>,
    by_name: HashMap<&'static str, usize>,
}

/// A message in the table, which is read when it is first asked for.
#[derive(Debug)]
struct Entry {
    /// The line that names it.
    head: &'static str,
    /// A line for each field.
    fields: Vec<&'static str>,
    read: OnceLock<Message>,
}

/// A struct, or what stands for one in protobuf.
#[derive(Debug)]
pub(crate) struct Message {
    /// Its package and name: `core.v1.Container`.
    pub(crate) name: &'static str,
    /// What it is in JSON.
    pub(crate) form: Form,
    /// For server-side apply it is one value, or expressly not (`structType`, `mapType`).
    pub(crate) map_type: Option<&'static str>,
    /// Whether it has a kind of its own, by which a body can be told.
    is_kind: bool,
    /// Its fields in Go's order.
    pub(crate) fields: Vec<Field>,
    /// Their places by their numbers in protobuf, in ascending order.
    pub(crate) numbered: Vec<(u32, usize)>,
    /// Their places by their names in JSON: message and field, for a field may be that of
    /// a message in its place.
    named: HashMap<&'static str, (usize, usize)>,
}

/// What a message is in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// An object.
    Object,
    /// The list that is its only field.
    List,
    /// A schema, or whether there may be anything (`JSONSchemaPropsOrBool`).
    SchemaOrBool,
    /// A schema, or several (`JSONSchemaPropsOrArray`).
    SchemaOrSchemas,
    /// A schema, or names (`JSONSchemaPropsOrStringArray`).
    SchemaOrNames,
}

/// A field of a message.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its number in protobuf; 0: it is in JSON alone.
    pub(crate) number: u32,
    /// Its name in JSON; `.`: its own fields are members in its place.
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) kind: Kind,
    /// Go leaves out the zero value, unless it is that of a struct.
    pub(crate) omits_empty: bool,
    /// Go leaves out the zero value of a struct, too.
    pub(crate) omits_zero: bool,
    /// Its name in Go, where that is not the capitalized one.
    go: Option<&'static str>,
    /// How server-side apply tells elements apart (`listType`).
    pub(crate) list_type: Option<&'static str>,
    /// The members by which it does (`listMapKey`), separated by commas.
    pub(crate) list_keys: Option<&'static str>,
    /// Whether an object is one value for server-side apply (`mapType`, `structType`).
    pub(crate) map_type: Option<&'static str>,
    /// What strategic merge patches do with it (`patchStrategy`).
    pub(crate) patch_strategy: Option<&'static str>,
    /// The member by which they match elements (`patchMergeKey`).
    pub(crate) merge_key: Option<&'static str>,
}

/// How often a field's kind is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Once.
    Value,
    /// Once, or not at all: whatever is given was meant.
    Pointer,
    List,
    /// By names.
    Map,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    Int32,
    Int64,
    Bool,
    Float64,
    Bytes,
    /// A time in whole seconds.
    Time,
    /// A time in whole microseconds.
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON of any shape.
    Raw,
    /// Only JSON has it.
    Any,
    /// The message of this place in the table.
    Message(usize),
}

impl Types {
    fn read(text: &'static str) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            match (line.starts_with(' '), entries.last_mut()) {
                (true, Some(entry)) => entry.fields.push(line.trim_start()),
                _ => entries.push(Entry::new(line)),
            }
        }
        let by_name = entries.iter().enumerate();
        let by_name = by_name.map(|(at, entry)| (entry.name(), at)).collect();
        Self { entries, by_name }
    }

    /// How many messages there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The place of a message.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The message of a place.
    pub(crate) fn message(&self, at: usize) -> &Message {
        let entry = &self.entries[at];
        entry.read.get_or_init(|| Message::read(at, self))
    }

    /// All messages.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Message> {
        (0..self.entries.len()).map(|at| self.message(at))
    }

    /// The type of a kind: of its own group, or of those that all groups share.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<usize> {
        let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
        let package = group.split('.').next().unwrap_or_default();
        let is_kind = |at: &usize| self.message(*at).is_kind;
        let own = self.find(&format!("{package}.{version}.{kind}"));
        let shared = || self.find(&format!("meta.v1.{kind}"));
        own.filter(is_kind).or_else(|| shared().filter(is_kind))
    }

    /// The type of a kind that the server itself has. A group of custom resources may
    /// begin as one of its own does.
    pub(crate) fn of_built_in(&self, api_version: &str, kind: &str) -> Option<usize> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let package = match group {
            "" => "core",
            "meta.k8s.io" => "meta",
            "core" | "meta" => return None,
            group => GROUPS.iter().find(|(_, own)| *own == group)?.0,
        };
        let own = self.find(&format!("{package}.{version}.{kind}"));
        let shared = || self.find(&format!("meta.v1.{kind}"));
        let is_kind = |at: &usize| self.message(*at).is_kind;
        own.filter(is_kind).or_else(|| shared().filter(is_kind))
    }
}

impl Entry {
    fn new(head: &'static str) -> Self {
        Self {
            head,
            fields: Vec::new(),
            read: OnceLock::new(),
        }
    }

    fn name(&self) -> &'static str {
        self.head.split(' ').next().unwrap_or(self.head)
    }
}

impl Message {
    fn read(place: usize, types: &Types) -> Self {
        let entry = &types.entries[place];
        let lines = entry.fields.iter();
        let fields: Vec<Field> = lines
            .filter_map(|line| Field::read(line, &types.by_name))
            .collect();
        let mut numbered: Vec<(u32, usize)> = fields
            .iter()
            .enumerate()
            .filter(|(_, field)| field.number > 0)
            .map(|(at, field)| (field.number, at))
            .collect();
        numbered.sort_unstable();
        let mut named = HashMap::new();
        for (at, field) in fields.iter().enumerate().filter(|(_, it)| it.name != ".") {
            named.insert(field.name, (place, at));
        }
        for field in fields.iter().filter(|field| field.name == ".") {
            if let Kind::Message(inner) = field.kind {
                for (name, inner) in &types.message(inner).named {
                    named.entry(*name).or_insert(*inner);
                }
            }
        }
        let form = match entry.name() {
            "apiextensions.v1.JSONSchemaPropsOrBool" => Form::SchemaOrBool,
            "apiextensions.v1.JSONSchemaPropsOrArray" => Form::SchemaOrSchemas,
            "apiextensions.v1.JSONSchemaPropsOrStringArray" => Form::SchemaOrNames,
            _ if fields.first().is_some_and(|field| field.name == "=") => Form::List,
            _ => Form::Object,
        };
        let mut words = entry.head.split(' ');
        Self {
            name: entry.name(),
            form,
            map_type: words.find_map(|word| word.strip_prefix("map=")),
            is_kind: entry.head.ends_with(" kind"),
            fields,
            numbered,
            named,
        }
    }

    /// Whether it has a kind of its own, by which a body can be told.
    pub(crate) fn is_kind(&self) -> bool {
        self.is_kind
    }

    /// The field of a name in JSON, its own or that of a message in its place.
    pub(crate) fn by_name<'a>(&self, types: &'a Types, name: &str) -> Option<&'a Field> {
        let (message, field) = self.named.get(name)?;
        types.message(*message).fields.get(*field)
    }

    /// The field of a number in protobuf, and its place.
    pub(crate) fn by_number(&self, number: u32) -> Option<(usize, &Field)> {
        let found = self
            .numbered
            .binary_search_by_key(&number, |(number, _)| *number);
        let (_, at) = *self.numbered.get(found.ok()?)?;
        Some((at, self.fields.get(at)?))
    }
}

impl Field {
    fn read(line: &'static str, by_name: &HashMap<&'static str, usize>) -> Option<Self> {
        let mut words = line.split(' ');
        let (number, name, of) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        let (shape, of) = [
            ("*", Shape::Pointer),
            ("[]", Shape::List),
            ("{}", Shape::Map),
        ]
        .into_iter()
        .find_map(|(prefix, shape)| Some((shape, of.strip_prefix(prefix)?)))
        .unwrap_or((Shape::Value, of));
        let kind = match of {
            "string" => Kind::String,
            "int32" => Kind::Int32,
            "int64" => Kind::Int64,
            "bool" => Kind::Bool,
            "float64" => Kind::Float64,
            "bytes" => Kind::Bytes,
            "time" => Kind::Time,
            "micro-time" => Kind::MicroTime,
            "quantity" => Kind::Quantity,
            "int-or-string" => Kind::IntOrString,
            "raw" => Kind::Raw,
            "any" => Kind::Any,
            message => Kind::Message(*by_name.get(message)?),
        };
        let mut field = Self {
            number,
            name,
            shape,
            kind,
            omits_empty: false,
            omits_zero: false,
            go: None,
            list_type: None,
            list_keys: None,
            map_type: None,
            patch_strategy: None,
            merge_key: None,
        };
        for word in words {
            let (what, value) = word.split_once('=').unwrap_or((word, ""));
            match what {
                "omitempty" => field.omits_empty = true,
                "omitzero" => field.omits_zero = true,
                "go" => field.go = Some(value),
                "list" => field.list_type = Some(value),
                "keys" => field.list_keys = Some(value),
                "map" => field.map_type = Some(value),
                "patch" => field.patch_strategy = Some(value),
                "merge" => field.merge_key = Some(value),
                _ => return None,
            }
        }
        Some(field)
    }

    /// Whether Go has a struct here, which `omitempty` does not leave out.
    pub(crate) fn is_struct(&self) -> bool {
        self.shape == Shape::Value
            && matches!(
                self.kind,
                Kind::Message(_)
                    | Kind::Time
                    | Kind::MicroTime
                    | Kind::Quantity
                    | Kind::IntOrString
                    | Kind::Raw
            )
    }

    /// Its name in Go.
    pub(crate) fn go_name(&self) -> String {
        match self.go {
            Some(name) => name.to_owned(),
            None => crate::go::capitalized(self.name),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_understood() {
        let text = include_str!("table.txt");
        let lines = |is_field: bool| {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            lines
                .filter(|line| line.starts_with("  ") == is_field)
                .count()
        };
        let fields: usize = TYPES.iter().map(|message| message.fields.len()).sum();
        assert_eq!(fields, lines(true));
        assert_eq!(TYPES.iter().count(), lines(false));
        for message in TYPES.iter() {
            let mut numbers: Vec<u32> = message.numbered.iter().map(|it| it.0).collect();
            numbers.dedup();
            assert_eq!(numbers.len(), message.numbered.len(), "{}", message.name);
        }
    }

    #[test]
    fn a_kind_is_of_its_group_or_of_all() {
        let name = |version, kind| {
            TYPES
                .of_kind(version, kind)
                .map(|at| TYPES.message(at).name)
        };
        assert_eq!(name("v1", "Pod"), Some("core.v1.Pod"));
        assert_eq!(
            name("autoscaling/v2", "HorizontalPodAutoscaler"),
            Some("autoscaling.v2.HorizontalPodAutoscaler")
        );
        assert_eq!(
            name("rbac.authorization.k8s.io/v1", "Role"),
            Some("rbac.v1.Role")
        );
        assert_eq!(
            name("apps/v1", "DeleteOptions"),
            Some("meta.v1.DeleteOptions")
        );
        assert_eq!(
            name("meta.k8s.io/v1beta1", "PartialObjectMetadata"),
            Some("meta.v1.PartialObjectMetadata")
        );
        assert_eq!(name("example.com/v1", "Widget"), None);
        // Parts of kinds are none.
        assert_eq!(name("v1", "Container"), None);
        assert_eq!(name("v1", "Verbs"), None);
    }
}
