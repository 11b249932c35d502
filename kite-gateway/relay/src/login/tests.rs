#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use proptest::prelude::*;

use super::*;
use crate::algorithm::Algorithm;
use crate::message::{
    SERVICE_ACCEPT, SERVICE_REQUEST, USERAUTH_60, USERAUTH_61, USERAUTH_REQUEST, USERAUTH_SUCCESS,
};
use crate::sign::SigningKey;
use crate::transport::tests::host_key;
use crate::verify::Token;

const SESSION: &[u8] = b"the hash of the first exchange";
const HOST_KEY: &[u8] = b"a host key";
const ALL: Methods = Methods {
    key: true,
    password: true,
    interactive: true,
};

fn service(name: &str) -> Vec<u8> {
    Message::new(SERVICE_REQUEST).string(name).done()
}

/// A server of which the login was asked for.
fn ready() -> Server {
    let mut server = Server::new(SESSION, HOST_KEY);
    let asked = server.take(&service("ssh-userauth")).unwrap();
    assert!(matches!(asked, Asked::Reply(_)));
    server
}

fn request(server: &mut Server, payload: &[u8]) -> Request {
    match server.take(payload).unwrap() {
        Asked::Request { user, request } => {
            assert_eq!(user, b"anna");
            request
        }
        other => panic!("{other:?}"),
    }
}

fn tried(method: &str) -> Message {
    let message = Message::new(USERAUTH_REQUEST).string("anna");
    message.string("ssh-connection").string(method)
}

fn in_pair() -> (Client, Server) {
    let mut server = Server::new(SESSION, HOST_KEY);
    let (mut client, first) = Client::start(b"anna");
    let Asked::Reply(accept) = server.take(&first).unwrap() else {
        panic!("the service is there");
    };
    assert_eq!(client.take(&accept).unwrap(), Answered::Ready);
    (client, server)
}

#[test]
fn a_key_gets_in_by_its_signature() {
    let (mut client, mut server) = in_pair();
    let key = host_key(7);
    let tries = client.key(SESSION, &key, Algorithm::Ed25519).unwrap();
    let Request::Key(offered, proof) = request(&mut server, &tries) else {
        panic!("a key is tried");
    };
    assert_eq!(&offered.key, key.public());
    assert_eq!(
        server.accept(),
        Err(LoginError::Misuse("a try that may be enough")),
        "nobody has verified it"
    );
    server.verified(&proof.verify().unwrap()).unwrap();
    let success = server.accept().unwrap();
    assert_eq!(client.take(&success).unwrap(), Answered::Success);
    assert!(client.is_done() && server.is_done());
}

#[test]
fn signatures_are_for_one_connection_user_and_key() {
    let key = host_key(7);
    let (mut client, _) = in_pair();
    let tries = client.key(b"another", &key, Algorithm::Ed25519).unwrap();
    let Request::Key(_, proof) = request(&mut ready(), &tries) else {
        panic!("a key is tried");
    };
    assert!(proof.verify().is_err());
    // Of another user's request.
    let (mut client, _) = Client::start(b"bert");
    let accept = Message::new(SERVICE_ACCEPT).string("ssh-userauth");
    assert_eq!(client.take(&accept.done()).unwrap(), Answered::Ready);
    let tries = client.key(SESSION, &key, Algorithm::Ed25519).unwrap();
    let mut changed = tries.clone();
    changed[5..9].copy_from_slice(b"anna");
    let Request::Key(_, proof) = request(&mut ready(), &changed) else {
        panic!("a key is tried");
    };
    assert!(proof.verify().is_err());
}

