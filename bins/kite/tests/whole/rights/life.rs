//! One life of a platform, in which all that Kite does is done once.

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::{Value, json};

use super::{
    console, provider,
    stage::{Stage, TOKEN},
};
use crate::support::{Platform, eventually, show};

const PASSWORD: &str = "correct horse battery";
const VM_PASSWORD: &str = "staple of the vm";
const DOMAIN: &str = "vm.example.org";

/// All of it.
pub fn whole(stage: &Stage) {
    let platform = &stage.platform;
    let boss = first_administrator(platform);
    let ann = accounts(platform, &boss);
    provider::come_back_in_vain(platform, &boss);
    images(platform);
    let vms = machines(stage, &boss, &ann);
    web(platform, &boss);
    end(stage, &boss, &ann, &vms);
}

pub fn settings(platform: &Platform, boss: &str, edit: &Value) {
    platform.curl_ok(
        200,
        "PATCH",
        "/api/v1/admin/platform",
        Some(boss),
        Some(edit),
    );
}

fn sign_in(platform: &Platform, username: &str, code: Option<&str>) -> String {
    let mut body = json!({ "username": username, "password": PASSWORD });
    if let Some(code) = code {
        body["code"] = json!(code);
    }
    let answer = platform.curl_ok(200, "POST", "/api/v1/auth/sign-in", None, Some(&body));
    answer["token"].as_str().unwrap().to_owned()
}

fn first_administrator(platform: &Platform) -> String {
    let body = json!({ "token": TOKEN, "username": "boss", "password": PASSWORD });
    platform.curl_ok(201, "POST", "/api/v1/auth/bootstrap", None, Some(&body));
    let boss = sign_in(platform, "boss", None);
    settings(
        platform,
        &boss,
        &json!({"signUp": "Invite", "baseDomain": DOMAIN, "gateway": {"publicHost": "ssh.example.org"}}),
    );
    let capacity = platform.curl_ok(200, "GET", "/api/v1/admin/capacity", Some(&boss), None);
    assert!(capacity["nodes"].as_u64().unwrap() > 0, "{capacity}");
    boss
}

/// Users, by an administrator and by invite; second factors, tokens, sessions.
fn accounts(platform: &Platform, boss: &str) -> String {
    let body = json!({"username": "ann", "password": PASSWORD, "accessLevel": "User"});
    platform.curl_ok(201, "POST", "/api/v1/admin/users", Some(boss), Some(&body));
    let invite = || {
        let path = "/api/v1/admin/invites";
        platform.curl_ok(201, "POST", path, Some(boss), Some(&json!({})))
    };
    let (used, withdrawn) = (invite(), invite());
    let body = json!({"username": "bob", "password": PASSWORD, "invite": used["token"]});
    platform.curl_ok(201, "POST", "/api/v1/auth/sign-up", None, Some(&body));
    let path = format!(
        "/api/v1/admin/invites/{}",
        withdrawn["name"].as_str().unwrap()
    );
    platform.curl_ok(204, "DELETE", &path, Some(boss), None);
    for user in ["ann", "bob"] {
        let phase = ["get", "kiteuser", user, "-o", "jsonpath={.status.phase}"];
        eventually(user, || match platform.kubectl_ok(&phase).as_str() {
            "Ready" => Ok(()),
            seen => Err(seen.to_owned()),
        });
    }
    let ann = sign_in(platform, "ann", None);
    let edit = json!({"email": "ann@example.org"});
    platform.curl_ok(200, "PATCH", "/api/v1/me", Some(&ann), Some(&edit));

    let body = json!({"name": "ci", "scopes": ["vms:read", "account:read"]});
    let made = platform.curl_ok(201, "POST", "/api/v1/me/tokens", Some(&ann), Some(&body));
    let token = made["token"].as_str().unwrap();
    platform.curl_ok(200, "GET", "/api/v1/me", Some(token), None);
    platform.curl_ok(204, "DELETE", "/api/v1/me/tokens/ci", Some(&ann), None);
    // What is not in the API's copy may have been made a moment ago by another replica.
    platform.curl_ok(401, "GET", "/api/v1/me", Some(token), None);

    second_factor(platform, &ann, boss);
    let other = sign_in(platform, "ann", None);
    platform.curl_ok(204, "POST", "/api/v1/auth/sign-out", Some(&other), None);
    ann
}

