//! What an operator may set. The defaults are for a few thousand connections.

use std::time::Duration;

use kite_core::cidr::Cidr;
use russh::Limits;

use crate::bans::BanPolicy;
use crate::startups::MaxStartups;

/// RFC 4344 §3 allows 2^32 blocks of AES, which are 64 GiB, and 2^31 packets, which
/// are eight bytes each by this: data has ten and more. A client that floods with
/// shorter ones harms its own connection.
const MOST_REKEY_BYTES: u64 = 16 << 30;
/// Connections that last get new keys this often in any case.
const REKEY_TIME: Duration = Duration::from_secs(24 * 3600);

/// Bounds and times.
#[derive(Clone, Debug)]
pub struct Config {
    /// Connections at a time, logged in or not.
    pub max_connections: usize,
    /// Connections at a time from one address.
    pub max_connections_per_address: usize,
    /// Connections at a time that have not logged in.
    pub max_startups: MaxStartups,
    /// The same from one address; from one IPv6 /56 twice, and from one /48 four times
    /// as many.
    pub max_startups_per_address: u32,
    /// Further connections that are only for addresses of `never_ban`.
    pub reserved_connections: u32,
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
    /// refused for: longer than any of the checks usually takes.
    pub rejection_time: Duration,
    /// How long a password may wait for its hash, and be hashed. After that nobody
    /// has looked at it: it is neither right nor wrong.
    pub hash_patience: Duration,
    /// Logins that machines decide on at a time (see
    /// [`Credential::UsersPassword`](crate::route::Credential::UsersPassword)).
    pub parallel_relays: usize,
    /// Bans of addresses from such machines, whose own defence sees the gateway's
    /// address only.
    pub relay_bans: BanPolicy,
    /// A client must have said its version and exchanged keys this long after it
    /// connected.
    pub handshake_deadline: Duration,
    /// A client must have logged in this long after it connected.
    pub login_deadline: Duration,
    /// A machine must have let the gateway in this long after it was tried.
    pub connect_deadline: Duration,
    /// How long a login waits for a machine that is started for it.
    pub start_deadline: Duration,
    /// A connection on which nothing was carried either way for so long is ended; zero
    /// for never.
    pub session_idle: Duration,
    /// A connection that was logged in for so long is ended; zero for never.
    pub session_longest: Duration,
    /// How long connections are still accepted after a shutdown was asked for: until
    /// load balancers have seen that the gateway is not ready any more.
    pub drain_delay: Duration,
    /// How long sessions may go on after that.
    pub drain_grace: Duration,
    /// Bytes in either direction after which the gateway itself exchanges keys
    /// anew, at most 16 GiB; the cipher may want it sooner, and clients and machines may
    /// by their own rules.
    pub rekey_bytes: u64,
    /// Whether clients get in only by key exchanges that a quantum computer does not undo.
    /// Towards machines what their servers have is taken.
    pub post_quantum_only: bool,
    /// Bans of addresses that guess passwords: no password is right that comes from
    /// there. Keys still log in.
    pub address_bans: BanPolicy,
    /// Bans of login names that are guessed at: no password is right for them, but from
    /// addresses from which that login has succeeded before.
    pub name_bans: BanPolicy,
    /// Addresses that are never banned, and for which places are kept free.
    pub never_ban: Vec<Cidr>,
    /// Addresses that may connect; empty for all.
    pub allow: Vec<Cidr>,
    /// Addresses that may not connect, though allowed.
    pub deny: Vec<Cidr>,
    /// Load balancers that say by the PROXY protocol where a connection comes
    /// from; from these the header is required.
    pub proxies: Vec<Cidr>,
}

impl Config {
    /// For a gateway before machines that decide on passwords themselves
    /// ([`Credential::UsersPassword`](crate::route::Credential::UsersPassword)):
    /// every check, theirs and the gateway's own, has ended when `time` has passed,
    /// and then refusals are answered. So time does not tell who decided.
    #[must_use]
    pub fn relaying(self, time: Duration) -> Self {
        Self {
            rejection_time: time,
            hash_patience: time.mul_f64(0.9),
            ..self
        }
    }

    /// Bytes after which keys are exchanged anew.
    pub(crate) fn rekey_after(&self) -> u64 {
        self.rekey_bytes.min(MOST_REKEY_BYTES)
    }

    /// When keys are exchanged anew, as russh takes it.
    pub(crate) fn limits(&self) -> Limits {
        let bytes = self.rekey_bytes.min(MOST_REKEY_BYTES);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // Its constructor stops at the gigabyte of RFC 4253 §9, which was meant for
        // ciphers of that time.
        Limits {
            rekey_write_limit: bytes,
            rekey_read_limit: bytes,
            rekey_time_limit: REKEY_TIME,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            max_connections_per_address: 256,
            max_startups: MaxStartups {
                start: 100,
                rate: 30,
                full: 512,
            },
            max_startups_per_address: 10,
            reserved_connections: 32,
            max_connections_per_vm: 64,
            max_connections_per_owner: 512,
            max_channels: 512,
            max_password_attempts: 6,
            max_auth_requests: 30,
            parallel_hashes: 2,
            rejection_time: Duration::from_millis(300),
            hash_patience: Duration::from_secs(10),
            parallel_relays: 4,
            relay_bans: BanPolicy {
                failures: 5,
                within: Duration::from_secs(600),
                first: Duration::from_secs(60),
                longest: Duration::from_secs(3600),
            },
            handshake_deadline: Duration::from_secs(10),
            login_deadline: Duration::from_secs(60),
            connect_deadline: Duration::from_secs(15),
            start_deadline: Duration::from_secs(300),
            session_idle: Duration::ZERO,
            session_longest: Duration::ZERO,
            drain_delay: Duration::ZERO,
            drain_grace: Duration::from_secs(60),
            rekey_bytes: MOST_REKEY_BYTES,
            post_quantum_only: false,
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