#[test]
fn a_signature_that_was_verified_counts_for_its_own_try() {
    let key = host_key(7);
    let mut server = ready();
    let mut proofs = Vec::new();
    for _ in 0..2 {
        let (mut client, _) = in_pair();
        let tries = client.key(SESSION, &key, Algorithm::Ed25519).unwrap();
        let Request::Key(_, proof) = request(&mut server, &tries) else {
            panic!("a key is tried");
        };
        proofs.push(proof.verify().unwrap());
        if proofs.len() == 1 {
            server.reject(ALL).unwrap();
        }
    }
    let stale = server.verified(&proofs[0]);
    assert_eq!(stale, Err(LoginError::Misuse("a signature")));
    assert!(server.accept().is_err());
    server.verified(&proofs[1]).unwrap();
    assert!(server.accept().is_ok());
}

#[test]
fn a_probe_is_answered_and_lets_nobody_in() {
    let mut server = ready();
    let key = host_key(7);
    let probe = tried("publickey").boolean(false);
    let probe = probe.string("ssh-ed25519").string(key.blob()).done();
    assert!(matches!(request(&mut server, &probe), Request::Probe(_)));
    assert!(server.accept().is_err());
    assert!(server.accept_in_part(ALL).is_err());
    let expected = Message::new(USERAUTH_60).string("ssh-ed25519");
    assert_eq!(
        server.try_key().unwrap(),
        expected.string(key.blob()).done()
    );
    assert!(server.try_key().is_err());
}

#[test]
fn what_signs_by_sha1_and_what_is_no_key_is_unknown() {
    let key = host_key(7);
    for (algorithm, blob) in [
        ("ssh-rsa", key.blob()),
        ("ssh-dss", key.blob()),
        ("rsa-sha2-256", key.blob()),
        ("ssh-ed25519", b"not a key"),
        ("ssh-ed25519-cert-v01@openssh.com", key.blob()),
    ] {
        for is_signed in [false, true] {
            let mut server = ready();
            let tries = tried("publickey").boolean(is_signed).string(algorithm);
            let mut tries = tries.string(blob);
            if is_signed {
                tries = tries.string("signature");
            }
            let asked = request(&mut server, &tries.done());
            assert!(
                matches!(&asked, Request::Unknown(name) if name == algorithm.as_bytes()),
                "{asked:?}"
            );
            assert!(server.accept().is_err());
            assert!(server.reject(ALL).is_ok());
        }
    }
}

#[test]
fn a_host_bound_key_is_for_this_host() {
    let key = host_key(7);
    let method = "publickey-hostbound-v00@openssh.com";
    for host in [HOST_KEY, b"another host's"] {
        let message = tried(method).boolean(true).string("ssh-ed25519");
        let unsigned = message.string(key.blob()).string(host).done();
        let mut signed = Vec::new();
        crate::wire::string(&mut signed, SESSION);
        signed.extend_from_slice(&unsigned);
        let signature = key.sign(Algorithm::Ed25519, &signed).unwrap();
        let mut tries = unsigned;
        crate::wire::string(&mut tries, &signature);
        match request(&mut ready(), &tries) {
            Request::Key(_, proof) => {
                assert_eq!(host, HOST_KEY);
                proof.verify().unwrap();
            }
            other => assert!(matches!(other, Request::Unknown(_)) && host != HOST_KEY),
        }
    }
}

/// A token's key and what it signs with those flags.
fn token(flags: u8) -> Vec<u8> {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap();
    let name = "sk-ssh-ed25519@openssh.com";
    let mut blob = Vec::new();
    for field in [name.as_bytes(), pair.public_key().as_ref(), b"ssh:"] {
        crate::wire::string(&mut blob, field);
    }
    let data = signed_part(SESSION, b"anna", "publickey", name.as_bytes(), &blob);
    let rest = [flags, 0, 0, 0, 5];
    let hashes = [&b"ssh:"[..], &data].map(|it| digest(&SHA256, it));
    let signed = [hashes[0].as_ref(), &rest, hashes[1].as_ref()].concat();
    let mut signature = Vec::new();
    crate::wire::string(&mut signature, name.as_bytes());
    crate::wire::string(&mut signature, pair.sign(&signed).as_ref());
    signature.extend_from_slice(&rest);
    let message = tried("publickey").boolean(true).string(name);
    message.string(blob).string(signature).done()
}

