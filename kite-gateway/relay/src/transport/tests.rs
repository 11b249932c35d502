#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use ssh_key::private::{Ed25519Keypair, KeypairData};

use super::*;
use crate::kex::Method;
use crate::message::{IGNORE, Reason, USERAUTH_REQUEST};
use crate::packet::Suite;
use crate::sign::SigningKey;

pub(crate) fn host_key(seed: u8) -> Arc<SigningKey> {
    let pair = Ed25519Keypair::from_seed(&[seed; 32]);
    let key = ssh_key::PrivateKey::new(KeypairData::Ed25519(pair), "").unwrap();
    Arc::new(SigningKey::new(&key).unwrap())
}

fn server_config() -> Config {
    Config::server("SSH-2.0-server", vec![host_key(1)])
}

fn client_config() -> Config {
    Config::client("SSH-2.0-client", vec![Algorithm::Ed25519])
}

/// One side with what has come to it.
struct Side {
    transport: Transport,
    input: Vec<u8>,
    out: Vec<u8>,
}

/// What a side has to tell.
#[derive(Debug, PartialEq)]
enum Told {
    Keyed,
    HostKey(Vec<u8>),
    Message(Vec<u8>),
    Disconnected(Disconnect),
}

impl Side {
    fn new(config: Config) -> Self {
        let mut out = Vec::new();
        let transport = Transport::start(Arc::new(config), &mut out).unwrap();
        let input = Vec::new();
        Self {
            transport,
            input,
            out,
        }
    }

    fn pair() -> (Self, Self) {
        (Self::new(client_config()), Self::new(server_config()))
    }

    /// Goes on as far as it can, with all work done and all host keys trusted.
    fn run(&mut self) -> Result<Vec<Told>, TransportError> {
        let mut told = Vec::new();
        loop {
            let next = self.transport.next(&mut self.input, &mut self.out)?;
            let step = next.step;
            match step {
                Step::Wait { needed } => {
                    self.input.drain(..next.consumed);
                    assert!(needed > self.input.len(), "{needed}");
                    return Ok(told);
                }
                Step::Work(work) => {
                    let again = self.transport.next(&mut [], &mut self.out)?.step;
                    assert!(matches!(again, Step::Working));
                    self.transport.done(work.run(), &mut self.out)?;
                }
                Step::Working => panic!("nothing is given out"),
                Step::HostKey(key) => {
                    self.transport.trust(&mut self.out)?;
                    told.push(Told::HostKey(key));
                }
                Step::Keyed => told.push(Told::Keyed),
                Step::Message { payload, .. } => {
                    told.push(Told::Message(self.input[payload].to_vec()));
                }
                Step::Disconnected(reason) => {
                    told.push(Told::Disconnected(reason));
                    return Ok(told);
                }
            }
            self.input.drain(..next.consumed);
        }
    }

    fn send(&mut self, payload: &[u8]) {
        self.transport.send(payload, &[], &mut self.out).unwrap();
    }

    /// Past what the machine allows.
    fn raw(&mut self, payload: &[u8]) {
        let sealed = self.transport.sealer.seal(payload, &[], &mut self.out);
        sealed.unwrap();
    }
}

/// Carries all that both have to say, until neither has anything; what each was told.
fn talk(client: &mut Side, server: &mut Side) -> Result<[Vec<Told>; 2], TransportError> {
    let mut told = [Vec::new(), Vec::new()];
    while !client.out.is_empty() || !server.out.is_empty() {
        server.input.append(&mut client.out);
        client.input.append(&mut server.out);
        told[1].extend(server.run()?);
        told[0].extend(client.run()?);
    }
    Ok(told)
}

fn keyed() -> (Side, Side) {
    let (mut client, mut server) = Side::pair();
    talk(&mut client, &mut server).unwrap();
    (client, server)
}

