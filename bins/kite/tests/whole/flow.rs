//! The way of a user through the platform, the same however it is started.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};

use crate::support::{Platform, eventually, show};

const PASSWORD: &str = "correct horse battery";
const VM_PASSWORD: &str = "staple of the vm";

/// Bootstraps with `token`, creates a user and a VM, uses it and removes it.
pub fn from_bootstrap_to_nothing_left(platform: &Platform, token: &str) {
    let admin = bootstrap(platform, token);
    let ann = user(platform, &admin, "ann");
    let ssh_id = create_vm(platform, &ann);
    use_ssh(platform, &ssh_id);
    power_cycle(platform, &ann, &ssh_id);
    delete(platform, &ann, &ssh_id);
    platform.curl_ok(204, "POST", "/api/v1/auth/sign-out", Some(&ann), None);
    platform.curl_ok(401, "GET", "/api/v1/me", Some(&ann), None);
}

fn bootstrap(platform: &Platform, token: &str) -> String {
    let body = json!({ "token": token, "username": "boss", "password": PASSWORD });
    let wrong = json!({ "token": "guess", "username": "boss", "password": PASSWORD });
    let (status, answer) = platform.curl("POST", "/api/v1/auth/bootstrap", None, Some(&wrong));
    assert!(
        (400..500).contains(&status),
        "a wrong token: {status} {answer}"
    );
    platform.curl_ok(201, "POST", "/api/v1/auth/bootstrap", None, Some(&body));
    let (status, answer) = platform.curl("POST", "/api/v1/auth/bootstrap", None, Some(&body));
    assert!(
        (400..500).contains(&status),
        "a used token: {status} {answer}"
    );
    sign_in(platform, "boss")
}

fn sign_in(platform: &Platform, username: &str) -> String {
    let body = json!({ "username": username, "password": PASSWORD });
    let answer = platform.curl_ok(200, "POST", "/api/v1/auth/sign-in", None, Some(&body));
    answer["token"]
        .as_str()
        .unwrap_or_else(|| panic!("no token in {answer}"))
        .to_owned()
}

fn user(platform: &Platform, admin: &str, username: &str) -> String {
    let body = json!({ "username": username, "password": PASSWORD, "accessLevel": "User" });
    platform.curl_ok(201, "POST", "/api/v1/admin/users", Some(admin), Some(&body));
    let phase = [
        "get",
        "kiteuser",
        username,
        "-o",
        "jsonpath={.status.phase}",
    ];
    eventually("the user is ready", || {
        let seen = platform.kubectl_ok(&phase);
        if seen == "Ready" { Ok(()) } else { Err(seen) }
    });
    sign_in(platform, username)
}

fn create_vm(platform: &Platform, token: &str) -> String {
    let body = json!({
        "name": "web", "cpu": 1, "memory": "1Gi", "disk": "10Gi", "image": "debian-12",
        "sshId": "ann-web", "sshPassword": VM_PASSWORD,
    });
    platform.curl_ok(201, "POST", "/api/v1/vms", Some(token), Some(&body));
    wait_for_phase(platform, token, "Running");
    let wait = [
        "wait",
        "-n",
        "kite-user-ann",
        "--for=condition=Ready",
        "--timeout=60s",
        "ktvm/web",
    ];
    platform.kubectl_ok(&wait);
    let shown = platform.kubectl_ok(&["get", "ktvm", "-n", "kite-user-ann"]);
    assert!(
        shown.contains("Running") && shown.contains("debian-12"),
        "{shown}"
    );
    let describe = ["describe", "-n", "kite-user-ann", "ktvm", "web"];
    eventually("the Events of the VM", || {
        let shown = platform.kubectl_ok(&describe);
        let events = shown.split("\nEvents:").nth(1).unwrap_or_default();
        if events.contains("DiskReady") && events.contains("the VM runs") {
            Ok(())
        } else {
            Err(shown)
        }
    });
    "ann-web".to_owned()
}

fn vm(platform: &Platform, token: &str) -> (u16, Value) {
    platform.curl("GET", "/api/v1/vms/web", Some(token), None)
}

