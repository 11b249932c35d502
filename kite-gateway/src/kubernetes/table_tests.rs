#![allow(clippy::unwrap_used, clippy::panic)]

use k8s_openapi::ByteString;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};
use kite_core::crd::{
    AccessStatus, KitePlatformSpec, KiteUserSpec, KiteVirtualMachineSpec, KiteVirtualMachineStatus,
    Principals, UserAuthority,
};
use kite_core::names::key_secret;
use kube::api::ObjectMeta;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey};

use super::*;

fn new_key() -> PrivateKey {
    PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).unwrap()
}

fn line(key: &PrivateKey) -> String {
    key.public_key().to_openssh().unwrap()
}

fn vm(name: &str, ssh_id: &str) -> KiteVirtualMachine {
    let (memory, disk) = ("1Gi".parse().unwrap(), "10Gi".parse().unwrap());
    let spec = KiteVirtualMachineSpec::new(1, memory, disk, "debian", ssh_id);
    let mut vm = KiteVirtualMachine::new(name, spec);
    vm.metadata.namespace = Some("kite-user-ann".into());
    vm.metadata.uid = Some(format!("uid-{name}"));
    vm.status = Some(KiteVirtualMachineStatus {
        access: Some(AccessStatus::default()),
        ..KiteVirtualMachineStatus::default()
    });
    vm
}

fn metadata(name: &str, vm: &str) -> ObjectMeta {
    let mut labels = labels::for_vm("kite-user-ann", vm);
    labels.insert(labels::SERVICE_NAME.into(), names::access_service(vm));
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some("kite-user-ann".into()),
        labels: Some(labels),
        ..ObjectMeta::default()
    }
}

fn secret(vm: &str) -> (Secret, PrivateKey) {
    let (client, host) = (new_key(), new_key());
    let private = client.to_openssh(LineEnding::LF).unwrap();
    let data = [
        (key_secret::CLIENT_PRIVATE, private.as_bytes().to_vec()),
        (key_secret::HOST_PUBLIC, line(&host).into_bytes()),
    ];
    let secret = Secret {
        metadata: metadata(&names::ssh_key_secret(vm), vm),
        data: Some(data.map(|(k, v)| (k.to_owned(), ByteString(v))).into()),
        ..Secret::default()
    };
    (secret, host)
}

fn slice(name: &str, vm: &str, addresses: &[(&str, bool)], port: i32) -> EndpointSlice {
    let endpoint = |(address, ready): &(&str, bool)| Endpoint {
        addresses: vec![(*address).into()],
        conditions: Some(EndpointConditions {
            ready: Some(*ready),
            ..EndpointConditions::default()
        }),
        ..Endpoint::default()
    };
    EndpointSlice {
        metadata: metadata(name, vm),
        address_type: "IPv4".into(),
        endpoints: Some(addresses.iter().map(endpoint).collect()),
        ports: Some(vec![EndpointPort {
            name: Some("ssh".into()),
            port: Some(port),
            ..EndpointPort::default()
        }]),
    }
}

/// Reads the key Secrets that the table wants: for each VM the one that `secret` gives.
fn read(table: &RouteTable, secret: impl Fn(&VmKey) -> Result<Option<Secret>, String>) {
    let now = Instant::now();
    for (vm, uid) in table.keys_due(9, now) {
        table.key_secret(&vm, &uid, secret(&vm), now);
    }
}

fn find(table: &RouteTable, login: &str) -> Option<Arc<Route>> {
    table.find(&LoginName::parse(login).unwrap())
}