#[test]
fn tokens_say_whether_they_were_touched() {
    for (flags, touched, verified) in [(0, false, false), (1, true, false), (5, true, true)] {
        let Request::Key(offered, proof) = request(&mut ready(), &token(flags)) else {
            panic!("a key is tried");
        };
        assert_eq!(offered.algorithm, Algorithm::SkEd25519);
        let told = proof.verify().unwrap().token();
        assert_eq!(told, Some(Token { touched, verified }));
    }
    // The flags are what it signs.
    let mut lies = token(0);
    let at = lies.len() - 5;
    lies[at] = 5;
    let Request::Key(_, proof) = request(&mut ready(), &lies) else {
        panic!("a key is tried");
    };
    assert!(proof.verify().is_err());
}

#[test]
fn a_key_and_then_a_password() {
    let (mut client, mut server) = in_pair();
    let tries = client
        .key(SESSION, &host_key(7), Algorithm::Ed25519)
        .unwrap();
    let Request::Key(_, proof) = request(&mut server, &tries) else {
        panic!("a key is tried");
    };
    server.verified(&proof.verify().unwrap()).unwrap();
    let rest = Methods {
        password: true,
        interactive: true,
        key: false,
    };
    let part = client.take(&server.accept_in_part(rest).unwrap()).unwrap();
    let expected = Answered::Failure {
        methods: vec![b"password".to_vec(), b"keyboard-interactive".to_vec()],
        in_part: true,
    };
    assert_eq!(part, expected);
    // Some clients ask for the service again.
    let again = server.take(&service("ssh-userauth")).unwrap();
    assert!(matches!(again, Asked::Reply(_)));
    let tries = client.password(b"caf\xe9").unwrap();
    let Request::Password(password) = request(&mut server, &tries) else {
        panic!("a password is tried");
    };
    assert_eq!(&password[..], b"caf\xe9");
    let success = server.accept().unwrap();
    assert_eq!(client.take(&success).unwrap(), Answered::Success);
}

#[test]
fn questions_are_asked_until_somebody_decides() {
    let (mut client, mut server) = in_pair();
    let asks = client.interactive().unwrap();
    assert!(matches!(request(&mut server, &asks), Request::Interactive));
    let prompt = |text: &str, echo| Prompt {
        text: text.into(),
        echo,
    };
    for round in 0..2 {
        let prompts = [prompt("Password: ", false), prompt("Code: ", true)];
        let asked = server.ask("words", &prompts[round..]).unwrap();
        let Answered::Questions(asked) = client.take(&asked).unwrap() else {
            panic!("questions are asked");
        };
        assert_eq!(asked.instruction, b"words");
        assert_eq!(asked.questions.len(), 2 - round);
        assert_eq!(asked.questions[0].text, prompts[round].text.as_bytes());
        let given: Vec<&[u8]> = vec![b"first", b"second"];
        let answers = client.answers(&given[round..]).unwrap();
        let Request::Answers(answers) = request(&mut server, &answers) else {
            panic!("questions are answered");
        };
        assert_eq!(answers.len(), 2 - round);
    }
    let failed = client.take(&server.reject(ALL).unwrap()).unwrap();
    let Answered::Failure { methods, in_part } = failed else {
        panic!("it is refused");
    };
    assert!(!in_part && methods.len() == 3);
}

#[test]
fn another_try_ends_one_by_questions() {
    let mut server = ready();
    let asks = tried("keyboard-interactive").string("").string("").done();
    request(&mut server, &asks);
    server.ask("", &[]).unwrap();
    let password = tried("password").boolean(false).string("p").done();
    assert!(matches!(
        request(&mut server, &password),
        Request::Password(_)
    ));
    assert!(server.ask("", &[]).is_err(), "nobody has asked for some");
    server.reject(ALL).unwrap();
    let answers = Message::new(USERAUTH_61).number(0).done();
    assert!(server.take(&answers).is_err());
}

