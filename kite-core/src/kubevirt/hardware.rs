//! The parts of a VM's hardware that Windows guests need and others leave to
//! `KubeVirt`'s defaults.

use serde::{Deserialize, Serialize};

/// A switch; on unless it says otherwise.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeatureState {
    /// Whether it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Features of the virtual machine that guests see.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// ACPI, by which a guest is told to shut down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acpi: Option<FeatureState>,
    /// The local interrupt controllers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apic: Option<FeatureState>,
    /// System management mode, which secure boot needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smm: Option<FeatureState>,
    /// What a guest that knows Hyper-V makes use of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hyperv: Option<Hyperv>,
}

/// Hyper-V enlightenments: what a guest may ask the hypervisor instead of
/// emulated hardware.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Hyperv {
    /// No watchdog time-outs on a busy host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relaxed: Option<FeatureState>,
    /// A paravirtual interrupt controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vapic: Option<FeatureState>,
    /// How often to spin before giving way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spinlocks: Option<Spinlocks>,
    /// Numbers of virtual processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vpindex: Option<FeatureState>,
    /// How long a virtual processor ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<FeatureState>,
    /// The synthetic interrupt controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synic: Option<FeatureState>,
    /// Timers on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synictimer: Option<SyntheticTimer>,
    /// Flushes of other processors' address caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tlbflush: Option<FeatureState>,
    /// The frequencies of its clocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequencies: Option<FeatureState>,
    /// Interrupts between processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipi: Option<FeatureState>,
}

/// Spinlocks of Hyper-V.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spinlocks {
    /// How often to try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spinlocks: Option<u32>,
}

/// Synthetic timers of Hyper-V.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyntheticTimer {
    /// Whether they raise interrupts rather than send messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<FeatureState>,
}

/// Firmware of a VM.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Firmware {
    /// By which the guest knows the machine that it runs on, and cloud-init whether it has run
    /// there; `KubeVirt` makes one up where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// What boots the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootloader: Option<Bootloader>,
}

/// What boots a guest.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Bootloader {
    /// UEFI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efi: Option<Efi>,
}

/// UEFI firmware.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Efi {
    /// Whether only signed code boots; needs system management mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_boot: Option<bool>,
    /// Whether its variables outlast the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent: Option<bool>,
}

/// A trusted platform module.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tpm {
    /// Whether its state outlasts the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent: Option<bool>,
}

/// The clock of a VM.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct VmClock {
    /// It counts in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utc: Option<super::Empty>,
    /// What time is measured with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<Timers>,
}

/// Timers of a VM.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// The high precision event timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpet: Option<Timer>,
    /// Hyper-V's reference time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hyperv: Option<Timer>,
    /// The interval timer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pit: Option<Timer>,
    /// The real-time clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtc: Option<Timer>,
}

/// A timer of a VM.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Timer {
    /// Whether it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<bool>,
    /// What becomes of ticks that were missed: `delay`, `catchup`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick_policy: Option<String>,
}

/// A device to point or type with.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// `tablet`: one that points at places, as consoles do.
    #[serde(rename = "type")]
    pub type_: String,
    /// `usb` or `virtio`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
}
