//! Who listens where, read from `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use serde::Serialize;

/// A listening TCP socket, and the processes that hold it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    pub(crate) holders: Vec<Process>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// The name of its program.
    pub(crate) name: String,
    #[serde(skip)]
    pub(crate) parent: u32,
    /// What it was started with, as far as it shows.
    #[serde(skip)]
    pub(crate) command: Vec<String>,
    /// The systemd service that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<String>,
}

impl Listener {
    /// Whether systemd holds it, which holds sockets for others.
    pub(crate) fn is_systemds(&self) -> bool {
        self.holders.iter().any(|process| process.name == "systemd")
    }

    /// The sshd that holds it: the first one, where it is being forked just then.
    pub(crate) fn sshd(&self) -> Option<&Process> {
        let all = || self.holders.iter().filter(|process| process.name == "sshd");
        let is_child = |process: &&Process| all().any(|other| other.pid == process.parent);
        all()
            .find(|process| !is_child(process))
            .or_else(|| all().next())
    }

    /// Who holds it, for people.
    pub(crate) fn holder(&self) -> String {
        match self.holders.first() {
            Some(process) => format!("{} (pid {})", process.name, process.pid),
            None => "a process that does not show".to_owned(),
        }
    }
}

/// All listening TCP sockets of this network namespace.
pub(crate) fn listeners() -> io::Result<Vec<Listener>> {
    let mut sockets = parse(&fs::read_to_string("/proc/self/net/tcp")?);
    // Missing where the kernel has no IPv6.
    if let Ok(table) = fs::read_to_string("/proc/self/net/tcp6") {
        sockets.extend(parse(&table));
    }
    let inodes = sockets.iter().map(|(_, inode)| *inode).collect();
    let holders = holders(&inodes)?;
    let mut listeners: Vec<Listener> = sockets
        .into_iter()
        .map(|(address, inode)| Listener {
            address,
            holders: holders.get(&inode).cloned().unwrap_or_default(),
        })
        .collect();
    listeners.sort_by_key(|listener| (listener.address.port(), listener.address));
    Ok(listeners)
}

/// The sockets that listen, each with its inode.
fn parse(table: &str) -> Vec<(SocketAddr, u64)> {
    const LISTEN: &str = "0A";
    let read = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        let listens = *state == LISTEN;
        listens.then_some((address(local)?, inode.parse().ok()?))
    };
    table.lines().skip(1).filter_map(read).collect()
}

/// The kernel prints addresses as 32-bit words in the byte order of the machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |index: usize| {
        let digits = host.get(index * 8..index * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip: IpAddr = if host.len() == 8 {
        Ipv4Addr::from(word(0)?).into()
    } else {
        let words = [word(0)?, word(1)?, word(2)?, word(3)?];
        let octets: [u8; 16] = words.concat().try_into().ok()?;
        Ipv6Addr::from(octets).into()
    };
    Some(SocketAddr::new(ip, port))
}

fn holders(inodes: &BTreeSet<u64>) -> io::Result<BTreeMap<u64, Vec<Process>>> {
    let mut holders: BTreeMap<u64, Vec<Process>> = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let held = held_sockets(&entry.path(), inodes);
        if held.is_empty() {
            continue;
        }
        // Gone meanwhile, if it cannot be read.
        if let Some(process) = process(pid) {
            for inode in held {
                holders.entry(inode).or_default().push(process.clone());
            }
        }
    }
    Ok(holders)
}

fn held_sockets(process: &Path, inodes: &BTreeSet<u64>) -> BTreeSet<u64> {
    let Ok(files) = fs::read_dir(process.join("fd")) else {
        return BTreeSet::new();
    };
    let inode = |link: &Path| {
        let target = fs::read_link(link).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?;
        inode.strip_suffix(']')?.parse().ok()
    };
    let held = files.filter_map(|file| inode(&file.ok()?.path()));
    held.filter(|inode| inodes.contains(inode)).collect()
}