#[test]
fn a_complete_vm_has_a_route() {
    let table = RouteTable::default();
    table.vm(Event::Apply(vm("web", "ann-web")));
    let (secret, host) = secret("web");
    read(&table, |_| Ok(Some(secret.clone())));
    let addresses = [("10.0.0.2", true), ("10.0.0.3", false)];
    table.slice(Event::Apply(slice("s1", "web", &addresses, 2022)));
    let route = find(&table, "ann-web").unwrap();
    assert_eq!(route.state, VmState::Running);
    assert_eq!(route.owner.as_deref(), Some("ann"));
    let target = route.target.clone().unwrap();
    assert_eq!(target.addresses, ["10.0.0.2:2022".parse().unwrap()]);
    assert_eq!(target.user, "ann-web");
    assert_eq!(target.host_key.key_data(), host.public_key().key_data());
    assert!(find(&table, "web").is_none(), "the login name is the sshId");

    table.slice(Event::Delete(slice("s1", "web", &[], 22)));
    let route = find(&table, "ann-web").unwrap();
    assert!(matches!(&route.state, VmState::Starting(why) if why.contains("starting")));
    table.vm(Event::Delete(vm("web", "ann-web")));
    assert!(find(&table, "ann-web").is_none());
    assert!(table.is_empty());
}

#[test]
fn a_login_name_that_is_not_reserved_leads_nowhere() {
    let table = RouteTable::default();
    let mut claimed = vm("web", "ann-web");
    claimed.status = None;
    table.vm(Event::Apply(claimed));
    assert!(find(&table, "ann-web").is_none());
}

#[test]
fn the_owner_s_keys_open_her_vms_only() {
    let table = RouteTable::default();
    let (of_vm, of_user) = (new_key(), new_key());
    let mut web = vm("web", "ann-web");
    web.spec.ssh_public_keys = vec![line(&of_vm), "nonsense".into()];
    let mut other = vm("other", "bob-web");
    other.metadata.namespace = Some("kite-user-bob".into());
    table.vm(Event::Apply(web));
    table.vm(Event::Apply(other));
    let mut ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    ann.spec.ssh_public_keys = vec![line(&of_user)];
    table.user(Event::Apply(ann.clone()));
    assert_eq!(find(&table, "ann-web").unwrap().authorized_keys.len(), 2);
    assert_eq!(find(&table, "bob-web").unwrap().authorized_keys.len(), 0);
    ann.spec.suspended = true;
    table.user(Event::Apply(ann));
    assert_eq!(find(&table, "ann-web").unwrap().authorized_keys.len(), 0);
}

#[test]
fn what_cannot_be_read_lets_nobody_in() {
    let table = RouteTable::default();
    let mut web = vm("web", "ann-web");
    web.spec.ssh_public_keys = vec![line(&new_key())];
    table.vm(Event::Apply(web.clone()));
    assert_eq!(find(&table, "ann-web").unwrap().authorized_keys.len(), 1);
    // Of the account nobody knows whether it is suspended.
    let mut ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    ann.spec.unreadable = Some("spec.suspended".to_owned());
    table.user(Event::Apply(ann));
    assert_eq!(find(&table, "ann-web").unwrap().authorized_keys.len(), 0);
    // Nor of the VM who may log in.
    web.spec.unreadable = Some("spec.sshLogin".to_owned());
    table.vm(Event::Apply(web));
    assert!(find(&table, "ann-web").is_none());
}

/// A platform that trusts those.
fn platform(authorities: Vec<UserAuthority>) -> KitePlatform {
    let mut platform = KitePlatform::new(names::PLATFORM, KitePlatformSpec::default());
    platform.spec.gateway.user_authorities = authorities;
    platform
}

fn authority(name: &str, public_key: String, principals: Principals) -> UserAuthority {
    UserAuthority {
        name: name.into(),
        public_key,
        principals,
    }
}

