//! How much the process takes on, as options.

use clap::Args;
use kite_api::ApiStateBuilder;
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
    /// console. Together with --body-memory-mib it is at most half of what the process may
    /// have, and both are less where that is not enough.
    #[arg(
        long,
        env = "KITE_STREAM_MEMORY_MIB",
        value_name = "MIB",
        default_value_t = 288,
        value_parser = clap::value_parser!(u32).range(2..=65536)
    )]
    stream_memory_mib: u32,
}

impl LoadArgs {
    /// Whom the server serves how.
    pub(crate) fn serving(&self) -> Serving {
        let is_direct = self.trusted_proxies == 0;
        // A proxy has the connections of everybody behind it.
        let per_address = is_direct.then_some(self.max_connections_per_address);
        Serving::default()
            .per_address(per_address)
            .http2(self.http2.unwrap_or(is_direct))
    }

    /// Sets up the API as the options say.
    pub(crate) fn set_up(&self, builder: ApiStateBuilder) -> ApiStateBuilder {
        let (bodies, streams) = self.memory(memory_limit());
        tracing::debug!(bodies, streams, "memory for requests");
        builder
            .trusted_proxies(self.trusted_proxies)
            .body_memory(bodies)
            .stream_memory(streams)
    }

    /// Bytes for bodies, and for streams, where the process may have `limit`.
    fn memory(&self, limit: Option<u64>) -> (usize, usize) {
        let wanted = [self.body_memory_mib, self.stream_memory_mib].map(|it| u64::from(it) << 20);
        let all: u64 = wanted.iter().sum();
        let roof = limit.map_or(all, |limit| limit / 2).min(all);
        let scaled = wanted.map(|it| {
            let scaled = u128::from(it) * u128::from(roof) / u128::from(all);
            usize::try_from(scaled).unwrap_or(usize::MAX)
        });
        (scaled[0], scaled[1])
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
        assert_eq!(load.memory(None), (64 << 20, 288 << 20));
        assert_eq!(load.memory(Some(1 << 30)), (64 << 20, 288 << 20));
        let (bodies, streams) = load.memory(Some(352 << 20));
        assert_eq!((bodies, streams), (32 << 20, 144 << 20));
        let load = args(&["--body-memory-mib", "4096"]);
        let (bodies, streams) = load.memory(Some(1 << 30));
        assert!(bodies + streams <= 512 << 20, "{bodies} {streams}");
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
