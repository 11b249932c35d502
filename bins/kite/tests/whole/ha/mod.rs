//! Two of each of Kite's processes, and one of them is taken away under load: how long
//! until all is as before, and what people notice. `docs/high-availability.md` has a
//! full run:
//!
//! ```sh
//! KITE_HA=full cargo test -p kite --test whole ha:: -- --nocapture
//! ```

mod balancer;
mod fault;
mod http;
mod load;
mod notes;
mod people;
mod row;
mod stage;
mod watched;

use std::{thread, time::Duration};

use fault::Fault;
use kite_core::crd::{KiteVirtualMachine, VmPhase};
use kube::{Api, ResourceExt as _, api::ListParams};
use load::Load;
use notes::Notes;
use people::People;
use row::Row;
use serde_json::json;
use stage::{Election, Stage};
use tokio::runtime::{Handle, Runtime};
use watched::Watched;

use self::http::Http;
use crate::support::{clients_present, eventually};

const PASSWORD: &str = "correct horse battery";
const VM_PASSWORD: &str = "staple of the vm";
/// How much there is of everything.
#[derive(Clone, Copy)]
struct Scale {
    /// Sessions that stay.
    staying: usize,
    /// Between two logins of others.
    logins: Duration,
    /// Between two looks at all VMs, of each of two.
    reads: Duration,
    /// Between two changes, of each of two.
    writes: Duration,
    election: Election,
    /// How long is looked at least after something was taken away.
    looks: Duration,
    /// Whether it waits until what a process left behind is tidied up, which takes
    /// longer than anything else.
    is_full: bool,
}

const SLICE: Scale = Scale {
    staying: 4,
    logins: Duration::from_millis(1500),
    reads: Duration::from_millis(500),
    writes: Duration::from_secs(1),
    // Shorter than by default, as there is no other way to be done soon.
    election: Election {
        lease: 9,
        deadline: 6,
    },
    looks: Duration::from_secs(3),
    is_full: false,
};

const FULL: Scale = Scale {
    staying: 10,
    logins: Duration::from_millis(500),
    reads: Duration::from_millis(200),
    writes: Duration::from_secs(1),
    // What the processes take by default.
    election: Election {
        lease: 15,
        deadline: 10,
    },
    looks: Duration::from_secs(20),
    is_full: true,
};

/// Everything that takes part.
struct Play {
    stage: Stage,
    load: Load,
    people: People,
    watched: Watched,
    notes: Notes,
    scale: Scale,
    /// Whose new VMs tell that the controller works.
    token: String,
    asked: usize,
}

/// Signs in, once the account is there.
fn sign_in(runtime: &Handle, http: &mut Http, username: &str) -> String {
    let body = json!({ "username": username, "password": PASSWORD });
    let answer = runtime.block_on(http.send("POST", "/auth/sign-in", Some(&body), None));
    let answer = answer.unwrap();
    answer.body["token"]
        .as_str()
        .unwrap_or_else(|| panic!("{}", answer.body))
        .to_owned()
}

impl Play {
    fn begin(stage: Stage, scale: Scale) -> Self {
        let (runtime, notes) = (stage.runtime.clone(), Notes::default());
        let watched = Watched::start(&stage.fake, &runtime);
        let mut http = Http::new(stage.apis.address, "192.0.2.9", &notes);
        let boss = json!({
            "token": stage.bootstrap, "username": "boss", "password": PASSWORD,
        });
        let made = runtime.block_on(http.send("POST", "/auth/bootstrap", Some(&boss), None));
        assert_eq!(made.unwrap().status, 201);
        let boss = sign_in(&runtime, &mut http, "boss");
        http.token = Some(boss);
        let names = ["ann", "writer-a", "writer-b", "prober"];
        for name in names {
            let body = json!({ "username": name, "password": PASSWORD, "accessLevel": "Admin" });
            let made = runtime.block_on(http.send("POST", "/admin/users", Some(&body), Some(name)));
            assert_eq!(made.unwrap().status, 201);
        }
        let [ann, first, second, token] = names.map(|name| sign_in(&runtime, &mut http, name));
        let people = People::new(&stage.gateways, "ann-web", VM_PASSWORD, &notes);
        let load = Load::new(&stage.apis, &notes);
        let mut play = Self {
            stage,
            load,
            people,
            watched,
            notes,
            scale,
            token,
            asked: 0,
        };
        play.ann_has_a_vm(&ann);
        for token in [&first, &ann] {
            play.load.read(&runtime, token, scale.reads);
        }
        for (owner, token) in [("writer-a", &first), ("writer-b", &second)] {
            play.load.write(&runtime, owner, token, scale.writes);
        }
        for _ in 0..4 {
            play.load.listen(&runtime, &ann);
        }
        play.people.start(&runtime, scale.staying, scale.logins);
        play
    }

    fn ann_has_a_vm(&mut self, ann: &str) {
        let mut http = Http::new(self.stage.apis.address, "192.0.2.9", &self.notes);
        http.token = Some(ann.to_owned());
        let mut body = load::new_vm("web");
        body["sshId"] = json!("ann-web");
        let runtime = self.stage.runtime.clone();
        let made = runtime.block_on(http.send("POST", "/vms", Some(&body), Some("web")));
        let made = made.unwrap();
        assert_eq!(made.status, 201, "{}", made.body);
        self.told("ann/web");
        // Each gateway has to know of it, and they take turns: as many as there are, one
        // after another and without a failure between them, have been let in by each.
        eventually("a login at each gateway", || {
            (0..2).try_for_each(|_| runtime.block_on(self.people.come_and_go()))
        });
        self.people.let_in();
    }