/// What there is to know of a process, unless it is gone.
fn process(pid: u32) -> Option<Process> {
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).ok();
    let status = String::from_utf8_lossy(&read("status")?).into_owned();
    let field = |name: &str| {
        let mut lines = status.lines();
        let value = lines.find_map(|line| line.strip_prefix(name))?;
        Some(value.trim().to_owned())
    };
    let name = fs::read_link(format!("/proc/{pid}/exe"))
        .ok()
        .and_then(|exe| Some(exe.file_name()?.to_str()?.to_owned()))
        // Replaced by an upgrade, it runs on.
        .map(|name| name.trim_end_matches(" (deleted)").to_owned());
    let command = read("cmdline")?;
    let arguments = command
        .split(|byte| *byte == 0)
        .filter(|text| !text.is_empty());
    Some(Process {
        pid,
        name: name.or_else(|| field("Name:"))?,
        parent: field("PPid:")?.parse().ok()?,
        command: arguments
            .map(|text| String::from_utf8_lossy(text).into_owned())
            .collect(),
        unit: service(&String::from_utf8_lossy(
            &read("cgroup").unwrap_or_default(),
        )),
    })
}

/// The service among a process' control groups.
fn service(cgroups: &str) -> Option<String> {
    let path = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        matches!(controllers, "" | "name=systemd").then(|| path.to_owned())
    };
    cgroups.lines().filter_map(path).find_map(|path| {
        let name = path.rsplit('/').find(|part| !part.is_empty())?;
        name.ends_with(".service").then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::TcpListener;

    use super::*;
    use crate::probe::tests::eventually;

    #[test]
    fn the_kernels_table_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 26100 1\n\
   1: 0100007F:0016 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 26200 1\n";
        if cfg!(target_endian = "little") {
            assert_eq!(parse(table), [("0.0.0.0:22".parse().unwrap(), 26100)]);
            let v6 = address("B80D0120000000000000000001000000:08AE").unwrap();
            assert_eq!(v6, "[2001:db8::1]:2222".parse().unwrap());
        }
        assert_eq!(parse("a table of another kind\nx y z\n"), []);
    }

    #[test]
    fn this_process_is_found_by_its_socket() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = TcpListener::bind(host) else {
                continue;
            };
            let address = socket.local_addr().unwrap();
            let all = listeners().unwrap();
            let found = all.iter().find(|one| one.address == address).unwrap();
            let process = &found.holders[0];
            assert_eq!(process.pid, std::process::id());
            assert!(process.command[0].contains("kite_host_sshd"), "{process:?}");
            assert!(found.sshd().is_none());
            drop(socket);
            let is_gone = |one: &Listener| one.address != address;
            eventually(|| listeners().unwrap().iter().all(is_gone));
        }
    }

    #[test]
    fn the_first_of_a_family_is_the_daemon() {
        let process = |pid, parent, name: &str| Process {
            pid,
            parent,
            name: name.to_owned(),
            command: Vec::new(),
            unit: None,
        };
        let listener = Listener {
            address: "0.0.0.0:22".parse().unwrap(),
            holders: vec![
                process(30, 20, "sshd"),
                process(20, 1, "sshd"),
                process(1, 0, "systemd"),
            ],
        };
        assert_eq!(listener.sshd().unwrap().pid, 20);
        assert!(listener.is_systemds());
    }

    #[test]
    fn a_service_is_known_by_its_control_group() {
        let is = |text| service(text);
        assert_eq!(is("0::/system.slice/ssh.service\n").unwrap(), "ssh.service");
        let old = "8:pids:/x.service\n1:name=systemd:/system.slice/sshd.service\n";
        assert_eq!(is(old).unwrap(), "sshd.service");
        assert_eq!(is("0::/user.slice/user-0.slice/session-1.scope\n"), None);
        assert_eq!(is("0::/\n"), None);
    }
}
