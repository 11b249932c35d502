//! What the doctor says of how people get in, and of whether it is seen from where.

use k8s_openapi::api::core::v1::Service;
use kite_admin::doctor::{Aim, Facts, Seen, State, examine, judge};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{aim, facts, fit, make, state, with_kite};

#[tokio::test]
async fn how_people_get_in_is_looked_at_once_kite_is_there() {
    let spec = json!({
        "baseDomain": "localhost",
        "exposure": {"ingressClassName": "nginx", "certificate": {"clusterIssuer": "acme"}},
    });
    let fake = with_kite(&spec, &json!({"addresses": ["192.0.2.7"]})).await;
    let report = examine(&fake.client(), &aim()).await;
    assert_eq!(state(&report, "customResources"), State::Fit, "{report}");
    assert_eq!(state(&report, "exposure"), State::Unfit, "{report}");
    assert_eq!(state(&report, "certificate"), State::Unfit, "{report}");
    assert_eq!(state(&report, "loadBalancer"), State::Unknown, "{report}");
    let elsewhere = |it: &kite_admin::doctor::Finding| {
        it.check == "dns" && it.message.ends_with("and Kite is at 192.0.2.7")
    };
    assert!(report.findings.iter().any(elsewhere), "{report}");

    let client = fake.client();
    make(
        &client,
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
               "metadata": {"name": "nginx"}, "spec": {"controller": "k8s.io/ingress-nginx"}}),
    )
    .await;
    make(
        &client,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kite"}}),
    )
    .await;
    make(
        &client,
        json!({"apiVersion": "v1", "kind": "Service",
               "metadata": {"name": "kite-gateway-external", "namespace": "kite"},
               "spec": {"type": "LoadBalancer", "ports": [{"port": 22}]}}),
    )
    .await;
    let report = examine(&client, &aim()).await;
    assert_eq!(state(&report, "exposure"), State::Fit, "{report}");
    assert_eq!(state(&report, "loadBalancer"), State::Unfit, "{report}");
}

