//! What was asked for on the command line.

use std::path::PathBuf;

const PARTS: [&str; 4] = ["throughput", "handshakes", "idle", "latency"];

pub struct Options {
    /// This process is the gateway of the bed in this directory.
    pub gateway: Option<PathBuf>,
    /// This process is the copier of the bed in this directory.
    pub copier: Option<PathBuf>,
    pub repetitions: usize,
    pub mib: u64,
    /// For a look whether all of it works; the figures say little.
    pub quick: bool,
    /// The same benchmark of another version, whose gateway takes its turns, too.
    pub other: Option<PathBuf>,
    parts: Vec<String>,
}

impl Options {
    pub fn from_arguments() -> Self {
        let mut options = Self {
            gateway: None,
            copier: None,
            repetitions: 0,
            mib: 0,
            quick: false,
            other: None,
            parts: Vec::new(),
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.unwrap_or_else(|| panic!("{argument} needs a value"))
            };
            match argument.as_str() {
                "--repetitions" => {
                    options.repetitions = value().parse().expect("--repetitions takes a number");
                }
                "--mib" => options.mib = value().parse().expect("--mib takes a number"),
                "--quick" => options.quick = true,
                "--other" => options.other = Some(value().into()),
                "--copier" => options.copier = Some(value().into()),
                "--gateway" => options.gateway = Some(value().into()),
                // Cargo adds it.
                "--bench" => {}
                part if PARTS.contains(&part) => options.parts.push(part.to_owned()),
                other => panic!("{other} is no option: see the head of benches/peers/main.rs"),
            }
        }
        let (repetitions, mib) = if options.quick { (1, 64) } else { (5, 1024) };
        if options.repetitions == 0 {
            options.repetitions = repetitions;
        }
        if options.mib == 0 {
            options.mib = mib;
        }
        options
    }

    /// Whether `part` was chosen; all are, if none was named.
    pub fn is_on(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|chosen| chosen == part)
    }

    /// `full`, or `quick` for a look.
    pub fn scaled(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }
}
