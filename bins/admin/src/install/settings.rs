//! Settings of which administrators have changed some: those stay, and the rest of the
//! object is applied.

use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
    core::Status,
};
use serde::Serialize;
use serde_json::{Value, json};

/// Why a field is in a conflict: somebody else has set it.
const FIELD_MANAGER_CONFLICT: &str = "FieldManagerConflict";

/// What stays of an object as somebody else has set it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Each field that does.
    pub settings: Vec<Setting>,
    /// Whether something else of the object was changed.
    pub changed: bool,
    /// How to have them as the installation asks.
    pub remedy: String,
}

/// A field that somebody else has set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its path, such as `spec.signUp`.
    pub field: String,
    /// What it stays at.
    pub value: Value,
    /// What the installation asks for.
    pub wanted: Value,
    /// The field managers that have set it.
    pub by: Vec<String>,
}

/// Applies `wanted` but for the fields that others have set, which comes back with them.
pub(super) async fn apply_beside(
    api: &Api<DynamicObject>,
    name: &str,
    params: &PatchParams,
    mut wanted: Value,
    before: Option<&DynamicObject>,
) -> Result<(DynamicObject, Vec<Setting>), kube::Error> {
    let before = before.and_then(|it| serde_json::to_value(it).ok());
    let mut kept: Vec<Setting> = Vec::new();
    loop {
        match api.patch(name, params, &Patch::Apply(&wanted)).await {
            Ok(after) => {
                kept.sort_by(|one, other| one.field.cmp(&other.field));
                return Ok((after, kept));
            }
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let more = take_out(&mut wanted, &status, before.as_ref());
                // It is about something else, or goes round in a circle.
                if more.is_empty() {
                    return Err(kube::Error::Api(status));
                }
                kept.extend(more);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Takes the fields out of `wanted` that are in conflict.
fn take_out(wanted: &mut Value, status: &Status, before: Option<&Value>) -> Vec<Setting> {
    let causes = status.details.as_ref().map(|it| it.causes.as_slice());
    let mut taken: Vec<Setting> = Vec::new();
    for cause in causes.unwrap_or_default() {
        if cause.reason != FIELD_MANAGER_CONFLICT {
            continue;
        }
        let by = manager(&cause.message).to_owned();
        let field = cause.field.trim_start_matches('.');
        // Several may have set it.
        if let Some(known) = taken.iter_mut().find(|it| it.field == field) {
            known.by.push(by);
            continue;
        }
        let Some(value) = take(wanted, &cause.field) else {
            continue;
        };
        let mut before = before.cloned();
        let there = before.as_mut().and_then(|it| take(it, &cause.field));
        taken.push(Setting {
            field: field.to_owned(),
            value: there.unwrap_or_default(),
            wanted: value,
            by: vec![by],
        });
    }
    // Of the object itself something is left, whatever it says.
    if !wanted["spec"].is_object() {
        wanted["spec"] = json!({});
    }
    taken
}

/// The manager that a conflict is with: `conflict with "kubectl-edit" using v1`.
fn manager(message: &str) -> &str {
    message.split('"').nth(1).unwrap_or(message)
}

/// Takes what is at `path` out of `value`, with what is empty without it. Paths are those
/// of field managers: `.spec.list[name="it"].field`, and names may have dots in them.
fn take(value: &mut Value, path: &str) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            let path = path.strip_prefix('.')?;
            let names: Vec<_> = fields
                .keys()
                .filter(|it| leads(path, it))
                .cloned()
                .collect();
            names.into_iter().find_map(|name| {
                let below = &path[name.len()..];
                if below.is_empty() {
                    return fields.remove(&name);
                }
                let inner = fields.get_mut(&name)?;
                let taken = take(inner, below)?;
                if inner.as_object().is_some_and(serde_json::Map::is_empty) {
                    fields.remove(&name);
                }
                Some(taken)
            })
        }
        Value::Array(items) => {
            let (keys, below) = path.strip_prefix('[')?.split_once(']')?;
            let at = items.iter().position(|item| is_meant(item, keys))?;
            if below.is_empty() {
                return Some(items.remove(at));
            }
            take(&mut items[at], below)
        }
        _ => None,
    }
}

/// Whether `path` begins with the field `name`.
fn leads(path: &str, name: &str) -> bool {
    let below = path.strip_prefix(name);
    below.is_some_and(|it| it.is_empty() || it.starts_with(['.', '[']))
}

