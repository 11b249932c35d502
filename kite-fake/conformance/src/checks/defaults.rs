//! Defaults and admission of built-in types.

use serde_json::{Value, json};

use crate::answer::{Answer, ensure};
use crate::site::{Site, core};
use crate::{Checked, Failure};

table! { Defaults;
    services_get_an_address:
        "A Service gets a cluster IP, its type, and for each port protocol and target.",
        "Clients read the address from the object.";
    headless_services_have_none:
        "clusterIP: None stays None.",
        "StatefulSets and DNS rely on it.";
    service_addresses_stay:
        "The cluster IP cannot be changed, and an update without it keeps it.",
        "Clients have cached it.";
    service_ports_are_checked:
        "A Service needs ports, within 1 to 65535, with names if there are several.",
        "DNS and proxies name them.";
    node_ports_are_given_once:
        "A NodePort Service gets a port, and nobody else gets the same.",
        "A node's port leads to one Service.";
    deployments_are_completed:
        "A Deployment gets replicas, a rolling update strategy and a history limit.",
        "Controllers read complete objects.";
    deployment_selectors_fit:
        "The selector of a Deployment has to select its template, and cannot be changed.",
        "A Deployment must find its own Pods.";
    pods_are_completed:
        "A Pod gets restartPolicy, dnsPolicy, and for each container a pull policy by its tag.",
        "Kubelets read complete objects.";
    claims_are_completed:
        "A claim gets volumeMode and is Pending; its access modes are required and its spec is immutable.",
        "Storage controllers read complete objects.";
    ingress_paths_have_a_type:
        "A path of an Ingress without pathType is 422.",
        "Its meaning would depend on the controller.";
    policies_name_their_direction:
        "A NetworkPolicy gets policyTypes by the rules it has.",
        "What is not named is not restricted.";
    role_bindings_keep_their_role:
        "The roleRef of a RoleBinding cannot be changed.",
        "Who grants a binding grants that role.";
    lease_times_have_microseconds:
        "The times of a Lease are read and written with microseconds; another form is 400.",
        "Leader election compares them.";
    quantities_are_canonical:
        "Quantities of a claim are written in their canonical form.",
        "Clients compare them as text.";
    events_stay_in_their_namespace:
        "An Event about an object of another namespace is 422.",
        "Events are read beside their object.";
}

async fn service(s: &Site, ns: &str, name: &str, spec: Value) -> Result<Answer, Failure> {
    let object =
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec});
    s.post(&core(ns, "services"), &object).await
}

async fn services_get_an_address(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let made = service(
        &s,
        &ns,
        "a",
        json!({"selector": {"a": "b"}, "ports": [{"port": 80}]}),
    )
    .await?
    .expect(201)?;
    let made = made
        .is("/spec/type", "ClusterIP")?
        .is("/spec/sessionAffinity", "None")?;
    let made = made.is(
        "/spec/ports",
        json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]),
    )?;
    let made = made
        .is("/spec/internalTrafficPolicy", "Cluster")?
        .is("/status", json!({"loadBalancer": {}}))?;
    let address = made.text("/spec/clusterIP");
    ensure(
        address.parse::<std::net::IpAddr>().is_ok(),
        format!("clusterIP is {address:?}"),
    )?;
    made.is("/spec/clusterIPs/0", address)?;
    Ok(())
}

async fn headless_services_have_none(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let made = service(
        &s,
        &ns,
        "a",
        json!({"clusterIP": "None", "selector": {"a": "b"}}),
    )
    .await?
    .expect(201)?;
    made.is("/spec/clusterIP", "None")?
        .is("/spec/clusterIPs", json!(["None"]))?;
    Ok(())
}

async fn service_addresses_stay(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let made = service(&s, &ns, "a", json!({"ports": [{"port": 80}]}))
        .await?
        .expect(201)?;
    let path = format!("{}/a", core(&ns, "services"));
    let answer = s
        .merge(&path, &json!({"spec": {"clusterIP": "None"}}))
        .await?
        .refused(422, "Invalid")?;
    answer.says("may not change once set")?;
    let bare = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"ports": [{"port": 81}]}});
    let put = s.put(&path, &bare).await?.expect(200)?;
    put.is("/spec/clusterIP", made.text("/spec/clusterIP"))?
        .is("/spec/ports/0/port", 81)?;
    Ok(())
}

