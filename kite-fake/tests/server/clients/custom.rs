//! `kubectl` and custom resources.

use crate::clients::kubectl::{Kubectl, session};

const CRD: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.demo.example.com}
spec:
  group: demo.example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, shortNames: [bt]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.crew, statusReplicasPath: .status.crew}}
    additionalPrinterColumns:
    - {name: Length, type: integer, jsonPath: .spec.length}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [length]
            properties:
              length: {type: integer, minimum: 1, description: Length in metres.}
              crew: {type: integer}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_knows_custom_resources() {
    session("custom", CRD, custom).await;
}

fn custom(k: &Kubectl) {
    assert!(k.ok("get namespaces", "").contains("kube-system"));
    assert!(k.ok("api-resources", "").contains("boats"));
    assert_eq!(k.ok("auth can-i create pods", "").trim(), "yes");

    let boat = |length: i32| {
        serde_json::json!({
            "apiVersion": "demo.example.com/v1", "kind": "Boat",
            "metadata": {"name": "a", "labels": {"fleet": "x"}},
            "spec": {"length": length},
        })
        .to_string()
    };
    assert!(k.ok("apply -f -", &boat(7)).contains("created"));
    assert!(k.ok("apply -f -", &boat(7)).contains("unchanged"));
    assert!(k.ok("apply -f -", &boat(8)).contains("configured"));
    assert!(
        k.ok("apply --server-side --force-conflicts -f -", &boat(9))
            .contains("serverside-applied")
    );
    let refused = k.fails("apply -f -", &boat(0));
    assert!(refused.contains("greater than or equal to 1"), "{refused}");
    let table = k.ok("get bt -o wide -l fleet=x", "");
    assert!(table.contains("LENGTH") && table.contains('9'), "{table}");
    assert_eq!(
        k.ok("get boat a -o jsonpath={.spec.length}", "").trim(),
        "9"
    );
    assert!(k.ok("get boats -A --chunk-size 1", "").contains("default"));
    assert!(
        k.ok("get boats --field-selector metadata.name=a -o name", "")
            .contains("boat")
    );
    assert!(k.ok("describe boat a", "").contains("Length"));
    assert!(k.ok("explain boat.spec.length", "").contains("metres"));
    k.ok("label boat a speed=fast", "");
    k.ok("annotate boat a note=hi", "");
    k.ok("patch boat a --type merge -p {\"spec\":{\"length\":4}}", "");
    if k.since(24) {
        k.ok(
            "patch boat a --type merge --subresource status -p {\"status\":{\"phase\":\"Afloat\"}}",
            "",
        );
        k.ok(
            "wait boat/a --for jsonpath={.status.phase}=Afloat --timeout 5s",
            "",
        );
        k.says("describe boat a", "Afloat");
    }

    k.ok("scale boat a --replicas 3", "");
    k.says("get boat a -o jsonpath={.spec.crew}", "3");
    k.says("api-resources --api-group=demo.example.com", "bt");
    k.ok(
        "wait crd/boats.demo.example.com --for condition=Established --timeout 5s",
        "",
    );
    k.ok("delete boat a --timeout 10s", "");
    assert!(k.fails("get boat a", "").contains("not found"));
    if k.since(27) {
        assert!(k.ok("auth whoami", "").contains("kubernetes-admin"));
    }
    k.ok("delete crd boats.demo.example.com --timeout 10s", "");
    k.fails("get boats", "");
}
