//! The fields of a VM, each once: what requests say of it, and how it is shown.
//!
//! From this table come what `POST vms`, `POST offers/{name}/claim` and `PATCH vms/{name}`
//! read, what answers show, and the table in `docs/api.md`.

mod declare;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    crd::{KiteVirtualMachineSpec, PowerState, SnapshotSchedule, SshLogin, VolumeAttachment},
    names::VM_NAME_MAX,
    quantity::Bytes,
    span::Span,
};
use kite_identity::PASSWORD;
use kite_rest::{Bounds, Change, Form, change_to_json};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use self::declare::fields;
use crate::{policy::Action, setting::Setting};

/// Whether a new VM has a field.
#[derive(Clone, Copy)]
pub(crate) enum New {
    /// It must have it, and one from an offer has the offer's.
    Sized,
    /// It may have it.
    Optional,
    /// It may have it, and one from an offer may not.
    Alone,
    /// The API decides it.
    Never,
}

/// How a field is edited.
#[derive(Clone, Copy)]
pub(crate) enum Edited {
    /// By whoever may do this.
    By(Action),
    /// It cannot be, and why.
    Never(&'static str),
}

fields! {
    // The password is none of the spec's in requests and answers; restarts and restores are
    // requests of their own.
    hidden ssh_password_hash, restarted_at, restore, unreadable;

    /// How many CPUs it is to have.
    cpu: u32 = "cpu", New::Sized, Edited::By(Action::EditVm);
    /// How much memory it is to have.
    memory: Bytes = "memory", New::Sized, Edited::By(Action::EditVm);
    /// How large its disk is to be.
    disk: Bytes = "disk", New::Sized, Edited::By(Action::EditVm);
    /// Name of the image that its disk was made from.
    image: String = "image", New::Sized, Edited::Never(
        "cannot be changed: the disk is already made from it; create another VM"
    );
    /// Whether it is to run.
    power_state: PowerState = "powerState", New::Optional, Edited::By(Action::PowerVm);
    /// The name with which one logs in at the gateway.
    ssh_id: String = "sshId", New::Optional, Edited::Never(
        "cannot be changed: it is the user's name in the guest; create another VM"
    );
    /// Keys that open it, beside its owner's.
    ssh_public_keys: Vec<String> = "sshPublicKeys",
        New::Optional, Edited::By(Action::EditVmAccess);
    // What is published, its owner decides.
    /// What its domain begins with, before the base domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    domain_prefix: Option<String> = "domainPrefix",
        New::Optional, Edited::By(Action::EditVmAccess);
    /// When it expires: it is switched off then.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time> = "expiresAt", New::Optional, Edited::By(Action::EditVm);
    /// How long after that it is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry_grace_period: Option<Span> = "expiryGracePeriod",
        New::Optional, Edited::By(Action::EditVm);
    /// After how long without anybody connected it is switched off.
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_timeout: Option<Span> = "idleTimeout", New::Optional, Edited::By(Action::EditVm);
    /// Whether a login starts it.
    start_on_connect: bool = "startOnConnect", New::Optional, Edited::By(Action::EditVm);
    /// What a login takes.
    ssh_login: SshLogin = "sshLogin", New::Optional, Edited::By(Action::EditVmAccess);
    /// Name of the snapshot that its disk was copied from, instead of its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_snapshot: Option<String> = "fromSnapshot", New::Alone, Edited::Never(
        "cannot be changed: the disk is already made from it; create another VM"
    );
    /// When snapshots of it are taken, and how many of them are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshots: Option<Box<SnapshotSchedule>> = "snapshots",
        New::Optional, Edited::By(Action::EditVm);
    /// Volumes that it has beside its disk, from its next start on.
    volumes: Vec<VolumeAttachment> = "volumes",
        New::Optional, Edited::By(Action::AttachVolumes);
    /// Name of the offer that it was claimed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    offer: Option<String> = "offer", New::Never, Edited::Never(
        "cannot be changed: create another VM"
    );
}

/// Every request has it, in its body or its path.
pub(crate) const NAME: &str = "name";
pub(crate) const NAME_IS_FIXED: &str = "cannot be changed: create another VM";
/// Only its hash is in the spec, and answers only tell that there is one.
const SSH_PASSWORD: &str = "sshPassword";
const SSH_PASSWORD_EDIT: Action = Action::EditVmAccess;

/// What the fields mean that are none of the custom resource's.
pub(crate) const MEANING: [(&str, &str); 2] = [
    (
        NAME,
        "Name of the VM, unique among its owner's: lower-case letters, digits and hyphens.",
    ),
    (
        SSH_PASSWORD,
        "Password that opens the VM by SSH: at least 8 characters, none that many people have, \
         and without the names of VM and owner in it. Only its hash is kept.",
    ),
];

/// How long those may be.
pub(crate) const BOUNDS: [(&str, Bounds); 2] = [
    (NAME, Bounds::between(1, VM_NAME_MAX)),
    (SSH_PASSWORD, PASSWORD),
];

