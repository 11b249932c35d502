//! Specs of which a field, or all, cannot be read.
//!
//! What a CRD admits this version reads. An object may be of a later version, though,
//! or have been stored when the CRD was another. It must not vanish from sight for
//! that: it is to be listed, switched off and deleted like all others. So the fields
//! that can be read are, others get a stand-in, and the spec says so in
//! `unreadable`. Nothing new is made from such a spec. Where there is no spec at all,
//! stand-ins are all that there is. Of statuses: [`unread_status`](super::unread_status).

use serde_json::{Map, Value};

/// What stands for fields that cannot be read.
pub(super) struct StandIns {
    /// Of fields that must be there.
    pub(super) required: Value,
    /// Of fields that may be absent, and whose default would allow too much.
    pub(super) strict: Value,
}

/// Reads what can be read of `stored`, of which `whole` says why it cannot be read as a
/// whole, and says what cannot. An error if no spec comes of it.
pub(super) fn salvage<T>(
    stored: &Value,
    stand_ins: StandIns,
    whole: &str,
    read: impl Fn(&Value) -> Result<T, serde_json::Error>,
) -> Result<(T, String), String> {
    let of = |value: Value| match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let (mut sound, strict) = (of(stand_ins.required), of(stand_ins.strict));
    let Some(fields) = stored.as_object() else {
        // Any of the fields may have been set.
        sound.extend(strict);
        let spec = read(&Value::Object(sound)).map_err(|_| whole.to_owned())?;
        return Ok((spec, format!("spec: {whole}")));
    };
    let mut faults = Vec::new();
    for (field, value) in fields {
        let mut with = sound.clone();
        with.insert(field.clone(), value.clone());
        let with = Value::Object(with);
        match (read(&with), with) {
            (Ok(_), Value::Object(with)) => sound = with,
            (Err(why), _) => {
                faults.push(format!("spec.{field}: {why}"));
                if let Some(stand_in) = strict.get(field) {
                    sound.insert(field.clone(), stand_in.clone());
                }
            }
            (Ok(_), _) => {}
        }
    }
    if faults.is_empty() {
        // Nothing is wrong with what is there: something is missing.
        faults.push(format!("spec: {whole}"));
    }
    let spec = read(&Value::Object(sound)).map_err(|_| whole.to_owned())?;
    Ok((spec, faults.join("; ")))
}

/// Reads specs field by field where they cannot be read as a whole. The type has the
/// attribute `#[serde(remote = "Self")]` and a field `unreadable`. `whole` makes what stands
/// for something that is no object; without it, all stand-ins together do.
macro_rules! salvaged {
    ($spec:ident, required: $required:tt, strict: $strict:tt $(, whole: $stand_in:path)?) => {
        impl serde::Serialize for $spec {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $spec {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                // What may be absent: an object without a spec is there all the same.
                let stored =
                    <Option<serde_json::Value> as serde::Deserialize>::deserialize(deserializer)?;
                let stored = stored.unwrap_or_default();
                $(
                    // A list would be read as a spec in which nothing is set.
                    if !stored.is_object() {
                        return Ok($stand_in("it is no object"));
                    }
                )?
                let whole = match Self::deserialize(&stored) {
                    Ok(spec) if stored.is_object() => return Ok(spec),
                    // As above.
                    Ok(_) => "it is no object".to_owned(),
                    Err(whole) => whole.to_string(),
                };
                let stand_ins = $crate::crd::salvage::StandIns {
                    required: serde_json::json!($required),
                    strict: serde_json::json!($strict),
                };
                let read = |value: &serde_json::Value| Self::deserialize(value);
                let (mut spec, faults) =
                    $crate::crd::salvage::salvage(&stored, stand_ins, &whole, read)
                        .map_err(<D::Error as serde::de::Error>::custom)?;
                spec.unreadable = Some(faults);
                Ok(spec)
            }
        }
    };
}

