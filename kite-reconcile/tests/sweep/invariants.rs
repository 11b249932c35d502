//! What holds after every step, whatever goes wrong.
//!
//! What a rival does by itself (deletes a disk, say) is no fault of Kite's:
//! events by "… or a rival" are let pass where the rival may have caused them.

mod disks;
mod volumes;

use jiff::SignedDuration;

use kite_core::{
    crd::{EXPIRY_GRACE_PERIOD, Identity, KiteVirtualMachine},
    labels, names,
};
use kite_fake::{
    sim::{Builder, Event},
    state::Snapshot,
    store::{Change, GroupResource, Object},
};
use serde_json::Value;

const CDI: &str = "cdi.kubevirt.io";
const KITE: &str = "hy3ons.github.io";
const KUBEVIRT: &str = "kubevirt.io";

/// Adds all of them.
pub fn always(builder: Builder) -> Builder {
    volumes::always(disks::always(builder))
        .always(
            "a VM goes only when it was told to, or had told so",
            vms_stay,
        )
        .always("keys are made once, and go only with their VM", keys_stay)
        .always("nobody refers to another tenant's", tenants_are_apart)
        .always("network policies stand while there are VMs", policies_stand)
        .always("a claim stays with its living holder", claims_stay)
        .always(
            "only who holds a name is reached by it",
            only_holders_are_reached,
        )
        .always("a machine has what it starts from", machines_are_complete)
        .always("who is gone has left nothing", nothing_is_left)
        .always("what is offered goes to who holds it", offers_are_held)
        .always("who is gone holds no name", nobody_gone_holds_a_name)
        .always("nobody clones an image that goes", images_go_unnamed)
        .always(
            "an instance is moved once at a time, and not without end",
            moves_are_few,
        )
}

fn by_rival(event: &Event) -> bool {
    event.by.contains("rival")
}

/// By somebody whom Kite does not tell what to do.
fn by_others(event: &Event) -> bool {
    event.by == "scenario" || by_rival(event)
}

fn find<'a>(
    state: &'a Snapshot,
    group: &str,
    plural: &str,
    namespace: &str,
    name: &str,
) -> Option<&'a Object> {
    state.get(&GroupResource::new(group, plural), namespace, name)
}

fn vm<'a>(state: &'a Snapshot, namespace: &str, name: &str) -> Option<&'a Object> {
    find(state, KITE, "kitevirtualmachines", namespace, name)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// All objects of a kind in a namespace.
fn within<'a>(
    state: &'a Snapshot,
    group: &'static str,
    plural: &'static str,
    namespace: &'a str,
) -> impl Iterator<Item = &'a Object> {
    state
        .objects()
        .filter(move |(resource, key, _)| {
            resource.plural == plural && resource.group == group && key.namespace == namespace
        })
        .map(|(_, _, object)| object)
}

/// Whether the event begins or completes the deletion of the object.
fn is_deletion(event: &Event) -> bool {
    match event.change {
        Change::Added => false,
        Change::Deleted => true,
        Change::Modified => {
            let was = event.previous.as_ref().is_some_and(|o| o.is_deleting());
            event.object.is_deleting() && !was
        }
    }
}

/// Whether what had the object made it for good: its VM is not deleted.
fn is_kept(state: &Snapshot, namespace: &str, vm_name: &str) -> bool {
    vm(state, namespace, vm_name).is_some_and(|vm| !vm.is_deleting())
}

/// A VM goes because somebody asked for it, with its user, or when its time was
/// over, its status said so, and all the grace that it was promised has passed.
fn vms_stay(state: &Snapshot, event: &Event) -> bool {
    let was_going = event.previous.as_ref().is_some_and(|it| it.is_deleting());
    let by_request = event.by == "scenario" || by_rival(event) || was_going;
    if event.kind != "KiteVirtualMachine" || !is_deletion(event) || by_request {
        return true;
    }
    let tenant = names::user_of_namespace(&event.namespace);
    let user = tenant.and_then(|tenant| find(state, KITE, "kiteusers", "", tenant));
    let namespace = find(state, "", "namespaces", "", &event.namespace);
    if user.is_some_and(|it| it.is_deleting()) || namespace.is_none_or(|it| it.is_deleting()) {
        return true;
    }
    let Ok(vm) = serde_json::from_value::<KiteVirtualMachine>(event.object.to_value()) else {
        return false;
    };
    let grace = vm.spec.expiry_grace_period.map(|grace| grace.duration());
    let Ok(grace) = SignedDuration::try_from(grace.unwrap_or(EXPIRY_GRACE_PERIOD)) else {
        return false;
    };
    let told = vm.status.and_then(|status| status.expiry);
    let (Some(ends), Some(told)) = (vm.spec.expires_at, told) else {
        return false;
    };
    told.expired_at.0 >= ends.0
        && told.delete_at.0 >= told.expired_at.0 + grace
        && told.delete_at.0 <= state.taken()
}

