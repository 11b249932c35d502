//! Replaces what differs from run to run by numbered placeholders.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

static UUID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap()
});
static TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$").unwrap());
static SUFFIX: LazyLock<Regex> = LazyLock::new(|| Regex::new("^[a-z0-9]{5}$").unwrap());
static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(\d+[smhdy])+$").unwrap());
static MESSAGES: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    [
        (
            r"Too large resource version: \d+, current: \d+",
            "Too large resource version: <rv:*>, current: <rv:*>",
        ),
        (
            r"too old resource version: \d+ \(\d+\)",
            "too old resource version: <rv:*> (<rv:*>)",
        ),
        (
            r"(ResourceVersion in (?:precondition|object meta)): \d+",
            "${1}: <rv:*>",
        ),
        (
            r"(ResourceVersion in (?:the precondition|record)) \(\d+\)",
            "${1} (<rv:*>)",
        ),
        (r#"(resourceVersion\\*":\\*")\d+"#, "${1}<rv:*>"),
        (
            r#"((?:creationTimestamp|time)\\*":\\*")\d{4}-\d\d-\d\dT[\d:.]+Z"#,
            "${1}<time>",
        ),
    ]
    .map(|(pattern, with)| (Regex::new(pattern).unwrap(), with))
    .into()
});
const TIME_KEYS: [&str; 6] = [
    "creationTimestamp",
    "deletionTimestamp",
    "time",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastProbeTime",
];

#[derive(Default)]
pub struct Normaliser {
    uids: HashMap<String, String>,
    rvs: HashMap<String, String>,
    ips: Vec<(String, Regex, String)>,
    gens: BTreeMap<String, String>,
    pub age_columns: Vec<usize>,
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text != "0" && text.bytes().all(|b| b.is_ascii_digit())
}

fn is_list(map: &Map<String, Value>) -> bool {
    (map.contains_key("items") || map.contains_key("rows"))
        && map.get("metadata").is_some_and(Value::is_object)
}

fn ordered(map: &Map<String, Value>) -> Vec<&String> {
    let mut keys: Vec<&String> = map.keys().collect();
    keys.sort_by_key(|k| UUID.replace_all(k, "").into_owned());
    keys
}

impl Normaliser {
    pub fn apply(&mut self, value: &Value) -> Value {
        self.scan(value, false);
        self.rewrite(value, "", false)
    }

    pub fn event(&mut self, event: &Value) -> Value {
        let any = event["type"] == "BOOKMARK";
        self.scan(event, any);
        self.rewrite(event, "", any)
    }

    fn scan(&mut self, value: &Value, any: bool) {
        match value {
            Value::Object(map) => {
                let list = is_list(map);
                let text = |k: &str| map.get(k).and_then(Value::as_str);
                if let (Some(prefix), Some(name)) = (text("generateName"), text("name")) {
                    self.name_of(prefix, name);
                }
                for key in ordered(map) {
                    let v = &map[key];
                    match (key.as_str(), v) {
                        ("resourceVersion", Value::String(s)) if is_number(s) => {
                            if !any && !self.rvs.contains_key(s) {
                                let n = self.rvs.len() + 1;
                                self.rvs.insert(s.clone(), format!("<rv:{n}>"));
                            }
                        }
                        ("clusterIP" | "clusterIPs", _) => {
                            let one = [v.clone()];
                            let all = v.as_array().map_or(&one[..], Vec::as_slice);
                            for ip in all.iter().filter_map(Value::as_str) {
                                self.ip(ip);
                            }
                        }
                        ("metadata", _) if list => self.scan(v, true),
                        _ => self.scan(v, any),
                    }
                }
                for key in ordered(map) {
                    self.uid(key);
                }
            }
            Value::Array(list) => list.iter().for_each(|e| self.scan(e, any)),
            Value::String(s) => self.uid(s),
            _ => {}
        }
    }

    fn uid(&mut self, text: &str) {
        for found in UUID.find_iter(text) {
            if !self.uids.contains_key(found.as_str()) {
                let n = self.uids.len() + 1;
                self.uids
                    .insert(found.as_str().into(), format!("<uid:{n}>"));
            }
        }
    }

    fn ip(&mut self, ip: &str) {
        if ip.is_empty() || ip == "None" || self.ips.iter().any(|(known, ..)| known == ip) {
            return;
        }
        let n = self.ips.len() + 1;
        let pattern = Regex::new(&format!(r"(^|[^\d.]){}($|[^\d.])", regex::escape(ip))).unwrap();
        self.ips.push((ip.to_owned(), pattern, format!("<ip:{n}>")));
    }

    fn name_of(&mut self, prefix: &str, name: &str) {
        let prefix: String = prefix.chars().take(58).collect();
        if let Some(rest) = name.strip_prefix(&prefix)
            && SUFFIX.is_match(rest)
            && !self.gens.contains_key(name)
        {
            let n = self.gens.len() + 1;
            self.gens
                .insert(name.to_owned(), format!("{prefix}<gen:{n}>"));
        }
    }

