//! Controller, gateway and API as separate processes against the in-memory API
//! server: what production runs, on another API server.

use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;

use crate::{
    flow,
    images::{self, Images},
    queries::{self, Exposed},
    support::{Platform, Process, clients_present, eventually, run, show},
};

const TOKEN: &str = "a-token-that-works-once";

const START: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: kite}
---
apiVersion: v1
kind: Namespace
metadata: {name: kite-images}
---
apiVersion: v1
kind: Secret
metadata: {name: kite-bootstrap, namespace: kite}
stringData: {token: a-token-that-works-once}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: kite-vm-storage}
provisioner: test.kite.test/memory
---
apiVersion: hy3ons.github.io/v1
kind: KiteImage
metadata: {name: debian-12}
spec:
  minDisk: 4Gi
  source: {registry: {url: 'docker://images.kite.test/debian:12'}}
";

/// A binary of another package, built by `cargo test --workspace`.
fn binary(name: &str) -> Command {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_kite")).with_file_name(name);
    assert!(
        path.is_file(),
        "{} is not built: run `cargo test --workspace`",
        path.display()
    );
    Command::new(path)
}

/// A running process, and the address on which it serves its users.
struct Part {
    process: Process,
    address: String,
    admin: String,
}

impl Part {
    /// What it tells Prometheus.
    fn metrics(&self) -> String {
        let output = curl(&["-sSf", &format!("http://{}/metrics", self.admin)]);
        let ends = output.stdout.ends_with(b"# EOF\n");
        assert!(output.status.success() && ends, "{}", show(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

fn curl(args: &[&str]) -> std::process::Output {
    let mut curl = Command::new("curl");
    curl.args(args);
    run(curl, "")
}

/// Starts `name` and waits until it is ready; `serving` is what it logs with its
/// address.
fn part(name: &'static str, dir: &Path, serving: &str) -> Part {
    let mut command = binary(name);
    command.env("KUBECONFIG", dir.join("state/kubeconfig"));
    started(name, command, dir, serving)
}

/// The same by a command, which gets free ports.
fn started(name: &'static str, mut command: Command, dir: &Path, serving: &str) -> Part {
    command
        .env("KITE_ADMIN_LISTEN", "127.0.0.1:0")
        .env("KITE_LISTEN", "127.0.0.1:0")
        .env("KITE_LOG_FORMAT", "json");
    let mut process = Process::start(name, command, dir.join(format!("{name}.log")));
    let admin = process.logged_address("the admin port serves");
    eventually(name, || {
        process.assert_running();
        let url = format!("http://{admin}/readyz");
        let output = curl(&["-s", "-o", "/dev/null", "-w", "%{http_code}", &url]);
        match output.stdout.as_slice() {
            b"200" => Ok(()),
            _ => Err(show(&output)),
        }
    });
    let address = process.logged_address(serving);
    Part {
        process,
        address,
        admin,
    }
}

/// A gateway that tells all that one can tell: it records, and carries recordings away.
fn recording_gateway(dir: &Path) -> Part {
    let (recordings, store) = (dir.join("recordings"), dir.join("store"));
    for place in [&recordings, &store] {
        std::fs::create_dir(place).unwrap();
    }
    let name = "kite-gateway";
    let mut command = binary(name);
    command
        .env("KUBECONFIG", dir.join("state/kubeconfig"))
        .env("KITE_RECORD_TO", recordings)
        .env("KITE_RECORD_UPLOAD", format!("file://{}", store.display()));
    started(name, command, dir, "gateway accepts connections")
}

/// An API server with Kite's kinds, whose state is below `dir`.
fn cluster(dir: &Path) -> (Process, Platform) {
    let crds = dir.join("crds");
    std::fs::create_dir(&crds).unwrap();
    let printed = Command::new(env!("CARGO_BIN_EXE_kite"))
        .arg("crds")
        .output()
        .unwrap();
    assert!(printed.status.success(), "{}", show(&printed));
    std::fs::write(crds.join("kite.yaml"), printed.stdout).unwrap();

    let state = dir.join("state");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
    command.args(["apiserver", "--actors", "--apiserver-listen=127.0.0.1:0"]);
    command
        .arg("--state-dir")
        .arg(&state)
        .arg("--crds")
        .arg(&crds);
    let mut apiserver = Process::start("kite apiserver", command, dir.join("apiserver.log"));
    let platform = Platform::wait(&state, &mut apiserver);
    platform.apply_ok(START);
    (apiserver, platform)
}

#[test]
fn the_three_processes_do_what_the_demo_does() {
    if !clients_present() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (apiserver, mut platform) = cluster(dir.path());
    let controller = part("kite-controller", dir.path(), "the admin port serves");
    let gateway = recording_gateway(dir.path());
    let api = part("kite-api", dir.path(), "the HTTP API serves");
    platform.ready = json!({
        "gateway": gateway.address,
        "api": format!("http://{}", api.address),
    });
    let (host, port) = gateway.address.rsplit_once(':').unwrap();
    let mut keyscan = Command::new("ssh-keyscan");
    keyscan.args(["-p", port, host]);
    let keys = run(keyscan, "");
    assert!(
        keys.status.success() && !keys.stdout.is_empty(),
        "{}",
        show(&keys)
    );
    std::fs::write(platform.state.join("known_hosts"), keys.stdout).unwrap();

    flow::from_bootstrap_to_nothing_left(&platform, TOKEN);

    let mut exposed = Exposed::default();
    for part in [&controller, &gateway, &api] {
        exposed.read(&part.metrics());
    }
    queries::assert_all_can_be_asked(&exposed);

    for part in [controller, gateway, api] {
        let (code, took) = part.process.terminate();
        assert_eq!(code, Some(0));
        println!("ended in {took:?}");
    }
    assert_eq!(apiserver.terminate().0, Some(0));
}

#[test]
fn images_have_all_that_the_processes_need() {
    if !clients_present() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let binaries = Path::new(env!("CARGO_BIN_EXE_kite")).parent().unwrap();
    let Some(images) = Images::unpacked(&dir.path().join("images"), binaries) else {
        return;
    };
    let (apiserver, _platform) = cluster(dir.path());
    for (name, serving) in [
        ("kite-controller", "the admin port serves"),
        ("kite-gateway", "gateway accepts connections"),
        ("kite-api", "the HTTP API serves"),
    ] {
        let (root, config) = images.root(name);
        assert!(!root.join("bin/sh").exists(), "{name} has a shell");
        let config = &config["config"];
        assert_eq!(config["User"], format!("{0}:{0}", images::USER));
        let program = config["Entrypoint"][0].as_str().unwrap();
        let mut version = images::in_root(&root, program);
        version.arg("--version");
        let output = run(version, "");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.starts_with(name), "{}", show(&output));

        std::fs::copy(
            dir.path().join("state/kubeconfig"),
            root.join("etc/kubeconfig"),
        )
        .unwrap();
        let readable = Permissions::from_mode(0o644);
        std::fs::set_permissions(root.join("etc/kubeconfig"), readable).unwrap();
        let mut command = images::in_root(&root, program);
        command.env("KUBECONFIG", "/etc/kubeconfig");
        let part = started(name, command, dir.path(), serving);
        let proc = PathBuf::from(format!("/proc/{}", part.process.id()));
        let status = std::fs::read_to_string(proc.join("status")).unwrap();
        let user = format!("Uid:\t{0}\t{0}\t{0}\t{0}\n", images::USER);
        assert!(status.contains(&user), "{status}");
        let mounts = std::fs::read_to_string(proc.join("mountinfo")).unwrap();
        let is_read_only = |line: &str| {
            let fields: Vec<_> = line.split(' ').collect();
            fields[4] == "/" && fields[5].starts_with("ro,")
        };
        assert!(mounts.lines().any(is_read_only), "{mounts}");
        assert_eq!(part.process.terminate().0, Some(0), "{name}");
    }
    assert_eq!(apiserver.terminate().0, Some(0));
}

#[test]
fn with_rbac_a_token_decides() {
    if !clients_present() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
    command.args(["apiserver", "--rbac", "--apiserver-listen=127.0.0.1:0"]);
    command.arg("--state-dir").arg(&state);
    let mut apiserver = Process::start("kite apiserver", command, dir.path().join("apiserver.log"));
    let platform = Platform::wait(&state, &mut apiserver);
    let url = format!("{}/api/v1/namespaces", platform.text("apiserver"));
    let config = std::fs::read_to_string(state.join("kubeconfig")).unwrap();
    let token = config
        .lines()
        .find_map(|line| line.trim().strip_prefix("token: "))
        .unwrap();
    let authority = platform.text("certificateAuthority");
    let admin = format!("Authorization: Bearer {}", token.trim_matches('"'));
    let code = |header: &str| {
        let args = [
            "-s",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "--cacert",
            &authority,
            "-H",
            header,
            &url,
        ];
        String::from_utf8(curl(&args).stdout).unwrap()
    };
    assert_eq!(code("Accept: application/json"), "403");
    assert_eq!(code(&admin), "200");
    // Over TLS kubectl sends the token.
    let mut kubectl = Command::new("kubectl");
    kubectl.args([
        "auth",
        "whoami",
        "-o",
        "jsonpath={.status.userInfo.username}",
    ]);
    kubectl.env("KUBECONFIG", state.join("kubeconfig"));
    let told = run(kubectl, "");
    assert_eq!(String::from_utf8(told.stdout).unwrap(), "kubernetes-admin");
    assert_eq!(apiserver.terminate().0, Some(0));
}
