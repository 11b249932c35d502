//! Who is connected now; and how to end a connection.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;

use crate::route::{LoginName, VmKey};
use crate::user::{Conn, Identity};

/// A connection of a user, as it is now.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its number in this process, as in the audit records.
    pub connection: u64,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// The login name, once logged in.
    pub login: Option<LoginName>,
    /// The machine, once logged in.
    pub vm: Option<VmKey>,
    /// The client's version string, once logged in.
    pub client: Option<String>,
    /// Since when.
    pub since: jiff::Timestamp,
    /// Open channels.
    pub channels: usize,
}

/// One machine, and no other of the same name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Machine {
    pub(crate) vm: VmKey,
    pub(crate) uid: String,
}

impl Machine {
    fn of(identity: &Identity) -> Self {
        Self {
            vm: identity.vm.clone(),
            uid: identity.uid.clone(),
        }
    }
}

/// Connections that are logged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    /// To one machine.
    pub(crate) of_vm: usize,
    /// To all machines of its owner; none are counted of one without.
    pub(crate) of_owner: usize,
}

#[derive(Default)]
struct Table {
    connections: HashMap<u64, Weak<Conn>>,
    by_vm: HashMap<VmKey, usize>,
    by_owner: HashMap<String, usize>,
    /// When the last connection to a machine ended, of those that ended since
    /// that was asked for. Nobody may ever ask: it is bounded by the VMs that
    /// were used in the life of the process.
    ended: HashMap<Machine, Timestamp>,
}

/// The live list of a gateway's connections. Clones share it.
#[derive(Clone, Default)]
pub struct Sessions {
    table: Arc<Mutex<Table>>,
    changed: Arc<Notify>,
}

impl Sessions {
    /// All connections, in the order in which they came.
    pub fn list(&self) -> Vec<SessionInfo> {
        let connections: Vec<_> = {
            let table = self.table.lock();
            table
                .connections
                .values()
                .filter_map(Weak::upgrade)
                .collect()
        };
        let mut list: Vec<_> = connections.iter().map(|conn| info(conn)).collect();
        list.sort_by_key(|session| session.connection);
        list
    }

    /// Ends a connection; the user gets to read `reason`. `false` if there is no
    /// such connection.
    pub fn kill(&self, connection: u64, reason: &str) -> bool {
        match self.connection(connection) {
            Some(conn) => {
                conn.kill(&format!("ended by an administrator: {reason}"));
                true
            }
            None => false,
        }
    }

    /// Ends a connection on behalf of the account `by`; the user gets to read both.
    pub(crate) fn end_for(&self, connection: u64, by: &str, reason: &str) {
        let found = self.connection(connection);
        if let Some(conn) = found {
            conn.kill(&if reason.is_empty() {
                format!("ended by {by}")
            } else {
                format!("ended by {by}: {reason}")
            });
        }
    }

    /// Whether there is such a connection.
    pub(crate) fn has(&self, connection: u64) -> bool {
        self.connection(connection).is_some()
    }

    /// What the client of a connection calls itself, once it is logged in.
    pub(crate) fn client_of(&self, connection: u64) -> Option<String> {
        self.connection(connection)?.client.get().cloned()
    }

    fn connection(&self, number: u64) -> Option<Arc<Conn>> {
        let table = self.table.lock();
        table.connections.get(&number).and_then(Weak::upgrade)
    }

    /// Ends all connections to a machine; gives how many there were.
    pub fn kill_vm(&self, vm: &VmKey, reason: &str) -> usize {
        let hers = self
            .list()
            .into_iter()
            .filter(|s| s.vm.as_ref() == Some(vm));
        hers.filter(|s| self.kill(s.connection, reason)).count()
    }

    pub(crate) fn add(&self, conn: &Arc<Conn>) {
        let mut table = self.table.lock();
        table.connections.insert(conn.number, Arc::downgrade(conn));
    }

    pub(crate) fn remove(&self, conn: &Conn) {
        let mut table = self.table.lock();
        table.connections.remove(&conn.number);
        let Some(identity) = conn.identity() else {
            return;
        };
        table.ended.insert(Machine::of(identity), Timestamp::now());
        one_less(&mut table.by_vm, &identity.vm);
        if let Some(owner) = &identity.owner {
            one_less(&mut table.by_owner, owner);
        }
        self.changed.notify_one();
    }

    /// Notes who logged in on a connection; gives how many there are now. `None` if
    /// it is over meanwhile, or was logged in before: then there is no login.
    pub(crate) fn log_in(&self, conn: &Conn, identity: Identity) -> Option<Counts> {
        let (vm, owner) = (identity.vm.clone(), identity.owner.clone());
        let mut table = self.table.lock();
        if !table.connections.contains_key(&conn.number) || !conn.identify(identity) {
            return None;
        }
        let of_vm = one_more(&mut table.by_vm, vm);
        let of_owner = owner.map_or(0, |owner| one_more(&mut table.by_owner, owner));
        self.changed.notify_one();
        Some(Counts { of_vm, of_owner })
    }

    /// Connections that are logged in.
    pub(crate) fn logged_in(&self) -> Vec<Arc<Conn>> {
        let table = self.table.lock();
        let open = table.connections.values().filter_map(Weak::upgrade);
        open.filter(|conn| conn.identity().is_some()).collect()
    }

    /// Waits for a login, or the end of a connection that was logged in. For one
    /// task at a time.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// A connection to a machine ended then.
    #[cfg(test)]
    pub(crate) fn note_use(&self, machine: Machine, at: Timestamp) {
        self.table.lock().ended.insert(machine, at);
    }

    /// When each machine was last used: `now` for those with a connection, and
    /// when the last one ended for those that had some since this was asked.
    pub(crate) fn uses(&self, now: Timestamp) -> HashMap<Machine, Timestamp> {
        let (mut uses, open) = {
            let mut table = self.table.lock();
            let open: Vec<_> = table
                .connections
                .values()
                .filter_map(Weak::upgrade)
                .collect();
            (std::mem::take(&mut table.ended), open)
        };
        let logged_in = open.iter().filter_map(|conn| conn.identity());
        uses.extend(logged_in.map(|identity| (Machine::of(identity), now)));
        uses
    }
}

fn one_more<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K) -> usize {
    let count = counts.entry(key).or_default();
    *count += 1;
    *count
}

fn one_less<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

fn info(conn: &Conn) -> SessionInfo {
    let identity = conn.identity();
    SessionInfo {
        connection: conn.number,
        peer: conn.peer,
        login: identity.map(|i| i.login.clone()),
        vm: identity.map(|i| i.vm.clone()),
        client: conn.client.get().cloned(),
        since: conn.since,
        channels: conn.channels(),
    }
}
