//! Everything goes, and comes back.

use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use super::bed::{Bed, Had, PASSWORD, changes, code, lasting};
use crate::support::{clients_present, eventually, show, start_demo};

#[test]
fn everything_comes_back_as_it_was() {
    if !clients_present() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (process, platform) = start_demo(&directory.path().join("state"), &[]);
    let bed = Bed {
        platform,
        directory: directory.path().to_owned(),
    };
    let had = bed.people_come();
    let before = bed.backup("before.json");
    files_are_kept_and_judged(&bed, &before);
    bed.disaster();
    somebody_else_has_the_name(&bed);
    disks_come_before_vms(&bed);
    comes_back(&bed, &before, &had);
    people_go_on(&bed, &had);
    what_differs_is_left_alone(&bed);
    passwords_are_lost_without_their_key(&bed);
    assert_eq!(process.terminate().0, Some(0));
}

fn files_are_kept_and_judged(bed: &Bed, before: &Value) {
    let path = bed.directory.join("before.json");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let kinds: Vec<_> = before["entries"].as_array().unwrap().iter().collect();
    for entry in &kinds {
        let meta = &entry["object"]["metadata"];
        for field in ["uid", "resourceVersion", "managedFields", "finalizers"] {
            assert!(meta[field].is_null(), "{entry}");
        }
    }
    for name in ["before.yaml", "before.YML"] {
        let yaml = bed.kite(&["backup", name]);
        assert_eq!(yaml.status.code(), Some(1), "{}", show(&yaml));
        let error = String::from_utf8_lossy(&yaml.stderr);
        assert!(
            error.contains(name) && error.contains("before.json"),
            "{error}"
        );
        assert!(!bed.directory.join(name).exists());
    }
    let again = bed.kite(&["backup", "before.json"]);
    assert_eq!(again.status.code(), Some(1), "{}", show(&again));
    the_report_is_no_backup(bed);
    let plain = bed.kite(&["backup", "-"]);
    let plain: Value = serde_json::from_slice(&plain.stdout).unwrap();
    let has_secret = |it: &Value| it["object"]["kind"] == "Secret";
    assert!(!plain["entries"].as_array().unwrap().iter().any(has_secret));

    let text = std::fs::read_to_string(&path).unwrap();
    for (changed, words) in [
        (
            text.replace("ann@example.org", "eve@example.org"),
            "checksum",
        ),
        (text[..text.len() / 2].to_owned(), "not a whole one"),
        (
            text.replacen("\"version\": 1", "\"version\": 7", 1),
            "version 7",
        ),
        ("{}".to_owned(), "no backup of Kite"),
    ] {
        std::fs::write(bed.directory.join("changed.json"), changed).unwrap();
        let output = bed.kite(&["restore", "changed.json"]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(
            error.contains(words) && error.contains("changed.json"),
            "{error}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// `--output` is the format of what is told, here as everywhere.
fn the_report_is_no_backup(bed: &Bed) {
    let output = bed.kite(&["backup", "told.json", "--output=json"]);
    assert!(output.status.success(), "{}", show(&output));
    assert_eq!(output.stderr, b"", "{}", show(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = std::fs::read_to_string(bed.directory.join("told.json")).unwrap();
    let kept: Value = serde_json::from_str(&text).unwrap();
    let kept = kept["entries"].as_array().unwrap().iter();
    let names = kept.map(|it| {
        let (object, meta) = (&it["object"], &it["object"]["metadata"]);
        (&object["kind"], &meta["namespace"], &meta["name"])
    });
    let rows = told["objects"].as_array().unwrap().iter();
    let rows = rows.map(|it| {
        let object = &it["object"];
        (&object["kind"], &object["namespace"], &object["name"])
    });
    assert_eq!(rows.collect::<Vec<_>>(), names.collect::<Vec<_>>());
    assert_eq!(
        (&told["file"], &told["withSecrets"]),
        (&json!("told.json"), &json!(false))
    );
    // One thing at a time on standard output.
    let both = bed.kite(&["backup", "-", "--output=json"]);
    assert_eq!(both.status.code(), Some(1), "{}", show(&both));
    assert_eq!(both.stdout, b"", "{}", show(&both));
    // What used to be written is told where the file stands now.
    for before in [["-o", "x.json"], ["--output", "x.json"]] {
        let output = bed.kite(&[&["backup"][..], &before].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("kite backup x.json"), "{error}");
    }
    let output = bed.kite(&["backup", "--output", "json"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("<FILE>"), "{error}");
    for name in ["x.json", "json"] {
        assert!(!bed.directory.join(name).exists(), "{name}");
    }
}

/// Another bob gets nothing of the former one's.
fn somebody_else_has_the_name(bed: &Bed) {
    let dry = bed.restore("before.json", &["--dry-run=server"]);
    assert_eq!(dry.0, Some(0), "{:#?}", dry.1);
    assert!(changes(&dry.1, "created").contains(&"KiteUser/bob".to_owned()));
    let users = bed.get(&["kiteusers"]);
    assert_eq!(users["items"], json!([]), "a dry run wrote");
    bed.platform.apply_ok(
        "apiVersion: hy3ons.github.io/v1\nkind: KiteUser\nmetadata: {name: bob}\n\
         spec: {username: bob, email: other@example.org}\n",
    );
    let (code, rows) = bed.restore("before.json", &["--without-vms"]);
    assert_eq!(code, Some(3));
    assert_eq!(changes(&rows, "differs"), ["KiteUser/bob"]);
    let fields = rows["KiteUser/bob"]["fields"].as_array().unwrap();
    assert!(fields.contains(&json!("spec.email")), "{fields:?}");
    let skipped = changes(&rows, "skipped");
    assert!(
        skipped.iter().any(|it| it.starts_with("KiteToken/")),
        "{skipped:?}"
    );
    bed.platform.kubectl_ok(&["delete", "kiteuser", "bob"]);
}

/// A disk that is there is taken up, if it is nobody else's.
fn disks_come_before_vms(bed: &Bed) {
    assert_eq!(bed.get(&["ktvm", "-A"])["items"], json!([]));
    bed.wait_for_user("ann");
    bed.platform.apply_ok(
        "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata:
  name: web-disk
  namespace: kite-user-ann
  labels:
    hy3ons.github.io/managed-by: kite-controller
    hy3ons.github.io/kite-vm-name: web
    hy3ons.github.io/kite-vm-namespace: kite-user-ann
spec:
  source: {blank: {}}
  storage:
    storageClassName: kite-vm-storage
    resources: {requests: {storage: 10Gi}}
",
    );
}

/// Of objects that others made the API notes at some time what their owners know of them.
/// Only what it had noted by then has to come back.
fn forget_what_was_noted_since(
    before: &BTreeMap<String, Value>,
    after: &mut BTreeMap<String, Value>,
) {
    for (name, object) in after {
        let had = before.get(name).map(|it| &it["metadata"]["annotations"]);
        let metadata = object["metadata"].as_object_mut().unwrap();
        let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else {
            continue;
        };
        annotations.retain(|it, _| {
            !it.starts_with(kite_core::labels::TOLD)
                || had.is_some_and(|had| !had[it.as_str()].is_null())
        });
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

fn comes_back(bed: &Bed, before: &Value, had: &Had) {
    let disk = ["datavolume", "web-disk", "-n", "kite-user-ann"];
    let uid = bed.get(&disk)["metadata"]["uid"].clone();
    let (code, rows) = bed.restore("before.json", &[]);
    let wrong: Vec<_> = ["differs", "skipped", "failed"]
        .into_iter()
        .flat_map(|it| changes(&rows, it))
        .map(|name| rows[&name].to_string())
        .collect();
    assert_eq!((code, wrong), (Some(0), vec![]));
    for name in [
        "KiteUser/bob",
        "KiteVirtualMachine/web",
        "KiteVirtualMachine/hello",
        "KiteVolume/data",
    ] {
        assert_eq!(rows[name]["change"], "created", "{name}");
    }
    let (code, rows) = bed.restore("before.json", &[]);
    assert_eq!(code, Some(0), "{rows:#?}");
    assert_eq!(changes(&rows, "unchanged").len(), rows.len(), "{rows:#?}");
    let (before, mut after) = (lasting(before), lasting(&bed.backup("after.json")));
    forget_what_was_noted_since(&before, &mut after);
    assert_eq!(after, before);
    // What is kept for her is kept for who she is now.
    let ann = bed.get(&["kiteuser", "ann"])["metadata"]["uid"].clone();
    let claims = bed.get(&["kitereservations"])["items"].clone();
    let mut claims = claims.as_array().unwrap().iter();
    let kept = claims.find(|it| !it["spec"]["kept"].is_null()).unwrap();
    assert_eq!(kept["spec"]["kept"]["userUid"], ann, "{kept:#}");
    assert_eq!(bed.keys(), had.keys);

    let ann = bed.sign_in("ann", Some(&code_of(had)));
    bed.wait_for_vm(&ann, "web");
    let taken_up = bed.get(&disk);
    assert_eq!(taken_up["metadata"]["uid"], uid, "another disk");
    assert!(
        taken_up["spec"]["source"]["blank"].is_object(),
        "{taken_up}"
    );
    let vm = bed.get(&["ktvm", "web", "-n", "kite-user-ann"]);
    let owner = &taken_up["metadata"]["ownerReferences"][0]["uid"];
    assert_eq!(*owner, vm["metadata"]["uid"]);
    bed.volume_is_had();
    // One without a disk begins anew.
    eventually("hello", || {
        let vm = bed.get(&["ktvm", "hello", "-n", "kite-user-demo"]);
        if vm["status"]["phase"] == "Running" {
            Ok(())
        } else {
            Err(vm.to_string())
        }
    });
}

/// A code that was not used yet.
fn code_of(had: &Had) -> String {
    code(&had.totp, 30)
}

fn people_go_on(bed: &Bed, had: &Had) {
    let platform = &bed.platform;
    bed.ssh();
    platform.curl_ok(200, "GET", "/api/v1/vms", Some(&had.token), None);
    let sign_up = |username: &str, invite: &str| {
        let body = json!({"username": username, "password": PASSWORD, "invite": invite});
        platform.curl("POST", "/api/v1/auth/sign-up", None, Some(&body))
    };
    let (status, answer) = sign_up("carl", &had.used_invite);
    assert!((400..500).contains(&status), "{status} {answer}");
    let (status, answer) = sign_up("dora", &had.invite);
    assert_eq!(status, 201, "{answer}");
    let bob = bed.sign_in("bob", None);
    let claim = json!({"name": "more"});
    let path = "/api/v1/offers/small/claim";
    let (status, answer) = platform.curl("POST", path, Some(&bob), Some(&claim));
    assert!((400..500).contains(&status), "{status} {answer}");
}

/// Without the key that they are sealed with, nobody is let in by them.
fn passwords_are_lost_without_their_key(bed: &Bed) {
    let output = bed.kite(&["backup", "plain.json"]);
    assert!(output.status.success(), "{}", show(&output));
    let user = bed.get(&["kiteuser", "ann"]);
    assert!(user["spec"]["passwordHash"].is_null(), "{user}");
    let password = user["spec"]["credential"].as_str().unwrap().to_owned();
    for what in [
        ["kitepassword", password.as_str()],
        ["kiteuser", "ann"],
        ["secret", "kite-seal"],
    ] {
        bed.platform
            .kubectl_ok(&[&["delete", "-n=kite"], &what[..]].concat());
    }
    let only = ["--only=KiteUser/ann"];
    let (code, rows) = bed.restore("plain.json", &only);
    assert_eq!(code, Some(3), "{rows:#?}");
    assert_eq!(rows["KiteUser/ann"]["change"], "created", "{rows:#?}");
    let lost = &rows[&format!("KitePassword/{password}")];
    assert_eq!(lost["change"], "failed");
    let remedy = lost["remedy"].as_str().unwrap();
    assert!(remedy.contains("gives ann another password"), "{remedy}");
    let user = bed.get(&["kiteuser", "ann"]);
    assert!(user["spec"]["credential"].is_null(), "{user}");
    let told = bed.kite(&[&["restore", "plain.json"][..], &only].concat());
    let told =
        String::from_utf8_lossy(&told.stdout).into_owned() + &String::from_utf8_lossy(&told.stderr);
    assert!(told.contains("1 passwords are not back"), "{told}");
}

fn what_differs_is_left_alone(bed: &Bed) {
    let patch = r#"{"spec":{"signUp":"Closed"}}"#;
    bed.platform
        .kubectl_ok(&["patch", "kp", "default", "--type=merge", "-p", patch]);
    let sign_up = || bed.get(&["kp", "default"])["spec"]["signUp"].clone();
    let (code, rows) = bed.restore("before.json", &["--without-vms"]);
    assert_eq!((code, sign_up()), (Some(3), json!("Closed")));
    assert_eq!(
        rows["KitePlatform/default"]["fields"],
        json!(["spec.signUp"])
    );
    let boss = bed.sign_in("boss", None);
    let rotate = "/api/v1/admin/rotate-seal-key";
    let rotated = bed.platform.curl_ok(200, "POST", rotate, Some(&boss), None);
    let passwords = bed.get(&["kitepasswords"])["items"].clone();
    let passwords = passwords.as_array().unwrap().len();
    assert!(passwords > 2, "{passwords}");
    assert_eq!(rotated["resealed"], 1 + passwords, "{rotated}");
    let sealed = || {
        let key = bed.get(&["secret", "kite-seal", "-n", "kite"])["data"].clone();
        let factor = bed.get(&["kitesecondfactor", "ann"])["spec"]["sealedSecret"].clone();
        (key, factor)
    };
    let by_now = sealed();
    let options = ["--without-vms", "--overwrite"];
    let (_, rows) = bed.restore("before.json", &options);
    assert_eq!(rows["KitePlatform/default"]["change"], "overwritten");
    assert_eq!(sign_up(), "Open");
    // A key that has taken the place of another since stays, and so do its seals.
    assert_eq!(rows["Secret/kite-seal"]["change"], "skipped", "{rows:#?}");
    assert_eq!(sealed(), by_now);
}
