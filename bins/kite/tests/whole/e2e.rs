//! What an operator does with a cluster, from nothing to nothing: `kite install`, the
//! three processes under their accounts, `kite smoke`, `kite upgrade`, `kite uninstall`,
//! on an API server with RBAC.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{EnvVar, Namespace, PersistentVolumeClaim, Secret, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kite_core::{
    cdi::DataVolume,
    crd::{
        KiteImage, KiteUser, KiteUserSpec, KiteVirtualMachine, KiteVirtualMachineSpec, KiteVolume,
        KiteVolumeSpec, OnAccountDeletion, VmPhase,
    },
    kubevirt::VirtualMachine,
    names,
};
use kite_render::install::Process as Kite;
use kube::{
    Api, Client, Config, Resource, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{
    support::{Platform, Process, clients_present, eventually, run, show},
    workload::{Site, debian, kubeconfig, token, token_of},
};

const OPTIONS: [&str; 2] = ["--profile=single-node", "--output=json"];

struct Cluster {
    directory: PathBuf,
    platform: Platform,
    runtime: Runtime,
    client: Client,
}

impl Cluster {
    fn new(directory: PathBuf) -> (Process, Self) {
        let state = directory.join("state");
        let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
        command.args([
            "apiserver",
            "--actors",
            "--rbac",
            "--plain-http",
            "--apiserver-listen=127.0.0.1:0",
        ]);
        command.arg("--state-dir").arg(&state);
        let mut process = Process::start("kite apiserver", command, directory.join("log"));
        let platform = Platform::wait(&state, &mut process);
        let kubeconfig = Kubeconfig::read_from(state.join("kubeconfig")).unwrap();
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(async {
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
            Client::try_from(config.unwrap()).unwrap()
        });
        let cluster = Self {
            directory,
            platform,
            runtime,
            client,
        };
        (process, cluster)
    }

    fn kite(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
        command.args(arguments);
        command.env("KUBECONFIG", self.platform.state.join("kubeconfig"));
        run(command, "")
    }

    /// What a command that must succeed says as JSON.
    fn told(&self, arguments: &[&str]) -> Value {
        let output = self.kite(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", show(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn find<K>(&self, namespace: &str, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api = Api::<K>::namespaced(self.client.clone(), namespace);
        self.runtime.block_on(api.get_opt(name)).unwrap()
    }

    fn count<K>(&self, of_kite: impl Fn(&K) -> bool) -> usize
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let api = Api::<K>::all(self.client.clone());
        let list = self.runtime.block_on(api.list(&ListParams::default()));
        list.unwrap().items.iter().filter(|it| of_kite(it)).count()
    }

    fn create<K>(&self, api: &Api<K>, object: &K)
    where
        K: Resource<DynamicType = ()>
            + Clone
            + DeserializeOwned
            + serde::Serialize
            + std::fmt::Debug,
    {
        let params = PostParams::default();
        self.runtime.block_on(api.create(&params, object)).unwrap();
    }

    /// Starts the processes as their Deployments in the cluster say; gives where API and
    /// gateway are.
    fn start(&self) -> (Vec<Process>, String, String) {
        let site = Site {
            directory: &self.directory,
            apiserver: self.platform.ready["apiserver"].as_str().unwrap(),
        };
        let started = Kite::ALL.map(|process| {
            let deployment: Deployment = self.find("kite", process.name()).unwrap();
            let pod = deployment.spec.template.spec.unwrap();
            let variables: Vec<EnvVar> = pod.containers[0].env.clone().unwrap_or_default();
            let token = self.runtime.block_on(token(&self.client, process));
            let (started, address) = site.start(process, &variables, &token);
            (process, started, address)
        });
        let (mut processes, mut api, mut gateway) = (Vec::new(), String::new(), String::new());
        for (process, started, address) in started {
            processes.push(started);
            match process {
                Kite::Controller => {}
                Kite::Gateway => gateway = address,
                Kite::Api => api = format!("http://{address}"),
            }
        }
        (processes, api, gateway)
    }

    /// What `kubectl logs` has of the pods holds an audit log, as they were installed.
    fn has_audit_logs(&self) {
        for process in [Kite::Gateway, Kite::Api] {
            let log = self.directory.join(format!("{}.log", process.name()));
            let text = std::fs::read_to_string(&log).unwrap();
            let count = text.matches("\"chain\":{").count();
            assert!(count > 1, "{}: {text}", process.name());
            let verified = self.kite(&["audit", "verify", "--collected", log.to_str().unwrap()]);
            assert_eq!(verified.status.code(), Some(0), "{}", show(&verified));
            let told = String::from_utf8_lossy(&verified.stdout);
            let all = format!("{count} records of 1 runs: all of them hold together");
            assert!(told.contains(&all), "{told}");
        }
    }

    /// Ann, with a VM that runs.
    fn ann_has_a_vm(&self) {
        let ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
        self.create(&Api::all(self.client.clone()), &ann);
        let namespace = names::user_namespace("ann");
        let users = Api::<KiteUser>::all(self.client.clone());
        eventually("ann", || {
            let ann = self.runtime.block_on(users.get("ann")).unwrap();
            let status = ann.status.unwrap_or_default();
            status
                .namespace
                .ok_or_else(|| format!("{:?}", status.phase))
        });
        let (memory, disk) = ("1Gi".parse().unwrap(), "10Gi".parse().unwrap());
        let spec = KiteVirtualMachineSpec::new(1, memory, disk, "debian-12", "ann-web");
        let web = KiteVirtualMachine::new("web", spec);
        self.create(&Api::namespaced(self.client.clone(), &namespace), &web);
        eventually("the VM runs", || {
            let vm: KiteVirtualMachine = self.find(&namespace, "web").unwrap();
            let status = vm.status.unwrap_or_default();
            match status.phase {
                Some(VmPhase::Running) => Ok(()),
                phase => Err(format!("{phase:?}: {:?}", status.conditions)),
            }
        });
    }
}

fn objects_that(told: &Value, change: &str) -> Vec<Value> {
    let objects = told["objects"].as_array().unwrap().iter();
    objects
        .filter(|it| it["change"] == change)
        .cloned()
        .collect()
}

fn of_kite<K: Resource>(object: &K) -> bool {
    object.name_any().starts_with("kite-")
}

#[test]
fn from_an_empty_cluster_to_one_that_keeps_what_people_have() {
    if !clients_present() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (apiserver, cluster) = Cluster::new(directory.path().to_owned());
    // What is played takes a moment to say that it is there.
    eventually("the cluster is fit", || {
        let output = cluster.kite(&["doctor"]);
        if output.status.success() {
            Ok(())
        } else {
            Err(show(&output))
        }
    });
    let installed = cluster.told(&[&["install", "--without-images"], &OPTIONS[..]].concat());
    assert!(installed["bootstrapToken"].is_string(), "{installed:#}");
    assert!(
        objects_that(&installed, "created").len() > 40,
        "{installed:#}"
    );
    cluster.create(&Api::all(cluster.client.clone()), &debian());

    let (processes, api, gateway) = cluster.start();
    let smoke = [
        "smoke",
        "--output=json",
        "--api-url",
        &api,
        "--gateway",
        &gateway,
    ];
    let report = cluster.told(&smoke);
    assert_eq!(report["state"], "Passed", "{report:#}");

    cluster.ann_has_a_vm();
    // With what it was installed with.
    let again = cluster.told(&["upgrade", "--output=json"]);
    assert_eq!(
        again["options"],
        json!(["--profile=single-node", "--without-images"])
    );
    for change in ["created", "changed", "deleted", "kept"] {
        assert_eq!(
            objects_that(&again, change),
            Vec::<Value>::new(),
            "{change}"
        );
    }
    assert!(again["bootstrapToken"].is_string(), "nobody has signed up");
    let unknown = cluster.kite(&["upgrade", "--forget=moon", "--dry-run=server"]);
    assert_eq!(unknown.status.code(), Some(1), "{}", show(&unknown));
    let error = String::from_utf8_lossy(&unknown.stderr);
    assert!(error.contains("profile, without-images"), "{error}");
    let more = cluster.told(&[
        "upgrade",
        "--api-replicas=2",
        "--dry-run=server",
        "--output=json",
    ]);
    let changed = objects_that(&more, "changed");
    let kinds: Vec<_> = changed.iter().map(|it| &it["object"]["kind"]).collect();
    assert_eq!(kinds, ["ConfigMap", "Deployment"], "{changed:#?}");

    // How they end is told elsewhere, and takes the gateway its time.
    drop(processes);
    cluster.has_audit_logs();
    cluster.told(&["uninstall", "--output=json"]);
    assert_eq!(cluster.count::<Deployment>(of_kite), 0);
    assert_eq!(cluster.count::<ServiceAccount>(of_kite), 0);
    assert_eq!(cluster.count::<ClusterRole>(of_kite), 0);
    let kinds = cluster.count::<CustomResourceDefinition>(|it| it.spec.group == "hy3ons.github.io");
    assert_eq!(kinds, kite_core::crd::all().len());
    assert_eq!(cluster.count::<KiteUser>(|_| true), 1);
    assert_eq!(cluster.count::<KiteImage>(|_| true), 1);
    let namespace = &names::user_namespace("ann");
    let vm: KiteVirtualMachine = cluster.find(namespace, "web").unwrap();
    assert_eq!(vm.metadata.deletion_timestamp, None);
    let machine: VirtualMachine = cluster.find(namespace, "web").unwrap();
    assert_eq!(machine.status.as_ref().unwrap().ready, Some(true));
    let disk = names::disk("web");
    assert!(cluster.find::<DataVolume>(namespace, &disk).is_some());
    assert!(
        cluster
            .find::<PersistentVolumeClaim>(namespace, &disk)
            .is_some()
    );
    for secret in [names::GATEWAY_HOST_KEY_SECRET, names::BOOTSTRAP_SECRET] {
        assert!(cluster.find::<Secret>("kite", secret).is_some(), "{secret}");
    }
    takes_up_what_was_left_and_takes_it_away(&cluster, &machine);
    assert_eq!(apiserver.terminate().0, Some(0));
}

/// Installs again where an installation left what people have, and removes that, too.
fn takes_up_what_was_left_and_takes_it_away(cluster: &Cluster, machine: &VirtualMachine) {
    let again = cluster.told(&[&["install", "--without-images"], &OPTIONS[..]].concat());
    let created = objects_that(&again, "created");
    assert!(created.len() > 20, "{again:#}");
    let is_kind = |it: &Value| it["object"]["kind"] == "CustomResourceDefinition";
    assert!(!created.iter().any(is_kind), "{created:#?}");
    let (processes, _, _) = cluster.start();
    let namespace = &names::user_namespace("ann");
    let vms = Api::<KiteVirtualMachine>::namespaced(cluster.client.clone(), namespace);
    let resize = Patch::Merge(json!({"spec": {"cpu": 2}}));
    let params = PatchParams::default();
    let resized = cluster.runtime.block_on(vms.patch("web", &params, &resize));
    resized.unwrap();
    eventually("the VM is looked after again", || {
        let vm: KiteVirtualMachine = cluster.find(namespace, "web").unwrap();
        let seen = vm.status.and_then(|status| status.observed_generation);
        (seen == vm.metadata.generation)
            .then_some(())
            .ok_or_else(|| format!("{seen:?}"))
    });
    let still: VirtualMachine = cluster.find(namespace, "web").unwrap();
    assert_eq!(still.metadata.uid, machine.metadata.uid, "another machine");

    // Whoever deletes all users means this one, too.
    let volumes = Api::<KiteVolume>::namespaced(cluster.client.clone(), namespace);
    let mut kept = KiteVolume::new("kept", KiteVolumeSpec::new("1Gi".parse().unwrap()));
    kept.spec.on_account_deletion = OnAccountDeletion::Keep;
    let made = cluster
        .runtime
        .block_on(volumes.create(&PostParams::default(), &kept));
    made.unwrap();

    let wrong = cluster.kite(&["uninstall", "--delete-users-and-disks=default"]);
    assert_eq!(wrong.status.code(), Some(1), "{}", show(&wrong));
    assert_eq!(cluster.count::<KiteUser>(|_| true), 1);
    let all = [
        "uninstall",
        "--delete-users-and-disks=kite",
        "--output=json",
    ];
    thread::scope(|scope| {
        let uninstall = scope.spawn(|| cluster.told(&all));
        // As pods end with their Deployment: a controller that went on would make anew
        // what is taken away.
        eventually("the controller is to end", || {
            let there = cluster.find::<Deployment>("kite", Kite::Controller.name());
            there.map_or(Ok(()), |_| Err("its Deployment is there".to_owned()))
        });
        drop(processes);
        uninstall.join().unwrap();
    });
    assert_eq!(cluster.count::<VirtualMachine>(|_| true), 0);
    assert_eq!(cluster.count::<DataVolume>(|_| true), 0);
    assert_eq!(cluster.count::<PersistentVolumeClaim>(|_| true), 0);
    let theirs = |it: &Namespace| it.name_any().starts_with("kite") || it.name_any() == *namespace;
    assert_eq!(cluster.count::<Namespace>(theirs), 0);
    let kinds = cluster.count::<CustomResourceDefinition>(|it| it.spec.group == "hy3ons.github.io");
    assert_eq!(kinds, 0);
    assert_eq!(cluster.count::<ClusterRole>(of_kite), 0);
    assert_eq!(cluster.count::<ClusterRoleBinding>(of_kite), 0);
}

/// Somebody of the cluster who may do what these rules allow: a kubeconfig.
fn somebody(cluster: &Cluster, name: &str, rules: &Value) -> PathBuf {
    let rbac = "rbac.authorization.k8s.io";
    let params = PostParams::default();
    let meta = json!({"name": name});
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": meta})).unwrap();
    let role: ClusterRole =
        serde_json::from_value(json!({"metadata": meta, "rules": rules})).unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": meta,
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }))
    .unwrap();
    let client = || cluster.client.clone();
    let token = cluster.runtime.block_on(async {
        let accounts = Api::<ServiceAccount>::namespaced(client(), "default");
        accounts.create(&params, &account).await.unwrap();
        Api::<ClusterRole>::all(client())
            .create(&params, &role)
            .await
            .unwrap();
        Api::<ClusterRoleBinding>::all(client())
            .create(&params, &binding)
            .await
            .unwrap();
        token_of(&accounts, name).await
    });
    let file = cluster.directory.join(name);
    let config = kubeconfig(&cluster.platform.text("apiserver"), &token);
    std::fs::write(&file, config.to_string()).unwrap();
    file
}

