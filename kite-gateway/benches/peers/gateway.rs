//! The gateway, in a process of its own.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use kite_gateway::{Config, Credential, Gateway, LoginRule, Route, Target, VmKey, VmState};
use russh::keys::{PrivateKey, PublicKey};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The login name of the one VM.
pub const LOGIN: &str = "web";

/// Serves the bed in `dir` until the input ends. The runtime is the one of the
/// `kite-gateway` process: as many threads as there are processors.
pub fn play(dir: &Path) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        let ended = tokio::task::spawn_blocking(|| {
            let _ = std::io::stdin().read(&mut [0]);
        });
        let serving = gateway(dir).serve(listener, CancellationToken::new());
        tokio::select! {
            served = serving => served.unwrap(),
            ended = ended => ended.unwrap(),
        }
        // Connections end with the process.
        std::process::exit(0);
    });
}

fn gateway(dir: &Path) -> Gateway {
    let text = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let key = |name: &str| PrivateKey::read_openssh_file(dir.join(name)).unwrap();
    let public = |name: &str| PublicKey::read_openssh_file(dir.join(name)).unwrap();
    let route = Route {
        vm: VmKey {
            namespace: "bench".to_owned(),
            name: LOGIN.to_owned(),
        },
        uid: "1".to_owned(),
        owner: None,
        state: VmState::Running,
        start_on_connect: false,
        rule: LoginRule::KeyOrPassword,
        target: Some(Target {
            addresses: vec![text("vm_address").trim().parse().unwrap()],
            user: text("vm_user").trim().to_owned(),
            credential: Credential::Key(Arc::new(key("gateway_vm_key"))),
            host_key: public("vm_host_key.pub"),
        }),
        password: None,
        authorized_keys: vec![public("user_key.pub").into()],
        authorities: Vec::new(),
    };
    let config = Config {
        // What follows sixty idle connections comes before the gateway has seen
        // the last of them end.
        max_connections_per_vm: 1000,
        // All clients are on one machine.
        max_startups_per_address: 1000,
        ..Config::default()
    };
    Gateway::builder()
        .config(config)
        .routes(HashMap::from([(LOGIN.to_owned(), Arc::new(route))]))
        .host_key(key("gateway_host_key"))
        .build()
        .unwrap()
}
