//! Installations that suit many clusters as they are.

use super::{Installation, Replicas, Spread, Storage};

/// A kind of cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// Any: two of each process, and storage that is there already.
    #[default]
    Plain,
    /// k3s: its Traefik, Longhorn, and the gateway on port 2222, since 22 of the nodes,
    /// on which k3s' load balancer listens, is their own sshd's.
    K3s,
    /// One node: one of each process, and Longhorn.
    SingleNode,
    /// Three nodes or more that take pods, any of which may fail: three of each process,
    /// spread over them as evenly as they go, and three copies of each disk.
    HighAvailability,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Plain,
        Self::K3s,
        Self::SingleNode,
        Self::HighAvailability,
    ];

    /// What people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::K3s => "k3s",
            Self::SingleNode => "single-node",
            Self::HighAvailability => "high-availability",
        }
    }

    /// Its installation.
    pub fn installation(self) -> Installation {
        let mut installation = Installation::default();
        match self {
            Self::Plain => {}
            Self::K3s => {
                let platform = &mut installation.platform;
                platform.exposure.ingress_class_name = Some("traefik".to_owned());
                platform.gateway.service_port = 2222;
                platform.gateway.public_port = 2222;
                installation.storage = Some(Storage::longhorn(1));
            }
            Self::SingleNode => {
                installation.replicas = Replicas::all(1);
                installation.storage = Some(Storage::longhorn(1));
            }
            Self::HighAvailability => {
                installation.replicas = Replicas::all(3);
                installation.spread = Spread::Required;
                installation.storage = Some(Storage::longhorn(3));
            }
        }
        installation
    }
}
