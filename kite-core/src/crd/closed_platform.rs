//! Settings of the platform that cannot be read: what stands for them keeps closed what
//! they may have closed. Their defaults would let in whom they kept out.

use super::{
    GatewayExposure, KitePlatformSpec, SecondFactorOf, SignUp, WebExposure, salvage::salvaged,
};

/// Of sessions and tokens while it cannot be read which epoch it is. None is of it, for
/// those of the definitions are not below zero.
const UNKNOWN_EPOCH: i64 = -1;
/// All networks there are.
const EVERYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];
/// No place that images come from.
const NOWHERE: [&str; 0] = [];
/// What is said of settings of which none can be read.
const ALL_OF_IT: &str = "all of it: ";

salvaged!(
    KitePlatformSpec,
    required: {},
    strict: {
        "signUp": "Closed",
        "signUpsPerDay": 0,
        // It is asked for where it was not, and who has none can set one up.
        "requireSecondFactor": "Everybody",
        "blockedNetworks": EVERYWHERE,
        "imageSources": NOWHERE,
        "sessionEpoch": UNKNOWN_EPOCH,
        "tokenEpoch": UNKNOWN_EPOCH,
        "web": {"enabled": false},
        "gateway": {"enabled": false}
    },
    whole: KitePlatformSpec::closed
);

impl KitePlatformSpec {
    /// What stands for settings of which, as `why` says, nothing can be read.
    pub fn closed(why: &str) -> Self {
        Self {
            sign_up: SignUp::Closed,
            sign_ups_per_day: Some(0),
            require_second_factor: SecondFactorOf::Everybody,
            blocked_networks: EVERYWHERE.map(str::to_owned).into(),
            image_sources: Some(Vec::new()),
            session_epoch: UNKNOWN_EPOCH,
            token_epoch: UNKNOWN_EPOCH,
            web: WebExposure {
                enabled: false,
                ..WebExposure::default()
            },
            gateway: GatewayExposure {
                enabled: false,
                ..GatewayExposure::default()
            },
            unreadable: Some(format!("{ALL_OF_IT}{why}")),
            ..Self::default()
        }
    }

    /// Whether a stand-in is in the place of the field `field`, such as `signUp`.
    pub fn is_unread(&self, field: &str) -> bool {
        self.unreadable.as_deref().is_some_and(|why| {
            why.starts_with(ALL_OF_IT) || why.contains(&format!("spec.{field}: "))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: Value) -> KitePlatformSpec {
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn what_can_be_read_holds_and_what_cannot_is_closed() {
        let sound = json!({
            "signUp": "Open", "requireSecondFactor": "Administrators", "sessionEpoch": 7,
            "blockedNetworks": ["198.51.100.0/24"], "baseDomain": "vm.example.org",
        });
        let before = read(sound.clone());
        assert_eq!(before.unreadable, None);
        assert!(!before.is_unread("signUp"));

        // A field that has nothing to do with who gets in.
        let mut odd = sound.clone();
        odd["storageClass"] = json!({"fast": true});
        let spec = read(odd);
        let why = spec.unreadable.clone().unwrap();
        assert!(why.contains("spec.storageClass"), "{why}");
        assert!(spec.is_unread("storageClass") && !spec.is_unread("signUp"));
        let but_that = KitePlatformSpec {
            unreadable: None,
            ..spec
        };
        assert_eq!(but_that, before);

        for (field, value) in [
            ("signUp", json!("Sometimes")),
            ("signUpsPerDay", json!("few")),
            ("requireSecondFactor", json!(["Everybody"])),
            ("blockedNetworks", json!("198.51.100.0/24")),
            ("sessionEpoch", json!("now")),
            ("tokenEpoch", json!({})),
            ("web", json!({"enabled": "perhaps"})),
            ("gateway", json!({"publicPort": 70_000})),
            ("signInProviders", json!([{"name": "staff"}])),
        ] {
            let mut odd = sound.clone();
            odd[field] = value;
            let spec = read(odd);
            assert!(spec.is_unread(field), "{field}: {:?}", spec.unreadable);
            assert_eq!(spec.base_domain, before.base_domain, "{field}");
            let closed = KitePlatformSpec::closed("");
            match field {
                "signUp" => assert_eq!(spec.sign_up, closed.sign_up),
                "signUpsPerDay" => assert_eq!(spec.sign_ups_per_day, closed.sign_ups_per_day),
                "requireSecondFactor" => {
                    assert_eq!(spec.require_second_factor, closed.require_second_factor);
                }
                "blockedNetworks" => assert_eq!(spec.blocked_networks, closed.blocked_networks),
                "sessionEpoch" => assert_eq!(spec.session_epoch, closed.session_epoch),
                "tokenEpoch" => assert_eq!(spec.token_epoch, closed.token_epoch),
                "web" => assert_eq!(spec.web, closed.web),
                "gateway" => assert_eq!(spec.gateway, closed.gateway),
                _ => assert!(spec.sign_in_providers.is_empty()),
            }
        }
    }

    #[test]
    fn where_nothing_can_be_read_all_is_closed() {
        for value in [json!(null), json!("what"), json!([])] {
            let spec = read(value);
            assert!(spec.is_unread("signUp") && spec.is_unread("baseDomain"));
            let why = spec.unreadable.clone().unwrap();
            let why = why.strip_prefix(ALL_OF_IT).unwrap();
            assert_eq!(spec, KitePlatformSpec::closed(why));
        }
        // Each field by itself as all together.
        let odd = json!({
            "signUp": 1, "signUpsPerDay": "", "requireSecondFactor": 1, "blockedNetworks": 1,
            "sessionEpoch": "", "tokenEpoch": "", "web": 1, "gateway": 1, "exposure": 1,
            "imageSources": 1,
        });
        let closed = KitePlatformSpec {
            unreadable: None,
            ..KitePlatformSpec::closed("")
        };
        let each = KitePlatformSpec {
            unreadable: None,
            ..read(odd)
        };
        assert_eq!(each, closed);
    }

    #[test]
    fn no_stand_in_is_an_epoch_that_somebody_can_have() {
        let epochs = [0, 1, i64::MAX];
        assert!(!epochs.contains(&KitePlatformSpec::closed("").session_epoch));
        assert_eq!(KitePlatformSpec::default().session_epoch, 0);
    }
}
