//! Whether a cluster is fit for Kite, and what to do where it is not.
//!
//! [`Facts::gather`] asks the cluster, and [`judge`] makes findings of the facts
//! without asking anybody. Nothing is written.

mod clients;
mod cluster;
mod data;
mod exposure;
mod facts;
mod finding;
mod installed;
mod nameservers;
mod operators;
mod pods;
mod rights;
mod secrets;
mod storage;
mod version;

use jiff::Timestamp;
use kite_core::crd::KitePlatformSpec;
use kube::Client;

pub use self::{
    facts::{Facts, Resolved, Seen},
    finding::{Finding, Report, State},
    rights::{Access, Answers, may_install, needed_to_install},
};

/// What the cluster is looked at for.
#[derive(Clone, Debug)]
pub struct Aim {
    /// Namespace in which Kite runs, or will.
    pub namespace: String,
    /// `StorageClass` to look at, instead of the platform's.
    pub storage_class: Option<String>,
    /// Settings that are about to be written, to look at where there are none yet.
    pub planned: Option<KitePlatformSpec>,
    /// Whether what is about to be written has load balancers tell the gateway where
    /// connections come from.
    pub proxied: bool,
}

/// Looks at the cluster and judges it.
pub async fn examine(client: &Client, aim: &Aim) -> Report {
    judge(&Facts::gather(client, aim, Timestamp::now).await, aim)
}

/// The findings of these facts, in the order in which to mend what is wrong.
pub fn judge(facts: &Facts, aim: &Aim) -> Report {
    let mut findings = vec![cluster::api_server(facts)];
    if !matches!(facts.version, Seen::Known(_)) {
        // Nothing else can be said of a cluster that does not answer.
        return Report::new(findings);
    }
    findings.push(cluster::clock(facts));
    findings.push(cluster::kubevirt(facts));
    findings.push(cluster::cdi(facts));
    findings.extend(operators::settings(facts));
    findings.push(cluster::nodes(facts));
    findings.push(cluster::network_policies(facts));
    findings.push(pods::addresses(facts, aim));
    findings.push(nameservers::nameservers(facts, aim));
    findings.extend(storage::storage(facts, aim));
    findings.extend(exposure::exposure(facts, aim));
    findings.extend(secrets::certificate(facts));
    findings.extend(clients::clients(facts, aim));
    findings.push(rights::rights(facts));
    findings.push(installed::custom_resources(facts));
    findings.extend(installed::processes(facts, aim));
    findings.extend(installed::vms_elsewhere(facts, aim));
    findings.extend(data::lost(facts));
    findings.extend(data::left_behind(facts));
    findings.extend(data::schedules(facts));
    Report::new(findings)
}
