//! What runs on the host now.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::daemon::{Activation, Daemon, Running};
use crate::error::{Error, Refusal};
use crate::state::State;
use crate::{probe, sockets, systemd};

/// What distributions call the service.
const SERVICES: [&str; 2] = ["ssh.service", "sshd.service"];

/// How long sshd takes to execute itself anew, and more.
const ANEW: Duration = Duration::from_secs(3);

/// Looks at sockets, processes and systemd's units, among them the service that is known
/// to have started sshd.
pub(crate) fn running(activation: Option<&Activation>) -> Result<Running, Error> {
    let listeners = sockets::listeners().map_err(Error::io("read the sockets in /proc"))?;
    let sockets = show(systemd::SOCKET_PROPERTIES, &["*.socket".to_owned()])
        .map(|output| systemd::sockets(&output))
        .unwrap_or_default();
    let mut units: BTreeSet<String> = SERVICES.map(str::to_owned).into();
    units.extend(
        listeners
            .iter()
            .filter_map(|listener| listener.sshd()?.unit.clone()),
    );
    let for_sshd = sockets.iter().filter(|socket| socket.is_for_sshd());
    units.extend(for_sshd.filter_map(|socket| socket.service.clone()));
    if let Some(Activation::Service { unit }) = activation {
        units.insert(unit.clone());
    }
    let units: Vec<String> = units.into_iter().collect();
    Ok(Running {
        listeners,
        sockets,
        services: services(&units),
    })
}

/// The same for the sshd of a move. One that is just executing itself anew listens
/// nowhere for a moment, and is waited for.
pub(crate) fn running_of(state: &State, activation: &Activation) -> Result<Running, Error> {
    let start = Instant::now();
    loop {
        let running = running(Some(activation))?;
        let listens = [state.from, state.to]
            .into_iter()
            .any(|port| running.has_sshd(port));
        let by_itself = matches!(activation, Activation::Process { .. });
        if !by_itself || listens || start.elapsed() > ANEW {
            return Ok(running);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Fails where a port is not free for the daemon, which may hold it itself.
pub(crate) fn check_free(
    running: &Running,
    daemon: Option<&Daemon>,
    ips: impl Iterator<Item = IpAddr>,
    port: u16,
    going_back: bool,
) -> Result<(), Refusal> {
    let holder = match running.on(port).next() {
        Some(_) => running.stranger(port, daemon),
        None => probe::obstacle(ips, port).or_else(|| probe::led_elsewhere(port)),
    };
    match holder {
        Some(holder) => Err(Refusal::Taken {
            port,
            holder,
            going_back,
        }),
        None => Ok(()),
    }
}

/// What systemd says of services; nothing where it does not run.
fn services(units: &[String]) -> Vec<systemd::Service> {
    if units.is_empty() {
        return Vec::new();
    }
    show(systemd::SERVICE_PROPERTIES, units)
        .map(|output| systemd::services(&output))
        .unwrap_or_default()
}

fn show(properties: &str, units: &[String]) -> Option<String> {
    let output = systemctl()
        .arg("show")
        .arg("--no-pager")
        .arg(format!("--property={properties}"))
        .arg("--")
        .args(units)
        .stderr(Stdio::null())
        .output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command, with words in English.
pub(crate) fn systemctl() -> Command {
    let mut command = Command::new("systemctl");
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}