/// A VM that somebody wants to have.
pub(crate) struct NewFields {
    pub(crate) name: String,
    /// Of one from an offer, size and image are stand-ins.
    pub(crate) spec: KiteVirtualMachineSpec,
    /// A password that is still to be hashed.
    pub(crate) ssh_password: Option<String>,
}

impl NewFields {
    /// Reads a new VM; of one from an offer, what is not the offer's. `None` only if an
    /// error was noted.
    pub(crate) fn read(form: &mut Form, is_offered: bool) -> Option<Self> {
        let name = form.required(NAME);
        let nothing = Bytes::from_gib(0);
        let mut spec = KiteVirtualMachineSpec::new(0, nothing.clone(), nothing, "", "");
        let is_whole = read_spec(form, &mut spec, is_offered);
        let ssh_password = form.optional(SSH_PASSWORD);
        let name = name?;
        is_whole.then_some(Self {
            name,
            spec,
            ssh_password,
        })
    }
}

/// What somebody wants to change of a VM.
pub(crate) struct EditedFields {
    /// The fields of the spec, as a merge patch has them.
    pub(crate) spec: Map<String, Value>,
    /// The same, each with its type.
    pub(crate) changes: VmChanges,
    /// A password that is still to be hashed.
    pub(crate) ssh_password: Option<String>,
    /// What one must be allowed to do for it.
    pub(crate) actions: Vec<Action>,
}

impl EditedFields {
    /// Reads an edit.
    pub(crate) fn read(form: &mut Form) -> Self {
        form.fixed(NAME, NAME_IS_FIXED);
        let mut spec = Map::new();
        let mut actions = Vec::new();
        let changes = VmChanges::read(form, |action, name, value| {
            spec.insert(name.to_owned(), value);
            actions.push(action);
        });
        let password = form.change::<String>(SSH_PASSWORD);
        if password != Change::Keep {
            actions.push(SSH_PASSWORD_EDIT);
        }
        if password == Change::Clear {
            spec.insert("sshPasswordHash".to_owned(), Value::Null);
        }
        Self {
            spec,
            changes,
            ssh_password: password.set(),
            actions,
        }
    }
}

/// What requests say of a field, for tables of them.
#[cfg(test)]
pub(crate) struct VmField {
    /// Its name in JSON.
    pub(crate) name: &'static str,
    pub(crate) new: New,
    pub(crate) edit: Edited,
    /// Whether null takes it away, where it can be edited.
    pub(crate) is_removable: bool,
}

/// Every field that requests have beside the name.
#[cfg(test)]
pub(crate) fn all() -> impl Iterator<Item = VmField> {
    let password = VmField {
        name: SSH_PASSWORD,
        new: New::Optional,
        edit: Edited::By(SSH_PASSWORD_EDIT),
        is_removable: true,
    };
    of_spec().into_iter().chain([password])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited_by(action: Action) -> Vec<&'static str> {
        let is_by = |field: &VmField| matches!(field.edit, Edited::By(by) if by == action);
        all().filter(is_by).map(|field| field.name).collect()
    }

    /// What opens a VM from the first moment takes more than the right to create one, a
    /// proof, and a notice: a field more of this kind belongs to `vms::make`,
    /// `proof::VM_ACCESS` and `notices::told`, unless nobody comes in by it alone.
    #[test]
    fn what_opens_a_new_vm_is_known_where_vms_are_made() {
        let is_new = |field: &VmField| !matches!(field.new, New::Never);
        let opens = |field: &VmField| matches!(field.edit, Edited::By(Action::EditVmAccess));
        let new: Vec<_> = all()
            .filter(|field| is_new(field) && opens(field))
            .map(|field| field.name)
            .collect();
        let needs_a_key_or_password = ["domainPrefix", "sshLogin"];
        let opening: Vec<_> = new
            .into_iter()
            .filter(|name| !needs_a_key_or_password.contains(name))
            .collect();
        let crate::proof::Asks::For(told) = crate::proof::of_operation("claimOffer") else {
            panic!("{:?}", crate::proof::of_operation("claimOffer"));
        };
        assert_eq!(opening, told);
    }

    /// What is expected, written down beside the table: what a manager must not change of
    /// others' VMs, and what a token that only switches VMs may change.
    #[test]
    fn what_opens_a_vm_takes_the_right_to_its_access() {
        let access = ["sshPublicKeys", "domainPrefix", "sshLogin", "sshPassword"];
        assert_eq!(edited_by(Action::EditVmAccess), access);
        assert_eq!(edited_by(Action::PowerVm), ["powerState"]);
        let never = all().filter(|field| matches!(field.edit, Edited::Never(_)));
        let never: Vec<_> = never.map(|field| field.name).collect();
        assert_eq!(never, ["image", "sshId", "fromSnapshot", "offer"]);
        let all: Vec<_> = all().map(|field| field.name).collect();
        assert_eq!(edited_by(Action::AttachVolumes), ["volumes"]);
        let told = [access.as_slice(), &["powerState", "volumes"], &never].concat();
        let rest: Vec<_> = all.into_iter().filter(|it| !told.contains(it)).collect();
        assert_eq!(edited_by(Action::EditVm), rest);
    }
}
