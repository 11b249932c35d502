//! A server over a cluster in memory, whose resident memory is measured, and what floods it
//! from another process.

#![allow(dead_code, reason = "each flood needs some of it")]

use std::{
    fs,
    net::SocketAddr,
    process::Stdio,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use kite_api::{
    ApiState, ApiStateBuilder,
    console::{
        ConsoleEnded, ConsoleInput, ConsoleOutput, ConsoleStream, TerminalError, TerminalRequest,
        TerminalSize, Terminals,
    },
    router,
};
use kite_core::{
    cluster::{Cluster as _, FieldManager, KubeCluster, ObjectKey},
    crd::{self, KiteUser, KiteUserSpec, KiteVirtualMachine, KiteVirtualMachineSpec},
    names,
    password::PasswordHash,
};
use kite_fake::FakeCluster;
use kite_fake_kubevirt::kubevirt_definitions;
use kite_process::Serving;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use mimalloc::MiMalloc;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// As `kite-api` itself has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// What a connection of HTTP/1.1 may hold beside what is budgeted: its buffers, the head,
/// its task.
pub const OF_HTTP1: usize = 64 * 1024;
/// What the flood says once it has begun.
const BEGUN: &str = "the flood has begun";
pub const PASSWORD: &str = "correct horse battery";
/// How long anything may take before a test gives up: long, for a slow and busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// Where the flood is told whom to flood.
const WHOM: &str = "KITE_TEST_FLOOD";
/// Bytes that a terminal prints at a time.
const PRINTED: usize = 16 * 1024;

pub fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|it| it.starts_with("VmRSS:")).unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap();
    kilobytes.parse::<usize>().unwrap() * 1024
}

/// How long it takes what somebody does, in the middle of so many times.
pub async fn median_of(times: usize, mut task: impl AsyncFnMut()) -> Duration {
    let mut all = Vec::new();
    for _ in 0..times {
        let started = Instant::now();
        timeout(PATIENCE, task()).await.expect("it never ends");
        all.push(started.elapsed());
    }
    all.sort_unstable();
    all[all.len() / 2]
}

/// Asserts that something takes at most so many times as long as it did beside nobody, which
/// is measured before the flood and after it: other work of the machine comes and goes, and
/// the slower one counts. What is as good as nothing, `floor`, is not measured.
pub fn assert_not_slowed(
    what: &str,
    beside: Duration,
    quiet: [Duration; 2],
    floor: Duration,
    by: u32,
) {
    eprintln!("{what}: {beside:?} beside the flood, {quiet:?} beside nobody");
    let [before, after] = quiet;
    assert!(
        beside < before.max(after).max(floor) * by,
        "{what}: {beside:?} beside the flood, {quiet:?} beside nobody"
    );
}

/// A server over a cluster in memory with the accounts of ann and bob.
pub struct Stage {
    pub address: SocketAddr,
    pub stop: CancellationToken,
    cluster: KubeCluster,
    client: Client,
}

impl Stage {
    pub async fn new(settings: impl FnOnce(ApiStateBuilder) -> ApiStateBuilder) -> Self {
        Self::serving(Serving::default(), settings).await
    }

    pub async fn serving(
        serving: Serving,
        settings: impl FnOnce(ApiStateBuilder) -> ApiStateBuilder,
    ) -> Self {
        let fake = FakeCluster::builder()
            .crds(crd::all())
            .crds(kubevirt_definitions())
            .build()
            .unwrap();
        let client = fake.client();
        let cluster = KubeCluster::new(client.clone());
        let hash = PasswordHash::create(PASSWORD).unwrap();
        for name in ["ann", "bob"] {
            let spec = KiteUserSpec {
                password_hash: Some(hash.clone()),
                ..KiteUserSpec::new(name)
            };
            cluster.create(&KiteUser::new(name, spec)).await.unwrap();
        }
        let state = settings(ApiState::builder(client.clone()))
            .build()
            .await
            .unwrap();
        state.synced().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let serving = kite_process::serve_and_drain(
            listener,
            router(state),
            serving.known_by(kite_api::is_signed_in),
            stop.clone(),
            std::future::ready(()),
        );
        tokio::spawn(async move {
            let _fake = fake;
            serving.await
        });
        Self {
            address,
            stop,
            cluster,
            client,
        }
    }

    /// A session of this account.
    pub async fn sign_in(&self, name: &str) -> String {
        let body = json!({"username": name, "password": PASSWORD}).to_string();
        let head = "POST /api/v1/auth/sign-in HTTP/1.1";
        let (status, answer) = ask(self.address, head, &body).await;
        assert_eq!(status, 200, "{answer}");
        answer["token"].as_str().unwrap().to_owned()
    }