#[test]
fn who_may_not_install_is_told_so_and_nothing_is_done() {
    let directory = tempfile::tempdir().unwrap();
    let (process, cluster) = Cluster::new(directory.path().to_owned());
    let verbs = ["get", "list", "create", "patch", "delete"];
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]);
    let none = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let install = |kubeconfig: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
        command.args(["install", "--storage-class=standard"]);
        command.env("KUBECONFIG", kubeconfig);
        let output = run(command, "");
        assert_eq!(output.status.code(), Some(1), "{}", show(&output));
        String::from_utf8(output.stderr).unwrap()
    };
    let operator = somebody(&cluster, "operator", &all);
    let words = [
        "nothing was done: you may not bind/escalate clusterroles",
        "such as a cluster administrator",
        "--without-doctor",
    ];
    // What is played takes a moment to say that it is there.
    eventually("fit but for the rights", || {
        let said = install(&operator);
        let is_it = words.iter().all(|it| said.contains(it)) && said.lines().count() == 1;
        is_it.then_some(()).ok_or(said)
    });
    let said = install(&somebody(&cluster, "nobody", &none));
    assert_eq!(said.matches("forbidden").count(), 1, "{said}");
    assert!(!said.contains("Status {"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let client = cluster.client.clone();
    let there = cluster.runtime.block_on(async {
        let namespaces = Api::<Namespace>::all(client);
        namespaces.get_opt(names::PLATFORM_NAMESPACE).await.unwrap()
    });
    assert_eq!(there, None);
    assert_eq!(process.terminate().0, Some(0));
}
