//! How the objects that Kite makes are called. Names are a function of the
//! owner's name, so that every writer and reader computes the same one.
//!
//! The longest derived name that must be a DNS label (63 characters) is
//! `vps-access-<vm>`, hence [`VM_NAME_MAX`]; for users it is the namespace,
//! hence [`USER_NAME_MAX`]. The CRDs refuse longer names.

use sha2::{Digest as _, Sha256};

use crate::password::PasswordHash;

/// Namespace in which the platform's own objects live.
pub const PLATFORM_NAMESPACE: &str = "kite";
/// Name of the one `KitePlatform`.
pub const PLATFORM: &str = "default";
/// Ingress, or `HTTPRoute`, through which the web page and the API are reached.
pub const PLATFORM_WEB: &str = "kite-platform";
/// `HTTPRoute` that sends requests for [`PLATFORM_WEB`] from HTTP to HTTPS.
pub const PLATFORM_REDIRECT: &str = "kite-platform-redirect";
/// Secret into which cert-manager puts the certificate of [`PLATFORM_WEB`].
pub const PLATFORM_CERTIFICATE: &str = "kite-platform-tls";
/// Secret with the certificate of [`PLATFORM_WEB`] that an administrator put in over
/// HTTP. It is in the platform namespace alone: VMs do not get it.
pub const UPLOADED_CERTIFICATE: &str = "kite-certificate";
/// Service of the SSH gateway towards the outside.
pub const GATEWAY_EXTERNAL_SERVICE: &str = "kite-gateway-external";
/// Value of the pod label `app.kubernetes.io/name` of the SSH gateway.
pub const GATEWAY_APP: &str = "kite-gateway";
/// Port on which the SSH gateway's pods listen.
pub const GATEWAY_PORT: u16 = 2222;
/// Service of the HTTP API and web page, and value of its pods' label
/// `app.kubernetes.io/name`.
pub const API_SERVICE: &str = "kite-api";
/// Port of [`API_SERVICE`], on which its pods listen too.
pub const API_PORT: u16 = 8080;
/// `ServiceAccount` of the controller.
pub const CONTROLLER_ACCOUNT: &str = "kite-controller";
/// Default namespace of golden images.
pub const IMAGE_NAMESPACE: &str = "kite-images";
/// `StorageClass` of VM disks unless the platform names another.
pub const STORAGE_CLASS: &str = "kite-vm-storage";
/// Secret with the gateway's host key, in the platform namespace.
pub const GATEWAY_HOST_KEY_SECRET: &str = "kite-gateway-host-key";
/// Secret with the token by which the gateway's live sessions are asked for; whoever
/// runs Kite makes it.
pub const GATEWAY_SESSIONS_SECRET: &str = "kite-gateway-sessions";
/// Key of the token in [`GATEWAY_SESSIONS_SECRET`].
pub const GATEWAY_SESSIONS_KEY: &str = "token";
/// Type of a Secret with a certificate and its key.
pub const TLS_SECRET_TYPE: &str = "kubernetes.io/tls";
/// Secret with the one-use token that makes the first administrator.
pub const BOOTSTRAP_SECRET: &str = "kite-bootstrap";
/// Key of the token in [`BOOTSTRAP_SECRET`].
pub const BOOTSTRAP_TOKEN_KEY: &str = "token";

/// Secret with the key by which the API seals what is in objects.
pub const SEAL_SECRET: &str = "kite-seal";

/// Secret with the secrets by which Kite is known to OpenID Connect providers.
pub const OIDC_SECRET: &str = "kite-oidc";

/// The key of that Secret that names the issuer for which the client secret under `key` is.
pub fn issuer_key(key: &str) -> String {
    format!("{key}.issuer")
}

/// Most characters of a `KiteVirtualMachine`'s name.
pub const VM_NAME_MAX: usize = 52;
/// Most characters of a `KiteSnapshot`'s name: label values have as many.
pub const SNAPSHOT_NAME_MAX: usize = 63;
/// Most characters of a `KiteVolume`'s name.
pub const VOLUME_NAME_MAX: usize = 52;
/// Most characters of a `KiteUser`'s name.
pub const USER_NAME_MAX: usize = 53;

/// Keys in a VM's key Secret.
pub mod key_secret {
    /// The private key with which the gateway enters the VM (OpenSSH format).
    pub const CLIENT_PRIVATE: &str = "id_ed25519";
    /// Its public half, one `authorized_keys` line.
    pub const CLIENT_PUBLIC: &str = "id_ed25519.pub";
    /// The VM's own SSH host key (OpenSSH format), put in by cloud-init.
    pub const HOST_PRIVATE: &str = "ssh_host_ed25519_key";
    /// Its public half, by which the gateway knows the VM.
    pub const HOST_PUBLIC: &str = "ssh_host_ed25519_key.pub";
}

