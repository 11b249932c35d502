//! Clients of the HTTP API: who reads, who makes, changes and deletes VMs, and who
//! follows the news.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{interval, sleep, timeout},
};

use super::{
    balancer::Balancer,
    http::Http,
    notes::{Notes, What},
};

/// How long nothing may come of a stream: it says something every 15 s.
const SILENCE: Duration = Duration::from_secs(40);
/// Each of so many VMs stays.
const STAYS: usize = 4;

/// What somebody was told of VMs, by `owner/name`.
#[derive(Default)]
pub struct Told {
    /// Made, and not deleted.
    pub there: BTreeSet<String>,
    /// Deleted.
    pub gone: BTreeSet<String>,
    /// Nobody answered for good.
    pub unknown: BTreeSet<String>,
}

#[derive(Clone)]
pub struct Load {
    apis: Balancer,
    pub notes: Notes,
    pub told: Arc<Mutex<Told>>,
    stop: Arc<AtomicBool>,
    writers: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

pub fn new_vm(name: &str) -> Value {
    json!({
        "name": name, "cpu": 1, "memory": "1Gi", "disk": "10Gi", "image": "debian-12",
        "sshPassword": "staple of the vm",
    })
}

impl Load {
    pub fn new(apis: &Balancer, notes: &Notes) -> Self {
        Self {
            apis: apis.clone(),
            notes: notes.clone(),
            told: Arc::default(),
            stop: Arc::default(),
            writers: Arc::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Waits until whoever writes has ended what was begun.
    pub fn stop(&self, runtime: &Handle) {
        self.stop.store(true, Ordering::SeqCst);
        let writers = std::mem::take(&mut *self.writers.lock().unwrap());
        runtime.block_on(async {
            for writer in writers {
                writer.await.unwrap();
            }
        });
    }

    fn client(&self, peer: &str, token: &str) -> Http {
        let mut http = Http::new(self.apis.address, peer, &self.notes);
        http.token = Some(token.to_owned());
        http
    }

    /// Somebody who looks at all VMs, again and again.
    pub fn read(&self, runtime: &Handle, token: &str, every: Duration) {
        let (load, mut http) = (self.clone(), self.client("192.0.2.1", token));
        runtime.spawn(async move {
            let mut ticks = interval(every);
            while !load.is_over() {
                ticks.tick().await;
                http.send("GET", "/vms", None, None).await;
            }
        });
    }

    /// Somebody who makes VMs, changes them and deletes most of them.
    pub fn write(&self, runtime: &Handle, owner: &str, token: &str, pause: Duration) {
        let (load, mut http) = (self.clone(), self.client("192.0.2.2", token));
        let owner = owner.to_owned();
        let writer = runtime.spawn(async move {
            let mut count = 0;
            while !load.is_over() {
                load.one_vm(&mut http, &owner, count, pause).await;
                count += 1;
            }
        });
        self.writers.lock().unwrap().push(writer);
    }

    async fn one_vm(&self, http: &mut Http, owner: &str, count: usize, pause: Duration) {
        let name = format!("vm-{count}");
        let path = format!("/vms/{name}");
        let known = format!("{owner}/{name}");
        let wrong = |what: &str, status: u16, body: &Value| {
            let text = format!("{what} {known}: {status} {body}");
            self.notes.note(What::Wrong(text));
        };
        let body = new_vm(&name);
        let key = format!("{owner}-{name}");
        match http.send("POST", "/vms", Some(&body), Some(&key)).await {
            Some(answer) if answer.status == 201 || answer.status == 200 => {
                self.told.lock().unwrap().there.insert(known.clone());
            }
            Some(answer) => return wrong("create", answer.status, &answer.body),
            None => {
                self.told.lock().unwrap().unknown.insert(known);
                return;
            }
        }
        sleep(pause).await;
        let change = json!({ "powerState": "Off" });
        let changed = http.send("PATCH", &path, Some(&change), None).await;
        if let Some(answer) = changed
            && (answer.status != 200 || answer.body["powerState"] != "Off")
        {
            wrong("change", answer.status, &answer.body);
        }
        sleep(pause).await;
        if count.is_multiple_of(STAYS) {
            return;
        }
        self.told.lock().unwrap().there.remove(&known);
        let deleted = http.send("DELETE", &path, None, None).await;
        let mut told = self.told.lock().unwrap();
        match deleted {
            // The second of two that are the same finds nothing any more.
            Some(answer) if [200, 202, 204, 404].contains(&answer.status) => {
                told.gone.insert(known);
            }
            Some(answer) => wrong("delete", answer.status, &answer.body),
            None => {
                told.unknown.insert(known);
            }
        }
    }

    /// Somebody whose page is open.
    pub fn listen(&self, runtime: &Handle, token: &str) {
        let (load, mut http) = (self.clone(), self.client("192.0.2.3", token));
        runtime.spawn(async move {
            let mut cut: Option<Instant> = None;
            while !load.is_over() {
                if load.follow(&mut http, cut).await {
                    load.notes.note(What::StreamCut);
                    cut = Some(Instant::now());
                }
                sleep(Duration::from_millis(500)).await;
            }
        });
    }

    /// Until the stream breaks off; whether it told anything.
    async fn follow(&self, http: &mut Http, cut: Option<Instant>) -> bool {
        let opened = timeout(SILENCE, http.open("GET", "/events", None, None)).await;
        let Ok(Ok(response)) = opened else {
            return false;
        };
        if response.status() != 200 {
            return false;
        }
        let mut body = response.into_body();
        let mut is_told = false;
        while let Ok(Some(Ok(frame))) = timeout(SILENCE, body.frame()).await {
            let text = frame.into_data().unwrap_or_default();
            if !is_told && text.starts_with(b"event: snapshot") {
                is_told = true;
                if let Some(cut) = cut {
                    self.notes.note(What::StreamBack(cut.elapsed()));
                }
            }
        }
        is_told
    }
}
