//! A gateway before guests, and OpenSSH's clients to drive it.
#![allow(dead_code, reason = "not every test file uses all of it")]

pub mod beside;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kite_core::password::PasswordHash;
use kite_fake_kubevirt::guest::{Guest, GuestConfig, GuestHandle};
use kite_gateway::audit::Record;
use kite_gateway::fallback::{Host, HostFallback};
use kite_gateway::kubernetes::Reporter;
use kite_gateway::{
    AuditSink, Config, Credential, Gateway, GatewayBuilder, Infrastructure, LoginName, LoginRule,
    Recordings, Route, Routes, Sessions, Starter, Target, VmKey, VmState,
};
use parking_lot::Mutex;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey, PublicKey};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub const PASSWORD: &str = "correct horse";

/// How long anything may take before a test gives up: long, for a slow and busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `look` gives something.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, waiting).await;
    found.unwrap_or_else(|_| panic!("never: {what}"))
}

/// Waits until there is something at `path`.
pub async fn appears(path: &Path) {
    let what = path.display().to_string();
    until(&what, async || path.exists().then_some(())).await;
}

/// Connects to a socket, which is there a moment before anybody listens on it.
pub async fn reach(path: &Path) -> std::os::unix::net::UnixStream {
    let what = path.display().to_string();
    until(&what, async || {
        std::os::unix::net::UnixStream::connect(path).ok()
    })
    .await
}

/// Writes into a pipe for as long as it takes more. How much that was.
pub fn fill(mut pipe: impl std::io::Write + Send + 'static) -> Arc<AtomicUsize> {
    let written = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&written);
    std::thread::spawn(move || {
        while pipe.write_all(&[0; 8192]).is_ok() {
            count.fetch_add(8192, Ordering::Relaxed);
        }
    });
    written
}

/// Waits until what goes into a pipe has come and then stood still for a while.
pub async fn stands_still(written: &AtomicUsize) {
    let (mut before, mut still) = (0, 0);
    until("it stands still", async || {
        let now = written.load(Ordering::Relaxed);
        still = if now > 0 && now == before {
            still + 1
        } else {
            0
        };
        before = now;
        (still > 50).then_some(())
    })
    .await;
}

pub fn new_key() -> PrivateKey {
    PrivateKey::random(&mut rand::rng(), Algorithm::Ed25519).unwrap()
}

/// Routes that a test can change while the gateway runs.
#[derive(Clone, Default)]
pub struct Table {
    routes: Arc<Mutex<HashMap<String, Arc<Route>>>>,
    /// How often the gateway looked for a route.
    looks: Arc<AtomicUsize>,
}

impl Table {
    pub fn set(&self, login: &str, route: Route) {
        self.routes.lock().insert(login.to_owned(), Arc::new(route));
    }

    pub fn take(&self, login: &str) -> Route {
        let route = self.routes.lock().remove(login).unwrap();
        Arc::unwrap_or_clone(route)
    }

    pub fn change(&self, login: &str, change: impl FnOnce(&mut Route)) {
        let mut table = self.routes.lock();
        change(Arc::make_mut(table.get_mut(login).unwrap()));
    }

    /// Waits until the gateway has looked for a route so many more times.
    pub async fn looked_at(&self, times: usize) {
        let enough = self.looks.load(Ordering::Relaxed) + times;
        until("the gateway looks at its routes", async || {
            (self.looks.load(Ordering::Relaxed) >= enough).then_some(())
        })
        .await;
    }
}

impl Routes for Table {
    fn find(&self, login: &LoginName) -> Option<Arc<Route>> {
        let found = self.routes.lock().get(login.as_str()).cloned();
        self.looks.fetch_add(1, Ordering::Relaxed);
        found
    }
}

/// Starts machines in a moment, or refuses to.
#[derive(Clone, Default)]
pub struct Starts {
    table: Table,
    pub asked: Arc<AtomicUsize>,
    pub refuses: Arc<Mutex<Option<String>>>,
}

#[async_trait::async_trait]
impl Starter for Starts {
    async fn start(&self, route: &Route) -> Result<(), String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(why) = self.refuses.lock().clone() {
            return Err(why);
        }
        let (table, name) = (self.table.clone(), route.vm.name.clone());
        tokio::spawn(async move {
            let states = [VmState::Starting("it boots".into()), VmState::Running];
            for state in states {
                tokio::time::sleep(Duration::from_millis(600)).await;
                table.change(&name, |route| route.state = state);
            }
        });
        Ok(())
    }
}

/// Keeps the audit records.
#[derive(Clone, Default)]
pub struct Records(Arc<Mutex<Vec<serde_json::Value>>>);

