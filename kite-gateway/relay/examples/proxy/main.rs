//! A proxy in front of one sshd: users log in by a key or a password of the proxy's, and the
//! proxy logs in by a key of its own.
//!
//! ```text
//! ssh-keygen -t ed25519 -N '' -f host; ssh-keygen -t ed25519 -N '' -f mine
//! PROXY_PASSWORD=secret cargo run --example proxy -- 127.0.0.1:2222 host \
//!     ~/.ssh/id_ed25519.pub 192.0.2.7:22 mine server_host_key.pub
//! ssh -p 2222 name-at-the-server@127.0.0.1
//! ```
//!
//! The server has to let `mine.pub` in; `ssh-keyscan` tells its host key, without the name that
//! a line of it begins with.

mod serve;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use kite_ssh_relay::io::Workers;
use kite_ssh_relay::relay::Settings;
use kite_ssh_relay::sign::SigningKey;
use kite_ssh_relay::transport::Config;
use ssh_key::{PrivateKey, PublicKey};
use tokio::net::TcpListener;

/// One that OpenSSH's clients take for a server that knows all that theirs does.
const VERSION: &str = "SSH-2.0-OpenSSH_9.9 proxy";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, host, user, server, mine, server_host] = &arguments[..] else {
        return Err("LISTEN HOST_KEY USER.pub SERVER KEY SERVER_HOST_KEY.pub".into());
    };
    let private = |path: &str| -> Result<_, Box<dyn Error>> {
        let key = PrivateKey::read_openssh_file(path)?;
        Ok(SigningKey::new(&key)?)
    };
    let public = |path: &str| PublicKey::read_openssh_file(path);
    let host_keys = vec![Arc::new(private(host)?)];
    let server_host = public(server_host)?;
    let known = kite_ssh_relay::algorithm::Algorithm::of(server_host.key_data());
    let proxy = serve::Proxy {
        to_user: Arc::new(Config::server(VERSION, host_keys.clone())),
        to_server: Arc::new(Config::client(VERSION, known.to_vec())),
        settings: Settings::new(host_keys),
        user_key: public(user)?.key_data().clone(),
        password: std::env::var("PROXY_PASSWORD")
            .map_err(|error| format!("PROXY_PASSWORD: {error}"))?
            .into_bytes(),
        server_user: private(mine)?,
        server_host_key: server_host.to_bytes()?,
        server: server.parse()?,
        late: Duration::ZERO,
        workers: Workers::default(),
    };
    let listener = TcpListener::bind(listen).await?;
    // On the runtime's own threads: from this one each connection would be handed over.
    tokio::spawn(serve::serve(listener, Arc::new(proxy))).await?;
    Ok(())
}
