//! The configuration as sshd itself sees it: the output of `sshd -T`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::config::Ports;

/// What `sshd -T` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effective {
    /// Where it listens.
    pub(crate) listens: BTreeSet<Listen>,
    /// All other lines, in their order.
    pub(crate) others: Vec<String>,
}

/// A `listenaddress` line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listen {
    /// IPv6 addresses in brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What stands behind it, such as a routing domain.
    pub(crate) rest: String,
}

impl Effective {
    /// Reads the output of `sshd -T`. The `port` lines are left out: the
    /// `listenaddress` lines have them all.
    pub(crate) fn parse(output: &str) -> Self {
        let mut effective = Self::default();
        for line in output.lines() {
            let (keyword, value) = line.split_once(' ').unwrap_or((line, ""));
            match (keyword, Listen::parse(value)) {
                ("port", _) => {}
                ("listenaddress", Some(listen)) => {
                    effective.listens.insert(listen);
                }
                _ => effective.others.push(line.to_owned()),
            }
        }
        effective
    }

    /// The ports on which sshd listens by its configuration.
    pub(crate) fn ports(&self) -> BTreeSet<u16> {
        self.listens.iter().map(|listen| listen.port).collect()
    }

    /// The same with one port in place of another.
    pub(crate) fn moved(&self, ports: Ports) -> Self {
        let moved = |listen: &Listen| Listen {
            port: ports.moved(listen.port),
            ..listen.clone()
        };
        Self {
            listens: self.listens.iter().map(moved).collect(),
            others: self.others.clone(),
        }
    }

    /// The first thing in which this differs from what it should be.
    pub(crate) fn difference(&self, expected: &Self) -> Option<String> {
        if self.listens != expected.listens {
            let list = |effective: &Self| {
                let all: Vec<_> = effective.listens.iter().map(Listen::to_string).collect();
                all.join(", ")
            };
            return Some(format!(
                "it would listen on {} and not on {}",
                list(self),
                list(expected)
            ));
        }
        let differing = self
            .others
            .iter()
            .zip(&expected.others)
            .find(|(a, b)| a != b);
        if let Some((is, should)) = differing {
            return Some(format!("it would have \"{is}\" and not \"{should}\""));
        }
        let (is, should) = (self.others.len(), expected.others.len());
        (is != should).then(|| format!("it would have {is} settings and not {should}"))
    }

    /// The files of the public host keys.
    pub(crate) fn host_keys(&self) -> impl Iterator<Item = PathBuf> {
        let keys = self
            .others
            .iter()
            .filter_map(|line| line.strip_prefix("hostkey "));
        keys.map(|key| PathBuf::from(format!("{key}.pub")))
    }
}

impl Listen {
    fn parse(value: &str) -> Option<Self> {
        let (address, rest) = value.split_once(' ').unwrap_or((value, ""));
        let (host, port) = address.rsplit_once(':')?;
        Some(Self {
            host: host.to_owned(),
            port: port.parse().ok()?,
            rest: rest.to_owned(),
        })
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "port 22\nport 2022\nlistenaddress [::]:22\nlistenaddress 0.0.0.0:22\n\
                          listenaddress 10.0.0.1:2022 rdomain x\nusepam yes\nhostkey /etc/ssh/k\n";

    #[test]
    fn what_sshd_says_is_read() {
        let effective = Effective::parse(OUTPUT);
        assert_eq!(effective.ports(), [22, 2022].into());
        assert_eq!(effective.listens.len(), 3);
        assert_eq!(effective.others, ["usepam yes", "hostkey /etc/ssh/k"]);
        let keys: Vec<_> = effective.host_keys().collect();
        assert_eq!(keys, [PathBuf::from("/etc/ssh/k.pub")]);
    }

    #[test]
    fn a_move_changes_the_port_and_nothing_else() {
        let ports = Ports { from: 22, to: 2222 };
        let before = Effective::parse(OUTPUT);
        let after = Effective::parse(&OUTPUT.replace(":22\n", ":2222\n").replace("port 22\n", ""));
        assert_eq!(after.difference(&before.moved(ports)), None);
        let said = before.difference(&before.moved(ports));
        assert!(said.is_some_and(|said| said.contains("[::]:2222")));
        let laxer = Effective::parse(&OUTPUT.replace("usepam yes", "usepam no"));
        let said = laxer.difference(&before);
        assert!(said.is_some_and(|said| said.contains("\"usepam no\"")));
        let longer = Effective::parse(&format!("{OUTPUT}permittunnel yes\n"));
        assert!(longer.difference(&before).is_some());
    }
}