#[test]
fn two_sides_come_to_keys_and_change_them() {
    for method in Method::ALL {
        for suite in Suite::ALL {
            let with = |mut config: Config| {
                config.methods = vec![method];
                config.suites = vec![suite];
                Side::new(config)
            };
            let (mut client, mut server) = (with(client_config()), with(server_config()));
            let told = talk(&mut client, &mut server).unwrap();
            let shown = Told::HostKey(host_key(1).blob().to_vec());
            assert_eq!(told, [vec![shown, Told::Keyed], vec![Told::Keyed]]);
            let id = client.transport.session_id().unwrap().to_vec();
            assert_eq!(server.transport.session_id(), Some(&id[..]));
            let verified = client.transport.peer_algorithms().unwrap();
            assert_eq!(verified, Algorithm::ALL);

            for round in 0..3 {
                if round != 1 {
                    client.transport.rekey(&mut client.out).unwrap();
                }
                if round != 0 {
                    server.transport.rekey(&mut server.out).unwrap();
                }
                let told = talk(&mut client, &mut server).unwrap();
                assert_eq!(told, [vec![], vec![]], "{method:?} {suite:?} {round}");
                client.send(&[USERAUTH_REQUEST, round]);
                server.send(&[94, round]);
                let told = talk(&mut client, &mut server).unwrap();
                let message = |number| vec![Told::Message(vec![number, round])];
                assert_eq!(told, [message(94), message(USERAUTH_REQUEST)]);
            }
            assert_eq!(client.transport.session_id(), Some(&id[..]));
        }
    }
}

#[test]
fn what_is_said_while_keys_are_exchanged_comes_behind_them_in_order() {
    let (mut client, mut server) = keyed();
    client.transport.rekey(&mut client.out).unwrap();
    assert!(!client.transport.is_open());
    client.send(&[80, 1]);
    client.send(&[80, 2]);
    // The other direction goes on until the server has read the offer.
    server.send(&[94, 1]);
    server.input.append(&mut client.out);
    client.input.append(&mut server.out);
    assert_eq!(client.run().unwrap(), [Told::Message(vec![94, 1])]);
    server.run().unwrap();
    assert!(!server.transport.is_open());
    server.send(&[94, 2]);
    let told = talk(&mut client, &mut server).unwrap();
    let messages = |all: &[[u8; 2]]| -> Vec<Told> {
        let all = all.iter();
        all.map(|it| Told::Message(it.to_vec())).collect()
    };
    assert_eq!(told, [messages(&[[94, 2]]), messages(&[[80, 1], [80, 2]])]);
}

#[test]
fn not_much_is_held_for_a_peer_that_does_not_exchange_keys() {
    let (mut client, mut server) = keyed();
    server.transport.rekey(&mut server.out).unwrap();
    let ping = Message::new(PING).string([7; 10_000]).done();
    for _ in 0..7 {
        client.raw(&ping);
    }
    server.input.append(&mut client.out);
    assert_eq!(server.run().unwrap_err(), TransportError::Held);
    assert!(server.transport.is_over());
}

#[test]
fn pings_are_answered_and_what_nobody_knows_is_told() {
    let (mut client, mut server) = keyed();
    client.send(&Message::new(PING).string(b"now").done());
    client.send(&[201, 5, 5]);
    server.input.append(&mut client.out);
    assert_eq!(server.run().unwrap(), []);
    client.input.append(&mut server.out);
    let mut seen = Vec::new();
    // What the client drops is looked at before it does.
    while let Opened::Packet {
        payload, consumed, ..
    } = client.transport.opener.open(&mut client.input).unwrap()
    {
        seen.push(client.input[payload].to_vec());
        client.input.drain(..consumed);
    }
    let pong = Message::new(PONG).string(b"now").done();
    // Strict key exchange numbers packets from its end on: the second one is number 1.
    let unknown = Message::new(UNIMPLEMENTED).number(1).done();
    assert_eq!(seen, [pong, unknown]);
}

#[test]
fn a_wrong_guess_is_dropped_and_a_right_one_taken() {
    for is_right in [false, true] {
        let mut server = Side::new(server_config());
        let (mut sealer, mut wire) = (Sealer::new(), Vec::new());
        wire.extend_from_slice(b"SSH-2.0-guesses\r\n");
        let mut config = client_config();
        let other = if is_right {
            Method::MlKem768X25519
        } else {
            Method::NistP256
        };
        config.methods.retain(|method| *method != other);
        config.methods.insert(0, other);
        let mut init = config.kex_init([0; 16], true);
        init.guesses = true;
        sealer.seal(&init.encode(), &[], &mut wire).unwrap();
        let (guess, _) = other.begin().unwrap();
        let guess = Message::new(30).string(guess).done();
        sealer.seal(&guess, &[], &mut wire).unwrap();
        server.input = wire;
        let next = server.transport.next(&mut server.input, &mut server.out);
        let next = next.unwrap();
        let is_work = matches!(next.step, Step::Work(_));
        assert_eq!(is_work, is_right);
        if !is_right {
            // Once: the next one counts.
            server.input.drain(..next.consumed);
            let (value, _) = Method::NistP256.begin().unwrap();
            let value = Message::new(30).string(value).done();
            sealer.seal(&value, &[], &mut server.input).unwrap();
            let step = server.transport.next(&mut server.input, &mut server.out);
            assert!(matches!(step.unwrap().step, Step::Work(_)));
        }
    }
}

