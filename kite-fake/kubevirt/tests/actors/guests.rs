//! Running VMs are SSH servers, and what is on their disks stays.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use kite_fake::actors::Rules;
use kite_fake::actors::kind::{
    ENDPOINT_SLICE, SECRET, SERVICE, STORAGE_CLASS, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CLASS,
};
use kite_fake_kubevirt::everything_with_guests;
use kite_fake_kubevirt::kinds::{DATA_VOLUME, INSTANCE, VIRTUAL_MACHINE};
use kite_fake_kubevirt::kubevirt::{SUBRESOURCES, VmSubresources};
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey};
use serde_json::{Value, json};

use crate::world::{World, text};

const NS: Option<&str> = Some("default");

struct Keys {
    dir: tempfile::TempDir,
    user: PrivateKey,
    host: PrivateKey,
}

impl Keys {
    fn new() -> Self {
        let key = || PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let keys = Self {
            dir,
            user: key(),
            host: key(),
        };
        let path = keys.dir.path().join("key");
        std::fs::write(&path, keys.user.to_openssh(LineEnding::LF).unwrap()).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).unwrap();
        keys
    }

    fn user_data(&self) -> String {
        let public = self.user.public_key().to_openssh().unwrap();
        let host = self.host.to_openssh(LineEnding::LF).unwrap();
        let host = host.replace('\n', "\n    ");
        format!(
            "#cloud-config\nhostname: box\nusers:\n  - name: ann\n    ssh_authorized_keys:\n      \
             - {public}\nssh_keys:\n  ed25519_private: |\n    {host}\n"
        )
    }

    /// Standard output and the exit code of a command inside the guest.
    async fn ssh(&self, port: u64, command: &str) -> (String, Option<i32>) {
        let dir = self.dir.path().display();
        let public = self.host.public_key().to_openssh().unwrap();
        let known = format!("[127.0.0.1]:{port} {public}\n");
        std::fs::write(self.dir.path().join("known"), known).unwrap();
        let output = tokio::process::Command::new("ssh")
            .args([
                "-F",
                "none",
                "-o",
                "BatchMode=yes",
                "-o",
                "StrictHostKeyChecking=yes",
            ])
            .args(["-o", &format!("UserKnownHostsFile={dir}/known"), "-i"])
            .arg(format!("{dir}/key"))
            .args(["-p", &port.to_string(), "ann@127.0.0.1", command])
            .stdin(Stdio::null())
            .output()
            .await
            .expect("OpenSSH's client is installed");
        let mut out = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.code() == Some(255) {
            // OpenSSH itself failed: say why.
            out.push_str(&String::from_utf8_lossy(&output.stderr));
        }
        (out, output.status.code())
    }
}

fn disk() -> Value {
    json!({
        "metadata": {"name": "vm1-disk"},
        "spec": {
            "source": {"blank": {}},
            "storage": {"resources": {"requests": {"storage": "1Gi"}}},
        },
    })
}

fn machine() -> Value {
    json!({
        "metadata": {"name": "vm1"},
        "spec": {"runStrategy": "Always", "template": {"spec": {
            "domain": {"memory": {"guest": "1Gi"}, "devices": {}},
            "volumes": [
                {"name": "rootdisk", "dataVolume": {"name": "vm1-disk"}},
                {"name": "init", "cloudInitNoCloud": {"secretRef": {"name": "vm1-init"}}},
            ],
        }}},
    })
}

async fn port(world: &World) -> Option<u64> {
    let slices = world.list(&ENDPOINT_SLICE, NS).await;
    let slice = slices.first()?;
    slice.data["endpoints"][0]["addresses"][0].as_str()?;
    slice.data["ports"][0]["port"].as_u64()
}

