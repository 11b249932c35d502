//! The gateway before one sshd, without Kubernetes: how another project puts it
//! before machines of its own.
//!
//! ```text
//! before_one_sshd LISTEN SSHD USER KEY_FILE HOST_KEY_FILE LOGIN PASSWORD
//! before_one_sshd 127.0.0.1:2222 10.0.0.5:22 debian id_ed25519 vm_host_key.pub web secret
//! ssh -p 2222 web@127.0.0.1
//! ```

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use kite_core::password::PasswordHash;
use kite_gateway::{Credential, Gateway, LoginRule, Route, Target, VmKey, VmState};
use russh::keys::{Algorithm, PrivateKey, PublicKey};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [listen, sshd, user, key, host_key, login, password] = args.as_slice() else {
        return Err("needs LISTEN SSHD USER KEY_FILE HOST_KEY_FILE LOGIN PASSWORD".into());
    };
    let route = Route {
        vm: VmKey {
            namespace: "example".to_owned(),
            name: login.clone(),
        },
        uid: String::new(),
        owner: None,
        state: VmState::Running,
        start_on_connect: false,
        target: Some(Target {
            addresses: vec![sshd.parse()?],
            user: user.clone(),
            credential: Credential::Key(Arc::new(PrivateKey::read_openssh_file(Path::new(key))?)),
            host_key: PublicKey::read_openssh_file(Path::new(host_key))?,
        }),
        rule: LoginRule::KeyOrPassword,
        password: Some(PasswordHash::create(password)?),
        authorized_keys: Vec::new(),
        authorities: Vec::new(),
    };
    let gateway = Gateway::builder()
        .routes(HashMap::from([(login.clone(), Arc::new(route))]))
        // A real one keeps its key: clients would take a new one for an attack.
        .host_key(PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519)?)
        .build()?;
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        // Without a signal handler the gateway just runs on.
        let _ = tokio::signal::ctrl_c().await;
        stop.cancel();
    });
    let listener = TcpListener::bind(listen).await?;
    gateway.serve(listener, shutdown).await?;
    Ok(())
}
