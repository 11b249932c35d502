//! What the tests run as processes of their own: this same program, told by its
//! environment what to be.

use std::io::{self, BufRead as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::{env, process};

use clap::Parser;
use rustix::process::{Signal, getpid, kill_process};
use socket2::{Domain, Socket, Type};

/// Arguments of `kite host-sshd`, one in a line.
pub const ARGUMENTS: &str = "HOST_SSHD_ARGUMENTS";
/// The message, counted from zero, at which it kills itself.
pub const DIE_AT: &str = "HOST_SSHD_DIE_AT";
/// The beginning of a message at which it runs a shell script.
pub const ON: &str = "HOST_SSHD_ON";
/// That script.
pub const DO: &str = "HOST_SSHD_DO";
/// An address to listen on until standard input ends.
pub const LISTEN: &str = "HOST_SSHD_LISTEN";
/// An address to have without listening on it, for as long.
pub const BIND: &str = "HOST_SSHD_BIND";

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: kite_host_sshd::Options,
}

/// Not a test: the others run it.
#[test]
fn as_a_process() {
    if let Ok(address) = env::var(LISTEN) {
        hold(&TcpListener::bind(address).unwrap());
    }
    if let Ok(address) = env::var(BIND) {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let address: SocketAddr = address.parse().unwrap();
        socket.bind(&address.into()).unwrap();
        hold(&socket);
    }
    let Ok(arguments) = env::var(ARGUMENTS) else {
        return;
    };
    let arguments = ["host-sshd"].into_iter().chain(arguments.lines());
    let cli = Cli::try_parse_from(arguments).unwrap_or_else(|error| error.exit());
    let die_at: Option<usize> = env::var(DIE_AT).ok().map(|at| at.parse().unwrap());
    let mut script = env::var(ON).ok().zip(env::var(DO).ok());
    let mut seen = 0;
    let mut messages = |message: &str| {
        eprintln!("{message}");
        if die_at == Some(seen) {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        seen += 1;
        if let Some((_, text)) = script.take_if(|(on, _)| message.starts_with(on.as_str())) {
            let status = Command::new("sh").arg("-ec").arg(text).status().unwrap();
            assert!(status.success(), "the script of the test failed");
        }
    };
    let exit = kite_host_sshd::run(&cli.options, &mut io::stdout(), &mut messages).unwrap();
    process::exit(exit as i32);
}

fn hold<T>(_socket: &T) -> ! {
    let mut output = io::stdout();
    writeln!(output, "holding").unwrap();
    io::stdin().lock().lines().for_each(drop);
    process::exit(0);
}
