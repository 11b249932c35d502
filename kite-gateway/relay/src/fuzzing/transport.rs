//! What peers of SSH say: the transport of both roles, the login, and what is read of both.

#![expect(clippy::expect_used, reason = "the key is always the same one")]

use std::sync::Arc;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use ssh_key::PrivateKey;
use ssh_key::private::{Ed25519Keypair, KeypairData};

use crate::algorithm::Algorithm;
use crate::certificate::Certificate;
use crate::decisions::Decisions;
use crate::login::{Asked, Client, Methods, Request, Server};
use crate::message::{SERVICE_REQUEST, USERAUTH_REQUEST};
use crate::negotiate::{KexInit, negotiate};
use crate::sign::SigningKey;
use crate::transport::{Config, Step, Transport};

/// Nobody gets keys, or in, by what is made up; what an offer says is read as it was written;
/// and nothing is asked for that is there.
///
/// # Panics
/// Where something of it does not hold.
pub fn check(data: &[u8]) {
    let mut input = Decisions::new(data);
    match input.byte() % 4 {
        0 => transport(&mut input),
        1 => server(&mut input),
        2 => client(&mut input),
        _ => read(input.bytes(usize::MAX)),
    }
}

/// Of the same seed each time.
fn host_key() -> PrivateKey {
    let seed = [1; 32];
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("of 32 bytes");
    let both = [&seed, pair.public_key().as_ref()].concat();
    let pair = Ed25519Keypair::try_from(&both[..]).expect("a seed and its point");
    PrivateKey::new(KeypairData::Ed25519(pair), "").expect("a key without a comment")
}

fn transport(input: &mut Decisions<'_>) {
    let key = host_key();
    let config = match (SigningKey::new(&key), input.byte() % 2) {
        (Ok(key), 0) => Config::server("SSH-2.0-x", vec![Arc::new(key)]),
        _ => Config::client("SSH-2.0-x", vec![Algorithm::Ed25519]),
    };
    let mut out = Vec::new();
    let Ok(mut transport) = Transport::start(Arc::new(config), &mut out) else {
        return;
    };
    let mut come = if input.byte().is_multiple_of(2) {
        b"SSH-2.0-y\r\n".to_vec()
    } else {
        Vec::new()
    };
    while !input.is_empty() {
        let more = usize::from(input.byte());
        // A packet without keys, or anything.
        if input.byte().is_multiple_of(2) {
            let payload = input.bytes(more.max(1));
            let padding = 16 - (5 + payload.len()) % 8;
            let length = u32::try_from(1 + payload.len() + padding).unwrap_or(0);
            come.extend_from_slice(&length.to_be_bytes());
            come.push(u8::try_from(padding).unwrap_or(0));
            come.extend_from_slice(payload);
            come.resize(come.len() + padding, 0);
        } else {
            come.extend_from_slice(input.bytes(more));
        }
        loop {
            let Ok(next) = transport.next(&mut come, &mut out) else {
                assert!(transport.is_over());
                return;
            };
            come.drain(..next.consumed);
            match next.step {
                Step::Wait { needed } => {
                    assert!(needed > come.len(), "{needed} are there");
                    break;
                }
                Step::Work(work) => {
                    if transport.done(work.run(), &mut out).is_err() {
                        return;
                    }
                }
                // Whoever does not have the keys says no more than that.
                Step::Disconnected(_) => return,
                Step::HostKey(_) | Step::Keyed | Step::Message { .. } | Step::Working => {
                    assert_eq!("made up", "a key exchange");
                }
            }
        }
    }
}

fn server(input: &mut Decisions<'_>) {
    let methods = Methods {
        key: true,
        ..Methods::default()
    };
    let mut server = Server::new(b"session", b"host key");
    let mut message = vec![SERVICE_REQUEST, 0, 0, 0, 12];
    message.extend_from_slice(b"ssh-userauth");
    while !input.is_empty() {
        match server.take(&message) {
            Err(_) => return,
            Ok(Asked::Request { request, .. }) => {
                if let Request::Key(_, proof) = request {
                    assert!(proof.verify().is_err(), "a signature was made up");
                    assert!(server.accept().is_err(), "nobody has verified it");
                }
                assert!(server.reject(methods).is_ok());
            }
            Ok(_) => {}
        }
        assert!(!server.is_done());
        let number = [USERAUTH_REQUEST, SERVICE_REQUEST, 61, input.byte()];
        message = vec![input.one_of(&number)];
        while !input.byte().is_multiple_of(4) {
            let known = [
                &b"anna"[..],
                b"ssh-connection",
                b"publickey",
                b"password",
                b"ssh-ed25519",
                b"none",
            ];
            let field = match input.byte() % 3 {
                0 => input.bytes(20),
                _ => input.one_of(&known),
            };
            let length = u32::try_from(field.len()).unwrap_or(0);
            message.extend_from_slice(&length.to_be_bytes());
            message.extend_from_slice(field);
            if input.byte().is_multiple_of(4) {
                message.push(input.byte());
            }
        }
    }
}

fn client(input: &mut Decisions<'_>) {
    let (mut client, _) = Client::start(b"anna");
    while !input.is_empty() {
        let length = usize::from(input.byte());
        if client.take(input.bytes(length)).is_err() {
            return;
        }
        // Nothing was tried: nobody can be in.
        assert!(!client.is_done());
    }
}

fn read(bytes: &[u8]) {
    if let Ok(certificate) = Certificate::decode(bytes) {
        assert!(certificate.verify().is_err(), "made up");
    }
    if let Ok(offer) = KexInit::decode(bytes) {
        assert_eq!(KexInit::decode(&offer.encode()), Ok(offer.clone()));
        let _ = negotiate(&offer, &offer);
    }
}
