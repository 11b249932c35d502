//! Who is asked, and about what.

use serde_json::{Value, json};

use super::{JSON, MAPS, World, allowed, map};

#[tokio::test]
async fn a_create_is_shown_as_it_will_be_stored() {
    let world = World::new();
    world.validate("a.example.com", json!({})).await;
    world.answer("a.example.com", |_| allowed());
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"generateName": "made-"}, "data": {"a": "1"}});
    let path = format!("{MAPS}?fieldManager=me&fieldValidation=Strict");
    let created = world.post(&path, body).await.expect(201).body;
    let requests = world.requests();
    let [request] = requests.as_slice() else {
        panic!("asked {} times", requests.len());
    };
    let name = &created["metadata"]["name"];
    assert_ne!(name, "made-");
    assert_eq!(request["name"], *name);
    assert_eq!(request["namespace"], "default");
    assert_eq!(request["operation"], "CREATE");
    assert_eq!(
        request["object"]["metadata"]["uid"],
        created["metadata"]["uid"]
    );
    assert_eq!(
        request["kind"],
        json!({"group": "", "version": "v1", "kind": "ConfigMap"})
    );
    assert_eq!(request["requestKind"], request["kind"]);
    assert_eq!(
        request["requestResource"],
        json!({"group": "", "version": "v1", "resource": "configmaps"})
    );
    assert_eq!(request["oldObject"], Value::Null);
    assert_eq!(request["dryRun"], false);
    assert_eq!(request["userInfo"]["username"], "kubernetes-admin");
    assert_eq!(
        request["options"],
        json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me",
            "fieldValidation": "Strict"})
    );
    // A request is one entry of the log, however often it was worked on.
    let log = world.cluster.server().log().writes();
    assert_eq!(log, 2);
}

#[tokio::test]
async fn updates_and_deletions_show_what_was_there() {
    let world = World::new();
    world.answer("a.example.com", |_| allowed());
    world.post(MAPS, map("a")).await.expect(201);
    world.post(MAPS, map("b")).await.expect(201);
    world.validate("a.example.com", json!({})).await;
    let path = format!("{MAPS}/a");
    let merge = "application/merge-patch+json";
    world
        .send("PATCH", &path, merge, r#"{"data":{"a":"1"}}"#)
        .await
        .expect(200);
    let [update] = world.requests().try_into().unwrap();
    assert_eq!(update["operation"], "UPDATE");
    assert_eq!(update["options"]["kind"], "UpdateOptions");
    assert_eq!(update["object"]["data"], json!({"a": "1"}));
    assert_eq!(update["oldObject"]["data"], Value::Null);

    let options = json!({"propagationPolicy": "Background"});
    world.send("DELETE", &path, JSON, options).await.expect(200);
    let [delete] = world.requests().try_into().unwrap();
    assert_eq!(delete["operation"], "DELETE");
    assert_eq!(delete["object"], Value::Null);
    assert_eq!(delete["oldObject"]["data"], json!({"a": "1"}));
    assert_eq!(delete["options"]["propagationPolicy"], "Background");
    world.get(&path).await.expect(404);

    world.post(MAPS, map("c")).await.expect(201);
    world.requests();
    world.send("DELETE", MAPS, JSON, "").await.expect(200);
    let names: Vec<Value> = world
        .requests()
        .iter()
        .map(|it| it["oldObject"]["metadata"]["name"].clone())
        .collect();
    assert_eq!(names, ["b", "c"]);
    world.get(&format!("{MAPS}/b")).await.expect(404);
}

#[tokio::test]
async fn a_collection_goes_up_to_the_object_that_may_not() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.post(MAPS, map(name)).await.expect(201);
    }
    world.validate("a.example.com", json!({})).await;
    world.answer(
        "a.example.com",
        |request| json!({"allowed": request["oldObject"]["metadata"]["name"] != "b"}),
    );
    let told = world.send("DELETE", MAPS, JSON, "").await.expect(400);
    assert_eq!(
        told.message(),
        "admission webhook \"a.example.com\" denied the request without explanation"
    );
    world.get(&format!("{MAPS}/a")).await.expect(404);
    world.get(&format!("{MAPS}/b")).await.expect(200);
    world.get(&format!("{MAPS}/c")).await.expect(200);
}

