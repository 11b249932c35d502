//! What runs inside VMs.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::guest::{Consoles, Guest, GuestConfig, GuestHandle, Home, Homes};

/// What a guest is made of.
#[derive(Clone)]
pub struct Machine {
    /// Uid of its instance.
    pub id: String,
    /// Namespace and name of its instance.
    pub instance: String,
    /// Its host name.
    pub hostname: String,
    /// Its cloud-init user data. It may hold a private key.
    pub user_data: Option<String>,
    /// Its first disk, as `persistentvolumes/<name>`.
    pub disk: Option<String>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("id", &self.id)
            .field("instance", &self.instance)
            .field("hostname", &self.hostname)
            .field("disk", &self.disk)
            .finish_non_exhaustive()
    }
}

/// Where a guest can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its address.
    pub ip: IpAddr,
    /// Its ports, and where on `ip` they really are.
    pub ports: BTreeMap<u16, u16>,
}

/// Runs guests.
#[async_trait]
pub trait Guests: Send + Sync + fmt::Debug + 'static {
    /// Boots a guest; one that runs already only tells where it is. `None` when nothing runs that could be reached; then the
    /// instance has the address of its Pod.
    ///
    /// # Errors
    /// Why it does not boot, in a sentence.
    async fn boot(&self, machine: Machine) -> Result<Option<Address>, String>;

    /// Ends the guest of the instance with this uid.
    async fn halt(&self, id: &str);

    /// A disk is gone, and what was on it; `persistentvolumes/<name>` or, for a snapshot,
    /// `volumesnapshotcontents/<name>`, as in the next two.
    fn disk_gone(&self, disk: &str);

    /// A snapshot has been taken: it has what is on the disk now.
    fn disk_kept(&self, _disk: &str, _snapshot: &str) {}

    /// A new disk begins with what is on a snapshot or on another disk.
    fn disk_filled(&self, _source: &str, _disk: &str) {}

    /// The serial line and the screen of the instance with this uid, if its guest
    /// has its own.
    fn consoles(&self, _id: &str) -> Option<Consoles> {
        None
    }
}

/// No guests: instances run, with nothing in them.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoGuests;

#[async_trait]
impl Guests for NoGuests {
    async fn boot(&self, _: Machine) -> Result<Option<Address>, String> {
        Ok(None)
    }

    async fn halt(&self, _: &str) {}

    fn disk_gone(&self, _: &str) {}
}

/// Where a guest's port 22 really is.
fn at(guest: &GuestHandle) -> Address {
    let address = guest.address();
    Address {
        ip: address.ip(),
        ports: BTreeMap::from([(22, address.port())]),
    }
}

/// Guests that are real SSH servers on loopback ports. What is in a guest's
/// home is on its disk: it outlives a reboot, goes along into snapshots and copies, and goes
/// with the volume.
#[derive(Debug, Default)]
pub struct SshGuests {
    running: Mutex<HashMap<String, GuestHandle>>,
    homes: Mutex<Homes>,
}

#[async_trait]
impl Guests for SshGuests {
    async fn boot(&self, machine: Machine) -> Result<Option<Address>, String> {
        // Asked again because a status could not be written: a second boot would
        // move the guest to another port while people are using it.
        if let Some(guest) = self.running.lock().get(&machine.id) {
            return Ok(Some(at(guest)));
        }
        let Some(user_data) = &machine.user_data else {
            // Nobody could log in to it.
            return Ok(None);
        };
        let home = match &machine.disk {
            Some(disk) => self.homes.lock().of(disk),
            None => Home::default(),
        };
        let config = GuestConfig::from_user_data(user_data, home).map_err(|e| e.to_string())?;
        let guest = Guest::start(config).await.map_err(|e| e.to_string())?;
        let address = at(&guest);
        self.running.lock().insert(machine.id, guest);
        Ok(Some(address))
    }

    async fn halt(&self, id: &str) {
        let guest = self.running.lock().remove(id);
        if let Some(guest) = guest {
            guest.stop().await;
        }
    }

    fn disk_gone(&self, disk: &str) {
        self.homes.lock().forget(disk);
    }

    fn disk_kept(&self, disk: &str, snapshot: &str) {
        self.homes.lock().keep(disk, snapshot);
    }

    fn disk_filled(&self, source: &str, disk: &str) {
        self.homes.lock().fill(source, disk);
    }

    fn consoles(&self, id: &str) -> Option<Consoles> {
        Some(self.running.lock().get(id)?.consoles())
    }
}
