//! The gateway before machines that are none of Kite's, with every seam in use:
//! machines are processes of `sshd -i`, started when somebody logs in and reached
//! through a pipe instead of a port; everybody has one password, of the
//! directory's choosing; the records go to standard output.
//!
//! ```text
//! machines_of_your_own LISTEN NAME...
//! machines_of_your_own 127.0.0.1:2222 web db
//! ssh -p 2222 web@127.0.0.1           # password: open sesame
//! ```
//!
//! Needs OpenSSH's server; whoever runs this is the user in every machine.
#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kite_gateway::audit::{AuditSink, Record};
use kite_gateway::connect::{ConnectError, Stream};
use kite_gateway::russh::keys::ssh_key::LineEnding;
use kite_gateway::russh::keys::{Algorithm, PrivateKey, PublicKey};
use kite_gateway::{
    Authenticator, Connector, Credential, Gateway, LoginName, LoginRule, Proof, Route, Routes,
    Starter, Target, Verdict, VmKey, VmState,
};
use parking_lot::RwLock;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

/// Where names lead: the state of each machine changes while the gateway runs.
#[derive(Clone, Default)]
struct Machines(Arc<RwLock<HashMap<String, Arc<Route>>>>);

impl Machines {
    fn set_state(&self, name: &str, state: VmState) {
        if let Some(route) = self.0.write().get_mut(name) {
            Arc::make_mut(route).state = state;
        }
    }
}

impl Routes for Machines {
    fn find(&self, login: &LoginName) -> Option<Arc<Route>> {
        self.0.read().get(login.as_str()).cloned()
    }
}

/// Who may log in. A real one asks its directory here, and takes as long for an
/// unknown name as for a known one.
struct Directory;

#[async_trait]
impl Authenticator for Directory {
    async fn password(&self, _: &LoginName, route: Option<&Route>, password: &str) -> Verdict {
        if route.is_some() && password == "open sesame" {
            Verdict::Accept
        } else {
            Verdict::Reject
        }
    }

    async fn public_key(&self, _: &LoginName, _: Option<&Route>, _: &PublicKey) -> Verdict {
        Verdict::Reject
    }

    async fn still_holds(&self, _: &LoginName, _: &Route, proof: &Proof) -> Verdict {
        match proof {
            Proof::Password(_) => Verdict::Accept,
            Proof::Key(_) | Proof::Certificate(_) => Verdict::Reject,
        }
    }
}

/// How machines are reached: through a process, as `ssh -o ProxyCommand` would.
struct Processes {
    config: PathBuf,
}

#[async_trait]
impl Connector for Processes {
    async fn connect(&self, _: &Target) -> Result<Box<dyn Stream>, ConnectError> {
        let child = Command::new("/usr/sbin/sshd")
            .args(["-i", "-e", "-f"])
            .arg(&self.config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        match child.map(|mut child| (child.stdout.take(), child.stdin.take())) {
            Ok((Some(from), Some(to))) => Ok(Box::new(tokio::io::join(from, to))),
            _ => Err(ConnectError::NoAddress),
        }
    }
}

/// Who starts machines: here it takes a second, and is always granted.
struct Switch(Machines);

#[async_trait]
impl Starter for Switch {
    async fn start(&self, route: &Route) -> Result<(), String> {
        let (machines, name) = (self.0.clone(), route.vm.name.clone());
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            machines.set_state(&name, VmState::Running);
        });
        Ok(())
    }
}

/// Who takes the records.
struct Print;

impl AuditSink for Print {
    fn record(&self, record: &Record) {
        if let Ok(json) = serde_json::to_string(record) {
            println!("{json}");
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [listen, names @ ..] = args.as_slice() else {
        return Err("needs LISTEN NAME...".into());
    };
    let directory = tempfile::tempdir()?;
    let (gateway_key, machine_key) = (new_key()?, new_key()?);
    let config = sshd_config(directory.path(), &machine_key, gateway_key.public_key())?;
    let machines = Machines::default();
    let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
    let gateway_key = Arc::new(gateway_key);
    for name in names {
        let route = Route {
            vm: VmKey {
                namespace: "processes".to_owned(),
                name: name.clone(),
            },
            uid: String::new(),
            owner: None,
            state: VmState::Stopped("it is switched off".to_owned()),
            start_on_connect: true,
            rule: LoginRule::KeyOrPassword,
            target: Some(Target {
                addresses: Vec::new(),
                user: user.clone(),
                credential: Credential::Key(Arc::clone(&gateway_key)),
                host_key: machine_key.public_key().clone(),
            }),
            password: None,
            authorized_keys: Vec::new(),
            authorities: Vec::new(),
        };
        machines.0.write().insert(name.clone(), Arc::new(route));
    }
    let gateway = Gateway::builder()
        .routes(machines.clone())
        .authenticator(Directory)
        .connector(Processes { config })
        .starter(Switch(machines))
        .audit(Print)
        // A real one keeps its key: clients would take a new one for an attack.
        .host_key(new_key()?)
        .build()?;
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        // Without a signal handler the gateway just runs on.
        let _ = tokio::signal::ctrl_c().await;
        stop.cancel();
    });
    let listener = TcpListener::bind(listen).await?;
    eprintln!("listening on {}", listener.local_addr()?);
    gateway.serve(listener, shutdown).await?;
    Ok(())
}

fn new_key() -> Result<PrivateKey, Box<dyn std::error::Error>> {
    Ok(PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519)?)
}

/// Configures the sshd that is every machine, and gives the file.
fn sshd_config(
    directory: &Path,
    host_key: &PrivateKey,
    gateway: &PublicKey,
) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let [key, allowed, config] =
        ["host_key", "authorized_keys", "config"].map(|name| directory.join(name));
    host_key.write_openssh_file(&key, LineEnding::LF)?;
    gateway.write_openssh_file(&allowed)?;
    let text = format!(
        "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
         Subsystem sftp internal-sftp\n",
        key.display(),
        allowed.display()
    );
    std::fs::write(&config, text)?;
    Ok(config)
}