#[tokio::test]
async fn rules_selectors_and_conditions_choose() {
    let rule = |group: &str, resources: &[&str], operations: &[&str], scope: &str| {
        json!([{"apiGroups": [group], "apiVersions": ["*"], "resources": resources,
            "operations": operations, "scope": scope}])
    };
    let is_asked = async |more: Value| {
        let world = World::new();
        world.validate("a.example.com", more).await;
        world.answer("a.example.com", |_| allowed());
        let mut body = map("a");
        body["metadata"]["labels"] = json!({"tier": "gold"});
        world.post(MAPS, body).await.expect(201);
        !world.who().is_empty()
    };
    for (more, wanted) in [
        (
            json!({"rules": rule("", &["configmaps"], &["CREATE"], "*")}),
            true,
        ),
        (
            json!({"rules": rule("", &["*"], &["CREATE"], "Namespaced")}),
            true,
        ),
        (json!({"rules": rule("", &["*/*"], &["CREATE"], "*")}), true),
        (
            json!({"rules": rule("", &["configmaps/status"], &["CREATE"], "*")}),
            false,
        ),
        (
            json!({"rules": rule("", &["configmaps"], &["CREATE"], "Cluster")}),
            false,
        ),
        (
            json!({"rules": rule("", &["configmaps"], &["UPDATE"], "*")}),
            false,
        ),
        (json!({"rules": rule("apps", &["*"], &["*"], "*")}), false),
        (
            json!({"objectSelector": {"matchLabels": {"tier": "gold"}}}),
            true,
        ),
        (
            json!({"objectSelector": {"matchLabels": {"tier": "lead"}}}),
            false,
        ),
        (
            json!({"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name",
                "operator": "NotIn", "values": ["kube-system"]}]}}),
            true,
        ),
        (
            json!({"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name",
                "operator": "NotIn", "values": ["default"]}]}}),
            false,
        ),
        (
            json!({"matchConditions": [{"name": "gold",
                "expression": "object.metadata.labels.tier == 'gold'"}]}),
            true,
        ),
        (
            json!({"matchConditions": [{"name": "others",
                "expression": "request.userInfo.username != 'kubernetes-admin'"}]}),
            false,
        ),
        // What fails is not asked where failures do not count.
        (
            json!({"failurePolicy": "Ignore", "matchConditions": [{"name": "fails",
                "expression": "object.spec.x == 1"}]}),
            false,
        ),
    ] {
        assert_eq!(is_asked(more.clone()).await, wanted, "{more}");
    }
}

#[tokio::test]
async fn a_condition_that_fails_refuses() {
    let world = World::new();
    let condition = json!([{"name": "fails", "expression": "object.spec.x == 1"}]);
    world
        .validate("a.example.com", json!({"matchConditions": condition}))
        .await;
    let told = world.post(MAPS, map("a")).await.expect(403);
    let begin =
        "configmaps \"a\" is forbidden: expression 'object.spec.x == 1' resulted in error: ";
    assert!(told.message().starts_with(begin), "{}", told.message());
}

#[tokio::test]
async fn configurations_are_not_asked_about_each_other() {
    let world = World::new();
    let all = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]);
    world.validate("a.example.com", json!({"rules": all})).await;
    world.answer("a.example.com", |_| json!({"allowed": false}));
    world.validate("b.example.com", json!({})).await;
    assert!(world.who().is_empty());
    let path =
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/a.example.com";
    world.send("DELETE", path, JSON, "").await.expect(200);
    // Nobody is asked any more, once the configuration is gone.
    let path =
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/b.example.com";
    world.send("DELETE", path, JSON, "").await.expect(200);
    world.post(MAPS, map("a")).await.expect(201);
    assert!(world.who().is_empty());
}

#[tokio::test]
async fn subresources_are_asked_about_as_such() {
    let world = World::new();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "a", "image": "a"}]}});
    world.post(pods, pod).await.expect(201);
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "a", "image": "a"}]}}}});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    world.post(deployments, deployment).await.expect(201);
    let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"],
        "resources": ["*/*"]}]);
    world
        .validate("a.example.com", json!({"rules": rules}))
        .await;
    world.answer("a.example.com", |_| allowed());

    let status = json!({"status": {"phase": "Running"}});
    let merge = "application/merge-patch+json";
    world
        .send("PATCH", &format!("{pods}/a/status"), merge, status)
        .await
        .expect(200);
    let [request] = world.requests().try_into().unwrap();
    assert_eq!(request["subResource"], "status");
    assert_eq!(request["kind"]["kind"], "Pod");

    let scale = json!({"spec": {"replicas": 3}});
    world
        .send("PATCH", &format!("{deployments}/a/scale"), merge, scale)
        .await
        .expect(200);
    let [request] = world.requests().try_into().unwrap();
    assert_eq!(request["subResource"], "scale");
    assert_eq!(
        request["kind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
    assert_eq!(request["resource"]["resource"], "deployments");
    assert_eq!(request["object"]["spec"]["replicas"], 3);
    assert_eq!(request["oldObject"]["spec"]["replicas"], 1);

    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
        "target": {"kind": "Node", "name": "n"}});
    world
        .post(&format!("{pods}/a/binding"), binding)
        .await
        .expect(201);
    let [request] = world.requests().try_into().unwrap();
    assert_eq!(request["kind"]["kind"], "Binding");
    assert_eq!(request["object"]["target"]["name"], "n");

    world
        .post(
            &format!("{pods}/a/exec?command=ls&command=-l&stdin=true"),
            json!({}),
        )
        .await
        .expect(501);
    let [request] = world.requests().try_into().unwrap();
    assert_eq!(request["operation"], "CONNECT");
    assert_eq!(
        request["object"],
        json!({"kind": "PodExecOptions", "apiVersion": "v1", "stdin": true, "command": ["ls", "-l"]})
    );
    assert_eq!(request["options"], Value::Null);

    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    world
        .post(&format!("{pods}/a/eviction"), eviction)
        .await
        .expect(201);
    // An eviction is no deletion to whoever asks.
    let [request] = world.requests().try_into().unwrap();
    assert_eq!(request["operation"], "CREATE");
    assert_eq!(
        request["kind"],
        json!({"group": "policy", "version": "v1", "kind": "Eviction"})
    );
}

