//! A relay with a peer on each side.

use proptest::prelude::*;
use tokio::io::duplex;

use super::super::*;
use super::{asks, asks_globally, confirm, data, of_channel, open, settings};
use crate::io::Workers;
use crate::message::*;
use crate::transport::Config;
use crate::transport::tests::host_key;
use crate::wire::{Fields, Message};

/// Both ends of a connection with keys, on a pipe of that size.
async fn connected(size: usize, rekey_after: Option<u64>) -> (Connection, Connection) {
    let (near, far) = duplex(size);
    let mut client = Config::client("SSH-2.0-client", vec![crate::algorithm::Algorithm::Ed25519]);
    let mut server = Config::server("SSH-2.0-server", vec![host_key(1)]);
    client.rekey_after = rekey_after;
    server.rekey_after = rekey_after;
    let start = |config, stream| Connection::start(Arc::new(config), stream, Workers::default());
    let mut client = start(client, near).unwrap();
    let mut server = start(server, far).unwrap();
    let (client, server) = tokio::join!(
        async {
            while let Event::HostKey(_) = client.next().await.unwrap() {
                client.trust().unwrap();
            }
            client.flush().await.unwrap();
            client
        },
        async {
            assert!(matches!(server.next().await.unwrap(), Event::Keyed));
            server
        },
    );
    (client, server)
}

/// A relay with its two peers.
struct Between {
    user: Connection,
    server: Connection,
    relay: tokio::task::JoinHandle<Ended>,
    stop: tokio::sync::oneshot::Sender<Disconnect>,
}

async fn between(size: usize, rekey_after: Option<u64>, settings: Settings) -> Between {
    let (user, to_user) = connected(size, rekey_after).await;
    let (to_server, server) = connected(size, rekey_after).await;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let relay = tokio::spawn(async move {
        let stop = async {
            match stopped.await {
                Ok(told) => told,
                Err(_) => std::future::pending().await,
            }
        };
        let held = Held::default();
        relay(to_user, to_server, held, &settings, &mut Everything, stop).await
    });
    Between {
        user,
        server,
        relay,
        stop,
    }
}

async fn message(connection: &mut Connection) -> Vec<u8> {
    match connection.next().await.unwrap() {
        Event::Message { .. } => connection.message().to_vec(),
        other => panic!("{other:?}"),
    }
}

async fn say(connection: &mut Connection, message: &[u8]) {
    connection.send(message, &[]).unwrap();
    connection.flush().await.unwrap();
}

#[tokio::test]
async fn messages_pass_as_they_are() {
    let mut it = between(64 * 1024, None, settings(10)).await;
    let from_user = [
        asks_globally("no-more-sessions@openssh.com", false),
        open("session", 7),
    ];
    for sent in &from_user {
        say(&mut it.user, sent).await;
        assert_eq!(&message(&mut it.server).await, sent);
    }
    let confirmed = confirm(7, 3);
    say(&mut it.server, &confirmed).await;
    assert_eq!(message(&mut it.user).await, confirmed);
    for sent in [
        asks(3, "unknown@example.com", false),
        asks(3, "env", true),
        data(3, b"caf\xe9"),
        of_channel(CHANNEL_EOF, 3),
        of_channel(CHANNEL_CLOSE, 3),
    ] {
        say(&mut it.user, &sent).await;
        assert_eq!(message(&mut it.server).await, sent);
    }
    for sent in [
        of_channel(CHANNEL_FAILURE, 7),
        data(7, &vec![5; 30_000]),
        asks(7, "exit-status", false),
        of_channel(CHANNEL_CLOSE, 7),
    ] {
        say(&mut it.server, &sent).await;
        assert_eq!(message(&mut it.user).await, sent);
    }
    let told = Disconnect::new(Reason::BY_APPLICATION, "an administrator ended it");
    it.stop.send(told.clone()).unwrap();
    for mut end in [it.user, it.server] {
        let error = end.next().await.unwrap_err();
        assert!(matches!(error, ConnectionError::Disconnected(it) if it == told));
    }
    assert!(matches!(it.relay.await.unwrap(), Ended::Stopped(_)));
}

#[tokio::test]
async fn both_are_told_why_the_other_has_gone() {
    let mut it = between(64 * 1024, None, settings(10)).await;
    drop(it.server);
    let error = it.user.next().await.unwrap_err().to_string();
    assert!(
        error.contains("connection to the server was lost"),
        "{error}"
    );

    let mut it = between(64 * 1024, None, settings(10)).await;
    let told = Disconnect::new(Reason(2), "Too many authentication failures");
    it.server.end(&told, Duration::from_secs(1)).await;
    let error = it.user.next().await.unwrap_err();
    assert!(matches!(error, ConnectionError::Disconnected(it) if it == told));

    // Who breaks the protocol reads how; the other one, whose fault it is.
    let mut it = between(64 * 1024, None, settings(10)).await;
    say(&mut it.server, &data(9, b"lies")).await;
    let words = "message 94 for channel 9, which is not open";
    let error = it.server.next().await.unwrap_err().to_string();
    assert!(error.ends_with(words), "{error}");
    let error = it.user.next().await.unwrap_err().to_string();
    let user_reads = format!("the connection to the server was lost: {words}");
    assert!(error.ends_with(&user_reads), "{error}");
    let ended = it.relay.await.unwrap();
    assert!(matches!(
        ended,
        Ended::Broken {
            side: Side::Server,
            ..
        }
    ));
}

