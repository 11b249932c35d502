//! What a guest is told at its first boot, as cloud-init user data.
//!
//! The user data is built from typed values and written by a YAML serialiser,
//! never by putting texts together: whatever a field holds, it stays a value of
//! that field.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kite_core::{crd::OsFamily, names};
use serde::{Deserialize, Serialize};

pub use crate::guest_file::File;
use crate::{RenderError, Vm, keys::VmKeys, volume, windows};

/// Key of the user data in its Secret, as `KubeVirt` reads it.
pub const USER_DATA: &str = "userdata";
/// First line by which cloud-init knows the format.
const HEADER: &str = "#cloud-config\n";

/// Where the drop-in for the guest's sshd is put first.
const DROP_IN_CANDIDATE: &str = "/etc/kite/sshd-gateway.conf";
/// Takes the drop-in over if this sshd understands it. All logins come from the
/// gateway's address, so a stranger's failures would otherwise lock everybody
/// out (`PerSourcePenalties`, since OpenSSH 9.8); an sshd that does not know the
/// option would refuse to start with it.
const DROP_IN_SCRIPT: &str = "\
d=/etc/ssh/sshd_config.d/10-kite-gateway.conf; \
mkdir -p /etc/ssh/sshd_config.d && cp /etc/kite/sshd-gateway.conf \"$d\" || exit 0; \
if \"$(command -v sshd || echo /usr/sbin/sshd)\" -t; \
then (systemctl reload-or-restart ssh || systemctl reload-or-restart sshd || rc-service sshd restart) 2>/dev/null || true; \
else rm -f \"$d\"; fi";
/// Nobody but the gateway reaches port 22 (see [`crate::isolation`]), so every
/// source is the gateway.
const DROP_IN: &str = "PerSourcePenaltyExemptList 0.0.0.0/0,::/0\n";

/// Once for each machine that a disk is given to: a copy has the machine-id of the guest that
/// it was taken of, by which DHCP servers and journals would take both for one.
const FORGET_MACHINE_ID: [&str; 6] = [
    "cloud-init-per",
    "instance",
    "kite-machine-id",
    "sh",
    "-c",
    "\
rm -f /etc/machine-id /var/lib/dbus/machine-id; \
systemd-machine-id-setup 2>/dev/null || dbus-uuidgen --ensure=/etc/machine-id 2>/dev/null || true; \
if [ -d /var/lib/dbus ] && [ -e /etc/machine-id ]; \
then ln -sf /etc/machine-id /var/lib/dbus/machine-id; fi",
];

/// User data in cloud-init's `#cloud-config` format: the part that Kite uses.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct CloudConfig {
    /// The guest's host name.
    pub hostname: String,
    /// Whether sshd takes passwords.
    pub ssh_pwauth: bool,
    /// Whether root's authorized keys only say to use another account.
    pub disable_root: bool,
    /// Whether host keys that the image came with are removed.
    pub ssh_deletekeys: bool,
    /// Kinds of host keys to generate: only the one that is given.
    pub ssh_genkeytypes: Vec<String>,
    /// The guest's host key.
    pub ssh_keys: HostKeys,
    /// Commands early at each boot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bootcmd: Vec<Vec<String>>,
    /// Accounts. `default` is not among them, so the image's own is not made.
    pub users: Vec<Account>,
    /// Files.
    pub write_files: Vec<File>,
    /// Commands at the end of the first boot.
    pub runcmd: Vec<Vec<String>>,
}

/// A host key pair.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq)]
pub struct HostKeys {
    /// In OpenSSH format.
    pub ed25519_private: String,
    /// One `authorized_keys` line.
    pub ed25519_public: String,
}

impl std::fmt::Debug for HostKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostKeys")
            .field("ed25519_public", &self.ed25519_public)
            .finish_non_exhaustive()
    }
}

/// An account in the guest.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name: the VM's `sshId`.
    pub name: String,
    /// For people.
    pub gecos: String,
    /// Supplementary groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Login shell.
    pub shell: String,
    /// Whether its password is locked. An sshd without PAM refuses locked
    /// accounts whatever their keys, so there `hashed_passwd` does it.
    pub lock_passwd: bool,
    /// A hash that no password has, instead of a lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hashed_passwd: Option<String>,
    /// Rules for sudo.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sudo: Vec<String>,
    /// Rules for doas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doas: Vec<String>,
    /// Who may log in: the gateway.
    pub ssh_authorized_keys: Vec<String>,
}

