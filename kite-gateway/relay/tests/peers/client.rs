//! A client that exchanges keys and asks for a service, and does no more.

use std::io::{Read, Write};

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use kite_ssh_relay::kex::{Exchange, Method, exchange_hash};
use kite_ssh_relay::keys::{Derivation, Direction};
use kite_ssh_relay::message::{
    EXT_INFO, IGNORE, KEX_INIT, KEX_REPLY, KEXINIT, NEWKEYS, SERVICE_ACCEPT, SERVICE_REQUEST,
};
use kite_ssh_relay::negotiate::{
    EXT_INFO_CLIENT, KexInit, Names, NothingInCommon, Offer, STRICT_CLIENT, negotiate,
};
use kite_ssh_relay::packet::{Opened, Opener, Sealer, Suite};
use kite_ssh_relay::version;
use ssh_encoding::{Decode as _, Encode as _};

const VERSION: &str = "SSH-2.0-kite-ssh-relay";

/// Our side of a connection.
pub struct Client<I, O> {
    from: I,
    to: O,
    read: Vec<u8>,
    done: usize,
    sealer: Sealer,
    opener: Opener,
    version: Vec<u8>,
    /// The hash of the first exchange, and whether it was a strict one.
    session: Option<(Vec<u8>, bool)>,
}

impl<I: Read, O: Write> Client<I, O> {
    pub fn start(mut from: I, mut to: O) -> Self {
        to.write_all(format!("{VERSION}\r\n").as_bytes()).unwrap();
        let mut lines = Vec::new();
        let version = loop {
            let mut byte = [0];
            from.read_exact(&mut byte).unwrap();
            lines.push(byte[0]);
            let read = version::read(&lines, version::Peer::Server).unwrap();
            if let version::Read::Version { text, .. } = read {
                break lines[text].to_vec();
            }
        };
        Self {
            from,
            to,
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

    /// One exchange of keys.
    ///
    /// # Errors
    /// The server does not have what is offered.
    pub fn exchange(&mut self, method: Method, suite: Suite) -> Result<(), NothingInCommon> {
        let offer = Offer {
            ciphers: Names::of(&[suite.cipher()]),
            macs: suite
                .mac()
                .map_or_else(Names::default, |mac| Names::of(&[mac.name()])),
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
        let agreed = negotiate(&ours, &theirs)?;
        assert_eq!(agreed.up.suite(), Some(suite));

        let (value, begun) = method.begin().unwrap();
        let mut init = vec![KEX_INIT];
        value.encode(&mut init).unwrap();
        self.send(&init);
        let reply = self.expect(KEX_REPLY);
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

        let first = || (hash.clone(), agreed.strict);
        let (session, strict) = self.session.get_or_insert_with(first).clone();
        let derivation = Derivation {
            hash: method.hash(),
            secret: secret.encoded(),
            exchange: &hash,
            session: &session,
        };
        self.send(&[NEWKEYS]);
        let up = derivation.keys(suite, Direction::ClientToServer);
        self.sealer.rekey(suite, &up, strict).unwrap();
        self.expect(NEWKEYS);
        let down = derivation.keys(suite, Direction::ServerToClient);
        self.opener.rekey(suite, &down, strict).unwrap();
        Ok(())
    }

    /// Asks for the login, behind messages that mean nothing, and sees it granted.
    pub fn is_answered(&mut self) {
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
