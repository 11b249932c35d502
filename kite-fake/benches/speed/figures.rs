//! Measuring, and the table.

use std::time::{Duration, Instant};

/// Time of one run of `work`: the best average over `rounds` rounds of `times` runs.
pub fn best(rounds: usize, times: usize, mut work: impl FnMut(usize)) -> Duration {
    (0..rounds)
        .map(|round| {
            let start = Instant::now();
            for i in 0..times {
                work(round * times + i);
            }
            start.elapsed() / u32::try_from(times).unwrap()
        })
        .min()
        .unwrap()
}

/// The same where each run uses something up, which is made for a round just before
/// it and outside of its time: as hot in the caches as what a client has just made.
pub fn best_of_made<T>(
    rounds: usize,
    times: usize,
    mut make: impl FnMut(usize) -> T,
    mut work: impl FnMut(T),
) -> Duration {
    (0..rounds)
        .map(|round| {
            let inputs: Vec<T> = (0..times).map(|i| make(round * times + i)).collect();
            let start = Instant::now();
            for input in inputs {
                work(input);
            }
            start.elapsed() / u32::try_from(times).unwrap()
        })
        .min()
        .unwrap()
}

/// A figure as text, and whether it keeps to a bound.
pub fn time(figure: Duration) -> String {
    let nanos = figure.as_nanos();
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} µs", figure.as_secs_f64() * 1e6),
        _ => format!("{:.2} ms", figure.as_secs_f64() * 1e3),
    }
}

#[derive(Default)]
pub struct Table(Vec<[String; 5]>);

impl Table {
    /// A row: what, the figure, the target, and the peer with its figure.
    pub fn row(&mut self, what: &str, figure: &str, target: &str, peer: &str, theirs: &str) {
        // Progress, for those who wait.
        println!("{what}: {figure} (target {target}; {peer} {theirs})");
        self.0
            .push([what, figure, target, theirs, peer].map(str::to_owned));
    }

    /// A row of times; the target is in microseconds.
    pub fn times(
        &mut self,
        what: &str,
        figure: Duration,
        target: Option<u64>,
        peer: &str,
        theirs: Option<Duration>,
    ) {
        let target = target.map(|micros| {
            let met = figure <= Duration::from_micros(micros);
            let bound = time(Duration::from_micros(micros)).replace(".0 ", " ");
            format!("{bound}, {}", if met { "met" } else { "missed" })
        });
        self.row(
            what,
            &time(figure),
            target.as_deref().unwrap_or("–"),
            peer,
            &theirs.map_or_else(|| "–".to_owned(), time),
        );
    }

    /// The table in Markdown.
    pub fn print(&self) {
        println!("\n| Figure | kite-fake | Target | Peer | Which |\n|---|---|---|---|---|");
        for row in &self.0 {
            println!("| {} |", row.join(" | "));
        }
    }
}