/// The user data of a VM whose image is of the family `os`: any but Windows, for
/// which there is [`windows::cloudbase_config`].
///
/// # Errors
/// [`RenderError::NotCloudInit`] for Windows, [`RenderError::LoginName`] if the guest cannot
/// have the user.
pub fn cloud_config(vm: &Vm<'_>, keys: &VmKeys, os: OsFamily) -> Result<CloudConfig, RenderError> {
    Ok(CloudConfig {
        hostname: vm.name.to_owned(),
        ssh_pwauth: false,
        disable_root: true,
        ssh_deletekeys: true,
        ssh_genkeytypes: vec!["ed25519".to_owned()],
        ssh_keys: HostKeys {
            ed25519_private: keys.host_private.clone(),
            ed25519_public: keys.host_public.trim_end().to_owned(),
        },
        bootcmd: {
            let is_copy = vm.object.spec.from_snapshot.is_some();
            let forget = is_copy.then(|| words(&FORGET_MACHINE_ID));
            forget.into_iter().chain(volume::mounts(vm)).collect()
        },
        users: vec![account(vm, keys, os)?],
        write_files: vec![File {
            path: DROP_IN_CANDIDATE.to_owned(),
            permissions: "0644".to_owned(),
            content: DROP_IN.to_owned(),
        }],
        runcmd: vec![words(&["sh", "-c", DROP_IN_SCRIPT])],
    })
}

fn words(of: &[&str]) -> Vec<String> {
    of.iter().map(|&it| it.to_owned()).collect()
}

fn account(vm: &Vm<'_>, keys: &VmKeys, os: OsFamily) -> Result<Account, RenderError> {
    let all_by_sudo = "ALL=(ALL) NOPASSWD:ALL";
    let ssh_id = &vm.object.spec.ssh_id;
    let (group, shell, sudo, doas) = match os {
        OsFamily::Debian => (Some("sudo"), "/bin/bash", Some(all_by_sudo), None),
        OsFamily::RedHat | OsFamily::Arch => (Some("wheel"), "/bin/bash", Some(all_by_sudo), None),
        // SUSE has no group for administrators by default.
        OsFamily::Suse => (None, "/bin/bash", Some(all_by_sudo), None),
        OsFamily::Alpine => (
            Some("wheel"),
            "/bin/ash",
            None,
            Some(format!("permit nopass {ssh_id}")),
        ),
        // See [`crate::windows`].
        OsFamily::Windows => return Err(RenderError::NotCloudInit(os)),
    };
    Ok(Account {
        name: ssh_id.clone(),
        gecos: "Kite".to_owned(),
        groups: group.map(str::to_owned).into_iter().collect(),
        shell: shell.to_owned(),
        lock_passwd: os != OsFamily::Alpine,
        hashed_passwd: (os == OsFamily::Alpine).then(|| "*".to_owned()),
        sudo: sudo.map(str::to_owned).into_iter().collect(),
        doas: doas.into_iter().collect(),
        ssh_authorized_keys: vec![keys.client_public.trim_end().to_owned()],
    })
}

/// The Secret with the user data of a VM. A Secret, because it holds the host
/// key, and because `KubeVirt` takes at most 2,048 bytes inline.
///
/// # Errors
/// [`RenderError::LoginName`] if the guest cannot have the user.
pub fn secret(vm: &Vm<'_>, keys: &VmKeys, os: OsFamily) -> Result<Secret, RenderError> {
    let user_data = match os {
        OsFamily::Windows => to_user_data(&windows::cloudbase_config(vm, keys)?)?,
        _ => to_user_data(&cloud_config(vm, keys, os)?)?,
    };
    Ok(Secret {
        metadata: vm.metadata(names::cloud_init_secret(vm.name)),
        data: Some(BTreeMap::from([(
            USER_DATA.to_owned(),
            ByteString(user_data.into_bytes()),
        )])),
        ..Secret::default()
    })
}

fn to_user_data(config: &impl Serialize) -> Result<String, RenderError> {
    let yaml =
        serde_saphyr::to_string(config).map_err(|error| RenderError::Yaml(error.to_string()))?;
    Ok(format!("{HEADER}{yaml}"))
}
