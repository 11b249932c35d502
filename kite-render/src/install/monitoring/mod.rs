//! What Prometheus scrapes, when it alerts, and a dashboard for Grafana.

mod alerts;
mod dashboard;

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

pub use self::{
    alerts::{AlertingRule, PrometheusRule, PrometheusRuleSpec, RuleGroup, alerts},
    dashboard::dashboard,
};
use super::{Installation, Manifest, Process, metadata};

/// Label of the Services through which metrics are read, and its value.
const COMPONENT: (&str, &str) = ("app.kubernetes.io/component", "metrics");
/// Name of the admin port.
pub(super) const ADMIN: &str = "admin";

/// Who reads metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitoring {
    /// The namespace of Prometheus, whose pods are let in to the admin ports.
    pub namespace: String,
}

/// What is scraped, as the Prometheus operator wants it said
/// (`monitoring.coreos.com/v1`). The subset that Kite writes.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "monitoring.coreos.com",
    version = "v1",
    kind = "ServiceMonitor",
    plural = "servicemonitors",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMonitorSpec {
    /// The label of a Service whose value becomes the label `job`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_label: Option<String>,
    /// Which Services are meant, in the monitor's own namespace.
    pub selector: LabelSelector,
    /// What is scraped of their pods.
    pub endpoints: Vec<Endpoint>,
}

/// A port and path that is scraped.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Name of the Service's port.
    pub port: String,
    /// Path of the metrics.
    pub path: String,
}

/// A Service for each process, without an address of its own, one monitor for all, and
/// the alerts.
pub(super) fn manifests(installation: &Installation) -> Vec<Manifest> {
    if installation.monitoring.is_none() {
        return Vec::new();
    }
    let services = Process::ALL.map(|process| service(installation, process).into());
    services
        .into_iter()
        .chain([monitor(installation).into(), rules(installation).into()])
        .collect()
}

fn service(installation: &Installation, process: Process) -> Service {
    let (key, value) = COMPONENT;
    let name = format!("{}-metrics", process.name());
    let mut metadata = metadata::named(process, &name, Some(&installation.namespace));
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(key.to_owned(), value.to_owned());
    Service {
        metadata,
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(process.selector()),
            ports: Some(vec![ServicePort {
                name: Some(ADMIN.to_owned()),
                port: i32::from(process.admin_port()),
                target_port: Some(IntOrString::String(ADMIN.to_owned())),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

fn monitor(installation: &Installation) -> ServiceMonitor {
    let (key, value) = COMPONENT;
    let (part, of) = metadata::PART_OF;
    let labels = [(key, value), (part, of)];
    let mut monitor = ServiceMonitor::new(
        of,
        ServiceMonitorSpec {
            job_label: Some(kite_core::labels::APP_NAME.to_owned()),
            selector: LabelSelector {
                match_labels: Some(BTreeMap::from(
                    labels.map(|(key, value)| (key.to_owned(), value.to_owned())),
                )),
                match_expressions: None,
            },
            endpoints: vec![Endpoint {
                port: ADMIN.to_owned(),
                path: "/metrics".to_owned(),
            }],
        },
    );
    monitor.metadata = metadata::common(of, Some(&installation.namespace));
    monitor
}

fn rules(installation: &Installation) -> PrometheusRule {
    let (_, of) = metadata::PART_OF;
    let mut rules = PrometheusRule::new(of, alerts());
    rules.metadata = metadata::common(of, Some(&installation.namespace));
    rules
}
