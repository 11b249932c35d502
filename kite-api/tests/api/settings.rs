//! The platform's settings.

use http::header;
use k8s_openapi::api::core::v1::Node;
use kite_core::{
    cluster::{Cluster as _, ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KitePlatform, SignUp},
    names,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy},
};
use serde_json::json;

use crate::world::World;

const PATH: &str = "/api/v1/admin/platform";

#[tokio::test]
async fn administrators_change_the_settings_and_they_hold_at_once() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let before = world.get(PATH, &root).await;
    assert_eq!(before.text("/signUp"), "Open");
    assert_eq!(before.text("/baseDomain"), "vm.test");
    let edit = json!({"signUp": "Closed", "gateway": {"publicHost": "ssh.test"},
                      "blockedNetworks": ["198.51.100.0/24"]});
    let after = world.patch(PATH, &root, edit).await;
    assert_eq!(after.status, 200, "{after:?}");
    assert_ne!(after.headers[header::ETAG], before.headers[header::ETAG]);
    let config = world.get("/api/v1/config", "").await;
    assert_eq!(config.text("/signUp"), "Closed");
    // An object is merged: the port stays.
    assert_eq!(
        config.body["gateway"],
        json!({"host": "ssh.test", "port": 22, "hostKeys": []})
    );
    let undone = world.patch(PATH, &root, json!({"gateway": null})).await;
    assert_eq!(undone.status, 200, "{undone:?}");
    world.administer(json!({"baseDomain": null})).await;
    assert!(
        world
            .get("/api/v1/config", "")
            .await
            .body
            .get("baseDomain")
            .is_none()
    );
}

#[tokio::test]
async fn wrong_settings_are_refused_by_name_and_change_nothing() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let wrong = json!({"signUp": "Sometimes", "web": true, "kpu": 1});
    let refused = world.patch(PATH, &root, wrong).await;
    assert_eq!(
        refused.is_problem(422, "invalid").fields(),
        ["signUp", "web", "kpu"]
    );
    let wrong = json!({"signUp": "Closed", "blockedNetworks": ["everything"],
                       "gateway": {"publicPort": 70_000}});
    let refused = world.patch(PATH, &root, wrong).await;
    refused.is_problem(422, "invalid");
    assert!(
        refused.fields().contains(&"gateway.publicPort"),
        "{refused:?}"
    );
    assert_eq!(world.get(PATH, &root).await.text("/signUp"), "Open");
    let ann = world.user("ann", AccessLevel::Manager).await;
    world.get(PATH, &ann).await.is_problem(403, "forbidden");
    let edit = json!({"signUp": "Closed"});
    world
        .patch(PATH, &ann, edit)
        .await
        .is_problem(403, "forbidden");
}

