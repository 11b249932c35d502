//! Statuses of which a field, or all, cannot be read.
//!
//! A later version may have written them, before somebody went back to this one. What can
//! be read counts, and what cannot counts as absent: the controller writes it anew. Some
//! fields nothing else tells, though, such as which disk a VM had: without them the object
//! would look like one of which nothing was made yet. Those are kept as they are stored,
//! whoever writes the rest; until they can be read, the object is one that cannot
//! be, see [`KiteVirtualMachine::unreadable`](crate::crd::KiteVirtualMachine::unreadable).

use std::borrow::Cow;

use serde_json::{Map, Value};

/// What of a status cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnreadStatus {
    /// Which fields, and why.
    pub why: String,
    /// The same of those that are kept.
    why_kept: String,
    /// Fields that nothing else tells, as they are stored.
    kept: Map<String, Value>,
    /// The other fields that cannot be read, as they are stored.
    dropped: Map<String, Value>,
    /// It is no object, so that it has no fields.
    is_fieldless: bool,
}

impl UnreadStatus {
    /// Reads what can be read of `stored` by `read`, and says what cannot. `kept` are the
    /// fields that nothing else tells; none of them is a list.
    pub(super) fn salvage<T>(
        stored: &Value,
        kept: &[&str],
        read: impl Fn(&Value) -> Result<T, serde_json::Error>,
    ) -> Result<(T, Self), serde_json::Error> {
        let mut unread = Self::default();
        let mut sound = Map::new();
        let (mut faults, mut grave) = (Vec::new(), Vec::new());
        for (field, value) in stored.as_object().into_iter().flatten() {
            let is_kept = kept.contains(&field.as_str());
            let mut with = sound.clone();
            with.insert(field.clone(), value.clone());
            let with = Value::Object(with);
            let fault = match read(&with) {
                Err(why) => format!("status.{field}: {why}"),
                Ok(_) if is_kept && value.is_array() => format!("status.{field}: it is a list"),
                Ok(_) => {
                    sound = into_fields(with);
                    continue;
                }
            };
            if is_kept {
                unread.kept.insert(field.clone(), value.clone());
                grave.push(fault.clone());
            } else {
                unread.dropped.insert(field.clone(), value.clone());
            }
            faults.push(fault);
        }
        if !stored.is_object() {
            unread.is_fieldless = true;
            let fault = format!("status: {}", read_as_whole(stored, &read));
            if let Some(first) = kept.first() {
                // Any of them may be in it. It is kept in the place of one that makes
                // itself heard.
                unread.kept.insert((*first).to_owned(), stored.clone());
                grave.push(fault.clone());
            }
            faults.push(fault);
        }
        // Whatever order they are stored in.
        faults.sort();
        grave.sort();
        (unread.why, unread.why_kept) = (faults.join("; "), grave.join("; "));
        Ok((read(&Value::Object(sound))?, unread))
    }

    /// Whether the field, such as `disk`, is kept as it is stored, for it cannot be read.
    pub fn keeps(&self, field: &str) -> bool {
        self.kept.contains_key(field)
    }

    /// What of the fields that are kept cannot be read, if there are some.
    pub fn kept(&self) -> Option<&str> {
        (!self.kept.is_empty()).then_some(self.why_kept.as_str())
    }

    /// What is left of it when the status is written: what is not kept is gone then.
    #[must_use]
    pub fn rewritten(self) -> Option<Self> {
        (!self.kept.is_empty()).then(|| Self {
            why: self.why_kept.clone(),
            dropped: Map::new(),
            is_fieldless: false,
            ..self
        })
    }

    /// What is stored, of which `read` could be read: with all that a patch of it must
    /// name.
    pub(crate) fn stored(&self, read: Value) -> Value {
        if self.is_fieldless {
            return Value::Null;
        }
        let mut fields = into_fields(read);
        fields.extend(self.dropped.clone());
        Value::Object(fields)
    }

    /// The status `written` with the fields that are kept.
    pub(super) fn beside(&self, written: Value) -> Value {
        let mut fields = into_fields(written);
        fields.extend(self.kept.clone());
        Value::Object(fields)
    }
}

