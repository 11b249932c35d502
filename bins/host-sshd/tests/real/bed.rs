//! A host of its own for each test: namespaces, an sshd, clients.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::outcome::{Occupant, Run, Session, text};
use crate::{host, process};

/// How long anything may take before a test gives up; nothing is asserted about how
/// fast things are.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host.
pub struct Bed {
    /// Lives as long as the namespaces shall; nothing where there are none.
    holder: Option<Child>,
    dir: TempDir,
    /// Where sshd is to listen at first.
    pub from: u16,
    pub to: u16,
    /// Directories of commands that go before those of the host.
    path: Option<PathBuf>,
}

impl Bed {
    /// A host, or nothing where there cannot be one; then it says why.
    pub fn new() -> Option<Self> {
        if !host::is_fit() {
            return None;
        }
        let holder = host::namespaces();
        let (from, to) = match holder {
            Some(_) => (22, 2222),
            None => (host::free_port(), host::free_port()),
        };
        let dir = tempfile::tempdir().unwrap();
        let bed = Self {
            holder,
            dir,
            from,
            to,
            path: None,
        };
        if bed.is_isolated() {
            bed.sh(
                "ip link set lo up; for dir in /run /etc/ssh /etc/systemd/system /var/lib; do
                    mkdir -p $dir; mount -t tmpfs tmpfs $dir; done",
            );
        }
        bed.sh("mkdir -p /run/sshd");
        for key in ["host_key", "user_key"] {
            let path = bed.path(key).display().to_string();
            bed.sh(&format!("ssh-keygen -q -t ed25519 -N '' -f {path}"));
        }
        fs::copy(bed.path("user_key.pub"), bed.path("authorized_keys")).unwrap();
        let host = fs::read_to_string(bed.path("host_key.pub")).unwrap();
        fs::write(bed.path("known_hosts"), format!("* {host}")).unwrap();
        Some(bed)
    }

    /// The same, where it has to have port 22 and `/etc/ssh` for itself.
    pub fn isolated() -> Option<Self> {
        let bed = Self::new()?;
        if !bed.is_isolated() {
            host::skip("`unshare --net --mount` is not allowed here");
            return None;
        }
        Some(bed)
    }

    pub fn is_isolated(&self) -> bool {
        self.holder.is_some()
    }

    /// A path in the directory of this host.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What any configuration here begins with, so that root can log in by a key.
    pub fn basics(&self) -> String {
        let dir = self.dir.path().display();
        format!(
            "HostKey {dir}/host_key\nPidFile {dir}/sshd.pid\nAuthorizedKeysFile {dir}/authorized_keys\n\
             UsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\nMaxStartups 500\n"
        )
    }

    /// A configuration that names its port, in this host's directory.
    pub fn config(&self) -> PathBuf {
        let path = self.path("sshd_config");
        let included = self.path("sshd_config.d");
        fs::create_dir_all(&included).unwrap();
        fs::write(
            included.join("50-site.conf"),
            "# of this site\nX11Forwarding no\n",
        )
        .unwrap();
        let text = format!(
            "# The main file.\nInclude {}/*.conf\nPort {} # as ever\n{}\n\
             Match User nobody\n    AllowTcpForwarding no\n",
            included.display(),
            self.from,
            self.basics()
        );
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        path
    }

