//! What the SSH gateway's host key is known by, and whether it is the one that users were
//! told of. Pure.
//!
//! ```text
//! there is a key ► Kept ──── its Secret goes ───► Gone ─┐
//!                   ▲  └──── another is put there ──────┴► Changed ─┐
//!                   └─────────────── after a week ──────────────────┘
//! ```

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::Time};
use kite_core::{
    conditions::NewCondition,
    crd::{GatewayHostKey, KitePlatformStatus, platform_condition::GATEWAY_HOST_KEY_KEPT},
    names::{self, key_secret},
};
use russh::keys::{HashAlg, PublicKey};

use super::draft::PlatformDraft;
use crate::stage::Stage;

/// Goes by `host_key` and `now`.
pub(super) struct HostKeys;

impl Stage<PlatformDraft<'_>> for HostKeys {
    fn condition(&self, draft: &PlatformDraft<'_>) -> Option<NewCondition> {
        // Of a gateway that others expose, or nobody, nothing is said; what its key is, and
        // which it replaces, is told all the same.
        let is_exposed = draft.platform.object.spec.gateway.enabled;
        looked(draft).1.filter(|_| is_exposed)
    }

    fn report(&self, draft: &PlatformDraft<'_>, status: &mut KitePlatformStatus) {
        status.gateway_host_keys = looked(draft).0;
    }
}

fn looked(draft: &PlatformDraft<'_>) -> (Vec<GatewayHostKey>, Option<NewCondition>) {
    let (platform, seen) = (draft.platform, draft.seen);
    let told = platform.object.status.as_ref();
    let told = told.map_or(&[][..], |it| &it.gateway_host_keys);
    look(told, seen.host_key.as_ref(), platform.namespace, seen.now)
}

/// How long it is told that the key has changed: by then those who use it have met that.
const TOLD_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The host keys to tell, and what is said of them; `told` are those that were so far,
/// `secret` is where the key lies in `namespace`. What cannot be seen any more stays told: by
/// that it is known whether what comes is another.
fn look(
    told: &[GatewayHostKey],
    secret: Option<&Secret>,
    namespace: &str,
    now: Timestamp,
) -> (Vec<GatewayHostKey>, Option<NewCondition>) {
    let mut keys = host_keys(secret);
    let place = format!("Secret {namespace}/{}", names::GATEWAY_HOST_KEY_SECRET);
    let said = |holds, reason: &str, message: String| {
        NewCondition::new(GATEWAY_HOST_KEY_KEPT, holds, reason, message)
    };
    let said = match (told.first(), keys.first_mut()) {
        (None, None) => None,
        (Some(before), None) => {
            let (reason, what) = match secret {
                None => ("Gone", format!("{place} is gone")),
                Some(_) => (
                    "Unreadable",
                    format!(
                        "{place} has no public key under {:?}",
                        key_secret::HOST_PUBLIC
                    ),
                ),
            };
            let message = format!(
                "{what}, in which the gateway's host key was that users were told of ({}): put it \
                 back from a backup; a gateway that starts without it makes itself another, which \
                 users' clients take for an attack",
                before.fingerprint
            );
            keys = told.to_vec();
            Some(said(false, reason, message))
        }
        (before, Some(key)) => {
            remember(before, key, now);
            Some(match &key.replaces {
                None => {
                    let kept = "the gateway's host key is the one that users were told of";
                    said(true, "Kept", kept.to_owned())
                }
                Some(before) => {
                    let message = format!(
                        "the gateway's host key is {}, and users were told {before} before, so \
                         that their clients refuse it: put the former key back into {place} if \
                         nobody meant to change it, or tell them; and restart all gateways, \
                         which read it when they start",
                        key.fingerprint
                    );
                    said(false, "Changed", message)
                }
            })
        }
    };
    (keys, said)
}

/// Has `key` say what it replaces, if users were told of another `before`.
fn remember(before: Option<&GatewayHostKey>, key: &mut GatewayHostKey, now: Timestamp) {
    let Some(before) = before else { return };
    if before.public_key != key.public_key {
        key.replaces = Some(before.fingerprint.clone());
        // No finer than other times of the API.
        key.replaced_at = Timestamp::from_second(now.as_second()).ok().map(Time);
        return;
    }
    let since = before.replaced_at.as_ref();
    let until = since.and_then(|since| since.0.checked_add(TOLD_FOR).ok());
    if until.is_some_and(|until| now < until) {
        key.replaces.clone_from(&before.replaces);
        key.replaced_at.clone_from(&before.replaced_at);
    }
}

