//! What a terminal shows last, and what is told of its end.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use kite_api::ApiStateBuilder;
use kite_api::console::{
    ConsoleEnded, ConsoleInput, ConsoleLimits, ConsoleOutput, ConsoleStream, TerminalError,
    TerminalRequest, TerminalSize, Terminals,
};
use kite_core::crd::VmPhase;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio_tungstenite::tungstenite::Message;

use super::stage::{Client, Stage};

type Printed = Result<Bytes, ConsoleEnded>;

/// Terminals of which the test says what they print.
#[derive(Clone)]
struct Scripted {
    script: Arc<Mutex<mpsc::UnboundedReceiver<Printed>>>,
    are_recorded: bool,
}

#[async_trait]
impl Terminals for Scripted {
    async fn open(&self, _: TerminalRequest) -> Result<ConsoleStream, TerminalError> {
        Ok(ConsoleStream {
            input: Box::new(self.clone()),
            output: Box::new(self.clone()),
            recording: Some("web.cast".to_owned()),
        })
    }

    fn are_recorded(&self) -> bool {
        self.are_recorded
    }
}

#[async_trait]
impl ConsoleInput for Scripted {
    async fn write(&mut self, _: Bytes) -> Result<(), ConsoleEnded> {
        Ok(())
    }

    async fn resize(&mut self, _: TerminalSize) {}
}

#[async_trait]
impl ConsoleOutput for Scripted {
    async fn next(&mut self) -> Printed {
        match self.script.lock().await.recv().await {
            Some(printed) => printed,
            None => std::future::pending().await,
        }
    }
}

/// A stage with such terminals, and what says what they print.
async fn scripted(are_recorded: bool) -> (Stage, mpsc::UnboundedSender<Printed>) {
    let (say, script) = mpsc::unbounded_channel();
    let terminals = Scripted {
        script: Arc::new(Mutex::new(script)),
        are_recorded,
    };
    let stage = Stage::with(|builder| builder.terminals(terminals)).await;
    (stage, say)
}

#[tokio::test]
async fn where_all_is_recorded_nothing_else_is_opened() {
    for are_recorded in [true, false] {
        let (_say, script) = mpsc::unbounded_channel();
        let terminals = Scripted {
            script: Arc::new(Mutex::new(script)),
            are_recorded,
        };
        let limits = ConsoleLimits {
            only_recorded: true,
            ..ConsoleLimits::default()
        };
        let builder = |it: ApiStateBuilder| it.terminals(terminals).consoles(limits);
        let stage = Stage::with(builder).await;
        for (kind, is_opened) in [
            ("Serial", false),
            ("Vnc", false),
            ("Terminal", are_recorded),
        ] {
            let asked = stage.ask(&stage.ann, "web", kind).await;
            if is_opened {
                assert_eq!(asked.status, 201, "{kind}: {asked:?}");
            } else {
                asked.is_problem(409, "conflict");
                assert!(
                    asked.text("/detail").contains("recorded"),
                    "{kind}: {asked:?}"
                );
            }
        }
    }
}

/// All that a client gets: bytes, the words after the last of them, and the close code.
async fn all(client: &mut Client) -> (usize, Value, u16) {
    let (mut bytes, mut words) = (0, Value::Null);
    loop {
        match client.next().await {
            Message::Binary(more) => {
                assert_eq!(words, Value::Null, "nothing is shown after the last words");
                bytes += more.len();
            }
            Message::Text(text) => words = serde_json::from_str(&text).unwrap(),
            Message::Close(frame) => return (bytes, words, frame.unwrap().code.into()),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn all_that_was_printed_comes_before_how_it_ended() {
    const PIECE: usize = 32 * 1024;
    let (stage, say) = scripted(true).await;
    for (end, cause) in [
        (ConsoleEnded::Exited(3), json!({"exited": 3})),
        (
            ConsoleEnded::Killed("TERM".to_owned()),
            json!({"killed": "TERM"}),
        ),
    ] {
        let mut client = stage.open("Terminal").await;
        for _ in 0..100 {
            say.send(Ok(Bytes::from(vec![b'y'; PIECE]))).unwrap();
        }
        say.send(Err(end)).unwrap();
        let told = all(&mut client).await;
        assert_eq!(told, (100 * PIECE, json!({ "cause": cause }), 1000));
    }
}

#[tokio::test]
async fn what_breaks_off_with_its_vm_says_so() {
    let (stage, say) = scripted(true).await;
    let mut client = stage.open("Terminal").await;
    say.send(Err(ConsoleEnded::Lost("the connection broke".to_owned())))
        .unwrap();
    let (code, why) = client.end().await;
    assert_eq!(code, 4500, "the VM runs on");
    assert!(why.ends_with("the connection broke"), "{why}");

    let mut client = stage.open("Terminal").await;
    let restart = "/api/v1/vms/web/restart";
    stage.world.post(restart, &stage.ann, Value::Null).await;
    stage.phase("web", VmPhase::Starting).await;
    say.send(Err(ConsoleEnded::Lost("the connection broke".to_owned())))
        .unwrap();
    let told = all(&mut client).await;
    assert_eq!(told, (0, json!({"cause": "vmRestarted"}), 1000));
}

#[tokio::test]
async fn what_a_vm_prints_while_it_goes_down_is_shown() {
    let (stage, say) = scripted(true).await;
    let mut client = stage.open("Terminal").await;
    let stop = "/api/v1/vms/web/stop";
    stage.world.post(stop, &stage.ann, Value::Null).await;
    let down = async {
        stage.phase("web", VmPhase::Stopped).await;
        say.send(Ok(Bytes::from_static(b"going down"))).unwrap();
    };
    let ((), told) = tokio::join!(down, all(&mut client));
    let wanted = ("going down".len(), json!({"cause": "vmStopped"}), 1000);
    assert_eq!(told, wanted);
}

#[tokio::test]
async fn that_terminals_are_recorded_is_known_before() {
    for are_recorded in [true, false] {
        let (stage, _say) = scripted(are_recorded).await;
        let config = stage.world.get("/api/v1/config", "").await;
        assert_eq!(config.body["terminalsRecorded"], are_recorded);
    }
    // Where there are none, none is recorded.
    let stage = Stage::new().await;
    let config = stage.world.get("/api/v1/config", "").await;
    assert_eq!(config.body["terminalsRecorded"], false);
}
