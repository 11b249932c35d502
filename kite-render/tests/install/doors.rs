//! Ways around the network policies, for who has rights of Kubernetes' own in a user's namespace.

use k8s_openapi::api::{
    core::v1::{Pod, Service},
    networking::v1::Ingress,
};
use kite_render::install::Process;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};

use crate::policies::{ADMIN, HOME, KUBEVIRT, Stage, merge, pod, refused, text};

#[tokio::test]
async fn nobody_gets_into_launchers_but_kubevirt_and_administrators_of_the_cluster() {
    let stage = Stage::new().await;
    let params = PostParams::default();
    let launchers: Api<Pod> = stage.of(KUBEVIRT);
    launchers.create(&params, &pod("launcher")).await.unwrap();
    let elsewhere: Api<Pod> = Api::namespaced(stage.cluster.client(), "default");
    elsewhere.create(&params, &pod("launcher")).await.unwrap();
    let connect = async |pods: Api<Pod>, how: &str| {
        let nothing = json!({});
        let connected = pods.create_subresource::<Value, Value>(how, "launcher", &params, &nothing);
        text(connected.await)
    };
    let (api, gateway) = (
        Process::Api.username("kite"),
        Process::Gateway.username("kite"),
    );
    for how in ["attach", "exec", "portforward", "proxy"] {
        for who in ["ann", ADMIN, api.as_str(), gateway.as_str()] {
            let connected = connect(stage.of(who), how).await;
            refused(connected, "kite-launchers");
        }
        // There is no kubelet to go on with.
        for pods in [
            stage.of::<Pod>(KUBEVIRT),
            Api::namespaced(stage.cluster.client(), HOME),
            Api::namespaced(stage.cluster.client_as("ann"), "default"),
        ] {
            let error = connect(pods, how).await.unwrap_err();
            assert!(error.contains("does not support"), "{how}: {error}");
        }
    }
}

#[tokio::test]
async fn machines_are_made_by_the_controller_and_by_kubevirt() {
    let stage = Stage::new().await;
    let params = PostParams::default();
    let (controller, api) = (
        Process::Controller.username("kite"),
        Process::Api.username("kite"),
    );
    let template = json!({"spec": {"domain": {"devices": {}}}});
    for (kind, maker, spec, edit) in [
        (
            "VirtualMachine",
            controller.as_str(),
            json!({"runStrategy": "Halted", "template": template}),
            json!({"runStrategy": "Always"}),
        ),
        (
            "VirtualMachineInstance",
            KUBEVIRT,
            json!({"domain": {"devices": {}}}),
            json!({"hostname": "other"}),
        ),
    ] {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("kubevirt.io", "v1", kind));
        let of = |who: &str| -> Api<DynamicObject> {
            Api::namespaced_with(stage.cluster.client_as(who), HOME, &kind)
        };
        let object = DynamicObject::new("web", &kind).data(json!({ "spec": spec }));
        for who in ["ann", ADMIN, api.as_str()] {
            let made = text(of(who).create(&params, &object).await);
            refused(made, "kite-machines");
        }
        of(maker).create(&params, &object).await.unwrap();
        let sidecar = json!({"hooks.kubevirt.io/hookSidecars": "[]"});
        for patch in [
            json!({ "spec": edit }),
            json!({"metadata": {"annotations": sidecar}}),
        ] {
            refused(merge(&of("ann"), "web", &patch).await, "kite-machines");
        }
        let label = json!({"metadata": {"labels": {"team": "a"}}});
        merge(&of("ann"), "web", &label).await.unwrap();
        let edited = merge(&of(KUBEVIRT), "web", &json!({ "spec": edit })).await;
        edited.unwrap();
        // Elsewhere machines are no business of Kite's.
        let elsewhere: Api<DynamicObject> =
            Api::namespaced_with(stage.cluster.client_as("ann"), "default", &kind);
        elsewhere.create(&params, &object).await.unwrap();
    }
}

fn service(name: &str, kind: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]},
    }))
    .unwrap()
}

