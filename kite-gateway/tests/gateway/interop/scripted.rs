//! Libraries of other languages. For each there is a script that is called once
//! for each feature, told by `KITE_INTEROP_LAB` where everything is.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::PASSWORD;
use crate::interop::lab::{Lab, Way, node_modules, python};
use crate::interop::process::Call;
use crate::interop::table::{Feature, Outcome, Row, fine};

pub const PARAMIKO: &str = "paramiko";
pub const ASYNCSSH: &str = "asyncssh";
pub const SSH2: &str = "ssh2";
pub const LIBSSH2: &str = "libssh2";

/// A library with the script that uses it.
pub struct Script<'a> {
    lab: &'a Lab,
    name: &'static str,
    program: PathBuf,
    file: &'static str,
}

/// What the libraries do; what a script calls it, and how the gateway calls
/// it where it is a way to log in.
const COMMON: [(Feature, &str, Option<&str>); 11] = [
    (Feature::Key, "key", Some("publickey")),
    (Feature::Password, "password", Some("password")),
    (
        Feature::Interactive,
        "interactive",
        Some("keyboard-interactive"),
    ),
    (Feature::Shell, "shell", None),
    (Feature::Exec, "exec", None),
    (Feature::Signal, "signal", None),
    (Feature::Stderr, "stderr", None),
    (Feature::Local, "local", None),
    (Feature::Remote, "remote", None),
    (Feature::Agent, "agent", None),
    (Feature::Channels, "channels", None),
];

pub async fn paramiko(lab: &Lab) -> Row {
    let missing = "no paramiko for KITE_PYTHON (PyPI: paramiko; .ci/run installs it)";
    let script = Script::of(lab, PARAMIKO);
    script.row(missing, &[Feature::Sftp]).await
}

pub async fn asyncssh(lab: &Lab) -> Row {
    let missing = "no asyncssh for KITE_PYTHON (PyPI: asyncssh; .ci/run installs it)";
    let more = [Feature::Sftp, Feature::OldScp, Feature::Dynamic];
    Script::of(lab, ASYNCSSH).row(missing, &more).await
}

/// By its binding of Python, whose wheel has a libssh2 of its own: Debian 12's lacks
/// what the gateway takes.
pub async fn libssh2(lab: &Lab) -> Row {
    let missing = "no ssh2 for KITE_PYTHON (PyPI: ssh2-python; .ci/run installs it)";
    let script = Script::of(lab, LIBSSH2);
    script.row(missing, &[Feature::Sftp, Feature::OldScp]).await
}

pub async fn ssh2(lab: &Lab) -> Row {
    let missing = "no node with ssh2 in KITE_NODE_MODULES (npm: ssh2; .ci/run installs it)";
    Script::of(lab, SSH2).row(missing, &[Feature::Sftp]).await
}

impl<'a> Script<'a> {
    /// The script of a library, by its login name.
    pub fn of(lab: &'a Lab, name: &'static str) -> Self {
        let (program, file) = match name {
            PARAMIKO => (python(), "paramiko_.py"),
            ASYNCSSH => (python(), "asyncssh_.py"),
            LIBSSH2 => (python(), "libssh2_.py"),
            _ => ("node".into(), "ssh2.js"),
        };
        Self {
            lab,
            name,
            program,
            file,
        }
    }

    /// The lines that it prints, told more than it is otherwise.
    pub async fn lines(&self, cell: &str, more: Value) -> Result<Vec<String>, String> {
        let command = self.command_with(cell, None, more);
        let done = Call::new(command).bulk().succeed().await?;
        Ok(done.stdout.lines().map(str::to_owned).collect())
    }

    async fn row(&self, missing: &str, more: &[Feature]) -> Row {
        let version = match Call::new(self.command("version", None)).succeed().await {
            Ok(done) => done.stdout.trim().to_owned(),
            Err(_) => return Row::skipped(self.name, missing),
        };
        let mut row = Row::new(self.name, version);
        for (feature, cell, method) in COMMON {
            // Its binding has no way to answer for an agent.
            if self.name == LIBSSH2 && feature == Feature::Agent {
                continue;
            }
            row.cell(feature, self.run(cell, method)).await;
        }
        for feature in more {
            let outcome = match feature {
                Feature::Sftp => self.carry("sftp").await,
                Feature::OldScp => self.carry("scp").await,
                _ => self.run("dynamic", None).await,
            };
            row.cell(*feature, async { outcome }).await;
        }
        row
    }

    async fn run(&self, cell: &str, method: Option<&str>) -> Outcome {
        let done = Call::new(self.command(cell, None)).succeed().await?;
        if let Some(method) = method {
            return self.lab.was_let_in(self.name, method);
        }
        match done.stdout.trim() {
            "" => fine(),
            seen => Ok(format!("ok {seen}")),
        }
    }

    async fn carry(&self, cell: &str) -> Outcome {
        let calls = |way: &Way| vec![Call::new(self.command(cell, Some(way)))];
        self.lab.carry(self.name, crate::interop::SIZE, calls).await
    }

    fn command(&self, cell: &str, way: Option<&Way>) -> Command {
        self.command_with(cell, way, Value::Null)
    }

    fn command_with(&self, cell: &str, way: Option<&Way>, more: Value) -> Command {
        let lab = self.lab;
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateway/interop/scripts");
        let known = lab.bed.path("known_hosts");
        let mut told = serde_json::json!({
            "host": "127.0.0.1",
            "port": lab.bed.address.port(),
            "user": self.name,
            "password": PASSWORD,
            "key": lab.bed.path("key"),
            "known_hosts": known,
            "fingerprint": lab.fingerprint(),
            "reverser": lab.reverser.port(),
            "local": way.map(|way| &way.local),
            "there": way.map(|way| &way.there),
            "back": way.map(|way| &way.back),
        });
        if let (Value::Object(told), Value::Object(more)) = (&mut told, more) {
            told.extend(more);
        }
        let mut command = Command::new(&self.program);
        command.arg(scripts.join(self.file)).arg(cell);
        command.env("KITE_INTEROP_LAB", told.to_string());
        command.env("SSH_AUTH_SOCK", &lab.agent);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        if let Some(modules) = node_modules() {
            command.env("NODE_PATH", modules);
        }
        command
    }
}