/// The public half of the host key in `secret`. One that cannot be read is none: the
/// gateway says what is wrong with it.
fn host_keys(secret: Option<&Secret>) -> Vec<GatewayHostKey> {
    let data = secret.and_then(|secret| secret.data.as_ref());
    let line = data.and_then(|data| data.get(key_secret::HOST_PUBLIC));
    let line = line.and_then(|line| std::str::from_utf8(&line.0).ok());
    let key = line.and_then(|line| PublicKey::from_openssh(line.trim()).ok());
    let known_by = |mut key: PublicKey| {
        // Whoever made it wrote where; that is nobody else's concern.
        key.set_comment("");
        Some(GatewayHostKey {
            fingerprint: key.fingerprint(HashAlg::Sha256).to_string(),
            public_key: key.to_openssh().ok()?.trim().to_owned(),
            replaces: None,
            replaced_at: None,
        })
    };
    key.and_then(known_by).into_iter().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use k8s_openapi::ByteString;

    use super::*;

    fn secret(line: &str) -> Secret {
        let line = ByteString(line.as_bytes().to_vec());
        Secret {
            data: Some([(key_secret::HOST_PUBLIC.to_owned(), line)].into()),
            ..Secret::default()
        }
    }

    #[test]
    fn a_key_is_shown_as_ssh_shows_it() {
        let key =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";
        let found = host_keys(Some(&secret(&format!("{key} root@build-7\n"))));
        // What `ssh-keygen -l` says of it.
        let fingerprint = "SHA256:UCUiLr7Pjs9wFFJMDByLgc3NrtdU344OgUM45wZPcIQ";
        assert_eq!(
            found,
            [GatewayHostKey {
                public_key: key.to_owned(),
                fingerprint: fingerprint.to_owned(),
                replaces: None,
                replaced_at: None,
            }]
        );
    }

    const KEYS: [&str; 2] = [
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ",
    ];

    type Told = Vec<GatewayHostKey>;

    /// What is told with this line in the Secret, or without it, when `told` was before.
    fn after(told: &Told, line: Option<&str>, now: &str) -> (Told, String, String) {
        let secret = line.map(secret);
        let (keys, said) = look(told, secret.as_ref(), "kite", now.parse().unwrap());
        let said = said.unwrap();
        (keys, said.reason.clone(), said.message)
    }

    #[test]
    fn a_key_that_goes_or_changes_is_told_of() {
        let [old, new] = KEYS;
        let none = look(&[], None, "kite", Timestamp::UNIX_EPOCH);
        assert_eq!(none, (Vec::new(), None), "the gateway has not started yet");
        let (told, reason, _) = after(&Vec::new(), Some(old), "2026-05-04T08:00:00Z");
        assert_eq!(reason, "Kept");
        let known = told[0].fingerprint.clone();
        let (unreadable, reason, _) = after(&told, Some("ssh-ed25519 AA"), "2026-05-04T09:00:00Z");
        assert_eq!((&unreadable, &*reason), (&told, "Unreadable"));
        // However long it is gone.
        let (gone, reason, message) = after(&told, None, "2026-05-04T09:00:00Z");
        assert_eq!((&gone, &*reason), (&told, "Gone"));
        assert!(message.contains(&known) && message.contains("kite/kite-gateway-host-key"));
        let (back, reason, _) = after(&gone, Some(old), "2026-05-04T10:00:00Z");
        assert_eq!(
            (&back, &*reason),
            (&told, "Kept"),
            "it was put back, as it was"
        );

        let (changed, reason, message) = after(&gone, Some(new), "2026-06-04T11:00:00.5Z");
        assert_eq!(reason, "Changed");
        assert!(message.contains(&known) && message.contains(&changed[0].fingerprint));
        let same = after(&changed, Some(new), "2026-06-11T10:59:59Z");
        assert_eq!(same, (changed.clone(), reason, message));
        let (settled, reason, _) = after(&changed, Some(new), "2026-06-11T11:00:00Z");
        assert_eq!(reason, "Kept", "it is known by now");
        assert_eq!(settled[0].replaces, None);
        // Who was told the other meets that, from then on.
        let (again, reason, _) = after(&changed, Some(old), "2026-06-11T10:00:00Z");
        assert_eq!(reason, "Changed");
        let (_, reason, _) = after(&again, Some(old), "2026-06-18T09:59:59Z");
        assert_eq!(reason, "Changed");
    }

    #[test]
    fn what_is_no_key_is_not_shown() {
        assert!(host_keys(None).is_empty());
        assert!(host_keys(Some(&Secret::default())).is_empty());
        assert!(host_keys(Some(&secret("ssh-ed25519 AAAA"))).is_empty());
    }
}
