//! Who carries connections to VMs ([`KiteConnection`]): processes, each of which
//! shows by a heartbeat that it is there. Where one is gone without a word, its
//! connections are over, and somebody else has to say so.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
};
use kube::Resource as _;

use crate::{
    crd::{KiteConnection, KiteConnectionSpec, KiteVirtualMachine},
    labels, names,
};

/// How often a process that carries connections renews its heartbeat. One that
/// carries none has no need of it.
pub const BEAT_EVERY: Duration = Duration::from_secs(20);

/// One process that carries connections, and no other, not even the same program
/// started again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    id: String,
    server: Option<String>,
}

impl Instance {
    /// A process with this `id`, 64 bits that no other has (such as random ones).
    /// `server` is what people know it by, such as the name of its pod.
    pub fn new(id: u64, server: Option<String>) -> Self {
        Self {
            id: format!("{id:016x}"),
            server: server.map(|server| server.chars().take(253).collect()),
        }
    }

    /// Its id, as it stands in labels and objects.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What people know it by.
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// Selects the objects of its connections.
    pub fn selector(&self) -> String {
        format!("{}={}", labels::INSTANCE, self.id)
    }

    /// That it was there at `now`: to be applied in the namespace of the platform.
    pub fn heartbeat(&self, namespace: &str, now: Timestamp) -> Lease {
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        Lease {
            metadata: ObjectMeta {
                name: Some(names::heartbeat(&self.id)),
                namespace: Some(namespace.to_owned()),
                labels: Some(
                    [
                        label(labels::COMPONENT, labels::COMPONENT_HEARTBEAT),
                        label(labels::INSTANCE, &self.id),
                    ]
                    .into(),
                ),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: self.server.clone(),
                renew_time: Some(MicroTime(now)),
                ..LeaseSpec::default()
            }),
        }
    }
}

/// The object of a connection in `namespace`. It goes with its VM.
pub fn object(namespace: &str, spec: KiteConnectionSpec) -> KiteConnection {
    let name = names::connection(&spec.instance, spec.number);
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        namespace: Some(namespace.to_owned()),
        labels: Some([(labels::INSTANCE.to_owned(), spec.instance.clone())].into()),
        owner_references: Some(vec![OwnerReference {
            api_version: KiteVirtualMachine::api_version(&()).into_owned(),
            kind: KiteVirtualMachine::kind(&()).into_owned(),
            name: spec.vm.name.clone(),
            uid: spec.vm.uid.clone(),
            controller: None,
            block_owner_deletion: None,
        }]),
        ..ObjectMeta::default()
    };
    let mut object = KiteConnection::new(&name, spec);
    object.metadata = metadata;
    object
}