/// Whether the user of a namespace goes, or the namespace itself.
fn owner_goes(state: &Snapshot, namespace: &str) -> bool {
    let user = names::user_of_namespace(namespace);
    let user = user.and_then(|user| find(state, KITE, "kiteusers", "", user));
    let namespace = find(state, "", "namespaces", "", namespace);
    user.is_none_or(|it| it.is_deleting()) || namespace.is_none_or(|it| it.is_deleting())
}

fn keys_stay(state: &Snapshot, event: &Event) -> bool {
    if event.kind != "Secret" || by_rival(event) {
        return true;
    }
    let Some(vm_name) = event.name.strip_suffix("-ssh-key") else {
        return true;
    };
    if is_deletion(event) {
        return !is_kept(state, &event.namespace, vm_name);
    }
    let before = event.previous.as_ref();
    before.is_none_or(|before| before.value()["data"] == event.object.value()["data"])
}

fn tenants_are_apart(state: &Snapshot, event: &Event) -> bool {
    let is_tenants = names::user_of_namespace(&event.namespace);
    let (Some(tenant), false) = (is_tenants, event.change == Change::Deleted) else {
        return true;
    };
    let object = event.object.value();
    let label = |name: &str| object["metadata"]["labels"][name].as_str();
    let labels_are_right = label(labels::VM_NAMESPACE).is_none_or(|l| l == event.namespace)
        && label(labels::USER_NAME).is_none_or(|l| l == tenant);
    // What is referred to by name lies in the same namespace; a disk's source
    // says its namespace by itself.
    let of_images = |reference: &Value| {
        let namespace = &reference["namespace"];
        namespace.is_null() || text(namespace) == names::IMAGE_NAMESPACE
    };
    let source_is_right = event.kind != "DataVolume"
        || (of_images(&object["spec"]["sourceRef"])
            && of_images(&object["spec"]["source"]["pvc"])
            && disks::is_of_its_vm(state, event, &object["spec"]["source"]["snapshot"]));
    let owner_is_right = |owner: &Value| match text(&owner["kind"]) {
        "KiteVirtualMachine" => {
            let of_label = label(labels::VM_NAME).is_none_or(|l| l == text(&owner["name"]));
            let live = vm(state, &event.namespace, text(&owner["name"]));
            of_label
                && live.is_none_or(|vm| vm.meta("uid") == text(&owner["uid"]) || by_rival(event))
        }
        "KiteUser" => text(&owner["name"]) == tenant,
        _ => true,
    };
    let owners = object["metadata"]["ownerReferences"].as_array();
    let volumes = object["spec"]["template"]["spec"]["volumes"].as_array();
    let own_volume = |volume: &Value| {
        let disk = &volume["dataVolume"]["name"];
        let secret = &volume["cloudInitNoCloud"]["secretRef"]["name"];
        // Which VM has a volume is asked elsewhere.
        let is_own = |disk: &str| {
            names::number_of_disk(&event.name, disk).is_some()
                || names::volume_of_disk(disk).is_some()
        };
        (disk.is_null() || is_own(text(disk)))
            && (secret.is_null() || text(secret) == names::cloud_init_secret(&event.name))
    };
    let is_machine = event.kind == "VirtualMachine";
    labels_are_right
        && source_is_right
        && owners.into_iter().flatten().all(owner_is_right)
        && (!is_machine || volumes.into_iter().flatten().all(own_volume))
}

