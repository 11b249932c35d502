//! Which of a definition's names are free, and the conditions that say so.

use serde_json::{Map, Value, json};

use super::text;

/// The status of a definition once its names were compared with those of the
/// other definitions. `now` is an RFC 3339 time, for conditions that change.
pub fn accept<'a>(crd: &Value, others: impl Iterator<Item = &'a Value>, now: &str) -> Value {
    let mut taken = Taken::default();
    for other in others.filter(|other| {
        text(other, "/spec/group") == text(crd, "/spec/group")
            && text(other, "/metadata/name") != text(crd, "/metadata/name")
    }) {
        taken.add(&other["status"]["acceptedNames"]);
    }
    let wanted = &crd["spec"]["names"];
    let mut accepted = crd["status"]["acceptedNames"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let conflict = taken.choose(wanted, &mut accepted);
    let mut status = crd["status"].as_object().cloned().unwrap_or_default();
    status.insert("acceptedNames".to_owned(), Value::Object(accepted));
    let mut conditions = status
        .get("conditions")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    match conflict {
        None => {
            set(
                &mut conditions,
                "NamesAccepted",
                "True",
                "NoConflicts",
                "no conflicts found",
                now,
            );
            let message = "the initial names have been accepted";
            set(
                &mut conditions,
                "Established",
                "True",
                "InitialNamesAccepted",
                message,
                now,
            );
        }
        Some((reason, message)) => {
            set(
                &mut conditions,
                "NamesAccepted",
                "False",
                reason,
                &message,
                now,
            );
            if !conditions
                .iter()
                .any(|c| c["type"] == "Established" && c["status"] == "True")
            {
                let message = "not all names are accepted";
                set(
                    &mut conditions,
                    "Established",
                    "False",
                    "NotAccepted",
                    message,
                    now,
                );
            }
        }
    }
    status.insert("conditions".to_owned(), Value::Array(conditions));
    Value::Object(status)
}

/// Names that other definitions of the group hold.
#[derive(Default)]
struct Taken {
    resources: Vec<String>,
    kinds: Vec<String>,
}

impl Taken {
    fn add(&mut self, names: &Value) {
        for name in ["plural", "singular"] {
            self.resources
                .extend(names[name].as_str().map(str::to_owned));
        }
        let short = names["shortNames"].as_array().into_iter().flatten();
        self.resources
            .extend(short.filter_map(Value::as_str).map(str::to_owned));
        for name in ["kind", "listKind"] {
            self.kinds.extend(names[name].as_str().map(str::to_owned));
        }
    }

    /// Moves the free ones of the wanted names into `accepted`; gives the last conflict.
    fn choose(
        &self,
        wanted: &Value,
        accepted: &mut Map<String, Value>,
    ) -> Option<(&'static str, String)> {
        let mut conflict = None;
        for (name, reason, taken) in [
            ("plural", "PluralConflict", &self.resources),
            ("singular", "SingularConflict", &self.resources),
            ("kind", "KindConflict", &self.kinds),
            ("listKind", "ListKindConflict", &self.kinds),
        ] {
            let Some(value) = wanted[name].as_str() else {
                continue;
            };
            if taken.iter().any(|t| t == value) {
                conflict = Some((reason, format!("{value:?} is already in use")));
            } else {
                accepted.insert(name.to_owned(), value.into());
            }
        }
        if let Some(short) = wanted["shortNames"].as_array() {
            match short
                .iter()
                .filter_map(Value::as_str)
                .find(|s| self.resources.iter().any(|t| t == s))
            {
                Some(held) => {
                    conflict = Some(("ShortNamesConflict", format!("{held:?} is already in use")));
                }
                None => {
                    accepted.insert("shortNames".to_owned(), wanted["shortNames"].clone());
                }
            }
        } else {
            accepted.remove("shortNames");
        }
        match wanted.get("categories").filter(|c| c.is_array()) {
            Some(categories) => accepted.insert("categories".to_owned(), categories.clone()),
            None => accepted.remove("categories"),
        };
        conflict
    }
}

/// Sets a condition; its time moves only with its status.
fn set(
    conditions: &mut Vec<Value>,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let time = conditions
        .iter()
        .find(|c| c["type"] == kind && c["status"] == status)
        .map_or_else(|| now.into(), |c| c["lastTransitionTime"].clone());
    let condition = json!({
        "type": kind, "status": status, "lastTransitionTime": time, "reason": reason, "message": message,
    });
    match conditions.iter_mut().find(|c| c["type"] == kind) {
        Some(existing) => *existing = condition,
        None => conditions.push(condition),
    }
}
