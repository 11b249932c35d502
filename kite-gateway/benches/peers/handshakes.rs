//! Connecting, logging in and running `true`.

use std::process::Stdio;
use std::time::Instant;

use crate::bed::{AES, Bed, Target};
use crate::figures::{Table, median, spread, verdict};
use crate::machine::{processor_seconds, rest};
use crate::options::Options;
use crate::processes::Process;

/// A target's turn is this many connections at a time.
const AT_ONCE: usize = 8;

#[derive(Default)]
struct Figures {
    /// Milliseconds, on the clock, of each connection.
    wall: Vec<f64>,
    /// Connections in a second, in each turn.
    rate: Vec<f64>,
    /// Milliseconds of the hop's processor time per connection.
    hop: f64,
}

pub fn measure(options: &Options, bed: &Bed) {
    let connections = options.scaled(100, 16);
    let title = format!("`ssh T true`, {connections} times:");
    let table = Table::new(
        &title,
        &[
            "at once",
            "target",
            "ms each",
            "connections/s",
            "hop CPU ms each",
            "goal",
        ],
    );
    for at_once in [1, AT_ONCE] {
        let all = connect(bed, at_once, connections);
        let jump = all[1].hop;
        for (target, figures) in bed.targets.iter().zip(&all) {
            let goal = if target.is_gateway() {
                verdict("a tenth of ssh -J", figures.hop <= jump / 10.0)
            } else {
                String::new()
            };
            let hop = if target.hop.is_some() {
                format!("{:.1}", figures.hop)
            } else {
                "–".to_owned()
            };
            table.row(&[
                &at_once.to_string(),
                target.name,
                &spread(&figures.wall, 0),
                &format!("{:.1}", median(&figures.rate)),
                &hop,
                &goal,
            ]);
        }
    }
}

fn connect(bed: &Bed, at_once: usize, connections: usize) -> Vec<Figures> {
    let used = |target: &Target| target.hop.map_or(0.0, processor_seconds);
    let at_rest = |target: &Target| {
        if let Some(hop) = target.hop {
            rest(hop);
        }
        used(target)
    };
    let before: Vec<f64> = bed.targets.iter().map(at_rest).collect();
    let mut all: Vec<Figures> = Vec::new();
    all.resize_with(bed.targets.len(), Figures::default);
    let mut done = 0;
    while done < connections {
        for (target, figures) in bed.targets.iter().zip(&mut all) {
            let start = Instant::now();
            // Each of them goes on by itself, so that there are always as many.
            let workers = (0..at_once).map(|_| {
                || {
                    let each = AT_ONCE / at_once;
                    (0..each).map(|_| once(bed, target)).collect::<Vec<f64>>()
                }
            });
            std::thread::scope(|scope| {
                let running: Vec<_> = workers.map(|work| scope.spawn(work)).collect();
                for worker in running {
                    figures.wall.extend(worker.join().unwrap());
                }
            });
            figures
                .rate
                .push(AT_ONCE as f64 / start.elapsed().as_secs_f64());
        }
        done += AT_ONCE;
    }
    for ((target, figures), before) in bed.targets.iter().zip(&mut all).zip(before) {
        figures.hop = (at_rest(target) - before) * 1000.0 / done as f64;
    }
    all
}

fn once(bed: &Bed, target: &Target) -> f64 {
    let start = Instant::now();
    Process::start(
        bed.ssh(AES)
            .args([target.host(), "true"])
            .stdout(Stdio::null()),
    )
    .finish();
    start.elapsed().as_secs_f64() * 1000.0
}
