//! What `/proc` tells of the machine and its processes.

use std::collections::HashMap;
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Clock ticks in a second, the unit of `/proc/<pid>/stat`.
static TICKS: LazyLock<f64> = LazyLock::new(|| {
    let told = Command::new("getconf").arg("CLK_TCK").output();
    let told = told.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    told.unwrap_or_default().trim().parse().unwrap_or(100.0)
});

/// Processors and load, for the notes beside the figures.
pub fn describe() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split_whitespace().take(3).collect();
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split(':').nth(1)).unwrap_or("");
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{processors} processors ({}), load {}",
        model.trim(),
        load.join(" ")
    )
}

struct Stat {
    parent: u32,
    /// Ticks of the process itself and of its children that were waited for.
    ticks: u64,
    /// Those of the children alone.
    waited: u64,
}

fn stat(pid: &str) -> Option<Stat> {
    // The process may have ended since it was listed.
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in parentheses, may contain anything.
    let (_, after) = text.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    // `after` begins with field 3 of proc(5): ppid is field 4, utime, stime,
    // cutime and cstime are fields 14 to 17.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let own = number(14)? + number(15)?;
    let waited = number(16)? + number(17)?;
    Some(Stat {
        parent: u32::try_from(number(4)?).ok()?,
        ticks: own + waited,
        waited,
    })
}

/// A process and all that came of it and still lives.
fn tree(root: u32) -> HashMap<u32, Stat> {
    let mut all: HashMap<u32, Stat> = HashMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if let (Ok(pid), Some(stat)) = (name.parse(), stat(name)) {
            all.insert(pid, stat);
        }
    }
    let belongs = |pid: u32| {
        let mut at = pid;
        while at != root {
            match all.get(&at) {
                Some(stat) if stat.parent != 0 => at = stat.parent,
                _ => return false,
            }
        }
        true
    };
    let pids: Vec<u32> = all.keys().copied().filter(|pid| belongs(*pid)).collect();
    pids.into_iter()
        .filter_map(|pid| Some((pid, all.remove(&pid)?)))
        .collect()
}

/// Waits until a process has no children, so that what they used has been handed
/// up to it.
pub fn rest(root: u32) {
    assert!(
        has_come_to_rest(root),
        "connections through process {root} do not end"
    );
}

/// Whether a process's children have ended, after a while.
pub fn has_come_to_rest(root: u32) -> bool {
    let start = Instant::now();
    while tree(root).len() > 1 {
        if start.elapsed() > Duration::from_secs(20) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Seconds of processor time of a process and of all that came of it. Those that
/// live are asked themselves; an ended one is in the account of whoever waited for
/// it, which is its parent here: sshd waits for what it forks.
pub fn processor_seconds(root: u32) -> f64 {
    let ticks: u64 = tree(root).values().map(|stat| stat.ticks).sum();
    ticks as f64 / *TICKS
}

/// Seconds of processor time of this process's children that have ended.
pub fn ended_children_seconds() -> f64 {
    stat("self").map_or(0.0, |stat| stat.waited as f64 / *TICKS)
}

/// Bytes of memory of a process and of all that came of it, with what is shared
/// divided among those that share it.
pub fn proportional_bytes(root: u32) -> u64 {
    let of = |pid: &u32| -> u64 {
        let path = format!("/proc/{pid}/smaps_rollup");
        // A zombie has none.
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("Pss:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        kib.unwrap_or(0) * 1024
    };
    tree(root).keys().map(of).sum()
}
