//! What the plan of a VM depends on.

use std::ops::Deref;

use futures::try_join;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::PersistentVolumeClaim};
use kite_core::{
    cdi::DataVolume,
    cluster::{Cluster, ObjectKey},
    crd::{KiteImage, KitePlatformSpec, KiteSnapshot, KiteUser, KiteVirtualMachine},
    kubevirt::{KubeVirt, VirtualMachineInstance},
    names::{self},
};
use kite_render::{Vm, disk};
use kube::ResourceExt;

use super::{
    around::{
        activity, find, image, is_next, is_refused, lacks_certificate, lacks_policies,
        left_certificate, look_at_moves, look_for_offer, owner_and_claims, resizing_since, running,
        secret, unless, why_reserved,
    },
    data,
    disks::{Disks, Known, View},
    made::Made,
    offer::OfferSeen,
    orders::Moves,
    quota, snapshots,
    volumes::{self, VolumeSeen},
};
use crate::{
    Error,
    cache::reading::{final_look, going},
    claims::Claims,
    plan::Refusal,
    platform,
    siblings::{self, Siblings},
    standing::{Standing, standing},
};

/// What was seen of a VM and of what it depends on.
#[derive(Clone, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on one another"
)]
pub struct Observed {
    /// When it was looked at.
    pub now: jiff::Timestamp,
    /// When the VM was last used, as the gateway reports it; only looked at when
    /// the VM has an idle timeout.
    pub activity: Option<Lease>,
    /// The platform's settings; the defaults if there are none. Of a VM that goes only
    /// looked at for its certificate.
    pub platform: KitePlatformSpec,
    /// The port of the SSH gateway's Service, as the platform's status says.
    pub gateway_port: Option<u16>,
    /// The addresses of the SSH gateway's Service, as the platform's status says.
    pub gateway_addresses: Vec<String>,
    /// The user in whose namespace the VM is, if it is a user's.
    pub owner: Option<KiteUser>,
    /// Whether a network policy of the owner's namespace is missing; only looked at while the
    /// VM has no machine.
    pub lacks_policies: bool,
    /// All VMs in the owner's namespace; only looked at when the VM is to have more
    /// than it was granted, to judge the owner's quota.
    pub siblings: Siblings<KiteVirtualMachine>,
    /// The offer that the spec names; only looked at while the VM has no disk,
    /// when it has got what was offered, and when it goes.
    pub offer: Option<OfferSeen>,
    /// The image that the spec names.
    pub image: ImageSeen,
    /// Who has the VM's login name and domain.
    pub claims: Claims,
    /// What there is under its names.
    pub made: Made,
    /// Whether its Secrets may not be seen since it is in no user's namespace; only looked
    /// at when it goes.
    pub are_secrets_out_of_reach: bool,
    /// What was refused a while ago or just now, and is not tried again yet.
    pub refused: Vec<Refusal>,
    /// How `KubeVirt` is configured; only looked at while the VM is given more.
    pub kubevirt: Option<KubeVirt>,
    /// The orders to move it for that; only looked at while one is to be given, or may
    /// have been left, and when the VM goes; nothing where the controller may not look.
    pub moves: Option<Moves>,
    /// Since when the VM's status says that it waits for more.
    pub resizing_since: Option<jiff::Timestamp>,
    /// Whether a restart was asked for just now.
    pub restart_asked: bool,
    /// Its instance, while it is on.
    pub instance: Option<VirtualMachineInstance>,
    /// The disk that counts.
    pub disk: Option<DataVolume>,
    /// Its claim; only looked at when there is a disk, or was one with data, and when it may
    /// have to go.
    pub claim: Option<PersistentVolumeClaim>,
    /// The VM's disks beside the one that counts.
    pub disks: Disks,
    /// There is certainly neither, by what the API server itself has said; only looked
    /// at when the disk of a VM that goes is to go next, or its Secrets.
    pub is_surely_off: bool,
    /// The snapshots in its namespace; only looked at where they are taken by a schedule, and
    /// when the VM goes, and its machine has.
    pub snapshots: Option<Vec<KiteSnapshot>>,
    /// The volumes that the spec lists, in its order; none of a VM that goes.
    pub volumes: Vec<VolumeSeen>,
    /// The Secret with the domain's certificate, which somebody else puts there,
    /// is not there.
    pub certificate_missing: bool,
}

/// The image that a VM names.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ImageSeen {
    /// It is in the catalogue.
    Found(Box<KiteImage>),
    /// It is not; these are.
    Unknown {
        /// Some names of images in the catalogue.
        available: Vec<String>,
    },
}

impl Default for ImageSeen {
    fn default() -> Self {
        Self::Unknown {
            available: Vec::new(),
        }
    }
}

impl Observed {
    /// The disk, if it is the VM's own: somebody else's of its name says nothing of
    /// the VM.
    pub(super) fn own_disk(&self, vm: &Vm<'_>) -> Option<&DataVolume> {
        let disk = self.disk.as_ref()?;
        let is_own = standing(&disk.metadata, &disk::metadata(vm)) != Standing::Foreign;
        is_own.then_some(disk)
    }

    /// All disks under names of the VM's, whosever they are: the one that counts first.
    pub(super) fn all_disks(&self) -> impl Iterator<Item = &DataVolume> {
        self.disk.iter().chain(&self.disks.others)
    }

