#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use crate::registry::Registry;

fn row(registry: &Registry, group: &str, kind: &str, object: &Value) -> Value {
    let resource = registry.by_kind(group, "v1", kind).unwrap();
    let now: Timestamp = "2024-01-01T01:00:00Z".parse().unwrap();
    let table = table(
        resource,
        &[object],
        &json!({}),
        Options {
            include: IncludeObject::None,
            definitions: true,
            version: "meta.k8s.io/v1",
        },
        now,
    );
    let names = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap());
    let cells = table["rows"][0]["cells"].as_array().unwrap().clone();
    names
        .zip(cells)
        .map(|(name, cell)| (name.to_owned(), cell))
        .collect()
}

#[test]
fn every_kind_fills_its_columns() {
    let registry = Registry::built_in();
    for resource in registry.iter() {
        let object =
            json!({"metadata": {"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z"}});
        let table = table(
            resource,
            &[&object],
            &json!({}),
            Options {
                include: IncludeObject::Metadata,
                definitions: true,
                version: "meta.k8s.io/v1",
            },
            Timestamp::UNIX_EPOCH,
        );
        let columns = table["columnDefinitions"].as_array().unwrap();
        let cells = table["rows"][0]["cells"].as_array().unwrap();
        assert_eq!(columns.len(), cells.len(), "{}", resource.kind);
        assert!(
            cells.contains(&json!("a")),
            "{} shows no name",
            resource.kind
        );
    }
}

#[test]
fn cells_read_as_in_kubectl() {
    let registry = Registry::built_in();
    let meta = json!({"name": "a", "creationTimestamp": "2024-01-01T00:00:00Z"});
    let pod = json!({"metadata": meta, "spec": {"containers": [{}, {}], "nodeName": "n"}, "status": {"phase": "Running",
        "containerStatuses": [{"ready": true, "restartCount": 2, "state": {"running": {}}},
            {"ready": false, "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
    let pod = row(&registry, "", "Pod", &pod);
    assert_eq!(
        (
            &pod["Ready"],
            &pod["Status"],
            &pod["Restarts"],
            &pod["Age"],
            &pod["Node"],
            &pod["IP"]
        ),
        (
            &json!("1/2"),
            &json!("CrashLoopBackOff"),
            &json!("3"),
            &json!("60m"),
            &json!("n"),
            &json!("<none>")
        )
    );
    let service = json!({"metadata": meta, "spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1",
        "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}});
    let service = row(&registry, "", "Service", &service);
    assert_eq!(service["Port(s)"], "80:30080/TCP,53/UDP");
    assert_eq!(service["External-IP"], "<pending>");
    let claim = json!({"metadata": meta, "spec": {"volumeName": "v"}, "status": {"phase": "Bound",
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce", "ReadWriteMany"]}});
    let claim = row(&registry, "", "PersistentVolumeClaim", &claim);
    assert_eq!(
        (&claim["Capacity"], &claim["Access Modes"]),
        (&json!("1Gi"), &json!("RWO,RWX"))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// Objects of all shapes get a row; nothing panics.
    #[test]
    fn odd_objects_get_rows(
        part in prop::sample::select(vec!["spec", "status", "metadata", "data", "subjects", "ports", "endpoints", "subsets"]),
        value in prop_oneof![Just(json!(null)), Just(json!([1, "a", {}])), Just(json!({"ports": 1, "containers": {}})), Just(json!("x"))],
    ) {
        let registry = Registry::built_in();
        for resource in registry.iter() {
            let object = json!({ part: value });
            let made = table(resource, &[&object], &json!({}), Options { include: IncludeObject::Object, definitions: false, version: "meta.k8s.io/v1" }, Timestamp::UNIX_EPOCH);
            prop_assert!(made["rows"][0]["cells"].is_array());
        }
    }
}
