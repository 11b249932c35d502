//! `kubectl apply`, `diff`, `replace` and kustomizations.

use crate::clients::kubectl::{Kubectl, session};

const MAP: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: map, labels: {set: one}}
data: {k: v}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_applies_files() {
    session("apply", "", apply).await;
}

fn apply(k: &Kubectl) {
    let changed = MAP.replace("k: v", "k: w");
    for (text, expected) in [
        (MAP, "created"),
        (MAP, "unchanged"),
        (&changed, "configured"),
    ] {
        assert!(k.ok("apply -f -", text).contains(expected), "{expected}");
    }
    assert!(
        k.ok("apply --dry-run=server -f -", MAP)
            .contains("server dry run")
    );
    assert!(k.ok("apply view-last-applied -f -", MAP).contains("k: w"));
    k.ok("apply set-last-applied -f -", MAP);
    assert_eq!(k.run("diff -f -", MAP).status.code(), Some(1));
    assert_eq!(k.run("diff -f -", &changed).status.code(), Some(0));
    if k.since(25) {
        // Older ones prune kinds that are no longer served.
        k.ok("apply -f -", &MAP.replace("name: map", "name: other"));
        k.ok("apply --prune -l set=one -f -", MAP);
        k.refuses("get configmap other", "not found");
    }
    k.ok("replace -f -", &changed);
    k.ok("replace --force -f -", MAP);
    let strange = MAP.replace("data:", "dta:");
    if k.since(25) {
        let refused = k.fails(
            "create --validate=strict -f -",
            &strange.replace("name: map", "name: x"),
        );
        assert!(refused.contains("unknown field \"dta\""), "{refused}");
    } else {
        assert!(
            k.fails("apply -f -", &strange)
                .contains("unknown field \"dta\"")
        );
    }
    server_side(k);
    kustomization(k);
}

/// Two managers want one field: the later is told, and may insist.
fn server_side(k: &Kubectl) {
    let map = MAP.replace("name: map", "name: shared");
    let other = map.replace("k: v", "k: other");
    assert!(
        k.ok("apply --server-side -f -", &map)
            .contains("serverside-applied")
    );
    k.ok("apply --server-side --field-manager=second -f -", &map);
    let refused = k.fails("apply --server-side --field-manager=third -f -", &other);
    assert!(
        refused.contains("Apply failed with") && refused.contains(".data.k"),
        "{refused}"
    );
    k.ok(
        "apply --server-side --field-manager=third --force-conflicts -f -",
        &other,
    );
    k.says("get configmap shared -o jsonpath={.data.k}", "other");
    if k.since(21) {
        k.says(
            "get configmap shared -o yaml --show-managed-fields",
            "manager: third",
        );
    }
}

fn kustomization(k: &Kubectl) {
    let folder = k.folder.join("custom");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("map.yaml"), MAP).unwrap();
    let text = "resources: [map.yaml]\nnamePrefix: my-\nconfigMapGenerator: [{name: made, literals: [x=y]}]\n";
    std::fs::write(folder.join("kustomization.yaml"), text).unwrap();
    k.says("apply -k custom", "configmap/my-map created");
    k.says("get configmaps -o name", "configmap/my-made-");
    k.says("delete -k custom", "deleted");
}
