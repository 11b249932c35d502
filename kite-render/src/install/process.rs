//! Kite's processes, and what all that belongs to one of them has in common.

use std::{collections::BTreeMap, time::Duration};

use kite_core::{labels, names};

use crate::grant::Grant;

/// One of Kite's processes. Its name is that of its workload, its `ServiceAccount`,
/// its roles, and the value of its pods' label `app.kubernetes.io/name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Process {
    /// Makes the cluster match the custom resources.
    Controller,
    /// The SSH gateway.
    Gateway,
    /// The HTTP API and the web page.
    Api,
}

impl Process {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Controller, Self::Gateway, Self::Api];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Controller => names::CONTROLLER_ACCOUNT,
            Self::Gateway => names::GATEWAY_APP,
            Self::Api => names::API_SERVICE,
        }
    }

    /// Port of `/livez`, `/readyz` and `/metrics`.
    pub const fn admin_port(self) -> u16 {
        match self {
            Self::Controller => 8081,
            Self::Gateway => 8082,
            Self::Api => 8083,
        }
    }

    /// Name and number of the port on which it serves people, if it does.
    pub const fn port(self) -> Option<(&'static str, u16)> {
        match self {
            Self::Controller => None,
            Self::Gateway => Some(("ssh", names::GATEWAY_PORT)),
            Self::Api => Some(("http", names::API_PORT)),
        }
    }

    /// The `ClusterRole` that it gets in users' namespaces only, if it does anything
    /// there.
    pub const fn role_for_users(self) -> Option<&'static str> {
        match self {
            Self::Controller => Some("kite-controller-users"),
            Self::Gateway => Some("kite-gateway-users"),
            Self::Api => Some("kite-api-users"),
        }
    }

    /// That role, as the controller gives it to the `ServiceAccount` in `namespace`.
    pub fn grant(self, namespace: &str) -> Option<Grant> {
        self.role_for_users().map(|role| Grant {
            role: role.to_owned(),
            namespace: namespace.to_owned(),
            account: self.name().to_owned(),
        })
    }

    /// The user as which its `ServiceAccount` in `namespace` is known to the API
    /// server.
    pub fn username(self, namespace: &str) -> String {
        format!("system:serviceaccount:{namespace}:{}", self.name())
    }

    /// How long Kubernetes has to wait after SIGTERM: for what the process waits for
    /// itself by its `options`, and a good deal more for an API server that does not
    /// answer.
    pub(super) fn grace(self, options: &BTreeMap<String, String>) -> Duration {
        let seconds = |name: &str, default: u64| {
            let given = options.get(name).and_then(|it| it.parse::<u32>().ok());
            given.map_or(default, u64::from)
        };
        Duration::from_secs(match self {
            // Reconciles that are under way, and 2 s for the release of the Lease.
            Self::Controller => seconds(CONTROLLER_DRAIN, 10) + 20,
            // "Restarts" in docs/gateway.md.
            Self::Gateway => {
                seconds(DRAIN_DELAY, GATEWAY_DRAIN_DELAY) + seconds(DRAIN, GATEWAY_DRAIN) + 60
            }
            // The pause before SIGTERM, the last reports of consoles (22 s).
            Self::Api => API_PAUSE + 40,
        })
    }

    /// The label by which its pods are selected.
    pub(super) fn selector(self) -> BTreeMap<String, String> {
        BTreeMap::from([(labels::APP_NAME.to_owned(), self.name().to_owned())])
    }
}

/// Variable of the controller for the seconds that its reconciles get to end.
pub(super) const CONTROLLER_DRAIN: &str = "KITE_DRAIN";
/// Variable of the gateway for [`GATEWAY_DRAIN_DELAY`].
pub(super) const DRAIN_DELAY: &str = "KITE_DRAIN_DELAY_SECONDS";
/// Variable of the gateway for [`GATEWAY_DRAIN`].
pub(super) const DRAIN: &str = "KITE_DRAIN_SECONDS";
/// Seconds in which the gateway still accepts connections while it says that it is
/// not ready: as long as load balancers take to look.
pub(super) const GATEWAY_DRAIN_DELAY: u64 = 10;
/// Seconds that sessions get to end after that.
pub(super) const GATEWAY_DRAIN: u64 = 60;
/// Seconds that the API goes on serving after its pod was taken out of the Service,
/// until every proxy has heard of that.
pub(super) const API_PAUSE: u64 = 5;
