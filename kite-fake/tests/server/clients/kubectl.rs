//! A server with its actors, and `kubectl` to ask it.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use kite_fake::FakeCluster;
use kite_fake::actors::{Rules, control_plane};

pub struct Kubectl {
    pub folder: PathBuf,
    /// The minor version, such as 32.
    minor: u32,
}

/// Starts a server and lets `kubectl` run a session on it.
pub async fn session(name: &str, crds: &str, work: fn(&Kubectl)) {
    let Some(minor) = minor() else {
        crate::clients::skip("no kubectl on the PATH");
        return;
    };
    let cluster = FakeCluster::builder()
        .crds_yaml(crds)
        .rules(Arc::new(Rules::instant()))
        .actors(control_plane())
        .build()
        .unwrap();
    let served = crate::clients::serve(&cluster).await;
    let folder = tempfile::Builder::new().prefix(name).tempdir().unwrap();
    let config = folder.path().join("kubeconfig");
    cluster.write_kubeconfig(&config, &served).unwrap();
    let kubectl = Kubectl {
        folder: folder.path().to_owned(),
        minor,
    };
    tokio::task::spawn_blocking(move || work(&kubectl))
        .await
        .unwrap();
    cluster.shut_down();
    served.ended().await;
}

fn minor() -> Option<u32> {
    let out = Command::new("kubectl")
        .args(["version", "--client", "-o", "json"])
        .output()
        .ok()?;
    let version: serde_json::Value = serde_json::from_slice(&out.stdout).ok()?;
    let minor = version["clientVersion"]["minor"].as_str()?;
    minor.trim_end_matches('+').parse().ok()
}

/// Words of a command line; single quotes keep blanks together.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut begun) = (Vec::new(), String::new(), false, false);
    for c in line.chars().chain([' ']) {
        match c {
            '\'' => (quoted, begun) = (!quoted, true),
            ' ' if !quoted => {
                if std::mem::take(&mut begun) {
                    words.push(std::mem::take(&mut word));
                }
            }
            other => {
                word.push(other);
                begun = true;
            }
        }
    }
    words
}

impl Kubectl {
    /// Whether this release of kubectl is at least `1.minor`.
    pub fn since(&self, minor: u32) -> bool {
        self.minor >= minor
    }

    pub fn run(&self, line: &str, stdin: &str) -> Output {
        use std::io::Write as _;
        // coreutils' timeout, so that a hang is a failure that names the command.
        let mut child = Command::new("timeout")
            .args(["30", "kubectl", "--kubeconfig"])
            .arg(self.folder.join("kubeconfig"))
            .arg("--cache-dir")
            .arg(self.folder.join("cache"))
            .args(words(line))
            .current_dir(&self.folder)
            .env("HOME", &self.folder)
            .env("KUBE_EDITOR", "sed -i 's/k: w/k: edited/'")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that reads nothing may be gone already.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// What a command that succeeds prints.
    pub fn ok(&self, line: &str, stdin: &str) -> String {
        let out = self.run(line, stdin);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            out.status.success(),
            "kubectl {line}: {}{}",
            text(&out.stdout),
            text(&out.stderr)
        );
        text(&out.stdout)
    }

    /// Runs commands that succeed.
    pub fn all(&self, lines: &[&str]) {
        for line in lines {
            self.ok(line, "");
        }
    }

    /// A command that succeeds and prints a text among others.
    pub fn says(&self, line: &str, expected: &str) {
        let out = self.ok(line, "");
        assert!(out.contains(expected), "kubectl {line}: {out}");
    }

    /// What a command that fails says.
    pub fn fails(&self, line: &str, stdin: &str) -> String {
        let out = self.run(line, stdin);
        assert!(!out.status.success(), "kubectl {line} should have failed");
        assert_ne!(out.status.code(), Some(124), "kubectl {line} hangs");
        String::from_utf8_lossy(&out.stderr).into_owned()
    }

    /// A command that fails and says why.
    pub fn refuses(&self, line: &str, expected: &str) {
        let out = self.fails(line, "");
        assert!(out.contains(expected), "kubectl {line}: {out}");
    }
}
