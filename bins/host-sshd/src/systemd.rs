//! What systemd says of its units, and drop-ins for its sockets. Pure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::Ports;

/// Properties that are asked of sockets.
pub(crate) const SOCKET_PROPERTIES: &str = "Id,ActiveState,Accept,Listen,Triggers";

/// Properties that are asked of services.
pub(crate) const SERVICE_PROPERTIES: &str = "Id,ActiveState,MainPID,CanReload,KillMode";

/// Where administrators' drop-ins are.
const UNITS: &str = "/etc/systemd/system";

/// The name of the drop-in. They are read by their names' order, and the last one wins.
const DROP_IN: &str = "zz-kite-host-sshd.conf";

/// Whether a file is one of systemd's.
pub(crate) fn is_unit(path: &Path) -> bool {
    path.starts_with(UNITS)
}

/// A socket unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) id: String,
    pub(crate) active: bool,
    /// Whether each connection has a process of its own, started by systemd.
    pub(crate) per_connection: bool,
    pub(crate) listens: Vec<Listen>,
    /// The service behind it.
    pub(crate) service: Option<String>,
}

/// One of a socket unit's `Listen…=` settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    /// Such as `Stream`.
    pub(crate) kind: String,
    /// Such as `[::]:22`.
    pub(crate) address: String,
}

/// A service unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) id: String,
    pub(crate) active: bool,
    pub(crate) main_pid: Option<u32>,
    pub(crate) can_reload: bool,
    /// What ends with the service; only `process` and `none` leave sessions alone.
    pub(crate) kill_mode: String,
}

/// Socket units from the output of `systemctl show`.
pub(crate) fn sockets(output: &str) -> Vec<Socket> {
    let read = |unit: &Properties<'_>| {
        let listens = unit
            .lines
            .iter()
            .filter_map(|(name, value)| Listen::parse(name, value));
        let mut triggers = unit.value("Triggers").split_ascii_whitespace();
        Some(Socket {
            id: unit.id()?,
            active: unit.active(),
            per_connection: unit.value("Accept") == "yes",
            listens: listens.collect(),
            service: triggers.next().map(str::to_owned),
        })
    };
    units(output).iter().filter_map(read).collect()
}

/// Service units from the output of `systemctl show`.
pub(crate) fn services(output: &str) -> Vec<Service> {
    let read = |unit: &Properties<'_>| {
        Some(Service {
            id: unit.id()?,
            active: unit.active(),
            main_pid: unit.value("MainPID").parse().ok().filter(|pid| *pid != 0),
            can_reload: unit.value("CanReload") == "yes",
            kill_mode: unit.value("KillMode").to_owned(),
        })
    };
    units(output).iter().filter_map(read).collect()
}

struct Properties<'a> {
    lines: Vec<(&'a str, &'a str)>,
}

impl<'a> Properties<'a> {
    fn value(&self, name: &str) -> &'a str {
        let of: BTreeMap<_, _> = self.lines.iter().copied().collect();
        of.get(name).copied().unwrap_or_default()
    }

    fn id(&self) -> Option<String> {
        let id = self.value("Id");
        (!id.is_empty()).then(|| id.to_owned())
    }

    fn active(&self) -> bool {
        matches!(self.value("ActiveState"), "active" | "reloading")
    }
}

/// Units are set apart by empty lines.
fn units(output: &str) -> Vec<Properties<'_>> {
    output
        .split("\n\n")
        .map(|unit| Properties {
            lines: unit
                .lines()
                .filter_map(|line| line.split_once('='))
                .collect(),
        })
        .collect()
}

impl Listen {
    /// `Listen=[::]:22 (Stream)`, or as older versions have it `ListenStream=[::]:22`.
    fn parse(name: &str, value: &str) -> Option<Self> {
        let kind = name.strip_prefix("Listen")?;
        let (address, kind) = match kind {
            "" => value.strip_suffix(')')?.rsplit_once(" (")?,
            kind => (value, kind),
        };
        Some(Self {
            kind: kind.to_owned(),
            address: address.to_owned(),
        })
    }

    /// The TCP port.
    pub(crate) fn port(&self) -> Option<u16> {
        let stream = self.kind == "Stream" && !self.address.starts_with(['/', '@']);
        let port = self.address.rsplit(':').next()?;
        // `vsock:` is followed by a number, too.
        let tcp = stream && !self.address.starts_with("vsock");
        port.parse().ok().filter(|_| tcp)
    }

