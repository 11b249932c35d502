//! How much the process takes on, as options.

use clap::Args;
use kite_api::ApiStateBuilder;
use kite_core::cidr::Cidr;
use kite_process::{Serving, memory_limit};

/// Bounds of connections and of memory.
#[derive(Args, Clone, Debug)]
pub(crate) struct LoadArgs {
    /// How many proxies in front of this server append to X-Forwarded-For.
    #[arg(
        long,
        env = "KITE_TRUSTED_PROXIES",
        value_name = "COUNT",
        default_value_t = 0
    )]
    trusted_proxies: usize,
    /// Ranges of addresses behind each of which there may be many people, such as an
    /// office's: nobody waits there for what others guessed. The cluster's own, which are in
    /// the status of the platform, are always of them.
    #[arg(
        long,
        env = "KITE_NEVER_THROTTLE",
        value_delimiter = ',',
        value_name = "CIDR,..."
    )]
    never_throttle: Vec<Cidr>,
    /// Connections at a time from one address (IPv6: from one /64). Not counted where
    /// --trusted-proxies says that addresses are those of proxies.
    #[arg(
        long,
        env = "KITE_MAX_CONNECTIONS_PER_ADDRESS",
        value_name = "NUMBER",
        default_value_t = 512
    )]
    max_connections_per_address: usize,
    /// Whether HTTP/2 in the clear is spoken, beside HTTP/1.1. By default it is where
    /// --trusted-proxies is 0: the usual proxies speak HTTP/1.1 to what is behind them.
    #[arg(long, env = "KITE_HTTP2", value_name = "BOOL")]
    http2: Option<bool>,
    /// Memory for the bodies of all requests together, in MiB. Half of it is for who is
    /// signed in; requests beyond it are answered with 503.
    #[arg(
        long,
        env = "KITE_BODY_MEMORY_MIB",
        value_name = "MIB",
        default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(2..=65536)
    )]
    body_memory_mib: u32,
    /// Memory for consoles and streams of events together, in MiB: half a MiB for each
    /// console. Together with --body-memory-mib and --answer-memory-mib it is at most half
    /// of what the process may have, and all three are less where that is not enough.
    #[arg(
        long,
        env = "KITE_STREAM_MEMORY_MIB",
        value_name = "MIB",
        default_value_t = 288,
        value_parser = clap::value_parser!(u32).range(2..=65536)
    )]
    stream_memory_mib: u32,
    /// Memory for answers of 16 KiB and more until they are read, in MiB, of which one
    /// account has a quarter at most.
    #[arg(
        long,
        env = "KITE_ANSWER_MEMORY_MIB",
        value_name = "MIB",
        default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(8..=65536)
    )]
    answer_memory_mib: u32,
    /// Memory for the hashes of passwords that are worked on at a time, in MiB: 19 for one
    /// that Kite made. At most an eighth of what the process may have.
    #[arg(
        long,
        env = "KITE_PASSWORD_MEMORY_MIB",
        value_name = "MIB",
        default_value_t = 128,
        value_parser = clap::value_parser!(u32).range(1..=65536)
    )]
    password_memory_mib: u32,
}

/// Bytes that things may hold.
#[derive(Debug, PartialEq, Eq)]
struct Memory {
    bodies: usize,
    streams: usize,
    answers: usize,
    passwords: usize,
}

impl LoadArgs {
    /// Whom the server serves how.
    pub(crate) fn serving(&self) -> Serving {
        let is_direct = self.trusted_proxies == 0;
        // A proxy has the connections of everybody behind it.
        let per_address = is_direct.then_some(self.max_connections_per_address);
        Serving::default()
            .per_address(per_address)
            .known_by(kite_api::is_signed_in)
            .http2(self.http2.unwrap_or(is_direct))
    }

    /// Sets up the API as the options say.
    pub(crate) fn set_up(&self, builder: ApiStateBuilder) -> ApiStateBuilder {
        let memory = self.memory(memory_limit());
        tracing::debug!(?memory, "memory for requests");
        builder
            .trusted_proxies(self.trusted_proxies)
            .never_throttle(self.never_throttle.iter().copied())
            .body_memory(memory.bodies)
            .stream_memory(memory.streams)
            .answer_memory(memory.answers)
            .password_memory(memory.passwords)
    }

    /// What there is for each where the process may have `limit`.
    fn memory(&self, limit: Option<u64>) -> Memory {
        let mebibytes = |it: u32| u64::from(it) << 20;
        let wanted = [
            self.body_memory_mib,
            self.stream_memory_mib,
            self.answer_memory_mib,
        ]
        .map(mebibytes);
        let all: u64 = wanted.iter().sum();
        let roof = limit.map_or(all, |limit| limit / 2).min(all);
        let [bodies, streams, answers] = wanted.map(|it| {
            let scaled = u128::from(it) * u128::from(roof) / u128::from(all);
            usize::try_from(scaled).unwrap_or(usize::MAX)
        });
        let passwords = mebibytes(self.password_memory_mib);
        let passwords = limit.map_or(passwords, |limit| passwords.min(limit / 8));
        Memory {
            bodies,
            streams,
            answers,
            passwords: usize::try_from(passwords).unwrap_or(usize::MAX),
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
        load: LoadArgs,
    }

    fn args(args: &[&str]) -> LoadArgs {
        let args = ["kite-api"].iter().chain(args);
        Cli::try_parse_from(args).unwrap().load
    }

    #[test]
    fn half_of_what_the_process_may_have_is_the_roof() {
        let load = args(&[]);
        let usual = Memory {
            bodies: 64 << 20,
            streams: 288 << 20,
            answers: 64 << 20,
            passwords: 128 << 20,
        };
        assert_eq!(load.memory(None), usual);
        assert_eq!(load.memory(Some(1 << 30)), usual);
        let half = Memory {
            bodies: 32 << 20,
            streams: 144 << 20,
            answers: 32 << 20,
            passwords: 52 << 20,
        };
        assert_eq!(load.memory(Some(416 << 20)), half);
        let load = args(&["--body-memory-mib", "4096"]);
        let some = load.memory(Some(1 << 30));
        let all = some.bodies + some.streams + some.answers;
        assert!(all <= 512 << 20, "{some:?}");
    }

    #[test]
    fn behind_proxies_there_is_no_http2_unless_asked_for() {
        for (given, http2, per_address) in [
            (&[][..], true, Some(512)),
            (&["--trusted-proxies=1"], false, None),
            (&["--trusted-proxies=1", "--http2=true"], true, None),
            (&["--http2=false"], false, Some(512)),
        ] {
            let serving = args(given).serving();
            assert_eq!(serving.http2, http2, "{given:?}");
            assert_eq!(serving.per_address, per_address, "{given:?}");
        }
    }
}