fn policies_stand(state: &Snapshot, event: &Event) -> bool {
    use kite_render::isolation::{CDI_POLICY, EGRESS_POLICY, INGRESS_POLICY};
    if names::user_of_namespace(&event.namespace).is_none() || by_rival(event) {
        return true;
    }
    let namespace = &event.namespace;
    let are_there = [INGRESS_POLICY, EGRESS_POLICY, CDI_POLICY]
        .iter()
        .all(|name| {
            find(
                state,
                "networking.k8s.io",
                "networkpolicies",
                namespace,
                name,
            )
            .is_some()
        });
    match (event.kind.as_str(), event.change) {
        // Nothing is there that could be reached.
        ("NetworkPolicy", Change::Deleted) => {
            within(state, KUBEVIRT, "virtualmachineinstances", namespace)
                .next()
                .is_none()
                && within(state, KUBEVIRT, "virtualmachines", namespace)
                    .next()
                    .is_none()
        }
        ("VirtualMachine" | "DataVolume", Change::Added) => are_there,
        _ => true,
    }
}

/// The object that holds a claim, if it is there and is the same one.
fn holder<'a>(state: &'a Snapshot, claim: &Value) -> Option<&'a Object> {
    let holder = &claim["spec"]["holder"];
    let (namespace, name) = (text(&holder["namespace"]), text(&holder["name"]));
    let found = match text(&holder["kind"]) {
        "KiteUser" => find(state, KITE, "kiteusers", "", name),
        _ => vm(state, namespace, name),
    };
    found.filter(|found| found.meta("uid") == text(&holder["uid"]))
}

/// The disk of a VM that its machine points at, if it is its own; else its first.
fn own_disk<'a>(state: &'a Snapshot, vm: &Object) -> Option<&'a Object> {
    let (namespace, name) = (vm.meta("namespace"), vm.meta("name"));
    let machine = find(state, KUBEVIRT, "virtualmachines", namespace, name);
    let pointed = machine.and_then(|it| root_of(it, "/spec/template/spec/volumes"));
    let disk = pointed.unwrap_or_else(|| names::disk(name));
    let disk = find(state, CDI, "datavolumes", namespace, &disk);
    disk.filter(|disk| controller(disk) == Some(vm.meta("uid")))
}

/// The disk that a machine points at, or an instance has.
fn root_of(object: &Object, volumes: &str) -> Option<String> {
    let value = object.to_value();
    let volumes = value.pointer(volumes)?.as_array()?;
    let mut names = volumes.iter().map(|it| &it["dataVolume"]["name"]);
    names.find_map(|it| it.as_str().map(str::to_owned))
}

/// Whether the holder of a claim has a disk of its own, filled.
fn has_a_disk(state: &Snapshot, claim: &Value) -> bool {
    let Some(vm) = holder(state, claim) else {
        return false;
    };
    let namespace = vm.meta("namespace");
    let disk = own_disk(state, vm);
    let name = disk.map_or_else(
        || names::disk(vm.meta("name")),
        |it| it.meta("name").to_owned(),
    );
    let claim = find(state, "", "persistentvolumeclaims", namespace, &name);
    let phase = |object: &Object| text(&object.value()["status"]["phase"]).to_owned();
    disk.is_some_and(|disk| {
        let claim = claim.filter(|claim| controller(claim) == Some(disk.meta("uid")));
        phase(disk) == "Succeeded" && claim.is_some_and(|claim| phase(claim) == "Bound")
    })
}

/// Whether a claim says that its holder got what it stands for.
fn is_fulfilled(claim: &Value) -> bool {
    claim["spec"]["fulfilled"] == true
}

fn claims_stay(state: &Snapshot, event: &Event) -> bool {
    if event.kind != "KiteReservation" || by_rival(event) {
        return true;
    }
    let claim = event.object.value();
    match event.change {
        Change::Added => !is_fulfilled(claim) && !is_given_back(claim),
        Change::Modified
            if event
                .previous
                .as_ref()
                .is_some_and(|it| is_given_back(it.value())) =>
        {
            let before = event.previous.as_ref().map(|it| it.value());
            before.is_some_and(|before| is_taken_back_rightly(state, before, claim))
        }
        // Given back, to be kept.
        Change::Modified if is_given_back(claim) => may_be_released(state, claim, &event.name),
        Change::Modified => event.previous.as_ref().is_none_or(|before| {
            let before = before.value();
            let is = |field: &str| before["spec"][field] == claim["spec"][field];
            // That its holder got what was offered is only ever added, and true.
            let was = is_fulfilled(before);
            let is_true = if is_fulfilled(claim) {
                was || has_a_disk(state, claim)
            } else {
                !was
            };
            is("claim") && is("holder") && is_true
        }),
        Change::Deleted => match names::vm_claim_of_reservation(&event.name) {
            Some(names::VmClaim::Offer(offer)) => may_be_given_back(state, claim, offer),
            // Somebody else would get what has to be kept.
            Some(names::VmClaim::SshId(_) | names::VmClaim::Domain(_)) => false,
            Some(names::VmClaim::Volume { .. }) => {
                may_be_released(state, claim, &event.name) && volumes::is_let_go(state, event)
            }
            None => may_be_released(state, claim, &event.name),
        },
    }
}

