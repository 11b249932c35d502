//! `KiteConnection`: somebody's connection to a VM, through the SSH gateway or a
//! console in the browser; while it lasts, and for a while after it has ended.
//!
//! There is no status: whoever carries the connection writes all of it but
//! [`EndWish`], and one that is over soon is written once, with its end. The HTTP API
//! writes the end of one that nobody carries any more, and for which it stands
//! ([`EarlierConnections`]).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most recordings that one connection's object names; the audit log names all.
pub const MOST_RECORDINGS: usize = 64;
/// Most addresses that are named of connections in whose place another one stands.
pub const MOST_EARLIER_PEERS: usize = 16;
/// Most of them that are named at a time, while they are cleared away.
pub const MOST_COUNTED: usize = 64;

/// What clients say of themselves: nothing that a terminal would act on.
const PRINTABLE: &str = "^[ -~]*$";
/// What people and programs write: in one line, without control characters.
const NO_CONTROLS: &str = r"^[^\x00-\x1f\x7f-\x9f]*$";
/// What a recording may be called: it names a file.
const RECORDING: &str = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$";

/// Who is connected to which VM, since when, and how it ended.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "hy3ons.github.io",
    version = "v1",
    kind = "KiteConnection",
    plural = "kiteconnections",
    shortname = "kcon",
    category = "kite",
    namespaced,
    derive = "PartialEq",
    doc = "A connection of somebody to a VM. Setting spec.end ends it.",
    printcolumn(name = "VM", type_ = "string", json_path = ".spec.vm.name"),
    printcolumn(name = "Login", type_ = "string", json_path = ".spec.login"),
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.kind"),
    printcolumn(name = "From", type_ = "string", json_path = ".spec.peer"),
    printcolumn(name = "Opened", type_ = "date", json_path = ".spec.openedAt"),
    printcolumn(name = "Ended", type_ = "date", json_path = ".spec.ended.at"),
    printcolumn(
        name = "Server",
        type_ = "string",
        json_path = ".spec.server",
        priority = 1
    )
)]
#[x_kube(validation = Rule::new("self.vm == oldSelf.vm && self.owner == oldSelf.owner && self.login == oldSelf.login && self.kind == oldSelf.kind && self.instance == oldSelf.instance && self.number == oldSelf.number && self.openedAt == oldSelf.openedAt").message("whose connection it is and what to cannot be changed"))]
#[x_kube(validation = Rule::new("!has(oldSelf.end) || (has(self.end) && self.end == oldSelf.end)").message("the wish that a connection ends cannot be taken back"))]
#[x_kube(validation = Rule::new("!has(oldSelf.recordings) || (has(self.recordings) && oldSelf.recordings.all(it, it in self.recordings))").message("recordings are added and never taken away"))]
#[x_kube(validation = Rule::new("!has(oldSelf.earlier) || (has(self.earlier) && self.earlier.count >= oldSelf.earlier.count)").message("what stands for earlier connections is not taken away"))]
#[serde(rename_all = "camelCase")]
pub struct KiteConnectionSpec {
    /// The VM that it leads to, in the namespace of this object.
    pub vm: ConnectedVm,
    /// Name of the `KiteUser` whose VM it is.
    #[schemars(length(min = 1, max = 253))]
    pub owner: String,
    /// With which name somebody logged in at the gateway; of a console in the
    /// browser, the name of the `KiteUser` who has it open.
    #[schemars(length(min = 1, max = 253))]
    pub login: String,
    /// By which door somebody came in.
    pub kind: ConnectionKind,
    /// Address where the client is, as far as known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), regex(pattern = PRINTABLE))]
    pub peer: Option<String>,
    /// What the client calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), regex(pattern = PRINTABLE))]
    pub client: Option<String>,
    /// Id of the process that carries it, the same as on its heartbeat.
    #[schemars(length(min = 1, max = 63))]
    pub instance: String,
    /// What people know that process by, such as its pod's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub server: Option<String>,
    /// Its number in that process, as in the audit log.
    #[schemars(range(min = 0))]
    pub number: i64,
    /// When somebody had logged in.
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("openedAt must be before the year 9000"))]
    #[serde(deserialize_with = "crate::time::required")]
    pub opened_at: Time,
    /// Names of the recordings that were made of its terminals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 512), regex(pattern = RECORDING)))]
    pub recordings: Vec<String>,
    /// Somebody wants it to end. Whoever carries it ends it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<EndWish>,
    /// That it is over. Absent while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<ConnectionEnd>,
    /// Earlier ones like it in whose place it stands, where there were too many of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierConnections>,
}

/// A VM, and no other of the same name.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ConnectedVm {
    /// Name of the `KiteVirtualMachine`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its uid.
    #[schemars(length(min = 1, max = 64))]
    pub uid: String,
}

/// By which door somebody comes into a VM.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionKind {
    /// The SSH gateway.
    Ssh,
    /// The serial line, in the browser.
    Serial,
    /// The screen, in the browser.
    Vnc,
    /// A terminal in the browser.
    Terminal,
}

/// That somebody wants a connection to end.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct EndWish {
    /// Username of the account.
    #[schemars(length(min = 1, max = 253))]
    pub by: String,
    /// Why; whoever is connected reads it.
    #[schemars(length(max = 200), regex(pattern = NO_CONTROLS))]
    pub reason: String,
    /// Since when.
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("at must be before the year 9000"))]
    #[serde(deserialize_with = "crate::time::required")]
    pub at: Time,
}

/// How a connection ended.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionEnd {
    /// When.
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("at must be before the year 9000"))]
    #[serde(deserialize_with = "crate::time::required")]
    pub at: Time,
    /// Why.
    #[schemars(length(max = 400), regex(pattern = NO_CONTROLS))]
    pub why: String,
    /// Bytes from the user to the VM; absent where nobody could say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub bytes_up: Option<i64>,
    /// Bytes from the VM to the user; absent where nobody could say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub bytes_down: Option<i64>,
}

/// Connections to the same VM, by the same name and as a rule from the same address, that
/// are not there any more one by one.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct EarlierConnections {
    /// How many.
    #[schemars(range(min = 1))]
    pub count: i64,
    /// When the first of them was opened.
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("first must be before the year 9000"))]
    #[serde(deserialize_with = "crate::time::required")]
    pub first: Time,
    /// When the last of them was opened.
    #[x_kube(validation = Rule::new("self < timestamp('9000-01-01T00:00:00Z')").message("last must be before the year 9000"))]
    #[serde(deserialize_with = "crate::time::required")]
    pub last: Time,
    /// Bytes from the users to the VM, as far as anybody could say.
    #[schemars(range(min = 0))]
    pub bytes_up: i64,
    /// Bytes from the VM to the users, as far as anybody could say.
    #[schemars(range(min = 0))]
    pub bytes_down: i64,
    /// Addresses where the clients were, as far as known: of many those that came first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 64), regex(pattern = PRINTABLE)))]
    pub peers: Vec<String>,
    /// Names of those that were counted last, of which some may still be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub counted: Vec<String>,
}

impl KiteConnection {
    /// Whether it lasts, as far as the object says.
    pub fn is_live(&self) -> bool {
        self.spec.ended.is_none()
    }
}
