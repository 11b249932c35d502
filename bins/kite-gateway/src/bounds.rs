//! What an operator may bound, as options of the process.

use std::time::Duration;

use clap::Args;
use kite_gateway::{BanPolicy, Cidr, Config, MaxStartups};

/// Who may connect, how often, and how long things may take.
#[derive(Args, Clone, Debug)]
pub struct Bounds {
    /// Ranges of addresses that may connect; all if none is given.
    #[arg(
        long,
        env = "KITE_ALLOW",
        value_delimiter = ',',
        value_name = "CIDR,..."
    )]
    allow: Vec<Cidr>,
    /// Ranges of addresses that may not connect, though allowed.
    #[arg(
        long,
        env = "KITE_DENY",
        value_delimiter = ',',
        value_name = "CIDR,..."
    )]
    deny: Vec<Cidr>,
    /// Load balancers that say by the PROXY protocol (version 1 or 2) where a
    /// connection comes from. From these it is required, from others refused.
    #[arg(
        long,
        env = "KITE_PROXY_PROTOCOL_FROM",
        value_delimiter = ',',
        value_name = "CIDR,..."
    )]
    proxy_protocol_from: Vec<Cidr>,
    /// Connections at a time.
    #[arg(long, env = "KITE_MAX_CONNECTIONS", default_value_t = Config::default().max_connections, value_name = "NUMBER")]
    max_connections: usize,
    /// Connections at a time from one address (IPv6: from one /64).
    #[arg(long, env = "KITE_MAX_CONNECTIONS_PER_ADDRESS", default_value_t = Config::default().max_connections_per_address, value_name = "NUMBER")]
    max_connections_per_address: usize,
    /// Connections at a time that have not logged in, as OpenSSH's `MaxStartups`: from
    /// the first number on so many percent of new ones are dropped, more and more up to
    /// the last number, with which all are.
    #[arg(long, env = "KITE_MAX_STARTUPS", default_value_t = Config::default().max_startups, value_name = "START:RATE:FULL")]
    max_startups: MaxStartups,
    /// Connections at a time that have not logged in from one address (IPv6: from one
    /// /64; twice as many from one /56, and four times from one /48).
    #[arg(long, env = "KITE_MAX_STARTUPS_PER_ADDRESS", default_value_t = Config::default().max_startups_per_address, value_parser = clap::value_parser!(u32).range(1..), value_name = "NUMBER")]
    max_startups_per_address: u32,
    /// Further connections at a time, logged in or not, that are only for --never-ban.
    #[arg(long, env = "KITE_RESERVED_CONNECTIONS", default_value_t = Config::default().reserved_connections, value_name = "NUMBER")]
    reserved_connections: u32,
    /// Connections at a time to one VM.
    #[arg(long, env = "KITE_MAX_CONNECTIONS_PER_VM", default_value_t = Config::default().max_connections_per_vm, value_name = "NUMBER")]
    max_connections_per_vm: usize,
    /// Connections at a time to all VMs of one user.
    #[arg(long, env = "KITE_MAX_CONNECTIONS_PER_USER", default_value_t = Config::default().max_connections_per_owner, value_name = "NUMBER")]
    max_connections_per_user: usize,
    /// Channels at a time on one connection.
    #[arg(long, env = "KITE_MAX_CHANNELS", default_value_t = Config::default().max_channels, value_name = "NUMBER")]
    max_channels: usize,
    /// Ends a connection on which nothing is sent either way for so many seconds; 0 for
    /// never.
    #[arg(
        long,
        env = "KITE_SESSION_IDLE_SECONDS",
        default_value_t = 0,
        value_name = "SECONDS"
    )]
    session_idle_seconds: u64,
    /// Ends a connection so many seconds after its login; 0 for never.
    #[arg(
        long,
        env = "KITE_SESSION_LONGEST_SECONDS",
        default_value_t = 0,
        value_name = "SECONDS"
    )]
    session_longest_seconds: u64,
    /// Takes no client without a key exchange that withstands quantum computers, which are
    /// those of OpenSSH 9.9 and newer.
    #[arg(long, env = "KITE_POST_QUANTUM_ONLY")]
    post_quantum_only: bool,
    /// Wrong passwords within ten minutes after which no password is right that comes
    /// from the address, for longer each time; 0 for never. Keys still log in.
    #[arg(long, env = "KITE_BAN_ADDRESS_AFTER", default_value_t = Config::default().address_bans.failures, value_name = "NUMBER")]
    ban_address_after: u32,
    /// Wrong passwords within ten minutes after which a login name takes no password
    /// for a while, for longer each time, but from addresses from which it has logged in
    /// before; 0 for never.
    #[arg(long, env = "KITE_BAN_NAME_AFTER", default_value_t = Config::default().name_bans.failures, value_name = "NUMBER")]
    ban_name_after: u32,
    /// Ranges of addresses that are never banned, and for which places are kept free.
    #[arg(
        long,
        env = "KITE_NEVER_BAN",
        value_delimiter = ',',
        value_name = "CIDR,..."
    )]
    never_ban: Vec<Cidr>,
    /// Seconds within which a client must have said its version and exchanged keys.
    #[arg(long, env = "KITE_HANDSHAKE_SECONDS", default_value_t = Config::default().handshake_deadline.as_secs(), value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    handshake_seconds: u64,
    /// Seconds within which a client must have logged in.
    #[arg(long, env = "KITE_LOGIN_SECONDS", default_value_t = Config::default().login_deadline.as_secs(), value_name = "SECONDS")]
    login_seconds: u64,
    /// Seconds after SIGTERM in which connections are still accepted, while /readyz
    /// says no: as long as load balancers take to look.
    #[arg(
        long,
        env = "KITE_DRAIN_DELAY_SECONDS",
        default_value_t = 0,
        value_name = "SECONDS"
    )]
    drain_delay_seconds: u64,
    /// Seconds that sessions get to end after that.
    #[arg(
        long,
        env = "KITE_DRAIN_SECONDS",
        default_value_t = 60,
        value_name = "SECONDS"
    )]
    drain_seconds: u64,
}