#[test]
fn nothing_may_come_into_a_strict_key_exchange() {
    // Before the first KEXINIT, and behind it.
    for behind in [false, true] {
        let (mut client, mut server) = Side::pair();
        let mut wire = client.config_version();
        let mut sealer = Sealer::new();
        let init = client.kex_init();
        if behind {
            sealer.seal(&init, &[], &mut wire).unwrap();
        }
        sealer.seal(&[IGNORE, 0, 0, 0, 0], &[], &mut wire).unwrap();
        if !behind {
            sealer.seal(&init, &[], &mut wire).unwrap();
        }
        server.input = wire;
        let error = server.run().unwrap_err();
        let expected = if behind {
            TransportError::Forbidden {
                number: IGNORE,
                wanted: "the key exchange",
            }
        } else {
            TransportError::NotStrict(1)
        };
        assert_eq!(error, expected);
        client.input = server.out;
        let told = client.run().unwrap();
        assert!(
            matches!(&told[..], [Told::Disconnected(it)] if it.reason == Reason::PROTOCOL_ERROR),
            "{told:?}"
        );
    }
}

impl Side {
    fn config_version(&self) -> Vec<u8> {
        format!("{}\r\n", self.transport.config.version).into_bytes()
    }

    fn kex_init(&self) -> Vec<u8> {
        self.transport.config.kex_init([3; 16], true).encode()
    }
}

#[test]
fn a_server_without_its_host_key_is_seen() {
    let (mut client, mut server) = Side::pair();
    server.input.append(&mut client.out);
    client.input.append(&mut server.out);
    server.run().unwrap();
    client.run().unwrap();
    server.input.append(&mut client.out);
    server.run().unwrap();
    // The reply with another key in the place of the one that signs.
    let position = |bytes: &[u8], of: &[u8]| bytes.windows(of.len()).position(|it| it == of);
    let (right, wrong) = (host_key(1), host_key(2));
    let at = position(&server.out, right.blob()).unwrap();
    server.out[at..at + right.blob().len()].copy_from_slice(wrong.blob());
    client.input.append(&mut server.out);
    let error = client.run().unwrap_err();
    assert!(
        matches!(error, TransportError::Work(WorkError::Verify(_))),
        "{error}"
    );
    assert_eq!(error.reason(), Reason::KEY_EXCHANGE_FAILED);
}

#[test]
fn sides_without_anything_in_common_are_told_what_each_has() {
    let mut config = client_config();
    config.suites = vec![Suite::Aes256Gcm];
    let mut client = Side::new(config);
    let mut config = server_config();
    config.suites = vec![Suite::ChaCha20Poly1305];
    let mut server = Side::new(config);
    server.input.append(&mut client.out);
    client.input.append(&mut server.out);
    let error = server.run().unwrap_err().to_string();
    assert!(
        error.contains("aes256-gcm@openssh.com") && error.contains("chacha20"),
        "{error}"
    );
    server.out.clear();
    client.run().unwrap_err();
}

#[test]
fn a_connection_that_is_over_stays_so() {
    let (mut client, mut server) = keyed();
    let told = Disconnect::new(Reason::BY_APPLICATION, "the VM is gone");
    server.transport.disconnect(&told, &mut server.out);
    server.transport.disconnect(&told, &mut server.out);
    let [at_client, _] = talk_once(&mut client, &mut server);
    assert_eq!(at_client, [Told::Disconnected(told)]);
    for side in [&mut client, &mut server] {
        assert!(side.transport.is_over());
        assert_eq!(side.run().unwrap_err(), TransportError::Ended);
        let sent = side.transport.send(&[94], &[], &mut side.out);
        assert_eq!(sent, Err(TransportError::Ended));
        assert!(side.out.is_empty(), "nobody is told twice");
    }
}