    /// Whether its line can be written again from what is known of it.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "Stream" | "Datagram" | "SequentialPacket" | "FIFO"
        )
    }

    fn moved(&self, ports: Ports) -> String {
        let host = |port| self.address.strip_suffix(&format!(":{port}"));
        match self
            .port()
            .filter(|port| *port == ports.from)
            .and_then(host)
        {
            Some(host) => format!("{host}:{}", ports.to),
            None => self.address.clone(),
        }
    }
}

impl Socket {
    /// Whether it listens for sshd now.
    pub(crate) fn is_for_sshd(&self) -> bool {
        let names = [Some(&self.id), self.service.as_ref()];
        self.active && names.into_iter().flatten().any(|name| name.contains("ssh"))
    }

    /// The TCP ports on which it listens.
    pub(crate) fn ports(&self) -> impl Iterator<Item = u16> {
        self.listens.iter().filter_map(Listen::port)
    }

    /// Whether it listens on a TCP port.
    pub(crate) fn listens_on(&self, port: u16) -> bool {
        self.ports().any(|one| one == port)
    }

    /// The path of Kite's drop-in for it.
    pub(crate) fn drop_in(&self) -> PathBuf {
        Path::new(UNITS)
            .join(format!("{}.d", self.id))
            .join(DROP_IN)
    }

    /// What the drop-in says. An empty `ListenStream=` takes away all that other files
    /// say, so everything is said again.
    pub(crate) fn drop_in_text(&self, ports: Ports) -> String {
        let mut lines = vec![
            "# Written by `kite host-sshd move`; `kite host-sshd restore` takes it away."
                .to_owned(),
            "[Socket]".to_owned(),
            "ListenStream=".to_owned(),
        ];
        for listen in &self.listens {
            let line = format!("Listen{}={}", listen.kind, listen.moved(ports));
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: Ports = Ports { from: 22, to: 2222 };

    #[test]
    fn sockets_of_ubuntu_and_of_older_versions() {
        let found = sockets(
            "Accept=no\nListen=0.0.0.0:22 (Stream)\nListen=[::]:22 (Stream)\nId=ssh.socket\n\
             Triggers=ssh.service\nActiveState=active\n\nAccept=yes\nListenStream=[::]:22\n\
             Id=sshd.socket\nActiveState=inactive\nTriggers=\n",
        );
        assert_eq!(found.len(), 2);
        let [ssh, sshd] = &found[..] else { return };
        assert!(ssh.active && !ssh.per_connection && ssh.listens_on(22) && !ssh.listens_on(2));
        assert_eq!(ssh.service.as_deref(), Some("ssh.service"));
        assert!(!sshd.active && sshd.per_connection && sshd.listens_on(22));
        assert_eq!(sshd.service, None);
    }

    #[test]
    fn services() {
        let output = "MainPID=812\nKillMode=process\nCanReload=yes\nId=ssh.service\nActiveState=active\n\n\
                      MainPID=0\nKillMode=control-group\nCanReload=no\nId=x.service\nActiveState=failed\n";
        let found = super::services(output);
        assert_eq!(found[0].main_pid, Some(812));
        assert!(found[0].active && found[0].can_reload && found[0].kill_mode == "process");
        assert!(!found[1].active && !found[1].can_reload && found[1].main_pid.is_none());
        assert_eq!(super::services(""), []);
    }

    #[test]
    fn a_drop_in_says_everything_again() {
        let socket = &sockets(
            "Id=ssh.socket\nListen=0.0.0.0:22 (Stream)\nListen=[::]:22 (Stream)\n\
             Listen=/run/ssh.sock (Stream)\nListen=10.0.0.1:1022 (Stream)\nListen=vsock::22 (Stream)\n",
        )[0];
        assert_eq!(
            socket.drop_in_text(PORTS),
            "# Written by `kite host-sshd move`; `kite host-sshd restore` takes it away.\n[Socket]\n\
             ListenStream=\nListenStream=0.0.0.0:2222\nListenStream=[::]:2222\n\
             ListenStream=/run/ssh.sock\nListenStream=10.0.0.1:1022\nListenStream=vsock::22\n"
        );
        let path = "/etc/systemd/system/ssh.socket.d/zz-kite-host-sshd.conf";
        assert_eq!(socket.drop_in(), Path::new(path));
    }

    #[test]
    fn an_address_that_is_there_already_is_said_once() {
        let output = "Id=ssh.socket\nListen=[::]:22 (Stream)\nListen=[::]:2222 (Stream)\n";
        let text = sockets(output)[0].drop_in_text(PORTS);
        assert_eq!(text.matches("ListenStream=[::]:2222").count(), 1);
    }
}
