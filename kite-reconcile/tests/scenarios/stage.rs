//! Plays `KubeVirt` and CDI by hand, one move at a time, so that a test can stop
//! them, or have them say what it likes.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus,
};
use kite_core::{
    cdi::{DataVolume, DataVolumeStatus},
    cluster::{Cluster as _, ClusterExt as _, FieldManager, KubeCluster, ObjectKey},
    kubevirt::{
        InterfaceStatus, VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceSpec,
        VirtualMachineInstanceStatus, VirtualMachineStatus,
    },
};
use kube::{
    Resource as _, ResourceExt as _,
    api::{ListParams, ObjectMeta, PropagationPolicy},
};

const PLAYER: FieldManager = FieldManager::new("stage");

pub struct Stage {
    cluster: KubeCluster,
    /// Whether disks are filled by themselves.
    pub fills_disks: AtomicBool,
    /// Whether machines start and stop by themselves.
    pub runs_machines: AtomicBool,
}

impl Stage {
    pub fn new(cluster: KubeCluster) -> Self {
        Self {
            cluster,
            fills_disks: AtomicBool::new(true),
            runs_machines: AtomicBool::new(true),
        }
    }

    /// Every object makes one move. Whether any did.
    pub async fn play(&self) -> bool {
        let mut moved = self.let_claims_go().await;
        if self.fills_disks.load(Ordering::SeqCst) {
            let all = ListParams::default();
            let disks = self.cluster.list::<DataVolume>(None, &all).await.unwrap();
            for disk in disks.items {
                moved |= self.fill(&disk).await;
            }
        }
        if self.runs_machines.load(Ordering::SeqCst) {
            let all = ListParams::default();
            let machines = self
                .cluster
                .list::<VirtualMachine>(None, &all)
                .await
                .unwrap();
            for machine in machines.items {
                moved |= self.run(&machine).await;
            }
        }
        moved
    }

    /// A claim is protected until no pod uses it: here, until its instance went.
    async fn let_claims_go(&self) -> bool {
        let all = ListParams::default();
        let claims = self.cluster.list::<PersistentVolumeClaim>(None, &all);
        let mut moved = false;
        for claim in claims.await.unwrap().items {
            let machine = claim.name_any().trim_end_matches("-disk").to_owned();
            let user = ObjectKey::namespaced(claim.namespace().unwrap(), machine);
            let in_use = self.cluster.get_opt::<VirtualMachineInstance>(&user);
            if claim.metadata.deletion_timestamp.is_some() && in_use.await.unwrap().is_none() {
                self.cluster
                    .set_finalizers(&claim, Vec::new())
                    .await
                    .unwrap();
                moved = true;
            }
        }
        moved
    }

    async fn fill(&self, disk: &DataVolume) -> bool {
        let phase = disk.status.as_ref().and_then(|s| s.phase.as_deref());
        match phase {
            None => self.disk_says(disk, "CloneInProgress", "42.0%").await,
            Some("CloneInProgress") => {
                let mut claim = PersistentVolumeClaim {
                    metadata: ObjectMeta {
                        name: disk.metadata.name.clone(),
                        namespace: disk.metadata.namespace.clone(),
                        owner_references: disk.controller_owner_ref(&()).map(|owner| vec![owner]),
                        ..ObjectMeta::default()
                    },
                    ..PersistentVolumeClaim::default()
                };
                let storage = disk.spec.storage.clone().unwrap();
                claim.spec = Some(PersistentVolumeClaimSpec {
                    access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
                    resources: storage.resources,
                    ..PersistentVolumeClaimSpec::default()
                });
                self.cluster.apply(PLAYER, &claim).await.unwrap();
                claim.spec = None;
                claim.status = Some(PersistentVolumeClaimStatus {
                    phase: Some("Bound".to_owned()),
                    ..PersistentVolumeClaimStatus::default()
                });
                self.cluster.apply_status(PLAYER, &claim).await.unwrap();
                self.disk_says(disk, "Succeeded", "100.0%").await;
            }
            Some(_) => return false,
        }
        true
    }

