//! The options of the processes, as variables of their environment.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    EnvFromSource, EnvVar, EnvVarSource, ObjectFieldSelector, SecretEnvSource, SecretKeySelector,
};
use kite_core::{names, quantity::Bytes};

use super::{
    Installation, Process,
    process::{DRAIN, DRAIN_DELAY, GATEWAY_DRAIN, GATEWAY_DRAIN_DELAY},
    validity::NAMESPACE,
};

use crate::namespace::PodSecurity;

/// Where recordings lie in a container.
pub(super) const RECORDINGS_DIRECTORY: &str = "/var/lib/kite/recordings";

/// The variable by which the API knows its own pod, also where that has the name of its node.
const POD_NAME: &str = "KITE_POD_NAME";

/// The variable of the token for a gateway's sessions.
const SESSIONS_TOKEN: &str = "KITE_SESSIONS_TOKEN";

/// Whether and where terminal sessions are recorded: on a volume of each pod's own,
/// and from there in an object store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recordings {
    /// Size of each pod's volume.
    pub size: Bytes,
    /// `StorageClass` of these volumes; by default the cluster's default.
    pub storage_class: Option<String>,
    /// Where recordings are carried to, and replayed from in the web page, such as
    /// `s3://bucket/prefix`. The images must be built for such a store.
    pub upload: Option<String>,
    /// Name of a Secret in Kite's namespace whose keys are the variables by which the
    /// store's credentials are told, such as `AWS_ACCESS_KEY_ID`.
    pub credentials: Option<String>,
}

/// Where the audit log of the gateway and the API goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Audit {
    /// To standard output, as lines of which each has the hash of the one before: whatever
    /// collects the logs of pods has them, and what is taken out of them shows.
    #[default]
    Output,
    /// Into the log, among all else, and without hashes.
    Log,
    /// Nowhere.
    Nowhere,
}

impl Audit {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Output, Self::Log, Self::Nowhere];

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Log => "log",
            Self::Nowhere => "none",
        }
    }

    /// The variable by which a process is told, and its value.
    fn option(self) -> Option<(&'static str, String)> {
        match self {
            Self::Output => Some(("KITE_AUDIT_TO", "-".to_owned())),
            Self::Log => None,
            Self::Nowhere => {
                let targets = "info,kite_api::audit=off,kite_gateway::audit=off";
                Some(("KITE_LOG", targets.to_owned()))
            }
        }
    }
}

/// How people reach the web page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Web {
    /// How many proxies in front of it append to `X-Forwarded-For`: one, if it is
    /// reached through an Ingress or a Gateway.
    pub proxies: u16,
    /// Whether it is reached by HTTPS only, so that cookies are for that alone.
    pub is_https: bool,
    /// Origins whose pages may use the cookies, where a proxy rewrites the `Host`
    /// header.
    pub origins: Vec<String>,
}

impl Default for Web {
    fn default() -> Self {
        Self {
            proxies: 1,
            is_https: true,
            origins: Vec::new(),
        }
    }
}

/// Options of which an installation knows nothing, by process and variable. They win
/// over those that it sets, but for `KITE_NAMESPACE`, which is that of the pod.
pub type Options = BTreeMap<Process, BTreeMap<String, String>>;

/// The variables of a process.
pub(super) fn variables(installation: &Installation, process: Process) -> Vec<EnvVar> {
    let all = options(installation, process);
    // A variable that is there twice is refused by the API server.
    let needs_token = process == Process::Gateway && !all.contains_key(SESSIONS_TOKEN);
    let needs_pod = process == Process::Api && !all.contains_key(POD_NAME);
    let variables = all.into_iter().map(|(name, value)| EnvVar {
        name,
        value: Some(value),
        value_from: None,
    });
    let token = needs_token.then(sessions_token);
    let pod = needs_pod.then(|| of_pod(POD_NAME, "metadata.name"));
    // The pod's own namespace, wherever somebody moves it.
    let own = [of_pod(NAMESPACE, "metadata.namespace")].into_iter();
    own.chain(pod).chain(token).chain(variables).collect()
}

/// The options of a process, by their variables.
pub(super) fn options(installation: &Installation, process: Process) -> BTreeMap<String, String> {
    let mut options = BTreeMap::from([
        (
            "KITE_ADMIN_LISTEN",
            format!("0.0.0.0:{}", process.admin_port()),
        ),
        ("KITE_LOG_FORMAT", "json".to_owned()),
    ]);
    if let Some((_, port)) = process.port() {
        options.insert("KITE_LISTEN", format!("0.0.0.0:{port}"));
    }
    match process {
        Process::Controller => {
            options.insert("KITE_GRANTS", "true".to_owned());
            if installation.is_proxied() {
                options.insert("KITE_PROXIED", "true".to_owned());
            }
            if installation.is_web_direct() {
                options.insert("KITE_WEB_DIRECT", "true".to_owned());
            }
            let security = installation.pod_security;
            if security != PodSecurity::default() {
                options.insert("KITE_POD_SECURITY", security.name().to_owned());
            }
        }
        Process::Gateway => {
            options.insert(DRAIN_DELAY, GATEWAY_DRAIN_DELAY.to_string());
            options.insert(DRAIN, GATEWAY_DRAIN.to_string());
        }
        Process::Api => {
            let web = &installation.web;
            options.insert("KITE_TRUSTED_PROXIES", web.proxies.to_string());
            options.insert("KITE_SECURE_COOKIES", web.is_https.to_string());
            if !web.origins.is_empty() {
                options.insert("KITE_ORIGINS", web.origins.join(","));
            }
        }
    }
    if process != Process::Controller {
        options.extend(installation.audit.option());
    }
    if installation.terminals && process != Process::Gateway {
        options.insert("KITE_TERMINALS", "true".to_owned());
    }
    if installation.records(process) {
        options.insert("KITE_RECORD_TO", RECORDINGS_DIRECTORY.to_owned());
    }
    if let Some(url) = installation.store() {
        if installation.records(process) {
            options.insert("KITE_RECORD_UPLOAD", url.to_owned());
        }
        if process == Process::Api {
            options.insert("KITE_RECORDINGS_FROM", url.to_owned());
        }
    }
    let own = options
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    let mut all: BTreeMap<String, String> = own.collect();
    let further = installation.options.get(&process);
    all.extend(further.cloned().unwrap_or_default());
    // A variable that is there twice is refused by the API server.
    all.remove(NAMESPACE);
    all
}

/// The token with which a gateway's sessions are asked for, where somebody has made the
/// Secret: without it they are not served.
fn sessions_token() -> EnvVar {
    EnvVar {
        name: SESSIONS_TOKEN.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: names::GATEWAY_SESSIONS_SECRET.to_owned(),
                key: names::GATEWAY_SESSIONS_KEY.to_owned(),
                optional: Some(true),
            }),
            ..EnvVarSource::default()
        }),
    }
}

/// A variable that tells what is in a field of the pod.
fn of_pod(name: &str, field: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: Some("v1".to_owned()),
                field_path: field.to_owned(),
            }),
            ..EnvVarSource::default()
        }),
    }
}

/// Credentials of the store of recordings, for whoever uses it.
pub(super) fn credentials(
    installation: &Installation,
    process: Process,
) -> Option<Vec<EnvFromSource>> {
    installation.store()?;
    let name = installation.recordings.as_ref()?.credentials.clone()?;
    (process != Process::Controller).then(|| {
        vec![EnvFromSource {
            secret_ref: Some(SecretEnvSource {
                name,
                optional: None,
            }),
            ..EnvFromSource::default()
        }]
    })
}
