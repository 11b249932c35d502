//! How a VM's port 80 is reached under its domain.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule,
    IngressServiceBackend, IngressSpec, IngressTLS, ServiceBackendPort,
};
use kite_core::{
    crd::{GatewayReference, KitePlatformSpec},
    gateway_api::{
        BackendRef, HttpRoute, HttpRouteMatch, HttpRouteRule, HttpRouteSpec, ParentReference,
    },
    names,
};

use crate::Vm;

/// Annotation with which cert-manager is asked for a certificate.
const CLUSTER_ISSUER: &str = "cert-manager.io/cluster-issuer";

/// The host name under which a VM is exposed: none without a prefix in its
/// spec, or without a base domain of the platform.
pub fn host(vm: &Vm<'_>, platform: &KitePlatformSpec) -> Option<String> {
    let prefix = vm.object.spec.domain_prefix.as_deref()?;
    let base = platform.base_domain.as_deref()?;
    Some(format!("{prefix}.{base}"))
}

/// The Secret with the certificate of the VM's domain that somebody has to put
/// into the VM's namespace: none where the certificate comes from elsewhere.
pub fn given_certificate<'a>(vm: &Vm<'_>, platform: &'a KitePlatformSpec) -> Option<&'a str> {
    let exposure = &platform.exposure;
    let is_exposed = vm.object.spec.domain_prefix.is_some() && platform.base_domain.is_some();
    named_certificate(platform).filter(|_| is_exposed && exposure.gateway.is_none())
}

/// The Secret that the platform names for VMs. One that was put in over HTTP is the
/// web page's alone: its key is for no tenant.
fn named_certificate(platform: &KitePlatformSpec) -> Option<&str> {
    let given = platform.exposure.certificate.secret_name.as_deref();
    given.filter(|name| *name != names::UPLOADED_CERTIFICATE)
}

/// What leads from a VM's domain to its port 80.
#[derive(Clone, Debug, PartialEq)]
pub enum Exposure {
    /// An Ingress.
    Ingress(Box<Ingress>),
    /// An `HTTPRoute` of the Gateway API.
    Route(Box<HttpRoute>),
}

/// What leads from `host` to the VM's port 80, by the means that the platform
/// chose.
pub fn exposure(vm: &Vm<'_>, platform: &KitePlatformSpec, host: &str) -> Exposure {
    match &platform.exposure.gateway {
        Some(gateway) => Exposure::Route(Box::new(route(vm, gateway, host))),
        None => Exposure::Ingress(Box::new(ingress(vm, platform, host))),
    }
}

/// The route that leads from `host` on all listeners of `gateway` to the VM's
/// port 80. TLS is the Gateway's: its listener has the certificate, which in the
/// Gateway API is not a route's to choose.
pub fn route(vm: &Vm<'_>, gateway: &GatewayReference, host: &str) -> HttpRoute {
    HttpRoute {
        metadata: vm.metadata(vm.name.to_owned()),
        spec: HttpRouteSpec {
            parent_refs: vec![ParentReference::listener(
                &gateway.namespace,
                &gateway.name,
                None,
            )],
            hostnames: vec![host.to_owned()],
            rules: vec![HttpRouteRule {
                matches: vec![HttpRouteMatch::everything()],
                filters: Vec::new(),
                backend_refs: vec![BackendRef::service(names::web_service(vm.name), 80)],
            }],
        },
        status: None,
    }
}

/// The Ingress that leads from `host` to the VM's port 80. TLS is terminated
/// with the certificate that the platform names; without one, the ingress
/// controller's default certificate is used.
///
/// A Secret that the platform names must be in the VM's namespace: Kite copies no
/// key to tenants. Where one wildcard certificate is for all, it belongs to the
/// ingress controller, as its default.
pub fn ingress(vm: &Vm<'_>, platform: &KitePlatformSpec, host: &str) -> Ingress {
    let exposure = &platform.exposure;
    let mut metadata = vm.metadata(vm.name.to_owned());
    let secret_name = match &exposure.certificate.cluster_issuer {
        Some(issuer) => {
            metadata.annotations = Some(BTreeMap::from([(
                CLUSTER_ISSUER.to_owned(),
                issuer.clone(),
            )]));
            Some(names::certificate_secret(vm.name))
        }
        None => named_certificate(platform).map(str::to_owned),
    };
    Ingress {
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
    }
}
