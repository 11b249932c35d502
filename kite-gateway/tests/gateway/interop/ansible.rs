//! Ansible, whose connections OpenSSH's client makes.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::interop::lab::{Lab, fresh, python};
use crate::interop::process::Call;
use crate::interop::table::{Feature, Outcome, Row, fine};

pub const NAME: &str = "ansible";
const MISSING: &str = "no ansible-core for KITE_PYTHON (PyPI: ansible-core; .ci/run installs it)";

pub async fn row(lab: &Lab) -> Row {
    let mut version = Command::new(python());
    version.args(["-c", "import ansible.release as it; print(it.__version__)"]);
    let version = match Call::new(version).succeed().await {
        Ok(done) => done.stdout.trim().to_owned(),
        Err(_) => return Row::skipped("Ansible", MISSING),
    };
    let ansible = Ansible::new(lab);
    let mut row = Row::new("Ansible", version);
    row.cell(Feature::Exec, ansible.exec()).await;
    row.cell(Feature::Key, async { lab.was_let_in(NAME, "publickey") })
        .await;
    // What it does itself takes as long as the copying.
    for (feature, method) in [(Feature::Sftp, "sftp"), (Feature::Scp, "scp")] {
        row.cell(feature, ansible.carry(method, 1)).await;
    }
    row
}

struct Ansible<'a> {
    lab: &'a Lab,
    /// The socket of the connection that its calls of `ssh` share.
    control: PathBuf,
}

/// Its connection would outlive it.
impl Drop for Ansible<'_> {
    fn drop(&mut self) {
        let _ = Command::new("ssh")
            .args(["-F", "none", "-O", "exit", "-S"])
            .arg(&self.control)
            .arg("127.0.0.1")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

impl<'a> Ansible<'a> {
    fn new(lab: &'a Lab) -> Self {
        Self {
            lab,
            control: lab.bed.path("ansible.control"),
        }
    }

    /// Its ping, and commands that end with 0 and 7, by way of one connection.
    async fn exec(&self) -> Outcome {
        let ends = |code: u8| {
            json!({
                "name": format!("ends with {code}"),
                "command": {"argv": ["sh", "-c", format!("echo out; echo err >&2; exit {code}")]},
                "register": "done",
                "failed_when":
                    format!("[done.rc, done.stdout, done.stderr] != [{code}, 'out', 'err']"),
            })
        };
        let tasks = json!([{"name": "answers", "ping": {}}, ends(0), ends(7)]);
        self.play(&tasks, "smart").succeed().await?;
        if !self.control.exists() {
            return Err("its calls of ssh share no connection".to_owned());
        }
        fine()
    }

    async fn carry(&self, method: &str, size: usize) -> Outcome {
        self.lab
            .carry(NAME, size, |way| {
                let tasks = json!([
                    {"name": "there", "copy": {"src": way.local, "dest": way.there}},
                    {"name": "back", "fetch": {"src": way.there, "dest": way.back, "flat": true}},
                ]);
                vec![self.play(&tasks, method)]
            })
            .await
    }

    /// A play of these tasks; `method` carries files.
    fn play(&self, tasks: &Value, method: &str) -> Call {
        let (bed, home) = (&self.lab.bed, self.lab.bed.path("ansible"));
        let host = json!({
            "ansible_host": "127.0.0.1",
            "ansible_port": bed.address.port(),
            "ansible_user": NAME,
            "ansible_ssh_private_key_file": bed.path("key"),
            // In the VM, which is this machine.
            "ansible_python_interpreter": python(),
            "ansible_ssh_transfer_method": method,
            "ansible_remote_tmp": home.join("remote"),
        });
        // JSON is YAML, too.
        let inventory = json!({"all": {"hosts": {"vm": host}}});
        let play = json!([{"hosts": "all", "gather_facts": false, "tasks": tasks}]);
        let at = bed.path(&fresh("play"));
        std::fs::create_dir_all(&home).unwrap();
        // Nobody's settings.
        std::fs::write(home.join("ansible.cfg"), "").unwrap();
        for (kind, text) in [("inventory.json", inventory), ("play.json", play)] {
            std::fs::write(at.with_extension(kind), text.to_string()).unwrap();
        }
        let options = format!(
            "-F none -o ControlMaster=auto -o ControlPersist=60s -o ControlPath={} \
             -o UserKnownHostsFile={} -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes",
            self.control.display(),
            bed.path("known_hosts").display()
        );
        let mut command = Command::new(python());
        command.args(["-m", "ansible", "playbook", "-i"]);
        command.arg(at.with_extension("inventory.json"));
        command.arg(at.with_extension("play.json"));
        command.env("ANSIBLE_SSH_ARGS", options);
        command.env("ANSIBLE_PIPELINING", "True");
        command.env("ANSIBLE_HOME", &home);
        command.env("ANSIBLE_LOCAL_TEMP", home.join("local"));
        command.env("ANSIBLE_CONFIG", home.join("ansible.cfg"));
        // It insists on a locale of UTF-8.
        command.env("LC_ALL", "C.UTF-8");
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.env_remove("SSH_AUTH_SOCK");
        Call::new(command)
    }
}