/// Namespace of the user `user`.
pub fn user_namespace(user: &str) -> String {
    format!("kite-user-{user}")
}

/// The user whose namespace this is, if it is one.
pub fn user_of_namespace(namespace: &str) -> Option<&str> {
    namespace
        .strip_prefix("kite-user-")
        .filter(|u| !u.is_empty())
}

/// `DataVolume` (and PVC) of a VM's root disk.
pub fn disk(vm: &str) -> String {
    format!("{vm}-disk")
}

/// `DataVolume` (and PVC) of the VM's disk of this number: each restore makes another one.
/// The first is [`disk`]'s.
///
/// ```
/// use kite_core::names;
///
/// assert_eq!(names::disk_of("web", 1), "web-disk");
/// assert_eq!(names::disk_of("web", 2), "web-disk-2");
/// assert_eq!(names::number_of_disk("web", "web-disk-2"), Some(2));
/// assert_eq!(names::number_of_disk("web", "web-disk-02"), None);
/// ```
pub fn disk_of(vm: &str, number: u32) -> String {
    match number {
        0 | 1 => disk(vm),
        number => format!("{vm}-disk-{number}"),
    }
}

/// The number of the VM's disk of this name, if a disk of the VM's could have it.
pub fn number_of_disk(vm: &str, name: &str) -> Option<u32> {
    let rest = name.strip_prefix(vm)?.strip_prefix("-disk")?;
    let number = match rest.strip_prefix('-') {
        Some(number) => number.parse().ok()?,
        None => 1,
    };
    (disk_of(vm, number) == name).then_some(number)
}

/// `DataVolume` (and PVC) of a volume. No disk of a VM is called so: see [`disk_of`].
pub fn volume_disk(volume: &str) -> String {
    format!("{volume}-volume")
}

/// The volume whose disk has this name, if it is a volume's.
pub fn volume_of_disk(disk: &str) -> Option<&str> {
    disk.strip_suffix("-volume").filter(|it| !it.is_empty())
}

/// By what a guest knows a volume's disk: of the 20 characters that virtio lets through.
pub fn volume_serial(namespace: &str, volume: &str) -> String {
    let hash = Sha256::digest(format!("{namespace}/{volume}").as_bytes());
    hex(&hash[..8])
}

/// Secret with the key pairs of a VM, see [`key_secret`].
pub fn ssh_key_secret(vm: &str) -> String {
    format!("{vm}-ssh-key")
}

/// Secret with a VM's cloud-init user data under the key `userdata`.
pub fn cloud_init_secret(vm: &str) -> String {
    format!("{vm}-cloud-init-userdata")
}

/// Lease that says when a VM was last used, see [`activity`](super::activity).
pub fn activity_lease(vm: &str) -> String {
    format!("{vm}-activity")
}

/// How the names of Leases end by which guests are frozen.
pub const FREEZE_LEASE: &str = "-freeze";

/// Lease of the snapshot that alone may have a VM's guest frozen.
pub fn freeze_lease(vm: &str) -> String {
    format!("{vm}{FREEZE_LEASE}")
}

/// Name of the `KiteConnection` with this number in the process with this id, see
/// [`connections`](super::connections).
pub fn connection(instance: &str, number: i64) -> String {
    format!("c-{instance}-{number}")
}

/// Lease by which the process with this id shows that it is there.
pub fn heartbeat(instance: &str) -> String {
    format!("kite-heartbeat-{instance}")
}

/// Secret in which cert-manager puts the certificate of a VM's domain.
pub fn certificate_secret(vm: &str) -> String {
    format!("{vm}-tls")
}

/// Service through which the gateway reaches a VM's port 22.
pub fn access_service(vm: &str) -> String {
    format!("vps-access-{vm}")
}

/// Service behind a VM's domain, port 80.
pub fn web_service(vm: &str) -> String {
    format!("vps-web-{vm}")
}

/// A login name for the VM `name` in `namespace` that no other has by this function: for who
/// makes VMs and has no login names of their own to give. It begins like the VM's name, and is
/// always the same.
///
/// ```
/// # use kite_core::names::unique_ssh_id;
/// assert_eq!(unique_ssh_id("team-a", "web"), "web-a6d68893");
/// assert_ne!(unique_ssh_id("team-a", "web"), unique_ssh_id("team-b", "web"));
/// ```
pub fn unique_ssh_id(namespace: &str, name: &str) -> String {
    /// Of the 32 characters that a login name may have, without those of the hash.
    const BEGINNING: usize = 23;
    let hash = Sha256::digest(format!("{namespace}/{name}").as_bytes());
    let known = |it: &char| it.is_ascii_lowercase() || it.is_ascii_digit() || *it == '-';
    let begins = name.chars().filter(known);
    let begins: String = begins
        .skip_while(|it| !it.is_ascii_lowercase())
        .take(BEGINNING)
        .collect();
    let begins = begins.trim_end_matches('-');
    let begins = if begins.is_empty() { "vm" } else { begins };
    format!("{begins}-{}", hex(&hash[..4]))
}