fn talk_once(client: &mut Side, server: &mut Side) -> [Vec<Told>; 2] {
    server.input.append(&mut client.out);
    client.input.append(&mut server.out);
    let at_server = if server.transport.is_over() {
        Vec::new()
    } else {
        server.run().unwrap()
    };
    [client.run().unwrap(), at_server]
}

/// A server in each of its states, with a client that is where the server expects it.
fn states() -> Vec<(&'static str, Side, Side)> {
    let mut all = Vec::new();
    let (mut client, mut server) = Side::pair();
    server.input = client.config_version();
    server.run().unwrap();
    client.out.clear();
    all.push(("the first KEXINIT", client, server));

    let (mut client, mut server) = Side::pair();
    server.input.append(&mut client.out);
    server.run().unwrap();
    all.push(("the client's value", client, server));

    let (mut client, mut server) = Side::pair();
    server.input.append(&mut client.out);
    server.run().unwrap();
    client.input.append(&mut server.out);
    client.run().unwrap();
    server.input.append(&mut client.out);
    server.run().unwrap();
    all.push(("NEWKEYS", client, server));

    let (client, server) = keyed();
    all.push(("anything", client, server));

    let (client, mut server) = keyed();
    server.transport.rekey(&mut server.out).unwrap();
    all.push(("anything or KEXINIT", client, server));

    let (mut client, mut server) = keyed();
    client.transport.rekey(&mut client.out).unwrap();
    server.input.append(&mut client.out);
    server.run().unwrap();
    all.push(("the client's value, again", client, server));

    let (mut client, mut server) = keyed();
    client.transport.rekey(&mut client.out).unwrap();
    server.input.append(&mut client.out);
    server.run().unwrap();
    client.input.append(&mut server.out);
    client.run().unwrap();
    server.input.append(&mut client.out);
    server.run().unwrap();
    all.push(("NEWKEYS, again", client, server));
    all
}

#[test]
fn every_message_in_every_state() {
    let names: Vec<_> = states().into_iter().map(|(name, ..)| name).collect();
    for (index, name) in names.into_iter().enumerate() {
        for number in 0..=255_u8 {
            let (_, mut client, mut server) = states().swap_remove(index);
            client.out.clear();
            server.out.clear();
            // Its fields are none that the message has, but for a few that need none.
            client.raw(&[number, 0, 0, 0, 1, b'x']);
            server.input.append(&mut client.out);
            let result = server.run();
            let goes_on = !server.transport.is_over();
            let is_first = matches!(index, 0..=2);
            let expected = match number {
                // The fields are wrong of those that may come.
                0 | 1 | 7 | 20 | 21 | 30 | 31 => false,
                2..=4 => index == 0 || index > 2,
                5 | 6 | 8..=19 | 22..=29 | 32..=255 => matches!(index, 3 | 4),
            };
            assert_eq!(goes_on, expected, "{name}: {number}: {result:?}");
            if let Ok(told) = &result {
                let is_message = matches!(&told[..], [Told::Message(_)]);
                let is_above = matches!(number, 5 | 6 | 50..=191);
                assert_eq!(is_message, is_above, "{name}: {number}");
                assert!(!is_first || told.is_empty(), "{name}: {number}");
            }
            let is_keyed = server.transport.session_id().is_some();
            assert_eq!(is_keyed, index >= 2, "{name}: {number} advances");
        }
    }
}

/// A client in each of its states, and what seals as its server would.
fn client_states() -> Vec<(&'static str, Side, Side)> {
    let mut all = Vec::new();
    let fresh = |server: &mut Side| server.transport.sealer = Sealer::new();

    let (mut client, mut server) = Side::pair();
    client.input = server.config_version();
    client.run().unwrap();
    fresh(&mut server);
    all.push(("the first KEXINIT", client, server));

    let (mut client, mut server) = Side::pair();
    client.input.append(&mut server.out);
    client.run().unwrap();
    fresh(&mut server);
    all.push(("the server's value", client, server));

    let (mut client, mut server) = Side::pair();
    server.input.append(&mut client.out);
    client.input.append(&mut server.out);
    server.run().unwrap();
    client.run().unwrap();
    server.input.append(&mut client.out);
    server.run().unwrap();
    // The reply alone, without what stands behind it.
    let length = u32::from_be_bytes(*server.out.first_chunk().unwrap());
    let reply = server.out.drain(..4 + length as usize);
    client.input.extend(reply);
    client.run().unwrap();
    fresh(&mut server);
    all.push(("NEWKEYS", client, server));

    let (client, server) = keyed();
    all.push(("anything", client, server));

    let (mut client, server) = keyed();
    client.transport.rekey(&mut client.out).unwrap();
    all.push(("anything or KEXINIT", client, server));
    all
}

