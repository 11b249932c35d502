//! How `kubectl` changes, waits for and deletes objects.

use crate::clients::kubectl::{Kubectl, session};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_changes_objects() {
    session("change", "", change).await;
}

fn change(k: &Kubectl) {
    k.all(&[
        "create deployment web --image=img",
        "run pod --image=img",
        "create configmap map --from-literal=k=w",
        "create serviceaccount robot",
        "create service clusterip door --tcp=80",
        "create rolebinding rb --clusterrole=view --user=jane",
    ]);
    metadata(k);
    workloads(k);
    patches(k);
    k.ok("edit configmap map", "");
    assert_eq!(k.ok("get cm map -o jsonpath={.data.k}", ""), "edited");
    endings(k);
}

fn metadata(k: &Kubectl) {
    k.ok("label pod pod x=y", "");
    k.refuses("label pod pod x=z", "--overwrite is false");
    k.all(&[
        "label pod pod x=z --overwrite",
        "label pods --all all=1",
        "label pod pod x-",
        "annotate pod pod note=hi",
        "annotate pod pod note-",
        "set subject rolebinding rb --user=joe",
        "set selector service door a=b",
    ]);
    assert_eq!(
        k.ok("get pod pod -o jsonpath={.metadata.labels.all}", ""),
        "1"
    );
}

fn workloads(k: &Kubectl) {
    k.all(&[
        "scale deployment web --replicas=3",
        "scale deployment/web --current-replicas=3 --replicas=1",
        "set image deployment/web img=img:2",
        "set env deployment/web A=B",
        "set resources deployment/web --limits=cpu=200m,memory=64Mi",
        "set serviceaccount deployment web robot",
        "rollout pause deployment/web",
        "rollout resume deployment/web",
        "rollout restart deployment/web",
        "rollout status deployment/web --timeout=20s",
        "rollout history deployment/web",
    ]);
    k.refuses(
        "scale deployment/web --current-replicas=9 --replicas=1",
        "Expected replicas to be 9",
    );
    k.says("get deployment web -o wide", "img:2");
    k.says("get nodes", "Ready");
    let node = k.ok("get nodes -o jsonpath={.items[0].metadata.name}", "");
    k.all(&[&format!("cordon {node}"), &format!("uncordon {node}")]);
}

fn patches(k: &Kubectl) {
    k.all(&[
        r#"patch deployment web -p {"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}"#,
        r#"patch configmap map --type merge -p {"data":{"gone":null,"m":"1"}}"#,
        r#"patch configmap map --type json -p [{"op":"remove","path":"/data/m"}]"#,
    ]);
    if k.since(24) {
        k.ok(
            r#"patch deployment web --subresource=scale --type merge -p {"spec":{"replicas":2}}"#,
            "",
        );
        assert_eq!(
            k.ok("get deployment web -o jsonpath={.spec.replicas}", ""),
            "2"
        );
    }
    k.refuses(
        r#"patch configmap map --type json -p [{"op":"remove","path":"/none"}]"#,
        "",
    );
}

fn endings(k: &Kubectl) {
    k.ok("wait pod/pod --for=condition=Ready --timeout=20s", "");
    if k.since(23) {
        k.ok(
            "wait pod/pod --for=jsonpath='{.status.phase}'=Running --timeout=20s",
            "",
        );
    }
    // A finalizer keeps an object until it is taken away.
    k.all(&[
        r#"patch configmap map --type merge -p {"metadata":{"finalizers":["example.com/hold"]}}"#,
        "delete configmap map --wait=false",
    ]);
    k.refuses("wait configmap/map --for=delete --timeout=1s", "timed out");
    k.ok(
        r#"patch configmap map --type merge -p {"metadata":{"finalizers":null}}"#,
        "",
    );
    k.refuses("get configmap map", "not found");
    k.all(&[
        "delete pod pod --grace-period=0 --force",
        "delete deployment web --cascade=foreground --timeout=20s",
        "delete service door --now",
        "delete rolebinding,serviceaccount --all --timeout=20s",
    ]);
    assert_eq!(k.ok("get replicasets,pods -o name", ""), "");
}
