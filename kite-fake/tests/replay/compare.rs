//! Compares a recorded answer with the one that came.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use super::pointer::blank;

static PLACEHOLDER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"<(?:rv|uid|gen|ip):\d+>").unwrap());

/// Which placeholder of the transcript stands for which of this run.
#[derive(Default)]
pub struct Binding {
    forward: HashMap<String, String>,
    backward: HashMap<String, String>,
}

impl Binding {
    fn same(&mut self, a: &str, b: &str) -> bool {
        let ok = self.forward.get(a).is_none_or(|x| x == b)
            && self.backward.get(b).is_none_or(|x| x == a);
        self.forward.insert(a.into(), b.into());
        self.backward.insert(b.into(), a.into());
        ok
    }

    fn text(&mut self, a: &str, b: &str) -> bool {
        let find = |t: &str| -> Vec<String> {
            PLACEHOLDER
                .find_iter(t)
                .map(|m| m.as_str().to_owned())
                .collect()
        };
        let (pa, pb) = (find(a), find(b));
        if PLACEHOLDER.replace_all(a, "<>") != PLACEHOLDER.replace_all(b, "<>")
            || pa.len() != pb.len()
        {
            return false;
        }
        let mut ok = true;
        for (x, y) in pa.iter().zip(&pb) {
            ok &= x.split(':').next() == y.split(':').next() && self.same(x, y);
        }
        ok
    }

    fn key(&self, key: &str) -> String {
        PLACEHOLDER
            .replace_all(key, |c: &Captures<'_>| {
                self.forward
                    .get(&c[0])
                    .cloned()
                    .unwrap_or_else(|| c[0].to_owned())
            })
            .into_owned()
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() < 400 {
        text
    } else {
        format!("{}…", text.chars().take(400).collect::<String>())
    }
}

pub fn diff(a: &Value, b: &Value, bind: &mut Binding, path: &str) -> Vec<String> {
    if a == "<ignored>" || b == "<ignored>" {
        return Vec::new();
    }
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => objects(x, y, bind, path),
        (Value::Array(x), Value::Array(y)) => {
            let mut out = Vec::new();
            if x.len() != y.len() {
                out.push(format!(
                    "{path}: {} elements expected, {} found",
                    x.len(),
                    y.len()
                ));
            }
            for (i, (x, y)) in x.iter().zip(y).enumerate() {
                out.extend(diff(x, y, bind, &format!("{path}/{i}")));
            }
            out
        }
        (Value::String(x), Value::String(y)) if bind.text(x, y) => Vec::new(),
        (Value::Number(x), Value::Number(y)) if x.as_f64() == y.as_f64() => Vec::new(),
        (Value::String(_), Value::String(_)) => mismatch(a, b, path),
        _ if a == b => Vec::new(),
        _ => mismatch(a, b, path),
    }
}

fn mismatch(a: &Value, b: &Value, path: &str) -> Vec<String> {
    vec![format!("{path}: expected {}, found {}", short(a), short(b))]
}

fn objects(
    a: &Map<String, Value>,
    b: &Map<String, Value>,
    bind: &mut Binding,
    path: &str,
) -> Vec<String> {
    let mut out = Vec::new();
    let mut keys: Vec<&String> = a.keys().collect();
    keys.sort_by_key(|k| (PLACEHOLDER.is_match(k), (*k).clone()));
    for key in keys {
        let at = format!("{path}/{key}");
        match b.get(&bind.key(key)) {
            None => out.push(format!("{at}: missing, expected {}", short(&a[key]))),
            Some(other) => out.extend(diff(&a[key], other, bind, &at)),
        }
    }
    let known: Vec<String> = a.keys().map(|k| bind.key(k)).collect();
    for key in b.keys().filter(|k| !known.contains(k)) {
        out.push(format!("{path}/{key}: unexpected {}", short(&b[key])));
    }
    out
}

/// Differences between the recorded form of a step and that of this run.
pub fn step(a: &Value, b: &Value, bind: &mut Binding) -> Vec<String> {
    let mut out = Vec::new();
    if a.get("action").is_some() {
        return out;
    }
    let (ra, rb) = (&a["response"], &b["response"]);
    if ra["status"] != rb["status"] {
        out.push(format!(
            "status: expected {}, found {} ({})",
            ra["status"],
            rb["status"],
            short(&rb["body"])
        ));
    }
    if a["unstable"] == true {
        return out;
    }
    let squeezed = |v: &Value| v.as_str().unwrap_or_default().replace(' ', "");
    if squeezed(&ra["content_type"]) != squeezed(&rb["content_type"]) {
        out.push(format!(
            "content_type: expected {}, found {}",
            ra["content_type"], rb["content_type"]
        ));
    }
    if ra["retry_after"] != rb["retry_after"] {
        out.push(format!(
            "Retry-After: expected {}, found {}",
            ra["retry_after"], rb["retry_after"]
        ));
    }
    let loose: Vec<&str> = a["loose"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let warnings = |v: &Value| {
        let mut all: Vec<String> = v["warnings"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        all.sort();
        all
    };
    if !loose.contains(&"warnings") && warnings(ra) != warnings(rb) {
        out.push(format!(
            "warnings: expected {:?}, found {:?}",
            warnings(ra),
            warnings(rb)
        ));
    }
    let (mut ba, mut bb) = (ra["body"].clone(), rb["body"].clone());
    for pointer in loose.iter().filter(|p| p.starts_with('/')) {
        blank(&mut ba, pointer);
        blank(&mut bb, pointer);
    }
    let body = diff(&ba, &bb, bind, "body");
    if let Some(watch) = a.get("watch") {
        let list = |v: &Value| v["during"].as_array().cloned().unwrap_or_default();
        for (x, y) in list(watch).iter().zip(&list(&b["watch"])) {
            out.extend(
                step(x, y, bind)
                    .into_iter()
                    .map(|d| format!("during {}: {d}", x["id"])),
            );
        }
        out.extend(body);
        let events = |v: &Value| {
            v["events"]
                .as_array()
                .cloned()
                .map_or_else(|| Value::Array(Vec::new()), Value::Array)
        };
        out.extend(diff(&events(watch), &events(&b["watch"]), bind, "events"));
    } else {
        out.extend(body);
    }
    out
}
