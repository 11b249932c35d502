//! The host's sshd: who started it, and how it takes another configuration. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Refusal;
use crate::sockets::{Listener, Process};
use crate::systemd::{Service, Socket};

/// What started sshd, and starts it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub(crate) enum Activation {
    /// A systemd service.
    Service { unit: String },
    /// A systemd socket, which starts the service when somebody connects.
    Socket { unit: String },
    /// A process of its own.
    Process { command: Vec<String> },
}

/// What of sshd and systemd there is on the host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) sockets: Vec<Socket>,
    /// Those behind the sockets, and those that sshd processes belong to.
    pub(crate) services: Vec<Service>,
}

/// The sshd that listens on some port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Daemon {
    pub(crate) activation: Activation,
    /// Its process; nothing where systemd listens for it.
    pub(crate) pid: Option<u32>,
    /// Where it listens on that port.
    pub(crate) addresses: BTreeSet<IpAddr>,
    pub(crate) arguments: Arguments,
}

/// What of sshd's command line matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// `-f`.
    pub(crate) config: Option<PathBuf>,
    /// The first option that says where to listen.
    pub(crate) listening: Option<String>,
}

/// Something that makes sshd take its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    /// systemd reads its units again.
    ReloadUnits,
    /// `systemctl reload`.
    Reload { unit: String },
    /// `systemctl start`, where the service does not run.
    Start { unit: String },
    /// `systemctl stop`, of a service that has its sockets from systemd.
    Stop { unit: String },
    /// `systemctl restart`, of a socket.
    Rebind { unit: String },
    /// SIGHUP, at which sshd executes itself anew.
    Hangup { pid: u32 },
    /// The program itself, where it does not run.
    Run { command: Vec<String> },
}

impl Running {
    /// The ports on which sshd listens, or systemd for it.
    pub(crate) fn sshd_ports(&self) -> BTreeSet<u16> {
        let sshd = self.listeners.iter().filter(|one| one.sshd().is_some());
        let mut ports: BTreeSet<u16> = sshd.map(|one| one.address.port()).collect();
        let sockets = self.sockets.iter().filter(|socket| socket.is_for_sshd());
        ports.extend(sockets.flat_map(Socket::ports));
        ports
    }

    /// The socket unit that holds a port for sshd.
    fn socket(&self, port: u16) -> Option<&Socket> {
        let mut sockets = self.sockets.iter().filter(|socket| socket.is_for_sshd());
        sockets.find(|socket| socket.listens_on(port))
    }

    /// Whether sshd holds a socket, or systemd for it.
    pub(crate) fn is_sshds(&self, listener: &Listener) -> bool {
        let port = listener.address.port();
        listener.sshd().is_some() || listener.is_systemds() && self.socket(port).is_some()
    }

    /// Whether sshd listens on a port, or systemd for it.
    pub(crate) fn has_sshd(&self, port: u16) -> bool {
        self.on(port).any(|listener| self.is_sshds(listener))
    }