fn into_fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Why it is no status.
fn read_as_whole<T>(
    stored: &Value,
    read: impl Fn(&Value) -> Result<T, serde_json::Error>,
) -> String {
    match read(stored) {
        Err(why) => why.to_string(),
        // A list would be read as a status in which nothing is set.
        Ok(_) => "it is no object".to_owned(),
    }
}

/// What cannot be read of an object, by its spec and by its status.
pub(super) fn unreadable<'a>(
    spec: Option<&'a str>,
    status: Option<&'a UnreadStatus>,
) -> Option<Cow<'a, str>> {
    match (spec, status.and_then(UnreadStatus::kept)) {
        (Some(spec), Some(status)) => Some(format!("{spec}; {status}").into()),
        (why, None) | (None, why) => why.map(Cow::Borrowed),
    }
}

/// Reads statuses field by field where they cannot be read as a whole. The type has the
/// attribute `#[serde(remote = "Self")]` and a field `unreadable`; its schema would be named
/// `Self` by that. `kept` are the fields that nothing else tells. `or_fails`: the object cannot
/// be read at all where one of those cannot.
macro_rules! salvaged_status {
    ($status:ident, kept: $kept:expr $(, $or_fails:ident)?) => {
        impl serde::Serialize for $status {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self.unreadable.as_ref().filter(|it| it.kept().is_some()) {
                    None => Self::serialize(self, serializer),
                    Some(unread) => {
                        let written = Self::serialize(self, serde_json::value::Serializer);
                        let written = written.map_err(<S::Error as serde::ser::Error>::custom)?;
                        serde::Serialize::serialize(&unread.beside(written), serializer)
                    }
                }
            }
        }

        impl $crate::cluster::StoredStatus for $status {
            fn stored(&self, read: &serde_json::Value) -> Option<serde_json::Value> {
                self.unreadable.as_ref().map(|it| it.stored(read.clone()))
            }
        }

        impl<'de> serde::Deserialize<'de> for $status {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let stored = <serde_json::Value as serde::Deserialize>::deserialize(deserializer)?;
                let kept: &[&str] = &$kept;
                // Lists would be read as if nothing was set.
                let is_list = |field: &&str| {
                    let value = stored.get(*field);
                    value.is_some_and(serde_json::Value::is_array)
                };
                if stored.is_object()
                    && !kept.iter().any(is_list)
                    && let Ok(status) = Self::deserialize(&stored)
                {
                    return Ok(status);
                }
                let read = |value: &serde_json::Value| Self::deserialize(value);
                let salvaged =
                    $crate::crd::unread_status::UnreadStatus::salvage(&stored, kept, read);
                let (mut status, unread) =
                    salvaged.map_err(<D::Error as serde::de::Error>::custom)?;
                $(
                    if let Some($or_fails) = unread.kept() {
                        return Err(<D::Error as serde::de::Error>::custom($or_fails));
                    }
                )?
                status.unreadable = Some(Box::new(unread));
                Ok(status)
            }
        }
    };
}

