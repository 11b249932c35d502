//! What a request for a VM may say.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    crd::{
        KiteUser, KiteVirtualMachine, KiteVirtualMachineOfferSpec, KiteVirtualMachineSpec,
        PowerState, SshLogin,
    },
    names::VM_NAME_MAX,
    quantity::Bytes,
    span::Span,
};
use kite_identity::{PASSWORD, PasswordOwner, read_password};
use kite_rest::{
    Bounds, Change, Form, Input, OneOf, SshKeys, change_to_json, is_label, require_future,
};
use rand::RngExt as _;
use schemars::{JsonSchema as _, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::{openapi::examples, policy::Action};

/// Fields of a VM that are none of its custom resource's.
const MEANING: [(&str, &str); 2] = [
    (
        "name",
        "Name of the VM, unique among its owner's: lower-case letters, digits and hyphens.",
    ),
    (
        "sshPassword",
        "Password that opens the VM by SSH: at least 8 characters, none that many people have, \
         and without the names of VM and owner in it. Only its hash is kept.",
    ),
];

/// How long those may be.
const BOUNDS: [(&str, Bounds); 2] = [
    ("name", Bounds::between(1, VM_NAME_MAX)),
    ("sshPassword", PASSWORD),
];

fn spec_of_vm(generator: &mut SchemaGenerator) -> Schema {
    KiteVirtualMachineSpec::json_schema(generator)
}

/// A VM that somebody wants to have.
pub(crate) struct NewVm {
    pub(super) cpu: u32,
    pub(super) memory: Bytes,
    pub(super) disk: Bytes,
    pub(super) image: String,
    pub(super) settings: Settings,
}

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
        let name = form.required("name");
        let cpu = form.required("cpu");
        let memory = form.required("memory");
        let disk = form.required("disk");
        let image = form.required("image");
        let settings = Settings::read(form, name);
        Some(Self {
            cpu: cpu?,
            memory: memory?,
            disk: disk?,
            image: image?,
            settings: settings?,
        })
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(spec_of_vm(generator))
    }
}

/// A VM that somebody wants to have of an offer.
pub(crate) struct Claim(Settings);

impl Claim {
    /// The VM of the offer's size and image.
    pub(crate) fn of(self, offer: &KiteVirtualMachineOfferSpec, end: Option<Time>) -> NewVm {
        let mut settings = self.0;
        if end.is_some() {
            settings.expires_at = end;
        }
        NewVm {
            cpu: offer.cpu,
            memory: offer.memory.clone(),
            disk: offer.disk.clone(),
            image: offer.image.clone(),
            settings,
        }
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
        for field in ["cpu", "memory", "disk", "image"] {
            form.fixed(field, "is what the offer has: leave it out");
        }
        let name = form.required("name");
        Settings::read(form, name).map(Self)
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(spec_of_vm(generator))
    }
}

/// What a new VM has beside its size and image.
pub(super) struct Settings {
    pub(super) name: String,
    pub(super) power_state: PowerState,
    pub(super) ssh_password: Option<String>,
    pub(super) ssh_public_keys: Vec<String>,
    pub(super) domain_prefix: Option<String>,
    pub(super) expires_at: Option<Time>,
    pub(super) expiry_grace_period: Option<Span>,
    pub(super) idle_timeout: Option<Span>,
    pub(super) start_on_connect: bool,
    pub(super) ssh_login: SshLogin,
}

impl Settings {
    fn read(form: &mut Form, name: Option<String>) -> Option<Self> {
        let power_state = form.optional("powerState").map(|OneOf(state)| state);
        let power_state = power_state.unwrap_or_default();
        let _: Option<String> = form.optional("sshId");
        let ssh_password: Option<String> = form.optional("sshPassword");
        let ssh_public_keys = form.optional("sshPublicKeys");
        let ssh_public_keys = ssh_public_keys.map(|SshKeys(keys)| keys);
        let domain_prefix = form.optional("domainPrefix");
        let expires_at: Option<Time> = form.optional("expiresAt");
        require_future(
            form,
            expires_at.as_ref(),
            "leave it out if the VM is not to expire",
        );
        let expiry_grace_period = form.optional("expiryGracePeriod");
        let idle_timeout = form.optional("idleTimeout");
        let start_on_connect = form.optional("startOnConnect").unwrap_or_default();
        let ssh_login = form.optional("sshLogin").map(|OneOf(login)| login);
        let ssh_login = ssh_login.unwrap_or_default();
        Some(Self {
            name: name?,
            power_state,
            ssh_password,
            ssh_public_keys: ssh_public_keys.unwrap_or_default(),
            domain_prefix,
            expires_at,
            expiry_grace_period,
            idle_timeout,
            start_on_connect,
            ssh_login,
        })
    }
}

