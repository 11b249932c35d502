//! Settings of `KubeVirt` and CDI on which Kite rests, and which they do not have by
//! themselves.

use k8s_openapi::api::{apps::v1::Deployment, storage::v1::StorageClass};
use kite_core::{
    crd::{KiteImage, OsFamily},
    names,
};
use kite_render::{install::Process, namespace::PodSecurity};
use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::Value;

use super::{
    facts::{Facts, Seen},
    finding::{Finding, State},
};

const LIVE_RESIZE: &str = "liveResize";
const POD_SECURITY: &str = "podSecurity";
const DATA_VOLUMES: &str = "dataVolumes";
const VM_STATE: &str = "vmState";
/// Annotation of the `StorageClass` of claims that name none.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// The variable by which the controller is told what is demanded of pods.
const LEVEL: &str = "KITE_POD_SECURITY";

/// What is found of them, where they are installed at all.
pub(super) fn settings(facts: &Facts) -> Vec<Finding> {
    let first = |seen: &Seen<Vec<DynamicObject>>| seen.known()?.first().cloned();
    let mut findings = Vec::new();
    if let Some(kubevirt) = first(&facts.kubevirt) {
        findings.push(live_resize(&kubevirt));
        findings.push(pod_security(facts, &kubevirt));
    }
    findings.extend(first(&facts.cdi).map(|cdi| data_volumes(&cdi)));
    findings.extend(vm_state(facts));
    findings
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// More processors and memory reach a VM that runs by a live migration, which Kite orders
/// where `KubeVirt` was not told to begin it.
fn live_resize(kubevirt: &DynamicObject) -> Finding {
    let spec = &kubevirt.data["spec"];
    if spec["configuration"]["vmRolloutStrategy"] == "Stage" {
        return Finding::fit(LIVE_RESIZE, "VMs take another size when they restart");
    }
    let methods = &spec["workloadUpdateStrategy"]["workloadUpdateMethods"];
    let who = if texts(methods).any(|it| it == "LiveMigrate") {
        "KubeVirt"
    } else {
        "Kite"
    };
    Finding::fit(
        LIVE_RESIZE,
        format!("VMs that can move take another size while they run, for which {who} moves them"),
    )
}

/// Whether `KubeVirt`'s pods are let into users' namespaces.
fn pod_security(facts: &Facts, kubevirt: &DynamicObject) -> Finding {
    let gates = &kubevirt.data["spec"]["configuration"]["developerConfiguration"]["featureGates"];
    let gate = texts(gates).find(|it| ["Root", "PSA"].contains(it));
    let level = level(facts).unwrap_or_else(|| PodSecurity::default().name().to_owned());
    match gate {
        Some(gate) if level != PodSecurity::Privileged.name() => Finding::of(
            POD_SECURITY,
            State::Warning,
            format!(
                "KubeVirt's feature gate {gate} asks for privileged namespaces, and those of users \
                 are {level}: pods of VMs are refused"
            ),
            format!(
                "take {gate} off spec.configuration.developerConfiguration.featureGates of the \
                 KubeVirt, or install with --pod-security privileged"
            ),
        ),
        _ => Finding::fit(
            POD_SECURITY,
            format!("users' namespaces are {level}, which suits KubeVirt"),
        ),
    }
}

/// What the controller that is installed demands; nothing where there is none.
fn level(facts: &Facts) -> Option<String> {
    let is_controller = |it: &&Deployment| it.name_any() == Process::Controller.name();
    let controller = facts.deployments.known()?.iter().find(is_controller)?;
    let pod = controller.spec.template.spec.as_ref()?;
    let mut variables = pod.containers.iter().flat_map(|it| it.env.iter().flatten());
    variables.find(|it| it.name == LEVEL)?.value.clone()
}

/// Whether there is somewhere to keep what the firmware and the TPM of a Windows VM
/// remember; nothing where no image is of Windows.
fn vm_state(facts: &Facts) -> Option<Finding> {
    let images = facts.images.known()?;
    let is_windows = |it: &&KiteImage| it.spec.os_family == OsFamily::Windows;
    let image = images.iter().find(is_windows)?.name_any();
    let kubevirt = facts.kubevirt.known()?.first()?;
    let classes = facts.storage_classes.known()?;
    let named = kubevirt.data["spec"]["configuration"]["vmStateStorageClass"].as_str();
    let named = named.filter(|it| !it.is_empty());
    let is_default = |class: &&StorageClass| {
        let default = class.annotations().get(DEFAULT_CLASS);
        default.is_some_and(|it| it == "true")
    };
    let class = match named {
        Some(named) => classes.iter().find(|it| it.name_any() == named),
        None => classes.iter().find(is_default),
    };
    if let Some(class) = class {
        let message = format!(
            "what Windows VMs' firmware keeps is on {}",
            class.name_any()
        );
        return Some(Finding::fit(VM_STATE, message));
    }
    let lacking = match named {
        Some(named) => format!("vmStateStorageClass {named:?} of the KubeVirt is not there"),
        None => "the KubeVirt names no vmStateStorageClass, and no StorageClass is the default"
            .to_owned(),
    };
    let (name, namespace) = (kubevirt.name_any(), kubevirt.namespace());
    let place = namespace.map(|it| format!(" -n {it}")).unwrap_or_default();
    Some(Finding::of(
        VM_STATE,
        State::Warning,
        format!(
            "VMs of Windows images such as {image} do not start: KubeVirt keeps what their TPM \
             and their UEFI remember on a volume, and {lacking}"
        ),
        format!(
            "kubectl patch{place} kubevirt {name} --type merge -p \
             '{{\"spec\":{{\"configuration\":{{\"vmStateStorageClass\":\"{}\"}}}}}}', or another class \
             of yours",
            names::STORAGE_CLASS
        ),
    ))
}

/// Whether CDI leaves `DataVolumes` alone that are done: Kite's disks are in them.
fn data_volumes(cdi: &DynamicObject) -> Finding {
    let seconds = &cdi.data["spec"]["config"]["dataVolumeTTLSeconds"];
    match seconds.as_i64() {
        Some(seconds) if seconds >= 0 => Finding::of(
            DATA_VOLUMES,
            State::Unfit,
            format!(
                "CDI deletes DataVolumes {seconds} s after they are done (dataVolumeTTLSeconds): \
                 every VM loses that of its disk (DiskUnmanaged). Its data stays in its claim, \
                 from which it starts; but its disk cannot grow any more, and one whose DataVolume \
                 goes before Kite has seen it filled is taken for one that was never made"
            ),
            format!(
                "kubectl patch cdi {} --type merge -p \
                 '{{\"spec\":{{\"config\":{{\"dataVolumeTTLSeconds\":-1}}}}}}'",
                cdi.name_any()
            ),
        ),
        _ => Finding::fit(DATA_VOLUMES, "CDI keeps DataVolumes that are done"),
    }
}
