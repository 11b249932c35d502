//! What runs on the host now.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use crate::daemon::{Activation, Running};
use crate::error::{Error, Refusal};
use crate::{probe, sockets, systemd};

/// Looks at sockets, processes and systemd's units, among them the service that is known
/// to have started sshd.
pub(crate) fn running(activation: Option<&Activation>) -> Result<Running, Error> {
    let listeners = sockets::listeners().map_err(Error::io("read the sockets in /proc"))?;
    let sockets = show(systemd::SOCKET_PROPERTIES, &["*.socket".to_owned()])
        .map(|output| systemd::sockets(&output))
        .unwrap_or_default();
    let mut units: BTreeSet<String> = listeners
        .iter()
        .filter_map(|listener| listener.sshd()?.unit.clone())
        .collect();
    let for_sshd = sockets.iter().filter(|socket| socket.active);
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

/// Fails where a port is not free for sshd, which may hold it itself.
pub(crate) fn check_free(
    running: &Running,
    ips: impl Iterator<Item = IpAddr>,
    port: u16,
    going_back: bool,
) -> Result<(), Refusal> {
    let holder = match running.on(port).next() {
        Some(_) => running.stranger(port),
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
