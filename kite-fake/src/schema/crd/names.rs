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
    if let Some((state, reason, message)) = approval(crd) {
        let kind = "KubernetesAPIApprovalPolicyConformant";
        set(&mut conditions, kind, state, reason, &message, now);
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
        for (name, reason) in [
            ("plural", "PluralConflict"),
            ("singular", "SingularConflict"),
            ("shortNames", "ShortNamesConflict"),
            ("kind", "KindConflict"),
            ("listKind", "ListKindConflict"),
        ] {
            if name == "shortNames" {
                if let Err(problem) = self.short_names(wanted, accepted) {
                    conflict = Some((reason, problem));
                }
                continue;
            }
            let Some(value) = wanted[name].as_str() else {
                continue;
            };
            let taken = match name {
                "plural" | "singular" => &self.resources,
                _ => &self.kinds,
            };
            let own = accepted.get(name).is_some_and(|own| own == value);
            if !own && taken.iter().any(|t| t == value) {
                conflict = Some((reason, in_use(value)));
            } else {
                accepted.insert(name.to_owned(), value.into());
            }
        }
        match wanted.get("categories").filter(|c| c.is_array()) {
            Some(categories) => accepted.insert("categories".to_owned(), categories.clone()),
            None => accepted.remove("categories"),
        };
        conflict
    }
}

impl Taken {
    /// Moves the wanted short names into `accepted`, all or none.
    fn short_names(&self, wanted: &Value, accepted: &mut Map<String, Value>) -> Result<(), String> {
        let Some(short) = wanted["shortNames"].as_array() else {
            accepted.remove("shortNames");
            return Ok(());
        };
        let own = |name: &Value| {
            accepted
                .get("shortNames")
                .and_then(Value::as_array)
                .is_some_and(|own| own.contains(name))
        };
        let mut problems: Vec<String> = Vec::new();
        for name in short.iter().filter(|name| !own(name)) {
            let text = name.as_str().unwrap_or_default();
            let problem = in_use(text);
            if self.resources.iter().any(|t| t == text) && !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        match problems.as_slice() {
            [] => {
                accepted.insert("shortNames".to_owned(), wanted["shortNames"].clone());
                Ok(())
            }
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }
}

fn in_use(name: &str) -> String {
    format!("{name:?} is already in use")
}

/// What the approval of an API in a group of Kubernetes itself comes to: the
/// condition's status, reason and message.
fn approval(crd: &Value) -> Option<(&'static str, &'static str, String)> {
    if !super::is_protected(text(crd, "/spec/group")) {
        return None;
    }
    let given = crd["metadata"]["annotations"][super::APPROVAL]
        .as_str()
        .unwrap_or_default();
    Some(if given.is_empty() {
        let message = super::approval_missing();
        ("False", "MissingAnnotation", message)
    } else if given.starts_with("unapproved") {
        let message = format!("not approved: {}", crate::go::quote(given));
        ("False", "UnapprovedAnnotation", message)
    } else if super::is_address(given) {
        ("True", "ApprovedAnnotation", format!("approved in {given}"))
    } else {
        ("False", "InvalidAnnotation", super::approval_invalid())
    })
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
