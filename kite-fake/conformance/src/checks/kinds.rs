//! Rules of single built-in kinds.

use serde_json::{Value, json};

use crate::Checked;
use crate::answer::ensure;
use crate::site::{Site, core, map, maps};

table! { Kinds;
    whole_numbers_have_their_size:
        "A number beyond 32 bits for a member of that size is 400, and so is one with a point.",
        "Clients in typed languages could not read it back.";
    strict_errors_are_in_the_order_of_the_body:
        "Unknown and duplicate members are told in the order in which they are found.",
        "People look for the first.";
    an_apply_may_leave_the_name_to_the_path:
        "An apply to an object that is there needs no metadata.name.",
        "Libraries write status so.";
    one_autoscaler_has_two_versions:
        "A HorizontalPodAutoscaler is read and written as autoscaling/v1 and v2.",
        "Older tools know v1 alone.";
    requests_for_certificates_say_who_asks:
        "The server writes who asks into a CertificateSigningRequest, and keeps its spec.",
        "Signers trust it.";
    tokens_speak_to_their_audiences:
        "A token for an audience is reviewed for that one and no other.",
        "Servers that authenticate by TokenReview.";
    disruption_budgets_begin_with_zeros:
        "The status of a new PodDisruptionBudget has its numbers.",
        "Clients read them without asking whether they are there.";
    balancers_say_how_addresses_are_used:
        "An address of a load balancer without ipMode is one of VIP.",
        "Controllers of before that member was.";
    reviews_are_no_tables:
        "A Table of a review is 406.",
        "A client that asks for nothing else is told.";
    pods_are_resized_by_a_subresource:
        "Resources of a Pod are changed by /resize and not by the Pod itself.",
        "Right-sizing without a restart.";
    pods_are_debugged_by_a_subresource:
        "A container for debugging is added by /ephemeralcontainers.",
        "kubectl debug.";
    gated_pods_say_so:
        "A Pod with schedulingGates says PodScheduled=False, SchedulingGated.",
        "Queues hold Pods back.";
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// A Pod can be made once the account `default` is there, where that is asked for.
async fn place(s: &Site) -> Result<String, crate::Failure> {
    let ns = s.namespace().await?;
    let accounts = core(&ns, "serviceaccounts");
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    // Controllers may have made it already.
    s.post(&accounts, &account).await?.lack()?;
    s.get(&format!("{accounts}/default")).await?.expect(200)?;
    Ok(ns)
}

async fn whole_numbers_have_their_size(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("/apis/apps/v1/namespaces/{ns}/deployments");
    for number in ["3000000000", "3.0"] {
        let body = format!(
            r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"a"}},"spec":{{"replicas":{number},"selector":{{"matchLabels":{{"a":"b"}}}},"template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}}}}}"#
        );
        let answer = s
            .send(
                http::Method::POST,
                &path,
                "application/json",
                body.into_bytes(),
            )
            .await?;
        answer
            .refused(400, "BadRequest")?
            .says(&format!("cannot unmarshal number {number}"))?;
    }
    Ok(())
}

async fn strict_errors_are_in_the_order_of_the_body(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let body = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"nope":1,"data":{"a":"1","a":"2"}}"#;
    let path = format!("{}?fieldValidation=Strict", maps(&ns));
    let answer = s
        .send(http::Method::POST, &path, "application/json", body.to_vec())
        .await?;
    answer
        .refused(400, "BadRequest")?
        .says("unknown field \"nope\", duplicate field \"data.a\"")?;
    Ok(())
}

async fn an_apply_may_leave_the_name_to_the_path(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "2"}});
    s.post(&maps(&ns), &map("a", &json!({})))
        .await?
        .expect(201)?;
    s.apply(&path, "m", &nameless)
        .await?
        .expect(200)?
        .is("/data/k", "2")?;
    let missing = format!("{}/b", maps(&ns));
    s.apply(&missing, "m", &nameless).await?.expect(400)?;
    Ok(())
}

