//! All that there is under a VM's names.

use k8s_openapi::api::{
    core::v1::{Secret, Service},
    networking::v1::Ingress,
};
use kite_core::{gateway_api::HttpRoute, kubevirt::VirtualMachine, names};
use kite_render::Vm;

use super::{
    delete::{Left, Teardown, certificate, left},
    observe::Observed,
};
use crate::slots::slots;

slots! {
    /// What there is under the names of what is made for a VM, whosever it is.
    pub struct Made of Vm<'_>, seen by Observed;

    /// Exposure under the domain by an Ingress.
    ingress: Ingress = str::to_owned, goes with Ways by left;
    /// Exposure under the domain by a route of the Gateway API.
    route: HttpRoute = str::to_owned, goes with Ways by left;
    /// Service for SSH.
    access_service: Service = names::access_service, goes with Ways by left;
    /// Service for the domain.
    web_service: Service = names::web_service, goes with Ways by left;
    /// The VM as `KubeVirt` knows it.
    machine: VirtualMachine = str::to_owned, goes with Machine by left;
    /// What cert-manager leaves of the domain's certificate; only looked at when the VM
    /// goes.
    certificate: Secret = names::certificate_secret, goes with Secrets by certificate;
    /// Secret with the guest's user data.
    cloud_init: Secret = names::cloud_init_secret, goes with Secrets by left;
    /// Secret with the VM's keys.
    key_secret: Secret = names::ssh_key_secret, goes with Secrets by left;
}
