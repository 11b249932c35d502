//! What people should know beside the outcome.

use std::path::PathBuf;

use crate::cli::MoveOptions;
use crate::effective::Effective;
use crate::error::Error;
use crate::state::{FileRecord, Found, State};

/// Ports that Kubernetes gives to Services unless it is told otherwise.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;

/// Of a move that was made.
pub(crate) fn of_move(options: &MoveOptions, state: &State, effective: &Effective) -> Vec<String> {
    let mut notices = vec![
        "open sessions stay open: only what listens for new ones is switched".to_owned(),
        format!(
            "keep this session until `ssh -p {}` from another machine lets you in; \
             `kite host-sshd restore` undoes everything",
            state.to
        ),
    ];
    notices.extend(of_ports(options, state));
    notices.extend(packaged(&state.files));
    notices.push(gateway(state.to, effective));
    notices
}

/// Of the new port.
pub(crate) fn of_ports(options: &MoveOptions, state: &State) -> Vec<String> {
    let port = state.to;
    let mut notices = Vec::new();
    notices.extend(selinux(port));
    if !options.no_firewall_hint {
        notices.push(firewall(port));
    }
    if NODE_PORTS.contains(&port) {
        notices.push(format!(
            "port {port} is one of those that Kubernetes gives to Services (node ports), and a \
             Service may take it away: one outside of {} to {} is safe",
            NODE_PORTS.start(),
            NODE_PORTS.end()
        ));
    }
    if outgoing().is_some_and(|ports| ports.contains(&port)) {
        notices.push(format!(
            "port {port} is one of those that the kernel gives to outgoing connections \
             (net.ipv4.ip_local_port_range): at a start of sshd one of them may have it"
        ));
    }
    notices
}

/// How sshd gets the right to a port, where that takes a right (`SELinux`).
pub(crate) fn selinux(port: u16) -> Option<String> {
    let enforce = std::fs::read("/sys/fs/selinux/enforce");
    enforce.is_ok_and(|said| said.starts_with(b"1")).then(|| {
        format!(
            "SELinux is enforcing: `semanage port -a -t ssh_port_t -p tcp {port}` lets sshd have \
             the port, if it must not yet"
        )
    })
}

/// Files that were changed since.
pub(crate) fn drift(state: &State) -> Result<Vec<String>, Error> {
    let mut notices = Vec::new();
    for file in &state.files {
        let what = match file.found()? {
            Found::On(_) => continue,
            Found::Changed => "was changed",
            Found::Gone => "was removed",
        };
        notices.push(format!(
            "{} {what} since the move: `kite host-sshd restore` will ask for --force",
            file.path.display()
        ));
    }
    Ok(notices)
}

/// Of a move that was undone.
pub(crate) fn of_restore(state: &State, kept: &[PathBuf]) -> Vec<String> {
    let mut notices = vec![
        "open sessions stay open".to_owned(),
        format!(
            "a gateway with --host-sshd …:{} finds no sshd there any more",
            state.to
        ),
    ];
    let copy = |copy: &PathBuf| format!("what was replaced is kept in {}", copy.display());
    notices.extend(kept.iter().map(copy));
    notices
}

fn gateway(port: u16, effective: &Effective) -> String {
    let keys: Vec<PathBuf> = effective.host_keys().collect();
    let is_ed25519 = |key: &&PathBuf| key.to_string_lossy().contains("ed25519");
    let key = keys.iter().find(is_ed25519).or(keys.first());
    let key = key.map_or("FILE".to_owned(), |key| key.display().to_string());
    format!(
        "to have the gateway lead its names without a VM here: --host-sshd ADDRESS:{port} \
         --host-sshd-key {key}"
    )
}

fn firewall(port: u16) -> String {
    let known = [
        ("ufw", format!("`ufw allow {port}/tcp`")),
        (
            "firewall-cmd",
            format!("`firewall-cmd --permanent --add-port={port}/tcp && firewall-cmd --reload`"),
        ),
    ];
    let there = known.into_iter().filter(|(program, _)| is_in_path(program));
    let commands: Vec<String> = there.map(|(_, command)| command).collect();
    let how = if commands.is_empty() {
        String::new()
    } else {
        format!(": {}", commands.join(" or "))
    };
    format!("where a firewall guards this host, let port {port} through for who needs it{how}")
}

fn packaged(files: &[FileRecord]) -> Option<String> {
    let file = files.iter().find(|file| file.target.starts_with("/usr"))?;
    Some(format!(
        "{} belongs to a package: an upgrade may overwrite it",
        file.target.display()
    ))
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn outgoing() -> Option<std::ops::RangeInclusive<u16>> {
    let said = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut numbers = said.split_ascii_whitespace().map(str::parse);
    Some(numbers.next()?.ok()?..=numbers.next()?.ok()?)
}