/// What somebody wants to change.
pub(crate) struct Edit {
    /// The fields of the spec, as a merge patch has them.
    pub(super) spec: Map<String, Value>,
    /// A password that is still to be hashed.
    pub(super) ssh_password: Option<String>,
    /// What one must be allowed to do for it.
    pub(super) actions: Vec<Action>,
    /// Whether it is to be on.
    pub(super) power: Option<PowerState>,
    /// The new sizes, for the quota.
    pub(super) cpu: Option<u32>,
    pub(super) memory: Option<Bytes>,
    pub(super) disk: Option<Bytes>,
    /// The new label below the base domain.
    pub(super) domain_prefix: Option<String>,
    /// The new end.
    pub(super) expires_at: Option<Time>,
}

impl Input for Edit {
    const NAME: &'static str = "VmEdit";
    const MEANING: &'static [(&'static str, &'static str)] = &MEANING;
    const BOUNDS: &'static [(&'static str, Bounds)] = &BOUNDS;

    fn example() -> Option<Value> {
        Some(json!({"cpu": 4, "memory": "8Gi", "idleTimeout": null}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        for (field, why) in [
            ("name", "cannot be changed: create another VM"),
            (
                "image",
                "cannot be changed: the disk is already made from it; create another VM",
            ),
            (
                "sshId",
                "cannot be changed: it is the user's name in the guest; create another VM",
            ),
        ] {
            form.fixed(field, why);
        }
        form.fixed("offer", "cannot be changed: create another VM");
        let power = form.changed("powerState").map(|OneOf(state)| state);
        let cpu: Option<u32> = form.changed("cpu");
        let memory: Option<Bytes> = form.changed("memory");
        let disk: Option<Bytes> = form.changed("disk");
        let domain = form.change::<String>("domainPrefix");
        let keys = form.change("sshPublicKeys").map(|SshKeys(keys)| keys);
        let password = form.change::<String>("sshPassword");
        let expires_at = form.change::<Time>("expiresAt");
        let grace = form.change::<Span>("expiryGracePeriod");
        let idle_timeout = form.change::<Span>("idleTimeout");
        let start: Option<bool> = form.changed("startOnConnect");
        let login = form
            .changed("sshLogin")
            .map(|OneOf::<SshLogin>(login)| login);
        let mut edit = Self {
            spec: Map::new(),
            ssh_password: None,
            actions: Vec::new(),
            power,
            domain_prefix: match &domain {
                Change::Set(prefix) => Some(prefix.clone()),
                Change::Keep | Change::Clear => None,
            },
            cpu,
            memory,
            disk,
            expires_at: match &expires_at {
                Change::Set(end) => Some(end.clone()),
                Change::Keep | Change::Clear => None,
            },
        };
        edit.put(
            Action::PowerVm,
            power.map(|power| ("powerState", json!(power))),
        );
        edit.put(Action::EditVm, cpu.map(|cpu| ("cpu", json!(cpu))));
        let memory = edit.memory.as_ref().map(|size| ("memory", json!(size)));
        edit.put(Action::EditVm, memory);
        let disk = edit.disk.as_ref().map(|size| ("disk", json!(size)));
        edit.put(Action::EditVm, disk);
        // What is published, its owner decides.
        edit.put(Action::EditVmAccess, change_to_json("domainPrefix", domain));
        edit.put(Action::EditVm, change_to_json("expiresAt", expires_at));
        edit.put(Action::EditVm, change_to_json("expiryGracePeriod", grace));
        edit.put(Action::EditVm, change_to_json("idleTimeout", idle_timeout));
        let start = start.map(|start| ("startOnConnect", json!(start)));
        edit.put(Action::EditVm, start);
        let login = login.map(|login| ("sshLogin", json!(login)));
        edit.put(Action::EditVmAccess, login);
        edit.put(Action::EditVmAccess, change_to_json("sshPublicKeys", keys));
        match password {
            Change::Keep => {}
            Change::Clear => edit.put(Action::EditVmAccess, Some(("sshPasswordHash", Value::Null))),
            Change::Set(password) => {
                edit.ssh_password = Some(password);
                edit.actions.push(Action::EditVmAccess);
            }
        }
        Some(edit)
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(spec_of_vm(generator))
    }
}

impl Edit {
    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    fn put(&mut self, action: Action, field: Option<(&'static str, Value)>) {
        if let Some((field, value)) = field {
            self.spec.insert(field.to_owned(), value);
            self.actions.push(action);
        }
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
