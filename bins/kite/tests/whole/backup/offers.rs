//! What belongs to somebody who is not back, and what was revoked since.

use std::{collections::BTreeMap, process::Command};

use serde_json::{Value, json};

use super::bed::{Bed, changes};
use crate::support::{becomes, clients_present, show, start_demo};

#[test]
fn vms_of_offers_come_back_and_what_was_revoked_does_not() {
    if !clients_present() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (process, platform) = start_demo(&directory.path().join("state"), &[]);
    let bed = Bed {
        platform,
        directory: directory.path().to_owned(),
    };
    let boss = bed.boss_and_ann_come();
    bed.wait_for_user("ann");
    let ann = bed.sign_in("ann", None);
    bed.offered_comes(&boss, &ann);
    let token = json!({"name": "ci", "scopes": ["vms:read"]});
    let token = bed.post("/api/v1/me/tokens", &ann, &token)["token"].clone();
    bed.post("/api/v1/admin/invites", &boss, &json!({}));
    let epochs = r#"{"spec":{"sessionEpoch":7,"tokenEpoch":0}}"#;
    bed.platform
        .kubectl_ok(&["patch", "kp", "default", "--type=merge", "-p", epochs]);
    let kept = bed.backup("kept.json");
    files_of_others_are_refused(&bed, &kept);

    one_vm_comes_back(&bed);
    revoked_tokens_stay_revoked(&bed, token.as_str().unwrap());
    bed.disaster();
    a_holder_that_is_not_back_has_no_claim(&bed);
    assert_eq!(process.terminate().0, Some(0));
}