#[test]
fn authorities_vouch_for_owners_or_for_login_names() {
    let principals = |table: &RouteTable, login| {
        let route = find(table, login).unwrap();
        let all = route.authorities.iter().map(|it| it.principal.clone());
        all.collect::<Vec<_>>()
    };
    let table = RouteTable::default();
    table.vm(Event::Apply(vm("web", "ann-web")));
    let mut of_nobody = vm("lab", "lab");
    of_nobody.metadata.namespace = Some("elsewhere".into());
    table.vm(Event::Apply(of_nobody));
    let mut ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
    table.user(Event::Apply(ann.clone()));
    let (staff, labs) = (new_key(), new_key());
    let said = vec![
        authority("staff", line(&staff), Principals::Accounts),
        authority("broken", "ssh-ed25519 AAAA".into(), Principals::Accounts),
        authority("labs", line(&labs), Principals::LoginNames),
    ];
    table.platform(Event::Apply(platform(said.clone())));
    assert_eq!(principals(&table, "ann-web"), ["ann", "ann-web"]);
    assert_eq!(principals(&table, "lab"), ["lab"]);
    let route = find(&table, "ann-web").unwrap();
    assert_eq!(
        route.authorities[0].key.key_data(),
        staff.public_key().key_data()
    );
    // What else becomes of the platform is no reason to make routes anew.
    let mut other = platform(said);
    other.spec.sign_ups_per_day = Some(7);
    table.platform(Event::Apply(other));
    assert!(Arc::ptr_eq(&route, &find(&table, "ann-web").unwrap()));
    // Those of a VM that comes later, too.
    table.vm(Event::Apply(vm("late", "ann-late")));
    assert_eq!(principals(&table, "ann-late"), ["ann", "ann-late"]);

    ann.spec.suspended = true;
    table.user(Event::Apply(ann.clone()));
    assert!(principals(&table, "ann-web").is_empty());
    ann.spec.suspended = false;
    table.user(Event::Apply(ann.clone()));
    assert_eq!(principals(&table, "ann-web").len(), 2);
    // Of an account that is not there nobody is vouched for.
    table.user(Event::Delete(ann));
    assert_eq!(principals(&table, "ann-web"), ["ann-web"]);

    // Of settings that cannot be read none is trusted, nor of none.
    let odd = serde_json::json!({"gateway": {"userAuthorities": [{"name": "staff"}]}});
    let mut unread = platform(Vec::new());
    unread.spec = serde_json::from_value(odd).unwrap();
    table.platform(Event::Apply(unread));
    assert!(principals(&table, "ann-web").is_empty());
    let said = vec![authority("labs", line(&labs), Principals::LoginNames)];
    table.platform(Event::Apply(platform(said.clone())));
    assert_eq!(principals(&table, "ann-web"), ["ann-web"]);
    table.platform(Event::Delete(platform(said.clone())));
    assert!(principals(&table, "ann-web").is_empty());
    table.platform(Event::Apply(platform(said)));
    for event in [Event::Init, Event::InitDone] {
        table.platform(event);
    }
    assert!(principals(&table, "ann-web").is_empty());
}

#[test]
fn a_foreign_or_broken_key_secret_is_not_used() {
    let (good, _) = secret("web");
    let mut foreign = good.clone();
    foreign.metadata.labels = Some(labels::for_vm("kite-user-mallory", "web"));
    let mut broken = good.clone();
    broken.data = None;
    for wrong in [Ok(foreign), Ok(broken), Err("not found".to_owned())] {
        let table = RouteTable::default();
        table.vm(Event::Apply(vm("web", "ann-web")));
        read(&table, |_| wrong.clone().map(Some));
        assert!(find(&table, "ann-web").unwrap().target.is_none());
        assert!(table.next_keys().is_some(), "it is tried again");
    }
}

#[test]
fn keys_are_read_anew_for_another_vm_of_the_name_and_when_they_are_not_taken() {
    let table = RouteTable::default();
    table.vm(Event::Apply(vm("web", "ann-web")));
    let (first, _) = secret("web");
    read(&table, |_| Ok(Some(first.clone())));
    let shown = || {
        let route = find(&table, "ann-web").unwrap();
        let target = route.target.clone();
        target.map(|target| target.host_key.key_data().clone())
    };
    let of_first = shown().unwrap();
    // A VM that reports its status has no other keys.
    table.vm(Event::Apply(vm("web", "ann-web")));
    assert_eq!(shown().as_ref(), Some(&of_first));
    assert!(table.keys_due(9, Instant::now()).is_empty());
    // It was reinstalled: somebody put its new host key into the Secret.
    table.doubt(&find(&table, "ann-web").unwrap());
    let (second, host) = secret("web");
    let later = table.next_keys().unwrap();
    assert_eq!(table.keys_due(9, later).len(), 1);
    table.key_secret(
        &key_of(&vm("web", "")).unwrap(),
        "uid-web",
        Ok(Some(second)),
        later,
    );
    assert_eq!(shown().as_ref(), Some(host.public_key().key_data()));

    let mut another = vm("web", "ann-web");
    another.metadata.uid = Some("uid-another".to_owned());
    table.vm(Event::Apply(another));
    assert_eq!(shown(), None, "these are not its keys");
    read(&table, |_| Ok(Some(first.clone())));
    assert_eq!(shown(), Some(of_first));
}

