//! The Services through which a VM is reached from inside the cluster.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kite_core::{labels, names};

use crate::Vm;

/// The Service whose endpoint slices tell the gateway where a guest's SSH
/// server is.
pub fn access(vm: &Vm<'_>) -> Service {
    let mut service = service(vm, names::access_service(vm.name), "ssh", 22);
    service.metadata.labels.get_or_insert_default().insert(
        labels::COMPONENT.to_owned(),
        labels::COMPONENT_ACCESS.to_owned(),
    );
    service
}

/// The Service behind a VM's domain.
pub fn web(vm: &Vm<'_>) -> Service {
    service(vm, names::web_service(vm.name), "http", 80)
}

fn service(vm: &Vm<'_>, name: String, port_name: &str, port: u16) -> Service {
    Service {
        metadata: vm.metadata(name),
        spec: Some(ServiceSpec {
            // Said, so that nobody turns it into one that leads elsewhere.
            type_: Some("ClusterIP".to_owned()),
            selector: Some(BTreeMap::from([(
                labels::KUBEVIRT_VM_NAME.to_owned(),
                vm.name.to_owned(),
            )])),
            ports: Some(vec![ServicePort {
                name: Some(port_name.to_owned()),
                port: i32::from(port),
                target_port: Some(IntOrString::Int(i32::from(port))),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}
