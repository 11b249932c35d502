//! What an operator may set. The defaults are for a few thousand connections.

use std::time::Duration;

use crate::bans::BanPolicy;
use crate::cidr::Cidr;

/// Bounds and times.
#[derive(Clone, Debug)]
pub struct Config {
    /// Connections at a time, logged in or not.
    pub max_connections: usize,
    /// Connections at a time from one address.
    pub max_connections_per_address: usize,
    /// Connections at a time that are logged in to one machine.
    pub max_connections_per_vm: usize,
    /// Connections at a time that are logged in to machines of one owner.
    pub max_connections_per_owner: usize,
    /// Channels at a time on one connection.
    pub max_channels: usize,
    /// Passwords that one connection may try.
    pub max_password_attempts: usize,
    /// Login requests of any method that one connection may send; clients offer
    /// each of their public keys in turn.
    pub max_auth_requests: usize,
    /// Password hashes that are computed at a time.
    pub parallel_hashes: usize,
    /// No password is refused sooner than this after it came, whatever it was
    /// refused for: longer than any of the checks takes, also those of machines
    /// that decide on passwords themselves.
    pub rejection_time: Duration,
    /// Logins that machines decide on at a time (see
    /// [`Credential::UsersPassword`](crate::route::Credential::UsersPassword)).
    pub parallel_relays: usize,
    /// Bans of addresses from such machines, whose own defence sees the gateway's
    /// address only.
    pub relay_bans: BanPolicy,
    /// A client must have logged in this long after it connected.
    pub login_deadline: Duration,
    /// A machine must have let the gateway in this long after it was tried.
    pub connect_deadline: Duration,
    /// How long a login waits for a machine that is started for it.
    pub start_deadline: Duration,
    /// How long the answer to a channel request is waited for before the
    /// connection's other traffic goes on without it.
    pub request_patience: Duration,
    /// How long connections are still accepted after a shutdown was asked for: until
    /// load balancers have seen that the gateway is not ready any more.
    pub drain_delay: Duration,
    /// How long sessions may go on after that.
    pub drain_grace: Duration,
    /// Bytes after which the gateway exchanges keys anew, in either direction;
    /// at most 1 GiB (RFC 4253 §9).
    pub rekey_bytes: usize,
    /// Bans of addresses that guess passwords.
    pub address_bans: BanPolicy,
    /// Bans of passwords for login names that are guessed at.
    pub name_bans: BanPolicy,
    /// Addresses that are never banned.
    pub never_ban: Vec<Cidr>,
    /// Addresses that may connect; empty for all.
    pub allow: Vec<Cidr>,
    /// Addresses that may not connect, though allowed.
    pub deny: Vec<Cidr>,
    /// Load balancers that say by the PROXY protocol where a connection comes
    /// from; from these the header is required.
    pub proxies: Vec<Cidr>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            max_connections_per_address: 256,
            max_connections_per_vm: 64,
            max_connections_per_owner: 512,
            max_channels: 128,
            max_password_attempts: 6,
            max_auth_requests: 30,
            parallel_hashes: 2,
            rejection_time: Duration::from_millis(300),
            parallel_relays: 4,
            relay_bans: BanPolicy {
                failures: 5,
                within: Duration::from_secs(600),
                first: Duration::from_secs(60),
                longest: Duration::from_secs(3600),
            },
            login_deadline: Duration::from_secs(60),
            connect_deadline: Duration::from_secs(15),
            start_deadline: Duration::from_secs(300),
            request_patience: Duration::from_millis(500),
            drain_delay: Duration::ZERO,
            drain_grace: Duration::from_secs(60),
            rekey_bytes: 1 << 30,
            address_bans: BanPolicy {
                failures: 20,
                within: Duration::from_secs(600),
                first: Duration::from_secs(30),
                longest: Duration::from_secs(3600),
            },
            name_bans: BanPolicy {
                failures: 50,
                within: Duration::from_secs(600),
                first: Duration::from_secs(30),
                longest: Duration::from_secs(900),
            },
            never_ban: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            proxies: Vec::new(),
        }
    }
}
