//! `kite upgrade` from a version whose roles are others, while its processes are at work
//! under their accounts: what they may do, and what those that come need, is allowed
//! until the new pods are ready, however often it is broken off until then.

use std::{
    fs,
    process::{Command, Output, Stdio},
    sync::Arc,
    thread,
};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, EnvVar, Secret},
    rbac::v1::{PolicyRule, Role},
};
use kite_fake::FakeCluster;
use kite_fake::actors::{Rule, Rules, Selector, Stage};
use kite_fake::server::Logged;
use kite_fake_kubevirt::{demo_rules, play};
use kite_render::install::Process as Kite;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::{
    support::{Platform, Process, clients_present, eventually, run, show},
    workload::{Site, token},
};

const NAMESPACE: &str = "kite";
/// The process whose role is another in the version before.
const CHANGED: Kite = Kite::Api;

struct Cluster {
    platform: Platform,
    rules: Arc<Rules>,
    fake: FakeCluster,
    runtime: Runtime,
    stop: CancellationToken,
    directory: TempDir,
}

impl Cluster {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        fs::create_dir(&state).unwrap();
        let (rules, stop) = (Arc::new(demo_rules()), CancellationToken::new());
        let guard = runtime.enter();
        let fake = FakeCluster::builder()
            .rbac(true)
            .crds(kite_core::kubevirt::crds())
            .crds(kite_core::cdi::crds())
            .build()
            .unwrap();
        drop(play(&fake, &rules, true, &stop));
        let served = runtime.block_on(fake.serve(([127, 0, 0, 1], 0).into()));
        let url = served.unwrap().url();
        drop(guard);
        fake.write_kubeconfig(&state.join("kubeconfig"), &url)
            .unwrap();
        Self {
            platform: Platform {
                state,
                ready: json!({ "apiserver": url }),
            },
            rules,
            fake,
            runtime,
            stop,
            directory,
        }
    }

    fn client(&self) -> Client {
        let _guard = self.runtime.enter();
        self.fake.client()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
        command.args(arguments).args(["--output=json"]);
        command.env("KUBECONFIG", self.platform.state.join("kubeconfig"));
        command
    }

    fn kite(&self, arguments: &[&str]) -> Output {
        run(self.command(arguments), "")
    }

    fn get<K>(&self, name: &str) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let api = Api::<K>::namespaced(self.client(), NAMESPACE);
        self.runtime.block_on(api.get(name)).unwrap()
    }

    fn rules_of(&self, role: &str) -> Vec<PolicyRule> {
        self.get::<Role>(role).rules.unwrap()
    }

    /// Writes a role as an installation does.
    fn install_role(&self, name: &str, rules: &[PolicyRule]) {
        let mut role: Role = self.get(name);
        role.metadata.managed_fields = None;
        role.metadata.resource_version = None;
        role.rules = Some(rules.to_vec());
        let params = PatchParams::apply(kite_admin::install::MANAGER).force();
        let api = Api::<Role>::namespaced(self.client(), NAMESPACE);
        let patch = Patch::Apply(&role);
        self.runtime
            .block_on(api.patch(name, &params, &patch))
            .unwrap();
    }

    fn image_of(&self, process: Kite) -> String {
        let deployment: Deployment = self.get(process.name());
        let pod = deployment.spec.template.spec.unwrap();
        pod.containers[0].image.clone().unwrap()
    }

    /// Starts the processes as their Deployments say.
    fn start(&mut self) -> Vec<Process> {
        let url = self.platform.text("apiserver");
        let mut processes = Vec::new();
        for process in Kite::ALL {
            let deployment: Deployment = self.get(process.name());
            let pod = deployment.spec.template.spec.unwrap();
            let variables: Vec<EnvVar> = pod.containers[0].env.clone().unwrap_or_default();
            let token = self.runtime.block_on(token(&self.client(), process));
            let site = Site {
                directory: self.directory.path(),
                apiserver: &url,
            };
            let (started, address) = site.start(process, &variables, &token);
            processes.push(started);
            if process == Kite::Api {
                self.platform.ready["api"] = json!(format!("http://{address}"));
            }
        }
        processes
    }

    /// Makes the first administrator, and gives its token.
    fn boss(&self) -> String {
        let secret: Secret = self.get("kite-bootstrap");
        let token = String::from_utf8(secret.data.unwrap()["token"].0.clone()).unwrap();
        let password = "correct horse battery";
        let boss = json!({ "token": token, "username": "boss", "password": password });
        let path = "/api/v1/auth/bootstrap";
        self.platform.curl_ok(201, "POST", path, None, Some(&boss));
        let boss = json!({ "username": "boss", "password": password });
        let path = "/api/v1/auth/sign-in";
        let answer = self.platform.curl_ok(200, "POST", path, None, Some(&boss));
        answer["token"].as_str().unwrap().to_owned()
    }

    /// What the old process is answered that uses what only its version may.
    fn uses_the_old_right(&self) -> u16 {
        let client = {
            let _guard = self.runtime.enter();
            self.fake.client_as(&CHANGED.username(NAMESPACE))
        };
        let maps = Api::<ConfigMap>::namespaced(client, NAMESPACE);
        match self.runtime.block_on(maps.get("of-the-version-before")) {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{error}"),
        }
    }

    /// What the processes were refused.
    fn refused(&self) -> Vec<String> {
        let log = self.fake.log();
        let of_kite = |user: &str| Kite::ALL.iter().any(|it| it.username(NAMESPACE) == user);
        log.entries()
            .filter(|it| it.code == 403 && of_kite(&it.user))
            .map(|it| format!("{}: {} {} {}", it.user, it.verb, it.resource, it.name))
            .collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
        self.fake.shut_down();
    }
}

