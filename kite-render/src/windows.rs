//! Guests of the family Windows: their hardware, and what Cloudbase-Init is told.
//!
//! The image must have Cloudbase-Init (1.1 or newer, with the plugins that it
//! comes with) and must have been generalised with Sysprep. `OpenSSH` Server is a
//! part of Windows: where the image lacks it, the guest fetches it from Windows
//! Update at its first boot.
//!
//! Cloudbase-Init takes a subset of cloud-init's `#cloud-config`, and carries it
//! out in the order in which it is written; commands go to `cmd.exe`.

use kite_core::{
    crd::OsFamily,
    kubevirt::{
        Bootloader, Domain, Efi, Empty, FeatureState, Features, Firmware, Hyperv, Input, Machine,
        Spinlocks, SyntheticTimer, Timer, Timers, Tpm, VmClock,
    },
};
use serde::{Deserialize, Serialize};

use crate::{RenderError, Vm, guest_file::File, keys::VmKeys};

/// A disk that every Windows has a driver for. Virtio would be faster, and does
/// not boot an image that lacks its drivers.
pub(crate) const DISK_BUS: &str = "sata";
/// A network card that every Windows has a driver for.
pub(crate) const NIC_MODEL: &str = "e1000e";

/// Most characters of a local account's name.
const LOGIN_MAX: usize = 20;
/// Accounts that every Windows has.
const BUILT_IN: &[&str] = &[
    "administrator",
    "defaultaccount",
    "defaultuser0",
    "guest",
    "none",
    "system",
    "wdagutilityaccount",
];

/// Where `OpenSSH` for Windows has its keys and settings.
const SSH: &str = r"C:\ProgramData\ssh";

/// The settings of sshd: one host key, the one that the gateway knows; keys only;
/// and administrators' keys where Windows wants them.
const SSHD_CONFIG: &str = "\
HostKey __PROGRAMDATA__/ssh/ssh_host_ed25519_key
PasswordAuthentication no
KbdInteractiveAuthentication no
Subsystem sftp sftp-server.exe
Match Group administrators
    AuthorizedKeysFile __PROGRAMDATA__/ssh/administrators_authorized_keys
";

/// Installs sshd where it is missing, and lets it start with Windows.
const INSTALL: &str = "\
powershell -NoProfile -NonInteractive -Command \"\
if (-not (Get-Service sshd -ErrorAction SilentlyContinue)) \
{ Add-WindowsCapability -Online -Name OpenSSH.Server~~~~0.0.1.0 }; \
Set-Service sshd -StartupType Automatic; Restart-Service sshd -Force\"";
/// Lets port 22 in: the rule that comes with sshd is not for public networks,
/// which is what Windows takes an unknown one for.
const OPEN_PORT: &str = "netsh advfirewall firewall add rule name=\"Kite SSH\" dir=in \
action=allow protocol=TCP localport=22";

/// User data for Cloudbase-Init. The order of the fields is the order in which
/// they are carried out.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct CloudbaseConfig {
    /// The guest's host name.
    pub set_hostname: String,
    /// Accounts.
    pub users: Vec<CloudbaseUser>,
    /// Files.
    pub write_files: Vec<File>,
    /// Commands for `cmd.exe`.
    pub runcmd: Vec<String>,
}

/// An account in a Windows guest. It gets a random password, which nobody knows.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct CloudbaseUser {
    /// Its name: the VM's `sshId`.
    pub name: String,
    /// For people.
    pub gecos: String,
    /// Local groups.
    pub groups: Vec<String>,
    /// Who may log in: the gateway.
    pub ssh_authorized_keys: Vec<String>,
}