fn is_given_back(claim: &Value) -> bool {
    !claim["spec"]["kept"].is_null()
}

/// Whether the holder of the claim `name`, if there is one, goes or does not want it.
fn may_be_released(state: &Snapshot, claim: &Value, name: &str) -> bool {
    holder(state, claim).is_none_or(|holder| {
        let spec = &holder.value()["spec"];
        let is_wanted = match names::vm_claim_of_reservation(name) {
            Some(names::VmClaim::SshId(id)) => text(&spec["sshId"]) == id,
            Some(names::VmClaim::Domain(prefix)) => text(&spec["domainPrefix"]) == prefix,
            Some(names::VmClaim::Volume { volume, .. }) => {
                let mut listed = spec["volumes"].as_array().into_iter().flatten();
                listed.any(|it| text(&it["volume"]) == volume)
            }
            _ => {
                name == names::username_reservation(text(&spec["username"]))
                    || name == names::email_reservation(text(&spec["email"]))
                    || identities(spec).any(|it| name == it)
            }
        };
        holder.is_deleting() || !is_wanted
    })
}

/// Whether a claim that was kept goes to a VM of its former owner, who is still the
/// same, and to nobody else.
fn is_taken_back_rightly(state: &Snapshot, before: &Value, claim: &Value) -> bool {
    let namespace = |claim: &Value| claim["spec"]["holder"]["namespace"].clone();
    let user = namespace(claim);
    let user = names::user_of_namespace(text(&user)).map(str::to_owned);
    let user = user.and_then(|user| find(state, KITE, "kiteusers", "", &user));
    let is_same = user.is_none_or(|user| before["spec"]["kept"]["userUid"] == user.meta("uid"));
    let stays = is_given_back(claim) && before["spec"] == claim["spec"];
    stays || (!is_given_back(claim) && namespace(before) == namespace(claim) && is_same)
}

/// The reservations of who a user is at OpenID Connect providers.
fn identities(spec: &Value) -> impl Iterator<Item = String> {
    let identities: Vec<Identity> =
        serde_json::from_value(spec["identities"].clone()).unwrap_or_default();
    identities
        .into_iter()
        .map(|identity| identity.reservation())
}

/// The claim to an offer goes with the offer; else only when its holder has not
/// had what was offered, and either goes or has no disk.
fn may_be_given_back(state: &Snapshot, claim: &Value, offer: &str) -> bool {
    let offer = find(state, KITE, "kitevirtualmachineoffers", "", offer);
    let made_for = &claim["metadata"]["ownerReferences"][0]["uid"];
    let is_offered =
        offer.is_some_and(|offer| !offer.is_deleting() && offer.meta("uid") == text(made_for));
    if !is_offered {
        return true;
    }
    let has_disk = holder(state, claim)
        .filter(|vm| !vm.is_deleting())
        .is_some_and(|vm| own_disk(state, vm).is_some());
    !is_fulfilled(claim) && !has_disk && !has_a_disk(state, claim)
}

/// Whether the VM holds the claim.
fn holds(state: &Snapshot, vm: &Object, reservation: &str) -> bool {
    let claim = find(state, KITE, "kitereservations", "", reservation);
    claim.is_some_and(|claim| {
        let claim = claim.value();
        text(&claim["spec"]["holder"]["uid"]) == vm.meta("uid") && !is_given_back(claim)
    })
}