/// Whether an item of a list has these keys: `name="it"`, or `="it"` for itself.
fn is_meant(item: &Value, keys: &str) -> bool {
    keys.split(',').all(|key| {
        let Some((name, value)) = key.split_once('=') else {
            return false;
        };
        let value: Option<Value> = serde_json::from_str(value).ok();
        let found = if name.is_empty() {
            Some(item)
        } else {
            item.get(name)
        };
        value.is_some() && found == value.as_ref()
    })
}

/// How somebody has these settings of an object as they are wanted.
pub(super) fn remedy(kind: &str, name: &str, wanted: &Value, kept: &[Setting]) -> String {
    let kind = kind.to_lowercase();
    // A merge patch would replace a list as a whole.
    if kept.iter().any(|it| it.field.contains('[')) {
        return format!("kubectl edit {kind} {name}");
    }
    let mut rest = wanted.clone();
    for setting in kept {
        take(&mut rest, &format!(".{}", setting.field));
    }
    let patch = beyond(wanted, &rest);
    format!("kubectl patch {kind} {name} --type=merge -p '{patch}'")
}

/// What `all` has and `rest` does not.
fn beyond(all: &Value, rest: &Value) -> Value {
    let (Value::Object(all), Value::Object(rest)) = (all, rest) else {
        return all.clone();
    };
    let missing = all
        .iter()
        .filter(|(name, value)| rest.get(*name) != Some(value));
    missing
        .map(|(name, value)| {
            let value = rest
                .get(name)
                .map_or_else(|| value.clone(), |it| beyond(value, it));
            (name.clone(), value)
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn conflict(fields: &[(&str, &str)]) -> Status {
        let causes = fields.iter().map(|(field, by)| {
            json!({"reason": FIELD_MANAGER_CONFLICT, "field": field,
                   "message": format!("conflict with {by:?} using hy3ons.github.io/v1")})
        });
        let causes: Vec<_> = causes.collect();
        serde_json::from_value(
            json!({"status": "Failure", "code": 409, "reason": "Conflict",
            "message": "", "metadata": {}, "details": {"causes": causes}}),
        )
        .unwrap()
    }

    #[test]
    fn exactly_what_is_in_conflict_is_taken_out() {
        let all = json!({"metadata": {"name": "default"}, "spec": {
            "signUp": "Invite",
            "exposure": {"certificate": {"clusterIssuer": "ca"}},
            "web": {"annotations": {"a.example.org/b": "1", "a": "2"}},
            "signInProviders": [{"name": "one", "issuer": "i"}, {"name": "two", "issuer": "i"}],
        }});
        let mut wanted = all.clone();
        let there = json!({"spec": {"signUp": "Open"}});
        let status = conflict(&[
            (".spec.signUp", "kubectl"),
            (".spec.signUp", "kite-api"),
            (".spec.exposure.certificate.clusterIssuer", "kubectl"),
            (".spec.web.annotations.a.example.org/b", "kubectl"),
            (r#".spec.signInProviders[name="two"].issuer"#, "kubectl"),
            (".spec.moon", "kubectl"),
        ]);
        let kept = take_out(&mut wanted, &status, Some(&there));
        assert_eq!(
            wanted["spec"],
            json!({"web": {"annotations": {"a": "2"}},
                   "signInProviders": [{"name": "one", "issuer": "i"}, {"name": "two"}]})
        );
        assert_eq!(kept.len(), 4, "{kept:?}");
        assert_eq!(kept[0].by, ["kubectl", "kite-api"]);
        assert_eq!(
            (&kept[0].value, &kept[0].wanted),
            (&json!("Open"), &json!("Invite"))
        );
        assert_eq!(
            remedy("KitePlatform", "default", &all, &kept),
            "kubectl edit kiteplatform default"
        );
        assert_eq!(
            remedy("KitePlatform", "default", &all, &kept[..2]),
            "kubectl patch kiteplatform default --type=merge -p \
             '{\"spec\":{\"exposure\":{\"certificate\":{\"clusterIssuer\":\"ca\"}},\"signUp\":\"Invite\"}}'"
        );
    }

    #[test]
    fn another_conflict_takes_nothing_out() {
        let mut wanted = json!({"spec": {"signUp": "Invite"}});
        let all = wanted.clone();
        assert_eq!(take_out(&mut wanted, &conflict(&[]), None), []);
        assert_eq!(wanted, all);
        assert_eq!(
            take_out(&mut wanted, &conflict(&[(".spec.signUp", "a")]), None).len(),
            1
        );
        assert_eq!(wanted, json!({"spec": {}}));
    }
}
