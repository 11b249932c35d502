//! How many consoles there may be, how long, and what waits for whom.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use k8s_openapi::api::coordination::v1::Lease;
use kite_api::console::{
    ConsoleAudit, ConsoleEnded, ConsoleEvent, ConsoleInput, ConsoleLimits, ConsoleOutput,
    ConsoleRecord, ConsoleStream, TerminalError, TerminalRequest, TerminalSize, Terminals,
};
use kite_core::{
    cluster::{ClusterExt as _, ObjectKey},
    names,
};
use parking_lot::Mutex;
use serde_json::json;

use super::stage::{Client, Stage};

#[tokio::test]
async fn of_one_account() {
    let limits = ConsoleLimits {
        per_user: 2,
        ..ConsoleLimits::default()
    };
    let stage = Stage::with(|builder| builder.consoles(limits)).await;
    let mut serial = stage.open("Serial").await;
    let _screen = stage.open("Vnc").await;
    let ticket = stage.ticket(&stage.ann, "Serial").await;
    let refused = stage.refusal(stage.address, &stage.ann, &ticket).await;
    assert_eq!(refused, "too-many-requests");
    serial.until("login: ").await;
    serial.0.close(None).await.unwrap();
    // Its close is answered.
    while let Some(message) = futures::StreamExt::next(&mut serial.0).await {
        message.unwrap();
    }
    stage
        .world
        .until("the place is free again", async || {
            let ticket = stage.ticket(&stage.ann, "Serial").await;
            let mut client = Client::connect(stage.address, &stage.ann).await.unwrap();
            client.show(&ticket).await;
            client.next().await.into_text().unwrap().contains("ready")
        })
        .await;
}

#[tokio::test]
async fn of_all() {
    let limits = ConsoleLimits {
        total: 1,
        ..ConsoleLimits::default()
    };
    let stage = Stage::with(|builder| builder.consoles(limits)).await;
    let _open = stage.open("Serial").await;
    let refused = Client::connect(stage.address, &stage.ann).await.err();
    assert_eq!(refused, Some(429));
}

#[tokio::test]
async fn of_memory_of_which_there_is_enough_for_one() {
    let stage = Stage::with(|builder| builder.stream_memory(1)).await;
    // Beside the news of the page that shows it.
    let _news = crate::events::News::of(&stage.world, "/api/v1/events", &stage.ann).await;
    let _open = stage.open("Serial").await;
    let refused = Client::connect(stage.address, &stage.ann).await.err();
    assert_eq!(refused, Some(429));
}

#[tokio::test]
async fn of_time() {
    for (idle, longest, why) in [(50, 60_000, "nothing was done"), (60_000, 50, "as long as")] {
        let limits = ConsoleLimits {
            idle: Duration::from_millis(idle),
            longest: Duration::from_millis(longest),
            ..ConsoleLimits::default()
        };
        let stage = Stage::with(|builder| builder.consoles(limits)).await;
        let mut client = stage.open("Serial").await;
        let (code, reason) = client.end().await;
        assert_eq!(code, 4408);
        assert!(reason.contains(why), "{reason}");
    }
}

/// A terminal that prints without end, and notes what it is told.
#[derive(Clone, Default)]
struct Endless {
    printed: Arc<AtomicUsize>,
    told: Arc<Mutex<Vec<String>>>,
}

const PIECE: usize = 16 * 1024;

#[async_trait]
impl Terminals for Endless {
    async fn open(&self, request: TerminalRequest) -> Result<ConsoleStream, TerminalError> {
        if request.vm.name != "web" {
            let why = "its keys are not there yet".to_owned();
            return Err(TerminalError::NotRunning(why));
        }
        self.told.lock().push(format!(
            "{} {:?} {:?}",
            request.user, request.from, request.size
        ));
        Ok(ConsoleStream {
            input: Box::new(self.clone()),
            output: Box::new(self.clone()),
            recording: Some("web.cast".to_owned()),
        })
    }
}

#[async_trait]
impl ConsoleInput for Endless {
    async fn write(&mut self, data: Bytes) -> Result<(), ConsoleEnded> {
        let text = String::from_utf8_lossy(&data).into_owned();
        self.told.lock().push(text);
        Ok(())
    }

    async fn resize(&mut self, size: TerminalSize) {
        self.told.lock().push(format!("{size:?}"));
    }
}

#[async_trait]
impl ConsoleOutput for Endless {
    async fn next(&mut self) -> Result<Bytes, ConsoleEnded> {
        if self.told.lock().iter().any(|told| told == "exit 7") {
            return Err(ConsoleEnded::Exited(7));
        }
        tokio::task::yield_now().await;
        self.printed.fetch_add(PIECE, Ordering::Relaxed);
        Ok(Bytes::from(vec![b'y'; PIECE]))
    }
}