fn files_of_others_are_refused(bed: &Bed, kept: &Value) {
    let refused = |arguments: &[&str]| {
        let output = bed.kite(&[&["restore", "kept.json"], arguments].concat());
        assert_eq!(output.status.code(), Some(1), "{}", show(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = refused(&["--namespace=other"]);
    assert!(said.contains("--namespace kite"), "{said}");
    let said = refused(&["--only=KiteUser/nobody"]);
    assert!(said.contains("KiteUser/nobody"), "{said}");
    let count = |kind: &str| {
        let entries = kept["entries"].as_array().unwrap().iter();
        entries.filter(|it| it["object"]["kind"] == kind).count()
    };
    assert_eq!((count("KiteToken"), count("KiteInvite")), (1, 1));

    // Nobody reads on: there is no backup.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_kite"))
        .args(["backup", "-"])
        .env("KUBECONFIG", bed.platform.state.join("kubeconfig"))
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", show(&output));

    // What is called like a part of it is somebody else's.
    let part = bed.directory.join("mine.json.part");
    std::fs::write(&part, "mine").unwrap();
    bed.backup("mine.json");
    assert_eq!(std::fs::read_to_string(&part).unwrap(), "mine");
    let files = std::fs::read_dir(&bed.directory).unwrap();
    let parts = files.filter(|it| {
        let name = it.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".part")
    });
    assert_eq!(parts.count(), 1);
}

/// In the same cluster, twice: the claim then names a VM that the backup never knew.
fn one_vm_comes_back(bed: &Bed) {
    let ann = bed.sign_in("ann", None);
    for _ in 0..2 {
        bed.offered_goes();
        let (code, rows) = bed.restore("kept.json", &["--only=KiteVirtualMachine/offered"]);
        assert_eq!(code, Some(0), "{rows:#?}");
        for name in ["KiteVirtualMachine/offered", "Secret/offered-ssh-key"] {
            assert_eq!(rows[name]["change"], "created", "{name}");
        }
        let claim = &rows["KiteReservation/offer.small"];
        assert_eq!(claim["change"], "overwritten", "{rows:#?}");
        bed.offered_is_back(&ann);
    }
}

fn revoked_tokens_stay_revoked(bed: &Bed, token: &str) {
    let works = || bed.platform.curl("GET", "/api/v1/vms", Some(token), None).0 == 200;
    assert!(works());
    for kind in ["kitetokens", "kiteinvites"] {
        bed.platform.kubectl_ok(&["delete", kind, "--all"]);
    }
    // The API hears of it a moment later.
    becomes("the token works", &false, works);
    let (code, rows) = bed.restore("kept.json", &[]);
    let skipped = changes(&rows, "skipped");
    assert_eq!((code, skipped.len()), (Some(3), 2), "{rows:#?}");
    assert!(!works());
    let (code, rows) = bed.restore("kept.json", &["--with-tokens"]);
    assert_eq!((code, changes(&rows, "created").len()), (Some(0), 2));
    becomes("the token works", &true, works);
    // All tokens are over, and the platform is made as it was.
    let spec = r#"{"spec":{"signUp":"Closed","sessionEpoch":9,"tokenEpoch":9}}"#;
    bed.platform
        .kubectl_ok(&["patch", "kp", "default", "--type=merge", "-p", spec]);
    let (_, rows) = bed.restore("kept.json", &["--overwrite"]);
    assert_eq!(rows["KitePlatform/default"]["change"], "overwritten");
    let spec = bed.get(&["kp", "default"])["spec"].clone();
    assert_eq!(
        (&spec["signUp"], &spec["sessionEpoch"], &spec["tokenEpoch"]),
        (&json!("Open"), &json!(9), &json!(9))
    );
}

fn a_holder_that_is_not_back_has_no_claim(bed: &Bed) {
    bed.platform.apply_ok(
        "apiVersion: hy3ons.github.io/v1\nkind: KitePlatform\nmetadata: {name: default}\n\
         spec: {}\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {name: kite-bootstrap, namespace: kite}\n\
         stringData: {token: of-the-new-installation}\n",
    );
    let (_, rows) = bed.restore("kept.json", &["--without-vms"]);
    assert_eq!(changes(&rows, "differs"), ["KitePlatform/default"]);
    assert_eq!(
        rows["Secret/kite-bootstrap"]["change"], "removed",
        "{rows:#?}"
    );
    let secrets = bed.get(&["secrets", "-n", "kite"]).to_string();
    assert!(!secrets.contains("kite-bootstrap"), "{secrets}");
    // Sessions of before do not come to life.
    assert_eq!(bed.get(&["kp", "default"])["spec"]["sessionEpoch"], 7);
    bed.restore("kept.json", &["--without-vms", "--overwrite"]);

    // Meanwhile people change what is theirs, and another VM has the name.
    bed.wait_for_user("ann");
    let email = r#"{"spec":{"email":"new@example.org"}}"#;
    bed.platform
        .kubectl_ok(&["patch", "ku", "ann", "--type=merge", "-p", email]);
    bed.platform.apply_ok(
        "apiVersion: hy3ons.github.io/v1\nkind: KiteVirtualMachine\n\
         metadata: {name: offered, namespace: kite-user-ann}\n\
         spec: {cpu: 1, memory: 1Gi, disk: 6Gi, image: debian-12, sshId: another}\n",
    );
    let (_, rows) = bed.restore("kept.json", &[]);
    // The other VM may have keys by now.
    let differ = |rows: &BTreeMap<String, Value>| {
        let mut names = changes(rows, "differs");
        names.retain(|name| !name.starts_with("Secret/"));
        names
    };
    assert_eq!(
        differ(&rows),
        ["KiteUser/ann", "KiteVirtualMachine/offered"]
    );
    assert_eq!(rows["KiteReservation/offer.small"]["change"], "skipped");
    bed.offered_goes();
    let (_, rows) = bed.restore("kept.json", &[]);
    assert_eq!(
        rows["KiteVirtualMachine/offered"]["change"], "created",
        "{rows:#?}"
    );
    assert_eq!(rows["KiteReservation/offer.small"]["change"], "created");
    assert_eq!(differ(&rows), ["KiteUser/ann"]);
    assert_eq!(bed.get(&["ku", "ann"])["spec"]["email"], "new@example.org");
    bed.offered_is_back(&bed.sign_in("ann", None));
}
