//! `kite smoke` on the demo: where all is well, where something is not, and what it
//! leaves behind.

use std::{
    process::{Command, Output},
    time::Duration,
};

use kite_admin::smoke::{self, News, Report, State, Step};
use kite_core::{
    crd::{KiteReservation, KiteSession, KiteUser, KiteUserSpec},
    names,
};
use kite_gateway::{
    Gateway,
    kubernetes::{RouteTable, host_key},
};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::Value;
use tokio::{net::TcpListener, runtime::Runtime, sync::oneshot};
use tokio_util::sync::CancellationToken;

use crate::support::{self, Platform, clients_present, eventually, run, show, start_demo};

fn command(platform: &Platform, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
    command
        .args(["smoke", "--output=json", "--api-url"])
        .arg(platform.text("api"))
        .args(arguments)
        .env("KUBECONFIG", platform.state.join("kubeconfig"));
    command
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", show(output)))
}

/// Steps with what came of them, in their order.
fn steps(report: &Value) -> Vec<(&str, &str)> {
    let steps = report["steps"].as_array().unwrap().iter();
    steps
        .map(|it| (it["step"].as_str().unwrap(), it["state"].as_str().unwrap()))
        .collect()
}

const ALL: [&str; 12] = [
    "platform",
    "api",
    "gateway",
    "image",
    "user",
    "signIn",
    "vm",
    "running",
    "login",
    "deleteVm",
    "deleteUser",
    "nothingLeft",
];

struct Bed {
    platform: Platform,
    runtime: Runtime,
    client: Client,
}

impl Bed {
    fn new(platform: Platform) -> Self {
        let runtime = Runtime::new().unwrap();
        let kubeconfig = Kubeconfig::read_from(platform.state.join("kubeconfig")).unwrap();
        let client = runtime.block_on(async {
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
            Client::try_from(config.unwrap()).unwrap()
        });
        Self {
            platform,
            runtime,
            client,
        }
    }

    /// What smoke tests have left behind.
    fn left(&self) -> Vec<String> {
        self.runtime.block_on(async {
            let of_smoke = |name: &str| name.contains("smoke-");
            let all = ListParams::default();
            let users = Api::<KiteUser>::all(self.client.clone()).list(&all).await;
            let claims = Api::<KiteReservation>::all(self.client.clone());
            let claims = claims.list(&all).await;
            let sessions = Api::<KiteSession>::all(self.client.clone());
            let sessions = sessions.list(&all).await.unwrap().items;
            let names = users.unwrap().items.into_iter().map(|it| it.name_any());
            let mut claims = claims.unwrap().items;
            // What is kept for who is gone frees itself.
            claims.retain(|it| it.spec.kept.is_none());
            let claims = claims.into_iter().map(|it| it.name_any());
            let sessions = sessions.into_iter().map(|it| it.spec.user);
            let all = names.chain(claims).chain(sessions);
            all.filter(|it| of_smoke(it)).collect()
        })
    }

    fn options(&self) -> smoke::Options {
        smoke::Options {
            namespace: names::PLATFORM_NAMESPACE.to_owned(),
            api_url: Some(self.platform.text("api")),
            gateway: None,
            host_key: None,
            accept_host_key: false,
            image: None,
            timeout: support::PATIENCE,
            unknown: Duration::ZERO,
            keep: false,
        }
    }

    /// A gateway with the same host key that knows nobody.
    fn with_ignorant_gateway(&self, run: impl AsyncFnOnce(smoke::Address) -> Report) -> Report {
        self.runtime.block_on(async {
            let (space, name) = (names::PLATFORM_NAMESPACE, names::GATEWAY_HOST_KEY_SECRET);
            let key = host_key(self.client.clone(), space, name).await.unwrap();
            let gateway = Gateway::builder()
                .host_key(key)
                .routes(RouteTable::default())
                .build()
                .unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string().parse().unwrap();
            let stop = CancellationToken::new();
            let serving = tokio::spawn({
                let stop = stop.clone();
                async move { gateway.serve(listener, stop).await }
            });
            let report = run(address).await;
            stop.cancel();
            serving.await.unwrap().unwrap();
            report
        })
    }
}

/// A user with the label of smoke tests, whose test was to be over at `ends`.
fn leftover(name: &str, ends: Option<&str>) -> KiteUser {
    let mut user = KiteUser::new(name, KiteUserSpec::new(name));
    let label = (smoke::LABEL.to_owned(), "true".to_owned());
    user.metadata.labels = Some([label].into());
    let ends = ends.map(|it| [(smoke::ENDS.to_owned(), it.to_owned())].into());
    user.metadata.annotations = ends;
    user
}

#[test]
fn the_way_of_a_user_is_tried_and_leaves_nothing() {
    if !clients_present() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (process, platform) = start_demo(&directory.path().join("state"), &[]);
    let bed = Bed::new(platform);
    two_at_once_and_what_others_left(&bed);
    an_address_where_nobody_is(&bed);
    an_api_that_is_nowhere(&bed);
    let way = format!("smoke --api-url {}", bed.platform.text("api"));
    eventually("the way is told", || {
        let log = process.log();
        log.contains(&way).then_some(()).ok_or(log)
    });
    a_stranger(&bed);
    a_gateway_that_refuses(&bed);
    somebody_breaks_it_off(&bed);
    assert_eq!(process.terminate().0, Some(0));
}

