#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;
use crate::fields::{self, Applied, Context, Manager, Operation};
use crate::testing::any_json;

fn find(group: &str, version: &str, name: &str) -> &'static BuiltIn {
    kind(group, version, name).unwrap()
}

#[test]
fn every_kind_has_a_schema_with_metadata() {
    for entry in &table::KINDS {
        let schema = entry.schema();
        let reviews = entry.group.starts_with("auth");
        assert!(
            reviews || schema.properties.contains_key("metadata"),
            "{entry:?}"
        );
        assert!(!schema.properties.is_empty(), "{entry:?}");
        assert!(entry.empty().is_object(), "{entry:?}");
    }
}

#[test]
fn empty_objects_have_what_go_always_writes() {
    for (group, name, expected) in [
        ("", "ConfigMap", json!({"metadata": {}})),
        (
            "",
            "Service",
            json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        ),
        (
            "",
            "PodTemplate",
            json!({"metadata": {}, "template": {"metadata": {}, "spec": {"containers": null}}}),
        ),
        (
            "",
            "Event",
            json!({"metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": null,
                "lastTimestamp": null, "eventTime": null, "reportingComponent": "",
                "reportingInstance": ""}),
        ),
        (
            "networking.k8s.io",
            "NetworkPolicy",
            json!({"metadata": {}, "spec": {"podSelector": {}}}),
        ),
        (
            "rbac.authorization.k8s.io",
            "Role",
            json!({"metadata": {}, "rules": null}),
        ),
        (
            "",
            "PersistentVolumeClaim",
            json!({"metadata": {}, "spec": {"resources": {}}, "status": {}}),
        ),
        (
            "policy",
            "PodDisruptionBudget",
            json!({"metadata": {}, "spec": {}, "status": {"currentHealthy": 0,
                "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}}),
        ),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"metadata": {}, "spec": {}}),
        ),
    ] {
        assert_eq!(find(group, "v1", name).empty(), &expected, "{name}");
    }
}

#[test]
fn wrong_types_are_named_as_go_names_them() {
    let mut map = json!({"metadata": {"name": "a", "labels": {"k": 1}}});
    assert_eq!(
        find("", "v1", "ConfigMap").decode(&mut map),
        Err("json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string".into())
    );
    let mut map = json!({"data": {"k": 1}});
    assert_eq!(
        find("", "v1", "ConfigMap").decode(&mut map),
        Err(
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
                .into()
        )
    );
}

/// A cluster where nothing is taken.
struct Nothing;