    /// The same for somebody who tries again when told to.
    pub async fn sign_in_at_last(&self, name: &str) {
        let body = json!({"username": name, "password": PASSWORD}).to_string();
        let head = "POST /api/v1/auth/sign-in HTTP/1.1";
        loop {
            let (status, answer) = ask(self.address, head, &body).await;
            if status == 200 {
                return;
            }
            assert_eq!(status, 503, "{answer}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// An account whose password's hash is this.
    pub async fn account(&self, name: &str, hash: PasswordHash) {
        let spec = KiteUserSpec {
            password_hash: Some(hash),
            ..KiteUserSpec::new(name)
        };
        let user = KiteUser::new(name, spec);
        self.cluster.create(&user).await.unwrap();
    }

    /// The namespace in which an account's VMs are.
    pub async fn namespace(&self, owner: &str) {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Namespace"));
        let namespaces = Api::<DynamicObject>::all_with(self.client.clone(), &kind);
        let namespace = DynamicObject::new(&names::user_namespace(owner), &kind);
        let made = namespaces.create(&PostParams::default(), &namespace).await;
        made.unwrap();
    }

    /// Gives an account so many VMs, each of so many keys of so many characters.
    pub async fn furnish(&self, owner: &str, token: &str, [vms, keys, key]: [usize; 3]) {
        self.namespace(owner).await;
        for n in 0..vms {
            let keys = (0..keys).map(|n| format!("ssh-ed25519 AAAA {n:0>key$}"));
            let name = format!("web-{n}");
            self.vm(owner, token, &name, keys.collect()).await;
        }
    }

    /// A VM with these keys, which the API has seen.
    pub async fn vm(&self, owner: &str, token: &str, name: &str, keys: Vec<String>) {
        let mut spec = KiteVirtualMachineSpec::new(
            1,
            "1Gi".parse().unwrap(),
            "5Gi".parse().unwrap(),
            "debian-12",
            format!("{owner}-{name}"),
        );
        spec.ssh_public_keys = keys;
        let mut vm = KiteVirtualMachine::new(name, spec);
        vm.metadata.namespace = Some(names::user_namespace(owner));
        self.cluster.create(&vm).await.unwrap();
        let head = format!("GET /api/v1/vms/{name} HTTP/1.1\r\nAuthorization: Bearer {token}");
        let seen = async {
            while ask(self.address, &head, "").await.0 != 200 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, seen).await.unwrap();
    }

    /// Changes a VM.
    pub async fn touch(&self, owner: &str, name: &str, cpu: usize) {
        let key = ObjectKey::namespaced(names::user_namespace(owner), name);
        let patch = json!({"spec": {"cpu": cpu}});
        let manager = FieldManager::new("kubectl");
        let edit = self
            .cluster
            .merge_patch::<KiteVirtualMachine>(manager, &key, &patch);
        edit.await.unwrap();
    }

    /// Asserts that somebody who is signed in is answered.
    pub async fn answers(&self, token: &str) {
        let get = format!("GET /api/v1/me HTTP/1.1\r\nAuthorization: Bearer {token}");
        let edit = format!("PATCH /api/v1/me HTTP/1.1\r\nAuthorization: Bearer {token}");
        for (head, body) in [(get, ""), (edit, r#"{"email":"b@example.org"}"#)] {
            let (status, answer) = ask(self.address, &head, body).await;
            assert_eq!(status, 200, "{answer}");
        }
    }

    /// How long it takes until somebody who is signed in is answered, beside nobody.
    pub async fn quiet_answer(&self, token: &str) -> Duration {
        median_of(20, async || self.answers(token).await).await
    }

    /// How long it takes to sign in, beside nobody.
    pub async fn quiet_sign_in(&self) -> Duration {
        // Hashes wait in line: once this one was made, those of a flood that has ended were.
        self.sign_in_at_last("bob").await;
        median_of(5, async || self.sign_in_at_last("bob").await).await
    }

    /// A terminal of a VM, which is open.
    pub async fn terminal(&self, token: &str, vm: &str) -> TcpStream {
        let ticket = ticket(self.address, token, vm).await.expect("a ticket");
        let mut console = upgraded(self.address, token).await.expect("a console");
        console.write_all(&hello(&ticket)).await.unwrap();
        until(&mut console, br#"{"ready":true}"#).await;
        console
    }
}

/// A request by HTTP/1.1 on a connection of its own: the status, and the body.
pub async fn ask(address: SocketAddr, head: &str, body: &str) -> (u16, Value) {
    let mut client = TcpStream::connect(address).await.unwrap();
    let asked = format!(
        "{head}\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(asked.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Asks for news.
pub fn ask_for_news(token: &str) -> Vec<u8> {
    format!("GET /api/v1/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n")
        .into_bytes()
}

/// Asks for the socket of a console.
pub fn ask_for_console(token: &str) -> Vec<u8> {
    format!(
        "GET /api/v1/console HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\
         Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    .into_bytes()
}

/// A ticket for a terminal, unless it is refused.
pub async fn ticket(address: SocketAddr, token: &str, vm: &str) -> Option<String> {
    let head = format!("POST /api/v1/vms/{vm}/console HTTP/1.1\r\nAuthorization: Bearer {token}");
    let (_, answer) = ask(address, &head, r#"{"kind":"Terminal"}"#).await;
    answer["ticket"].as_str().map(str::to_owned)
}

/// The message that shows a ticket.
pub fn hello(ticket: &str) -> Vec<u8> {
    let text = json!({"ticket": ticket, "cols": 80, "rows": 24}).to_string();
    [&begun_frame(0x81, text.len())[..], text.as_bytes()].concat()
}

/// The beginning of a client's frame of so many bytes, whose mask changes nothing.
pub fn begun_frame(first: u8, length: usize) -> Vec<u8> {
    let size = match (u8::try_from(length), u16::try_from(length)) {
        (Ok(tiny), _) if tiny < 126 => vec![0x80 | tiny],
        (_, Ok(short)) => [&[0xfe][..], &short.to_be_bytes()].concat(),
        _ => {
            let long = u64::try_from(length).unwrap();
            [&[0xff][..], &long.to_be_bytes()].concat()
        }
    };
    [&[first][..], &size, &[0; 4]].concat()
}

/// Says something and hears which status the answer has; reads nothing beyond it.
pub async fn begin(address: SocketAddr, said: &[u8]) -> Option<(TcpStream, u16)> {
    let mut client = TcpStream::connect(address).await.ok()?;
    client.write_all(said).await.ok()?;
    let mut line = [0; 12];
    client.read_exact(&mut line).await.ok()?;
    let status = std::str::from_utf8(&line[9..]).ok()?.parse().ok()?;
    Some((client, status))
}

/// A socket of a console, for which no ticket was shown yet; none where it is refused.
pub async fn upgraded(address: SocketAddr, token: &str) -> Option<TcpStream> {
    let (client, status) = begin(address, &ask_for_console(token)).await?;
    (status == 101).then_some(client)
}

/// Reads until this came.
pub async fn until(client: &mut TcpStream, wanted: &[u8]) {
    let reading = async {
        let (mut seen, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
        loop {
            let read = client.read(&mut piece).await.unwrap();
            assert_ne!(read, 0, "it ends: {}", String::from_utf8_lossy(&seen));
            seen.extend_from_slice(&piece[..read]);
            if seen.windows(wanted.len()).any(|it| it == wanted) {
                return;
            }
            seen.drain(..seen.len().saturating_sub(wanted.len()));
        }
    };
    timeout(PATIENCE, reading).await.expect("it never comes");
}

/// Reads so many bytes, whatever they are.
pub async fn read(client: &mut TcpStream, bytes: usize) {
    let mut all = vec![0; bytes];
    let reading = client.read_exact(&mut all);
    let read = timeout(PATIENCE, reading).await.expect("it never comes");
    read.unwrap();
}

/// Whom the flood is to flood, where it was started to: the address, and a token.
pub fn whom() -> Option<(SocketAddr, String)> {
    let told = std::env::var(WHOM).ok()?;
    let (address, token) = told.split_once(' ')?;
    Some((address.parse().ok()?, token.to_owned()))
}

/// Says that the flood has begun, and keeps what it is made of until it is killed.
pub async fn go_on<T>(kept: T) {
    println!("{BEGUN}");
    std::future::pending::<()>().await;
    drop(kept);
}

/// Starts the test `flood` of this binary in another process, and waits until it has
/// begun.
pub async fn start_flood(address: SocketAddr, token: &str) -> Child {
    // Strangers have processors of their own: here they get what the server leaves them.
    let mut flood = Command::new("nice")
        .args(["-n", "19"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "flood", "--ignored", "--nocapture"])
        .env(WHOM, format!("{address} {token}"))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(flood.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains(BEGUN) {
            break;
        }
    }
    // Who is not heard out ends: after a minute the test harness says that it still runs.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    assert!(flood.try_wait().unwrap().is_none(), "the flood has ended");
    flood
}

/// Terminals that print without end, and take nothing.
pub struct Endless;

#[async_trait]
impl Terminals for Endless {
    async fn open(&self, _: TerminalRequest) -> Result<ConsoleStream, TerminalError> {
        Ok(ConsoleStream {
            input: Box::new(Self),
            output: Box::new(Self),
            recording: None,
        })
    }
}

#[async_trait]
impl ConsoleInput for Endless {
    async fn write(&mut self, _: Bytes) -> Result<(), ConsoleEnded> {
        std::future::pending().await
    }

    async fn resize(&mut self, _: TerminalSize) {}
}

#[async_trait]
impl ConsoleOutput for Endless {
    async fn next(&mut self) -> Result<Bytes, ConsoleEnded> {
        tokio::task::yield_now().await;
        Ok(Bytes::from(vec![b'y'; PRINTED]))
    }
}