/// Reservation of a login name at the gateway.
pub fn ssh_id_reservation(ssh_id: &str) -> String {
    format!("ssh-id.{ssh_id}")
}

/// Reservation of a label below the platform's base domain.
pub fn domain_reservation(prefix: &str) -> String {
    format!("domain.{prefix}")
}

/// Reservation of an offer by the VM that is made from it.
pub fn offer_reservation(offer: &str) -> String {
    format!("offer.{offer}")
}

/// Reservation of a volume by the VM that has it.
pub fn volume_reservation(namespace: &str, volume: &str) -> String {
    format!("volume.{namespace}.{volume}")
}

/// The login name, the domain's label, the offer or the volume that a reservation of this name
/// stands for; none for other reservations.
pub fn vm_claim_of_reservation(reservation: &str) -> Option<VmClaim<'_>> {
    let ssh_id = reservation.strip_prefix("ssh-id.").map(VmClaim::SshId);
    let domain = || reservation.strip_prefix("domain.").map(VmClaim::Domain);
    let offer = || reservation.strip_prefix("offer.").map(VmClaim::Offer);
    let volume = || {
        let (namespace, volume) = reservation.strip_prefix("volume.")?.split_once('.')?;
        Some(VmClaim::Volume { namespace, volume })
    };
    ssh_id.or_else(domain).or_else(offer).or_else(volume)
}

