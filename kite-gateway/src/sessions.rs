//! Who is connected now; and how to end a connection.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde::Serialize;

use crate::route::{LoginName, VmKey};
use crate::user::Conn;

/// A connection of a user, as it is now.
#[derive(Clone, Debug, Serialize)]
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

#[derive(Default)]
struct Table {
    connections: HashMap<u64, Weak<Conn>>,
    by_vm: HashMap<VmKey, usize>,
}

/// The live list of a gateway's connections. Clones share it.
#[derive(Clone, Default)]
pub struct Sessions(Arc<Mutex<Table>>);

impl Sessions {
    /// All connections, in the order in which they came.
    pub fn list(&self) -> Vec<SessionInfo> {
        let connections: Vec<_> = {
            let table = self.0.lock();
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
        let found = self
            .0
            .lock()
            .connections
            .get(&connection)
            .and_then(Weak::upgrade);
        match found {
            Some(conn) => {
                conn.kill(reason);
                true
            }
            None => false,
        }
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
        let mut table = self.0.lock();
        table.connections.insert(conn.number, Arc::downgrade(conn));
    }

    pub(crate) fn remove(&self, conn: &Conn) {
        let mut table = self.0.lock();
        table.connections.remove(&conn.number);
        if let Some(identity) = conn.identity()
            && let Some(count) = table.by_vm.get_mut(&identity.vm)
        {
            *count -= 1;
            if *count == 0 {
                table.by_vm.remove(&identity.vm);
            }
        }
    }

    /// Counts a login to a machine; gives how many there are now.
    pub(crate) fn count(&self, vm: &VmKey) -> usize {
        let mut table = self.0.lock();
        let count = table.by_vm.entry(vm.clone()).or_default();
        *count += 1;
        *count
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