#[tokio::test]
async fn ways_in_from_outside_are_made_by_the_controller() {
    let stage = Stage::new().await;
    let params = PostParams::default();
    let of = |who: &str| -> Api<Service> { stage.of(who) };
    for kind in ["ClusterIP", "NodePort", "LoadBalancer"] {
        let made = of("ann").create(&params, &service("own", kind)).await;
        refused(text(made), "kite-routes");
    }
    let own: Ingress = serde_json::from_value(json!({
        "metadata": {"name": "own"},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
    }))
    .unwrap();
    let ingresses: Api<Ingress> = stage.of("ann");
    refused(text(ingresses.create(&params, &own).await), "kite-routes");
    let controller = Process::Controller.username("kite");
    let ingresses: Api<Ingress> = stage.of(&controller);
    ingresses.create(&params, &own).await.unwrap();
    of(&controller)
        .create(&params, &service("web", "ClusterIP"))
        .await
        .unwrap();

    let note = json!({"metadata": {"annotations": {"example.org/seen": "yes"}}});
    let open = json!({"spec": {"type": "LoadBalancer"}});
    let (balancer, theirs) = (
        "system:serviceaccount:balancers:balancer",
        "system:serviceaccount:kite-user-ann:own",
    );
    for who in ["ann", theirs] {
        refused(merge(&of(who), "web", &note).await, "kite-routes");
        refused(merge(&of(who), "web", &open).await, "kite-routes");
    }
    // Controllers of the cluster note what they have done, and do nothing else.
    merge(&of(balancer), "web", &note).await.unwrap();
    refused(merge(&of(balancer), "web", &open).await, "kite-routes");
    // What CDI puts before an upload, and what an administrator of the cluster does.
    let cdi = "system:serviceaccount:cdi:cdi-sa";
    of(cdi)
        .create(&params, &service("cdi-upload", "ClusterIP"))
        .await
        .unwrap();
    let masters: Api<Service> = Api::namespaced(stage.cluster.client(), HOME);
    masters
        .create(&params, &service("masters", "NodePort"))
        .await
        .unwrap();
    // Elsewhere Services are no business of Kite's.
    let elsewhere: Api<Service> = Api::namespaced(stage.cluster.client_as("ann"), "default");
    elsewhere
        .create(&params, &service("own", "LoadBalancer"))
        .await
        .unwrap();
}

