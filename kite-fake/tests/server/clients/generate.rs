//! What `kubectl create` and its relatives make.

use crate::clients::kubectl::{Kubectl, session};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_makes_objects() {
    session("generate", "", generate).await;
}

fn generate(k: &Kubectl) {
    k.all(&[
        "create namespace lab",
        "config set-context --current --namespace=lab",
        "create deployment web --image=img --replicas=2 --port=80",
        "create configmap map --from-literal=k=v",
        "create secret generic plain --from-literal=k=v",
        "create secret docker-registry pull --docker-server=s --docker-username=u --docker-password=p",
        "create role reader --verb=get,list --resource=pods,deployments.apps",
        "create clusterrole all --verb=* --resource=nodes",
        "create rolebinding readers --role=reader --serviceaccount=lab:robot --user=jane",
        "create clusterrolebinding everybody --clusterrole=all --group=g",
        "create serviceaccount robot",
        "create quota few --hard=configmaps=10",
        "create ingress front --class=c --rule='a.example.com/x*=web:80,tls=t'",
        "create service clusterip one --tcp=80:8080",
        "create service nodeport two --tcp=80",
        "create service loadbalancer three --tcp=80",
        "create service externalname four --external-name=a.example.com",
        "create job once --image=img",
        "create priorityclass high --value=10",
        "expose deployment web --port=80 --target-port=8080 --name=door --type=NodePort",
        "create deployment dry --image=img --dry-run=server",
        "create deployment none --image=img --replicas=0",
    ]);
    if k.since(21) {
        // Older ones ask for versions that are no longer served.
        k.all(&[
            "create cronjob often --image=img --schedule='*/5 * * * *'",
            "create job now --from=cronjob/often",
            "create poddisruptionbudget some --min-available=1 --selector=app=web",
        ]);
    }
    // kubectl writes in protobuf, where a zero must say that it was meant.
    k.says("get deployment none -o jsonpath={.spec.replicas}", "0");
    k.says("get quota few", "configmaps: 2/10");
    k.refuses("get deployment dry", "not found");
    k.refuses("create configmap map", "already exists");
    k.says("get ingress front", "a.example.com");
    k.says("get rolebinding readers -o wide", "lab/robot");
    k.says(
        "get clusterrolebinding everybody -o wide",
        "ClusterRole/all",
    );
    k.says("get service three", "LoadBalancer");
    k.says("get priorityclass high", "10");
    k.says(
        "rollout status deployment/web --timeout=20s",
        "successfully rolled out",
    );
    for what in [
        "deployment/web",
        "secret/plain",
        "role/reader",
        "clusterrole/all",
        "rolebinding/readers",
        "clusterrolebinding/everybody",
        "sa/robot",
        "quota/few",
        "ingress/front",
        "service/one",
        "job/once",
        "priorityclass/high",
        "service/door",
    ] {
        k.ok(&format!("describe {what}"), "");
    }
    k.says(
        "auth can-i list pods --as=system:serviceaccount:lab:robot",
        "yes",
    );
    if k.since(24) {
        assert!(k.ok("create token robot", "").trim().len() > 20);
    }
    // The namespace takes everything with it.
    k.all(&["delete namespace lab --timeout=20s"]);
    k.refuses("get namespace lab", "not found");
    k.all(&[
        "delete clusterrole all",
        "delete clusterrolebinding everybody",
        "delete priorityclass high",
    ]);
}