/// One is made, sealed with another key, and taken away.
fn second_factor(platform: &Platform, ann: &str, boss: &str) {
    let path = "/api/v1/me/totp";
    let proof = json!({ "password": PASSWORD });
    let made = platform.curl_ok(201, "POST", path, Some(ann), Some(&proof));
    let secret = totp_rs::Secret::try_from_base32(made["secret"].as_str().unwrap()).unwrap();
    let app = totp_rs::Builder::new().with_secret(secret).build().unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let code = app.generate(now).to_string();
    let body = json!({ "code": code });
    let path = "/api/v1/me/totp/confirm";
    platform.curl_ok(200, "POST", path, Some(ann), Some(&body));
    let path = "/api/v1/admin/rotate-seal-key";
    let rotated = platform.curl_ok(200, "POST", path, Some(boss), None);
    // The second factor, and the passwords of boss, ann and bob.
    assert_eq!(rotated["resealed"], 4, "{rotated:#}");
    // A code is good once, and the next one is taken a little early.
    let body = json!({ "password": PASSWORD, "code": app.generate(now + 30).to_string() });
    platform.curl_ok(204, "DELETE", "/api/v1/me/totp", Some(ann), Some(&body));
}

/// The catalogue, and an image that is fetched once.
fn images(platform: &Platform) {
    platform.apply_ok(
        "
apiVersion: hy3ons.github.io/v1
kind: KiteImage
metadata: {name: alpine}
spec:
  osFamily: Alpine
  minDisk: 1Gi
  source: {registry: {url: 'docker://images.kite.test/alpine:3.22'}}
",
    );
    for image in ["debian-12", "alpine"] {
        let phase = ["get", "kiteimage", image, "-o", "jsonpath={.status.phase}"];
        eventually(image, || match platform.kubectl_ok(&phase).as_str() {
            "Ready" => Ok(()),
            seen => Err(seen.to_owned()),
        });
    }
}

fn vm(platform: &Platform, token: &str, name: &str) -> (u16, Value) {
    platform.curl("GET", &format!("/api/v1/vms/{name}"), Some(token), None)
}

fn wait_for_phase(platform: &Platform, token: &str, name: &str, phase: &str) {
    eventually(phase, || {
        let (_, vm) = vm(platform, token, name);
        if vm["status"]["phase"] == phase {
            Ok(())
        } else {
            Err(vm.to_string())
        }
    });
}

fn edit_vm(platform: &Platform, ann: &str, edit: &Value) {
    platform.curl_ok(200, "PATCH", "/api/v1/vms/web", Some(ann), Some(edit));
}

/// Logs in to `web`, and does this there.
fn ssh(platform: &Platform, command: &str, input: &str) {
    eventually("ssh", || {
        let output = platform.openssh("ssh", "ann-web", VM_PASSWORD, &[command], input);
        if output.status.success() {
            Ok(())
        } else {
            Err(show(&output))
        }
    });
}

