//! russh's server, which has ML-KEM where this machine's OpenSSH does not.

use std::borrow::Cow;
use std::net::TcpStream;
use std::sync::Arc;

use kite_ssh_relay::kex::Method;
use kite_ssh_relay::packet::Suite;
use russh::keys::{Algorithm, PrivateKey};
use russh::{Preferred, cipher, kex, server};

use crate::client::Client;
use crate::pairs;

struct Nobody;

impl server::Handler for Nobody {
    type Error = russh::Error;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn understands_each_suite_and_method() {
    let preferred = Preferred {
        kex: Cow::Owned(vec![
            kex::MLKEM768X25519_SHA256,
            kex::CURVE25519,
            kex::ECDH_SHA2_NISTP256,
            kex::ECDH_SHA2_NISTP384,
            kex::EXTENSION_OPENSSH_STRICT_KEX_AS_SERVER,
        ]),
        cipher: Cow::Owned(vec![
            cipher::AES_128_GCM,
            cipher::AES_256_GCM,
            cipher::CHACHA20_POLY1305,
            cipher::AES_128_CTR,
            cipher::AES_256_CTR,
        ]),
        ..Preferred::default()
    };
    let key = PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).unwrap();
    let config = Arc::new(server::Config {
        keys: vec![key],
        preferred,
        ..server::Config::default()
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let session = server::run_stream(Arc::clone(&config), stream, Nobody);
            tokio::spawn(async move { session.await?.await });
        }
    });
    let tried = tokio::task::spawn_blocking(move || {
        for pair in pairs() {
            let stream = TcpStream::connect(address).unwrap();
            let mut client = Client::start(&stream, &stream);
            client.exchange(pair.0, pair.1).unwrap();
            // Keys change on a connection that has some, to those of another suite and back.
            let other = (Method::NistP384, Suite::ChaCha20Poly1305);
            client.exchange(other.0, other.1).unwrap();
            client.exchange(pair.0, pair.1).unwrap();
            client.is_answered();
        }
    });
    tried.await.unwrap();
}
