//! `get`, `describe`, `explain` and the other ways to look.

use crate::clients::kubectl::{Kubectl, session};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_shows_what_there_is() {
    session("show", "", show).await;
}

fn show(k: &Kubectl) {
    k.all(&[
        "version",
        "cluster-info",
        "api-versions",
        "run one --image=img --labels=app=one,tier=t --port=80",
        "run two --image=img --labels=app=two",
        "create deployment web --image=img --replicas=2",
        "create configmap map --from-literal=a=1 --from-literal=b=2",
        "wait pod/one --for=condition=Ready --timeout=20s",
    ]);
    k.says("api-resources", "deployments");
    k.says("api-resources --namespaced=false -o wide", "namespaces");
    k.says("api-resources --api-group=apps -o name", "daemonsets.apps");
    forms(k);
    selections(k);
    every_kind(k);
    explanations(k);
    watching(k);
    k.says("auth can-i create pods", "yes");
    k.says("auth can-i --list", "*.*");
    k.refuses("top pods", "Metrics API not available");
    k.refuses("logs one", "does not support pods/log");
    k.refuses("exec one -- ls", "does not support pods/exec");
    k.refuses("get pods none", "not found");
    k.refuses("get wombats", "doesn't have a resource type");
}

fn forms(k: &Kubectl) {
    k.says("get pods", "READY   STATUS");
    k.says("get pods -o wide", "NOMINATED NODE");
    k.says("get pods -o yaml", "kind: Pod");
    k.says("get pods -o json", "\"kind\": \"Pod\"");
    k.says("get pods one -o name", "pod/one");
    k.says("get pods -o jsonpath={.items[*].metadata.name}", "one");
    k.says(
        "get pods -o custom-columns=N:.metadata.name,L:.metadata.labels.app",
        "L\n",
    );
    k.says("get pods -o 'go-template={{len .items}}'", "4");
    k.says("get pods --show-labels", "app=one,tier=t");
    k.says("get pods -L app", "APP");
    k.says("get pods --show-kind --no-headers", "pod/two");
    k.says("get pods --sort-by=.metadata.name", "one");
    k.says("get pods --chunk-size=1", "two");
    k.says("get pod/one deploy/web", "deployment.apps/web");
    k.says("get all -A", "service/kubernetes");
    k.says("get --raw /healthz", "ok");
    k.says("get --raw /readyz?verbose", "readyz check passed");
    assert_eq!(k.ok("get pods none --ignore-not-found", ""), "");
}

fn selections(k: &Kubectl) {
    k.says("get pods -l app=one -o name", "pod/one");
    k.says("get pods -l 'app in (one,three),tier' -o name", "pod/one");
    k.says("get pods -l '!app,none' -o name -A --ignore-not-found", "");
    k.says(
        "get pods --field-selector=metadata.name=two -o name",
        "pod/two",
    );
    k.says(
        "get pods -A --field-selector=status.phase=Running -o name",
        "pod/one",
    );
    k.refuses(
        "get pods --field-selector=spec.x=1",
        "field label not supported: spec.x",
    );
    k.refuses("get pods -l 'a in b'", "expected: '('");
}

/// Every kind has a table, and the common ones a description.
fn every_kind(k: &Kubectl) {
    let kinds = k.ok("api-resources --verbs=list -o name", "");
    let kinds: Vec<&str> = kinds.split_whitespace().collect();
    assert!(kinds.len() > 40, "{kinds:?}");
    // All kinds in one request each, as `get all` does.
    k.ok(&format!("get {} -A -o wide", kinds.join(",")), "");
    for (what, expected) in [
        ("pod one", "Image:"),
        ("deployment web", "2 available"),
        ("configmap map", "Data"),
        ("namespace default", "Active"),
        ("nodes", "Capacity"),
        ("service kubernetes", "Endpoints"),
        ("serviceaccounts", "Tokens"),
    ] {
        k.says(&format!("describe {what}"), expected);
    }
}

fn explanations(k: &Kubectl) {
    k.says("explain pods", "FIELDS");
    k.says("explain pods.spec.containers.resources", "limits");
    k.says("explain deployment --recursive", "matchLabels");
    k.refuses("explain pods.nothing", "does not exist");
}

/// `-w` prints rows as they come; `timeout` ends it.
fn watching(k: &Kubectl) {
    let watched = |line: &str| {
        let out = k.run(&format!("{line} --request-timeout=2s"), "");
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let rows = watched("get pods -w");
    assert!(rows.contains("one") && rows.contains("READY"), "{rows}");
    let new = watched("get pods --watch-only");
    assert!(!new.contains("one"), "{new}");
    let json = watched("get configmap map -w -o json --output-watch-events");
    assert!(
        json.contains("ADDED") && json.contains("ConfigMap"),
        "{json}"
    );
}
