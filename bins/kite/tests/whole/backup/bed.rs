//! People and what they have, to be kept and to come back.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::support::{Platform, becomes, eventually, run, show};

pub(crate) const PASSWORD: &str = "correct horse battery";
pub(crate) const VM_PASSWORD: &str = "staple of the vm";

pub(crate) struct Bed {
    pub(crate) platform: Platform,
    pub(crate) directory: PathBuf,
}

/// What people had before, and want to have again.
pub(crate) struct Had {
    pub(crate) token: String,
    pub(crate) used_invite: String,
    pub(crate) invite: String,
    pub(crate) totp: String,
    pub(crate) keys: Value,
}

impl Bed {
    pub(crate) fn kite(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
        command
            .args(arguments)
            .current_dir(&self.directory)
            .env("KUBECONFIG", self.platform.state.join("kubeconfig"));
        run(command, "")
    }

    /// What becomes of each object, and the exit code.
    pub(crate) fn restore(
        &self,
        file: &str,
        options: &[&str],
    ) -> (Option<i32>, BTreeMap<String, Value>) {
        let output = self.kite(&[&["restore", file, "--output=json"], options].concat());
        let told: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", show(&output)));
        let rows = told["objects"].as_array().unwrap().iter().map(|row| {
            let text = |field: &str| row["object"][field].as_str().unwrap_or_default();
            (format!("{}/{}", text("kind"), text("name")), row.clone())
        });
        (output.status.code(), rows.collect())
    }

    pub(crate) fn backup(&self, file: &str) -> Value {
        let output = self.kite(&["backup", "--with-secrets", file]);
        assert!(output.status.success(), "{}", show(&output));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("disks of VMs are NOT in it"), "{said}");
        let text = std::fs::read_to_string(self.directory.join(file)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) fn sign_in(&self, username: &str, code: Option<&str>) -> String {
        let mut body = json!({ "username": username, "password": PASSWORD });
        if let Some(code) = code {
            body["code"] = json!(code);
        }
        let path = "/api/v1/auth/sign-in";
        let answer = self.platform.curl_ok(200, "POST", path, None, Some(&body));
        answer["token"].as_str().unwrap().to_owned()
    }

    pub(crate) fn post(&self, path: &str, token: &str, body: &Value) -> Value {
        self.platform
            .curl_ok(201, "POST", path, Some(token), Some(body))
    }

    pub(crate) fn wait_for_user(&self, name: &str) {
        eventually(name, || {
            let seen = self.get(&["kiteuser", name]);
            if seen["status"]["phase"] == "Ready" {
                Ok(())
            } else {
                Err(seen.to_string())
            }
        });
    }

    pub(crate) fn wait_for_vm(&self, token: &str, name: &str) {
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

    pub(crate) fn ssh(&self) {
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

    pub(crate) fn get(&self, what: &[&str]) -> Value {
        let text = self
            .platform
            .kubectl_ok(&[&["get", "-o", "json"], what].concat());
        serde_json::from_str(&text).unwrap()
    }

    /// Makes the administrator boss and the user ann; gives boss's session.
    pub(crate) fn boss_and_ann_come(&self) -> String {
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
    pub(crate) fn people_come(&self) -> Had {
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
        let proof = json!({"password": PASSWORD});
        let secret = self.post("/api/v1/me/totp", &ann, &proof)["secret"].clone();
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
    pub(crate) fn offered_comes(&self, boss: &str, ann: &str) {
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

    pub(crate) fn vms_come(&self, boss: &str, ann: &str) {
        self.offered_comes(boss, ann);
        let web = json!({
            "name": "web", "cpu": 1, "memory": "1Gi", "disk": "10Gi", "image": "alpine-3.22",
            "sshId": "ann-web", "sshPassword": VM_PASSWORD, "domainPrefix": "ann-shop",
        });
        self.post("/api/v1/vms", ann, &web);
        self.wait_for_vm(ann, "web");
        self.ssh();
        self.volume_comes();
        // The offer is used up, though its VM is gone.
        self.offered_goes();
    }

    /// A volume, which web is to have from its next start on.
    fn volume_comes(&self) {
        self.platform.apply_ok(
            "apiVersion: hy3ons.github.io/v1\nkind: KiteVolume\nmetadata: {name: data, \
             namespace: kite-user-ann}\nspec: {size: 2Gi}\n",
        );
        let listed = r#"{"spec": {"volumes": [{"volume": "data", "path": "/data"}]}}"#;
        let web = ["ktvm", "web", "-n", "kite-user-ann"];
        let how = ["--type", "merge", "-p", listed];
        self.platform
            .kubectl_ok(&[&["patch"][..], &web, &how].concat());
        self.volume_is_had();
    }

    pub(crate) fn volume_is_had(&self) {
        let wanted = (json!("Attached"), json!("web"), json!("2Gi"));
        becomes("web has the volume", &wanted, || {
            let volume = self.get(&["kvol", "data", "-n", "kite-user-ann"]);
            let status = &volume["status"];
            (
                status["phase"].clone(),
                status["attachedTo"]["vm"].clone(),
                status["granted"].clone(),
            )
        });
    }

    pub(crate) fn offered_goes(&self) {
        self.platform
            .kubectl_ok(&["delete", "ktvm", "offered", "-n", "kite-user-ann"]);
    }

    /// Waits until ann's VM of the offer runs and has it. The claim and the offer's status
    /// are written beside the VM, not before it.
    pub(crate) fn offered_is_back(&self, ann: &str) {
        self.wait_for_vm(ann, "offered");
        let vm = self.get(&["ktvm", "offered", "-n", "kite-user-ann"]);
        let uid = &vm["metadata"]["uid"];
        let wanted = (uid.clone(), json!(true), uid.clone());
        becomes("the offer is its VM's", &wanted, || {
            let claim = self.get(&["kitereservation", "offer.small"])["spec"].clone();
            let offer = self.get(&["ktvmo", "small"])["status"].clone();
            (
                claim["holder"]["uid"].clone(),
                claim["fulfilled"].clone(),
                offer["claimedBy"]["uid"].clone(),
            )
        });
    }

    /// The keys of ann's VM.
    pub(crate) fn keys(&self) -> Value {
        self.get(&["secret", "web-ssh-key", "-n", "kite-user-ann"])["data"].clone()
    }

    /// Everything goes.
    pub(crate) fn disaster(&self) {
        self.platform.kubectl_ok(&["delete", "kiteusers", "--all"]);
        for kind in [
            "kitetokens",
            "kiteinvites",
            "kitesecondfactors",
            "kitepasswords",
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
pub(crate) fn code(secret: &str, ahead: u64) -> String {
    let secret = totp_rs::Secret::try_from_base32(secret).unwrap();
    let app = totp_rs::Builder::new().with_secret(secret).build().unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    app.generate(now + ahead).to_string()
}

/// The objects of a backup, without what another life of them changes: uids, and what
/// is sealed for one.
pub(crate) fn lasting(backup: &Value) -> BTreeMap<String, Value> {
    let entries = backup["entries"].as_array().unwrap().iter();
    let object = |entry: &Value| {
        let mut object = entry["object"].clone();
        for path in [
            "/spec/userUid",
            "/spec/sealedSecret",
            "/spec/sealedHash",
            "/spec/createdBy/uid",
            "/spec/holder/uid",
            "/spec/kept/userUid",
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

pub(crate) fn changes(rows: &BTreeMap<String, Value>, change: &str) -> Vec<String> {
    let of_it = rows.iter().filter(|(_, row)| row["change"] == change);
    of_it.map(|(name, _)| name.clone()).collect()
}
