//! One byte there and back, alone and beside bulk on the same connection.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::bed::{AES, Bed, Target};
use crate::figures::{Table, percentile};
use crate::options::Options;
use crate::processes::{Process, line};

/// For bulk to fill what it can fill.
const FILL: Duration = Duration::from_millis(500);

#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    Down,
    Up,
}

const ALL: [Beside; 3] = [Beside::Nothing, Beside::Down, Beside::Up];

impl Beside {
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Down => "a download",
            Self::Up => "an upload",
        }
    }
}

pub fn measure(options: &Options, bed: &Bed) {
    let table = Table::new(
        "One byte there and back, in µs:",
        &["beside", "target", "p50", "p99", "of direct, p50"],
    );
    for beside in ALL {
        let mut all: Vec<Vec<f64>> = vec![Vec::new(); bed.targets.len()];
        for _ in 0..options.repetitions {
            for (target, figures) in bed.targets.iter().zip(&mut all) {
                once(options, bed, target, beside, figures);
            }
        }
        let direct = percentile(&all[0], 0.5);
        for (target, figures) in bed.targets.iter().zip(&all) {
            let p50 = percentile(figures, 0.5);
            table.row(&[
                beside.name(),
                target.name,
                &format!("{p50:.0}"),
                &format!("{:.0}", percentile(figures, 0.99)),
                &format!("{:.2}", p50 / direct),
            ]);
        }
    }
}

fn once(options: &Options, bed: &Bed, target: &Target, beside: Beside, figures: &mut Vec<f64>) {
    let socket = bed.path("master");
    // The master before was killed and left it behind.
    let _ = std::fs::remove_file(&socket);
    let socket = socket.to_str().unwrap();
    let mut master = Process::start(
        bed.ssh(AES)
            .args(["-o", "ControlMaster=yes", "-S", socket])
            .args([
                "-o",
                "PermitLocalCommand=yes",
                "-o",
                "LocalCommand=echo ready",
            ])
            .args(["-N", target.host()])
            .stdout(Stdio::piped()),
    );
    line(&mut master.lines());
    let client = |what: &str| {
        let mut client = bed.ssh(AES);
        client.args(["-S", socket, target.host(), what]);
        client
    };
    let mut zeros = None;
    let bulk = match beside {
        Beside::Nothing => None,
        Beside::Down => Some(client("cat /dev/zero")),
        Beside::Up => {
            let mut source =
                Process::start(Command::new("cat").arg("/dev/zero").stdout(Stdio::piped()));
            let mut upload = client("cat >/dev/null");
            upload.stdin(source.0.stdout.take().unwrap());
            zeros = Some(source);
            Some(upload)
        }
    };
    let bulk = bulk.map(|mut bulk| Process::start(bulk.stdout(Stdio::null())));
    std::thread::sleep(FILL);
    let mut echo = Process::start(client("cat").stdin(Stdio::piped()).stdout(Stdio::piped()));
    let (mut to, mut from) = (echo.0.stdin.take().unwrap(), echo.0.stdout.take().unwrap());
    let mut byte = [0];
    let count = match beside {
        Beside::Nothing => options.scaled(2000, 200),
        Beside::Down | Beside::Up => options.scaled(300, 30),
    };
    for number in 0..count + 10 {
        let start = Instant::now();
        to.write_all(b"x").unwrap();
        from.read_exact(&mut byte).unwrap();
        // The first ones wait for the session to begin.
        if number >= 10 {
            figures.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    // The connection ends first: it takes all that is on it along.
    drop(master);
    drop((echo, bulk, zeros));
}
