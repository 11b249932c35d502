//! `kite backup` and `kite restore` on the demo: everything goes, and comes back.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::{
    collections::BTreeMap,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};
use support::{Platform, Process, clients_present, eventually, run, show};

const PASSWORD: &str = "correct horse battery";
const VM_PASSWORD: &str = "staple of the vm";

fn demo(state: &Path) -> (Process, Platform) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
    command.arg("demo").arg("--state-dir").arg(state).args([
        "--apiserver-listen=127.0.0.1:0",
        "--api-listen=127.0.0.1:0",
        "--gateway-listen=127.0.0.1:0",
    ]);
    let mut process = Process::start("kite demo", command, state.with_extension("log"));
    let platform = Platform::wait(state, &mut process);
    (process, platform)
}

struct Bed {
    platform: Platform,
    directory: PathBuf,
}

/// What people had before, and want to have again.
struct Had {
    token: String,
    used_invite: String,
    invite: String,
    totp: String,
    keys: Value,
}

impl Bed {
    fn kite(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
        command
            .args(arguments)
            .current_dir(&self.directory)
            .env("KUBECONFIG", self.platform.state.join("kubeconfig"));
        run(command, "")
    }

    /// What becomes of each object, and the exit code.
    fn restore(&self, file: &str, options: &[&str]) -> (Option<i32>, BTreeMap<String, Value>) {
        let output = self.kite(&[&["restore", file, "--output=json"], options].concat());
        let told: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", show(&output)));
        let rows = told["objects"].as_array().unwrap().iter().map(|row| {
            let text = |field: &str| row["object"][field].as_str().unwrap_or_default();
            (format!("{}/{}", text("kind"), text("name")), row.clone())
        });
        (output.status.code(), rows.collect())
    }