    fn told(&self, vm: &str) {
        self.load.told.lock().unwrap().there.insert(vm.to_owned());
    }

    /// Asks for a new VM, and waits until it runs.
    fn a_new_vm_runs(&mut self) {
        self.asked += 1;
        let name = format!("new-{}", self.asked);
        let mut http = Http::new(self.stage.apis.address, "192.0.2.8", &self.notes);
        http.token = Some(self.token.clone());
        let runtime = self.stage.runtime.clone();
        let body = load::new_vm(&name);
        let made = runtime.block_on(http.send("POST", "/vms", Some(&body), Some(&name)));
        assert_eq!(made.unwrap().status, 201);
        self.told(&format!("prober/{name}"));
        let path = format!("/vms/{name}");
        eventually("the new VM runs", || {
            let vm = runtime.block_on(http.send("GET", &path, None, None));
            let vm = vm.unwrap().body;
            if vm["status"]["phase"] == json!(VmPhase::Running) {
                Ok(())
            } else {
                Err(vm.to_string())
            }
        });
    }

    /// Whoever stays is in, at a replica that is there, and all replicas are ready.
    fn all_is_well(&self) {
        eventually("everybody is in", || {
            let at = self.people.at();
            let ready = (self.stage.gateways.ready(), self.stage.apis.ready());
            if at.iter().all(Option::is_some) && ready == (2, 2) {
                Ok(())
            } else {
                Err(format!("{at:?}, ready {ready:?}"))
            }
        });
        self.stage.leader();
    }

    /// What has to be, whatever was taken away.
    fn end(self) {
        let Self {
            stage,
            load,
            people,
            watched,
            notes,
            scale,
            ..
        } = self;
        let stops_after = Duration::from_secs(scale.election.deadline.into());
        load.stop(&stage.runtime);
        people.stop();
        let told = load.told.lock().unwrap();
        let all = Api::<KiteVirtualMachine>::all(stage.fake.client());
        eventually("what is there is what people were told", || {
            let everything = ListParams::default();
            let list = all.list(&everything);
            let list = stage.runtime.block_on(list).unwrap();
            let there = list.items.iter().map(|vm| {
                let namespace = vm.namespace().unwrap_or_default();
                let owner = namespace.trim_start_matches("kite-user-");
                (format!("{owner}/{}", vm.name_any()), vm)
            });
            let there: std::collections::BTreeMap<_, _> = there.collect();
            let missing = told.there.iter().filter(|it| {
                let vm = there.get(*it);
                vm.is_none_or(|vm| vm.metadata.deletion_timestamp.is_some())
            });
            let missing: Vec<_> = missing.collect();
            let too_many = there.keys().filter(|it| !told.there.contains(*it));
            let too_many = too_many.filter(|it| !told.unknown.contains(*it));
            let too_many: Vec<_> = too_many.collect();
            assert_eq!(missing, Vec::<&String>::new(), "lost");
            if too_many.is_empty() {
                Ok(())
            } else {
                Err(format!("not deleted: {too_many:?}"))
            }
        });
        assert_eq!(watched.made_twice(), Vec::<String>::new());
        assert_eq!(watched.two_leaders(stops_after), Vec::<String>::new());
        assert_eq!(notes.wrong(), Vec::<String>::new());
        eprintln!(
            "{} VMs are there, {} were deleted, of {} nobody knows",
            told.there.len(),
            told.gone.len(),
            told.unknown.len()
        );
    }
}

fn play(scale: Scale, faults: &[Fault]) {
    if !clients_present() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let runtime = Runtime::new().unwrap();
    let _guard = runtime.enter();
    let stage = Stage::new(directory.path(), runtime.handle(), scale.election);
    let mut play = Play::begin(stage, scale);
    let mut rows = Vec::new();
    for fault in faults {
        play.all_is_well();
        thread::sleep(Duration::from_secs(1));
        let row = fault.happens(&mut play);
        eprintln!("{row}");
        rows.push(row);
    }
    play.all_is_well();
    play.end();
    eprintln!("\n{}", Row::HEAD);
    for row in rows {
        eprintln!("{row}");
    }
}

/// Part of it, with each test run.
#[test]
fn whichever_of_two_is_killed_nothing_is_lost() {
    if std::env::var_os("KITE_HA").is_some() {
        return;
    }
    play(
        SLICE,
        &[Fault::KillGateway, Fault::KillApi, Fault::KillLeader],
    );
}

/// All of it.
#[test]
fn everything_that_may_be_taken_away() {
    let asked = std::env::var("KITE_HA").unwrap_or_default();
    let all = Fault::ALL;
    let wanted: Vec<Fault> = match asked.as_str() {
        "" => return,
        "full" => all.to_vec(),
        some => {
            let named = some.split(',').map(|name| {
                let found = all.iter().find(|it| format!("{it:?}") == name);
                *found.unwrap_or_else(|| panic!("KITE_HA: {name}: give `full`, or some of {all:?}"))
            });
            named.collect()
        }
    };
    play(FULL, &wanted);
}