pub(super) use salvaged_status;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use crate::{
        cluster::{Lenient, StoredStatus as _, merge_patch},
        crd::{
            KiteImage, KiteInvite, KitePlatform, KiteTokenStatus, KiteUser, KiteVirtualMachine,
            KiteVirtualMachineOffer, KiteVirtualMachineStatus, VmPhase,
        },
    };

    fn vm(status: &Value) -> KiteVirtualMachine {
        let spec = json!({
            "cpu": 2, "memory": "2Gi", "disk": "10Gi", "image": "debian-12", "sshId": "web",
        });
        let object = json!({"metadata": {"name": "web"}, "spec": spec, "status": status});
        serde_json::from_value(object).unwrap()
    }

    fn sound() -> Value {
        json!({
            "observedGeneration": 3, "phase": "Running", "nodeName": "node-1",
            "disk": {"name": "web-disk", "uid": "u-1", "phase": "Succeeded"},
            "granted": {"cpu": 2, "memory": "2Gi", "disk": "10Gi"},
        })
    }

    #[test]
    fn what_cannot_be_read_counts_as_absent_and_is_noted() {
        let whole = vm(&sound());
        assert_eq!(whole.unreadable(), None);
        assert_eq!(whole.status.as_ref().unwrap().unreadable, None);

        let mut later = sound();
        later["phase"] = json!("Hibernating");
        later["conditions"] = json!({"Ready": true});
        let odd = vm(&later);
        assert_eq!(odd.unreadable(), None, "nothing is lost by that");
        let status = odd.status.clone().unwrap();
        assert_eq!((status.phase, status.conditions.len()), (None, 0));
        assert_eq!(status.disk, whole.status.clone().unwrap().disk);
        let unread = status.unreadable.clone().unwrap();
        for part in ["status.phase", "Hibernating", "status.conditions"] {
            assert!(unread.why.contains(part), "{part}: {}", unread.why);
        }
        // So that it is written anew, and not as it was.
        assert!(unread.rewritten().is_none());
        let mut told = status.clone();
        (told.phase, told.unreadable) = (Some(VmPhase::Running), None);
        assert_ne!(status, told);
        let written = serde_json::to_value(&status).unwrap();
        assert_eq!(written.get("phase"), None);
        assert_eq!(written.get("unreadable"), None);
    }

    #[test]
    fn what_nothing_else_tells_is_kept_and_makes_the_object_unreadable() {
        for (field, value) in [
            ("disk", json!("web-disk")),
            ("disk", json!({"name": "web-disk", "uid": 7})),
            ("granted", json!({"cpu": "a few"})),
            ("granted", json!([])),
            ("asking", json!(true)),
            ("restart", json!({"at": "2026-05-04T08:00:00Z"})),
        ] {
            let mut odd = sound();
            odd[field] = value.clone();
            odd["nodeName"] = json!(5);
            let vm = vm(&odd);
            let why = vm.unreadable().unwrap();
            assert!(why.contains(&format!("status.{field}: ")), "{field}: {why}");
            assert!(!why.contains("nodeName"), "{why}");
            let status = vm.status.clone().unwrap();
            assert_eq!(status.phase, Some(VmPhase::Running));
            // Whoever writes the status writes it back.
            let mut told = status.clone();
            told.phase = Some(VmPhase::Failed);
            told.unreadable = told.unreadable.and_then(|it| it.rewritten().map(Box::new));
            let written = serde_json::to_value(&told).unwrap();
            assert_eq!(written[field], value);
            assert_eq!(written["phase"], "Failed");
            assert_eq!(written.get("nodeName"), None);
            let again: KiteVirtualMachineStatus = serde_json::from_value(written).unwrap();
            assert_eq!(again, told, "it is settled then");
        }
    }

    #[test]
    fn a_vm_whose_status_is_no_object_is_not_a_new_one() {
        for status in [json!("what"), json!([]), json!(7)] {
            let odd = vm(&status);
            let why = odd.unreadable().unwrap();
            assert!(why.contains("status: "), "{status}: {why}");
            assert!(!odd.has_known_charge());
            let written = serde_json::to_value(odd.status.unwrap()).unwrap();
            assert!(vm(&written).unreadable().is_some(), "once written, too");
        }
        assert_eq!(vm(&Value::Null).status, None);
    }

    #[test]
    fn what_is_charged_is_known_where_the_status_tells_it() {
        let with = |field: &str| {
            let mut odd = sound();
            odd[field] = json!("what");
            vm(&odd).has_known_charge()
        };
        assert!(with("phase") && with("restart") && with("disk"));
        assert!(!with("granted") && !with("asking"));
        let mut odd = sound();
        odd["disk"] = json!("what");
        odd.as_object_mut().unwrap().remove("granted");
        assert!(
            !vm(&odd).has_known_charge(),
            "it may be charged by its spec"
        );
    }

    #[test]
    fn other_kinds_are_there_whatever_their_status_is() {
        fn object(spec: &Value, status: &Value) -> Value {
            json!({"metadata": {"name": "it"}, "spec": spec, "status": status})
        }
        let spec = json!({"username": "ann"});
        for status in [json!("what"), json!([]), json!({"phase": "Asleep"})] {
            let user: KiteUser = serde_json::from_value(object(&spec, &status)).unwrap();
            assert_eq!(user.spec.unreadable, None);
            assert!(user.status.unwrap().unreadable.is_some());
        }
        let status = json!({"url": 7, "gatewayPort": 22});
        let platform: KitePlatform = serde_json::from_value(object(&json!({}), &status)).unwrap();
        let status = platform.status.unwrap();
        assert_eq!((status.url, status.gateway_port), (None, Some(22)));

        let spec = json!({"source": {}, "minDisk": "1Gi"});
        let read = |status: Value| -> KiteImage {
            serde_json::from_value(object(&spec, &status)).unwrap()
        };
        assert_eq!(read(json!({"phase": "Cold"})).unreadable(), None);
        let lost = read(json!({"phase": "Ready", "namespace": {"name": "kite-images"}}));
        assert!(lost.unreadable().unwrap().contains("status.namespace"));

        let spec = json!({"cpu": 1, "memory": "1Gi", "disk": "4Gi", "image": "debian-12"});
        let read = |status: Value| -> KiteVirtualMachineOffer {
            serde_json::from_value(object(&spec, &status)).unwrap()
        };
        assert_eq!(read(json!({"phase": "Lent"})).unreadable(), None);
        let lost = read(json!({"claimedBy": "ann"}));
        assert!(lost.unreadable().unwrap().contains("status.claimedBy"));
    }

    #[test]
    fn a_token_can_be_read_and_an_invite_that_may_be_used_up_cannot() {
        let spec = json!({
            "hash": "00", "createdBy": {"name": "ann", "uid": "u-1"},
            "expiresAt": "2027-05-04T08:00:00Z",
        });
        let invite = |status: Value| -> Lenient<KiteInvite> {
            let object = json!({"metadata": {"name": "it"}, "spec": spec, "status": status});
            serde_json::from_value(object).unwrap()
        };
        let is_read = |status| matches!(invite(status), Lenient::Read(_));
        assert!(is_read(json!({"usedBy": {"name": "bob", "uid": "u-2"}})));
        assert!(is_read(json!({"usedAt": "once"})));
        assert!(!is_read(json!({"usedBy": "bob"})));
        assert!(!is_read(json!("what")));
        let status: KiteTokenStatus =
            serde_json::from_value(json!({"lastUsedAt": "yesterday"})).unwrap();
        assert_eq!(status.last_used_at, None);
        assert!(status.unreadable.is_some());
    }

    /// What is named to write the phase `Running` and nothing else.
    fn patch(status: &Value) -> Option<Value> {
        let old = vm(status).status.unwrap();
        let read = serde_json::to_value(&old).unwrap();
        let stored = old.stored(&read).unwrap_or(read);
        let unread = old.unreadable;
        let new = KiteVirtualMachineStatus {
            phase: Some(VmPhase::Running),
            unreadable: unread.and_then(|it| it.rewritten()).map(Box::new),
            ..KiteVirtualMachineStatus::default()
        };
        merge_patch(&stored, &serde_json::to_value(new).unwrap())
    }

    #[test]
    fn a_patch_names_what_goes_and_never_what_is_kept() {
        assert_eq!(patch(&json!({"phase": "Running"})), None);
        for (status, named) in [
            (
                json!({"phase": "Asleep", "nodeName": 5, "conditions": {"a": 1}}),
                json!({"phase": "Running", "nodeName": null, "conditions": null}),
            ),
            (
                json!({"disk": "web-disk", "granted": {"cpu": 2}, "nodeName": "node-1"}),
                json!({"phase": "Running", "granted": null, "nodeName": null}),
            ),
            (
                json!({"phase": {"was": "odd"}}),
                json!({"phase": "Running"}),
            ),
        ] {
            assert_eq!(patch(&status), Some(named), "{status}");
        }
        // There is no field to leave as it is.
        let odd = json!("what");
        assert_eq!(
            patch(&odd),
            Some(json!({"phase": "Running", "disk": "what"}))
        );
    }
}
