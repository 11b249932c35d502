//! How a VM's port 80 is reached under its domain.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule,
    IngressServiceBackend, IngressSpec, IngressTLS, ServiceBackendPort,
};
use kite_core::{crd::KitePlatformSpec, names};

use crate::{RenderError, Vm};

/// Annotation with which cert-manager is asked for a certificate.
const CLUSTER_ISSUER: &str = "cert-manager.io/cluster-issuer";

/// The host name under which a VM is exposed: none without a prefix in its
/// spec, or without a base domain of the platform.
pub fn host(vm: &Vm<'_>, platform: &KitePlatformSpec) -> Option<String> {
    let prefix = vm.object.spec.domain_prefix.as_deref()?;
    let base = platform.base_domain.as_deref()?;
    Some(format!("{prefix}.{base}"))
}

/// The Ingress that leads from `host` to the VM's port 80. TLS is terminated
/// with the certificate that the platform names; without one, the ingress
/// controller's default certificate is used.
pub fn ingress(
    vm: &Vm<'_>,
    platform: &KitePlatformSpec,
    host: &str,
) -> Result<Ingress, RenderError> {
    let exposure = &platform.exposure;
    if exposure.gateway.is_some() {
        return Err(RenderError::GatewayApi);
    }
    let mut metadata = vm.metadata(vm.name.to_owned());
    let secret_name = match &exposure.certificate.cluster_issuer {
        Some(issuer) => {
            metadata.annotations = Some(BTreeMap::from([(
                CLUSTER_ISSUER.to_owned(),
                issuer.clone(),
            )]));
            Some(format!("{}-tls", vm.name))
        }
        None => exposure.certificate.secret_name.clone(),
    };
    Ok(Ingress {
        metadata,
        spec: Some(IngressSpec {
            ingress_class_name: exposure.ingress_class_name.clone(),
            rules: Some(vec![IngressRule {
                host: Some(host.to_owned()),
                http: Some(HTTPIngressRuleValue {
                    paths: vec![HTTPIngressPath {
                        path: Some("/".to_owned()),
                        path_type: "Prefix".to_owned(),
                        backend: IngressBackend {
                            service: Some(IngressServiceBackend {
                                name: names::web_service(vm.name),
                                port: Some(ServiceBackendPort {
                                    number: Some(80),
                                    name: None,
                                }),
                            }),
                            resource: None,
                        },
                    }],
                }),
            }]),
            tls: Some(vec![IngressTLS {
                hosts: Some(vec![host.to_owned()]),
                secret_name,
            }]),
            default_backend: None,
        }),
        status: None,
    })
}