#[tokio::test]
async fn a_relay_shows_its_own_host_keys() {
    let mut settings = settings(10);
    settings.host_keys = vec![host_key(1), host_key(2)];
    let mut it = between(64 * 1024, None, settings).await;
    let announced = message(&mut it.user).await;
    let mut fields = Fields(&announced[1..]);
    assert_eq!(fields.string().unwrap(), b"hostkeys-00@openssh.com");
    assert!(!fields.boolean().unwrap());
    for seed in [1, 2] {
        assert_eq!(fields.string().unwrap(), host_key(seed).blob());
    }
    // The server's are not passed on.
    let others = Message::new(GLOBAL_REQUEST).string("hostkeys-00@openssh.com");
    say(&mut it.server, &others.boolean(false).done()).await;

    // A reply of the server's comes before the relay's own.
    say(&mut it.user, &asks_globally("tcpip-forward", true)).await;
    let prove = Message::new(GLOBAL_REQUEST).string("hostkeys-prove-00@openssh.com");
    let prove = prove.boolean(true).string(host_key(2).blob()).done();
    say(&mut it.user, &prove).await;
    message(&mut it.server).await;
    say(&mut it.server, &[REQUEST_SUCCESS, 9]).await;
    assert_eq!(message(&mut it.user).await, [REQUEST_SUCCESS, 9]);
    let proved = message(&mut it.user).await;
    let signature = Fields(&proved[1..]).string().unwrap();
    let mut signed = Vec::new();
    let session = it.user.transport().session_id().unwrap();
    for part in [
        &b"hostkeys-prove-00@openssh.com"[..],
        session,
        host_key(2).blob(),
    ] {
        crate::wire::string(&mut signed, part);
    }
    let algorithm = crate::algorithm::Algorithm::Ed25519;
    let key = host_key(2);
    crate::verify::verify(key.public(), algorithm, signature, &signed).unwrap();

    let unknown = Message::new(GLOBAL_REQUEST).string("hostkeys-prove-00@openssh.com");
    let unknown = unknown.boolean(true).string(host_key(3).blob()).done();
    say(&mut it.user, &unknown).await;
    assert_eq!(message(&mut it.user).await, [REQUEST_FAILURE]);
}

#[tokio::test]
async fn a_server_opens_only_what_was_asked_for() {
    let kinds = [
        ("forwarded-tcpip", asks_globally("tcpip-forward", false)),
        (
            "forwarded-streamlocal@openssh.com",
            asks_globally("streamlocal-forward@openssh.com", false),
        ),
        ("x11", asks(3, "x11-req", false)),
        (
            "auth-agent@openssh.com",
            asks(3, "auth-agent-req@openssh.com", false),
        ),
    ];
    let mut it = between(64 * 1024, None, settings(10)).await;
    say(&mut it.user, &open("session", 7)).await;
    message(&mut it.server).await;
    say(&mut it.server, &confirm(7, 3)).await;
    message(&mut it.user).await;
    say(&mut it.server, &open("session", 50)).await;
    assert_eq!(message(&mut it.server).await[0], CHANNEL_OPEN_FAILURE);
    for (number, (kind, asked)) in (60..).zip(kinds) {
        say(&mut it.server, &open(kind, number)).await;
        let refused = message(&mut it.server).await;
        let expected = Message::new(CHANNEL_OPEN_FAILURE).number(number).number(1);
        assert!(refused.starts_with(&expected.done()), "{kind}");
        say(&mut it.user, &asked).await;
        assert_eq!(message(&mut it.server).await, asked);
        say(&mut it.server, &open(kind, number)).await;
        assert_eq!(message(&mut it.user).await, open(kind, number), "{kind}");
    }
}

#[tokio::test]
async fn channels_are_bounded_and_refused_once() {
    let mut it = between(64 * 1024, None, settings(2)).await;
    for number in 0..2 {
        say(&mut it.user, &open("session", number)).await;
        message(&mut it.server).await;
        say(&mut it.server, &confirm(number, number)).await;
        message(&mut it.user).await;
    }
    say(&mut it.user, &open("session", 2)).await;
    let refused = message(&mut it.user).await;
    let expected = Message::new(CHANNEL_OPEN_FAILURE).number(2).number(4);
    assert!(refused.starts_with(&expected.done()));
    // What goes makes room, and its number is free.
    say(&mut it.user, &of_channel(CHANNEL_CLOSE, 1)).await;
    message(&mut it.server).await;
    say(&mut it.server, &of_channel(CHANNEL_CLOSE, 1)).await;
    message(&mut it.user).await;
    say(&mut it.user, &open("session", 1)).await;
    assert_eq!(message(&mut it.server).await, open("session", 1));
}

