//! The home-made fake: a map of values.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

/// A list, encoded without copying what is in it.
#[derive(Serialize)]
struct List<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    items: Vec<&'a Value>,
}

/// A watch event.
#[derive(Serialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    change: &'static str,
    object: &'a Value,
}

#[derive(Default)]
pub struct PlainMap {
    objects: BTreeMap<String, Value>,
    revision: u64,
}

impl PlainMap {
    /// Creates or changes an object; tells what is stored then.
    pub fn apply(&mut self, name: &str, body: &[u8]) -> Bytes {
        let mut new: Value = serde_json::from_slice(body).unwrap();
        if let Some(old) = self.objects.get(name) {
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
            if *old == new {
                return encode(old);
            }
        }
        self.revision += 1;
        new["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let answer = encode(&new);
        self.objects.insert(name.to_owned(), new);
        answer
    }

    pub fn get(&self, name: &str) -> Bytes {
        encode(&self.objects[name])
    }

    pub fn list(&self, label: Option<(&str, &str)>) -> Bytes {
        let items: Vec<&Value> = self
            .objects
            .values()
            .filter(|o| label.is_none_or(|(name, value)| o["metadata"]["labels"][name] == value))
            .collect();
        encode(&List {
            kind: "List",
            api_version: "v1",
            items,
        })
    }

    /// Tells so many watchers of an object.
    pub fn announce(&self, name: &str, watchers: usize) -> usize {
        let object = &self.objects[name];
        (0..watchers)
            .map(|_| {
                let event = Event {
                    change: "MODIFIED",
                    object,
                };
                encode(&event).len()
            })
            .sum()
    }
}

fn encode(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).unwrap().into()
}