fn two_at_once_and_what_others_left(bed: &Bed) {
    let past = Some("2020-01-01T00:00:00Z");
    let others = [
        leftover("smoke-killed", past),
        leftover("smoke-under-way", Some("2100-01-01T00:00:00Z")),
        leftover("smoke-kept", None),
        // Whoever it is, it is no user of a smoke test.
        leftover("ann", past),
    ];
    let users = Api::<KiteUser>::all(bed.client.clone());
    for user in &others {
        let params = PostParams::default();
        bed.runtime.block_on(users.create(&params, user)).unwrap();
    }
    let both = std::thread::scope(|scope| {
        let one = || run(command(&bed.platform, &[]), "");
        let both = [scope.spawn(one), scope.spawn(one)];
        both.map(|it| it.join().unwrap())
    });
    let mut swept = Vec::new();
    for output in &both {
        assert_eq!(output.status.code(), Some(0), "{}", show(output));
        let report = report(output);
        assert_eq!(steps(&report), ALL.map(|it| (it, "Passed")), "{report:#}");
        assert_eq!(report["state"], "Passed");
        swept.extend(report["swept"].as_array().unwrap().clone());
    }
    assert!(swept.iter().all(|it| *it == "smoke-killed"), "{swept:?}");
    assert!(!swept.is_empty());
    let stay = ["smoke-kept", "smoke-under-way", "ann"];
    eventually("the one that was left behind goes", || {
        let left = bed.left();
        if left.iter().any(|it| it.contains("smoke-killed")) {
            Err(format!("{left:?}"))
        } else {
            Ok(())
        }
    });
    for name in stay {
        bed.platform.kubectl_ok(&["get", "kiteuser", name]);
        bed.platform.kubectl_ok(&["delete", "kiteuser", name]);
    }
    eventually("nothing is left", || {
        let left = bed.left();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    });
}

fn an_address_where_nobody_is(bed: &Bed) {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    drop(taken);
    let output = run(command(&bed.platform, &["--gateway", &address]), "");
    assert_eq!(output.status.code(), Some(3), "{}", show(&output));
    let report = report(&output);
    let failed = &report["steps"][2];
    assert_eq!(
        (&failed["step"], &failed["state"]),
        (&"gateway".into(), &"Failed".into())
    );
    let says = |field: &str, word: &str| failed[field].as_str().unwrap().contains(word);
    assert!(
        says("message", &address) && says("remedy", "--gateway"),
        "{failed}"
    );
    assert_eq!(bed.left(), Vec::<String>::new());
}

/// No Service is named that is not there.
fn an_api_that_is_nowhere(bed: &Bed) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kite"));
    let kubeconfig = bed.platform.state.join("kubeconfig");
    command
        .args(["smoke", "--output=json"])
        .env("KUBECONFIG", kubeconfig);
    let output = run(command, "");
    assert_eq!(output.status.code(), Some(3), "{}", show(&output));
    let report = report(&output);
    let remedy = report["steps"][0]["remedy"].as_str().unwrap();
    assert!(
        remedy.contains("--api-url") && !remedy.contains("port-forward"),
        "{remedy}"
    );
}

fn a_stranger(bed: &Bed) {
    let other = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let output = run(command(&bed.platform, &["--host-key", other]), "");
    assert_eq!(output.status.code(), Some(3), "{}", show(&output));
    let report = report(&output);
    let failed = &report["steps"][2];
    assert_eq!(failed["state"], "Failed", "{report:#}");
    assert!(
        failed["message"].as_str().unwrap().contains(other),
        "{failed}"
    );
}

fn a_gateway_that_refuses(bed: &Bed) {
    let report = bed.with_ignorant_gateway(async |address| {
        let options = smoke::Options {
            gateway: Some(address),
            ..bed.options()
        };
        smoke::run(&bed.client, &options, std::future::pending(), |_| {}).await
    });
    assert_eq!(report.state, State::Failed, "{report:#?}");
    let [.., failed, cleaned] = &report.steps[..] else {
        panic!("{report:#?}");
    };
    assert_eq!((failed.step, failed.state), (Step::Login, State::Failed));
    assert!(
        failed.remedy.as_ref().unwrap().contains("kite-gateway"),
        "{failed}"
    );
    assert_eq!(
        (cleaned.step, cleaned.state),
        (Step::CleanUp, State::Passed)
    );
    assert_eq!(bed.left(), Vec::<String>::new());
}

fn somebody_breaks_it_off(bed: &Bed) {
    let (stop, stopped) = oneshot::channel();
    let mut stop = Some(stop);
    let options = bed.options();
    let stopped = async {
        let _ = stopped.await;
    };
    let report = bed
        .runtime
        .block_on(smoke::run(&bed.client, &options, stopped, |news| {
            if let News::Waiting(Step::Running, _) = news
                && let Some(stop) = stop.take()
            {
                stop.send(()).unwrap();
            }
        }));
    assert_eq!(report.state, State::Interrupted, "{report:#?}");
    let last = report.steps.last().unwrap();
    assert_eq!((last.step, last.state), (Step::CleanUp, State::Passed));
    assert!(report.steps.iter().any(|it| it.step == Step::Running));
    assert_eq!(bed.left(), Vec::<String>::new());
}