#[tokio::test]
async fn what_nobody_knows_is_told_and_what_is_late_is_dropped() {
    let mut it = between(64 * 1024, None, settings(2)).await;
    say(&mut it.user, &[USERAUTH_REQUEST, 1, 2]).await;
    say(&mut it.user, &[150]).await;
    say(
        &mut it.user,
        &Message::new(SERVICE_REQUEST).string("x").done(),
    )
    .await;
    say(&mut it.user, &of_channel(CHANNEL_WINDOW_ADJUST, 8)).await;
    say(&mut it.user, &asks_globally("ping", true)).await;
    assert_eq!(message(&mut it.server).await, asks_globally("ping", true));
}

/// Says the same again and again, and reads nothing: how many bytes are taken of it.
async fn floods(mut peer: Connection, message: &[u8]) -> usize {
    let mut taken = 0;
    loop {
        peer.send(message, &[]).unwrap();
        let written = tokio::time::timeout(Duration::from_millis(300), peer.flush()).await;
        if written.is_err() {
            return taken;
        }
        taken += message.len();
        assert!(taken < 16 * 1024 * 1024, "somebody keeps all of it");
    }
}

#[tokio::test]
async fn who_makes_answers_necessary_and_reads_none_is_not_read() {
    let ping = Message::new(PING).string([7; 10_000]).done();
    for message in [&ping[..], &[201], &Message::new(PING).string("").done()] {
        // Before a login, and by a relay, from either side.
        let (client, mut server) = connected(4096, None).await;
        let reader = tokio::spawn(async move { while server.next().await.is_ok() {} });
        let taken = floods(client, message).await;
        assert!(taken < 512 * 1024, "{taken}");
        reader.abort();
        let it = between(4096, None, settings(10)).await;
        let taken = floods(it.user, message).await;
        assert!(taken < 4 * 1024 * 1024, "{taken}");
        let it = between(4096, None, settings(10)).await;
        let taken = floods(it.server, message).await;
        assert!(taken < 4 * 1024 * 1024, "{taken}");
    }
}

/// Says so many messages of data, each with its number, and reads as many; both at once.
async fn talk(
    mut end: Connection,
    channel: u32,
    (count, length, pause): (u32, usize, u32),
    both: Arc<tokio::sync::Barrier>,
) -> Connection {
    let mut sent = 0;
    let mut got = 0;
    while sent < count || got < count {
        while sent < count && end.waiting() < 100_000 && end.transport().is_open() {
            let number = sent.to_be_bytes();
            let message = Message::new(CHANNEL_DATA).number(channel);
            let rest = vec![7; length];
            let message = message.string([&number[..], &rest].concat()).done();
            end.send(&message, &[]).unwrap();
            sent += 1;
            if pause > 0 && sent.is_multiple_of(pause) {
                end.rekey().unwrap();
            }
        }
        let event = tokio::select! {
            event = end.next() => Some(event.unwrap()),
            // Keys may have changed, or something was written.
            () = tokio::time::sleep(Duration::from_millis(1)) => None,
        };
        if let Some(Event::Message { .. }) = event {
            let message = end.message();
            assert_eq!(message[0], CHANNEL_DATA);
            assert_eq!(message[9..13], got.to_be_bytes());
            assert_eq!(message.len(), 13 + length);
            got += 1;
        }
    }
    // The other one may still want to read, and to change keys.
    let both = both.wait();
    tokio::pin!(both);
    loop {
        tokio::select! {
            _ = &mut both => return end,
            event = end.next() => panic!("{event:?}"),
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Keys change at any time, asked for by any of the four, on lines that hold little.
    #[test]
    fn nothing_is_lost_or_stuck_while_keys_change(
        size in 200_usize..20_000,
        rekey_after in proptest::option::of(3_000_u64..60_000),
        length in 1_usize..30_000,
        pauses in (0_u32..20, 0_u32..20),
        count in 10_u32..60,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(2).enable_all().build().unwrap();
        let done = runtime.block_on(async move {
            let mut it = between(size, rekey_after, settings(10)).await;
            it.user.open_wide();
            it.server.open_wide();
            say(&mut it.user, &open("session", 7)).await;
            message(&mut it.server).await;
            say(&mut it.server, &confirm(7, 3)).await;
            message(&mut it.user).await;
            let barrier = Arc::new(tokio::sync::Barrier::new(2));
            let user = talk(it.user, 3, (count, length, pauses.0), Arc::clone(&barrier));
            let server = talk(it.server, 7, (count, length, pauses.1), barrier);
            let both = async { tokio::try_join!(tokio::spawn(user), tokio::spawn(server)) };
            tokio::time::timeout(Duration::from_secs(30), both).await
        });
        prop_assert!(matches!(done, Ok(Ok(_))), "{done:?}");
    }
}