impl Env for Nothing {
    fn cluster_ip_taken(&self, _: Ipv4Addr) -> bool {
        false
    }
    fn node_port_taken(&self, _: u16) -> bool {
        false
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_input_panics(object in any_json(), other in any_json(), pick in 0..table::KINDS.len()) {
        let entry = &table::KINDS[pick];
        let mut object = json!({"metadata": object.clone(), "spec": object, "rules": other,
            "subjects": other, "template": {"spec": other}, "data": other, "webhooks": [other]});
        let _ = entry.decode(&mut object);
        entry.prepare_create(&mut object);
        let _ = entry.validate_create(&object);
        let mut new = other.clone();
        entry.prepare_update(&mut new, &object, "");
        let _ = entry.validate_update(&new, &object, "");
        let _ = entry.allocate(&mut new, Some(&object), &Nothing);
        let mut new = other.clone();
        entry.prepare_update(&mut new, &object, "status");
        let _ = entry.validate_update(&new, &object, "status");
        entry.convert(&mut new);
    }

    #[test]
    fn decoding_is_idempotent(object in any_json(), pick in 0..table::KINDS.len()) {
        let entry = &table::KINDS[pick];
        let mut once = json!({"metadata": {"name": "a"}, "spec": object, "data": {"a": ""}});
        if entry.decode(&mut once).is_ok() {
            let mut twice = once.clone();
            prop_assert_eq!(entry.decode(&mut twice), Ok(()));
            prop_assert_eq!(twice, once);
        }
    }
}

/// Objects as a real server returns them are in their final form already.
#[test]
fn complete_objects_stay_as_they_are() {
    let spec = json!({
        "volumes": [
            {"name": "config", "configMap": {"name": "c", "defaultMode": 420}},
            {"name": "token", "projected": {"sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"downwardAPI": {"items": [{"path": "ns",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
            ], "defaultMode": 420}},
        ],
        "containers": [{
            "name": "c", "image": "registry.example.com:5000/a/b:1.2", "command": ["/bin/x"],
            "ports": [{"name": "web", "containerPort": 80, "protocol": "TCP"}],
            "env": [{"name": "E", "value": "1"}, {"name": "F", "valueFrom":
                {"secretKeyRef": {"name": "s", "key": "k"}}}],
            "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "250m"}},
            "volumeMounts": [{"name": "config", "readOnly": true, "mountPath": "/etc/c"}],
            "readinessProbe": {"httpGet": {"path": "/", "port": "web", "scheme": "HTTP"},
                "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
            "securityContext": {"capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true,
                "allowPrivilegeEscalation": false},
        }],
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 0, "dnsPolicy": "ClusterFirst",
        "securityContext": {"fsGroup": 0}, "schedulerName": "default-scheduler",
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"a": "b"}}}}]}},
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "generation": 1, "annotations": {"a": ""}},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec},
            "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 1}},
            "revisionHistoryLimit": 0, "progressDeadlineSeconds": 600,
        },
        "status": {"observedGeneration": 1, "conditions": [{"type": "Available", "status": "True",
            "lastUpdateTime": "2024-01-01T00:00:00Z", "lastTransitionTime": null}]},
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 0, "selector": {"matchLabels": {"a": "b"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0,
            "expectedPods": 0, "conditions": [{"type": "T", "status": "True", "reason": "R",
            "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"}]},
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "s"},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}],
        "ports": [{"name": "", "port": 2022, "protocol": "TCP"}],
    });
    for (group, object) in [
        ("apps", deployment),
        ("policy", budget),
        ("discovery.k8s.io", slice),
    ] {
        let kind = find(group, "v1", object["kind"].as_str().unwrap());
        let mut decoded = object.clone();
        assert_eq!(kind.decode(&mut decoded), Ok(()));
        assert_eq!(decoded, object);
        assert_eq!(
            kind.validate_create(&{
                let mut named = object.clone();
                named["metadata"]["namespace"] = json!("n");
                named
            })
            .errors,
            []
        );
    }
}

#[test]
fn a_missing_time_is_null_and_no_error() {
    let mut budget = json!({"status": {"conditions": [{"type": "T"}]}});
    let kind = find("policy", "v1", "PodDisruptionBudget");
    assert_eq!(kind.decode(&mut budget), Ok(()));
    assert_eq!(
        budget["status"]["conditions"][0]["lastTransitionTime"],
        json!(null)
    );
}

#[test]
fn events_are_shown_in_both_forms() {
    let mut event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "m",
        "regarding": {"kind": "Pod"}, "reportingController": "c", "reportingInstance": "i"});
    find("", "v1", "Event").convert(&mut event);
    assert_eq!(event["apiVersion"], "v1");
    assert_eq!(event["message"], "m");
    assert_eq!(event["involvedObject"], json!({"kind": "Pod"}));
    assert_eq!(event["reportingComponent"], "c");
    let stored = event.clone();
    find("events.k8s.io", "v1", "Event").convert(&mut event);
    assert_eq!(event["note"], "m");
    find("", "v1", "Event").convert(&mut event);
    assert_eq!(event, stored);
}