pub(super) use salvaged;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use crate::crd::{
        AccessLevel, KiteImage, KiteUser, KiteUserSpec, KiteVirtualMachine,
        KiteVirtualMachineOffer, KiteVirtualMachineSpec, PowerState, SshLogin,
    };

    fn vm(change: impl FnOnce(&mut Value)) -> KiteVirtualMachineSpec {
        let mut spec = json!({
            "cpu": 2, "memory": "2Gi", "disk": "10Gi", "image": "debian-12", "sshId": "web",
            "expiresAt": "2026-05-04T08:00:00Z", "domainPrefix": "shop",
        });
        change(&mut spec);
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn what_can_be_read_of_a_spec_is_read() {
        assert_eq!(vm(|_| ()).unreadable, None);
        let spec = vm(|spec| {
            spec["cpu"] = json!("a few");
            spec["powerState"] = json!("Off");
            spec["sshLogin"] = json!("KeyAndRetina");
        });
        let why = spec.unreadable.as_deref().unwrap();
        assert!(why.contains("spec.cpu") && why.contains("a few"), "{why}");
        assert!(why.contains("spec.sshLogin"), "{why}");
        assert_eq!(spec.power_state, PowerState::Off);
        assert_eq!(spec.domain_prefix.as_deref(), Some("shop"));
        assert!(spec.expires_at.is_some());
        // Nobody gets in by what is not known to be enough.
        assert_eq!(spec.ssh_login, SshLogin::KeyAndPassword);
    }

    /// Nobody's VM goes for an end that nobody can read.
    #[test]
    fn an_end_that_cannot_be_read_is_none() {
        for end in [json!("soon"), json!(7), json!(["2020-01-01T00:00:00Z"])] {
            let spec = vm(|spec| spec["expiresAt"] = end.clone());
            let why = spec.unreadable.unwrap();
            assert!(why.contains("spec.expiresAt"), "{end}: {why}");
            assert_eq!(spec.expires_at, None);
        }
    }

    #[test]
    fn what_is_missing_is_told() {
        let spec = vm(|spec| {
            spec.as_object_mut().unwrap().remove("image");
        });
        assert!(spec.unreadable.unwrap().contains("image"));
    }

    /// Whoever counts, suspends or deletes VMs has to see it, and nobody takes what stands
    /// for it for what somebody asked for.
    #[test]
    fn for_what_is_no_spec_at_all_stand_ins_are_there_and_say_so() {
        for value in [json!(null), json!("x"), json!([]), json!(7)] {
            let spec: KiteVirtualMachineSpec = serde_json::from_value(value.clone()).unwrap();
            let why = spec.unreadable.unwrap();
            assert!(why.starts_with("spec: "), "{value}: {why}");
            assert_eq!(spec.ssh_login, SshLogin::KeyAndPassword);
            assert_eq!((spec.cpu, spec.expires_at, spec.offer), (1, None, None));
        }
        let why = serde_json::from_value::<KiteVirtualMachineSpec>(json!("a few"));
        assert!(why.unwrap().unreadable.unwrap().contains("a few"));
    }

    #[test]
    fn an_object_is_there_whatever_its_spec_is() {
        let metadata = json!({
            "name": "web", "namespace": "kite-user-ann", "uid": "u-1",
            "deletionTimestamp": "2026-05-04T08:00:00Z", "finalizers": ["a/b"],
        });
        for mut object in [
            json!({"spec": "what"}),
            json!({"spec": null}),
            json!({"spec": []}),
            json!({}),
        ] {
            object["metadata"] = metadata.clone();
            let vm: KiteVirtualMachine = serde_json::from_value(object.clone()).unwrap();
            assert!(vm.spec.unreadable.is_some(), "{object}");
            assert!(vm.metadata.deletion_timestamp.is_some());
            assert_eq!(vm.metadata.finalizers.unwrap(), ["a/b"]);
            let user: KiteUser = serde_json::from_value(object.clone()).unwrap();
            assert!(user.spec.suspended && user.spec.unreadable.is_some());
            assert_eq!(user.spec.access_level, AccessLevel::ReadOnly);
            let image: KiteImage = serde_json::from_value(object.clone()).unwrap();
            assert!(image.spec.unreadable.is_some());
            let offer: KiteVirtualMachineOffer = serde_json::from_value(object).unwrap();
            assert!(offer.spec.unreadable.is_some() && offer.spec.user.is_some());
        }
    }

    #[test]
    fn an_account_that_may_be_suspended_is() {
        let read = |suspended: Value| -> KiteUserSpec {
            let spec = json!({"username": "ann", "suspended": suspended});
            serde_json::from_value(spec).unwrap()
        };
        assert!(!read(json!(false)).suspended);
        let doubtful = read(json!("perhaps"));
        assert!(doubtful.suspended && doubtful.unreadable.is_some());
    }

    /// A stand-in never gets into the cluster as if somebody had written it.
    #[test]
    fn that_something_cannot_be_read_is_not_written() {
        let spec = vm(|spec| spec["cpu"] = json!("a few"));
        let written = serde_json::to_value(&spec).unwrap();
        assert_eq!(written.get("unreadable"), None);
    }
}
