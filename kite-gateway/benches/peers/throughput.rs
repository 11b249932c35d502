//! Bulk: up, down and both at once, in two ciphers.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::bed::{AES, Bed, CHACHA, Target};
use crate::figures::{Table, median, ratio, spread, verdict};
use crate::machine::{ended_children_seconds, processor_seconds, rest};
use crate::options::Options;
use crate::processes::Process;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Up,
    Down,
    Both,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Both => "both ways",
        }
    }
}

/// What was measured of one target, a figure for each repetition.
#[derive(Default)]
struct Figures {
    speed: Vec<f64>,
    hop: Vec<f64>,
    client: Vec<f64>,
    server: Vec<f64>,
    /// Processors that all of them together kept busy.
    busy: Vec<f64>,
}

pub fn measure(options: &Options, bed: &Bed) {
    let title = format!(
        "Throughput, {} MiB, median and range of {}:",
        options.mib, options.repetitions
    );
    let table = Table::new(
        &title,
        &[
            "cipher",
            "way",
            "target",
            "MiB/s",
            "of direct",
            "hop CPU s/GiB",
            "client CPU s/GiB",
            "VM's sshd CPU s/GiB",
            "processors busy",
            "goals",
        ],
    );
    for cipher in [AES, CHACHA] {
        for way in [Way::Up, Way::Down, Way::Both] {
            let mut all: Vec<Figures> = Vec::new();
            all.resize_with(bed.targets.len(), Figures::default);
            for turn in 0..options.repetitions {
                // Each begins a turn once: who comes first is no advantage.
                for at in 0..bed.targets.len() {
                    let at = (at + turn) % bed.targets.len();
                    once(options, bed, cipher, way, &bed.targets[at], &mut all[at]);
                }
            }
            report(bed, cipher, way, &all, &table);
        }
    }
}

fn once(
    options: &Options,
    bed: &Bed,
    cipher: &str,
    way: Way,
    target: &Target,
    figures: &mut Figures,
) {
    let hop = || target.hop.map_or(0.0, processor_seconds);
    let before = (hop(), processor_seconds(bed.vm), ended_children_seconds());
    let start = Instant::now();
    transfer(options.mib, bed, cipher, way, target);
    let took = start.elapsed().as_secs_f64();
    rest(bed.vm);
    if let Some(hop) = target.hop {
        rest(hop);
    }
    let gib = options.mib as f64 / 1024.0;
    let used = [
        hop() - before.0,
        processor_seconds(bed.vm) - before.1,
        ended_children_seconds() - before.2,
    ];
    figures.speed.push(options.mib as f64 / took);
    figures.hop.push(used[0] / gib);
    figures.server.push(used[1] / gib);
    figures.client.push(used[2] / gib);
    figures.busy.push(used.iter().sum::<f64>() / took);
}

fn transfer(mib: u64, bed: &Bed, cipher: &str, way: Way, target: &Target) {
    let bytes = (mib * 1024 * 1024).to_string();
    let mut client = bed.ssh(cipher);
    client.arg(target.host());
    match way {
        Way::Up => client.arg("cat >/dev/null"),
        Way::Down => client.arg(format!("head -c {bytes} /dev/zero")),
        Way::Both => client.arg("cat"),
    };
    client.stdout(Stdio::null());
    if way == Way::Down {
        return Process::start(&mut client).finish();
    }
    let mut source = Process::start(
        Command::new("head")
            .args(["-c", &bytes, "/dev/zero"])
            .stdout(Stdio::piped()),
    );
    let pipe = source.0.stdout.take().unwrap();
    Process::start(client.stdin(pipe)).finish();
    source.finish();
}

fn report(bed: &Bed, cipher: &str, way: Way, all: &[Figures], table: &Table) {
    let (direct, jump) = (&all[0], &all[1]);
    for (target, figures) in bed.targets.iter().zip(all) {
        let of_direct = ratio(&figures.speed, &direct.speed);
        let is_hop = target.hop.is_some();
        let hop = median(&figures.hop);
        let goals = if target.is_gateway() {
            let speed = verdict("0.85 of direct", of_direct >= 0.85);
            let cost = verdict("CPU of ssh -J", hop <= median(&jump.hop));
            format!("{speed}; {cost}")
        } else {
            String::new()
        };
        // The client's own process for the jump ends without being waited for, so
        // what it used is not known.
        let whole = target.name != "ssh -J";
        let dash = "–".to_owned();
        table.row(&[
            cipher.split('@').next().unwrap_or(cipher),
            way.name(),
            target.name,
            &spread(&figures.speed, 0),
            &if is_hop {
                format!("{of_direct:.2}")
            } else {
                dash.clone()
            },
            &if is_hop {
                spread(&figures.hop, 2)
            } else {
                dash.clone()
            },
            &if whole {
                format!("{:.2}", median(&figures.client))
            } else {
                dash.clone()
            },
            &format!("{:.2}", median(&figures.server)),
            &if whole {
                format!("{:.1}", median(&figures.busy))
            } else {
                dash
            },
            &goals,
        ]);
    }
}