async fn one_autoscaler_has_two_versions(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let of = |version: &str| {
        format!("/apis/autoscaling/{version}/namespaces/{ns}/horizontalpodautoscalers")
    };
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let first = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"}, "spec": {
            "maxReplicas": 5, "targetCPUUtilizationPercentage": 70, "scaleTargetRef": target}});
    s.post(&of("v1"), &first).await?.expect(201)?;
    let second = s.get(&format!("{}/a", of("v2"))).await?.expect(200)?;
    second
        .is("/apiVersion", "autoscaling/v2")?
        .is("/spec/metrics/0/resource/target/averageUtilization", 70)?;
    let patch = json!({"spec": {"metrics": [{"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}});
    s.merge(&format!("{}/a", of("v2")), &patch)
        .await?
        .expect(200)?;
    s.get(&format!("{}/a", of("v1")))
        .await?
        .expect(200)?
        .is("/apiVersion", "autoscaling/v1")?
        .is("/spec/targetCPUUtilizationPercentage", 50)?;
    Ok(())
}

async fn requests_for_certificates_say_who_asks(s: Site) -> Checked {
    const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let name = s.unique();
    let path = format!("{PATH}/{name}");
    s.remove_later(path.clone());
    let request = json!({"apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest", "metadata": {"name": name}, "spec": {
            "request": include_str!("request.b64").trim(),
            "signerName": "example.org/conformance", "usages": ["client auth"],
            "username": "somebody-else"}});
    let made = s.post(PATH, &request).await?.expect(201)?;
    let username = made.text("/spec/username");
    ensure(
        !username.is_empty() && username != "somebody-else",
        "the server says who asks",
    )?;
    let other = json!({"spec": {"signerName": "example.org/other"}});
    s.merge(&path, &other)
        .await?
        .expect(200)?
        .is("/spec/signerName", "example.org/conformance")?;
    Ok(())
}

async fn tokens_speak_to_their_audiences(s: Site) -> Checked {
    let ns = place(&s).await?;
    let path = format!("{}/default/token", core(&ns, "serviceaccounts"));
    let wanted = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": ["conformance"]}});
    let token = s
        .post(&path, &wanted)
        .await?
        .expect(201)?
        .text("/status/token");
    let review = |audience: &str| {
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]}})
    };
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    s.post(reviews, &review("conformance"))
        .await?
        .expect(201)?
        .is("/status/authenticated", true)?
        .is("/status/audiences", json!(["conformance"]))?;
    let other = s.post(reviews, &review("others")).await?.expect(201)?;
    ensure(
        *other.at("/status/authenticated") != json!(true),
        "it does not speak to others",
    )
}

async fn disruption_budgets_begin_with_zeros(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets");
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": {}}});
    let mut made = s.post(&path, &budget).await?.expect(201)?;
    for member in [
        "currentHealthy",
        "desiredHealthy",
        "disruptionsAllowed",
        "expectedPods",
    ] {
        made = made.is(&format!("/status/{member}"), 0)?;
    }
    Ok(())
}

async fn balancers_say_how_addresses_are_used(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let services = core(&ns, "services");
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": "example.org/conformance",
            "ports": [{"port": 80}]}});
    s.post(&services, &service).await?.expect(201)?;
    let address = json!({"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}}});
    s.merge(&format!("{services}/a/status"), &address)
        .await?
        .expect(200)?
        .is("/status/loadBalancer/ingress/0/ipMode", "VIP")?;
    Ok(())
}

async fn reviews_are_no_tables(s: Site) -> Checked {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"nonResourceAttributes": {"path": "/version", "verb": "get"}}});
    s.accepting("application/json;as=Table;v=v1;g=meta.k8s.io")
        .post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            &review,
        )
        .await?
        .refused(406, "NotAcceptable")?;
    Ok(())
}

async fn pods_are_resized_by_a_subresource(s: Site) -> Checked {
    let ns = place(&s).await?;
    let pods = core(&ns, "pods");
    let mut small = pod("a");
    small["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1m"}});
    s.post(&pods, &small).await?.expect(201)?;
    let larger = json!({"spec": {"containers": [
        {"name": "c", "resources": {"requests": {"cpu": "2m"}}}]}});
    let path = format!("{pods}/a");
    let media = crate::site::STRATEGIC;
    s.patch(&path, media, &larger)
        .await?
        .refused(422, "Invalid")?;
    s.patch(&format!("{path}/resize"), media, &larger)
        .await?
        .expect(200)?
        .is("/spec/containers/0/resources/requests/cpu", "2m")?;
    Ok(())
}

async fn pods_are_debugged_by_a_subresource(s: Site) -> Checked {
    let ns = place(&s).await?;
    let pods = core(&ns, "pods");
    s.post(&pods, &pod("a")).await?.expect(201)?;
    let debugging = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}});
    s.patch(
        &format!("{pods}/a/ephemeralcontainers"),
        crate::site::STRATEGIC,
        &debugging,
    )
    .await?
    .expect(200)?
    .is("/spec/ephemeralContainers/0/name", "d")?;
    Ok(())
}

async fn gated_pods_say_so(s: Site) -> Checked {
    let ns = place(&s).await?;
    let mut gated = pod("a");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.org/wait"}]);
    s.post(&core(&ns, "pods"), &gated)
        .await?
        .expect(201)?
        .is("/status/conditions/0/type", "PodScheduled")?
        .is("/status/conditions/0/status", "False")?
        .is("/status/conditions/0/reason", "SchedulingGated")?;
    Ok(())
}
