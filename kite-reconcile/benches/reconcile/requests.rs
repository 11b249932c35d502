//! What a VM costs in requests.

use std::time::Duration;

use kite_core::cluster::{Cluster as _, KubeCluster};

use crate::{
    counted::{Counts, Requests, is_read, total, writes},
    figures::{Table, bound},
    fleet::{self, Size},
    world::{Cast, Controllers, World, furnish},
};

/// What is rendered for a VM that has everything: two claims, two Secrets, the
/// disk, the machine, two Services, the Ingress.
const RENDERED: u64 = 9;
/// Longer than any resync.
const A_WHILE: Duration = Duration::from_secs(1500);
/// Long enough for everything that is written to have come back.
const REST: Duration = Duration::from_secs(30);

pub fn measure(table: &mut Table) {
    // Virtual time: the same in every run, and a resync costs no waiting.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let world = World::start(Cast::Whole);
        let requests = Requests::default();
        let controllers = Controllers::start(requests.client(&world.fake));
        let people = world.fake.client();
        furnish(&people).await;
        let size = Size { users: 1, vms: 1 };
        fleet::settle(&people, size).await;
        tokio::time::sleep(REST).await;

        // Another VM beside one that is there.
        let vm = fleet::vm(&fleet::namespace_of(0), 0, 1);
        let before = requests.counts();
        KubeCluster::new(people.clone()).create(&vm).await.unwrap();
        fleet::until_running(&people, 2).await;
        tokio::time::sleep(REST).await;
        let asked = requests.since(&before);
        let most = RENDERED + 4;
        println!(
            "requests from a VM's creation to Running and rest:\n{}",
            text(&asked)
        );
        table.row(
            "requests per VM, creation to Running",
            &format!("{} ({} writes)", total(&asked), writes(&asked)),
            &bound(&total(&asked), &most, &format!("{RENDERED} objects + 4")),
            "",
            "–",
        );

        let before = requests.counts();
        tokio::time::sleep(A_WHILE).await;
        let mut asked = requests.since(&before);
        // Watches end and begin anew by themselves, one for each kind.
        asked.retain(|(verb, _), _| verb != "watch");
        println!("requests of 25 minutes at rest:\n{}", text(&asked));
        table.row(
            "requests at resync, 2 VMs",
            &total(&asked).to_string(),
            &bound(&total(&asked), &0, "0"),
            "",
            "–",
        );
        controllers.end().await;
    });
}

fn text(counts: &Counts) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for ((verb, resource), count) in counts {
        let _ = writeln!(text, "  {verb} {resource}: {count}");
    }
    let reads: u64 = counts
        .iter()
        .filter(|((verb, _), _)| is_read(verb))
        .map(|(_, count)| count)
        .sum();
    let _ = writeln!(text, "  in all: {} reads, {} writes", reads, writes(counts));
    text
}