#[derive(Clone, Default)]
struct Records(Arc<Mutex<Vec<ConsoleRecord>>>);

impl ConsoleAudit for Records {
    fn record(&self, record: &ConsoleRecord) {
        self.0.lock().push(record.clone());
    }
}

#[tokio::test]
async fn who_does_not_read_holds_up_whoever_prints() {
    let (endless, records) = (Endless::default(), Records::default());
    let (terminals, audit) = (endless.clone(), records.clone());
    let stage = Stage::with(|b| b.terminals(terminals).console_audit(audit)).await;
    let mut client = stage.open("Terminal").await;
    // It prints until all that is between the two is full, and then waits.
    let mut before = 0;
    let mut still = 0;
    while still < 20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let now = endless.printed.load(Ordering::Relaxed);
        still = if now == before && now > 0 {
            still + 1
        } else {
            0
        };
        before = now;
        assert!(now < 64 << 20, "{now} bytes are under way");
    }
    let number = records.0.lock()[0].console;
    assert!(stage.world.state.has_console(number));
    // Typing goes on all the same.
    client.send(b"typed").await;
    client.say(json!({"resize": {"cols": 5, "rows": 0}})).await;
    let wanted = [
        "ann Some(127.0.0.1) TerminalSize { columns: 100, rows: 30 }".to_owned(),
        "typed".to_owned(),
        "TerminalSize { columns: 5, rows: 1 }".to_owned(),
    ];
    stage
        .world
        .until("it is told", async || *endless.told.lock() == wanted)
        .await;
    client.send(b"exit 7").await;
    let (code, why) = client.end().await;
    assert_eq!((code, why.as_str()), (1000, "ended with status 7"));

    assert!(!stage.world.state.has_console(number));
    let records = records.0.lock();
    let [opened, recorded, ended] = records.as_slice() else {
        panic!("{records:?}");
    };
    assert!(matches!(opened.event, ConsoleEvent::ConsoleOpened));
    assert!(matches!(&recorded.event,
        ConsoleEvent::ConsoleRecorded { recording } if recording == "web.cast"));
    assert_eq!(recorded.console, opened.console);
    assert_eq!((ended.user.as_str(), ended.vm.as_str()), ("ann", "web"));
    let text = serde_json::to_value(ended).unwrap();
    assert_eq!(text["event"], "console_ended");
    assert_eq!(
        (&text["ended"], &text["code"]),
        (&json!("ended with status 7"), &json!(1000))
    );
    assert_eq!(text["kind"], "Terminal");
    assert_eq!(text["bytes_up"], "typed".len() + "exit 7".len());
    assert!(text["bytes_down"].as_u64().unwrap() >= before as u64);
    let mut registry = prometheus_client::registry::Registry::default();
    stage.world.state.metrics().register(&mut registry);
    let mut shown = String::new();
    prometheus_client::encoding::text::encode(&mut shown, &registry).unwrap();
    for line in [
        "kite_api_consoles{kind=\"Terminal\"} 0",
        "kite_api_consoles_opened_total{kind=\"Terminal\"} 1",
        "kite_api_console_bytes_total{kind=\"Terminal\",way=\"up\"} 11",
    ] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
}

#[tokio::test]
async fn a_vm_that_lets_nobody_in_says_why() {
    let stage = Stage::with(|builder| builder.terminals(Endless::default())).await;
    let answer = stage.ask(&stage.ann, "idle", "Terminal").await;
    let ticket = answer.text("/ticket");
    let refused = stage.refusal(stage.address, &stage.ann, ticket).await;
    assert_eq!(refused, "conflict");
}

#[tokio::test]
async fn an_open_console_is_use_of_a_vm_that_stops_when_idle() {
    let stage = Stage::new().await;
    let key = ObjectKey::namespaced(names::user_namespace("ann"), names::activity_lease("web"));
    let used = async || {
        let lease = stage.world.cluster.get_opt::<Lease>(&key).await.unwrap();
        let uid = stage.world.vm("ann", "web").await.unwrap().metadata.uid;
        kite_core::activity::last_used(&lease?, &uid.unwrap())
    };
    let mut without = stage.open("Serial").await;
    without.until("login: ").await;
    assert_eq!(used().await, None, "it never stops");
    let body = json!({"idleTimeout": "1h"});
    let path = "/api/v1/vms/web";
    assert_eq!(stage.world.patch(path, &stage.ann, body).await.status, 200);
    let before = jiff::Timestamp::now();
    let _with = stage.open("Vnc").await;
    stage
        .world
        .until("it is told", async || used().await >= Some(before))
        .await;
    // Once: the first console has told nothing.
    let lease = names::activity_lease("web");
    let log = stage.world.fake.log();
    let told = log
        .entries()
        .filter(|it| it.verb == "patch" && it.name == lease);
    assert_eq!(told.count(), 1);
}