/// VMs: made, used, seen, grown, restarted, offered, taken away.
#[allow(clippy::too_many_lines)] // One life, told from its beginning to its end.
fn machines(stage: &Stage, boss: &str, ann: &str) -> [&'static str; 2] {
    let platform = &stage.platform;
    assert_eq!(vm(platform, ann, "none").0, 404);
    let body = json!({
        "name": "web", "cpu": 1, "memory": "1Gi", "disk": "10Gi", "image": "alpine",
        "sshId": "ann-web", "sshPassword": VM_PASSWORD, "domainPrefix": "ann-shop",
        "startOnConnect": true, "idleTimeout": "1h",
    });
    platform.curl_ok(201, "POST", "/api/v1/vms", Some(ann), Some(&body));
    wait_for_phase(platform, ann, "web", "Running");
    // Its gateway is the first to tell that it is used.
    ssh(platform, "sleep 3", "");
    console::is_used(platform, "web");
    console::use_one(stage, ann, "web", "Serial");
    end_of_a_session(platform, ann);

    edit_vm(platform, ann, &json!({"powerState": "Off"}));
    wait_for_phase(platform, ann, "web", "Stopped");
    has_a_volume(platform, ann);
    // It is started by the login.
    ssh(platform, "true", "");
    wait_for_phase(platform, ann, "web", "Running");

    edit_vm(platform, ann, &json!({"disk": "20Gi"}));
    let grown = ["get", "pvc", "-n", "kite-user-ann", "web-disk", "-o"];
    let size = "jsonpath={.spec.resources.requests.storage}";
    eventually("the disk grows", || {
        let size = platform.kubectl_ok(&[&grown[..], &[size]].concat());
        if size == "10Gi" { Err(size) } else { Ok(()) }
    });
    let instance = || {
        let uid = [
            "get",
            "vmi",
            "-n",
            "kite-user-ann",
            "web",
            "-o",
            "jsonpath={.metadata.uid}",
        ];
        let output = platform.kubectl(&uid);
        String::from_utf8(output.stdout).unwrap()
    };
    let before = instance();
    platform.curl_ok(200, "POST", "/api/v1/vms/web/restart", Some(ann), None);
    eventually("restarted", || {
        let now = instance();
        if now.is_empty() || now == before {
            Err(now)
        } else {
            Ok(())
        }
    });
    wait_for_phase(platform, ann, "web", "Running");
    keeps_its_disk(platform, ann);
    grows(platform, ann);
    makes_way(platform, ann);

    let offer = json!({
        "name": "small", "cpu": 1, "memory": "1Gi", "disk": "5Gi", "image": "debian-12",
    });
    platform.curl_ok(
        201,
        "POST",
        "/api/v1/admin/offers",
        Some(boss),
        Some(&offer),
    );
    // There is one of that name.
    platform.curl_ok(
        409,
        "POST",
        "/api/v1/admin/offers",
        Some(boss),
        Some(&offer),
    );
    has_an_image(platform, boss);
    let claim = json!({"name": "offered", "idleTimeout": "1h"});
    // What is not in the API's copy may have been made a moment ago by another replica.
    platform.curl_ok(
        404,
        "POST",
        "/api/v1/offers/none/claim",
        Some(ann),
        Some(&claim),
    );
    platform.curl_ok(
        201,
        "POST",
        "/api/v1/offers/small/claim",
        Some(ann),
        Some(&claim),
    );
    wait_for_phase(platform, ann, "offered", "Running");
    // The first to use it, as far as anybody was told.
    console::use_one(stage, ann, "offered", "Vnc");
    let claimed = [
        "get",
        "kitevirtualmachineoffer",
        "small",
        "-o",
        "jsonpath={.status.phase}",
    ];
    eventually("claimed", || match platform.kubectl_ok(&claimed).as_str() {
        "Claimed" => Ok(()),
        seen => Err(seen.to_owned()),
    });
    platform.curl_ok(
        202,
        "DELETE",
        "/api/v1/admin/offers/small",
        Some(boss),
        None,
    );
    ["web", "offered"]
}

/// An image is added to the catalogue, described, and taken out.
fn has_an_image(platform: &Platform, boss: &str) {
    let all = "/api/v1/admin/images";
    let url = "docker://quay.io/containerdisks/void:1";
    let image = json!({"name": "void", "url": url, "minDisk": "1Gi"});
    platform.curl_ok(201, "POST", all, Some(boss), Some(&image));
    let one = "/api/v1/admin/images/void";
    let edit = json!({"displayName": "Void"});
    platform.curl_ok(200, "PATCH", one, Some(boss), Some(&edit));
    let none = "/api/v1/admin/images/none";
    platform.curl_ok(404, "GET", none, Some(boss), None);
    platform.curl_ok(202, "DELETE", one, Some(boss), None);
}