impl Bounds {
    /// The gateway's configuration with them.
    pub fn config(&self) -> Config {
        let defaults = Config::default();
        Config {
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            proxies: self.proxy_protocol_from.clone(),
            max_connections: self.max_connections,
            max_connections_per_address: self.max_connections_per_address,
            max_startups: self.max_startups,
            max_startups_per_address: self.max_startups_per_address,
            reserved_connections: self.reserved_connections,
            max_connections_per_vm: self.max_connections_per_vm,
            max_connections_per_owner: self.max_connections_per_user,
            max_channels: self.max_channels,
            session_idle: Duration::from_secs(self.session_idle_seconds),
            session_longest: Duration::from_secs(self.session_longest_seconds),
            post_quantum_only: self.post_quantum_only,
            address_bans: BanPolicy {
                failures: self.ban_address_after,
                ..defaults.address_bans
            },
            name_bans: BanPolicy {
                failures: self.ban_name_after,
                ..defaults.name_bans
            },
            never_ban: self.never_ban.clone(),
            handshake_deadline: Duration::from_secs(self.handshake_seconds),
            login_deadline: Duration::from_secs(self.login_seconds),
            drain_delay: Duration::from_secs(self.drain_delay_seconds),
            drain_grace: Duration::from_secs(self.drain_seconds),
            ..defaults
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        bounds: Bounds,
    }

    fn config(arguments: &[&str]) -> Result<Config, clap::Error> {
        let arguments = ["kite-gateway"].iter().chain(arguments);
        Cli::try_parse_from(arguments).map(|cli| cli.bounds.config())
    }

    #[test]
    fn without_options_it_is_the_librarys_default() {
        let (ours, defaults) = (config(&[]).unwrap(), Config::default());
        assert_eq!(format!("{ours:?}"), format!("{defaults:?}"));
    }

    #[test]
    fn ranges_and_numbers_arrive() {
        let config = config(&[
            "--allow=10.0.0.0/8,2001:db8::/32",
            "--proxy-protocol-from=192.0.2.1",
            "--max-connections-per-user=3",
            "--ban-address-after=0",
            "--drain-delay-seconds=5",
            "--max-startups=20:50:40",
            "--max-startups-per-address=3",
            "--reserved-connections=7",
            "--handshake-seconds=4",
            "--max-channels=9",
            "--session-idle-seconds=60",
            "--session-longest-seconds=3600",
            "--post-quantum-only",
        ])
        .unwrap();
        assert_eq!(config.allow.len(), 2);
        assert!(config.proxies[0].contains("192.0.2.1".parse().unwrap()));
        assert_eq!(config.max_connections_per_owner, 3);
        assert_eq!(config.address_bans.failures, 0);
        assert_eq!(config.drain_delay, Duration::from_secs(5));
        assert_eq!(config.max_startups.to_string(), "20:50:40");
        assert_eq!(config.max_startups_per_address, 3);
        assert_eq!(config.reserved_connections, 7);
        assert_eq!(config.handshake_deadline, Duration::from_secs(4));
        assert_eq!(config.max_channels, 9);
        assert_eq!(config.session_idle, Duration::from_secs(60));
        assert_eq!(config.session_longest, Duration::from_secs(3600));
        assert!(config.post_quantum_only);
    }

    #[test]
    fn bounds_that_would_let_nobody_in_are_refused() {
        for (wrong, remedy) in [
            ("--max-startups=10:30", "write it as 100:30:512"),
            ("--max-startups=0", "write it as 100:30:512"),
            ("--max-startups-per-address=0", "1.."),
            ("--handshake-seconds=0", "1.."),
        ] {
            let error = config(&[wrong]).unwrap_err().to_string();
            let (option, value) = wrong.split_once('=').unwrap();
            assert!(error.contains(option) && error.contains(value), "{error}");
            assert!(error.contains(remedy), "{error}");
        }
    }

    #[test]
    fn what_is_no_range_is_named() {
        let error = config(&["--deny=10.0.0.0/40"]).unwrap_err().to_string();
        assert!(error.contains("--deny"), "{error}");
        assert!(error.contains("10.0.0.0/40"), "{error}");
        assert!(error.contains("write it as"), "{error}");
    }
}
