//! Kite's processes as an installation runs them: with the variables of their
//! workloads, under their service accounts.

use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{EnvVar, ServiceAccount},
};
use kite_core::crd::{ImageSource, KiteImage, KiteImageSpec};
use kite_render::install::Process as Kite;
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

use crate::support::{Process, eventually, run, show};

/// Where an installation is played.
pub struct Site<'a> {
    /// A directory for kubeconfigs and logs.
    pub directory: &'a Path,
    /// URL of the API server.
    pub apiserver: &'a str,
}

/// The image that the VMs of an installation are made from.
pub fn debian() -> KiteImage {
    let source = ImageSource::registry("docker://images.kite.test/debian:12");
    let spec = KiteImageSpec::new(source, "4Gi".parse().unwrap());
    KiteImage::new("debian-12", spec)
}

/// A binary of another package, built by `cargo test --workspace`.
pub fn binary(process: Kite) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_kite")).with_file_name(process.name());
    assert!(
        path.is_file(),
        "{} is not built: run `cargo test --workspace`",
        path.display()
    );
    path
}

/// A token of the process' account.
pub async fn token(client: &Client, process: Kite) -> String {
    token_of(&Api::namespaced(client.clone(), "kite"), process.name()).await
}

/// A token of an account.
pub async fn token_of(accounts: &Api<ServiceAccount>, name: &str) -> String {
    let request = TokenRequest {
        spec: Some(TokenRequestSpec::default()),
        ..TokenRequest::default()
    };
    let params = PostParams::default();
    let answer = accounts.create_token_request(name, &params, &request);
    answer.await.unwrap().status.unwrap().token.unwrap()
}

/// Whether it is of a Secret that may be missing, as it is here: it is not set then.
pub fn is_optional(variable: &EnvVar) -> bool {
    let key = variable
        .value_from
        .as_ref()
        .and_then(|it| it.secret_key_ref.as_ref());
    key.and_then(|key| key.optional).unwrap_or_default()
}

impl Site<'_> {
    /// Starts a process as its workload does, and waits until it is ready; gives where
    /// it serves.
    pub fn start(&self, process: Kite, variables: &[EnvVar], token: &str) -> (Process, String) {
        let mut command = Command::new(binary(process));
        for variable in variables.iter().filter(|it| !is_optional(it)) {
            let value = variable.value.as_deref().unwrap_or("kite");
            command.env(&variable.name, value);
        }
        for option in ["KITE_LISTEN", "KITE_ADMIN_LISTEN"] {
            command.env(option, "127.0.0.1:0");
        }
        let kubeconfig = self
            .directory
            .join(format!("{}.kubeconfig", process.name()));
        let config = self::kubeconfig(self.apiserver, token);
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        command
            // The provider of the tests is on this machine.
            .env("KITE_LOCAL_PROVIDERS", "true")
            .env("KUBECONFIG", kubeconfig)
            .env("HOME", self.directory)
            .env("KITE_POD_NAME", format!("{}-0", process.name()))
            .env("HOSTNAME", format!("{}-0", process.name()));
        let log = self.directory.join(format!("{}.log", process.name()));
        let mut started = Process::start(process.name(), command, log);
        let serving = match process {
            Kite::Controller => "the admin port serves",
            Kite::Gateway => "gateway accepts connections",
            Kite::Api => "the HTTP API serves",
        };
        let admin = started.logged_address("the admin port serves");
        let address = started.logged_address(serving);
        eventually(process.name(), || {
            started.assert_running();
            let mut curl = Command::new("curl");
            curl.args(["-sSf", &format!("http://{admin}/readyz")]);
            let output = run(curl, "");
            if output.status.success() {
                Ok(())
            } else {
                Err(show(&output))
            }
        });
        (started, address)
    }
}

/// A kubeconfig of whoever has this token.
pub fn kubeconfig(apiserver: &str, token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kite", "cluster": {"server": apiserver}}],
        "users": [{"name": "own", "user": {"token": token}}],
        "contexts": [{"name": "kite", "context": {"cluster": "kite", "user": "own"}}],
        "current-context": "kite",
    })
}