/// A snapshot is taken of web while it runs, and goes again; another one goes with it.
fn keeps_its_disk(platform: &Platform, ann: &str) {
    let snapshots = "/api/v1/snapshots";
    for name in ["first", "second"] {
        let body = json!({"name": name, "vm": "web"});
        platform.curl_ok(201, "POST", snapshots, Some(ann), Some(&body));
    }
    let first = format!("{snapshots}/first");
    let edit = json!({"description": "before it grows"});
    platform.curl_ok(200, "PATCH", &first, Some(ann), Some(&edit));
    // Of what no copy has, the API server is asked.
    platform.curl_ok(404, "GET", "/api/v1/snapshots/none", Some(ann), None);
    let told = ["get", "ksnap", "-n", "kite-user-ann", "-o"];
    let consistency = "jsonpath={.items[*].status.consistency} {.items[*].status.phase}";
    eventually("they are taken", || {
        let seen = platform.kubectl_ok(&[&told[..], &[consistency]].concat());
        if seen == "Quiesced Quiesced Ready Ready" {
            Ok(())
        } else {
            Err(seen)
        }
    });
    platform.curl_ok(202, "DELETE", &first, Some(ann), None);
    // A schedule has missed one, for it is taken for one that is followed since long.
    let web = ["web", "-n", "kite-user-ann"];
    let patch = |kind: &[&str], patch: &str| {
        let how = ["--type", "merge", "-p", patch];
        platform.kubectl_ok(&[&["patch", "ktvm"][..], &web, kind, &how].concat());
    };
    patch(&[], r#"{"spec": {"snapshots": {"schedule": "0 * * * *"}}}"#);
    let since = "jsonpath={.status.snapshots.since}";
    eventually("it is followed", || {
        let seen = platform.kubectl_ok(&[&["get", "ktvm"][..], &web, &["-o", since]].concat());
        if seen.is_empty() { Err(seen) } else { Ok(()) }
    });
    let long_ago = r#"{"status": {"snapshots": {"since": "2026-01-01T00:00:00Z"}}}"#;
    patch(&["--subresource", "status"], long_ago);
    let by_schedule = ["-l", "hy3ons.github.io/kite-schedule-of", "-o", "name"];
    let made = [&["get", "ksnap", "-n", "kite-user-ann"][..], &by_schedule].concat();
    eventually("the last one is made up for", || {
        let seen = platform.kubectl_ok(&made);
        if seen.contains("/web-") {
            Ok(())
        } else {
            Err(seen)
        }
    });
    patch(&[], r#"{"spec": {"snapshots": null}}"#);
}

/// web, which is off, is to have a volume, and then not; and the volume goes.
fn has_a_volume(platform: &Platform, ann: &str) {
    let body = json!({"name": "data", "size": "1Gi"});
    platform.curl_ok(201, "POST", "/api/v1/volumes", Some(ann), Some(&body));
    let data = "/api/v1/volumes/data";
    let edit = json!({"description": "photos"});
    platform.curl_ok(200, "PATCH", data, Some(ann), Some(&edit));
    platform.curl_ok(404, "GET", "/api/v1/volumes/none", Some(ann), None);
    let told = ["get", "kvol", "data", "-n", "kite-user-ann", "-o"];
    let phase = "jsonpath={.status.phase} {.status.attachedTo.vm}";
    let is = |expected: &str| {
        eventually(expected, || {
            let seen = platform.kubectl_ok(&[&told[..], &[phase]].concat());
            if seen.trim() == expected {
                Ok(())
            } else {
                Err(seen)
            }
        });
    };
    let list = |volumes: Value| edit_vm(platform, ann, &json!({ "volumes": volumes }));
    is("Available");
    list(json!([{"volume": "data", "path": "/data"}]));
    is("Attached web");
    list(json!([]));
    is("Available");
    platform.curl_ok(202, "DELETE", data, Some(ann), None);
}

/// web gets another processor while it runs, for which it is moved.
fn grows(platform: &Platform, ann: &str) {
    edit_vm(platform, ann, &json!({"cpu": 2}));
    let told = |kind: &str, path: &str| {
        let output = platform.kubectl(&["get", kind, "-n", "kite-user-ann", "-o", path]);
        String::from_utf8(output.stdout).unwrap()
    };
    let sockets = "jsonpath={.items[0].status.currentCPUTopology.sockets}";
    eventually("it has grown", || match told("vmi", sockets).as_str() {
        "2" => Ok(()),
        _ => Err(told("vmi,vmim", "yaml")),
    });
    eventually("the order is cleared away", || {
        match told("vmim", "name").as_str() {
            "" => Ok(()),
            seen => Err(seen.to_owned()),
        }
    });
    wait_for_phase(platform, ann, "web", "Running");
}

/// web is to grow again, for which there is no room, while its node is emptied: the order to
/// move it makes way for that.
fn makes_way(platform: &Platform, ann: &str) {
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: tight, namespace: \
                 kite-user-ann}\nspec: {hard: {pods: \"1\"}}\n";
    platform.apply_ok(quota);
    edit_vm(platform, ann, &json!({"cpu": 3}));
    let in_ns = ["-n", "kite-user-ann", "-o", "name"];
    let orders = || platform.kubectl_ok(&[&["get", "vmim"][..], &in_ns].concat());
    eventually("it is to be moved", || {
        let seen = orders();
        seen.contains("/kite-resize-").then_some(()).ok_or(seen)
    });
    // The one that it was moved from is over.
    let running = "--field-selector=status.phase=Running";
    let of_web = ["get", "pods", "-l", "vm.kubevirt.io/name=web", running];
    let launcher = platform.kubectl_ok(&[&of_web[..], &in_ns].concat());
    let launcher = launcher.trim().trim_start_matches("pod/");
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": launcher, "namespace": "kite-user-ann"},
    });
    let path = format!("/api/v1/namespaces/kite-user-ann/pods/{launcher}/eviction");
    let create = ["create", "--raw", &path, "-f", "-"];
    let evicted = platform.kubectl_with(&create, &eviction.to_string());
    let why = String::from_utf8_lossy(&evicted.stderr).into_owned();
    assert!(why.contains("triggered evacuation"), "{why}");
    eventually("the order makes way", || {
        let seen = orders();
        let is_away = seen.contains("/kubevirt-evacuation-") && !seen.contains("/kite-resize-");
        is_away.then_some(()).ok_or(seen)
    });
    platform.kubectl_ok(&["delete", "quota", "tight", "-n", "kite-user-ann"]);
    let sockets = "jsonpath={.items[0].status.currentCPUTopology.sockets}";
    eventually("it has grown as it moved", || {
        let get = ["get", "vmi", "-n", "kite-user-ann", "-o", sockets];
        let seen = platform.kubectl_ok(&get);
        (seen == "3").then_some(()).ok_or(seen)
    });
    wait_for_phase(platform, ann, "web", "Running");
}

/// Somebody is connected, and is shown the door.
fn end_of_a_session(platform: &Platform, ann: &str) {
    std::thread::scope(|scope| {
        let sleeper =
            scope.spawn(|| platform.openssh("ssh", "ann-web", VM_PASSWORD, &["sleep 60"], ""));
        let path = "/api/v1/vms/web/sessions?live=true";
        let session = eventually("a session", || {
            let (_, list) = platform.curl("GET", path, Some(ann), None);
            let items = list["items"].as_array().cloned().unwrap_or_default();
            let ssh = items.iter().find(|it| it["kind"] == "Ssh");
            ssh.cloned().ok_or_else(|| list.to_string())
        });
        let path = format!(
            "/api/v1/vms/web/sessions/{}",
            session["name"].as_str().unwrap()
        );
        platform.curl_ok(202, "DELETE", &path, Some(ann), None);
        let output = sleeper.join().unwrap();
        assert!(!output.status.success(), "{}", show(&output));
    });
}

/// How the web page is reached: by Ingress and by the Gateway API, with certificates.
fn web(platform: &Platform, boss: &str) {
    let path = "/api/v1/admin/certificate";
    let exposed = |exposure: Value| {
        let edit = json!({"spec": {"exposure": exposure}}).to_string();
        let of = ["patch", "kiteplatform", "default", "--type", "merge", "-p"];
        platform.kubectl_ok(&[&of[..], &[edit.as_str()]].concat());
    };
    exposed(json!({"certificate": {"clusterIssuer": "own"}}));
    platform.curl_ok(200, "GET", path, Some(boss), None);
    exposed(json!({"certificate": {"clusterIssuer": null}}));
    // One that is brought is looked for by the name that it is said to have.
    exposed(json!({"certificate": {"secretName": "brought"}}));
    let of_settings = "jsonpath={.status.conditions[?(@.type==\"ResolvedRefs\")].message}";
    eventually("it is missed", || {
        let seen = platform.kubectl_ok(&["get", "kiteplatform", "default", "-o", of_settings]);
        // And not that nobody may look at it.
        let is_missed = seen.contains("kite/brought, which is not there");
        is_missed.then_some(()).ok_or(seen)
    });
    exposed(json!({"certificate": {"secretName": null}}));

    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([DOMAIN.to_owned()]).unwrap();
    params.not_after = date_time_ymd(2100, 1, 1);
    let certificate = params.self_signed(&key).unwrap();
    let body = json!({"certificate": certificate.pem(), "privateKey": key.serialize_pem()});
    platform.curl_ok(200, "PUT", path, Some(boss), Some(&body));
    // The controller looks for it, too.
    let generations = "jsonpath={.metadata.generation} {.status.observedGeneration}";
    eventually("it is looked at", || {
        let seen = platform.kubectl_ok(&["get", "kiteplatform", "default", "-o", generations]);
        match seen.split_once(' ') {
            Some((now, observed)) if now == observed => Ok(()),
            _ => Err(seen),
        }
    });
    platform.curl_ok(204, "DELETE", path, Some(boss), None);

    platform.apply_ok(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: front, namespace: kite}
spec:
  gatewayClassName: played
  listeners: [{name: http, port: 80, protocol: HTTP}]
",
    );
    let of_web = |kind: &str| {
        let output = platform.kubectl(&["get", kind, "-n", "kite-user-ann", "web", "-o", "name"]);
        output.status.success()
    };
    let moved = |to: &str, from: &str| {
        eventually(to, || match (of_web(to), of_web(from)) {
            (true, false) => Ok(()),
            seen => Err(format!("{seen:?}")),
        });
    };
    moved("ingress", "httproute");
    exposed(json!({"gateway": {"namespace": "kite", "name": "front"}}));
    moved("httproute", "ingress");
    exposed(json!({"gateway": null}));
    moved("ingress", "httproute");

    // Somebody deletes the settings, and they are made anew.
    platform.kubectl_ok(&["delete", "kiteplatform", "default"]);
    eventually("no settings", || {
        let path = "/api/v1/admin/platform";
        let (_, seen) = platform.curl("GET", path, Some(boss), None);
        if seen["baseDomain"].is_null() {
            Ok(())
        } else {
            Err(seen.to_string())
        }
    });
    settings(platform, boss, &json!({"baseDomain": DOMAIN}));
}

