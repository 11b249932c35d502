//! What holds for every input.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use kite_core::{
    crd::{KiteVirtualMachine, OsFamily, PowerState},
    labels,
};
use kite_render::{
    RenderError, User, Vm, cloud_init, cloud_init::CloudConfig, disk, exposure, isolation, keys,
    machine, quota, service, windows,
};
use proptest::prelude::*;
use serde_json::Value;

/// Every object that is rendered for `object`, as JSON.
fn objects(object: &KiteVirtualMachine) -> Vec<Value> {
    let vm = Vm::of(object).unwrap();
    let platform = common::platform();
    let json = |object: &dyn erased::Json| object.json();
    vec![
        json(&disk::data_volume(&vm, &platform, "kite-images")),
        json(&keys::secret(&vm, &common::keys())),
        json(&cloud_init::secret(&vm, &common::keys(), OsFamily::Debian).unwrap()),
        json(&machine::virtual_machine(&vm, PowerState::On)),
        json(&service::access(&vm)),
        json(&service::web(&vm)),
        json(&exposure::ingress(&vm, &platform, "a.example.org")),
    ]
}

mod erased {
    pub trait Json {
        fn json(&self) -> serde_json::Value;
    }
    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> serde_json::Value {
            serde_json::to_value(self).unwrap()
        }
    }
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?"
}

