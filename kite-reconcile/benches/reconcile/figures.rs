//! Measuring, and the table.

use std::time::Duration;

/// A duration in a unit that suits it.
pub fn time(figure: Duration) -> String {
    let nanos = figure.as_nanos();
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} µs", figure.as_secs_f64() * 1e6),
        1_000_000..1_000_000_000 => format!("{:.1} ms", figure.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", figure.as_secs_f64()),
    }
}

/// A size in MB (10^6 bytes), as the targets are.
pub fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1_000_000))
}

/// A target and whether the figure keeps to it.
pub fn bound<T: PartialOrd>(figure: &T, most: &T, text: &str) -> String {
    let met = figure <= most;
    format!("{text}, {}", if met { "met" } else { "**missed**" })
}

/// The fleet of which the targets speak.
const FULL: usize = 10_000;

/// A target that speaks of the full fleet, and whether `figure` keeps to it; of a
/// smaller fleet, what `figure` would come to if all beyond `fixed` grew with it.
pub fn bound_of_fleet(figure: f64, fixed: f64, vms: usize, most: f64, unit: &str) -> String {
    let text = format!("{most} {unit} at 10,000 VMs");
    if vms >= FULL {
        return bound(&figure, &most, &text);
    }
    let rate = (figure - fixed) / vms as f64;
    let grown = fixed + rate * FULL as f64;
    format!("{text}; at this rate {grown:.0} {unit}")
}

/// Processor time that this process has used, in all its threads.
pub fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name, in parentheses, may contain anything.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let fields: Vec<u64> = after
        .split_whitespace()
        .skip(1)
        .map(|field| field.parse().unwrap_or_default())
        .collect();
    // utime and stime, fields 14 and 15 of proc(5), in hundredths of a second.
    let ticks =
        fields.get(10).copied().unwrap_or_default() + fields.get(11).copied().unwrap_or_default();
    Duration::from_millis(ticks * 10)
}

/// Processor time of one of the `each` things that `work` does: the average over
/// as many as give a figure beside which the clock's ticks of 10 ms do not count.
/// What else runs on the machine says little.
pub async fn average<F: Future<Output = ()>>(each: usize, mut work: impl FnMut() -> F) -> Duration {
    let (start, mut done) = (processor_time(), 0);
    loop {
        work().await;
        done += each;
        let used = processor_time().saturating_sub(start);
        if used >= Duration::from_secs(1) {
            return used / u32::try_from(done).unwrap();
        }
    }
}

#[derive(Default)]
pub struct Table(Vec<[String; 5]>);

impl Table {
    /// A row: what, the figure, the target, and the peer with its figure.
    pub fn row(&mut self, what: &str, figure: &str, target: &str, peer: &str, theirs: &str) {
        // Progress, for those who wait.
        println!("{what}: {figure} (target: {target}; {peer}: {theirs})");
        self.0
            .push([what, figure, target, theirs, peer].map(str::to_owned));
    }

    /// The table in Markdown.
    pub fn print(&self) {
        println!("\n| Figure | Kite | Target | Peer | Which |\n|---|---|---|---|---|");
        for row in &self.0 {
            println!("| {} |", row.join(" | "));
        }
    }
}