#[test]
fn every_message_in_every_state_of_a_client() {
    for index in 0..client_states().len() {
        for number in 0..=255_u8 {
            let (name, mut client, mut server) = client_states().swap_remove(index);
            server.out.clear();
            server.raw(&[number, 0, 0, 0, 1, b'x']);
            client.input.append(&mut server.out);
            let result = client.run();
            let is_keyed = index > 2;
            let expected = match number {
                // The fields are wrong of those that may come.
                0 | 1 | 7 | 20 | 21 | 30 | 31 => false,
                2..=4 => index == 0 || is_keyed,
                5 | 6 | 8..=19 | 22..=29 | 32..=255 => is_keyed,
            };
            let goes_on = !client.transport.is_over();
            assert_eq!(goes_on, expected, "{name}: {number}: {result:?}");
            let has_session = client.transport.session_id().is_some();
            assert_eq!(has_session, index > 1, "{name}: {number} advances");
        }
    }
}

proptest! {
    /// Whatever strangers send, in whatever pieces.
    #[test]
    fn strangers_do_no_harm(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        with_version: bool,
        is_server: bool,
    ) {
        let mut side = Side::new(if is_server { server_config() } else { client_config() });
        if with_version {
            side.input.extend_from_slice(b"SSH-2.0-stranger\r\n");
        }
        side.input.extend_from_slice(&bytes);
        let _ = side.run();
        prop_assert!(side.transport.session_id().is_none());
    }

    /// Packets of a peer that knows the keys, with any payloads.
    #[test]
    fn peers_with_keys_do_no_harm(
        payloads in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 1..80), 1..20),
        starts in proptest::collection::vec(
            proptest::sample::select(vec![7, 20, 21, 30, 31, 192, 193, 94, 3]), 20),
    ) {
        let (mut client, mut server) = keyed();
        for (payload, start) in payloads.iter().zip(starts) {
            client.raw(&[&[start], &payload[..]].concat());
        }
        server.input.append(&mut client.out);
        let result = server.run();
        prop_assert_eq!(result.is_err(), server.transport.is_over());
    }

    /// Arrivals are cut anywhere.
    #[test]
    fn pieces_make_no_difference(step in 1_usize..50) {
        let (mut client, mut server) = Side::pair();
        let mut told = [Vec::new(), Vec::new()];
        while !client.out.is_empty() || !server.out.is_empty() {
            for piece in std::mem::take(&mut client.out).chunks(step) {
                server.input.extend_from_slice(piece);
                told[1].extend(server.run().unwrap());
            }
            for piece in std::mem::take(&mut server.out).chunks(step) {
                client.input.extend_from_slice(piece);
                told[0].extend(client.run().unwrap());
            }
        }
        prop_assert_eq!(told[0].len(), 2);
        prop_assert_eq!(&told[1], &vec![Told::Keyed]);
    }
}

#[test]
fn what_is_not_under_way_cannot_be_finished() {
    let (mut client, mut server) = keyed();
    let refused = client.transport.trust(&mut client.out).unwrap_err();
    assert_eq!(refused, TransportError::Misuse("a host key"));
    assert!(!client.transport.is_over());
    // A second client's work.
    let mut other = Side::new(server_config());
    let mut stranger = Side::new(client_config());
    other.input.append(&mut stranger.out);
    other.run().unwrap();
    let (value, _) = Method::MlKem768X25519.begin().unwrap();
    let init = Message::new(30).string(value).done();
    stranger.raw(&init);
    other.input.append(&mut stranger.out);
    let next = other.transport.next(&mut other.input, &mut other.out);
    let Step::Work(work) = next.unwrap().step else {
        panic!("a value has come");
    };
    let refused = server.transport.done(work.run(), &mut server.out);
    assert_eq!(refused, Err(TransportError::Misuse("work")));
}