#[tokio::test]
async fn each_wrong_setting_is_told_with_its_value_and_what_to_write() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    for (edit, field, value) in [
        (json!({"baseDomain": "-x"}), "baseDomain", json!("-x")),
        (
            json!({"imageNamespace": "A B"}),
            "imageNamespace",
            json!("A B"),
        ),
        (json!({"storageClass": "A B"}), "storageClass", json!("A B")),
        (
            json!({"gateway": {"publicHost": "a b"}}),
            "gateway.publicHost",
            json!("a b"),
        ),
        (
            json!({"gateway": {"publicPort": 99_999}}),
            "gateway.publicPort",
            json!(99_999),
        ),
        (
            json!({"gateway": {"nodePort": 0}}),
            "gateway.nodePort",
            json!(0),
        ),
        (
            json!({"gateway": {"serviceType": "X"}}),
            "gateway.serviceType",
            json!("X"),
        ),
        (
            json!({"gateway": {"loadBalancerClass": "a b"}}),
            "gateway.loadBalancerClass",
            json!("a b"),
        ),
        (
            json!({"web": {"enabled": "yes"}}),
            "web.enabled",
            json!("yes"),
        ),
        (
            json!({"exposure": {"ingressClassName": "A B"}}),
            "exposure.ingressClassName",
            json!("A B"),
        ),
        (
            json!({"exposure": {"gateway": {"name": "a", "namespace": 5}}}),
            "exposure.gateway.namespace",
            json!(5),
        ),
        // Nothing of a certificate is repeated: keys get there by mistake.
        (
            json!({"exposure": {"certificate": {"clusterIssuer": "A B"}}}),
            "exposure.certificate.clusterIssuer",
            json!(null),
        ),
        // What is misspelt would be dropped in silence.
        (json!({"exposure": {"foo": 1}}), "exposure.foo", json!(1)),
        (
            json!({"gateway": {"publicHsot": "x"}}),
            "gateway.publicHsot",
            json!("x"),
        ),
    ] {
        let refused = world.patch(PATH, &root, edit.clone()).await;
        refused.is_problem(422, "invalid");
        assert_eq!(refused.fields(), [field], "{edit}: {refused:?}");
        let error = &refused.body["errors"][0];
        let given = error.get("value").cloned().unwrap_or_default();
        assert_eq!(given, value, "{edit}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("write "), "{edit}: {message}");
    }
    for right in [
        json!({"gateway": {"publicHost": "2001:db8::1"}}),
        json!({"gateway": {"publicHost": "SSH.example.org"}}),
        json!({"gateway": {"trafficPolicy": "Local", "enabled": false}}),
        json!({"web": {"httpsRedirect": false}}),
    ] {
        let taken = world.patch(PATH, &root, right).await;
        assert_eq!(taken.status, 200, "{taken:?}");
    }
    let quota = json!({"quota": {"vms": 1, "cpu": 1, "memory": "1Gi", "disk": "9Gi", "foo": 1}});
    let refused = world.patch("/api/v1/admin/users/root", &root, quota).await;
    refused.is_problem(422, "invalid");
    assert_eq!(refused.fields(), ["quota.foo"]);
}

/// What the controller would do with these in the cluster is not for administrators of
/// Kite to choose, nor for their API tokens.
#[tokio::test]
async fn settings_that_reach_out_of_kite_are_the_clusters() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let asked = json!({"name": "robot", "scopes": ["admin"]});
    let made = world.post("/api/v1/me/tokens", &root, asked).await;
    assert_eq!(made.status, 201, "{made:?}");
    let api_token = made.text("/token").to_owned();
    let theirs = json!({
        "blockedNetworks": ["203.0.113.0/24"],
        "web": {"annotations": {"example.org/body-size": "1m"}},
        "exposure": {"certificate": {"clusterIssuer": "own"}},
        "gateway": {"serviceType": "NodePort"},
    });
    world.administer(theirs).await;
    let before = world.get(PATH, &root).await.body["etag"].clone();
    for (edit, fields) in [
        (
            json!({"web": {"annotations": {"nginx.ingress.kubernetes.io/mirror-target": "https://evil.test"}}}),
            vec!["web.annotations"],
        ),
        (json!({"web": null}), vec!["web.annotations"]),
        (
            json!({"gateway": {"annotations": {"metallb.universe.tf/loadBalancerIPs": "10.1.2.3"}}}),
            vec!["gateway.annotations"],
        ),
        (
            json!({"gateway": {"loadBalancerClass": "example.com/internal"}}),
            vec!["gateway.loadBalancerClass"],
        ),
        (
            json!({"gateway": {"nodePort": 30_443, "servicePort": 443, "serviceType": "LoadBalancer"}}),
            vec![
                "gateway.serviceType",
                "gateway.nodePort",
                "gateway.servicePort",
            ],
        ),
        (
            json!({"exposure": {"ingressClassName": "internal", "controllerNamespaces": ["default"]}}),
            vec!["exposure.ingressClassName", "exposure.controllerNamespaces"],
        ),
        (
            json!({"exposure": {"gateway": {"namespace": "infra", "name": "front"}}}),
            vec!["exposure.gateway"],
        ),
        (
            json!({"exposure": {"certificate": {"clusterIssuer": "corporate"}}}),
            vec!["exposure.certificate.clusterIssuer"],
        ),
        (
            json!({"exposure": {"certificate": {"secretName": "of-somebody"}}}),
            vec!["exposure.certificate.secretName"],
        ),
        (
            json!({"imageNamespace": "kube-system"}),
            vec!["imageNamespace"],
        ),
        (json!({"storageClass": "gold"}), vec!["storageClass"]),
        (json!({"baseDomain": "corp.example"}), vec!["baseDomain"]),
        (json!({"baseDomain": null}), vec!["baseDomain"]),
        (json!({"blockedNetworks": []}), vec!["blockedNetworks"]),
        (json!({"nameservers": ["10.96.0.10"]}), vec!["nameservers"]),
        (
            json!({"reservedDomainPrefixes": []}),
            vec!["reservedDomainPrefixes"],
        ),
        // Refused as a whole.
        (
            json!({"signUp": "Closed", "storageClass": "gold"}),
            vec!["storageClass"],
        ),
    ] {
        for caller in [&root, &api_token] {
            let refused = world.patch(PATH, caller, edit.clone()).await;
            refused.is_problem(422, "invalid");
            assert_eq!(refused.fields(), fields, "{edit}: {refused:?}");
            for error in refused.body["errors"].as_array().unwrap() {
                let message = error["message"].as_str().unwrap();
                assert!(message.contains("kubectl edit kiteplatform"), "{message}");
            }
        }
    }
    assert_eq!(world.get(PATH, &root).await.body["etag"], before);
    // What is sent as it is changes nothing.
    let same = json!({
        "signUp": "Invite", "baseDomain": "vm.test",
        "blockedNetworks": ["203.0.113.0/24", "198.51.100.0/24"],
        "web": {"annotations": {"example.org/body-size": "1m"}, "enabled": false},
        "exposure": {"certificate": {"clusterIssuer": "own"}},
    });
    let taken = world.patch(PATH, &root, same).await;
    assert_eq!(taken.status, 200, "{taken:?}");
}