/// Which of the version before is not in this one.
fn old_right() -> PolicyRule {
    let rule = json!({
        "apiGroups": [""], "resources": ["configmaps"],
        "resourceNames": ["of-the-version-before"], "verbs": ["get"],
    });
    serde_json::from_value(rule).unwrap()
}

/// The rules of the version before: it may not replace the key of second factors.
fn before(now: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut rules = now.to_vec();
    let seal = rules.iter_mut().find(|rule| {
        let names = rule.resource_names.as_deref().unwrap_or_default();
        names.iter().any(|name| name == "kite-seal")
    });
    let verbs = &mut seal.unwrap().verbs;
    assert!(verbs.iter().any(|verb| verb == "patch"), "{verbs:?}");
    verbs.retain(|verb| verb != "patch");
    rules.push(old_right());
    rules
}

#[test]
fn roles_change_with_the_pods_and_nobody_is_refused() {
    if !clients_present() {
        return;
    }
    let mut cluster = Cluster::new();
    let install = ["install", "--profile=single-node", "--without-images"];
    let options = ["--without-doctor", "--tag=before"];
    let installed = cluster.kite(&[&install[..], &options].concat());
    assert!(installed.status.success(), "{}", show(&installed));
    let role = CHANGED.name();
    let now = cluster.rules_of(role);
    cluster.install_role(role, &before(&now));

    let mut processes = cluster.start();
    let boss = cluster.boss();
    let rotate = |cluster: &Cluster| {
        let path = "/api/v1/admin/rotate-seal-key";
        cluster.platform.curl("POST", path, Some(&boss), None)
    };
    assert_eq!(cluster.refused(), Vec::<String>::new());
    let (status, answer) = rotate(&cluster);
    assert!(status >= 400, "may not be done yet: {answer}");
    let refused = ["system:serviceaccount:kite:kite-api: patch secrets kite-seal"];
    assert_eq!(cluster.refused(), refused);
    // Theirs is what follows.
    cluster.fake.log().clear();
    let why = ("ImagePullBackOff", "there is no such image yet");
    let fail = Rule::fail(Stage::POD_READY, Selector::all(), why.0, why.1);
    cluster.rules.add(fail);
    let is_wide = |cluster: &Cluster| {
        let rules = cluster.rules_of(role);
        assert!(now.iter().all(|rule| rules.contains(rule)), "{rules:#?}");
        assert_eq!(cluster.uses_the_old_right(), 404, "it may look");
    };

    // New pods that do not get ready: it is told what is left to do.
    // They have the time to be begun, on a busy machine, too.
    let late = cluster.kite(&["upgrade", "--without-doctor", "--tag=now", "--timeout=10"]);
    assert_eq!(late.status.code(), Some(1), "{}", show(&late));
    let error = String::from_utf8_lossy(&late.stderr);
    assert!(
        error.contains("roles that are to allow less") && error.contains("repeat this"),
        "{error}"
    );
    let standing = "has 0 of 1 pods ready, and 1 of the version before";
    assert!(error.contains(standing), "{error}");
    for process in Kite::ALL {
        assert!(cluster.image_of(process).ends_with(":now"));
    }
    is_wide(&cluster);
    let written = |resource: &str, name: &str| {
        let log = cluster.fake.log();
        let is_it = |it: &Logged| it.verb == "patch" && it.resource == resource && it.name == name;
        // Workloads are tried out before.
        let all = log.entries().enumerate().filter(|(_, it)| is_it(it));
        all.last().unwrap().0
    };
    let role_changed = written("roles.rbac.authorization.k8s.io", role);
    for process in Kite::ALL {
        assert!(role_changed < written("deployments.apps", process.name()));
    }
    // The pods that came may do what they are for.
    let (status, answer) = rotate(&cluster);
    assert_eq!(status, 200, "{answer}");

    // Broken off while it waits.
    let mut command = cluster.command(&["upgrade", "--without-doctor", "--tag=later"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut broken = command.spawn().unwrap();
    eventually("the last workload is applied", || {
        let images = Kite::ALL.map(|it| cluster.image_of(it));
        let are_there = images.iter().all(|it| it.ends_with(":later"));
        are_there.then_some(()).ok_or_else(|| format!("{images:?}"))
    });
    broken.kill().unwrap();
    broken.wait().unwrap();
    is_wide(&cluster);

    // Begun again, with what it was begun with; the pods get ready after a while.
    let told: Value = thread::scope(|scope| {
        let upgrade = scope.spawn(|| cluster.kite(&["upgrade", "--without-doctor"]));
        let looked = cluster.fake.log().mark();
        eventually("it waits for the pods", || {
            let since = cluster.fake.log().since(&looked);
            let looks = since.entries.iter().filter(|it| {
                it.verb == "get" && it.resource == "deployments.apps" && it.name == "kite-api"
            });
            // One when it is tried out, one before it is applied, and two while it is waited
            // for.
            (looks.count() > 3).then_some(()).ok_or_else(String::new)
        });
        is_wide(&cluster);
        cluster.rules.clear(Stage::POD_READY);
        let output = upgrade.join().unwrap();
        assert!(output.status.success(), "{}", show(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    });
    let changed = told["objects"].as_array().unwrap().iter();
    let changed: Vec<_> = changed.filter(|it| it["change"] == "changed").collect();
    assert_eq!(changed.len(), 1, "{changed:#?}");
    assert_eq!(changed[0]["object"]["kind"], "Role");
    assert_eq!(cluster.rules_of(role), now);
    for process in &mut processes {
        process.assert_running();
    }
    assert_eq!(cluster.refused(), Vec::<String>::new());
    assert_eq!(cluster.uses_the_old_right(), 403);
    an_older_version_is_refused(&cluster);
}

/// As if a newer one had been here.
fn an_older_version_is_refused(cluster: &Cluster) {
    let kept = Api::<ConfigMap>::namespaced(cluster.client(), NAMESPACE);
    let newer = Patch::Merge(json!({"data": {"version": "99.0.0"}}));
    let params = PatchParams::default();
    let written = kept.patch("kite-installation", &params, &newer);
    cluster.runtime.block_on(written).unwrap();
    let tried = [
        "upgrade",
        "--without-doctor",
        "--forget=tag",
        "--dry-run=server",
    ];
    let older = cluster.kite(&tried);
    let error = String::from_utf8_lossy(&older.stderr);
    assert_eq!(older.status.code(), Some(1), "{}", show(&older));
    assert!(
        error.contains("99.0.0") && error.contains("--allow-downgrade"),
        "{error}"
    );
    let allowed = cluster.kite(&[&tried[..], &["--allow-downgrade"]].concat());
    assert!(allowed.status.success(), "{}", show(&allowed));
}
