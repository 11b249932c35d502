//! Labels, finalizers and field managers that Kite puts on objects.

use std::collections::BTreeMap;

/// Marks every object that Kite's controller makes.
pub const MANAGED_BY: &str = "hy3ons.github.io/managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGED_BY_CONTROLLER: &str = "kite-controller";
/// Name of the `KiteVirtualMachine` that an object belongs to.
pub const VM_NAME: &str = "hy3ons.github.io/kite-vm-name";
/// Namespace of the `KiteVirtualMachine` that an object belongs to.
pub const VM_NAMESPACE: &str = "hy3ons.github.io/kite-vm-namespace";
/// Name of the `KiteUser` that an object belongs to.
pub const USER_NAME: &str = "hy3ons.github.io/kite-user-name";
/// Name of the `KiteImage` that an object belongs to.
pub const IMAGE_NAME: &str = "hy3ons.github.io/kite-image-name";
/// Name of the `KiteSnapshot` that an object belongs to, in the object's namespace.
pub const SNAPSHOT_NAME: &str = "hy3ons.github.io/kite-snapshot-name";
/// Uid of the `KiteSnapshot` that an object belongs to. What has data has no owner, which a
/// garbage collector would ask; another snapshot of the name is another one.
pub const SNAPSHOT_UID: &str = "hy3ons.github.io/kite-snapshot-uid";
/// Name of the `KiteVolume` that an object belongs to, in the object's namespace.
pub const VOLUME_NAME: &str = "hy3ons.github.io/kite-volume-name";
/// Name of the `KitePlatform` that an object belongs to.
pub const PLATFORM_NAME: &str = "hy3ons.github.io/kite-platform-name";
/// Says what an object is for, where a watch needs to select by that.
pub const COMPONENT: &str = "hy3ons.github.io/component";
/// Value of [`COMPONENT`] on a VM's key Secret.
pub const COMPONENT_SSH_KEY: &str = "ssh-key";
/// Value of [`COMPONENT`] on a VM's access Service and so on its `EndpointSlices`.
pub const COMPONENT_ACCESS: &str = "access";
/// Value of [`COMPONENT`] on the Lease by which a process shows that it is there.
pub const COMPONENT_HEARTBEAT: &str = "heartbeat";
/// Value of [`COMPONENT`] on the Lease by which a replica of the API says that it knows
/// passwords by their `KitePassword`; one of an earlier version has none.
pub const COMPONENT_KEEPS_PASSWORDS: &str = "keeps-passwords";
/// Id of the process that carries a connection, on the connection's object and on
/// the process's heartbeat.
pub const INSTANCE: &str = "hy3ons.github.io/instance";

/// Annotation of a VM's disk: the family of the guest on it, as its image said
/// when it was cloned. Images come and go; the guest stays what it is.
pub const OS_FAMILY: &str = "hy3ons.github.io/os-family";

/// Annotation of a VM's disk that was made for a restore: the time by which that was asked for.
pub const MADE_FOR: &str = "hy3ons.github.io/made-for";
/// Annotation of a VM's disk, and of its machine for the disk that it runs on: when it became
/// the VM's, and by which restore, as JSON. The first disk has none until there is another.
pub const DISK_MARK: &str = "hy3ons.github.io/disk-mark";
/// Annotation of a VM's disk that was made for a restore: the uid of its claim, once a guest
/// has run on that. Then all of its data is there.
pub const HAS_RUN_ON: &str = "hy3ons.github.io/has-run-on";

/// Annotation of a user's namespace: its controller has seen that nothing is in it that is to
/// be kept. An admission policy lets a controller delete no other, those of earlier versions
/// among them, which know of nothing that is to be kept.
pub const EMPTIED: &str = "hy3ons.github.io/emptied";

/// Annotation of the network policy around what a user's VMs reach: the cluster's own addresses
/// that it closes, as JSON, each with when it opens where nobody names it any more.
pub const CLOSED_ADDRESSES: &str = "hy3ons.github.io/closed-addresses";

/// Annotation on a `KiteVirtualMachine` whose disk was lost: the uid of that disk,
/// which stands in `status.disk.uid`. A disk is made from the image then, once.
pub const REPLACE_DISK: &str = "hy3ons.github.io/replace-disk";

/// Annotation on a `KiteVirtualMachine` whose keys were lost and made anew: the
/// present public key, as `status.guestKey` spells the former one. The guest knows it.
pub const GUEST_KEY: &str = "hy3ons.github.io/guest-key";