async fn service_ports_are_checked(s: Site) -> Checked {
    let ns = s.namespace().await?;
    for (ports, reason, field) in [
        (json!([]), "FieldValueRequired", "spec.ports"),
        (
            json!([{"port": 70000}]),
            "FieldValueInvalid",
            "spec.ports[0].port",
        ),
        (
            json!([{"port": 80}, {"port": 81}]),
            "FieldValueRequired",
            "spec.ports[0].name",
        ),
        (
            json!([{"port": 80, "protocol": "ICMP"}]),
            "FieldValueNotSupported",
            "spec.ports[0].protocol",
        ),
    ] {
        let answer = service(&s, &ns, "a", json!({"ports": ports}))
            .await?
            .refused(422, "Invalid")?;
        answer.cause(reason, field)?;
    }
    Ok(())
}

async fn node_ports_are_given_once(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let made = service(
        &s,
        &ns,
        "a",
        json!({"type": "NodePort", "ports": [{"port": 80}]}),
    )
    .await?
    .expect(201)?;
    let port = made
        .at("/spec/ports/0/nodePort")
        .as_u64()
        .unwrap_or_default();
    ensure(port > 0, "a port was given")?;
    let same = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    let answer = service(&s, &ns, "b", same).await?.refused(422, "Invalid")?;
    answer
        .cause("FieldValueInvalid", "spec.ports[0].nodePort")?
        .says("provided port is already allocated")?;
    Ok(())
}

fn deployment(label: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": label}},
            "spec": {"containers": [{"name": "c", "image": "example.com/i:1"}]}}}})
}

async fn deployments_are_completed(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("/apis/apps/v1/namespaces/{ns}/deployments?dryRun=All");
    let made = s.post(&path, &deployment("x")).await?.expect(201)?;
    let made = made
        .is("/spec/replicas", 1)?
        .is("/spec/revisionHistoryLimit", 10)?;
    let made = made.is(
        "/spec/strategy",
        json!({"type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
    )?;
    made.is("/spec/template/spec/restartPolicy", "Always")?
        .is("/spec/progressDeadlineSeconds", 600)?;
    Ok(())
}

async fn deployment_selectors_fit(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("/apis/apps/v1/namespaces/{ns}/deployments");
    let answer = s
        .post(&path, &deployment("y"))
        .await?
        .refused(422, "Invalid")?;
    answer.cause("FieldValueInvalid", "spec.template.metadata.labels")?;
    let mut idle = deployment("x");
    idle["spec"]["replicas"] = 0.into();
    s.post(&path, &idle).await?.expect(201)?;
    let change = json!({"spec": {"selector": {"matchLabels": {"app": "z"}},
        "template": {"metadata": {"labels": {"app": "z"}}}}});
    let answer = s
        .merge(&format!("{path}/a"), &change)
        .await?
        .refused(422, "Invalid")?;
    answer
        .cause("FieldValueInvalid", "spec.selector")?
        .says("field is immutable")?;
    Ok(())
}

/// A Pod that needs no token, so that it is admitted before the namespace has
/// its default `ServiceAccount`'s.
async fn pods_are_completed(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let account = format!("{}/default", core(&ns, "serviceaccounts"));
    s.until(&account, "there", |answer| answer.code == 200)
        .await?;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [
        {"name": "one", "image": "example.com/i:1"}, {"name": "two", "image": "example.com/i"}]}});
    let made = s
        .post(&format!("{}?dryRun=All", core(&ns, "pods")), &pod)
        .await?
        .expect(201)?;
    let made = made
        .is("/spec/restartPolicy", "Always")?
        .is("/spec/dnsPolicy", "ClusterFirst")?;
    let made = made.is("/spec/containers/0/imagePullPolicy", "IfNotPresent")?;
    made.is("/spec/containers/1/imagePullPolicy", "Always")?
        .is("/status/phase", "Pending")?;
    Ok(())
}

fn claim(modes: Value, size: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": {
        "storageClassName": "kite-conformance-none", "accessModes": modes,
        "resources": {"requests": {"storage": size}}}})
}

