//! A fleet from nothing, in one process.

use std::time::{Duration, Instant};

use crate::{
    counted::{Requests, total, writes},
    figures::{Table, bound_of_fleet, processor_time, time},
    fleet::{self, Size},
    options::Options,
    world::{Cast, Controllers, World, furnish, lines, two_threads},
};

/// How long Kite writes nothing once all is settled.
const QUIET: Duration = Duration::from_secs(2);

struct Run {
    took: Duration,
    rest: Duration,
    processor: Duration,
    requests: u64,
    writes: u64,
}

pub fn measure(options: &Options, table: &mut Table) {
    let size = Size {
        users: options.users,
        vms: options.vms,
    };
    // A tenth first: what grows with the square shows as a ratio beyond ten.
    let tenth = Size {
        users: (size.users / 10).max(1),
        vms: (size.vms / 10).max(1),
    };
    for cast in [Cast::Brief, Cast::Whole] {
        measure_with(cast, size, tenth, table);
    }
}

fn measure_with(cast: Cast, size: Size, tenth: Size, table: &mut Table) {
    let small = run(cast, tenth);
    let all = run(cast, size);
    let (with, bound) = match cast {
        Cast::Brief => (
            "KubeVirt and CDI brief",
            bound_of_fleet(all.took.as_secs_f64(), 0.0, size.vms, 90.0, "s"),
        ),
        Cast::Whole => ("the whole cluster played", "–".to_owned()),
    };
    let per_vm = |run: &Run, vms: usize| run.processor / u32::try_from(vms).unwrap();
    table.row(
        &format!(
            "{} VMs of {} users from nothing to Running, {with}",
            size.vms, size.users
        ),
        &time(all.took),
        &bound,
        &format!("{} VMs", tenth.vms),
        &time(small.took),
    );
    table.row(
        "the same until Kite writes nothing more",
        &time(all.rest),
        "–",
        &format!("{} VMs", tenth.vms),
        &time(small.rest),
    );
    table.row(
        "processor time per VM, cluster included",
        &time(per_vm(&all, size.vms)),
        "–",
        &format!("{} VMs", tenth.vms),
        &time(per_vm(&small, tenth.vms)),
    );
    let each = |requests: u64, vms: usize| format!("{:.1}", requests as f64 / vms as f64);
    table.row(
        "Kite's requests per VM, users included",
        &format!(
            "{} ({} writes)",
            each(all.requests, size.vms),
            each(all.writes, size.vms)
        ),
        "–",
        &format!("{} VMs", tenth.vms),
        &each(small.requests, tenth.vms),
    );
}

fn run(cast: Cast, size: Size) -> Run {
    println!("{} VMs of {} users, {cast:?}:", size.vms, size.users);
    let runtime = two_threads();
    runtime.block_on(async move {
        let world = World::start(cast);
        let requests = Requests::default();
        let controllers = Controllers::start(requests.client(&world.fake));
        let people = world.fake.client();
        furnish(&people).await;
        let (begin, processor) = (Instant::now(), processor_time());
        let took = fleet::settle(&people, size).await;
        let processor = processor_time().saturating_sub(processor);
        loop {
            let last = requests.last_write().unwrap_or(begin);
            if last.elapsed() >= QUIET {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let rest = requests.last_write().unwrap_or(begin) - begin;
        let counts = requests.counts();
        for ((verb, resource), count) in &counts {
            println!("  {verb} {resource}: {count}");
        }
        for line in lines(
            &controllers.metrics,
            &["kite_reconciles", "kite_reconcile_errors"],
        ) {
            println!("  {line}");
        }
        let by_all = world.fake.log().counts().clone();
        println!("  requests of everybody: {}", by_all.values().sum::<u64>());
        let often = size.vms as u64 / 2;
        for ((verb, resource), count) in by_all.iter().filter(|(_, count)| **count >= often) {
            println!("    {verb} {resource}: {count}");
        }
        println!(
            "  Running after {}, at rest after {}, {} of processor time",
            time(took),
            time(rest),
            time(processor)
        );
        controllers.end().await;
        Run {
            took,
            rest,
            processor,
            requests: total(&counts),
            writes: writes(&counts),
        }
    })
}