    fn backup(&self, file: &str) -> Value {
        let output = self.kite(&["backup", "--with-secrets", "--output", file]);
        assert!(output.status.success(), "{}", show(&output));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("disks of VMs are NOT in it"), "{said}");
        let text = std::fs::read_to_string(self.directory.join(file)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn sign_in(&self, username: &str, code: Option<&str>) -> String {
        let mut body = json!({ "username": username, "password": PASSWORD });
        if let Some(code) = code {
            body["code"] = json!(code);
        }
        let path = "/api/v1/auth/sign-in";
        let answer = self.platform.curl_ok(200, "POST", path, None, Some(&body));
        answer["token"].as_str().unwrap().to_owned()
    }

    fn post(&self, path: &str, token: &str, body: &Value) -> Value {
        self.platform
            .curl_ok(201, "POST", path, Some(token), Some(body))
    }

    fn wait_for_user(&self, name: &str) {
        eventually(name, || {
            let seen = self.get(&["kiteuser", name]);
            if seen["status"]["phase"] == "Ready" {
                Ok(())
            } else {
                Err(seen.to_string())
            }
        });
    }

    fn wait_for_vm(&self, token: &str, name: &str) {
        eventually(name, || {
            let path = format!("/api/v1/vms/{name}");
            let (_, vm) = self.platform.curl("GET", &path, Some(token), None);
            if vm["status"]["phase"] == "Running" {
                Ok(())
            } else {
                Err(vm.to_string())
            }
        });
    }

    fn ssh(&self) {
        eventually("ssh", || {
            let said = self
                .platform
                .openssh("ssh", "ann-web", VM_PASSWORD, &["hostname"], "");
            if said.status.success() {
                Ok(())
            } else {
                Err(show(&said))
            }
        });
    }

    fn get(&self, what: &[&str]) -> Value {
        let text = self
            .platform
            .kubectl_ok(&[&["get", "-o", "json"], what].concat());
        serde_json::from_str(&text).unwrap()
    }

    /// Makes the administrator boss and the user ann; gives boss's session.
    fn boss_and_ann_come(&self) -> String {
        let token = std::fs::read_to_string(self.platform.state.join("bootstrap-token"));
        let body =
            json!({"token": token.unwrap().trim(), "username": "boss", "password": PASSWORD});
        self.platform
            .curl_ok(201, "POST", "/api/v1/auth/bootstrap", None, Some(&body));
        let boss = self.sign_in("boss", None);
        let ann = json!({"username": "ann", "password": PASSWORD, "email": "ann@example.org"});
        self.post("/api/v1/admin/users", &boss, &ann);
        boss
    }

    /// Makes accounts, VMs, an offer that is used up, and all else that there can be.
    fn people_come(&self) -> Had {
        let boss = self.boss_and_ann_come();
        let invite = || {
            let made = self.post("/api/v1/admin/invites", &boss, &json!({}));
            made["token"].as_str().unwrap().to_owned()
        };
        let (used_invite, invite) = (invite(), invite());
        let body = json!({"username": "bob", "password": PASSWORD, "invite": used_invite});
        self.platform
            .curl_ok(201, "POST", "/api/v1/auth/sign-up", None, Some(&body));
        for user in ["ann", "bob"] {
            self.wait_for_user(user);
        }
        let (ann, bob) = (self.sign_in("ann", None), self.sign_in("bob", None));
        let body = json!({"name": "ci", "scopes": ["vms:read"]});
        let token = self.post("/api/v1/me/tokens", &bob, &body)["token"].clone();
        let secret = self.post("/api/v1/me/totp", &ann, &json!({}))["secret"].clone();
        let totp = secret.as_str().unwrap().to_owned();
        let body = json!({"code": code(&totp, 0)});
        let path = "/api/v1/me/totp/confirm";
        self.platform
            .curl_ok(200, "POST", path, Some(&ann), Some(&body));
        self.vms_come(&boss, &ann);
        Had {
            token: token.as_str().unwrap().to_owned(),
            used_invite,
            invite,
            totp,
            keys: self.keys(),
        }
    }

    /// Makes an offer, and ann's VM of it.
    fn offered_comes(&self, boss: &str, ann: &str) {
        let offer = json!({
            "name": "small", "cpu": 1, "memory": "1Gi", "disk": "5Gi", "image": "debian-12",
        });
        self.post("/api/v1/admin/offers", boss, &offer);
        let claim = json!({"name": "offered"});
        self.post("/api/v1/offers/small/claim", ann, &claim);
        self.wait_for_vm(ann, "offered");
        eventually("the offer is used up", || {
            let claim = self.get(&["kitereservation", "offer.small"]);
            if claim["spec"]["fulfilled"] == true {
                Ok(())
            } else {
                Err(claim.to_string())
            }
        });
    }

    fn vms_come(&self, boss: &str, ann: &str) {
        self.offered_comes(boss, ann);
        let web = json!({
            "name": "web", "cpu": 1, "memory": "1Gi", "disk": "10Gi", "image": "alpine-3.22",
            "sshId": "ann-web", "sshPassword": VM_PASSWORD, "domainPrefix": "www",
        });
        self.post("/api/v1/vms", ann, &web);
        self.wait_for_vm(ann, "web");
        self.ssh();
        // The offer is used up, though its VM is gone.
        self.offered_goes();
    }

    fn offered_goes(&self) {
        self.platform
            .kubectl_ok(&["delete", "ktvm", "offered", "-n", "kite-user-ann"]);
    }

    /// That ann's VM of the offer is there and has it.
    fn offered_is_back(&self, ann: &str) {
        self.wait_for_vm(ann, "offered");
        let vm = self.get(&["ktvm", "offered", "-n", "kite-user-ann"]);
        let uid = &vm["metadata"]["uid"];
        let claim = self.get(&["kitereservation", "offer.small"]);
        assert_eq!(claim["spec"]["holder"]["uid"], *uid, "{claim}");
        assert_eq!(claim["spec"]["fulfilled"], true, "{claim}");
        let offer = self.get(&["ktvmo", "small"]);
        assert_eq!(offer["status"]["claimedBy"]["uid"], *uid, "{offer}");
    }

    /// The keys of ann's VM.
    fn keys(&self) -> Value {
        self.get(&["secret", "web-ssh-key", "-n", "kite-user-ann"])["data"].clone()
    }

    /// Everything goes.
    fn disaster(&self) {
        self.platform.kubectl_ok(&["delete", "kiteusers", "--all"]);
        for kind in [
            "kitetokens",
            "kiteinvites",
            "kitesecondfactors",
            "kitevirtualmachineoffers",
            "kitereservations",
            "kiteplatforms",
        ] {
            self.platform.kubectl_ok(&["delete", kind, "--all"]);
        }
        self.platform.kubectl_ok(&[
            "delete",
            "secret",
            "kite-seal",
            "-n=kite",
            "--ignore-not-found",
        ]);
    }
}

/// The code of an authenticator app, so many seconds from now.
fn code(secret: &str, ahead: u64) -> String {
    let secret = totp_rs::Secret::try_from_base32(secret).unwrap();
    let app = totp_rs::Builder::new().with_secret(secret).build().unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    app.generate(now + ahead).to_string()
}

/// The objects of a backup, without what another life of them changes: uids, and what
/// is sealed for one.
fn lasting(backup: &Value) -> BTreeMap<String, Value> {
    let entries = backup["entries"].as_array().unwrap().iter();
    let object = |entry: &Value| {
        let mut object = entry["object"].clone();
        for path in [
            "/spec/userUid",
            "/spec/sealedSecret",
            "/spec/createdBy/uid",
            "/spec/holder/uid",
            "/metadata/ownerReferences/0/uid",
        ] {
            if let Some(value) = object.pointer_mut(path) {
                *value = Value::Null;
            }
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let meta = &object["metadata"];
        let (namespace, name) = (text(&meta["namespace"]), text(&meta["name"]));
        (
            format!("{} {namespace}/{name}", text(&object["kind"])),
            object,
        )
    };
    entries.map(object).collect()
}

fn changes(rows: &BTreeMap<String, Value>, change: &str) -> Vec<String> {
    let of_it = rows.iter().filter(|(_, row)| row["change"] == change);
    of_it.map(|(name, _)| name.clone()).collect()
}

#[test]
fn everything_comes_back_as_it_was() {
    if !clients_present() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (process, platform) = demo(&directory.path().join("state"));
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
    let again = bed.kite(&["backup", "--output=before.json"]);
    assert_eq!(again.status.code(), Some(1), "{}", show(&again));
    let plain = bed.kite(&["backup", "--output=-"]);
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
    ] {
        assert_eq!(rows[name]["change"], "created", "{name}");
    }
    let (code, rows) = bed.restore("before.json", &[]);
    assert_eq!(code, Some(0), "{rows:#?}");
    assert_eq!(changes(&rows, "unchanged").len(), rows.len(), "{rows:#?}");
    assert_eq!(lasting(&bed.backup("after.json")), lasting(before));
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
    let options = ["--without-vms", "--overwrite"];
    let (_, rows) = bed.restore("before.json", &options);
    assert_eq!(rows["KitePlatform/default"]["change"], "overwritten");
    assert_eq!(sign_up(), "Open");
}

#[test]
fn vms_of_offers_come_back_and_what_was_revoked_does_not() {
    if !clients_present() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (process, platform) = demo(&directory.path().join("state"));
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
        .args(["backup", "--output=-"])
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
    let (code, rows) = bed.restore("kept.json", &[]);
    let skipped = changes(&rows, "skipped");
    assert_eq!((code, skipped.len()), (Some(3), 2), "{rows:#?}");
    assert!(!works());
    let (code, rows) = bed.restore("kept.json", &["--with-tokens"]);
    assert_eq!((code, changes(&rows, "created").len()), (Some(0), 2));
    eventually("the token works again", || {
        if works() {
            Ok(())
        } else {
            Err("no".to_owned())
        }
    });
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
