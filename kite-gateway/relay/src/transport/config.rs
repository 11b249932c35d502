//! What a side offers.

use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::kex::Method;
use crate::negotiate::{EXT_INFO_CLIENT, KexInit, Names, Offer, STRICT_CLIENT, STRICT_SERVER};
use crate::packet::{Mac, Suite};
use crate::sign::SigningKey;

/// What a side is and offers.
#[derive(Debug, Clone)]
pub struct Config {
    /// The version string, which begins with `SSH-2.0-`, without the end of its line.
    pub version: &'static str,
    /// Key exchanges, the preferred one first.
    pub methods: Vec<Method>,
    /// Ciphers with their MACs, the preferred one first.
    pub suites: Vec<Suite>,
    /// Bytes in a direction after which this side asks for new keys, where the cipher does
    /// not want them sooner.
    pub rekey_after: Option<u64>,
    /// What is of one role only.
    pub role: Role,
}

/// What is of one role only.
#[derive(Debug, Clone)]
pub enum Role {
    /// A server's.
    Server {
        /// Its host keys, the preferred one first. A client chooses among them.
        host_keys: Vec<Arc<SigningKey>>,
    },
    /// A client's.
    Client {
        /// Algorithms by which the server may sign, the preferred one first: those of the
        /// keys that are known of it.
        host_keys: Vec<Algorithm>,
    },
}

impl Config {
    /// A server with these host keys and all that this crate has.
    #[must_use]
    pub fn server(version: &'static str, host_keys: Vec<Arc<SigningKey>>) -> Self {
        Self {
            version,
            methods: Method::ALL.to_vec(),
            suites: Suite::ALL.to_vec(),
            rekey_after: None,
            role: Role::Server { host_keys },
        }
    }

    /// A client that knows keys of these algorithms, with all that this crate has.
    #[must_use]
    pub fn client(version: &'static str, host_keys: Vec<Algorithm>) -> Self {
        Self {
            version,
            methods: Method::ALL.to_vec(),
            suites: Suite::ALL.to_vec(),
            rekey_after: None,
            role: Role::Client { host_keys },
        }
    }

    /// The offer, with a cookie. Signs of what a side can do stand in the first one only.
    pub(super) fn kex_init(&self, cookie: [u8; 16], is_first: bool) -> KexInit {
        let methods = self.methods.iter().flat_map(|method| method.names());
        let signs: &[&str] = match (&self.role, is_first) {
            (_, false) => &[],
            (Role::Server { .. }, true) => &[STRICT_SERVER],
            (Role::Client { .. }, true) => &[EXT_INFO_CLIENT, STRICT_CLIENT],
        };
        let kex: Vec<_> = methods.chain(signs).copied().collect();
        let host_keys: Vec<_> = match &self.role {
            Role::Server { host_keys } => {
                let keys = host_keys.iter().flat_map(|key| key.algorithms());
                keys.map(|algorithm| algorithm.name()).collect()
            }
            Role::Client { host_keys } => host_keys.iter().copied().map(Algorithm::name).collect(),
        };
        let macs = self.suites.iter().filter_map(|suite| suite.mac());
        let offer = Offer {
            ciphers: once(self.suites.iter().map(|suite| suite.cipher())),
            macs: once(macs.map(Mac::name)),
            compression: Names::of(&["none"]),
            languages: Names::default(),
        };
        KexInit {
            cookie,
            kex: Names::of(&kex),
            host_keys: Names::of(&host_keys),
            up: offer.clone(),
            down: offer,
            guesses: false,
        }
    }

    pub(super) fn is_server(&self) -> bool {
        matches!(self.role, Role::Server { .. })
    }
}

/// Each name where it comes first.
fn once(names: impl Iterator<Item = &'static str>) -> Names {
    let mut all = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    Names::of(&all)
}
