//! Drives Kite's binaries as a person would: with `kubectl`, `curl`, `ssh`.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    cell::RefCell,
    fmt::Debug,
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// How long anything may take before a test gives up. Long, for a slow and
/// busy machine; nothing is asserted about how fast things are.
pub const PATIENCE: Duration = Duration::from_secs(90);

thread_local! {
    /// Set by who knows already that what this thread waits for does not come.
    static IN_VAIN: RefCell<Arc<AtomicBool>> = RefCell::default();
}

/// Plays something in which [`eventually`] gives up as soon as `in_vain` is set.
pub fn unless<T>(in_vain: &Arc<AtomicBool>, play: impl FnOnce() -> T) -> T {
    let before = IN_VAIN.replace(Arc::clone(in_vain));
    let result = play();
    IN_VAIN.set(before);
    result
}

/// Whether the clients that the tests drive are here. Where they are missing
/// the test says so and passes; in CI (`KITE_REQUIRE_CLIENTS`) it fails.
pub fn clients_present() -> bool {
    let missing: Vec<_> = ["kubectl", "curl", "ssh", "sftp"]
        .into_iter()
        .filter(|tool| {
            !std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
                .any(|dir| dir.join(tool).is_file())
        })
        .collect();
    if missing.is_empty() {
        return true;
    }
    assert!(
        std::env::var_os("KITE_REQUIRE_CLIENTS").is_none(),
        "KITE_REQUIRE_CLIENTS is set and these are not on the PATH: {missing:?}"
    );
    let _ = writeln!(std::io::stderr(), "SKIPPED: not on the PATH: {missing:?}");
    false
}

/// A process that ends with the test.
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    pub fn start(name: &'static str, mut command: Command, log: PathBuf) -> Self {
        let output = fs::File::create(&log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        Self { name, child, log }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the process has logged `message` (as JSON) with an address,
    /// and gives that.
    pub fn logged_address(&mut self, message: &str) -> String {
        eventually(message, || {
            self.assert_running();
            let log = self.log();
            log.lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                .find(|line| line["message"] == message)
                .and_then(|line| line["address"].as_str().map(str::to_owned))
                .ok_or(log)
        })
    }

    pub fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("{} ended with {status}:\n{}", self.name, self.log());
        }
    }

    /// Sends SIGTERM and gives the exit code and how long the end took.
    pub fn terminate(mut self) -> (Option<i32>, Duration) {
        let start = Instant::now();
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()
                .unwrap()
                .success()
        );
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), start.elapsed());
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("{} does not end:\n{}", self.name, self.log());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log();
            let tail: Vec<_> = log.lines().rev().take(60).collect();
            eprintln!("--- the last lines of {}:", self.name);
            for line in tail.iter().rev() {
                eprintln!("{line}");
            }
        }
    }
}

/// Starts `kite demo` with these options besides its state directory and free ports.
pub fn start_demo(state: &Path, options: &[&str]) -> (Process, Platform) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
    command.arg("demo").arg("--state-dir").arg(state).args([
        "--apiserver-listen=127.0.0.1:0",
        "--api-listen=127.0.0.1:0",
        "--gateway-listen=127.0.0.1:0",
    ]);
    command.args(options);
    let mut process = Process::start("kite demo", command, state.with_extension("log"));
    let platform = Platform::wait(state, &mut process);
    (process, platform)
}

/// Repeats `look` until it gives something.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    let in_vain = IN_VAIN.with_borrow(Arc::clone);
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) if start.elapsed() > PATIENCE || in_vain.load(Ordering::SeqCst) => {
                panic!("{what}: last seen: {seen}")
            }
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Repeats `look` until it gives what is asserted. Whatever is asserted of something that
/// comes about by itself is waited for so, and not what usually comes a moment before it.
pub fn becomes<T: PartialEq + Debug>(what: &str, wanted: &T, mut look: impl FnMut() -> T) {
    eventually(what, || {
        let seen = look();
        if seen == *wanted {
            Ok(())
        } else {
            Err(format!("{seen:?} instead of {wanted:?}"))
        }
    });
}

/// A running platform, however many processes it has.
pub struct Platform {
    pub state: PathBuf,
    pub ready: Value,
}

impl Platform {
    /// Waits for the `ready.json` of a process in `state`.
    pub fn wait(state: &Path, process: &mut Process) -> Self {
        let path = state.join("ready.json");
        let ready = eventually("ready.json", || {
            process.assert_running();
            let text = fs::read(&path).map_err(|error| error.to_string())?;
            serde_json::from_slice(&text).map_err(|error| error.to_string())
        });
        Self {
            state: state.to_owned(),
            ready,
        }
    }

