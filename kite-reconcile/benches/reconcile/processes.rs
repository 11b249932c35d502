//! The controllers' memory: the same fleet, with the API server, the controllers
//! and plain caches in processes of their own. This one is the people.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::api::{
    core::v1::{Namespace, PersistentVolumeClaim, ResourceQuota, Secret, Service},
    networking::v1::{Ingress, NetworkPolicy},
};
use kite_core::{
    cdi::{DataSource, DataVolume},
    cluster::Object,
    crd::{KiteImage, KitePlatform, KiteReservation, KiteUser, KiteVirtualMachine},
    kubevirt::{VirtualMachine, VirtualMachineInstance},
};
use kube::{
    Api, Client, Config,
    runtime::{WatchStreamExt as _, reflector, watcher},
};

use crate::{
    figures::{Table, bound_of_fleet, megabytes, time},
    fleet::{self, Size},
    options::{Options, Role},
    world::{Cast, Controllers, World, furnish, lines, two_threads},
};

/// For the controllers to come to rest, and for freed memory to be seen.
const REST: Duration = Duration::from_secs(10);

/// A process of this benchmark in another role; it ends with its input.
struct Process {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(role: &Role) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(role.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { child, said }
    }

    /// The next line that it says.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "a process of the benchmark ended early");
        line.trim_end().to_owned()
    }

    /// A field of its `/proc/<pid>/status` in bytes: `VmRSS` now, `VmHWM` at most.
    fn memory(&self, field: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

pub fn measure(options: &Options, table: &mut Table) {
    let size = Size {
        users: options.users,
        vms: options.vms,
    };
    println!(
        "{} VMs of {} users, in three processes:",
        size.vms, size.users
    );
    let mut server = Process::start(&Role::Server);
    let url = server.line();
    let mut controller = Process::start(&Role::Controller(url.clone()));
    controller.line();
    let empty = controller.memory("VmRSS");
    let runtime = two_threads();
    let took = runtime.block_on(async {
        let people = connect(&url);
        furnish(&people).await;
        fleet::settle(&people, size).await
    });
    std::thread::sleep(REST);
    let (now, most) = (controller.memory("VmRSS"), controller.memory("VmHWM"));
    println!("  Running after {} over sockets", time(took));
    drop(controller);

    // What a controller holds that starts on a cluster that is settled.
    let mut again = Process::start(&Role::Controller(url.clone()));
    again.line();
    std::thread::sleep(REST);
    let fresh = again.memory("VmRSS");
    drop(again);

    let mut caches = Process::start(&Role::Caches(url));
    caches.line();
    let plain = caches.memory("VmRSS");
    drop(caches);
    let peer = "full objects in kube-rs reflectors";
    let target = |figure: u64| {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        bound_of_fleet(mb(figure), mb(empty), size.vms, 300.0, "MB")
    };
    table.row(
        &format!("controllers' memory, {} VMs settled", size.vms),
        &megabytes(now),
        &target(now),
        peer,
        &megabytes(plain),
    );
    table.row(
        "at most on the way there",
        &megabytes(most),
        &target(most),
        "before the first user",
        &megabytes(empty),
    );
    table.row(
        "started anew on the settled cluster",
        &megabytes(fresh),
        &target(fresh),
        peer,
        &megabytes(plain),
    );
}

fn connect(url: &str) -> Client {
    Client::try_from(Config::new(url.parse().unwrap())).unwrap()
}

/// Plays a role until the input ends.
pub fn play(role: &Role) {
    let runtime = two_threads();
    runtime.block_on(async {
        let ended = tokio::task::spawn_blocking(|| {
            let _ = std::io::stdin().read(&mut [0]);
        });
        match role {
            Role::Main => {}
            Role::Server => {
                let world = World::start(Cast::Whole);
                let served = world.fake.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
                println!("{}", served.url());
                ended.await.unwrap();
            }
            Role::Controller(url) => {
                let controllers = Controllers::start(connect(url));
                println!("started");
                ended.await.unwrap();
                for line in lines(&controllers.metrics, &["kite_cache_"]) {
                    eprintln!("    {line}");
                }
                controllers.end().await;
            }
            Role::Caches(url) => {
                hold_all(&connect(url)).await;
                println!("filled");
                ended.await.unwrap();
            }
        }
        // Connections and watches end with the process.
        std::process::exit(0);
    });
}

/// Fills a reflector with every object of each kind that Kite's controllers
/// look at, and leaves it running.
async fn hold_all(client: &Client) {
    hold::<KiteVirtualMachine>(client).await;
    hold::<KiteUser>(client).await;
    hold::<KiteImage>(client).await;
    hold::<KitePlatform>(client).await;
    hold::<KiteReservation>(client).await;
    hold::<Namespace>(client).await;
    hold::<NetworkPolicy>(client).await;
    hold::<ResourceQuota>(client).await;
    hold::<Secret>(client).await;
    hold::<Service>(client).await;
    hold::<Ingress>(client).await;
    hold::<PersistentVolumeClaim>(client).await;
    hold::<DataVolume>(client).await;
    hold::<DataSource>(client).await;
    hold::<VirtualMachine>(client).await;
    hold::<VirtualMachineInstance>(client).await;
}

async fn hold<K: Object>(client: &Client) {
    let (reader, writer) = reflector::store::<K>();
    let events = watcher(Api::<K>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(writer);
    tokio::spawn(events.for_each(|_| std::future::ready(())));
    reader.wait_until_ready().await.unwrap();
    // The store lives as long as its writer, in the task.
}
