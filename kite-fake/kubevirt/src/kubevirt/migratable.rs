//! Whether an instance can migrate, as the agent on its node tells.

use serde_json::{Value, json};

use super::volumes::Volume;

/// On an instance: a bridge to the pod network may migrate all the same.
const ALLOW_BRIDGE: &str = "kubevirt.io/allow-pod-bridge-network-live-migration";

/// The condition `LiveMigratable` of an instance.
pub(super) fn condition(
    spec: &Value,
    annotations: Option<&std::collections::BTreeMap<String, String>>,
    volumes: &[Volume],
) -> Value {
    let bridge = annotations.is_some_and(|a| a.contains_key(ALLOW_BRIDGE));
    match obstacle(spec, bridge, volumes) {
        None => json!({"type": "LiveMigratable", "status": "True"}),
        Some((reason, message)) => json!({
            "type": "LiveMigratable",
            "status": "False",
            "reason": reason,
            "message": message,
        }),
    }
}

fn obstacle(
    spec: &Value,
    bridge: bool,
    volumes: &[Volume],
) -> Option<(&'static str, &'static str)> {
    let mut claims = volumes
        .iter()
        .filter_map(|v| v.storage.as_ref()?.claim.as_ref());
    let all_shared = claims.all(|claim| {
        let modes = claim.data["spec"]["accessModes"].as_array();
        modes.is_some_and(|modes| modes.iter().any(|mode| mode == "ReadWriteMany"))
    });
    if !all_shared {
        return Some((
            "DisksNotLiveMigratable",
            "cannot migrate VMI: PVC is not shared",
        ));
    }
    let listed = spec["volumes"].as_array();
    let host_disk = listed
        .into_iter()
        .flatten()
        .any(|v| v["hostDisk"].is_object() && v["hostDisk"]["shared"] != true);
    if host_disk {
        return Some((
            "DisksNotLiveMigratable",
            "cannot migrate VMI with non-shared HostDisk",
        ));
    }
    if !network_moves(spec, bridge) {
        return Some((
            "InterfaceNotLiveMigratable",
            "cannot migrate VMI which does not use masquerade, bridge with \
             kubevirt.io/allow-pod-bridge-network-live-migration VM annotation or a migratable \
             plugin to connect to the pod network",
        ));
    }
    let devices = &spec["domain"]["devices"];
    let some = |field: &str| devices[field].as_array().is_some_and(|all| !all.is_empty());
    if some("hostDevices") || some("gpus") {
        return Some(("HostDeviceNotLiveMigratable", "VMI uses a PCI host devices"));
    }
    None
}

/// Whether the connection to the pod network can move. Interfaces that are left
/// out are a bridge; without the pod network there is nothing to move.
fn network_moves(spec: &Value, bridge: bool) -> bool {
    let devices = &spec["domain"]["devices"];
    let interfaces = devices["interfaces"].as_array();
    let Some(interfaces) = interfaces.filter(|all| !all.is_empty()) else {
        return bridge || devices["autoattachPodInterface"] == false;
    };
    let networks = spec["networks"].as_array();
    let pod = networks
        .into_iter()
        .flatten()
        .find(|n| n["pod"].is_object());
    let Some(pod) = pod else {
        return true;
    };
    let of_pod = interfaces.iter().find(|i| i["name"] == pod["name"]);
    of_pod.is_none_or(|interface| {
        interface["masquerade"].is_object()
            || interface["binding"].is_object()
            || bridge && interface["bridge"].is_object()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_masqueraded_pod_network_moves() {
        let with = |interface: Value| {
            json!({
                "domain": {"devices": {"interfaces": [interface]}},
                "networks": [{"name": "default", "pod": {}}],
            })
        };
        let masquerade = with(json!({"name": "default", "masquerade": {}}));
        assert_eq!(condition(&masquerade, None, &[])["status"], "True");
        let bridge = with(json!({"name": "default", "bridge": {}}));
        let said = condition(&bridge, None, &[]);
        assert_eq!(said["reason"], "InterfaceNotLiveMigratable");
        let allowed = [(ALLOW_BRIDGE.to_owned(), String::new())].into();
        assert_eq!(condition(&bridge, Some(&allowed), &[])["status"], "True");
        let left_out = json!({"domain": {"devices": {}}});
        assert_eq!(condition(&left_out, None, &[])["status"], "False");
    }

    #[test]
    fn host_devices_stay_where_they_are() {
        let spec = json!({"domain": {"devices": {
            "autoattachPodInterface": false, "gpus": [{"name": "gpu"}],
        }}});
        let said = condition(&spec, None, &[]);
        assert_eq!(said["reason"], "HostDeviceNotLiveMigratable");
    }
}