#[tokio::test]
async fn where_there_is_no_platform_an_edit_makes_it() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let key = ObjectKey::cluster(names::PLATFORM);
    let platform: KitePlatform = world.cluster.get(&key).await.unwrap();
    world
        .cluster
        .delete_by_uid(&platform, PropagationPolicy::Background)
        .await
        .unwrap();
    world
        .state
        .caches()
        .platforms
        .caught_up_with_deletion(&platform)
        .await;
    assert_eq!(world.get(PATH, &root).await.text("/signUp"), "Closed");
    let made = world.patch(PATH, &root, json!({"signUp": "Invite"})).await;
    assert_eq!(made.status, 200, "{made:?}");
    let platform: KitePlatform = world.cluster.get(&key).await.unwrap();
    assert_eq!(platform.spec.sign_up, SignUp::Invite);
}

#[tokio::test]
async fn the_capacity_of_the_cluster_is_that_of_nodes_that_take_vms() {
    let world = World::new().await;
    let root = world.user("root", AccessLevel::Admin).await;
    let ann = world.user("ann", AccessLevel::User).await;
    let nodes: Api<Node> = Api::all(world.fake.client());
    for (name, takes_vms) in [("a", "true"), ("b", "true"), ("c", "false")] {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubevirt.io/schedulable": takes_vms}},
        });
        let node = serde_json::from_value(node).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        let has = json!({"status": {"allocatable": {"cpu": "7900m", "memory": "32Gi"}}});
        let patch = Patch::Merge(has);
        nodes
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    let path = "/api/v1/admin/capacity";
    assert_eq!(world.get(path, &ann).await.status, 403);
    let known = json!({"nodes": 2, "cpu": 15, "memory": "65536Mi"});
    assert_eq!(world.get(path, &root).await.body, known);

    // It is not read each time.
    let gone = nodes.delete("a", &DeleteParams::default()).await;
    gone.unwrap();
    assert_eq!(world.get(path, &root).await.body, known);
}
