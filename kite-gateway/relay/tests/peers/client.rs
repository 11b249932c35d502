//! Against OpenSSH's server: each suite, with each method of key exchange that it has. It
//! answers nothing that is not sealed as it expects.
#![allow(clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use kite_ssh_relay::kex::{Exchange, Method, exchange_hash};
use kite_ssh_relay::keys::{Derivation, Direction};
use kite_ssh_relay::negotiate::{
    EXT_INFO_CLIENT, KEXINIT, KexInit, Names, Offer, STRICT_CLIENT, negotiate,
};
use kite_ssh_relay::packet::{CtrKey, Mac, Opened, Opener, Sealer, Suite};
use kite_ssh_relay::version::{self, Read};
use ssh_encoding::{Decode as _, Encode as _};

const SSHD: &str = "/usr/sbin/sshd";
const VERSION: &str = "SSH-2.0-kite-ssh-relay";

const EXT_INFO: u8 = 7;
const IGNORE: u8 = 2;
const SERVICE_REQUEST: u8 = 5;
const SERVICE_ACCEPT: u8 = 6;
const NEWKEYS: u8 = 21;
const ECDH_INIT: u8 = 30;
const ECDH_REPLY: u8 = 31;

const SUITES: [(&str, Suite); 7] = [
    ("aes128-gcm@openssh.com", Suite::Aes128Gcm),
    ("aes256-gcm@openssh.com", Suite::Aes256Gcm),
    ("chacha20-poly1305@openssh.com", Suite::ChaCha20Poly1305),
    ("aes128-ctr", Suite::Ctr(CtrKey::Aes128, Mac::Sha256Etm)),
    ("aes128-ctr", Suite::Ctr(CtrKey::Aes128, Mac::Sha512Etm)),
    ("aes256-ctr", Suite::Ctr(CtrKey::Aes256, Mac::Sha256Etm)),
    ("aes256-ctr", Suite::Ctr(CtrKey::Aes256, Mac::Sha512Etm)),
];

/// A server on two pipes, and our side of its connection.
struct Peer {
    server: Child,
    to: ChildStdin,
    from: ChildStdout,
    read: Vec<u8>,
    done: usize,
    sealer: Sealer,
    opener: Opener,
    version: Vec<u8>,
    session: Option<Vec<u8>>,
}

impl Peer {
    fn start(directory: &tempfile::TempDir) -> Self {
        let key = directory.path().join("key");
        if !key.exists() {
            let mut keygen = Command::new("ssh-keygen");
            keygen
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(&key);
            assert!(keygen.status().unwrap().success());
        }
        let methods = Command::new("ssh").args(["-Q", "kex"]).output().unwrap();
        let methods = String::from_utf8(methods.stdout).unwrap();
        let methods: Vec<_> = methods.lines().collect();
        let mut server = Command::new(SSHD)
            .args(["-i", "-e", "-f", "/dev/null", "-o", "UsePAM=no", "-h"])
            .arg(&key)
            .args(["-o", &format!("KexAlgorithms={}", methods.join(","))])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut to = server.stdin.take().unwrap();
        let mut from = server.stdout.take().unwrap();
        to.write_all(format!("{VERSION}\r\n").as_bytes()).unwrap();
        let mut lines = Vec::new();
        let version = loop {
            let mut byte = [0];
            from.read_exact(&mut byte).unwrap();
            lines.push(byte[0]);
            if let Read::Version { text, .. } =
                version::read(&lines, version::Peer::Server).unwrap()
            {
                break lines[text].to_vec();
            }
        };
        Self {
            server,
            to,
            from,
            read: Vec::new(),
            done: 0,
            sealer: Sealer::new(),
            opener: Opener::new(),
            version,
            session: None,
        }
    }

    fn send(&mut self, payload: &[u8]) {
        let mut wire = Vec::new();
        let (head, tail) = payload.split_at(1);
        self.sealer.seal(head, tail, &mut wire).unwrap();
        self.to.write_all(&wire).unwrap();
    }

    fn packet(&mut self) -> Vec<u8> {
        loop {
            self.read.drain(..std::mem::take(&mut self.done));
            if let Opened::Packet {
                payload, consumed, ..
            } = self.opener.open(&mut self.read).unwrap()
            {
                self.done = consumed;
                return self.read[payload].to_vec();
            }
            let mut more = [0; 4096];
            let count = self.from.read(&mut more).unwrap();
            assert!(count > 0, "the server has ended the connection");
            self.read.extend_from_slice(&more[..count]);
        }
    }

