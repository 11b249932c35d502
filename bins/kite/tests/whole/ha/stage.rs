//! The stage: an API server whose store, machines and guests outlive it, and two of each
//! of Kite's processes behind balancers.

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::EnvVar};
use kite_fake::FakeCluster;
use kite_fake::actors::Actors;
use kite_fake_kubevirt::{demo_rules, operator_definitions, play};
use kite_render::install::Process as Kite;
use kube::{Api, api::PostParams};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::balancer::{Balancer, get};
use crate::{
    support::{Process, eventually, run, show},
    workload::{Site, debian, token},
};

/// How long a replica is missing before another one is started in its place.
pub const REPLACED_AFTER: Duration = Duration::from_secs(2);
/// What a Pod of the HTTP API does before it is told to end (`preStop`).
const PRE_STOP: Duration = Duration::from_secs(5);

/// How fast a silent leader is replaced.
#[derive(Clone, Copy)]
pub struct Election {
    /// `--lease-duration`, in seconds.
    pub lease: u32,
    /// `--renew-deadline`, in seconds.
    pub deadline: u32,
}

impl Election {
    fn variables(self) -> [EnvVar; 2] {
        let variable = |name: &str, value: u32| EnvVar {
            name: name.to_owned(),
            value: Some(value.to_string()),
            ..EnvVar::default()
        };
        [
            variable("KITE_LEASE_DURATION", self.lease),
            variable("KITE_RENEW_DEADLINE", self.deadline),
        ]
    }
}

struct Replica {
    process: Process,
    admin: String,
}

pub struct Stage {
    pub fake: FakeCluster,
    pub runtime: Handle,
    /// In front of the API server, the gateways, the HTTP API.
    pub cluster: Balancer,
    pub gateways: Balancer,
    pub apis: Balancer,
    pub bootstrap: String,
    directory: PathBuf,
    replicas: HashMap<(Kite, usize), Replica>,
    variables: HashMap<Kite, (Vec<EnvVar>, String)>,
    started: usize,
    _actors: Actors,
    ending: CancellationToken,
}

/// `KubeVirt`, CDI and the classes by which a cluster shows that VMs can run on it.
fn furnished() -> FakeCluster {
    let mut definitions = kite_core::kubevirt::crds();
    definitions.extend(kite_core::cdi::crds());
    definitions.extend(kite_core::gateway_api::crds());
    definitions.extend(operator_definitions());
    let builder = FakeCluster::builder().seed(rand::random()).rbac(true);
    let builder = builder.crds(definitions).objects_yaml(
        "
apiVersion: v1
kind: Namespace
metadata: {name: kubevirt}
---
apiVersion: v1
kind: Namespace
metadata: {name: cdi}
---
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt, namespace: kubevirt}
spec: {}
---
apiVersion: cdi.kubevirt.io/v1beta1
kind: CDI
metadata: {name: cdi}
spec: {}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations: {storageclass.kubernetes.io/is-default-class: 'true'}
provisioner: test.kite.test/memory
allowVolumeExpansion: true
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata:
  name: test
  annotations: {ingressclass.kubernetes.io/is-default-class: 'true'}
spec: {controller: test.kite.test/played}
",
    );
    builder.build().unwrap()
}

impl Stage {
    /// Installs Kite, and starts two of each.
    pub fn new(directory: &Path, runtime: &Handle, election: Election) -> Self {
        let fake = furnished();
        let ending = CancellationToken::new();
        let actors = play(&fake, &Arc::new(demo_rules()), true, &ending);
        let served = runtime
            .block_on(fake.serve(([127, 0, 0, 1], 0).into()))
            .unwrap();
        let cluster = Balancer::start(runtime);
        cluster.put(0, served.address(), None);
        let url = format!("http://{}", cluster.address);
        fake.write_kubeconfig(&directory.join("kubeconfig"), &url)
            .unwrap();
        let mut stage = Self {
            fake,
            runtime: runtime.clone(),
            cluster,
            gateways: Balancer::start(runtime),
            apis: Balancer::start(runtime),
            bootstrap: String::new(),
            directory: directory.to_owned(),
            replicas: HashMap::new(),
            variables: HashMap::new(),
            started: 0,
            _actors: actors,
            ending,
        };
        stage.install(election);
        for kite in Kite::ALL {
            for index in 0..2 {
                stage.start(kite, index);
            }
        }
        stage
    }

