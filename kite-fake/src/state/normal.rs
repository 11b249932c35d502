//! Placeholders for what differs between two runs of the same thing.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::ObjectId;

/// Characters that the server appends to `generateName`.
const GENERATED: usize = 5;
const UUID_LENGTH: usize = 36;
/// Of `2026-01-01T00:00:00Z`.
const SHORTEST_TIME: usize = 20;

static UUID: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").ok()
});
static TIME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$").ok());

/// What stands for the generated part of names: by the five characters, with
/// the prefix before them.
#[derive(Default)]
struct Generated(HashMap<String, Vec<(String, String)>>);

impl Generated {
    fn add(&mut self, prefix: &str, name: &str, placeholder: String) {
        let suffix = name[prefix.len()..].to_owned();
        let entry = self.0.entry(suffix).or_default();
        entry.push((prefix.to_owned(), placeholder));
    }

    /// The text with every generated name in it replaced, where the name ends
    /// with a word.
    fn replace(&self, text: &str) -> String {
        if self.0.is_empty() || text.len() < GENERATED || !text.is_ascii() {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for end in GENERATED..=text.len() {
            let goes_on = text
                .as_bytes()
                .get(end)
                .is_some_and(u8::is_ascii_alphanumeric);
            let start = end - GENERATED;
            if goes_on || start < copied {
                continue;
            }
            let known = self.0.get(&text[start..end]);
            let placeholder = known
                .into_iter()
                .flatten()
                .find(|(prefix, _)| text[..start].ends_with(prefix.as_str()));
            if let Some((_, placeholder)) = placeholder {
                out.push_str(&text[copied..start]);
                out.push_str(placeholder);
                copied = end;
            }
        }
        out.push_str(&text[copied..]);
        out
    }
}

/// The `generateName` of an object whose name was made from it.
fn prefix<'a>(id: &ObjectId, value: &'a Value) -> Option<&'a str> {
    let prefix = value["metadata"]["generateName"].as_str()?;
    let suffix = id.name.strip_prefix(prefix)?;
    (suffix.len() == GENERATED && suffix.is_ascii()).then_some(prefix)
}

/// The objects with placeholders in their values and names. `others` are uids of
/// objects beside them that they may refer to.
pub(super) fn objects(
    all: BTreeMap<ObjectId, Value>,
    others: impl IntoIterator<Item = (String, ObjectId)>,
) -> BTreeMap<ObjectId, Value> {
    let names = generated_names(&all);
    let mut uids = uids(&all, &names);
    uids.extend(
        others
            .into_iter()
            .map(|(uid, id)| (uid, format!("<uid of {id}>"))),
    );
    all.into_iter()
        .map(|(id, value)| {
            let id = ObjectId {
                namespace: names.replace(&id.namespace),
                name: names.replace(&id.name),
                ..id
            };
            (id, walk(value, &|text| mask(text, &names, &uids)))
        })
        .collect()
}

/// Numbers the generated names by what their objects hold, which does not
/// depend on the names: so two runs number them alike.
fn generated_names(all: &BTreeMap<ObjectId, Value>) -> Generated {
    let made: Vec<(&ObjectId, &str, &Value)> = all
        .iter()
        .filter_map(|(id, value)| Some((id, prefix(id, value)?, value)))
        .collect();
    let mut anonymous = Generated::default();
    for (id, prefix, _) in &made {
        anonymous.add(prefix, &id.name, "<gen>".to_owned());
    }
    let mut ordered: Vec<(String, &ObjectId, &str, &Value)> = made
        .into_iter()
        .map(|(id, prefix, value)| {
            let shown = walk(value.clone(), &|text| {
                mask(text, &anonymous, &HashMap::new())
            });
            (format!("{} {shown}", id.kind), id, prefix, value)
        })
        .collect();
    // Objects that hold the same are told apart by their age.
    ordered.sort_by_cached_key(|(shown, id, _, value)| {
        let metadata = &value["metadata"];
        let revision = metadata["resourceVersion"].as_str().unwrap_or_default();
        let revision: u64 = revision.parse().unwrap_or_default();
        let created = metadata["creationTimestamp"].as_str().unwrap_or_default();
        (shown.clone(), created.to_owned(), revision, (*id).clone())
    });
    let mut names = Generated::default();
    let mut counts: HashMap<(String, String), usize> = HashMap::new();
    for (_, id, prefix, _) in ordered {
        let shown = anonymous.replace(prefix);
        let count = counts.entry((id.kind.clone(), shown)).or_default();
        *count += 1;
        names.add(prefix, &id.name, format!("<gen:{count}>"));
    }
    names
}

/// In words, whose a uid is.
fn uids(all: &BTreeMap<ObjectId, Value>, names: &Generated) -> HashMap<String, String> {
    all.iter()
        .filter_map(|(id, value)| {
            let uid = value["metadata"]["uid"].as_str()?;
            let whose = names.replace(&id.to_string());
            Some((uid.to_owned(), format!("<uid of {whose}>")))
        })
        .collect()
}

fn mask(text: &str, names: &Generated, uids: &HashMap<String, String>) -> String {
    // Most texts are seen to be neither without looking closely.
    let may_be_time = text.len() >= SHORTEST_TIME && text.as_bytes()[0].is_ascii_digit();
    if may_be_time && TIME.as_ref().is_some_and(|time| time.is_match(text)) {
        return "<time>".to_owned();
    }
    let text = names.replace(text);
    let Some(uuid) = UUID.as_ref().filter(|_| text.len() >= UUID_LENGTH) else {
        return text;
    };
    let whose = |found: &regex::Captures<'_>| {
        let known = uids.get(&found[0]).map(String::as_str);
        known.unwrap_or("<uid>").to_owned()
    };
    uuid.replace_all(&text, whose).into_owned()
}

/// A text with a placeholder for every uid.
pub(crate) fn without_uids(text: &str) -> String {
    match UUID.as_ref() {
        Some(uuid) if text.len() >= UUID_LENGTH => uuid.replace_all(text, "<uid>").into_owned(),
        _ => text.to_owned(),
    }
}

/// Whether a text speaks of no object but the one with this uid.
pub(super) fn is_about_itself(text: &str, uid: &str) -> bool {
    UUID.as_ref()
        .is_some_and(|uuid| uuid.find_iter(text).all(|found| found.as_str() == uid))
}

/// The value with every string and member name replaced, and resourceVersions
/// masked.
fn walk(value: Value, replace: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => replace(&text).into(),
        Value::Array(items) => items.into_iter().map(|v| walk(v, replace)).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, value)| {
                let is_version = name == "resourceVersion" && value.is_string();
                let value = if is_version {
                    "<rv>".into()
                } else {
                    walk(value, replace)
                };
                (replace(&name), value)
            })
            .collect(),
        other => other,
    }
}