#[tokio::test]
async fn a_rule_of_another_version_shows_the_object_in_that() {
    let world = World::new();
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "kettles.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "kettles", "kind": "Kettle"},
            "versions": [version("v1", true), version("v2", false)]},
    });
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.post(crds, definition).await.expect(201);
    let rules = json!([{"apiGroups": ["example.com"], "apiVersions": ["v1"],
        "operations": ["CREATE"], "resources": ["kettles"]}]);
    for (name, policy) in [
        ("exact.example.com", "Exact"),
        ("any.example.com", "Equivalent"),
    ] {
        world
            .validate(name, json!({"rules": rules, "matchPolicy": policy}))
            .await;
        world.answer(name, |_| allowed());
    }
    let kettle =
        json!({"apiVersion": "example.com/v2", "kind": "Kettle", "metadata": {"name": "a"}});
    let kettles = "/apis/example.com/v2/namespaces/default/kettles";
    world.post(kettles, kettle).await.expect(201);
    let [request] = world.requests().try_into().unwrap();
    assert_eq!(request["object"]["apiVersion"], "example.com/v1");
    assert_eq!(request["kind"]["version"], "v1");
    assert_eq!(request["requestKind"]["version"], "v2");
    assert_eq!(request["requestResource"]["version"], "v2");
}

#[tokio::test]
async fn a_review_is_asked_about_too() {
    let world = World::new();
    let rules = json!([{"apiGroups": ["authorization.k8s.io"], "apiVersions": ["v1"],
        "operations": ["CREATE"], "resources": ["*"]}]);
    world
        .validate("a.example.com", json!({"rules": rules}))
        .await;
    world.answer("a.example.com", |_| allowed());
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "a", "resourceAttributes": {"verb": "get", "resource": "pods"}}});
    world
        .post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        .await
        .expect(201);
    let [request] = world.requests().try_into().unwrap();
    assert_eq!(request["object"]["spec"]["user"], "a");
}

#[tokio::test]
async fn a_service_is_shown_with_its_address() {
    let world = World::new();
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
        "resources": ["services"]}]);
    world
        .validate("a.example.com", json!({"rules": rules}))
        .await;
    world.answer("a.example.com", |_| allowed());
    let services = "/api/v1/namespaces/default/services";
    let body = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"},
        "spec": {"ports": [{"port": 80}]}});
    let created = world.post(services, body).await.expect(201).body;
    let [request] = world.requests().try_into().unwrap();
    let address = &created["spec"]["clusterIP"];
    assert!(address.is_string());
    assert_eq!(request["object"]["spec"]["clusterIP"], *address);

    let merge = "application/merge-patch+json";
    let ports = json!({"spec": {"type": "NodePort"}});
    let path = format!("{services}/a");
    let changed = world.send("PATCH", &path, merge, ports).await.expect(200);
    let [request] = world.requests().try_into().unwrap();
    let port = &changed.body["spec"]["ports"][0]["nodePort"];
    assert!(port.is_number());
    assert_eq!(request["object"]["spec"]["ports"][0]["nodePort"], *port);
}

#[tokio::test]
async fn a_namespace_is_selected_by_its_own_labels() {
    let world = World::new();
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
        "resources": ["namespaces"]}]);
    let selector = json!({"matchLabels": {"watched": "yes"}});
    world
        .validate(
            "a.example.com",
            json!({"rules": rules, "namespaceSelector": selector}),
        )
        .await;
    world.answer("a.example.com", |_| allowed());
    let namespace = |name: &str, watched: &str| {
        json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"watched": watched}}})
    };
    let path = "/api/v1/namespaces";
    world.post(path, namespace("a", "no")).await.expect(201);
    assert!(world.who().is_empty());
    world.post(path, namespace("b", "yes")).await.expect(201);
    let [request] = world.requests().try_into().unwrap();
    assert_eq!(request["namespace"], "b");
    // A deletion goes by what is stored.
    let path = "/api/v1/namespaces/b";
    world.send("DELETE", path, JSON, "").await.expect(200);
    assert_eq!(world.who().len(), 1);
}