/// Annotation of a `VolumeSnapshot`: the machine as it was when it was asked for, as JSON.
pub const TAKEN_OF: &str = "hy3ons.github.io/taken-of";
/// Annotation of a `VolumeSnapshot`: how consistent it was found to be. It outlives the
/// status of its `KiteSnapshot`.
pub const CONSISTENCY: &str = "hy3ons.github.io/consistency";

/// Label by which Services find the pods of one of Kite's processes.
pub const APP_NAME: &str = "app.kubernetes.io/name";
/// Label that `KubeVirt` puts on a VM's launcher pod; Services select by it.
pub const KUBEVIRT_VM_NAME: &str = "vm.kubevirt.io/name";
/// Label that Kubernetes puts on the `EndpointSlices` of a Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Name of the API server's own Service, which it keeps in namespace `default`.
pub const API_SERVER_SERVICE: &str = "kubernetes";

/// Selects the `EndpointSlices` of the API server's own Service.
pub fn of_api_server() -> String {
    format!("{SERVICE_NAME}={API_SERVER_SERVICE}")
}

/// Holds a `KiteVirtualMachine` until everything it caused is gone.
pub const VM_FINALIZER: &str = "hy3ons.github.io/kite-vm-cleanup";
/// Holds a `KiteUser` until its VMs and its namespace are gone.
pub const USER_FINALIZER: &str = "hy3ons.github.io/kite-user-cleanup";
/// Holds the network policies around a user's VMs until none of them runs any more,
/// whoever deletes the policies, the namespace or the user.
pub const NETWORK_POLICY_FINALIZER: &str = "hy3ons.github.io/kite-walls";
/// Holds a `KiteImage` until its disk in the image namespace is gone.
pub const IMAGE_FINALIZER: &str = "hy3ons.github.io/kite-image-cleanup";
/// Holds a `KiteSnapshot` until its data is gone, and its guest goes on.
pub const SNAPSHOT_FINALIZER: &str = "hy3ons.github.io/kite-snapshot-cleanup";

/// Holds a `KiteVolume` until no VM has it and its data is gone.
pub const VOLUME_FINALIZER: &str = "hy3ons.github.io/kite-volume-cleanup";

/// Label of a `KiteSnapshot` that a VM's schedule has made: the VM's uid.
pub const SCHEDULE_OF: &str = "hy3ons.github.io/kite-schedule-of";
/// Annotation of such a one: when it was due, in RFC 3339.
pub const DUE_AT: &str = "hy3ons.github.io/due-at";
/// Annotation of such a one: uid and generation of the `VirtualMachine` then.
pub const MACHINE_AT: &str = "hy3ons.github.io/machine-at";

/// Labels of an object that belongs to no VM.
pub fn managed() -> BTreeMap<String, String> {
    BTreeMap::from([(MANAGED_BY.to_owned(), MANAGED_BY_CONTROLLER.to_owned())])
}

/// Labels of an object that belongs to the VM `name` in `namespace`.
pub fn for_vm(namespace: &str, name: &str) -> BTreeMap<String, String> {
    let mut labels = managed();
    labels.insert(VM_NAME.to_owned(), name.to_owned());
    labels.insert(VM_NAMESPACE.to_owned(), namespace.to_owned());
    labels
}

/// Labels of an object that belongs to the user `name`.
pub fn for_user(name: &str) -> BTreeMap<String, String> {
    let mut labels = managed();
    labels.insert(USER_NAME.to_owned(), name.to_owned());
    labels
}

/// Labels of an object that belongs to the platform `name`.
pub fn for_platform(name: &str) -> BTreeMap<String, String> {
    let mut labels = managed();
    labels.insert(PLATFORM_NAME.to_owned(), name.to_owned());
    labels
}

/// Labels of an object that belongs to the image `name`.
pub fn for_image(name: &str) -> BTreeMap<String, String> {
    let mut labels = managed();
    labels.insert(IMAGE_NAME.to_owned(), name.to_owned());
    labels
}

/// Labels of an object that belongs to the snapshot `name` of this uid.
pub fn for_snapshot(name: &str, uid: &str) -> BTreeMap<String, String> {
    let mut labels = managed();
    labels.insert(SNAPSHOT_NAME.to_owned(), name.to_owned());
    labels.insert(SNAPSHOT_UID.to_owned(), uid.to_owned());
    labels
}

/// Labels of an object that belongs to the volume `name`.
pub fn for_volume(name: &str) -> BTreeMap<String, String> {
    let mut labels = managed();
    labels.insert(VOLUME_NAME.to_owned(), name.to_owned());
    labels
}

/// Begins the names of annotations in which the HTTP API notes of accounts and VMs what
/// their owners were told of. One of which nothing is noted begins without news.
pub const TOLD: &str = "hy3ons.github.io/told-";
