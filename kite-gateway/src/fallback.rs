//! Login names that lead to no machine lead to a host's own sshd: on a machine
//! whose only SSH port the gateway has taken, its administrators still get in.
//!
//! Passwords only, typed or asked for: the host decides on them. A machine's
//! route wins over an account of the host with the same name, so serve only once
//! the routes are complete: a name that is not known yet would lead to the host.
//!
//! The gateway's configuration has to be one for this:
//! [`Config::relaying`](crate::Config::relaying).

use std::net::SocketAddr;
use std::sync::Arc;

use russh::keys::PublicKey;

use crate::route::{Credential, LoginName, LoginRule, Route, Routes, Target, VmKey, VmState};

/// The realm of a host's accounts in records and lists, where a VM has its namespace.
pub const REALM: &str = "host";

/// The sshd of a host.
#[derive(Clone, Debug)]
pub struct Host {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its host key; any other is refused.
    pub host_key: PublicKey,
    /// Accounts that may be reached; all if none is named.
    pub accounts: Vec<LoginName>,
}

/// Routes, and a host for names without one.
#[derive(Clone, Debug)]
pub struct HostFallback<R> {
    routes: R,
    host: Option<Arc<Host>>,
}

impl<R: Routes> HostFallback<R> {
    /// `routes` first, then `host`; without a host just the routes.
    pub fn new(routes: R, host: Option<Host>) -> Self {
        Self {
            routes,
            host: host.map(Arc::new),
        }
    }
}

impl<R: Routes> Routes for HostFallback<R> {
    fn find(&self, login: &LoginName) -> Option<Arc<Route>> {
        if let Some(route) = self.routes.find(login) {
            return Some(route);
        }
        let host = self.host.as_ref()?;
        let is_meant = host.accounts.is_empty() || host.accounts.contains(login);
        is_meant.then(|| Arc::new(account(host, login)))
    }

    fn doubt(&self, route: &Route) {
        self.routes.doubt(route);
    }
}

fn account(host: &Host, login: &LoginName) -> Route {
    Route {
        vm: VmKey {
            namespace: REALM.to_owned(),
            name: login.as_str().to_owned(),
        },
        uid: String::new(),
        owner: None,
        state: VmState::Running,
        start_on_connect: false,
        target: Some(Target {
            addresses: vec![host.address],
            user: login.as_str().to_owned(),
            credential: Credential::UsersPassword,
            host_key: host.host_key.clone(),
        }),
        rule: LoginRule::KeyOrPassword,
        password: None,
        authorized_keys: Vec::new(),
        authorities: Vec::new(),
    }
}
