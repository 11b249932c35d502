//! Two sshds, the gateway, and clients that know them.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey};

use crate::gateway::LOGIN;
use crate::machine::has_come_to_rest;
use crate::options::Options;
use crate::processes::{self, Process, clean_up_on_signals, line};

const SSHD: &str = "/usr/sbin/sshd";
pub const AES: &str = "aes128-gcm@openssh.com";
pub const CHACHA: &str = "chacha20-poly1305@openssh.com";

/// Where a client can go; the name is also the host's in its configuration.
#[derive(Clone, Debug)]
pub struct Target {
    pub name: &'static str,
    /// The process, with its children, that stands between the client and the VM.
    pub hop: Option<u32>,
}

pub struct Bed {
    pub vm: u32,
    pub targets: Vec<Target>,
    other: Option<PathBuf>,
    ports: Vec<(&'static str, u16)>,
    // Ended in this order, before the directory is removed.
    processes: Vec<Process>,
    dir: tempfile::TempDir,
}

impl Drop for Bed {
    fn drop(&mut self) {
        // An sshd waits for its children; without it they would be left to init.
        let sshds = self.targets.iter().filter(|t| t.name == "ssh -J");
        for id in sshds.filter_map(|target| target.hop).chain([self.vm]) {
            let _ = has_come_to_rest(id);
        }
    }
}

impl Bed {
    /// Starts all; says so and gives `None` where there is no sshd.
    pub fn new(options: &Options) -> Option<Self> {
        if !Path::new(SSHD).exists() {
            println!("skipped: there is no {SSHD} (Debian: openssh-server)");
            return None;
        }
        // Where sshd separates privileges it insists on this directory.
        let _ = std::fs::create_dir_all("/run/sshd");
        let dir = tempfile::tempdir().unwrap();
        clean_up_on_signals(dir.path());
        let mut bed = Self {
            vm: 0,
            targets: Vec::new(),
            other: options.other.clone(),
            ports: Vec::new(),
            processes: Vec::new(),
            dir,
        };
        bed.keys();
        let (vm, vm_address) = bed.sshd("vm");
        let (jump, jump_address) = bed.sshd("jump");
        bed.vm = vm.id();
        bed.write("vm_address", &vm_address.to_string());
        let (copier, copier_port) = bed.program(&std::env::current_exe().unwrap(), "--copier");
        bed.ports = vec![
            ("direct", vm_address.port()),
            ("jump", jump_address.port()),
            ("copy", copier_port),
        ];
        bed.targets = vec![
            Target {
                name: "direct",
                hop: None,
            },
            Target {
                name: "ssh -J",
                hop: Some(jump.id()),
            },
            Target {
                name: "copy",
                hop: Some(copier.id()),
            },
        ];
        let gateways = bed.gateways();
        bed.processes = vec![vm, jump, copier];
        for (target, process, port) in gateways {
            bed.ports.push((target.name, port));
            bed.targets.push(target);
            bed.processes.push(process);
        }
        bed.configure();
        Some(bed)
    }

    /// The same sshds before fresh gateways, whose memory is that of a beginning.
    pub fn fresh(&self) -> (Vec<Target>, Vec<Process>) {
        let mut targets = self.targets.clone();
        targets.retain(|target| !target.is_gateway());
        let mut processes = Vec::new();
        let mut ports = self.ports.clone();
        ports.retain(|(name, _)| ["direct", "jump", "copy"].contains(name));
        for (target, process, port) in self.gateways() {
            ports.push((target.name, port));
            targets.push(target);
            processes.push(process);
        }
        self.configure_for(&ports);
        (targets, processes)
    }

    /// Clients go to the first gateways again.
    pub fn configure(&self) {
        self.configure_for(&self.ports);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// An OpenSSH client with the cipher; what follows is options.
    pub fn ssh(&self, cipher: &str) -> Command {
        let mut command = Command::new("ssh");
        command
            .arg("-F")
            .arg(self.path(config_name(cipher)))
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::null());
        command
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn keys(&self) {
        let names = [
            "user_key",
            "vm_host_key",
            "jump_host_key",
            "gateway_host_key",
            "gateway_vm_key",
        ];
        for name in names {
            let key = PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).unwrap();
            self.write(name, &key.to_openssh(LineEnding::LF).unwrap());
            let public = key.public_key().to_openssh().unwrap();
            self.write(&format!("{name}.pub"), &format!("{public}\n"));
        }
        let keys = self.read("user_key.pub") + &self.read("gateway_vm_key.pub");
        self.write("authorized_keys", &keys);
        let user = processes::run(Command::new("id").arg("-un"));
        self.write("vm_user", user.trim());
    }