fn only_holders_are_reached(state: &Snapshot, event: &Event) -> bool {
    if by_rival(event) {
        return true;
    }
    let owner = |object: &Object| {
        let name = object.label(labels::VM_NAME)?.into_owned();
        vm(state, &event.namespace, &name).cloned()
    };
    match (event.kind.as_str(), event.change) {
        ("Service", Change::Added) if event.name.starts_with("vps-access-") => owner(&event.object)
            .is_some_and(|vm| {
                let id = text(&vm.value()["spec"]["sshId"]).to_owned();
                holds(state, &vm, &names::ssh_id_reservation(&id))
            }),
        ("Ingress" | "HTTPRoute", _) if event.object.label(labels::VM_NAME).is_none() => true,
        ("Ingress" | "HTTPRoute", Change::Added | Change::Modified)
            if !event.object.is_deleting() =>
        {
            owner(&event.object).is_some_and(|vm| {
                let prefix = prefix_of(&event.object).to_owned();
                holds(state, &vm, &names::domain_reservation(&prefix))
            })
        }
        // Before a name is given up, nobody is reached by it any more.
        ("KiteReservation", _) if is_given_back(event.object.value()) => {
            let Some(vm) = holder(state, event.object.value()) else {
                return true;
            };
            let namespace = vm.meta("namespace");
            match names::vm_claim_of_reservation(&event.name) {
                Some(names::VmClaim::Domain(prefix)) => ROADS.iter().all(|(group, plural)| {
                    let road = find(state, group, plural, namespace, vm.meta("name"));
                    road.is_none_or(|road| prefix_of(road) != prefix)
                }),
                Some(names::VmClaim::SshId(_)) => {
                    let service = names::access_service(vm.meta("name"));
                    find(state, "", "services", namespace, &service).is_none()
                }
                // Nobody is reached by an offer, nor by a volume.
                Some(names::VmClaim::Offer(_) | names::VmClaim::Volume { .. }) | None => true,
            }
        }
        _ => true,
    }
}

/// What leads to the domain of a VM.
const ROADS: &[(&str, &str)] = &[
    ("networking.k8s.io", "ingresses"),
    ("gateway.networking.k8s.io", "httproutes"),
];

/// The first label of the host that an Ingress or a route is for.
fn prefix_of(road: &Object) -> &str {
    let spec = &road.value()["spec"];
    let host = match text(&spec["rules"][0]["host"]) {
        "" => text(&spec["hostnames"][0]),
        host => host,
    };
    host.split('.').next().unwrap_or_default()
}

/// A machine is made when its disk and its user data are there, and the user
/// data is made of the keys that are there.
fn machines_are_complete(state: &Snapshot, event: &Event) -> bool {
    let is_new = event.change == Change::Added && event.kind == "VirtualMachine";
    if !is_new || by_rival(event) {
        return true;
    }
    let secret = |name: String| find(state, "", "secrets", &event.namespace, &name);
    let (Some(user_data), Some(keys)) = (
        secret(names::cloud_init_secret(&event.name)),
        secret(names::ssh_key_secret(&event.name)),
    ) else {
        return false;
    };
    let disk = root_of(&event.object, "/spec/template/spec/volumes");
    let disk = disk.and_then(|it| find(state, CDI, "datavolumes", &event.namespace, &it));
    let decoded = |object: &Object, key: &str| {
        let secret: Option<k8s_openapi::api::core::v1::Secret> =
            serde_json::from_value(object.to_value()).ok();
        let bytes = secret.and_then(|secret| secret.data?.remove(key))?;
        String::from_utf8(bytes.0).ok()
    };
    let public = decoded(keys, names::key_secret::CLIENT_PUBLIC).unwrap_or_default();
    let user_data = decoded(user_data, "userdata").unwrap_or_default();
    disk.is_some() && !public.is_empty() && user_data.contains(public.trim_end())
}