fn is_label(text: &str) -> bool {
    text.len() <= 63
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn names_and_labels_are_valid_and_nothing_leaves_the_namespace(
        name in name(),
        user in "[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?",
    ) {
        let mut object = common::vm();
        object.metadata.name = Some(name.clone());
        object.metadata.namespace = Some(kite_core::names::user_namespace(&user));
        for rendered in objects(&object) {
            let metadata = &rendered["metadata"];
            let own = metadata["name"].as_str().unwrap();
            prop_assert!(own.len() <= 253);
            if rendered["kind"] == "Service" {
                prop_assert!(is_label(own), "{own}");
            }
            prop_assert_eq!(metadata["namespace"].as_str(), object.metadata.namespace.as_deref());
            prop_assert_eq!(&metadata["labels"][labels::VM_NAME], &Value::from(name.clone()));
            for value in metadata["labels"].as_object().unwrap().values() {
                prop_assert!(value.as_str().unwrap().len() <= 63);
            }
            let owner = &metadata["ownerReferences"][0];
            prop_assert_eq!(owner["uid"].as_str(), object.metadata.uid.as_deref());
            prop_assert_eq!(&owner["controller"], &Value::Bool(true));
        }
    }

    #[test]
    fn a_name_that_would_derive_invalid_names_is_refused(name in ".{0,70}") {
        let mut object = common::vm();
        object.metadata.name = Some(name.clone());
        let valid = !name.is_empty() && name.len() <= 52 && is_label(&name);
        match Vm::of(&object) {
            Ok(_) => prop_assert!(valid, "{name:?}"),
            Err(RenderError::Name { .. }) => prop_assert!(!valid, "{name:?}"),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn hostile_strings_stay_values_in_user_data(
        ssh_id in "\\PC{1,40}|[a-z: #\\n'\"{}\\[\\]|>&*!%@`\\-]{1,40}|no|null|~|1e3|0x1f|\\.inf",
        public in "ssh-ed25519 [ -~]{0,60}|(?s)ssh-.{0,40}",
        private in "(?s).{0,200}",
    ) {
        let mut object = common::vm();
        object.spec.ssh_id = ssh_id.clone();
        let vm = Vm::of(&object).unwrap();
        let mut keys = common::keys();
        keys.client_public = public;
        keys.host_private = private;
        for os in [OsFamily::Debian, OsFamily::Alpine] {
            let written = cloud_init::cloud_config(&vm, &keys, os).unwrap();
            let secret = cloud_init::secret(&vm, &keys, os).unwrap();
            let text = String::from_utf8(secret.data.unwrap()[cloud_init::USER_DATA].0.clone()).unwrap();
            prop_assert!(text.starts_with("#cloud-config\n"));
            let read: CloudConfig = serde_saphyr::from_str(&text).unwrap();
            prop_assert_eq!(&read, &written);
            prop_assert_eq!(read.users.len(), 1);
            prop_assert_eq!(&read.users[0].name, &ssh_id);
        }
    }

    #[test]
    fn a_quota_grants_at_least_what_the_spec_does(
        vms in 0u32..10_000, cpu in 0u32..100_000, memory in 1u32..100_000, disk in 1u32..100_000,
    ) {
        let mut object = common::user();
        let mib = |count: u32| format!("{count}Mi").parse::<kite_core::quantity::Bytes>().unwrap();
        object.spec.quota = Some(kite_core::crd::Quota::new(vms, cpu, mib(memory), mib(disk)));
        let given = quota::Given::default();
        let quota = quota::resource_quota(&User::of(&object).unwrap(), &given, &quota::Overhead::default());
        let hard = quota.spec.unwrap().hard.unwrap();
        let bytes = |key: &str| hard[key].0.parse::<kite_core::quantity::Bytes>().unwrap().bytes();
        prop_assert!(bytes("requests.memory") >= u64::from(memory) << 20);
        prop_assert!(bytes("requests.storage") >= u64::from(disk) << 20);
        prop_assert_eq!(&hard["count/kitevirtualmachines.hy3ons.github.io"].0, &vms.to_string());
    }
}

#[test]
fn defect_5_no_port_is_open_to_every_pod_and_no_private_address_is_reachable() {
    let object = common::user();
    let user = User::of(&object).unwrap();
    for policy in isolation::policies(
        &user,
        &isolation::Isolation::default(),
        &common::image_namespaces(),
    ) {
        let spec = policy.spec.unwrap();
        for rule in spec.ingress.iter().flatten() {
            let from = rule
                .from
                .as_ref()
                .expect("a rule without peers lets everybody in");
            assert!(!from.is_empty());
            for peer in from {
                assert!(peer.ip_block.is_none());
                let names = peer.namespace_selector.as_ref().unwrap();
                assert!(names.match_labels.as_ref().is_some_and(|l| l.len() == 1));
            }
            assert!(rule.ports.as_ref().is_some_and(|ports| !ports.is_empty()));
        }
        for rule in spec.egress.iter().flatten() {
            for peer in rule.to.as_ref().unwrap() {
                match &peer.ip_block {
                    Some(block) if block.cidr == "0.0.0.0/0" => {
                        let except = block.except.as_ref().unwrap();
                        for range in ["10.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16"] {
                            assert!(except.iter().any(|cidr| cidr == range), "{range}");
                        }
                    }
                    // fc00::/7 and fe80::/10 lie outside.
                    Some(block) => assert_eq!(block.cidr, "2000::/3"),
                    None => assert_eq!(
                        rule.ports.as_ref().unwrap()[0]
                            .port
                            .as_ref()
                            .map(|port| serde_json::to_value(port).unwrap()),
                        Some(53.into())
                    ),
                }
            }
        }
    }
    let closed = isolation::Isolation {
        gateway: vec![],
        ingress_controllers: vec![],
        ..isolation::Isolation::default()
    };
    let policies = isolation::policies(&user, &closed, &common::image_namespaces());
    assert_eq!(
        policies[0].spec.as_ref().unwrap().ingress,
        None,
        "no peer means nobody, not everybody"
    );
}

#[test]
fn secrets_are_not_shown_by_debug() {
    let keys = common::keys();
    let object = common::vm();
    let config =
        cloud_init::cloud_config(&Vm::of(&object).unwrap(), &keys, OsFamily::Debian).unwrap();
    for text in [format!("{keys:?}"), format!("{config:?}")] {
        assert!(!text.contains("PRIVATE KEY"), "{text}");
    }
}

#[test]
fn keys_survive_their_secret_and_a_broken_one_says_what_to_do() {
    let object = common::vm();
    let vm = Vm::of(&object).unwrap();
    let mut secret = keys::secret(&vm, &common::keys());
    assert_eq!(keys::VmKeys::from_secret(&secret).unwrap(), common::keys());
    secret.data.as_mut().unwrap().remove("ssh_host_ed25519_key");
    let error = keys::VmKeys::from_secret(&secret).unwrap_err().to_string();
    assert!(
        error.contains("ssh_host_ed25519_key") && error.contains("delete the Secret"),
        "{error}"
    );
}

#[test]
fn windows_is_told_of_no_login_name_that_it_cannot_have() {
    let mut object = common::vm();
    for (ssh_id, problem) in [
        ("a-name-that-is-too-long", "at most 20"),
        ("administrator", "already"),
    ] {
        object.spec.ssh_id = ssh_id.to_owned();
        let vm = Vm::of(&object).unwrap();
        let error = cloud_init::secret(&vm, &common::keys(), OsFamily::Windows).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(ssh_id) && error.contains(problem), "{error}");
    }
}

proptest! {
    #[test]
    fn hostile_strings_stay_values_in_a_windows_guest(
        ssh_id in "[a-z: #\\n'\"{}\\[\\]|>&*!%@`\\-]{1,20}",
        public in "(?s)ssh-.{0,60}",
        private in "(?s).{0,200}",
    ) {
        let mut object = common::vm();
        object.spec.ssh_id = ssh_id.clone();
        let vm = Vm::of(&object).unwrap();
        let mut keys = common::keys();
        keys.client_public = public;
        keys.host_private = private;
        let written = windows::cloudbase_config(&vm, &keys).unwrap();
        let secret = cloud_init::secret(&vm, &keys, OsFamily::Windows).unwrap();
        let text = String::from_utf8(secret.data.unwrap()[cloud_init::USER_DATA].0.clone()).unwrap();
        let read: windows::CloudbaseConfig =
            serde_saphyr::from_str(text.strip_prefix("#cloud-config\n").unwrap()).unwrap();
        // What becomes a command holds nothing of it.
        prop_assert!(read.runcmd.iter().all(|line| line.is_ascii() && !line.contains('\n')));
        prop_assert_eq!(&read.users[0].name, &ssh_id);
        prop_assert_eq!(read, written);
    }
}