async fn claims_are_completed(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = core(&ns, "persistentvolumeclaims");
    let answer = s
        .post(&path, &claim(json!([]), "1Gi"))
        .await?
        .refused(422, "Invalid")?;
    answer.cause("FieldValueRequired", "spec.accessModes")?;
    let made = s
        .post(&path, &claim(json!(["ReadWriteOnce"]), "1Gi"))
        .await?
        .expect(201)?;
    let made = made
        .is("/spec/volumeMode", "Filesystem")?
        .is("/status/phase", "Pending")?;
    made.is(
        "/metadata/finalizers",
        json!(["kubernetes.io/pvc-protection"]),
    )?;
    let change = json!({"spec": {"accessModes": ["ReadWriteMany"]}});
    let answer = s
        .merge(&format!("{path}/a"), &change)
        .await?
        .refused(422, "Invalid")?;
    answer.cause("FieldValueForbidden", "spec")?;
    Ok(())
}

async fn quantities_are_canonical(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}?dryRun=All", core(&ns, "persistentvolumeclaims"));
    for (given, written) in [
        ("1024Mi", "1Gi"),
        ("0.5Gi", "512Mi"),
        ("1000M", "1G"),
        ("1e3", "1e3"),
    ] {
        let made = s
            .post(&path, &claim(json!(["ReadWriteOnce"]), given))
            .await?
            .expect(201)?;
        made.is("/spec/resources/requests/storage", written)?;
    }
    s.post(&path, &claim(json!(["ReadWriteOnce"]), "much"))
        .await?
        .refused(400, "BadRequest")?;
    Ok(())
}

async fn ingress_paths_have_a_type(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses");
    let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
    let mut object = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "a"},
        "spec": {"ingressClassName": "none", "rules": [{"host": "a.example.com",
            "http": {"paths": [{"path": "/", "backend": backend}]}}]}});
    let answer = s.post(&path, &object).await?.refused(422, "Invalid")?;
    answer.cause("FieldValueRequired", "spec.rules[0].http.paths[0].pathType")?;
    object["spec"]["rules"][0]["http"]["paths"][0]["pathType"] = "Prefix".into();
    s.post(&path, &object)
        .await?
        .expect(201)?
        .is("/status", json!({"loadBalancer": {}}))?;
    Ok(())
}

async fn policies_name_their_direction(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies");
    for (name, extra, types) in [
        ("a", json!({}), json!(["Ingress"])),
        ("b", json!({"egress": [{}]}), json!(["Ingress", "Egress"])),
    ] {
        let mut object = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": name}, "spec": {"podSelector": {}}});
        for (member, value) in extra.as_object().into_iter().flatten() {
            object["spec"][member] = value.clone();
        }
        s.post(&path, &object)
            .await?
            .expect(201)?
            .is("/spec/policyTypes", types)?;
    }
    Ok(())
}

async fn role_bindings_keep_their_role(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}");
    let role = |name: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": name}, "rules": []})
    };
    for name in ["one", "two"] {
        s.post(&format!("{path}/roles"), &role(name))
            .await?
            .expect(201)?;
    }
    let to =
        |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "a"}, "roleRef": to("one"), "subjects": [{"kind": "User", "name": "nobody"}]});
    let made = s
        .post(&format!("{path}/rolebindings"), &binding)
        .await?
        .expect(201)?;
    made.is("/subjects/0/apiGroup", "rbac.authorization.k8s.io")?;
    let answer = s
        .merge(
            &format!("{path}/rolebindings/a"),
            &json!({"roleRef": to("two")}),
        )
        .await?;
    answer
        .refused(422, "Invalid")?
        .cause("FieldValueInvalid", "roleRef")?;
    Ok(())
}

async fn lease_times_have_microseconds(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases");
    let lease = |name: &str, at: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": at}})
    };
    let made = s
        .post(&path, &lease("a", "2026-01-02T03:04:05.000006Z"))
        .await?
        .expect(201)?;
    made.is("/spec/renewTime", "2026-01-02T03:04:05.000006Z")?;
    s.post(&path, &lease("b", "now"))
        .await?
        .refused(400, "BadRequest")?;
    Ok(())
}

async fn events_stay_in_their_namespace(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let event = |about: &str| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"},
        "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "namespace": about},
        "reason": "Tested", "message": "m", "type": "Normal"})
    };
    let answer = s
        .post(&core(&ns, "events"), &event("default"))
        .await?
        .refused(422, "Invalid")?;
    answer.cause("FieldValueInvalid", "involvedObject.namespace")?;
    s.post(&core(&ns, "events"), &event(&ns))
        .await?
        .expect(201)?;
    Ok(())
}