    pub fn text(&self, field: &str) -> String {
        self.ready[field]
            .as_str()
            .unwrap_or_else(|| panic!("no {field} in {}", self.ready))
            .to_owned()
    }

    pub fn kubectl(&self, args: &[&str]) -> Output {
        self.kubectl_with(args, "")
    }

    pub fn kubectl_with(&self, args: &[&str], input: &str) -> Output {
        let mut command = Command::new("kubectl");
        command
            .args(args)
            .env("KUBECONFIG", self.state.join("kubeconfig"))
            // kubectl caches discovery by host; every run here is a new host.
            .env("KUBECACHEDIR", self.state.join("kubecache"))
            .env("HOME", &self.state);
        run(command, input)
    }

    /// `kubectl` that must succeed; gives its output.
    pub fn kubectl_ok(&self, args: &[&str]) -> String {
        let output = self.kubectl(args);
        assert!(
            output.status.success(),
            "kubectl {args:?}: {}",
            show(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn apply(&self, manifest: &str) -> Output {
        self.kubectl_with(&["apply", "-f", "-"], manifest)
    }

    pub fn apply_ok(&self, manifest: &str) {
        let output = self.apply(manifest);
        assert!(output.status.success(), "kubectl apply: {}", show(&output));
    }

    /// One HTTP request with curl: status and body.
    pub fn curl(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> (u16, Value) {
        let mut command = Command::new("curl");
        command.args([
            "-sS",
            "--max-time",
            "60",
            "-X",
            method,
            "-w",
            "\n%{http_code}",
        ]);
        if let Some(token) = token {
            command.args(["-H", &format!("Authorization: Bearer {token}")]);
        }
        if body.is_some() {
            command.args([
                "-H",
                "Content-Type: application/json",
                "--data-binary",
                "@-",
            ]);
        }
        command.arg(format!("{}{path}", self.text("api")));
        let output = run(command, &body.map(Value::to_string).unwrap_or_default());
        assert!(
            output.status.success(),
            "curl {method} {path}: {}",
            show(&output)
        );
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        let body = serde_json::from_str(body).unwrap_or_else(|_| Value::from(body));
        (status.parse().unwrap(), body)
    }

    /// `curl` that must answer `status`.
    pub fn curl_ok(
        &self,
        status: u16,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: Option<&Value>,
    ) -> Value {
        let (got, answer) = self.curl(method, path, token, body);
        assert_eq!(got, status, "{method} {path}: {answer}");
        answer
    }

    /// OpenSSH's `program` (`ssh` or `sftp`) towards the gateway, with a password.
    pub fn openssh(
        &self,
        program: &str,
        user: &str,
        password: &str,
        args: &[&str],
        input: &str,
    ) -> Output {
        let askpass = self.state.join("askpass");
        if !askpass.exists() {
            fs::write(
                &askpass,
                "#!/bin/sh\nprintf '%s\\n' \"$KITE_TEST_PASSWORD\"\n",
            )
            .unwrap();
            fs::set_permissions(&askpass, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let gateway = self.text("gateway");
        let (host, port) = gateway.rsplit_once(':').unwrap();
        let mut command = Command::new(program);
        command
            .args(["-F", "none", "-o", "StrictHostKeyChecking=yes"])
            .arg("-o")
            .arg(format!(
                "UserKnownHostsFile={}",
                self.state.join("known_hosts").display()
            ))
            .args([
                "-o",
                "PubkeyAuthentication=no",
                "-o",
                "NumberOfPasswordPrompts=1",
                "-o",
                "LogLevel=ERROR",
            ])
            .args(["-o", &format!("Port={port}")]);
        if program == "sftp" {
            command.args(args).arg(format!("{user}@{host}"));
        } else {
            command.arg(format!("{user}@{host}")).args(args);
        }
        command
            .env("SSH_ASKPASS", &askpass)
            .env("SSH_ASKPASS_REQUIRE", "force")
            .env("KITE_TEST_PASSWORD", password);
        run(command, input)
    }
}

/// Runs `command` to its end with `input`, within [`PATIENCE`].
pub fn run(mut command: Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let pid = child.id();
    let (done, waiter) = std::sync::mpsc::channel::<()>();
    let shown = format!("{command:?}");
    let guard = thread::spawn(move || {
        if waiter
            .recv_timeout(PATIENCE)
            .is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            eprintln!("killed after {PATIENCE:?}: {shown}");
            let _ = Command::new("kill")
                .args(["-KILL", &pid.to_string()])
                .status();
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    let _ = (writer.join(), guard.join());
    output
}

pub fn show(output: &Output) -> String {
    format!(
        "{}\nstdout: {}\nstderr: {}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