#[test]
fn a_password_is_not_changed_by_the_way() {
    let mut server = ready();
    let tries = tried("password").boolean(true).string("old").string("new");
    let asked = request(&mut server, &tries.done());
    assert!(matches!(asked, Request::Unknown(_)));
    assert!(server.accept().is_err());
}

#[test]
fn services_that_are_not_here_end_the_connection() {
    let expected = LoginError::Service("ssh-connection".into());
    let mut server = Server::new(SESSION, HOST_KEY);
    let refused = server.take(&service("ssh-connection")).unwrap_err();
    assert_eq!(refused, expected);
    assert_eq!(refused.reason(), Reason::SERVICE_NOT_AVAILABLE);
    let tries = Message::new(USERAUTH_REQUEST).string("anna");
    let tries = tries.string("ssh-other").string("none").done();
    let refused = ready().take(&tries).unwrap_err();
    assert_eq!(refused, LoginError::Service("ssh-other".into()));
}

#[test]
fn banners_come_before_the_end_and_not_for_ever() {
    let (mut client, mut server) = in_pair();
    let banner = server.banner(b"the VM starts\r\n").unwrap();
    let words = Answered::Banner(b"the VM starts\r\n".to_vec());
    assert_eq!(client.take(&banner).unwrap(), words);
    let long = server.banner(&[b'x'; 10_000]).unwrap();
    let all: Result<Vec<_>, _> = (0..10).map(|_| client.take(&long)).collect();
    assert_eq!(all.unwrap_err(), LoginError::Words);
    let tries = tried("none").done();
    assert!(matches!(request(&mut server, &tries), Request::None));
    server.accept().unwrap();
    assert!(server.banner(b"late").is_err());
}