fn wait_for_phase(platform: &Platform, token: &str, phase: &str) {
    eventually(phase, || {
        let (_, vm) = vm(platform, token);
        if vm["status"]["phase"] == phase {
            Ok(())
        } else {
            Err(vm.to_string())
        }
    });
}

fn use_ssh(platform: &Platform, ssh_id: &str) {
    let output = eventually("ssh", || {
        let output = platform.openssh("ssh", ssh_id, VM_PASSWORD, &["echo hello; exit 7"], "");
        // The gateway may see the guest's address a moment after the user sees "Running".
        if output.status.code() == Some(7) {
            Ok(output)
        } else {
            Err(show(&output))
        }
    });
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello\n");

    let wrong = platform.openssh("ssh", ssh_id, "wrong", &["true"], "");
    assert_eq!(wrong.status.code(), Some(255), "{}", show(&wrong));

    let local = platform.state.join("upload.bin");
    let back = platform.state.join("download.bin");
    let content: Vec<u8> = (0..3_000_000_u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect();
    std::fs::write(&local, &content).unwrap();
    let script = format!(
        "put {} file.bin\nget file.bin {}\n",
        local.display(),
        back.display()
    );
    let output = platform.openssh(
        "sftp",
        ssh_id,
        VM_PASSWORD,
        &["-oBatchMode=no", "-b", "-"],
        &script,
    );
    assert!(output.status.success(), "sftp: {}", show(&output));
    assert!(
        std::fs::read(&back).unwrap() == content,
        "sftp gave back other bytes"
    );

    let shell = platform.openssh("ssh", ssh_id, VM_PASSWORD, &["-tt"], "whoami\nexit 3\n");
    assert_eq!(shell.status.code(), Some(3), "{}", show(&shell));
    assert!(
        String::from_utf8_lossy(&shell.stdout).contains(ssh_id),
        "{}",
        show(&shell)
    );
}

fn power_cycle(platform: &Platform, token: &str, ssh_id: &str) {
    platform.curl_ok(
        200,
        "PATCH",
        "/api/v1/vms/web",
        Some(token),
        Some(&json!({ "powerState": "Off" })),
    );
    wait_for_phase(platform, token, "Stopped");
    let off = platform.openssh("ssh", ssh_id, VM_PASSWORD, &["true"], "");
    assert!(
        !off.status.success(),
        "a VM that is off lets nobody in: {}",
        show(&off)
    );

    platform.curl_ok(
        200,
        "PATCH",
        "/api/v1/vms/web",
        Some(token),
        Some(&json!({ "powerState": "On" })),
    );
    wait_for_phase(platform, token, "Running");
    eventually("ssh after power on", || {
        let output = platform.openssh("ssh", ssh_id, VM_PASSWORD, &["wc -c < file.bin"], "");
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if text == "3000000" {
            Ok(())
        } else {
            Err(show(&output))
        }
    });
}

fn delete(platform: &Platform, token: &str, ssh_id: &str) {
    let (status, answer) = platform.curl("DELETE", "/api/v1/vms/web", Some(token), None);
    assert!([200, 202, 204].contains(&status), "{status} {answer}");
    eventually("the VM is gone", || match vm(platform, token) {
        (404, _) => Ok(()),
        (status, vm) => Err(format!("{status} {vm}")),
    });
    let kinds = "ktvm,vm,vmi,dv,pvc,pod,svc,endpointslices,ingress,secret";
    let args = ["get", kinds, "-n", "kite-user-ann", "-o", "name"];
    eventually("nothing remains", || {
        let rest = platform.kubectl_ok(&args);
        let rest: Vec<_> = rest.lines().filter(|name| name.contains("web")).collect();
        if rest.is_empty() {
            Ok(())
        } else {
            Err(rest.join(", "))
        }
    });
    // Nobody holds the login name, and nobody but its former owner gets it.
    let name = format!("ssh-id.{ssh_id}");
    let kept = "jsonpath={.spec.kept.userUid}";
    let uid = "jsonpath={.metadata.uid}";
    assert_eq!(
        platform.kubectl_ok(&["get", "kitereservation", &name, "-o", kept]),
        platform.kubectl_ok(&["get", "kiteuser", "ann", "-o", uid]),
        "the login name is kept for its owner"
    );
}
