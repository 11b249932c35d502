//! `kubectl` on the in-memory server, over loopback HTTP.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use kite_fake::FakeCluster;

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
    subresources: {status: {}}
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
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
";

struct Kubectl {
    config: PathBuf,
}

impl Kubectl {
    fn run(&self, args: &str, stdin: &str) -> Output {
        use std::io::Write as _;
        // coreutils' timeout, so that a hang is a failure that names the command.
        let mut child = Command::new("timeout")
            .args(["20", "kubectl", "--kubeconfig"])
            .arg(&self.config)
            .arg("--cache-dir")
            .arg(self.config.with_extension("cache"))
            .args(args.split_whitespace())
            .env("KUBE_EDITOR", "sed -i 's/k: w/k: edited/'")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(stdin.as_bytes())
            .unwrap();
        child.wait_with_output().unwrap()
    }

    fn ok(&self, args: &str, stdin: &str) -> String {
        let out = self.run(args, stdin);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            out.status.success(),
            "kubectl {args}: {}{}",
            text(&out.stdout),
            text(&out.stderr)
        );
        text(&out.stdout)
    }

    fn fails(&self, args: &str, stdin: &str) -> String {
        let out = self.run(args, stdin);
        assert!(!out.status.success(), "kubectl {args} should have failed");
        String::from_utf8_lossy(&out.stderr).into_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session() {
    if Command::new("kubectl")
        .arg("version")
        .arg("--client")
        .output()
        .is_err()
    {
        println!("skipped: no kubectl on the PATH");
        return;
    }
    let cluster = FakeCluster::builder().crds_yaml(CRD).build().unwrap();
    let served = cluster.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let folder = std::env::temp_dir().join(format!("kite-fake-kubectl-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let config = folder.join("kubeconfig");
    cluster.write_kubeconfig(&config, &served.url()).unwrap();
    let kubectl = Kubectl { config };
    tokio::task::spawn_blocking(move || session(&kubectl))
        .await
        .unwrap();
    cluster.shut_down();
    served.ended().await;
    std::fs::remove_dir_all(&folder).unwrap();
}

fn session(k: &Kubectl) {
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
    k.ok(
        "patch boat a --type merge --subresource status -p {\"status\":{\"phase\":\"Afloat\"}}",
        "",
    );
    k.ok(
        "wait boat/a --for jsonpath={.status.phase}=Afloat --timeout 5s",
        "",
    );

    k.ok("create configmap c --from-literal k=v", "");
    k.ok("create secret generic s --from-literal k=v", "");
    assert!(k.ok("describe configmap c", "").contains("k:"));
    let edit = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: w}\n";
    assert!(k.run("diff -f -", edit).status.code() == Some(1));
    k.ok("replace -f -", edit);
    assert_eq!(k.ok("get cm c -o jsonpath={.data.k}", "").trim(), "w");
    k.ok("edit cm c", "");
    assert_eq!(k.ok("get cm c -o jsonpath={.data.k}", "").trim(), "edited");
    k.ok("create deployment d --image img", "");
    assert!(k.ok("get all", "").contains("deployment.apps/d"));
    assert!(k.ok("describe deployment d", "").contains("img"));
    k.ok("scale deployment d --replicas 3", "");
    assert_eq!(
        k.ok("get deploy d -o jsonpath={.spec.replicas}", "").trim(),
        "3"
    );
    k.ok("expose deployment d --port 80", "");
    assert!(k.ok("get service d", "").contains("ClusterIP"));
    k.ok("delete boat a --timeout 10s", "");
    assert!(k.fails("get boat a", "").contains("not found"));
    k.ok("delete cm,secret,deploy --all --timeout 10s", "");
    k.ok("create serviceaccount sa", "");
    let token = k.ok("create token sa", "");
    assert!(token.trim().len() > 20, "{token}");
    assert!(k.ok("auth whoami", "").contains("kubernetes-admin"));
    k.ok("run p --image img", "");
    let logs = k.fails("logs p", "");
    assert!(logs.contains("does not support"), "{logs}");
    k.ok("delete pod p --grace-period 0 --force", "");
}