/// What a VM can claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmClaim<'a> {
    /// This login name.
    SshId(&'a str),
    /// This label below the base domain.
    Domain(&'a str),
    /// This offer.
    Offer(&'a str),
    /// This volume.
    Volume {
        /// Its namespace.
        namespace: &'a str,
        /// Its name.
        volume: &'a str,
    },
}

/// Reservation of a username.
pub fn username_reservation(username: &str) -> String {
    format!("username.{username}")
}

/// Reservation of an email address. Addresses are compared without regard to
/// case and hold characters that object names may not, so the name has a hash.
pub fn email_reservation(email: &str) -> String {
    format!(
        "email.{}",
        hex(&Sha256::digest(email.trim().to_lowercase().as_bytes())[..20])
    )
}

/// What stands for the `subject` of an OpenID Connect `issuer` where a name is needed.
/// An issuer has no line breaks, so no two pairs run together.
pub(crate) fn identity(issuer: &str, subject: &str) -> String {
    hex(&Sha256::digest(format!("{issuer}\n{subject}").as_bytes())[..20])
}

/// Fingerprint of a password hash: the name of its `KitePassword`, by which a session
/// tells, too, whether the password is still the one with which it began. The hash is
/// salted, so it says nothing of it.
pub fn credential(hash: &PasswordHash) -> String {
    hex(&Sha256::digest(hash.as_str().as_bytes())[..16])
}

/// The same where another account has the very same hash, written there by hand: of a
/// `KitePassword` there can be one of a name.
pub fn credential_of(user: &str, hash: &PasswordHash) -> String {
    let text = format!("{user}\n{}", hash.as_str());
    hex(&Sha256::digest(text.as_bytes())[..16])
}

/// Name of the `KiteSession` that an opaque token opens, or that the first half of
/// a browser's tokens leads to.
pub fn session(token: &str) -> String {
    format!("s-{}", hex(&Sha256::digest(token.as_bytes())[..28]))
}

/// First half of the API token that a user calls `name`: with it the API server lets
/// each user have one of a name.
pub fn token_id(user_uid: &str, name: &str) -> [u8; 16] {
    let digest = Sha256::digest(format!("{user_uid}/{name}").as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    id
}

/// Name of the `KiteToken` to which the first half of an API token leads.
pub fn token(id: &[u8; 16]) -> String {
    format!("t-{}", hex(id))
}

/// Name of the `KiteInvite` to which the first half of an invite's token leads.
pub fn invite(id: &[u8; 16]) -> String {
    format!("i-{}", hex(id))
}

/// Name of the migration by which an instance is tried to be given `change` for the time of
/// this number, beginning with 1: whoever makes one for the same makes the same, and what is
/// left of the last one says how many there were.
pub fn resize_migration(instance_uid: &str, change: &str, number: u32) -> String {
    let text = format!("{instance_uid}\n{change}");
    let change = hex(&Sha256::digest(text.as_bytes())[..8]);
    format!("kite-resize-{change}-{number}")
}

/// What all of those for one instance and change have in common.
pub fn change_of_resize(migration: &str) -> &str {
    migration.rsplit_once('-').map_or(migration, |(of, _)| of)
}

/// What is stored of a token or code that was drawn at random: nobody finds it
/// again from this.
pub fn fingerprint(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        })
}

/// Whether `text` can be the name of a namespace: a DNS label in lower case.
pub fn is_label(text: &str) -> bool {
    let inner = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
    (1..=63).contains(&text.len())
        && text.chars().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether `text` can be the name of most other objects, or a domain in lower case: labels
/// with dots between them.
pub fn is_subdomain(text: &str) -> bool {
    let inner = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
    let is_part = |it: &str| {
        !it.is_empty() && it.chars().all(inner) && !it.starts_with('-') && !it.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

/// Whether `text` can be what people connect to: a name or an address.
pub fn is_host(text: &str) -> bool {
    let inner = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '.';
    let is_end = |it: Option<char>| it.is_some_and(|it| it.is_ascii_alphanumeric());
    let is_name =
        text.chars().all(inner) && is_end(text.chars().next()) && is_end(text.chars().next_back());
    text.len() <= 253 && (is_name || text.parse::<std::net::Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn login_names_that_are_made_are_ones_and_differ() {
        let long = "a-very-long-name-of-a-machine-that-somebody-has-chosen";
        let names = ["web", "1st", "a", "99", "-", "Web.1", "web-", long];
        let made = ["dev", "team-b"].map(|namespace| names.map(|it| unique_ssh_id(namespace, it)));
        let made: Vec<_> = made.into_iter().flatten().collect();
        for id in &made {
            assert!((2..=32).contains(&id.len()), "{id}");
            assert!(id.starts_with(|it: char| it.is_ascii_lowercase()), "{id}");
            assert!(id.ends_with(|it: char| it.is_ascii_alphanumeric()), "{id}");
            let is_known = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
            assert!(id.chars().all(is_known), "{id}");
        }
        let different: std::collections::BTreeSet<_> = made.iter().collect();
        assert_eq!(different.len(), made.len());
    }

    #[test]
    fn names_are_judged_as_the_crds_do() {
        for (text, label, subdomain, host) in [
            ("kite", true, true, true),
            ("a-1", true, true, true),
            ("vm.example.org", false, true, true),
            ("SSH.example.org", false, false, true),
            ("192.0.2.1", false, true, true),
            ("2001:db8::1", false, false, true),
            ("", false, false, false),
            ("a b", false, false, false),
            ("-a", false, false, false),
            ("a-", false, false, false),
            ("a..b", false, false, true),
            (".a", false, false, false),
            ("not a domain!", false, false, false),
            ("a_b", false, false, false),
            ("ssh.example.org:22", false, false, false),
        ] {
            assert_eq!(
                (is_label(text), is_subdomain(text), is_host(text)),
                (label, subdomain, host),
                "{text:?}"
            );
        }
        assert!(is_label(&"a".repeat(63)) && !is_label(&"a".repeat(64)));
        assert!(is_subdomain(&"a".repeat(253)) && !is_subdomain(&"a".repeat(254)));
    }

    #[test]
    fn the_longest_names_still_fit_a_dns_label() {
        assert!(access_service(&"v".repeat(VM_NAME_MAX)).len() <= 63);
        assert!(user_namespace(&"u".repeat(USER_NAME_MAX)).len() <= 63);
        assert!(session("token").len() <= 63);
    }

    #[test]
    fn a_user_namespace_leads_back_to_its_user() {
        assert_eq!(user_of_namespace(&user_namespace("ann")), Some("ann"));
        assert_eq!(user_of_namespace("kite-user-"), None);
        assert_eq!(user_of_namespace("kube-system"), None);
    }

    #[test]
    fn a_reservation_leads_back_to_what_a_vm_claims() {
        let claim = |name: String| vm_claim_of_reservation(&name).map(|it| format!("{it:?}"));
        assert_eq!(claim(ssh_id_reservation("a")).unwrap(), "SshId(\"a\")");
        assert_eq!(claim(domain_reservation("a")).unwrap(), "Domain(\"a\")");
        assert_eq!(claim(username_reservation("a")), None);
    }

    #[test]
    fn email_reservations_ignore_case_and_surrounding_space() {
        assert_eq!(
            email_reservation("Ann@Example.org "),
            email_reservation("ann@example.org")
        );
        assert_ne!(
            email_reservation("ann@example.org"),
            email_reservation("bob@example.org")
        );
    }
}
