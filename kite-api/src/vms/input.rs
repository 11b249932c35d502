//! What a request for a VM may say.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    crd::{KiteUser, KiteVirtualMachine, KiteVirtualMachineOfferSpec, KiteVirtualMachineSpec},
    quantity::Bytes,
};
use kite_identity::{PasswordOwner, read_password};
use kite_rest::{Bounds, Form, Input, is_label, require_future};
use rand::RngExt as _;
use schemars::{JsonSchema as _, Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::{
    openapi::examples,
    vm_fields::{BOUNDS, EditedFields, MEANING, NewFields},
};

fn spec_of_vm(generator: &mut SchemaGenerator) -> Schema {
    KiteVirtualMachineSpec::json_schema(generator)
}

/// A VM that somebody wants to have.
pub(crate) struct NewVm(pub(super) NewFields);

impl Input for NewVm {
    const NAME: &'static str = "NewVm";
    const MEANING: &'static [(&'static str, &'static str)] = &MEANING;
    const BOUNDS: &'static [(&'static str, Bounds)] = &BOUNDS;

    fn example() -> Option<Value> {
        Some(json!({
            "name": "web",
            "cpu": 2,
            "memory": "4Gi",
            "disk": "20Gi",
            "image": "debian-12",
            "sshPublicKeys": [examples::SSH_KEY],
            "idleTimeout": "2h",
        }))
    }

    fn read(form: &mut Form) -> Option<Self> {
        read_new(form, false).map(Self)
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(spec_of_vm(generator))
    }
}

/// A VM that somebody wants to have of an offer.
pub(crate) struct Claim(NewFields);

impl Claim {
    /// The VM of the offer's size and image.
    pub(crate) fn of(self, offer: &KiteVirtualMachineOfferSpec, end: Option<Time>) -> NewVm {
        let mut fields = self.0;
        fields.spec = KiteVirtualMachineSpec {
            cpu: offer.cpu,
            memory: offer.memory.clone(),
            disk: offer.disk.clone(),
            image: offer.image.clone(),
            expires_at: end.or(fields.spec.expires_at),
            ..fields.spec
        };
        NewVm(fields)
    }
}

impl Input for Claim {
    const NAME: &'static str = "Claim";
    const MEANING: &'static [(&'static str, &'static str)] = &MEANING;
    const BOUNDS: &'static [(&'static str, Bounds)] = &BOUNDS;

    fn example() -> Option<Value> {
        Some(json!({"name": "web", "sshPublicKeys": [examples::SSH_KEY]}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        read_new(form, true).map(Self)
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(spec_of_vm(generator))
    }
}

fn read_new(form: &mut Form, is_offered: bool) -> Option<NewFields> {
    let fields = NewFields::read(form, is_offered);
    // Told whatever else is wrong.
    let end = form.peek::<Time>("expiresAt");
    require_future(
        form,
        "expiresAt",
        end.as_ref(),
        "leave it out if the VM is not to expire",
    );
    fields
}

/// What somebody wants to change.
pub(crate) struct Edit(pub(super) EditedFields);

impl Input for Edit {
    const NAME: &'static str = "VmEdit";
    const MEANING: &'static [(&'static str, &'static str)] = &MEANING;
    const BOUNDS: &'static [(&'static str, Bounds)] = &BOUNDS;

    fn example() -> Option<Value> {
        Some(json!({"cpu": 4, "memory": "8Gi", "idleTimeout": null}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        Some(Self(EditedFields::read(form)))
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(spec_of_vm(generator))
    }
}

/// Notes on `form` what is wrong with the password that a VM of `owner` is to have.
pub(super) fn check_password(form: &mut Form, owner: &KiteUser, names: [Option<&str>; 2]) {
    let Some(password) = form.peek::<String>("sshPassword") else {
        return;
    };
    let [name, ssh_id] = names;
    let owner = PasswordOwner {
        level: None,
        names: &[
            name,
            ssh_id,
            Some(&owner.spec.username),
            owner.spec.email.as_deref(),
        ],
    };
    read_password(form, "sshPassword", &password, &owner);
}

/// A VM that the API server takes, to try single fields with.
pub(super) fn model(namespace: &str) -> KiteVirtualMachine {
    let (memory, disk) = (Bytes::from_gib(1), Bytes::from_gib(10));
    let spec = KiteVirtualMachineSpec::new(1, memory, disk, "model", "kite-model");
    let mut vm = KiteVirtualMachine::new("kite-model", spec);
    vm.metadata.namespace = Some(namespace.to_owned());
    vm
}

/// Characters of a generated suffix: none that are taken for each other.
const SUFFIX_ALPHABET: &[u8] = b"abcdefghjkmnpqrstuvwxyz23456789";
/// Most characters of a login name.
const SSH_ID_MAX: usize = 32;

/// A login name for the VM `name`: the name and four random characters.
pub(super) fn generate_ssh_id(name: &str) -> String {
    let mut rng = rand::rng();
    let suffix: String = (0..4)
        .map(|_| char::from(SUFFIX_ALPHABET[rng.random_range(0..SUFFIX_ALPHABET.len())]))
        .collect();
    // What is no name is refused as such, not as a login name besides.
    ssh_id(if is_label(name) { name } else { "vm" }, &suffix)
}

fn ssh_id(name: &str, suffix: &str) -> String {
    // A VM's name may begin with a digit, a user's in the guest may not.
    let start = if name.starts_with(|c: char| c.is_ascii_lowercase()) {
        ""
    } else {
        "vm-"
    };
    let stem: String = start
        .chars()
        .chain(name.chars())
        .take(SSH_ID_MAX - 1 - suffix.len())
        .collect();
    format!("{}-{suffix}", stem.trim_end_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_login_names_are_names_that_a_guest_takes() {
        assert_eq!(ssh_id("web", "ab2c"), "web-ab2c");
        assert_eq!(ssh_id("9lives", "ab2c"), "vm-9lives-ab2c");
        let long = ssh_id(&"x".repeat(52), "ab2c");
        assert_eq!(long.len(), SSH_ID_MAX);
        assert_eq!(ssh_id(&format!("{}-y", "x".repeat(26)), "ab2c").len(), 31);
        assert_ne!(generate_ssh_id("web"), generate_ssh_id("web"));
    }
}