/// A value of about the shape that a schema wants, with mistakes now and then.
fn shaped(schema: &Schema, entropy: &mut impl Iterator<Item = u8>, depth: usize) -> Value {
    use crate::schema::Kind;
    let Some(byte) = entropy.next() else {
        return Value::Null;
    };
    if byte == 255 {
        return json!([{"": -1.5}]);
    }
    let words = [
        "",
        "a",
        "TCP",
        "10.96.0.9",
        "1Gi",
        "-1",
        "*",
        "None",
        "NodePort",
        "In",
        "b.c/d",
    ];
    let word = words[usize::from(byte) % words.len()];
    let format = schema.constraints.format.as_deref();
    match schema.kind {
        Kind::Object if depth > 7 => json!({}),
        Kind::Object if schema.properties.is_empty() => {
            let inner = schema.additional.as_deref();
            let value = inner.map_or(json!("x"), |inner| shaped(inner, entropy, depth + 1));
            json!({word: value})
        }
        Kind::Object => {
            let mut object = json!({});
            for (name, inner) in &schema.properties {
                if entropy.next().is_some_and(|byte| byte % 3 == 0) {
                    object[name] = shaped(inner, entropy, depth + 1);
                }
            }
            object
        }
        Kind::Array => {
            let items = schema.items.as_deref();
            (0..byte % 3)
                .map(|_| items.map_or(Value::Null, |items| shaped(items, entropy, depth + 1)))
                .collect()
        }
        Kind::String if format == Some("byte") => json!("YQ=="),
        Kind::String if format == Some("time") => json!("2024-01-01T00:00:00Z"),
        Kind::String if format == Some("micro-time") => json!("2024-01-01T00:00:00.000001Z"),
        Kind::String => json!(word),
        Kind::Integer | Kind::Number => json!(i64::from(byte) * 300 - 600),
        Kind::Boolean => json!(byte % 2 == 0),
        Kind::IntOrString if format == Some("quantity") => json!("1024Mi"),
        Kind::IntOrString => json!(byte),
        Kind::Any => json!({word: [byte]}),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The same for objects that look like those of the kind.
    #[test]
    fn no_likely_input_panics(
        entropy in prop::collection::vec(any::<u8>(), 0..600),
        pick in 0..table::KINDS.len(),
    ) {
        let entry = &table::KINDS[pick];
        let mut entropy = entropy.into_iter();
        let mut old = shaped(entry.schema(), &mut entropy, 0);
        let mut new = shaped(entry.schema(), &mut entropy, 0);
        if entry.decode(&mut old).is_err() || entry.decode(&mut new).is_err() {
            return Ok(());
        }
        let mut again = new.clone();
        prop_assert_eq!(entry.decode(&mut again), Ok(()));
        prop_assert_eq!(&again, &new);
        entry.prepare_create(&mut old);
        let _ = entry.validate_create(&old);
        let _ = entry.allocate(&mut old, None, &Nothing);
        for subresource in ["", "status"] {
            let mut new = new.clone();
            entry.prepare_update(&mut new, &old, subresource);
            let _ = entry.validate_update(&new, &old, subresource);
            let _ = entry.allocate(&mut new, Some(&old), &Nothing);
            // Nothing changes: nothing is counted.
            let mut same = old.clone();
            entry.prepare_update(&mut same, &old, subresource);
            prop_assert_eq!(same["metadata"].get("generation"), old["metadata"].get("generation"));
        }
    }

    /// Applying an object of a built-in kind again changes nothing.
    #[test]
    fn applying_again_changes_nothing(
        entropy in prop::collection::vec(any::<u8>(), 0..400),
        pick in 0..table::KINDS.len(),
    ) {
        let entry = &table::KINDS[pick];
        let mut config = shaped(entry.schema(), &mut entropy.into_iter(), 0);
        // What is not canonical may have other keys when it is read back.
        if entry.decode(&mut config).is_err() {
            return Ok(());
        }
        config["metadata"] = json!({"name": "n"});
        let manager = Manager {
            name: "m".into(),
            operation: Operation::Apply,
            api_version: "v1".into(),
            subresource: String::new(),
        };
        let context = Context {
            versions: None,
            schema: entry.schema(),
            manager: &manager,
            reset: entry.reset(""),
            empty: entry.empty(),
            now: jiff::Timestamp::UNIX_EPOCH,
        };
        let apply = |live: Option<&Value>| match fields::apply(&context, live, &config, false) {
            Ok(Applied::Changed(mut object)) => entry.decode(&mut object).ok().map(|()| object),
            Ok(Applied::Unchanged) => live.cloned(),
            Err(_) => None,
        };
        // What nobody owns is `before-first-apply`'s the second time.
        let owned = |object: &Value| object["metadata"]["managedFields"].is_array();
        if let Some(once) = apply(None).filter(owned) {
            prop_assert_eq!(apply(Some(&once)), Some(once));
        }
    }
}