    /// The claim of the disk of this name.
    pub(super) fn claim_of(&self, disk: &str) -> Option<&PersistentVolumeClaim> {
        let mut all = self.claim.iter().chain(&self.disks.claims);
        all.find(|it| it.metadata.name.as_deref() == Some(disk))
    }

    /// Name of the VM's disk and of its claim.
    pub(super) fn disk_name(&self, vm: &Vm<'_>) -> String {
        match &self.disk {
            Some(disk) => disk.name_any(),
            None => View::of(vm, Known::of(self)).current(),
        }
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// [`Error::Cluster`] if the API server refuses a read, [`Error::Render`] if the object has
    /// no name, namespace or uid.
    pub async fn read<C: Cluster>(object: &KiteVirtualMachine, cluster: &C) -> Result<Self, Error> {
        let vm = Vm::of(object)?;
        let deleting = object.metadata.deletion_timestamp.is_some();
        let own = |name: String| ObjectKey::namespaced(vm.namespace, name);

        let ((owner, claims), image) = try_join!(
            Box::pin(owner_and_claims(cluster, &vm)),
            // A VM goes whatever it is.
            unless(deleting, image(cluster, &object.spec.image)),
        )?;
        let (key_secret, cloud_init, all, (mut machine, mut instance)) = try_join!(
            secret(cluster, own(names::ssh_key_secret(vm.name)), deleting),
            secret(cluster, own(names::cloud_init_secret(vm.name)), deleting),
            data::find(&vm, None, cluster),
            running(cluster, own(vm.name.to_owned()), object),
        )?;
        let are_secrets_out_of_reach =
            deleting && owner.is_none() && is_refused(cluster, &vm).await;
        let is_next = deleting && is_next(&all, [key_secret.as_ref(), cloud_init.as_ref()]);
        let mut is_surely_off = false;
        if is_next && machine.is_none() && instance.is_none() {
            let running = running(cluster, own(vm.name.to_owned()), object);
            (machine, instance) = final_look(going(object), running).await?;
            is_surely_off = machine.is_none() && instance.is_none();
        }
        let (access_service, web_service, ingress, route) = try_join!(
            find(cluster, own(names::access_service(vm.name))),
            find(cluster, own(names::web_service(vm.name))),
            find(cluster, own(vm.name.to_owned())),
            // None, too, in a cluster without the Gateway API.
            find(cluster, own(vm.name.to_owned())),
        )?;
        let run = (machine.as_ref(), instance.as_ref());
        let data = Box::pin(data::look(cluster, &vm, run, all)).await?;
        let snapshots = snapshots::look(&vm, run.0, data.metadata(), cluster).await?;
        let volumes = volumes::look(&vm, &claims, run.0, cluster).await?;
        let (kubevirt, moves) = look_at_moves(cluster, &vm, run).await?;
        let activity = if object.spec.idle_timeout.is_some() && !deleting {
            activity(cluster, &vm, machine.as_ref()).await?
        } else {
            None
        };
        let offer = look_for_offer(cluster, object, data.disk.as_ref()).await?;
        let lacks_policies = owner.is_some()
            && machine.is_none()
            && !deleting
            && lacks_policies(cluster, vm.namespace, data.metadata().next().is_some()).await?;
        let certificate = left_certificate(cluster, &vm, deleting).await?;
        // What is switched off does not wait for settings to be mended. Of what goes only
        // its certificate is judged by them.
        let platform = platform::find_as_it_is(cluster);
        let platform = unless(deleting && certificate.is_none(), platform).await?;
        let (platform, reached) = platform
            .map(|platform| (platform.spec, platform.status.unwrap_or_default()))
            .unwrap_or_default();
        let mut claims = claims;
        claims.reserve(|claim| why_reserved(&platform, claim));
        let certificate_missing = !deleting && lacks_certificate(cluster, &vm, &platform).await?;
        // It is held while others are looked at.
        let mut seen = Box::new(Self {
            now: jiff::Timestamp::default(),
            activity,
            offer,
            platform,
            gateway_port: reached.gateway_port,
            gateway_addresses: reached.gateway_addresses,
            certificate_missing,
            owner,
            lacks_policies,
            siblings: Siblings::default(),
            image,
            claims,
            are_secrets_out_of_reach,
            made: Made {
                ingress,
                route,
                access_service,
                web_service,
                machine,
                certificate,
                cloud_init,
                key_secret,
            },
            refused: Vec::new(),
            kubevirt,
            moves,
            resizing_since: resizing_since(object),
            restart_asked: false,
            instance,
            disk: data.disk,
            claim: data.claim,
            disks: data.disks,
            is_surely_off,
            snapshots,
            volumes,
        });
        if seen.owner.is_some() && !deleting && quota::asks(&vm, &seen) {
            seen.siblings = siblings::told(object, cluster).await?;
        }
        Ok(*seen)
    }

    /// Whether it cannot be read what the owner's quota is.
    pub(super) fn is_owner_unread(&self) -> bool {
        let owner = self.owner.as_ref();
        owner.is_some_and(|owner| owner.spec.unreadable.is_some())
    }
}

impl Deref for Observed {
    type Target = Made;

    fn deref(&self) -> &Made {
        &self.made
    }
}
