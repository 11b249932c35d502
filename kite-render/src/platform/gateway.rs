//! The SSH gateway's Service towards the outside.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kite_core::{crd::GatewayServiceType, labels, names};

use crate::Platform;

/// The Service, where the platform wants the gateway exposed.
pub fn service(platform: &Platform<'_>) -> Option<Service> {
    let gateway = &platform.object.spec.gateway;
    if !gateway.enabled {
        return None;
    }
    let mut metadata = platform.metadata(names::GATEWAY_EXTERNAL_SERVICE);
    if !gateway.annotations.is_empty() {
        metadata.annotations = Some(gateway.annotations.clone());
    }
    let is_balanced = gateway.service_type == GatewayServiceType::LoadBalancer;
    Some(Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some(gateway.service_type.as_str().to_owned()),
            selector: Some(BTreeMap::from([(
                labels::APP_NAME.to_owned(),
                names::GATEWAY_APP.to_owned(),
            )])),
            ports: Some(vec![ServicePort {
                name: Some("ssh".to_owned()),
                port: i32::from(gateway.service_port),
                target_port: Some(IntOrString::Int(i32::from(names::GATEWAY_PORT))),
                node_port: gateway.node_port.map(i32::from),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
            external_traffic_policy: Some(gateway.traffic_policy.as_str().to_owned()),
            load_balancer_class: gateway.load_balancer_class.clone().filter(|_| is_balanced),
            ..ServiceSpec::default()
        }),
        status: None,
    })
}