#[tokio::test]
async fn how_people_would_get_in_is_looked_at_before_there_are_settings() {
    let fake = fit().await;
    let client = fake.client();
    let report = examine(&client, &aim()).await;
    assert_eq!(state(&report, "exposure"), State::Warning, "{report}");
    assert_eq!(state(&report, "loadBalancer"), State::Unknown, "{report}");
    for object in [
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
               "metadata": {"name": "nginx", "annotations": {
                   "ingressclass.kubernetes.io/is-default-class": "true"}},
               "spec": {"controller": "k8s.io/ingress-nginx"}}),
        json!({"apiVersion": "v1", "kind": "Service",
               "metadata": {"name": "web", "namespace": "default"},
               "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}),
        json!({"apiVersion": "v1", "kind": "Service",
               "metadata": {"name": "inner", "namespace": "default"},
               "spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}),
    ] {
        make(&client, object).await;
    }
    let report = examine(&client, &aim()).await;
    assert_eq!(state(&report, "exposure"), State::Fit, "{report}");
    let balancer = report.find("loadBalancer").unwrap();
    assert_eq!(balancer.state, State::Warning);
    assert!(balancer.message.contains("default/web"), "{balancer:?}");

    let served =
        json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.8", "ipMode": "VIP"}]}}});
    Api::<Service>::namespaced(client.clone(), "default")
        .patch_status("web", &PatchParams::default(), &Patch::Merge(served))
        .await
        .unwrap();
    let report = examine(&client, &aim()).await;
    let balancer = report.find("loadBalancer").unwrap();
    assert_eq!(balancer.state, State::Fit);
    assert!(balancer.message.ends_with("192.0.2.8"), "{balancer:?}");
}

#[tokio::test]
async fn gateways_are_ways_in_too() {
    let fake = fit().await;
    let mut facts = facts(&fake).await;
    let exposure = |facts: &Facts, aim: &Aim| judge(facts, aim).find("exposure").unwrap().clone();
    let none = exposure(&facts, &aim());
    assert!(none.message.contains("nor a Gateway"), "{none:?}");
    let gateway = |name: &str, programmed: &str| {
        serde_json::from_value(json!({
            "metadata": {"namespace": "edge", "name": name},
            "status": {"conditions": [{"type": "Programmed", "status": programmed}]}}))
        .unwrap()
    };
    facts.gateways = Seen::Known(vec![gateway("broken", "False"), gateway("public", "True")]);
    let named = exposure(&facts, &aim());
    assert_eq!(named.state, State::Warning, "{named:?}");
    assert!(!named.message.contains("neither"), "{named:?}");
    assert!(
        named.message.contains("edge/public, edge/broken"),
        "{named:?}"
    );
    let remedy = named.remedy.unwrap();
    assert!(
        remedy.contains("--gateway-api edge/public of kite install"),
        "{remedy}"
    );
    // Settings that leave it to a default class, of which there is none.
    let planned = Aim {
        planned: Some(serde_json::from_value(json!({"baseDomain": "localhost"})).unwrap()),
        ..aim()
    };
    let remedy = exposure(&facts, &planned).remedy.unwrap();
    assert!(remedy.contains("edge/public"), "{remedy}");
    // Beside classes, one of which is used by itself or not.
    for (is_default, state, words) in [
        (
            "false",
            State::Warning,
            "--ingress-class nginx or --gateway-api edge/public",
        ),
        ("true", State::Fit, "--gateway-api edge/public"),
    ] {
        let class = json!({"metadata": {"name": "nginx", "annotations": {
            "ingressclass.kubernetes.io/is-default-class": is_default}}});
        facts.ingress_classes = Seen::Known(vec![serde_json::from_value(class).unwrap()]);
        let found = exposure(&facts, &aim());
        assert_eq!(found.state, state, "{found:?}");
        let told = format!("{} {}", found.message, found.remedy.unwrap_or_default());
        assert!(told.contains(words), "{told}");
    }
}

#[tokio::test]
async fn whether_the_web_page_sees_clients_is_told() {
    let fake = fit().await;
    let mut facts = facts(&fake).await;
    let platform = |gateway: Value| {
        let platform = json!({"metadata": {"name": "default"},
            "spec": {"baseDomain": "vm.test", "gateway": gateway},
            "status": {"addresses": ["192.0.2.8"]}});
        Seen::Known(serde_json::from_value(platform).unwrap())
    };
    let found = |facts: &Facts| judge(facts, &aim()).find("clientAddresses").cloned();
    let api = |proxies: &str| {
        let deployment = json!({"metadata": {"name": "kite-api"}, "spec": {
            "selector": {}, "template": {"spec": {"containers": [{"name": "kite-api",
                "env": [{"name": "KITE_TRUSTED_PROXIES", "value": proxies}]}]}}}});
        Seen::Known(vec![serde_json::from_value(deployment).unwrap()])
    };
    let service = |namespace: &str, policy: &str| {
        let service = json!({"metadata": {"name": "ingress", "namespace": namespace},
            "spec": {"type": "LoadBalancer", "externalTrafficPolicy": policy},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.8"}]}}});
        Seen::Known(vec![serde_json::from_value(service).unwrap()])
    };
    facts.platform = platform(json!({}));
    facts.deployments = api("1");
    for (namespace, policy, state) in [
        ("ingress", "Local", State::Fit),
        ("ingress", "Cluster", State::Warning),
        // The gateway's own, which shares the address.
        ("kite", "Cluster", State::Fit),
    ] {
        facts.balanced = service(namespace, policy);
        let found = found(&facts).unwrap();
        assert_eq!(found.state, state, "{namespace} {policy}: {found:?}");
    }
    facts.deployments = api("0");
    facts.platform = platform(json!({"trafficPolicy": "Cluster"}));
    let both = found(&facts).unwrap();
    assert_eq!(both.state, State::Warning, "{both:?}");
    let remedy = both.remedy.unwrap();
    for words in ["spec.gateway.trafficPolicy", "--trusted-proxies"] {
        assert!(remedy.contains(words), "{remedy}");
    }
    facts.platform = platform(json!({"enabled": false}));
    let web = found(&facts).unwrap();
    assert!(web.message.contains("the API"), "{web:?}");
}

#[tokio::test]
async fn whether_the_gateway_sees_clients_is_told() {
    let fake = fit().await;
    let mut facts = facts(&fake).await;
    let planned = |gateway: Value| Aim {
        planned: Some(serde_json::from_value(json!({ "gateway": gateway })).unwrap()),
        ..aim()
    };
    let found = |facts: &Facts, aim: &Aim| judge(facts, aim).find("clientAddresses").cloned();
    let hidden = planned(json!({"trafficPolicy": "Cluster"}));
    assert_eq!(found(&facts, &aim()), None, "nobody has said how yet");
    assert_eq!(found(&facts, &planned(json!({"enabled": false}))), None);
    let seen = found(&facts, &planned(json!({}))).unwrap();
    assert_eq!(seen.state, State::Fit, "{seen:?}");
    let not_seen = found(&facts, &hidden).unwrap();
    assert_eq!(not_seen.state, State::Warning, "{not_seen:?}");
    let remedy = not_seen.remedy.unwrap();
    for words in ["trafficPolicy", "Local", "--proxy-protocol-from"] {
        assert!(remedy.contains(words), "{remedy}");
    }
    let report = judge(&facts, &hidden);
    assert!(report.to_look_at().any(|it| it.check == "clientAddresses"));
    let told = Aim {
        proxied: true,
        ..hidden.clone()
    };
    assert_eq!(found(&facts, &told).unwrap().state, State::Fit);
    // A gateway that is there says so itself.
    for (name, variable, value, state) in [
        (
            "kite-gateway",
            "KITE_PROXY_PROTOCOL_FROM",
            "10.0.0.1",
            State::Fit,
        ),
        (
            "kite-gateway",
            "KITE_PROXY_PROTOCOL_FROM",
            "",
            State::Warning,
        ),
        ("kite-gateway", "KITE_NEVER_BAN", "10.0.0.1", State::Warning),
        (
            "other",
            "KITE_PROXY_PROTOCOL_FROM",
            "10.0.0.1",
            State::Warning,
        ),
    ] {
        let deployment = json!({"metadata": {"name": name}, "spec": {
            "selector": {}, "template": {"spec": {"containers": [
                {"name": name, "env": [{"name": variable, "value": value}]}]}}}});
        facts.deployments = Seen::Known(vec![serde_json::from_value(deployment).unwrap()]);
        let found = found(&facts, &hidden).unwrap();
        assert_eq!(found.state, state, "{name} {variable}={value}");
    }
}