/// Waits for the guest's port to be told, and another one than `old`.
async fn wait_for_port(world: &World, old: Option<u64>) -> u64 {
    for _ in 0..3_000 {
        let now = port(world).await;
        if let Some(now) = now.filter(|now| Some(*now) != old) {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no port after a minute");
}

async fn power(world: &World, strategy: &str) {
    let patch = json!({"spec": {"runStrategy": strategy}});
    world.merge(&VIRTUAL_MACHINE, NS, "vm1", patch).await;
    world.settle().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_keeps_its_disk_over_a_power_cycle_and_loses_it_with_the_claim() {
    let keys = Keys::new();
    let world = World::with(Rules::instant(), everything_with_guests()).await;
    let user_data = keys.user_data();
    let secret = json!({"metadata": {"name": "vm1-init"}, "stringData": {"userdata": user_data}});
    world.create(&SECRET, NS, secret).await;
    let service = json!({
        "metadata": {"name": "ssh"},
        "spec": {"selector": {"vm.kubevirt.io/name": "vm1"}, "ports": [{"port": 22}]},
    });
    world.create(&SERVICE, NS, service).await;
    world.create(&DATA_VOLUME, NS, disk()).await;
    world.create(&VIRTUAL_MACHINE, NS, machine()).await;

    let first = wait_for_port(&world, None).await;
    world.settle().await;
    let vm = world.get(&VIRTUAL_MACHINE, NS, "vm1").await.unwrap();
    assert_eq!(text(&vm, "/status/printableStatus"), "Running");
    let (out, code) = keys.ssh(first, "echo kept > note; cat note; exit 7").await;
    assert_eq!((out.as_str(), code), ("kept\n", Some(7)));

    // An edit by hand stays until the guest is another.
    let slice = world.list(&ENDPOINT_SLICE, NS).await.remove(0);
    let name = slice.metadata.name.unwrap();
    let edit = json!({"ports": [{"name": "", "port": 9, "protocol": "TCP"}]});
    world.merge(&ENDPOINT_SLICE, NS, &name, edit).await;
    world
        .merge(
            &SERVICE,
            NS,
            "ssh",
            json!({"metadata": {"annotations": {"a": "b"}}}),
        )
        .await;
    world.settle().await;
    assert_eq!(port(&world).await, Some(9));

    power(&world, "Halted").await;
    assert!(world.get(&INSTANCE, NS, "vm1").await.is_none());
    let dead = std::net::TcpStream::connect(("127.0.0.1", u16::try_from(first).unwrap()));
    assert!(dead.is_err());
    power(&world, "Always").await;
    let second = wait_for_port(&world, Some(9)).await;
    let (out, _) = keys.ssh(second, "cat note").await;
    assert_eq!(out, "kept\n");

    power(&world, "Halted").await;
    world.delete(&DATA_VOLUME, NS, "vm1-disk").await;
    world.settle().await;
    world.create(&DATA_VOLUME, NS, disk()).await;
    power(&world, "Always").await;
    let third = wait_for_port(&world, None).await;
    let (_, code) = keys.ssh(third, "cat note").await;
    assert_eq!(code, Some(1));
    world.end().await;
    let dead = std::net::TcpStream::connect(("127.0.0.1", u16::try_from(third).unwrap()));
    assert!(dead.is_err(), "guests end with the cluster");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_guest_had_on_its_disk_comes_back_from_a_snapshot() {
    let keys = Keys::new();
    let world = World::with(Rules::instant(), everything_with_guests()).await;
    let secret = json!({"metadata": {"name": "vm1-init"},
        "stringData": {"userdata": keys.user_data()}});
    world.create(&SECRET, NS, secret).await;
    let service = json!({
        "metadata": {"name": "ssh"},
        "spec": {"selector": {"vm.kubevirt.io/name": "vm1"}, "ports": [{"port": 22}]},
    });
    world.create(&SERVICE, NS, service).await;
    let driver = "driver.longhorn.io";
    let default = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    let class = json!({"metadata": {"name": "fast", "annotations": default},
        "provisioner": driver});
    world.create(&STORAGE_CLASS, None, class).await;
    let class = json!({"metadata": {"name": "snap"}, "driver": driver,
        "deletionPolicy": "Delete", "parameters": {"type": "snap"}});
    world.create(&VOLUME_SNAPSHOT_CLASS, None, class).await;
    world.create(&DATA_VOLUME, NS, disk()).await;
    world.create(&VIRTUAL_MACHINE, NS, machine()).await;
    let first = wait_for_port(&world, None).await;
    keys.ssh(first, "mkdir d; echo one > d/note").await;
    let snapshot = json!({"metadata": {"name": "s"}, "spec": {
        "volumeSnapshotClassName": "snap",
        "source": {"persistentVolumeClaimName": "vm1-disk"},
    }});
    world.create(&VOLUME_SNAPSHOT, NS, snapshot).await;
    world.settle().await;
    keys.ssh(first, "rm d/note; echo two > d/other").await;

    let mut restored = disk();
    restored["metadata"]["name"] = json!("vm1-disk-2");
    restored["spec"]["source"] = json!({"snapshot": {"namespace": "default", "name": "s"}});
    world.create(&DATA_VOLUME, NS, restored).await;
    world.settle().await;
    power(&world, "Halted").await;
    let mut vm = machine();
    vm["spec"]["template"]["spec"]["volumes"][0]["dataVolume"]["name"] = json!("vm1-disk-2");
    let volumes = json!({"spec": {"template": {"spec": {
        "volumes": vm["spec"]["template"]["spec"]["volumes"]}}}});
    world.merge(&VIRTUAL_MACHINE, NS, "vm1", volumes).await;
    power(&world, "Always").await;
    let second = wait_for_port(&world, None).await;
    let (out, _) = keys.ssh(second, "cd d; ls; cat note").await;
    assert_eq!(out, "note\none\n");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_of_a_guest_is_reached_by_websocket() {
    use futures::StreamExt as _;
    use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

    let keys = Keys::new();
    let world = World::with(Rules::instant(), everything_with_guests()).await;
    let subresources =
        VmSubresources::new(world.cluster.client(), Arc::clone(world.cluster.clock()));
    world.cluster.extend(SUBRESOURCES, Arc::new(subresources));
    let user_data = keys.user_data();
    let secret = json!({"metadata": {"name": "vm1-init"}, "stringData": {"userdata": user_data}});
    world.create(&SECRET, NS, secret).await;
    world.create(&DATA_VOLUME, NS, disk()).await;
    world.create(&VIRTUAL_MACHINE, NS, machine()).await;
    world.settle().await;
    let served = world.cluster.serve(([127, 0, 0, 1], 0).into()).await;
    let address = served.unwrap().address();
    let ask = async |port: u16| {
        let path = format!(
            "{SUBRESOURCES}v1/namespaces/default/virtualmachineinstances/vm1/portforward/{port}"
        );
        let url = format!("ws://{address}{path}");
        let mut request = url.into_client_request().unwrap();
        let plain = http::HeaderValue::from_static("plain.kubevirt.io");
        request
            .headers_mut()
            .insert("sec-websocket-protocol", plain);
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        tokio_tungstenite::client_async(request, stream).await
    };
    let (mut stream, answer) = ask(22).await.unwrap();
    assert_eq!(
        answer.headers()["sec-websocket-protocol"],
        "plain.kubevirt.io"
    );
    let first = stream.next().await.unwrap().unwrap().into_data();
    assert!(first.starts_with(b"SSH-2.0-KiteGuest"), "{first:?}");
    drop(stream);
    // Nothing listens there.
    assert!(ask(80).await.is_err());
    world.end().await;
}