/// What is gone for good has left nothing of its own.
fn nothing_is_left(state: &Snapshot, event: &Event) -> bool {
    if event.change != Change::Deleted || by_rival(event) {
        return true;
    }
    match event.kind.as_str() {
        "KiteVirtualMachine" => {
            let uid = event.object.meta("uid");
            let kinds = [
                "DataVolume",
                "Service",
                "Ingress",
                "HTTPRoute",
                "Secret",
                "VirtualMachine",
            ];
            let has_gone = |object: &Object| {
                let owners = object.value()["metadata"]["ownerReferences"].as_array();
                let is_owner = |owner: &Value| text(&owner["uid"]) == uid;
                !kinds.contains(&text(&object.value()["kind"]))
                    || !owners.into_iter().flatten().any(is_owner)
            };
            let mut all = state
                .objects()
                .filter(|(_, key, _)| key.namespace == event.namespace);
            all.all(|(_, _, object)| has_gone(object))
        }
        "KiteUser" => {
            let namespace = names::user_namespace(&event.name);
            let left = find(state, "", "namespaces", "", &namespace);
            left.is_none_or(|left| {
                let owner = &left.value()["metadata"]["ownerReferences"][0]["uid"];
                text(owner) != event.object.meta("uid")
            })
        }
        _ => true,
    }
}

/// A disk of a VM that names an offer is made only while the VM holds its claim.
fn offers_are_held(state: &Snapshot, event: &Event) -> bool {
    if event.kind != "DataVolume" || event.change != Change::Added || by_rival(event) {
        return true;
    }
    let owner = event.object.label(labels::VM_NAME);
    let owner = owner.and_then(|name| vm(state, &event.namespace, &name));
    owner.is_none_or(|vm| {
        let offer = text(&vm.value()["spec"]["offer"]);
        offer.is_empty() || holds(state, vm, &names::offer_reservation(offer))
    })
}

fn nobody_gone_holds_a_name(state: &Snapshot, event: &Event) -> bool {
    let may_hold = matches!(event.kind.as_str(), "KiteVirtualMachine" | "KiteUser");
    if !may_hold || event.change != Change::Deleted || by_rival(event) {
        return true;
    }
    let uid = event.object.meta("uid");
    let mut claims = within(state, KITE, "kitereservations", "");
    !claims.any(|claim| {
        // Who has had what an offer was for keeps it from others for good.
        let claim = claim.value();
        let is_held = !is_fulfilled(claim) && !is_given_back(claim);
        text(&claim["spec"]["holder"]["uid"]) == uid && is_held
    })
}

/// The uid of what an object is controlled by.
fn controller(object: &Object) -> Option<&str> {
    let owners = object.value()["metadata"]["ownerReferences"].as_array()?;
    let controller = owners.iter().find(|owner| owner["controller"] == true)?;
    controller["uid"].as_str()
}

/// The `DataSource` that clones begin with goes before the disk that they are
/// made of.
fn images_go_unnamed(state: &Snapshot, event: &Event) -> bool {
    let is_images = event.kind == "DataVolume" && event.namespace == names::IMAGE_NAMESPACE;
    if !is_images || !is_deletion(event) || by_rival(event) {
        return true;
    }
    let owner = controller(&event.object);
    let mut sources = within(state, CDI, "datasources", names::IMAGE_NAMESPACE);
    !sources.any(|source| {
        let leads_to = &source.value()["spec"]["source"]["pvc"]["name"];
        text(leads_to) == event.name && owner.is_some() && controller(source) == owner
    })
}

/// Of one instance there is one migration at a time that is not over, and of those that are
/// over nobody leaves many.
fn moves_are_few(state: &Snapshot, event: &Event) -> bool {
    if event.kind != "VirtualMachineInstanceMigration" || event.change == Change::Deleted {
        return true;
    }
    let instance = |order: &Object| text(&order.value()["spec"]["vmiName"]).to_owned();
    let of = instance(&event.object);
    let plural = "virtualmachineinstancemigrations";
    let all = within(state, KUBEVIRT, plural, &event.namespace);
    let all: Vec<&Object> = all.filter(|it| instance(it) == of).collect();
    let is_over = |it: &&Object| {
        let phase = text(&it.value()["status"]["phase"]);
        matches!(phase, "Succeeded" | "Failed")
    };
    let over = all.iter().filter(|it| is_over(it)).count();
    all.len() <= over + 1 && over <= 6
}

/// The kind is known by its name in several places above.
#[test]
fn the_kinds_are_called_so() {
    use kube::Resource as _;
    assert_eq!(KiteVirtualMachine::plural(&()), "kitevirtualmachines");
    assert_eq!(KiteVirtualMachine::group(&()), KITE);
    assert_eq!(
        kite_core::crd::KiteReservation::plural(&()),
        "kitereservations"
    );
    assert_eq!(kite_core::crd::KiteUser::plural(&()), "kiteusers");
}