#[test]
fn what_a_new_list_lacks_is_gone() {
    let table = RouteTable::default();
    for event in [
        Event::Init,
        Event::InitApply(vm("a", "aa")),
        Event::InitDone,
    ] {
        table.vm(event);
    }
    for event in [Event::Init, Event::InitApply(vm("b", "bb"))] {
        table.vm(event);
    }
    assert!(
        find(&table, "aa").is_some(),
        "logins go on while it is listed"
    );
    table.vm(Event::InitDone);
    assert!(find(&table, "aa").is_none());
    assert!(find(&table, "bb").is_some());
}

#[test]
fn ready_when_every_kind_was_listed() {
    let table = RouteTable::default();
    table.vm(Event::InitDone);
    table.user(Event::InitDone);
    table.slice(Event::InitDone);
    assert!(!table.is_ready());
    table.platform(Event::InitDone);
    assert!(table.is_ready());
    // Nor before the keys of the VMs that are there were looked for.
    let table = RouteTable::default();
    for event in [
        Event::Init,
        Event::InitApply(vm("web", "ann-web")),
        Event::InitDone,
    ] {
        table.vm(event);
    }
    table.user(Event::InitDone);
    table.slice(Event::InitDone);
    table.platform(Event::InitDone);
    assert!(!table.is_ready());
    read(&table, |_| Err("forbidden".to_owned()));
    assert!(!table.is_ready(), "there may be some");
    let (name, again) = (key_of(&vm("web", "")).unwrap(), table.next_keys().unwrap());
    assert_eq!(table.keys_due(9, again).len(), 1);
    table.key_secret(&name, "uid-web", Ok(None), again);
    assert!(table.is_ready());
}

#[test]
fn the_owner_is_told_what_to_do() {
    let mut off = vm("web", "ann-web");
    off.spec.power_state = PowerState::Off;
    let VmState::Stopped(why) = state(&off, true) else {
        panic!("off")
    };
    assert!(
        why.contains("kubectl -n kite-user-ann patch ktvm web"),
        "{why}"
    );
}

#[test]
fn addresses_of_several_slices_come_together_and_go_apart() {
    let table = RouteTable::default();
    table.vm(Event::Apply(vm("web", "ann-web")));
    read(&table, |_| Ok(Some(secret("web").0)));
    let one = || slice("s1", "web", &[("10.0.0.2", true)], 22);
    let two = || slice("s2", "web", &[("10.0.0.1", true)], 22);
    for event in [
        Event::Init,
        Event::InitApply(one()),
        Event::InitApply(two()),
        Event::InitDone,
    ] {
        table.slice(event);
    }
    let addresses = || {
        let target = find(&table, "ann-web").unwrap().target.clone().unwrap();
        target
            .addresses
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(addresses(), ["10.0.0.1:22", "10.0.0.2:22"]);
    for event in [Event::Init, Event::InitApply(two()), Event::InitDone] {
        table.slice(event);
    }
    assert_eq!(addresses(), ["10.0.0.1:22"]);
    table.slice(Event::Delete(two()));
    assert!(addresses().is_empty());
    table.vm(Event::Delete(vm("web", "ann-web")));
    let objects = table.objects.lock();
    assert!(objects.by_vm.is_empty() && objects.by_namespace.is_empty());
}