/// The user data of a VM whose image is of the family Windows.
///
/// # Errors
/// [`RenderError::LoginName`] if the guest cannot have the user.
pub fn cloudbase_config(vm: &Vm<'_>, keys: &VmKeys) -> Result<CloudbaseConfig, RenderError> {
    let file = |name: &str, content: &str| File {
        path: format!(r"{SSH}\{name}"),
        permissions: "0600".to_owned(),
        content: content.to_owned(),
    };
    Ok(CloudbaseConfig {
        set_hostname: vm.name.to_owned(),
        users: vec![CloudbaseUser {
            name: login_name(vm)?.to_owned(),
            gecos: "Kite".to_owned(),
            groups: vec!["Administrators".to_owned()],
            ssh_authorized_keys: vec![keys.client_public.trim_end().to_owned()],
        }],
        write_files: vec![
            file("ssh_host_ed25519_key", &keys.host_private),
            file("ssh_host_ed25519_key.pub", &keys.host_public),
            file("sshd_config", SSHD_CONFIG),
        ],
        runcmd: vec![
            private("ssh_host_ed25519_key"),
            private("administrators_authorized_keys"),
            INSTALL.to_owned(),
            OPEN_PORT.to_owned(),
        ],
    })
}

/// Takes a file away from everybody but the system (S-1-5-18) and administrators
/// (S-1-5-32-544): sshd refuses one that others may read. Groups go by number,
/// for their names differ by language.
fn private(name: &str) -> String {
    format!(r#"icacls "{SSH}\{name}" /inheritance:r /grant *S-1-5-18:F /grant *S-1-5-32-544:F"#)
}

fn login_name<'a>(vm: &Vm<'a>) -> Result<&'a str, RenderError> {
    let ssh_id = vm.object.spec.ssh_id.as_str();
    let problem = if ssh_id.len() > LOGIN_MAX {
        "takes at most 20 characters"
    } else if BUILT_IN.contains(&ssh_id) {
        "has an account of this name already"
    } else {
        return Ok(ssh_id);
    };
    Err(RenderError::LoginName {
        os: OsFamily::Windows,
        ssh_id: ssh_id.to_owned(),
        problem,
    })
}

/// Gives a VM what Windows 11 asks for (UEFI with secure boot, a trusted platform
/// module) and what lets Windows run well on a hypervisor.
pub(crate) fn furnish(domain: &mut Domain) {
    let on = || {
        Some(FeatureState {
            enabled: Some(true),
        })
    };
    domain.machine = Some(Machine {
        type_: "q35".to_owned(),
    });
    domain.features = Some(Features {
        acpi: on(),
        apic: on(),
        smm: on(),
        hyperv: Some(Hyperv {
            relaxed: on(),
            vapic: on(),
            spinlocks: Some(Spinlocks {
                spinlocks: Some(8191),
            }),
            vpindex: on(),
            runtime: on(),
            synic: on(),
            synictimer: Some(SyntheticTimer { direct: on() }),
            tlbflush: on(),
            frequencies: on(),
            ipi: on(),
        }),
    });
    domain.firmware = Some(Firmware {
        uuid: None,
        bootloader: Some(Bootloader {
            efi: Some(Efi {
                secure_boot: Some(true),
                persistent: Some(true),
            }),
        }),
    });
    domain.clock = Some(clock());
    domain.devices.tpm = Some(Tpm {
        persistent: Some(true),
    });
    // A mouse would drift on a console: this one points at places.
    domain.devices.inputs = vec![Input {
        name: "tablet".to_owned(),
        type_: "tablet".to_owned(),
        bus: Some("usb".to_owned()),
    }];
}

fn clock() -> VmClock {
    let present = |present| Timer {
        present: Some(present),
        tick_policy: None,
    };
    let ticks = |policy: &str| Timer {
        present: None,
        tick_policy: Some(policy.to_owned()),
    };
    VmClock {
        utc: Some(Empty {}),
        timer: Some(Timers {
            hpet: Some(present(false)),
            hyperv: Some(present(true)),
            pit: Some(ticks("delay")),
            rtc: Some(ticks("catchup")),
        }),
    }
}