/// Everything goes: a VM by itself, the rest with its user, and the images.
fn end(stage: &Stage, boss: &str, ann: &str, vms: &[&str; 2]) {
    let platform = &stage.platform;
    let [web, _] = vms;
    // Somebody saves the disk's claim from going with its DataVolume.
    let edit = r#"{"metadata":{"ownerReferences":null}}"#;
    platform.kubectl_ok(&[
        "patch",
        "pvc",
        "-n",
        "kite-user-ann",
        "web-disk",
        "--type=merge",
        "-p",
        edit,
    ]);
    platform.curl_ok(
        202,
        "DELETE",
        &format!("/api/v1/vms/{web}"),
        Some(ann),
        None,
    );
    eventually("the VM is gone", || match vm(platform, ann, web) {
        (404, _) => Ok(()),
        (status, vm) => Err(format!("{status} {vm}")),
    });
    for (name, fate) in [("left", "Keep"), ("taken-along", "Delete")] {
        let body = json!({"name": name, "size": "1Gi", "onAccountDeletion": fate});
        platform.curl_ok(201, "POST", "/api/v1/volumes", Some(ann), Some(&body));
    }
    stage.ann_goes();
    platform.curl_ok(202, "DELETE", "/api/v1/admin/users/ann", Some(boss), None);
    eventually("the account waits", || {
        let reason = "jsonpath={.status.conditions[?(@.type=='Ready')].reason}";
        let seen = platform.kubectl_ok(&["get", "kiteuser", "ann", "-o", reason]);
        if seen == "VolumesKept" {
            Ok(())
        } else {
            Err(seen)
        }
    });
    let left = "/api/v1/volumes/left?owner=ann";
    platform.curl_ok(202, "DELETE", left, Some(boss), None);
    let gone = |what: &[&str]| {
        eventually(&format!("{what:?} is gone"), || {
            let output = platform.kubectl(&[&["get"], what].concat());
            if output.status.success() {
                Err(show(&output))
            } else {
                Ok(())
            }
        });
    };
    gone(&["kiteuser", "ann"]);
    gone(&["namespace", "kite-user-ann"]);
    for image in ["debian-12", "alpine"] {
        platform.kubectl_ok(&["delete", "kiteimage", image, "--wait=false"]);
        gone(&["kiteimage", image]);
    }
}