    /// Has CDI report this of a disk.
    pub async fn disk_says(&self, disk: &DataVolume, phase: &str, progress: &str) {
        let mut disk = disk.clone();
        disk.metadata.managed_fields = None;
        disk.metadata.resource_version = None;
        disk.status = Some(DataVolumeStatus {
            phase: Some(phase.to_owned()),
            progress: Some(progress.to_owned()),
            ..DataVolumeStatus::default()
        });
        self.cluster.apply_status(PLAYER, &disk).await.unwrap();
    }

    async fn run(&self, machine: &VirtualMachine) -> bool {
        let key = ObjectKey::of(machine);
        let instance = self
            .cluster
            .get_opt::<VirtualMachineInstance>(&key)
            .await
            .unwrap();
        let disk =
            ObjectKey::namespaced(key.namespace.clone().unwrap(), format!("{}-disk", key.name));
        let filled = self
            .cluster
            .get_opt::<DataVolume>(&disk)
            .await
            .unwrap()
            .and_then(|disk| disk.status)
            .is_some_and(|status| status.phase.as_deref() == Some("Succeeded"));
        let says = machine
            .status
            .as_ref()
            .and_then(|s| s.printable_status.as_deref());
        let on = machine.spec.run_strategy.as_deref() == Some("Always");
        match (on, filled, instance, says) {
            (true, false, _, Some("ErrorUnschedulable"))
            | (true, true, Some(_), Some("Running"))
            | (false, _, None, Some("Stopped")) => return false,
            // What KubeVirt really says while a disk is cloned.
            (true, false, _, _) => self.machine_says(machine, "ErrorUnschedulable").await,
            (true, true, None, _) => {
                self.make_instance(machine).await;
                self.machine_says(machine, "Starting").await;
            }
            (true, true, Some(instance), _) => {
                self.instance_runs(&instance).await;
                self.machine_says(machine, "Running").await;
            }
            (false, _, Some(_), says) if says != Some("Stopping") => {
                self.machine_says(machine, "Stopping").await;
            }
            (false, _, Some(instance), _) => {
                self.cluster
                    .delete_by_uid(&instance, PropagationPolicy::Background)
                    .await
                    .unwrap();
            }
            (false, _, None, _) => self.machine_says(machine, "Stopped").await,
        }
        true
    }

    /// Has `KubeVirt` report this of a machine.
    pub async fn machine_says(&self, machine: &VirtualMachine, printable: &str) {
        let mut machine = machine.clone();
        machine.metadata.managed_fields = None;
        machine.metadata.resource_version = None;
        machine.status = Some(VirtualMachineStatus {
            printable_status: Some(printable.to_owned()),
            ..machine.status.unwrap_or_default()
        });
        self.cluster.apply_status(PLAYER, &machine).await.unwrap();
    }

    async fn make_instance(&self, machine: &VirtualMachine) {
        let template = machine.spec.template.clone();
        let instance = VirtualMachineInstance {
            metadata: ObjectMeta {
                name: machine.metadata.name.clone(),
                namespace: machine.metadata.namespace.clone(),
                labels: template.metadata.and_then(|metadata| metadata.labels),
                owner_references: machine.controller_owner_ref(&()).map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            spec: VirtualMachineInstanceSpec {
                dns_policy: template.spec.dns_policy,
                dns_config: template.spec.dns_config,
                ..VirtualMachineInstanceSpec::default()
            },
            status: None,
        };
        self.cluster.apply(PLAYER, &instance).await.unwrap();
    }

    async fn instance_runs(&self, instance: &VirtualMachineInstance) {
        let mut instance = instance.clone();
        instance.metadata.managed_fields = None;
        instance.metadata.resource_version = None;
        let index = instance.name_any().len();
        instance.status = Some(VirtualMachineInstanceStatus {
            phase: Some("Running".to_owned()),
            node_name: Some("node-a".to_owned()),
            interfaces: vec![InterfaceStatus {
                name: Some("default".to_owned()),
                ip_address: Some(format!("10.0.0.{index}")),
                ip_addresses: Vec::new(),
            }],
            ..VirtualMachineInstanceStatus::default()
        });
        self.cluster.apply_status(PLAYER, &instance).await.unwrap();
    }
}