    fn sshd(&self, name: &str) -> (Process, SocketAddr) {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let dir = self.dir.path().display();
        // With another home the start-up files of whoever runs this, which shells
        // read in a session, do not count.
        let config = format!(
            "ListenAddress {address}\nHostKey {dir}/{name}_host_key\n\
             AuthorizedKeysFile {dir}/authorized_keys\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nPidFile none\nMaxStartups 500\nMaxSessions 100\n\
             UseDNS no\nSetEnv HOME={dir}\nLogLevel FATAL\n"
        );
        self.write(&format!("{name}_config"), &config);
        let process = Process::start(
            Command::new(SSHD)
                .args(["-D", "-e", "-f"])
                .arg(self.path(&format!("{name}_config")))
                .stdin(Stdio::null()),
        );
        for _ in 0..500 {
            if TcpStream::connect(address).is_ok() {
                return (process, address);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("sshd does not listen");
    }

    /// This program, or one like it, in another part; and its port.
    fn program(&self, program: &Path, part: &str) -> (Process, u16) {
        let mut process = Process::start(
            Command::new(program)
                .arg(part)
                .arg(self.dir.path())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped()),
        );
        let address: SocketAddr = line(&mut process.lines()).parse().unwrap();
        (process, address.port())
    }

    fn gateways(&self) -> Vec<(Target, Process, u16)> {
        let this = std::env::current_exe().unwrap();
        let mut programs = vec![("gateway", this)];
        programs.extend(self.other.clone().map(|other| ("other", other)));
        let start = |(name, program): (&'static str, PathBuf)| {
            let (process, port) = self.program(&program, "--gateway");
            let hop = Some(process.id());
            (Target { name, hop }, process, port)
        };
        programs.into_iter().map(start).collect()
    }

    /// The clients' files: what they know of hosts, and one configuration for each
    /// cipher. `-c` would not do: it does not reach the jump host.
    fn configure_for(&self, ports: &[(&'static str, u16)]) {
        let mut known = String::new();
        let mut hosts = String::new();
        for (name, port) in ports {
            let (key, user) = match *name {
                "direct" | "copy" => ("vm_host_key.pub", self.read("vm_user")),
                "jump" => ("jump_host_key.pub", self.read("vm_user")),
                _ => ("gateway_host_key.pub", LOGIN.to_owned()),
            };
            writeln!(known, "[127.0.0.1]:{port} {}", self.read(key).trim()).unwrap();
            writeln!(hosts, "Host {name}\n  Port {port}\n  User {user}").unwrap();
            if *name == "direct" {
                // The same VM by another name, behind the jump host.
                writeln!(
                    hosts,
                    "Host through\n  Port {port}\n  User {user}\n  ProxyJump jump"
                )
                .unwrap();
            }
        }
        self.write("known_hosts", &known);
        let dir = self.dir.path().display();
        for cipher in [AES, CHACHA] {
            let config = format!(
                "Host *\n  HostName 127.0.0.1\n  Ciphers {cipher}\n  KexAlgorithms curve25519-sha256\n  \
                 UserKnownHostsFile {dir}/known_hosts\n  GlobalKnownHostsFile /dev/null\n  \
                 StrictHostKeyChecking yes\n  IdentityFile {dir}/user_key\n  IdentitiesOnly yes\n  \
                 IdentityAgent none\n  BatchMode yes\n  LogLevel ERROR\n{hosts}"
            );
            self.write(config_name(cipher), &config);
        }
    }
}

impl Target {
    pub fn is_gateway(&self) -> bool {
        !["direct", "ssh -J", "copy"].contains(&self.name)
    }

    /// Its name in the clients' configuration.
    pub fn host(&self) -> &'static str {
        match self.name {
            "ssh -J" => "through",
            name => name,
        }
    }
}

fn config_name(cipher: &str) -> &'static str {
    if cipher == AES {
        "aes_config"
    } else {
        "chacha_config"
    }
}