/// A kind of somebody else's, with whatever in it.
fn definition(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

#[tokio::test]
async fn routes_of_other_kinds_and_endpoints_are_not_made_by_tenants() {
    let stage = Stage::new().await;
    let params = PostParams::default();
    let gateway = "gateway.networking.k8s.io";
    let theirs = [
        ("route.openshift.io", "v1", "Route", "routes"),
        (gateway, "v1", "ListenerSet", "listenersets"),
        (gateway, "v1beta1", "ReferenceGrant", "referencegrants"),
        (
            "gateway.networking.x-k8s.io",
            "v1alpha1",
            "XListenerSet",
            "xlistenersets",
        ),
    ];
    for (group, version, kind, plural) in theirs {
        let definition = definition(group, version, kind, plural);
        stage.cluster.create(definition).unwrap();
    }
    let slice = json!({
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": [{"name": "ssh", "port": 22}],
    });
    let address = json!({
        "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 22}]}],
    });
    let kubernetes = "system:serviceaccount:kube-system:endpointslice-controller";
    let controller = Process::Controller.username("kite");
    let route = json!({"spec": {"to": {"kind": "Service", "name": "web"}}});
    let mut kinds: Vec<_> = theirs
        .map(|(group, version, kind, plural)| {
            let kind = (group, version, kind, plural);
            (kind, route.clone(), controller.as_str())
        })
        .into();
    let slices = ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
    kinds.push((slices, slice, kubernetes));
    kinds.push((("", "v1", "Endpoints", "endpoints"), address, kubernetes));
    for ((group, version, kind, plural), content, maker) in kinds {
        let kind = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        let of = |who: &str| -> Api<DynamicObject> {
            Api::namespaced_with(stage.cluster.client_as(who), HOME, &resource)
        };
        let object = |name: &str| DynamicObject::new(name, &resource).data(content.clone());
        let balancer = "system:serviceaccount:balancers:balancer";
        for who in ["ann", ADMIN, balancer] {
            let made = text(of(who).create(&params, &object("own")).await);
            refused(made, "kite-routes");
        }
        of(maker).create(&params, &object("web")).await.unwrap();
        let label = json!({"metadata": {"labels": {"kubernetes.io/service-name": "own"}}});
        let edited = merge(&of("ann"), "web", &label).await;
        // What a slice belongs to is in a label.
        if content.get("spec").is_none() {
            refused(edited, "kite-routes");
        }
        merge(&of(maker), "web", &label).await.unwrap();
        let masters: Api<DynamicObject> =
            Api::namespaced_with(stage.cluster.client(), HOME, &resource);
        masters.create(&params, &object("masters")).await.unwrap();
        // Those who run a cluster without accounts of their own for each controller.
        of("system:kube-controller-manager")
            .create(&params, &object("manager"))
            .await
            .unwrap();
    }
    let resource = GroupVersionKind::gvk("route.openshift.io", "v1", "Route");
    let resource = ApiResource::from_gvk(&resource);
    let openshift = "system:serviceaccount:openshift-infra:ingress-to-route-controller";
    let routes: Api<DynamicObject> =
        Api::namespaced_with(stage.cluster.client_as(openshift), HOME, &resource);
    let made = DynamicObject::new("web-x2x4z", &resource).data(route);
    routes.create(&params, &made).await.unwrap();
}

#[tokio::test]
async fn administrators_by_a_binding_alone_are_let_through_the_doors() {
    let stage = Stage::new().await;
    let params = PostParams::default();
    let rbac = "rbac.authorization.k8s.io";
    let bind = |kind: &str, name: &str, user: &str, namespace: Option<&str>| {
        let mut binding = json!({
            "apiVersion": format!("{rbac}/v1"), "kind": kind, "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "everything"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
        });
        if let Some(namespace) = namespace {
            binding["metadata"]["namespace"] = json!(namespace);
        }
        stage.cluster.create(binding).unwrap();
    };
    let everything = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole",
        "metadata": {"name": "everything"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    });
    stage.cluster.create(everything).unwrap();
    bind("ClusterRoleBinding", "root", "root", None);
    // Who may do everything in one namespace administers that, and not the cluster.
    bind("RoleBinding", "ann", "ann", Some(HOME));
    let machine = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "kubevirt.io",
        "v1",
        "VirtualMachine",
    ));
    let spec = json!({"runStrategy": "Halted", "template": {"spec": {"domain": {"devices": {}}}}});
    let object = DynamicObject::new("own", &machine).data(json!({ "spec": spec }));
    let launchers: Api<Pod> = stage.of(KUBEVIRT);
    launchers.create(&params, &pod("launcher")).await.unwrap();
    for (who, may) in [("ann", false), ("root", true)] {
        let services: Api<Service> = stage.of(who);
        let served = services.create(&params, &service("own", "ClusterIP")).await;
        let machines: Api<DynamicObject> =
            Api::namespaced_with(stage.cluster.client_as(who), HOME, &machine);
        let made = machines.create(&params, &object).await;
        let pods: Api<Pod> = stage.of(who);
        let nothing = json!({});
        let connected =
            pods.create_subresource::<Value, Value>("exec", "launcher", &params, &nothing);
        let connected = text(connected.await);
        if may {
            served.unwrap();
            made.unwrap();
            // There is no kubelet to go on with.
            let error = connected.unwrap_err();
            assert!(error.contains("does not support"), "{error}");
        } else {
            refused(text(served), "kite-routes");
            refused(text(made), "kite-machines");
            refused(connected, "kite-launchers");
        }
    }
}
