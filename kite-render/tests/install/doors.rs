//! Ways around the walls, for who has rights of Kubernetes' own in a user's namespace.

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
