//! The pointers of transcripts: RFC 6901 plus `[key=value]`, `*`, `#`, `*keys`.

use serde_json::{Value, json};

pub const ABSENT: &str = "<absent>";

fn segments(pointer: &str) -> Vec<String> {
    let (mut out, mut current, mut depth) = (Vec::new(), String::new(), 0i32);
    for c in pointer.chars().skip(1) {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if c == '/' && depth == 0 {
            out.push(std::mem::take(&mut current));
        } else {
            current.push(c);
        }
    }
    out.push(current);
    out
}

fn member_text(element: &Value, key: &str) -> String {
    let mut at = element;
    for part in key.split('.') {
        match at.get(part) {
            Some(next) => at = next,
            None => return ABSENT.to_owned(),
        }
    }
    at.as_str().map_or_else(|| at.to_string(), str::to_owned)
}

pub fn pointer(document: &Value, text: &str) -> Value {
    if text.is_empty() {
        return document.clone();
    }
    let segments = segments(text);
    let mut at = document.clone();
    for (n, segment) in segments.iter().enumerate() {
        let absent = || Value::from(ABSENT);
        at = match segment.as_str() {
            "*" => {
                let rest = segments[n..].join("/").replacen('*', "", 1);
                return match at.as_array() {
                    Some(list) => list.iter().map(|e| pointer(e, &rest)).collect(),
                    None => absent(),
                };
            }
            "#" => match &at {
                Value::Array(list) => json!(list.len()),
                Value::Object(map) => json!(map.len()),
                _ => absent(),
            },
            "*keys" => match &at {
                Value::Object(map) => {
                    let mut keys: Vec<&String> = map.keys().collect();
                    keys.sort();
                    json!(keys)
                }
                _ => absent(),
            },
            s if s.starts_with('[') && s.ends_with(']') => {
                let (key, value) = s[1..s.len() - 1].split_once('=').unwrap();
                let hit = at
                    .as_array()
                    .and_then(|l| l.iter().find(|e| member_text(e, key) == value));
                match hit {
                    Some(found) => found.clone(),
                    None => return absent(),
                }
            }
            s => {
                let name = s.replace("~1", "/").replace("~0", "~");
                let next = match &at {
                    Value::Object(map) => map.get(&name),
                    Value::Array(list) => name.parse::<usize>().ok().and_then(|i| list.get(i)),
                    _ => None,
                };
                match next {
                    Some(found) => found.clone(),
                    None => return absent(),
                }
            }
        };
    }
    at
}

/// Replaces what a pointer names by `<ignored>`; `*` is every element or member.
pub fn blank(document: &mut Value, pointer: &str) {
    let segments: Vec<String> = pointer[1..]
        .split('/')
        .map(|s| s.replace("~1", "/").replace("~0", "~"))
        .collect();
    walk(document, &segments);
}

fn walk(at: &mut Value, segments: &[String]) {
    let Some((first, rest)) = segments.split_first() else {
        *at = "<ignored>".into();
        return;
    };
    match at {
        Value::Object(map) if first == "*" => map.values_mut().for_each(|v| walk(v, rest)),
        Value::Array(list) if first == "*" => list.iter_mut().for_each(|v| walk(v, rest)),
        Value::Object(map) => {
            if let Some(next) = map.get_mut(first) {
                walk(next, rest);
            }
        }
        Value::Array(list) => {
            if let Some(next) = first.parse::<usize>().ok().and_then(|i| list.get_mut(i)) {
                walk(next, rest);
            }
        }
        _ => {}
    }
}
