//! A session in a VM as the API shows it.

use kite_core::crd::{ConnectionKind, KiteConnection};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;

/// A session of somebody in a VM.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "VmSession")]
pub(super) struct VmSessionView {
    /// Its name.
    name: String,
    /// Name of the VM.
    vm: String,
    /// Name of the account whose VM it is.
    owner: String,
    /// With which name somebody logged in; of a console in the browser, the account
    /// that has it open.
    login: String,
    /// What it is.
    kind: ConnectionKind,
    /// Address of the client, as far as known.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    /// What the client calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// Which process carries it.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    /// Its number in that process, as in the audit log.
    number: i64,
    /// When it began.
    #[schemars(extend("format" = "date-time"))]
    opened_at: String,
    /// Whether it lasts.
    live: bool,
    /// Somebody wants it to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    ending: Option<EndingView>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    ended_at: Option<String>,
    /// Why it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// Bytes from the user to the VM, when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_up: Option<i64>,
    /// Bytes from the VM to the user, when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_down: Option<i64>,
    /// Names of what was recorded of its terminals.
    recordings: Vec<String>,
    /// Earlier sessions of the same login name and as a rule from the same address, in whose
    /// place it stands, as there were too many.
    #[serde(skip_serializing_if = "Option::is_none")]
    earlier: Option<EarlierView>,
}

/// Sessions that are not kept one by one.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "EarlierVmSessions")]
struct EarlierView {
    /// How many.
    count: i64,
    /// When the first of them began.
    #[schemars(extend("format" = "date-time"))]
    first_opened_at: String,
    /// When the last of them began.
    #[schemars(extend("format" = "date-time"))]
    last_opened_at: String,
    /// Bytes from the users to the VM, as far as anybody could say.
    bytes_up: i64,
    /// Bytes from the VM to the users, as far as anybody could say.
    bytes_down: i64,
    /// Addresses of the clients: of many those that came first.
    peers: Vec<String>,
}

/// That somebody wants a session to end.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "VmSessionEnding")]
struct EndingView {
    /// Username of the account.
    by: String,
    /// What the user of the session reads.
    reason: String,
    /// Since when.
    #[schemars(extend("format" = "date-time"))]
    at: String,
}

impl VmSessionView {
    pub(super) fn of(connection: &KiteConnection) -> Self {
        let spec = &connection.spec;
        let ended = spec.ended.as_ref();
        Self {
            name: connection.name_any(),
            vm: spec.vm.name.clone(),
            owner: spec.owner.clone(),
            login: spec.login.clone(),
            kind: spec.kind,
            peer: spec.peer.clone(),
            client: spec.client.clone(),
            server: spec.server.clone(),
            number: spec.number,
            opened_at: spec.opened_at.0.to_string(),
            live: connection.is_live(),
            ending: spec.end.as_ref().map(|end| EndingView {
                by: end.by.clone(),
                reason: end.reason.clone(),
                at: end.at.0.to_string(),
            }),
            ended_at: ended.map(|ended| ended.at.0.to_string()),
            why: ended.map(|ended| ended.why.clone()),
            bytes_up: ended.and_then(|ended| ended.bytes_up),
            bytes_down: ended.and_then(|ended| ended.bytes_down),
            recordings: spec.recordings.clone(),
            earlier: spec.earlier.as_ref().map(|earlier| EarlierView {
                count: earlier.count,
                first_opened_at: earlier.first.0.to_string(),
                last_opened_at: earlier.last.0.to_string(),
                bytes_up: earlier.bytes_up,
                bytes_down: earlier.bytes_down,
                peers: earlier.peers.clone(),
            }),
        }
    }
}