    /// A command on this host.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = match &self.holder {
            Some(holder) => {
                let mut command = Command::new("nsenter");
                command
                    .args(["--net", "--mount", "--target"])
                    .arg(holder.id().to_string())
                    .arg("--")
                    .arg(program.as_ref());
                command
            }
            None => Command::new(program.as_ref()),
        };
        if let Some(first) = &self.path {
            let rest = std::env::var("PATH").unwrap();
            command.env("PATH", format!("{}:{rest}", first.display()));
        }
        command
    }

    /// Has commands found in a directory before those of the host.
    pub fn prefer(&mut self, dir: PathBuf) {
        self.path = Some(dir);
    }

    /// Runs a shell script on this host; gives what it prints.
    pub fn sh(&self, script: &str) -> String {
        let output = self.command("sh").args(["-ec", script]).output().unwrap();
        assert!(
            output.status.success(),
            "{script}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    /// Starts sshd with a configuration, and waits until it has written its pid file.
    pub fn start(&self, config: &Path) {
        self.start_as("/usr/sbin/sshd", config);
    }

    /// The same with another program.
    pub fn start_as(&self, program: &str, config: &Path) {
        self.sh(&format!("{program} -f {}", config.display()));
        await_that("sshd answers", || self.login(self.from));
    }

    /// The process id of sshd.
    pub fn sshd(&self) -> u32 {
        let pid = fs::read_to_string(self.path("sshd.pid")).unwrap();
        pid.trim().parse().unwrap()
    }

    /// `kite host-sshd`, as a process.
    pub fn kite(&self, arguments: &[&str]) -> Run {
        self.kite_with(arguments, &[])
    }

    /// The same, with more in its environment.
    pub fn kite_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
        let child = self.start_kite(arguments, environment);
        Run::of(&child.wait_with_output().unwrap())
    }

    /// The same, not waited for.
    fn start_kite(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Child {
        let state = self.path("state").display().to_string();
        let mut all: Vec<&str> = arguments.to_vec();
        all.extend(["--output", "json", "--state-dir", &state]);
        self.this_program()
            .env(process::ARGUMENTS, all.join("\n"))
            .envs(environment.iter().copied())
            .spawn()
            .unwrap()
    }

    /// `kite host-sshd` as somebody without rights.
    pub fn kite_as_nobody(&self, arguments: &[&str]) -> Run {
        let program = self.path("for-all");
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        for path in [self.dir.path(), &program] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut command = self.command("setpriv");
        command
            .args([
                "--reuid",
                "65534",
                "--regid",
                "65534",
                "--clear-groups",
                "--",
            ])
            .arg(program);
        let arguments = [arguments, &["--output", "json"]].concat();
        let command = as_a_process(&mut command).env(process::ARGUMENTS, arguments.join("\n"));
        Run::of(&command.output().unwrap())
    }

    /// The same, stopped at a message that begins so until `meanwhile` is done.
    pub fn kite_stopped<T>(
        &self,
        arguments: &[&str],
        at: &str,
        meanwhile: impl FnOnce() -> T,
    ) -> (Run, T) {
        let (stopped, go_on) = (self.path("stopped-here"), self.path("go-on"));
        let script = format!(
            "touch {}; until [ -e {1} ]; do sleep 0.02; done; rm {1}",
            stopped.display(),
            go_on.display()
        );
        let environment = [(process::ON, at), (process::DO, &script)];
        let child = self.start_kite(arguments, &environment);
        await_that("it comes to the message", || stopped.exists());
        fs::remove_file(&stopped).unwrap();
        let done = meanwhile();
        fs::write(&go_on, "").unwrap();
        (Run::of(&child.wait_with_output().unwrap()), done)
    }

    fn this_program(&self) -> Command {
        let mut command = self.command(std::env::current_exe().unwrap());
        as_a_process(&mut command);
        command
    }

    /// `move` from one port of this host to the other.
    pub fn move_with(&self, more: &[&str], environment: &[(&str, &str)]) -> Run {
        let [from, to] = self.ports();
        let arguments = ["move", "--from", &from, "--to", &to];
        self.kite_with(&[&arguments, more].concat(), environment)
    }

    /// `status` of this host's sshd; where there are no namespaces others run beside it.
    pub fn status(&self) -> Run {
        let config = self.path("sshd_config").display().to_string();
        self.kite(&["status", "--config", &config])
    }

    /// Both ports, as arguments.
    pub fn ports(&self) -> [String; 2] {
        [self.from, self.to].map(|port| port.to_string())
    }

    /// A process that is no sshd and listens on a port until it is dropped.
    pub fn occupy(&self, port: u16) -> Occupant {
        Occupant::start(self.this_program(), process::LISTEN, port)
    }

    /// One that does not listen, and has the port all the same.
    pub fn bind(&self, port: u16) -> Occupant {
        Occupant::start(self.this_program(), process::BIND, port)
    }

    /// A login with a key.
    fn ssh(&self, port: u16) -> Command {
        let mut command = self.command("ssh");
        command
            .args([
                "-F",
                "none",
                "-o",
                "BatchMode=yes",
                "-o",
                "IdentitiesOnly=yes",
            ])
            .arg("-o")
            .arg(format!(
                "UserKnownHostsFile={}",
                self.path("known_hosts").display()
            ))
            .arg("-i")
            .arg(self.path("user_key"))
            .arg("-p")
            .arg(port.to_string())
            .arg("root@127.0.0.1");
        command
    }

    /// Whether somebody can log in.
    pub fn login(&self, port: u16) -> bool {
        let output = self.ssh(port).args(["echo", "in"]).output().unwrap();
        text(&output.stdout) == "in\n"
    }

    /// A session that stays open.
    pub fn session(&self, port: u16) -> Session {
        let mut command = self.ssh(port);
        command.arg("cat");
        Session::open(command)
    }

    /// All files of a directory on this host, with their rights and what is in them.
    pub fn files(&self, dir: impl AsRef<Path>) -> BTreeMap<PathBuf, String> {
        // Namespaces show from outside.
        let root = match &self.holder {
            Some(holder) => PathBuf::from(format!("/proc/{}/root", holder.id())),
            None => PathBuf::from("/"),
        };
        let dir = root.join(dir.as_ref().strip_prefix("/").unwrap());
        let mut files = BTreeMap::new();
        let mut dirs = vec![dir.clone()];
        while let Some(next) = dirs.pop() {
            for entry in fs::read_dir(next).unwrap().flatten() {
                let path = entry.path();
                let metadata = entry.metadata().unwrap();
                let rights = format!("{:o} {} ", metadata.mode(), metadata.uid());
                let content = if metadata.is_dir() {
                    dirs.push(path);
                    continue;
                } else if metadata.is_symlink() {
                    fs::read_link(&path).unwrap().display().to_string()
                } else {
                    text(&fs::read(&path).unwrap())
                };
                let name = path.strip_prefix(&dir).unwrap().to_owned();
                files.insert(name, rights + &content);
            }
        }
        files
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        match &mut self.holder {
            Some(holder) => {
                host::end_all_in(&format!("/proc/{}/ns/net", holder.id()));
                let _ = holder.wait();
            }
            None => {
                if self.path("sshd.pid").exists() {
                    host::end(self.sshd());
                }
            }
        }
    }
}

/// Waits until something holds.
pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn as_a_process(command: &mut Command) -> &mut Command {
    command
        .args(["--exact", "process::as_a_process", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
}