    fn kite(&self, arguments: &[&str]) -> Result<Value, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
        command.args(arguments).arg("--output=json");
        command.env("KUBECONFIG", self.directory.join("kubeconfig"));
        let output = run(command, "");
        if !output.status.success() {
            return Err(show(&output));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
    }

    fn install(&mut self, election: Election) {
        eventually("the cluster is fit", || self.kite(&["doctor"]));
        let install = ["install", "--without-images", "--profile=single-node"];
        let installed = self.kite(&install).unwrap();
        installed["bootstrapToken"]
            .as_str()
            .unwrap()
            .clone_into(&mut self.bootstrap);
        let client = self.fake.client();
        self.runtime.block_on(async {
            let images = Api::all(client.clone());
            images
                .create(&PostParams::default(), &debian())
                .await
                .unwrap();
            for kite in Kite::ALL {
                let deployments = Api::<Deployment>::namespaced(client.clone(), "kite");
                let deployment = deployments.get(kite.name()).await.unwrap();
                let pod = deployment.spec.template.spec.unwrap();
                let mut variables = pod.containers[0].env.clone().unwrap_or_default();
                if kite == Kite::Controller {
                    variables.extend(election.variables());
                }
                let token = token(&client, kite).await;
                self.variables.insert(kite, (variables, token));
            }
        });
    }

    /// Starts a replica in the place `index`; whoever was there is not told anything.
    pub fn start(&mut self, kite: Kite, index: usize) {
        self.started += 1;
        let directory = self
            .directory
            .join(format!("{}-{}", kite.name(), self.started));
        std::fs::create_dir(&directory).unwrap();
        let site = Site {
            directory: &directory,
            apiserver: &format!("http://{}", self.cluster.address),
        };
        let (variables, token) = &self.variables[&kite];
        let (mut process, address) = site.start(kite, variables, token);
        let admin = process.logged_address("the admin port serves");
        let address: SocketAddr = address.parse().unwrap();
        if let Some(balancer) = self.balancer(kite) {
            balancer.put(index, address, Some(admin.clone()));
        }
        let replica = Replica { process, admin };
        self.replicas.insert((kite, index), replica);
    }

    fn balancer(&self, kite: Kite) -> Option<&Balancer> {
        match kite {
            Kite::Controller => None,
            Kite::Gateway => Some(&self.gateways),
            Kite::Api => Some(&self.apis),
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self, kite: Kite, index: usize) {
        drop(self.replicas.remove(&(kite, index)).unwrap());
    }

    /// What the end of a Pod is: SIGTERM, after what has to come before it.
    pub fn end(&mut self, kite: Kite, index: usize) -> JoinHandle<Duration> {
        let replica = self.replicas.remove(&(kite, index)).unwrap();
        if kite == Kite::Api {
            self.apis.withdraw(index);
        }
        thread::spawn(move || {
            if kite == Kite::Api {
                thread::sleep(PRE_STOP);
            }
            let (code, took) = replica.process.terminate();
            assert_eq!(code, Some(0), "{} does not end in order", kite.name());
            took
        })
    }

    /// Which controllers say that they lead.
    pub fn leaders(&self) -> Vec<usize> {
        let leads = |index: &usize| {
            let replica = self.replicas.get(&(Kite::Controller, *index));
            let page = replica.and_then(|it| get(&it.admin, "/metrics"));
            page.is_some_and(|(_, text)| text.lines().any(|line| line == "kite_leader 1"))
        };
        (0..2).filter(leads).collect()
    }

    /// Waits for the one that leads.
    pub fn leader(&self) -> usize {
        eventually("one controller leads", || match self.leaders()[..] {
            [leader] => Ok(leader),
            ref others => Err(format!("{others:?}")),
        })
    }

    /// The API server is gone: everything is cut, and nobody is let in.
    pub fn api_server_goes(&self) {
        self.cluster.go_away();
    }

    /// It is back, and remembers nothing of what was before: whoever followed changes
    /// has to list again.
    pub fn api_server_comes(&self) {
        let now = self.fake.now();
        let mut server = self.fake.server();
        let state = server.snapshot(now);
        server.restore(&state);
        drop(server);
        self.cluster.come_back();
    }

    /// How many of Kite's processes should be there, and are.
    pub fn assert_running(&mut self) {
        for replica in self.replicas.values_mut() {
            replica.process.assert_running();
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.replicas.clear();
        self.ending.cancel();
    }
}