impl AuditSink for Records {
    fn record(&self, record: &Record) {
        self.0.lock().push(serde_json::to_value(record).unwrap());
    }
}

impl Records {
    /// Whether there is a record that fits.
    pub fn any(&self, fits: impl Fn(&serde_json::Value) -> bool) -> bool {
        self.0.lock().iter().any(fits)
    }

    /// Waits for a record that fits.
    pub async fn find(&self, fits: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        for _ in 0..3_000 {
            if let Some(record) = self.0.lock().iter().find(|r| fits(r)) {
                return record.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no such record in {:#?}", self.0.lock());
    }
}

pub struct Bed {
    pub dir: tempfile::TempDir,
    pub address: SocketAddr,
    pub table: Table,
    pub records: Records,
    pub starts: Starts,
    pub user_key: PrivateKey,
    pub vm_key: Arc<PrivateKey>,
    pub shutdown: CancellationToken,
    pub sessions: Sessions,
    pub served: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Bed {
    pub async fn new() -> Self {
        Self::with(Config {
            drain_grace: Duration::from_secs(1),
            ..Config::default()
        })
        .await
    }

    pub async fn with(config: Config) -> Self {
        Self::behind(Infrastructure::default(), config).await
    }

    /// With these addresses between clients and the gateway.
    pub async fn behind(infrastructure: Infrastructure, config: Config) -> Self {
        let builder = Gateway::builder().infrastructure(infrastructure);
        let table = Table::default();
        Self::build(builder, config, table.clone(), table, Vec::new()).await
    }

    /// With more host keys.
    pub async fn known_by(config: Config, host_keys: Vec<PrivateKey>) -> Self {
        let builder = Gateway::builder();
        let known = host_keys.iter().map(|key| key.public_key().clone());
        let known: Vec<PublicKey> = known.collect();
        let builder = host_keys
            .into_iter()
            .fold(builder, GatewayBuilder::host_key);
        let table = Table::default();
        let bed = Self::build(builder, config, table.clone(), table, Vec::new()).await;
        let file = bed.path("known_hosts");
        let mut file = std::fs::File::options().append(true).open(file).unwrap();
        for key in known {
            use std::io::Write as _;
            let key = key.to_openssh().unwrap();
            writeln!(file, "[127.0.0.1]:{} {key}", bed.address.port()).unwrap();
        }
        bed
    }

    /// With every terminal session recorded.
    pub async fn recorded(recordings: Recordings) -> Self {
        let table = Table::default();
        let config = Config {
            drain_grace: Duration::from_secs(1),
            ..Config::default()
        };
        Self::make(config, table.clone(), table, Some(recordings), None).await
    }

    /// Whose connections are reported.
    pub async fn reported(reporter: Reporter) -> Self {
        let table = Table::default();
        let config = Config {
            drain_grace: Duration::from_secs(1),
            ..Config::default()
        };
        Self::make(config, table.clone(), table, None, Some(reporter)).await
    }

    /// Before other routes than a [`Table`].
    pub async fn over(routes: impl Routes) -> Self {
        Self::make(Config::default(), Table::default(), routes, None, None).await
    }

    /// With a host behind the names that the table does not have.
    pub async fn before_host(config: Config, host: Host) -> Self {
        let table = Table::default();
        let routes = HostFallback::new(table.clone(), Some(host));
        Self::make(config, table, routes, None, None).await
    }

    async fn make(
        config: Config,
        table: Table,
        routes: impl Routes,
        recordings: Option<Recordings>,
        reporter: Option<Reporter>,
    ) -> Self {
        let builder = match recordings {
            Some(recordings) => Gateway::builder().recordings(recordings),
            None => Gateway::builder(),
        };
        let mut sinks: Vec<Box<dyn AuditSink>> = Vec::new();
        if let Some(reporter) = reporter {
            sinks.push(Box::new(reporter));
        }
        Self::build(builder, config, table, routes, sinks).await
    }

    async fn build(
        builder: GatewayBuilder,
        config: Config,
        table: Table,
        routes: impl Routes,
        mut sinks: Vec<Box<dyn AuditSink>>,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let host_key = new_key();
        let user_key = new_key();
        let records = Records::default();
        let starts = Starts {
            table: table.clone(),
            ..Starts::default()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        sinks.push(Box::new(records.clone()));
        let gateway = builder
            .config(config)
            .routes(routes)
            .audit(sinks)
            .starter(starts.clone())
            .host_key(host_key.clone())
            .build()
            .unwrap();
        let sessions = gateway.sessions();
        let served = tokio::spawn(gateway.serve(listener, shutdown.clone()));
        let known = host_key.public_key().to_openssh().unwrap();
        std::fs::write(
            dir.path().join("known_hosts"),
            format!("[127.0.0.1]:{} {known}\n", address.port()),
        )
        .unwrap();
        private_file(
            &dir.path().join("key"),
            user_key.to_openssh(LineEnding::LF).unwrap().as_bytes(),
            0o600,
        );
        private_file(
            &dir.path().join("askpass"),
            b"#!/bin/sh\necho \"$KITE_TEST_PASSWORD\"\n",
            0o700,
        );
        Self {
            dir,
            address,
            table,
            records,
            starts,
            user_key,
            vm_key: Arc::new(new_key()),
            shutdown,
            sessions,
            served,
        }
    }

    /// A guest that lets the gateway in as `user`.
    pub async fn guest(&self, user: &str) -> GuestHandle {
        let keys = vec![self.vm_key.public_key().clone()];
        let config = GuestConfig::new(format!("vm-{user}"), user, keys).unwrap();
        Guest::start(config).await.unwrap()
    }

    /// The route to an sshd that lets `user` in with the gateway's key.
    pub fn route(
        &self,
        login: &str,
        address: SocketAddr,
        user: &str,
        host_key: PublicKey,
    ) -> Route {
        Route {
            vm: VmKey {
                namespace: "kite-user-ann".into(),
                name: login.into(),
            },
            uid: "1".into(),
            owner: Some("ann".into()),
            state: VmState::Running,
            start_on_connect: false,
            rule: LoginRule::KeyOrPassword,
            target: Some(Target {
                addresses: vec![address],
                user: user.into(),
                credential: Credential::Key(Arc::clone(&self.vm_key)),
                host_key,
            }),
            // bcrypt of the lowest cost, so that tests are quick.
            password: Some(PasswordHash::from_phc(bcrypt::hash(PASSWORD, 4).unwrap())),
            authorized_keys: vec![self.user_key.public_key().clone().into()],
            authorities: Vec::new(),
        }
    }

    /// A guest under the login name `login`.
    pub async fn machine(&self, login: &str) -> GuestHandle {
        let guest = self.guest(login).await;
        let route = self.route(login, guest.address(), login, guest.host_key().clone());
        self.table.set(login, route);
        guest
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// An OpenSSH client with options for this gateway; log in with the key.
    pub fn client(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let dir = self.dir.path().display();
        let port = if program == "ssh" { "-p" } else { "-P" };
        command
            .args(["-F", "none", port, &self.address.port().to_string()])
            .args(["-o", &format!("UserKnownHostsFile={dir}/known_hosts")])
            .args(["-o", "StrictHostKeyChecking=yes"])
            .args(["-o", "NumberOfPasswordPrompts=1"])
            .args(["-o", "IdentitiesOnly=yes"])
            .args(["-o", "LogLevel=INFO"])
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::null());
        command
    }

    pub fn with_key(&self, program: &str) -> Command {
        let mut command = self.client(program);
        command
            .arg("-i")
            .arg(self.path("key"))
            .args(["-o", "BatchMode=yes"]);
        command
    }

    /// OpenSSH's client by the connection of a master at `control`, or with `-M` that
    /// master, to the login name `web`.
    pub fn mux(&self, control: &Path, extra: &[&str]) -> Command {
        let mut client = self.with_key("ssh");
        client.arg("-S").arg(control).args(extra);
        client.args(["-l", "web", "127.0.0.1"]);
        client
    }

    pub fn with_password(&self, password: &str, method: &str) -> Command {
        let mut command = self.client("ssh");
        command
            .args(["-o", &format!("PreferredAuthentications={method}")])
            .env("SSH_ASKPASS", self.path("askpass"))
            .env("SSH_ASKPASS_REQUIRE", "force")
            .env("KITE_TEST_PASSWORD", password);
        command
    }

    /// Runs `command` in the machine behind `login`.
    pub async fn ssh(&self, login: &str, command: &str) -> Output {
        let mut client = self.with_key("ssh");
        client.args(["-l", login, "127.0.0.1", command]);
        run(client, Vec::new()).await
    }

    /// A session of OpenSSH's client by key, in which `command` gives back what it gets.
    pub async fn session(&self, login: &str, command: &str) -> Session {
        let mut client = self.with_key("ssh");
        client.args(["-l", login, "127.0.0.1", command]);
        client.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = tokio::process::Command::from(client);
        let mut client = client.kill_on_drop(true).spawn().unwrap();
        let mut session = Session {
            to: client.stdin.take().unwrap(),
            from: client.stdout.take().unwrap(),
            client,
        };
        session.slowest_echo(1).await;
        session
    }

    /// Waits until nobody is connected, which the gateway sees a moment after its clients.
    pub async fn emptied(&self) {
        for _ in 0..3_000 {
            if self.sessions.list().is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("still connected: {:#?}", self.sessions.list());
    }

    pub async fn end(self) {
        self.shutdown.cancel();
        self.served.await.unwrap().unwrap();
    }
}

/// Somebody who is logged in and types.
pub struct Session {
    to: tokio::process::ChildStdin,
    from: tokio::process::ChildStdout,
    #[expect(dead_code, reason = "it goes with the session")]
    client: tokio::process::Child,
}

impl Session {
    /// Types so often, and gives the longest time until it was on the screen.
    pub async fn slowest_echo(&mut self, times: usize) -> Duration {
        let mut slowest = Duration::ZERO;
        for _ in 0..times {
            let started = std::time::Instant::now();
            self.to.write_all(b"key\n").await.unwrap();
            let mut back = [0; 4];
            let reading = self.from.read_exact(&mut back);
            let read = tokio::time::timeout(Duration::from_secs(300), reading).await;
            read.expect("what is typed comes back").unwrap();
            assert_eq!(&back, b"key\n");
            slowest = slowest.max(started.elapsed());
        }
        slowest
    }
}

pub fn private_file(path: &Path, content: &[u8], mode: u32) {
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs a client with `input` on its standard input, off the async threads, and
/// kills it after [`PATIENCE`].
pub async fn run(mut command: Command, input: Vec<u8>) -> Output {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().expect("OpenSSH's clients are installed");
        let mut stdin = child.stdin.take().unwrap();
        let id = child.id();
        let (done, over) = std::sync::mpsc::channel::<()>();
        let guard = std::thread::spawn(move || {
            let timed_out = over.recv_timeout(PATIENCE).is_err();
            if timed_out {
                let _ = Command::new("kill").arg(id.to_string()).status();
            }
            timed_out
        });
        let writing = std::thread::spawn(move || {
            use std::io::Write;
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        let _ = done.send(());
        assert!(!guard.join().unwrap(), "{command:?} hung");
        writing.join().unwrap();
        output
    })
    .await
    .unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Bytes that repeat with no power of two.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..251).cycle().take(length).collect()
}

/// A real OpenSSH server that plays a VM, run as whoever runs the test.
pub struct Sshd {
    child: std::process::Child,
    pub address: SocketAddr,
    pub host_key: PublicKey,
    pub user: String,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sshd {
    /// Starts one that lets the gateway in; says so and gives `None` where
    /// there is no sshd.
    pub async fn start(bed: &Bed, options: &str) -> Option<Self> {
        let program = Path::new("/usr/sbin/sshd");
        if !program.exists() {
            eprintln!(
                "skipped: there is no {} (Debian: openssh-server)",
                program.display()
            );
            return None;
        }
        // Where sshd separates privileges it insists on this directory.
        let _ = std::fs::create_dir_all("/run/sshd");
        let key = new_key();
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let dir = bed.dir.path().display();
        private_file(
            &bed.path("vm_host_key"),
            key.to_openssh(LineEnding::LF).unwrap().as_bytes(),
            0o600,
        );
        private_file(
            &bed.path("vm_authorized_keys"),
            bed.vm_key.public_key().to_openssh().unwrap().as_bytes(),
            0o600,
        );
        let config = format!(
            "ListenAddress {address}\nHostKey {dir}/vm_host_key\nAuthorizedKeysFile {dir}/vm_authorized_keys\n\
             StrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\nMaxStartups 500\n\
             MaxSessions 100\nAcceptEnv *\nX11Forwarding yes\nSubsystem sftp internal-sftp\nLogLevel ERROR\n{options}\n"
        );
        std::fs::write(bed.path("vm_config"), config).unwrap();
        let mut child = Command::new(program)
            .args(["-D", "-e", "-f"])
            .arg(bed.path("vm_config"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        until("sshd listens", async || {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "sshd ended: {ended:?}");
            tokio::net::TcpStream::connect(address).await.ok()
        })
        .await;
        let name = Command::new("id").arg("-un").output().unwrap();
        Some(Self {
            child,
            address,
            host_key: key.public_key().clone(),
            user: text(&name.stdout).trim().to_owned(),
        })
    }

    /// Puts it behind the login name `login`.
    pub fn behind(&self, bed: &Bed, login: &str) {
        let route = bed.route(login, self.address, &self.user, self.host_key.clone());
        bed.table.set(login, route);
    }
}

/// Resident memory of this process in KiB.
pub fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Resident memory of this process in MiB.
pub fn resident() -> u64 {
    resident_kib() / 1024
}

/// A client of russh's that takes any host key; what is checked of them, OpenSSH's
/// clients check.
pub struct Trusting;

impl russh::client::Handler for Trusting {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        _: &russh::keys::PublicKeyOrCertificate,
    ) -> Result<bool, russh::Error> {
        Ok(true)
    }
}