/// A server in each of its states.
fn servers() -> [(&'static str, Server); 5] {
    let mut deciding = ready();
    request(&mut deciding, &tried("none").done());
    let mut asked = ready();
    let asks = tried("keyboard-interactive").string("").string("").done();
    request(&mut asked, &asks);
    asked.ask("", &[]).unwrap();
    let mut done = ready();
    request(&mut done, &tried("none").done());
    done.accept().unwrap();
    [
        ("closed", Server::new(SESSION, HOST_KEY)),
        ("ready", ready()),
        ("deciding", deciding),
        ("asked", asked),
        ("done", done),
    ]
}

#[test]
fn every_message_in_every_state_of_a_server() {
    // Whole messages of those that a client may send, and others with a string.
    let payload = |number: u8| match number {
        SERVICE_REQUEST => service("ssh-userauth"),
        USERAUTH_REQUEST => tried("none").done(),
        USERAUTH_61 => Message::new(USERAUTH_61).number(0).done(),
        _ => Message::new(number).string("x").done(),
    };
    for (index, (name, _)) in servers().iter().enumerate() {
        for number in 0..=255 {
            let (_, mut server) = servers().into_iter().nth(index).unwrap();
            let was_done = server.is_done();
            let asked = server.take(&payload(number));
            let expected = match (*name, number) {
                ("deciding", _) => "error",
                ("done", SERVICE_REQUEST) => "unimplemented",
                (_, SERVICE_REQUEST) => "reply",
                ("ready" | "asked", USERAUTH_REQUEST) | ("asked", USERAUTH_61) => "request",
                ("done", USERAUTH_REQUEST) => "nothing",
                (_, 62..=79) => "unimplemented",
                _ => "error",
            };
            let found = match asked {
                Ok(Asked::Reply(_)) => "reply",
                Ok(Asked::Request { .. }) => "request",
                Ok(Asked::Nothing) => "nothing",
                Ok(Asked::Unimplemented) => "unimplemented",
                Err(_) => "error",
            };
            assert_eq!(found, expected, "{name}: {number}");
            assert_eq!(server.is_done(), was_done, "{name}: {number} lets in");
        }
    }
}

#[test]
fn every_message_in_every_state_of_a_client() {
    let key = host_key(7);
    let state = |index: usize| {
        let (mut client, _) = Client::start(b"anna");
        if index > 0 {
            let accept = Message::new(SERVICE_ACCEPT).string("ssh-userauth");
            assert_eq!(client.take(&accept.done()).unwrap(), Answered::Ready);
        }
        match index {
            2 => drop(client.key(SESSION, &key, Algorithm::Ed25519).unwrap()),
            3 => drop(client.password(b"p").unwrap()),
            4 => drop(client.interactive().unwrap()),
            5 => {
                client.interactive().unwrap();
                let asked = Message::new(USERAUTH_60).string("").string("").string("");
                let asked = client.take(&asked.number(0).done()).unwrap();
                assert!(matches!(asked, Answered::Questions(_)));
            }
            6 => {
                client.password(b"p").unwrap();
                assert_eq!(client.take(&[USERAUTH_SUCCESS]).unwrap(), Answered::Success);
            }
            _ => {}
        }
        client
    };
    let payload = |number: u8| match number {
        SERVICE_ACCEPT => Message::new(number).string("ssh-userauth").done(),
        51 => Message::new(number)
            .string("password")
            .boolean(false)
            .done(),
        USERAUTH_SUCCESS => vec![number],
        53 => Message::new(number).string("words").string("").done(),
        60 => {
            let message = Message::new(number).string("").string("").string("");
            message.number(0).done()
        }
        _ => Message::new(number).string("x").done(),
    };
    for index in 0..=6 {
        for number in 0..=255 {
            let mut client = state(index);
            let answered = client.take(&payload(number));
            let is_tried = matches!(index, 2..=4);
            let expected = match number {
                SERVICE_ACCEPT => index == 0,
                51 | USERAUTH_SUCCESS => is_tried,
                53 => index != 6,
                60 => matches!(index, 3 | 4),
                61..=79 => true,
                _ => false,
            };
            assert_eq!(answered.is_ok(), expected, "{index}: {number}");
            let is_in = index == 6 || number == USERAUTH_SUCCESS && is_tried;
            assert_eq!(client.is_done(), is_in, "{index}: {number}");
        }
    }
}

proptest! {
    #[test]
    fn strangers_do_no_harm(
        payloads in proptest::collection::vec(
            (proptest::sample::select(vec![5_u8, 50, 50, 50, 61, 90]),
             proptest::collection::vec(any::<u8>(), 0..60)), 1..8),
        method in proptest::sample::select(
            vec!["none", "password", "publickey", "keyboard-interactive", "x"]),
    ) {
        let mut server = ready();
        for (number, rest) in payloads {
            let payload = if number == USERAUTH_REQUEST {
                [tried(method).done(), rest].concat()
            } else {
                [&[number], &rest[..]].concat()
            };
            if let Ok(Asked::Request { request, .. }) = server.take(&payload) {
                if let Request::Key(_, proof) = request {
                    prop_assert!(proof.verify().is_err());
                }
                server.reject(ALL).unwrap();
            }
        }
        prop_assert!(!server.is_done());
    }
}

#[test]
fn rsa_keys_sign_for_a_login_by_both_hashes() {
    let key = crate::sign::tests::made("rsa", "2048");
    let key = Arc::new(SigningKey::new(&key).unwrap());
    for &algorithm in key.algorithms() {
        let (mut client, mut server) = in_pair();
        let tries = client.key(SESSION, &key, algorithm).unwrap();
        let Request::Key(offered, proof) = request(&mut server, &tries) else {
            panic!("a key is tried");
        };
        assert_eq!(offered.algorithm, algorithm);
        proof.verify().unwrap();
    }
}
