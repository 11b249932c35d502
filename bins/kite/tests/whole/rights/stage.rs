//! An installation on an API server with RBAC, and its processes, each under its own
//! account.

use std::{
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use k8s_openapi::{
    api::{admissionregistration::v1::ValidatingAdmissionPolicyBinding, core::v1::Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kite_core::{
    crd::{KiteUser, KiteUserSpec},
    labels,
};
use kite_fake::{FakeCluster, actors::snapshot_definitions};
use kite_fake_kubevirt::{cdi_definitions, demo_rules, operator_definitions, play};
use kite_render::{
    User, grant,
    install::{Installation, Manifest, Process as Kite},
    namespace,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::atoms::{Asked, Atom, without};
use crate::{
    support::{Platform, Process, run, show},
    workload::{Site, token},
};

/// The token of the first administrator.
pub const TOKEN: &str = "a-token-that-works-once";

pub struct Stage {
    pub platform: Platform,
    runtime: Runtime,
    fake: FakeCluster,
    stop: CancellationToken,
    processes: Vec<Process>,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// Nothing more is asked for.
    ended: Arc<AtomicBool>,
    /// All of it is written down, once that is so.
    noted: Arc<AtomicBool>,
    notes: Option<tokio::task::JoinHandle<()>>,
    is_ending: Arc<AtomicBool>,
    _directory: TempDir,
}

impl Stage {
    /// Starts the processes, and waits until they are ready.
    pub fn start(&mut self, installation: &Installation) {
        let mut ready = json!({});
        for process in Kite::ALL {
            let (started, address) = self.process(installation, process);
            self.processes.push(started);
            match process {
                Kite::Controller => {}
                Kite::Gateway => ready["gateway"] = json!(address),
                Kite::Api => ready["api"] = json!(format!("http://{address}")),
            }
        }
        self.platform.ready = ready;
        self.write_known_hosts();
    }

    /// The installation, without one of its rights if that is asked for, and nobody who
    /// works yet.
    pub fn installed(installation: &Installation, right: Option<&Atom>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let guard = runtime.enter();
        let fake = FakeCluster::builder()
            .seed(rand::random())
            .rbac(true)
            .owner_references_permission_enforcement(true)
            .crds(kite_core::crd::all())
            .crds(kite_core::kubevirt::crds())
            .crds(cdi_definitions())
            .crds(kite_core::gateway_api::crds())
            .crds(operator_definitions())
            .crds(kite_core::cert_manager::crds())
            .crds(snapshot_definitions())
            .build()
            .unwrap();
        for manifest in installation.manifests() {
            let object = serde_json::to_value(&manifest).unwrap();
            let object = right.map_or(object.clone(), |right| without(&object, right));
            // CRDs were given above, before all that is of their kinds.
            if object["kind"] != "CustomResourceDefinition" {
                fake.create(object).unwrap();
            }
        }
        for object in beside(installation) {
            fake.create(object).unwrap();
        }
        let stop = CancellationToken::new();
        // What they do is none of the processes' requests.
        drop(play(&fake, &Arc::new(demo_rules()), true, &stop));
        let served = runtime
            .block_on(fake.serve(([127, 0, 0, 1], 0).into()))
            .unwrap();
        fake.write_kubeconfig(&state.join("kubeconfig"), &served.url())
            .unwrap();
        drop(guard);
        let mut made = Self {
            platform: Platform {
                state,
                ready: json!({ "apiserver": served.url() }),
            },
            runtime,
            fake,
            stop,
            processes: Vec::new(),
            asked: Arc::default(),
            ended: Arc::default(),
            noted: Arc::default(),
            notes: None,
            is_ending: Arc::default(),
            _directory: directory,
        };
        made.notes = Some(made.take_notes());
        made
    }

    /// Writes down what the processes ask for, before the log forgets it.
    fn take_notes(&self) -> tokio::task::JoinHandle<()> {
        let (fake, asked) = (self.fake.clone(), Arc::clone(&self.asked));
        let (ended, is_ending) = (Arc::clone(&self.ended), Arc::clone(&self.is_ending));
        let noted = Arc::clone(&self.noted);
        let mut mark = fake.log().mark();
        self.runtime.spawn(async move {
            loop {
                let is_last = ended.load(Ordering::SeqCst);
                let since = {
                    let log = fake.log();
                    let since = log.since(&mark);
                    mark = log.mark();
                    since
                };
                let is_ending = is_ending.load(Ordering::SeqCst);
                let fresh = since.entries.iter();
                let fresh = fresh.flat_map(|entry| Asked::of(entry, is_ending));
                asked.lock().unwrap().extend(fresh);
                if is_last {
                    noted.store(true, Ordering::SeqCst);
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
    }

    /// A process as its workload starts it, and where it serves.
    fn process(&self, installation: &Installation, process: Kite) -> (Process, String) {
        let template = installation
            .manifests()
            .into_iter()
            .find_map(|it| match it {
                Manifest::Deployment(it) if it.metadata.name.as_deref() == Some(process.name()) => {
                    it.spec.template.spec
                }
                _ => None,
            });
        let variables = template.unwrap().containers.remove(0).env;
        let client = {
            let _guard = self.runtime.enter();
            self.fake.client()
        };
        let token = self.runtime.block_on(token(&client, process));
        let site = Site {
            directory: self.platform.state.parent().unwrap(),
            apiserver: self.platform.ready["apiserver"].as_str().unwrap(),
        };
        site.start(process, &variables.unwrap_or_default(), &token)
    }

    fn write_known_hosts(&self) {
        let gateway = self.platform.text("gateway");
        let (host, port) = gateway.rsplit_once(':').unwrap();
        let mut keyscan = Command::new("ssh-keyscan");
        keyscan.args(["-p", port, host]);
        let keys = run(keyscan, "");
        assert!(keys.status.success(), "{}", show(&keys));
        std::fs::write(self.platform.state.join("known_hosts"), keys.stdout).unwrap();
    }

    /// Ann is about to go.
    pub fn ann_goes(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
    }

    /// Runs something that waits.
    pub fn wait<T>(&self, task: impl Future<Output = T>) -> T {
        self.runtime.block_on(task)
    }

    /// Makes a user with the namespace and the rights in it that the controller makes.
    pub fn give_a_namespace(&self, installation: &Installation, name: &str) {
        // What belongs to somebody who is not there is collected as garbage.
        let made = self.wait(async {
            let users: Api<KiteUser> = Api::all(self.fake.client());
            let user = KiteUser::new(name, KiteUserSpec::new(name));
            users.create(&PostParams::default(), &user).await.unwrap()
        });
        let user = User::of(&made).unwrap();
        self.fake
            .create(namespace::namespace(
                &user,
                namespace::PodSecurity::default(),
            ))
            .unwrap();
        let grants = Kite::ALL.iter();
        for grant in grants.filter_map(|it| it.grant(&installation.namespace)) {
            self.fake.create(grant::binding(&user, &grant)).unwrap();
        }
    }

    /// What an earlier life has left behind: a session that is long over, and a heartbeat
    /// of nobody.
    pub fn leave_something_behind(&self, installation: &Installation) {
        self.give_a_namespace(installation, "old");
        let long_ago = "2020-01-01T00:00:00Z";
        let policy = self.lift("kite-connections");
        self.fake
            .create(json!({
                "apiVersion": "hy3ons.github.io/v1", "kind": "KiteConnection",
                "metadata": {"name": "c-old-1", "namespace": "kite-user-old"},
                "spec": {
                    "vm": {"name": "web", "uid": "gone"}, "owner": "old", "login": "web",
                    "kind": "Ssh", "instance": "old", "number": 1, "openedAt": long_ago,
                    "ended": {"at": long_ago, "why": "closed by the user"},
                },
            }))
            .unwrap();
        self.fake.create(policy).unwrap();
        self.fake
            .create(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {
                    "name": "kite-heartbeat-old", "namespace": "kite",
                    "labels": {labels::COMPONENT: labels::COMPONENT_HEARTBEAT},
                },
            }))
            .unwrap();
    }

    /// Takes an admission policy's binding away, as its documentation says, and gives it.
    fn lift(&self, policy: &str) -> Value {
        let mut binding = self.wait(async {
            let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(self.fake.client());
            let binding = bindings.get(policy).await.unwrap();
            let params = DeleteParams::default();
            bindings.delete(policy, &params).await.unwrap();
            binding
        });
        binding.metadata = ObjectMeta {
            name: binding.metadata.name,
            labels: binding.metadata.labels,
            ..ObjectMeta::default()
        };
        serde_json::to_value(binding).unwrap()
    }

    /// What a process is answered who reads a Secret.
    pub fn get_secret(&self, process: Kite, namespace: &str, name: &str) -> u16 {
        self.wait(async {
            let client = self.fake.client_as(&process.username("kite"));
            let secrets: Api<Secret> = Api::namespaced(client, namespace);
            code(secrets.get(name).await.map(drop))
        })
    }

    /// What a process is answered who lists Secrets; all, without a namespace.
    pub fn list_secrets(&self, process: Kite, namespace: &str) -> u16 {
        self.wait(async {
            let client = self.fake.client_as(&process.username("kite"));
            let secrets: Api<Secret> = match namespace {
                "" => Api::all(client),
                namespace => Api::namespaced(client, namespace),
            };
            code(secrets.list(&ListParams::default()).await.map(drop))
        })
    }

    /// As soon as one of the processes is refused something, all waiting is `in_vain`.
    pub fn watch_for_refusal(&self, in_vain: &Arc<AtomicBool>) -> JoinHandle<Option<String>> {
        let in_vain = Arc::clone(in_vain);
        let (asked, noted) = (Arc::clone(&self.asked), Arc::clone(&self.noted));
        std::thread::spawn(move || {
            let mut looked_at = 0;
            loop {
                let is_last = noted.load(Ordering::SeqCst);
                {
                    let asked = asked.lock().unwrap();
                    let fresh = &asked[looked_at..];
                    if let Some(refused) = fresh.iter().find(|it| it.is_refused()) {
                        in_vain.store(true, Ordering::SeqCst);
                        return Some(refused.to_string());
                    }
                    looked_at = asked.len();
                }
                if is_last {
                    return None;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        })
    }

    /// Ends the processes in order; gives what they asked for.
    pub fn end(mut self) -> Vec<Asked> {
        for process in self.processes.drain(..) {
            assert_eq!(process.terminate().0, Some(0));
        }
        let asked = Arc::clone(&self.asked);
        drop(self);
        asked.lock().unwrap().clone()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.processes.clear();
        self.ended.store(true, Ordering::SeqCst);
        // The runtime takes the notes along, so they come to their end before it.
        if let Some(notes) = self.notes.take() {
            let _ = self.runtime.block_on(notes);
        }
        self.noted.store(true, Ordering::SeqCst);
        self.stop.cancel();
        self.fake.shut_down();
    }
}

fn code(answer: Result<(), kube::Error>) -> u16 {
    match answer {
        Ok(()) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
    }
}

/// What is there beside an installation: the first administrator's token, and Kite's secret
/// at a sign-in provider; `KubeVirt` as it is by default, and storage that several nodes can
/// attach, so that VMs can move; and whoever
/// sends no credentials may do everything, for kubectl sends none without TLS.
fn beside(installation: &Installation) -> [Value; 6] {
    let rbac = "rbac.authorization.k8s.io";
    let sets = json!([{"accessModes": ["ReadWriteMany"], "volumeMode": "Filesystem"}]);
    [
        json!({
            "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
            "metadata": {"name": "kubevirt", "namespace": "kite"},
            "spec": {"workloadUpdateStrategy": {}},
        }),
        json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "StorageProfile",
            "metadata": {"name": installation.platform.storage_class()},
            "spec": {"claimPropertySets": sets},
        }),
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
            "metadata": {"name": "snaps"},
            "driver": "driver.longhorn.io", "deletionPolicy": "Delete",
            "parameters": {"type": "snap"},
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "kite-bootstrap", "namespace": "kite"},
            "stringData": {"token": TOKEN},
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "kite-oidc", "namespace": "kite"},
            "stringData": {"staff": "of-the-client"},
        }),
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": "people"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": rbac, "kind": "Group", "name": "system:unauthenticated"}],
        }),
    ]
}