    /// A create with generateName: remember the name that came out of it.
    pub fn generated(&mut self, request: &Value, body: &Value) {
        let metadata = &request["body"]["metadata"];
        let prefix = metadata["generateName"].as_str().unwrap_or_default();
        if request["method"] != "POST" || metadata["name"].is_string() || prefix.is_empty() {
            return;
        }
        if let Some(name) = body["metadata"]["name"].as_str() {
            self.name_of(prefix, name);
        } else if let Some(message) = body["message"].as_str() {
            let head: String = prefix.chars().take(58).collect();
            let pattern = Regex::new(&format!(
                "{}[a-z0-9]{{5}}(?:[^a-z0-9]|$)",
                regex::escape(&head)
            ))
            .unwrap();
            if let Some(found) = pattern.find(message) {
                let name: String = found
                    .as_str()
                    .chars()
                    .take(head.chars().count() + 5)
                    .collect();
                self.name_of(prefix, &name);
            }
        }
    }

    pub fn text(&self, text: &str) -> String {
        let mut out = UUID
            .replace_all(text, |c: &Captures<'_>| {
                self.uids
                    .get(&c[0])
                    .cloned()
                    .unwrap_or_else(|| "<uid:?>".into())
            })
            .into_owned();
        for (name, with) in &self.gens {
            out = out.replace(name, with);
        }
        for (_, pattern, with) in &self.ips {
            // Twice, since neighbours share the character between them.
            for _ in 0..2 {
                out = pattern
                    .replace_all(&out, |c: &Captures<'_>| format!("{}{with}{}", &c[1], &c[2]))
                    .into_owned();
            }
        }
        for (pattern, with) in MESSAGES.iter() {
            out = pattern.replace_all(&out, *with).into_owned();
        }
        out
    }

    fn rewrite(&mut self, value: &Value, key: &str, any: bool) -> Value {
        match value {
            Value::Object(map) => {
                let list = is_list(map);
                let mut out = Map::new();
                for (k, v) in map {
                    let (name, new) = match (k.as_str(), v) {
                        ("resourceVersion", Value::String(s)) if is_number(s) => (
                            k.clone(),
                            if any {
                                "<rv:*>".into()
                            } else {
                                self.rvs[s].clone().into()
                            },
                        ),
                        (t, Value::String(s)) if TIME_KEYS.contains(&t) && TIME.is_match(s) => {
                            (k.clone(), "<time>".into())
                        }
                        ("continue", Value::String(s)) if !s.is_empty() => {
                            (k.clone(), "<continue>".into())
                        }
                        ("storageVersionHash", Value::String(_)) => (k.clone(), "<hash>".into()),
                        ("nodePort" | "healthCheckNodePort", Value::Number(n))
                            if n.as_i64() != Some(0) =>
                        {
                            (k.clone(), "<port>".into())
                        }
                        ("metadata", _) if list => (k.clone(), self.rewrite(v, k, true)),
                        _ => (self.text(k), self.rewrite(v, k, any)),
                    };
                    out.insert(name, new);
                }
                if map.get("kind") == Some(&"Status".into()) {
                    sort_causes(&mut out);
                }
                if map.get("kind") == Some(&"Table".into()) && map["rows"].is_array() {
                    self.ages(map, &mut out);
                }
                Value::Object(out)
            }
            Value::Array(list) => {
                let mut out: Vec<Value> = list.iter().map(|e| self.rewrite(e, key, any)).collect();
                if key == "managedFields" {
                    out.sort_by_key(|e| {
                        ["operation", "manager", "subresource", "apiVersion"]
                            .map(|k| e[k].as_str().unwrap_or_default().to_owned())
                    });
                }
                Value::Array(out)
            }
            Value::String(s) => self.text(s).into(),
            other => other.clone(),
        }
    }

    fn ages(&mut self, raw: &Map<String, Value>, out: &mut Map<String, Value>) {
        if let Some(columns) = raw.get("columnDefinitions").and_then(Value::as_array)
            && !columns.is_empty()
        {
            self.age_columns = (0..columns.len())
                .filter(|i| columns[*i]["name"] == "Age" || columns[*i]["type"] == "date")
                .collect();
        }
        for row in out["rows"].as_array_mut().into_iter().flatten() {
            for i in &self.age_columns {
                if let Some(cell) = row["cells"].get_mut(*i)
                    && cell.as_str().is_some_and(|s| AGE.is_match(s))
                {
                    *cell = "<age>".into();
                }
            }
        }
    }
}

fn sort_causes(status: &mut Map<String, Value>) {
    let Some(causes) = status
        .get_mut("details")
        .and_then(|d| d.get_mut("causes"))
        .and_then(Value::as_array_mut)
        .filter(|c| c.len() > 1)
    else {
        return;
    };
    let text = |c: &Value, k: &str| c[k].as_str().unwrap_or_default().to_owned();
    causes.sort_by_key(|c| (text(c, "field"), text(c, "reason"), text(c, "message")));
    let mut items: Vec<String> = Vec::new();
    for cause in causes.iter() {
        let item = format!("{}: {}", text(cause, "field"), text(cause, "message"));
        if !items.contains(&item) {
            items.push(item);
        }
    }
    let message = status
        .get("message")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if let Some((head, rest)) = message.split_once(" is invalid: [") {
        let body = format!("{}]", items.join(", "));
        if rest.chars().count() == body.chars().count()
            && items.iter().all(|i| rest.contains(i.as_str()))
        {
            let new = format!("{head} is invalid: [{body}");
            status.insert("message".into(), new.into());
        }
    }
}