    /// A service.
    pub(crate) fn service(&self, unit: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.id == unit)
    }

    /// Those who listen on a port.
    pub(crate) fn on(&self, port: u16) -> impl Iterator<Item = &Listener> {
        self.listeners
            .iter()
            .filter(move |listener| listener.address.port() == port)
    }

    /// Whether a daemon holds a socket, or systemd for it.
    pub(crate) fn is_of(&self, daemon: &Daemon, listener: &Listener) -> bool {
        match &daemon.activation {
            Activation::Socket { unit } => {
                let socket = self.socket(listener.address.port());
                socket.is_some_and(|socket| socket.id == *unit) && self.is_sshds(listener)
            }
            Activation::Service { .. } | Activation::Process { .. } => {
                listener.sshd().map(|process| process.pid) == daemon.pid
            }
        }
    }

    /// The ports on which a daemon listens.
    pub(crate) fn ports_of(&self, daemon: &Daemon) -> BTreeSet<u16> {
        let own = self.listeners.iter().filter(|one| self.is_of(daemon, one));
        own.map(|listener| listener.address.port()).collect()
    }

    /// Somebody who listens on a port and is not the daemon, which may be none.
    pub(crate) fn stranger(&self, port: u16, daemon: Option<&Daemon>) -> Option<String> {
        let is_own = |one: &Listener| daemon.is_some_and(|daemon| self.is_of(daemon, one));
        let other = self.on(port).find(|one| !is_own(one));
        other.map(Listener::holder)
    }

    /// The sshd that listens on a port.
    pub(crate) fn find(&self, port: u16) -> Result<Daemon, Refusal> {
        let addresses = |sshd: &dyn Fn(&Listener) -> bool| {
            let ours = self.on(port).filter(|listener| sshd(listener));
            ours.map(|listener| listener.address.ip()).collect()
        };
        if let Some(socket) = self.socket(port) {
            let unit = socket.id.clone();
            return Ok(Daemon {
                activation: Activation::Socket { unit },
                pid: None,
                addresses: addresses(&|listener| self.is_sshds(listener)),
                arguments: Arguments::default(),
            });
        }
        let daemons: Vec<&Process> = self.on(port).filter_map(Listener::sshd).collect();
        let pids: BTreeSet<u32> = daemons.iter().map(|process| process.pid).collect();
        match (daemons.first(), self.on(port).next()) {
            (Some(_), _) if pids.len() > 1 => Err(Refusal::SeveralDaemons { port, pids }),
            (Some(daemon), _) => Ok(Daemon {
                activation: self.activation(daemon),
                pid: Some(daemon.pid),
                addresses: addresses(&|listener| listener.sshd().is_some()),
                arguments: Arguments::parse(&command_line(&daemon.command)),
            }),
            (None, Some(other)) => Err(Refusal::NotSshd {
                port,
                holder: other.holder(),
            }),
            (None, None) => Err(Refusal::NothingListens {
                port,
                sshd_on: self.sshd_ports(),
            }),
        }
    }

    fn activation(&self, daemon: &Process) -> Activation {
        let is_main = |service: &&Service| service.main_pid == Some(daemon.pid);
        match self.services.iter().find(is_main) {
            Some(service) => Activation::Service {
                unit: service.id.clone(),
            },
            // It may be in the control group of whoever started it by hand.
            None => Activation::Process {
                command: command_line(&daemon.command),
            },
        }
    }

    /// What makes the sshd that was started so take its configuration, on whichever of
    /// the ports it listens now; what starts it, where it does not run.
    pub(crate) fn switches(&self, activation: &Activation, ports: [u16; 2]) -> Vec<Switch> {
        match activation {
            Activation::Service { unit } => {
                let service = self.service(unit).filter(|service| service.active);
                vec![
                    match (service, service.and_then(|service| service.main_pid)) {
                        (Some(service), Some(pid)) if !service.can_reload => Switch::Hangup { pid },
                        (Some(_), _) => Switch::Reload { unit: unit.clone() },
                        (None, _) => Switch::Start { unit: unit.clone() },
                    },
                ]
            }
            Activation::Socket { unit } => {
                let mut switches = vec![Switch::ReloadUnits];
                // A socket cannot be bound anew while its service has it.
                switches.extend(self.stopped_with(unit).map(|service| Switch::Stop {
                    unit: service.id.clone(),
                }));
                switches.push(Switch::Rebind { unit: unit.clone() });
                switches
            }
            Activation::Process { command } => {
                let mut daemons = ports
                    .into_iter()
                    .flat_map(|port| self.on(port).filter_map(Listener::sshd));
                vec![match daemons.next() {
                    Some(daemon) => Switch::Hangup { pid: daemon.pid },
                    None => Switch::Run {
                        command: in_background(command),
                    },
                }]
            }
        }
    }

    /// The service that runs on a unit's socket.
    fn stopped_with(&self, socket: &str) -> Option<&Service> {
        let socket = self.sockets.iter().find(|one| one.id == socket)?;
        let service = self.service(socket.service.as_deref()?)?;
        (service.active && !socket.per_connection).then_some(service)
    }

    /// Whether sessions survive the switches.
    pub(crate) fn check_sessions(&self, activation: &Activation) -> Result<(), Refusal> {
        let Activation::Socket { unit } = activation else {
            return Ok(());
        };
        match self.stopped_with(unit) {
            Some(service) if !matches!(service.kill_mode.as_str(), "process" | "none") => {
                Err(Refusal::SessionsWouldEnd {
                    unit: service.id.clone(),
                    kill_mode: service.kill_mode.clone(),
                })
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// sshd shows as `sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups`, and older
/// versions as what they were started with.
fn command_line(command: &[String]) -> Vec<String> {
    let shown = match command {
        [title] => title.strip_prefix("sshd: "),
        _ => None,
    };
    let Some(shown) = shown else {
        return command.to_vec();
    };
    let arguments = shown.split(" [listener]").next().unwrap_or(shown);
    arguments
        .split_ascii_whitespace()
        .map(str::to_owned)
        .collect()
}

/// The same command without `-D`, so that it comes back.
fn in_background(command: &[String]) -> Vec<String> {
    let mut command = command.to_vec();
    command.retain(|argument| argument != "-D");
    command
}

impl Arguments {
    /// Options of sshd that take a value.
    const WITH_VALUE: &str = "CEbcfghkopu";

    fn parse(command: &[String]) -> Self {
        let mut found = Self::default();
        let mut arguments = command.iter().skip(1);
        while let Some(argument) = arguments.next() {
            let Some(letters) = argument.strip_prefix('-') else {
                continue;
            };
            let Some(at) = letters.find(|letter| Self::WITH_VALUE.contains(letter)) else {
                continue;
            };
            let (option, attached) = letters[at..].split_at(1);
            let value = match attached {
                "" => arguments.next().cloned().unwrap_or_default(),
                attached => attached.to_owned(),
            };
            found.take(option, value);
        }
        found
    }

    fn take(&mut self, option: &str, value: String) {
        match option {
            "f" => self.config = Some(PathBuf::from(value)),
            "p" => _ = self.listening.get_or_insert(format!("-p {value}")),
            "o" => {
                let said = crate::config::line::parse(value.as_bytes());
                let keyword = said.map(|said| said.keyword).unwrap_or_default();
                if matches!(keyword.as_str(), "port" | "listenaddress") {
                    self.listening.get_or_insert(format!("-o {value}"));
                }
            }
            _ => {}
        }
    }

    /// The main file of the configuration: the one that sshd runs with, which has to be
    /// the one that was asked for.
    pub(crate) fn config(
        &self,
        asked: Option<&Path>,
        same: impl Fn(&Path, &Path) -> bool,
    ) -> Result<Option<PathBuf>, Refusal> {
        match (asked, &self.config) {
            (Some(asked), Some(running)) if !same(asked, running) => Err(Refusal::OtherConfig {
                asked: asked.to_owned(),
                running: running.clone(),
            }),
            (Some(asked), _) => Ok(Some(asked.to_owned())),
            (None, running) => Ok(running.clone()),
        }
    }
}

#[cfg(test)]
#[path = "daemon_tests.rs"]
pub(crate) mod tests;