    /// The next message of a number; others of the transport may come before it.
    fn expect(&mut self, number: u8) -> Vec<u8> {
        loop {
            let payload = self.packet();
            if payload[0] == number {
                return payload;
            }
            assert_eq!(payload[0], EXT_INFO, "waiting for {number}");
        }
    }

    /// One exchange of keys; `false` if the server does not have the method.
    fn exchange(&mut self, method: Method, cipher: &str, suite: Suite) -> bool {
        let macs = match suite {
            Suite::Ctr(_, mac) => Names::of(&[mac.name()]),
            _ => Names::default(),
        };
        let offer = Offer {
            ciphers: Names::of(&[cipher]),
            macs,
            compression: Names::of(&["none"]),
            languages: Names::default(),
        };
        let ours = KexInit {
            cookie: [9; 16],
            kex: Names::of(&[method.names()[0], EXT_INFO_CLIENT, STRICT_CLIENT]),
            host_keys: Names::of(&["ssh-ed25519"]),
            up: offer.clone(),
            down: offer,
            guesses: false,
        };
        let our_init = ours.encode();
        self.send(&our_init);
        let their_init = self.expect(KEXINIT);
        let theirs = KexInit::decode(&their_init).unwrap();
        let has_tag = |name: &[u8]| name.ends_with(b"@openssh.com");
        let Ok(agreed) = negotiate(&ours, &theirs, has_tag) else {
            return false;
        };
        assert_eq!(agreed.up.cipher, cipher.as_bytes());
        assert_eq!(agreed.up.mac.is_some(), matches!(suite, Suite::Ctr(..)));

        let (value, begun) = method.begin().unwrap();
        let mut init = vec![ECDH_INIT];
        value.encode(&mut init).unwrap();
        self.send(&init);
        let reply = self.expect(ECDH_REPLY);
        let reader = &mut &reply[1..];
        let mut string = || Vec::<u8>::decode(reader).unwrap();
        let (host_key, answer, signature) = (string(), string(), string());
        let secret = begun.finish(&answer).unwrap();
        let exchange = Exchange {
            client_version: VERSION.as_bytes(),
            server_version: &self.version,
            client_init: &our_init,
            server_init: &their_init,
            host_key: &host_key,
            client_value: &value,
            server_value: &answer,
        };
        let hash = exchange_hash(method.hash(), &exchange, &secret);
        let blob = |bytes: &[u8]| {
            let reader = &mut &*bytes;
            let name = Vec::<u8>::decode(reader).unwrap();
            assert_eq!(name, b"ssh-ed25519");
            Vec::<u8>::decode(reader).unwrap()
        };
        let key = UnparsedPublicKey::new(&ED25519, blob(&host_key));
        key.verify(&hash, &blob(&signature)).unwrap();

        let session = self.session.get_or_insert_with(|| hash.clone()).clone();
        let derivation = Derivation {
            hash: method.hash(),
            secret: secret.encoded(),
            exchange: &hash,
            session: &session,
        };
        let strict = agreed.strict;
        self.send(&[NEWKEYS]);
        let up = derivation.keys(suite, Direction::ClientToServer);
        self.sealer.rekey(suite, &up, strict).unwrap();
        self.expect(NEWKEYS);
        let down = derivation.keys(suite, Direction::ServerToClient);
        self.opener.rekey(suite, &down, strict).unwrap();
        true
    }

    fn is_answered(&mut self) {
        for length in [1, 15, 16, 17, 4000, 30_000] {
            let mut ignored = vec![IGNORE];
            vec![7_u8; length].encode(&mut ignored).unwrap();
            self.send(&ignored);
        }
        let mut request = vec![SERVICE_REQUEST];
        "ssh-userauth".encode(&mut request).unwrap();
        self.send(&request);
        let accepted = self.expect(SERVICE_ACCEPT);
        assert_eq!(&accepted[5..], b"ssh-userauth");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_real_server_understands_each_suite_and_method() {
    if !std::path::Path::new(SSHD).exists() {
        assert!(
            std::env::var_os("KITE_REQUIRE_CLIENTS").is_none(),
            "{SSHD} is not there"
        );
        eprintln!("skipped: no {SSHD}");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut lacking = Vec::new();
    let mut count = 0;
    for method in Method::ALL {
        for (place, (cipher, suite)) in SUITES.into_iter().enumerate() {
            // Each method with one suite, and each suite with one method.
            if method != Method::Curve25519 && place > 0 {
                continue;
            }
            let mut peer = Peer::start(&directory);
            if !peer.exchange(method, cipher, suite) {
                lacking.push(method);
                break;
            }
            peer.is_answered();
            count += 1;
        }
    }
    eprintln!("{count} tried; the server lacks {lacking:?}");
    assert!(count >= 9);
}
