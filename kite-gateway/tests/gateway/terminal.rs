//! Terminals without a user's SSH connection.

use std::sync::Arc;
use std::time::Duration;

use crate::common::new_key;
use bytes::Bytes;
use kite_fake_kubevirt::guest::{Guest, GuestConfig, GuestHandle};
use kite_gateway::terminal::{Output, Size, TerminalError, TerminalOutput, Terminals};
use kite_gateway::{
    Config, Credential, LoginRule, Recordings, Route, Target, TcpConnector, VmKey, VmState,
};
use russh::keys::PrivateKey;

const SIZE: Size = Size {
    columns: 80,
    rows: 24,
};

/// A machine that runs, and the way to it.
async fn machine() -> (GuestHandle, Route) {
    let key = new_key();
    let config = GuestConfig::new("web", "ann", vec![key.public_key().clone()]).unwrap();
    let guest = Guest::start(config).await.unwrap();
    let route = route(&guest, key);
    (guest, route)
}

fn route(guest: &GuestHandle, key: PrivateKey) -> Route {
    Route {
        vm: VmKey {
            namespace: "kite-user-ann".to_owned(),
            name: "web".to_owned(),
        },
        uid: "1".to_owned(),
        owner: None,
        state: VmState::Running,
        start_on_connect: false,
        target: Some(Target {
            addresses: vec![guest.address()],
            user: "ann".to_owned(),
            credential: Credential::Key(Arc::new(key)),
            host_key: guest.host_key().clone(),
        }),
        rule: LoginRule::KeyAndPassword,
        password: None,
        authorized_keys: Vec::new(),
        authorities: Vec::new(),
    }
}

fn terminals() -> Terminals {
    Terminals::new(TcpConnector::default(), &Config::default())
}

/// Reads until `text` was printed.
async fn until(output: &mut TerminalOutput, text: &str) {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        match output.next().await {
            Output::Data(data) => seen.extend_from_slice(&data),
            other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&seen)),
        }
    }
}

/// What it comes to, after whatever is printed.
async fn end(output: &mut TerminalOutput) -> Output {
    loop {
        match output.next().await {
            Output::Data(_) => {}
            end => return end,
        }
    }
}

#[tokio::test]
async fn one_types_and_reads_and_it_ends_with_a_status() {
    let (_guest, route) = machine().await;
    let (input, mut output) = terminals().open(&route, "xterm", SIZE).await.unwrap();
    until(&mut output, "ann@web:~$ ").await;
    input.resize(Size {
        columns: 120,
        rows: 40,
    });
    input.write("echo $TERM; exit 7\r".into()).await.unwrap();
    until(&mut output, "\r\nxterm\r\n").await;
    assert_eq!(end(&mut output).await, Output::Exited(7));
    assert_eq!(output.next().await, Output::Closed);
    let mut typing = tokio::time::interval(Duration::from_millis(5));
    // Nobody takes what is typed any more.
    while input.write(Bytes::from_static(b"x")).await.is_ok() {
        typing.tick().await;
    }
}

#[tokio::test]
async fn it_ends_with_the_machine_and_when_nobody_reads_any_more() {
    let (guest, route) = machine().await;
    let terminals = terminals();
    let (_input, mut output) = terminals.open(&route, "xterm", SIZE).await.unwrap();
    until(&mut output, "$ ").await;
    let (input, left) = terminals.open(&route, "xterm", SIZE).await.unwrap();
    drop(left);
    let mut typing = tokio::time::interval(Duration::from_millis(5));
    while input.write(Bytes::from_static(b"x")).await.is_ok() {
        typing.tick().await;
    }
    guest.stop().await;
    let end = end(&mut output).await;
    assert!(matches!(end, Output::Lost | Output::Closed), "{end:?}");
}

#[tokio::test]
async fn another_host_key_or_a_machine_that_is_off_lets_nobody_in() {
    let (_guest, route) = machine().await;
    let mut other = route.clone();
    other.target.as_mut().unwrap().host_key = new_key().public_key().clone();
    let refused = async |route: &Route| {
        let opened = terminals().open(route, "xterm", SIZE).await;
        opened.err().expect("a refusal")
    };
    let error = refused(&other).await;
    assert!(matches!(&error, TerminalError::Dial { why, .. } if why.contains("host key")));
    let mut other = route.clone();
    let key = Credential::Key(Arc::new(new_key()));
    other.target.as_mut().unwrap().credential = key;
    assert!(matches!(refused(&other).await, TerminalError::Dial { .. }));
    let mut other = route.clone();
    other.state = VmState::Stopped("it is switched off".to_owned());
    let error = refused(&other).await.to_string();
    assert!(error.contains("switched off"), "{error}");
    other.target = None;
    other.state = VmState::Running;
    let error = refused(&other).await.to_string();
    assert!(error.contains("keys"), "{error}");
}

#[tokio::test]
async fn what_it_prints_is_recorded_where_that_is_asked_for() {
    let (_guest, route) = machine().await;
    let directory = tempfile::tempdir().unwrap();
    let terminals = terminals().recordings(Recordings::to(directory.path()).unwrap());
    let (input, mut output) = terminals.open(&route, "xterm", SIZE).await.unwrap();
    let first = output.next().await;
    let notice = Output::Data("kite: this session is recorded\r\n".into());
    assert_eq!(first, notice);
    until(&mut output, "$ ").await;
    input
        .write("echo on''the''tape; exit\r".into())
        .await
        .unwrap();
    end(&mut output).await;
    drop((input, output));
    let recorded = async {
        loop {
            let mut files = std::fs::read_dir(directory.path()).unwrap().flatten();
            if let Some(file) = files.find(|file| file.path().extension() == Some("cast".as_ref()))
            {
                return std::fs::read_to_string(file.path()).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let recorded = recorded.await;
    assert!(recorded.contains("onthetape"), "{recorded}");

    std::fs::remove_dir_all(directory.path()).unwrap();
    let refused = terminals.open(&route, "xterm", SIZE).await.err();
    assert!(matches!(refused, Some(TerminalError::Unrecorded(_))));
}
