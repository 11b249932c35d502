//! The way to the web page and the HTTP API: an Ingress, or `HTTPRoute`s where
//! the platform names a Gateway.
//!
//! The Ingress API has no redirect. The Ingress asks for one with the
//! annotations of the controllers that take one (ingress-nginx, `HAProxy`'s two,
//! Contour); Traefik redirects by its entry point, or by an annotation of one's
//! own in `spec.web.annotations`.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule,
    IngressServiceBackend, IngressSpec, IngressTLS, ServiceBackendPort,
};
use kite_core::{
    crd::GatewayReference,
    gateway_api::{
        BackendRef, Gateway, HttpRoute, HttpRouteFilter, HttpRouteMatch, HttpRouteRule,
        HttpRouteSpec, ParentReference,
    },
    names,
};

use crate::Platform;

/// Annotation with which cert-manager is asked for a certificate.
const CLUSTER_ISSUER: &str = "cert-manager.io/cluster-issuer";
/// Annotations with which controllers of Ingresses are asked for a redirect.
const REDIRECTS: [&str; 4] = [
    "haproxy-ingress.github.io/ssl-redirect",
    "haproxy.org/ssl-redirect",
    "ingress.kubernetes.io/force-ssl-redirect",
    "nginx.ingress.kubernetes.io/force-ssl-redirect",
];

/// The host of the web page and the API: the base domain itself. None where
/// they are not to be exposed, or there is no base domain.
pub fn host<'a>(platform: &Platform<'a>) -> Option<&'a str> {
    let spec = &platform.object.spec;
    spec.base_domain.as_deref().filter(|_| spec.web.enabled)
}

/// The Ingress that leads from `host` to the API's Service.
pub fn ingress(platform: &Platform<'_>, host: &str) -> Ingress {
    let spec = &platform.object.spec;
    let certificate = &spec.exposure.certificate;
    let mut annotations = BTreeMap::new();
    if spec.web.https_redirect {
        annotations.extend(REDIRECTS.map(|name| (name.to_owned(), "true".to_owned())));
    }
    let secret_name = match &certificate.cluster_issuer {
        Some(issuer) => {
            annotations.insert(CLUSTER_ISSUER.to_owned(), issuer.clone());
            Some(names::PLATFORM_CERTIFICATE.to_owned())
        }
        None => certificate.secret_name.clone(),
    };
    annotations.extend(spec.web.annotations.clone());
    let mut metadata = platform.metadata(names::PLATFORM_WEB);
    metadata.annotations = (!annotations.is_empty()).then_some(annotations);
    let backend = IngressBackend {
        service: Some(IngressServiceBackend {
            name: names::API_SERVICE.to_owned(),
            port: Some(ServiceBackendPort {
                number: Some(i32::from(names::API_PORT)),
                name: None,
            }),
        }),
        resource: None,
    };
    Ingress {
        metadata,
        spec: Some(IngressSpec {
            ingress_class_name: spec.exposure.ingress_class_name.clone(),
            rules: Some(vec![IngressRule {
                host: Some(host.to_owned()),
                http: Some(HTTPIngressRuleValue {
                    paths: vec![HTTPIngressPath {
                        path: Some("/".to_owned()),
                        path_type: "Prefix".to_owned(),
                        backend,
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

/// The listeners of a Gateway that are for a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listeners {
    /// Names of those that speak HTTPS.
    pub https: Vec<String>,
    /// Names of those that speak HTTP.
    pub http: Vec<String>,
}

impl Listeners {
    /// Those of `gateway` for `host`.
    pub fn of(gateway: &Gateway, host: &str) -> Self {
        let named = |protocol: &str| {
            let listeners = gateway.spec.listeners.iter();
            listeners
                .filter(|it| it.protocol == protocol && is_for(it.hostname.as_deref(), host))
                .map(|it| it.name.clone())
                .collect()
        };
        Self {
            https: named("HTTPS"),
            http: named("HTTP"),
        }
    }

    /// Whether there is one at all.
    pub fn is_empty(&self) -> bool {
        self.https.is_empty() && self.http.is_empty()
    }
}

/// Whether a listener's host name is `host`, or a wildcard above it.
fn is_for(listener: Option<&str>, host: &str) -> bool {
    match listener {
        None | Some("") => true,
        Some(name) => match name.strip_prefix('*') {
            Some(above) => host.len() > above.len() && host.ends_with(above),
            None => name == host,
        },
    }
}

/// The routes from `host` at `gateway`: to the API's Service, by HTTPS where the
/// Gateway has it; and, if the platform wants that, from HTTP to there.
pub fn routes(
    platform: &Platform<'_>,
    host: &str,
    gateway: &GatewayReference,
    listeners: &Listeners,
) -> (HttpRoute, Option<HttpRoute>) {
    let redirects = platform.object.spec.web.https_redirect
        && !listeners.https.is_empty()
        && !listeners.http.is_empty();
    let direct = if redirects { &[][..] } else { &listeners.http };
    let backend = HttpRouteRule {
        matches: vec![HttpRouteMatch::everything()],
        filters: Vec::new(),
        backend_refs: vec![BackendRef::service(names::API_SERVICE, names::API_PORT)],
    };
    let route = |name: &str, listeners: &mut dyn Iterator<Item = &String>, rule| HttpRoute {
        metadata: platform.metadata(name),
        spec: HttpRouteSpec {
            parent_refs: listeners
                .map(|section| {
                    let (namespace, name) = (&gateway.namespace, &gateway.name);
                    ParentReference::listener(namespace, name, Some(section.clone()))
                })
                .collect(),
            hostnames: vec![host.to_owned()],
            rules: vec![rule],
        },
        status: None,
    };
    let main = route(
        names::PLATFORM_WEB,
        &mut listeners.https.iter().chain(direct),
        backend,
    );
    let redirect = redirects.then(|| {
        let rule = HttpRouteRule {
            matches: vec![HttpRouteMatch::everything()],
            filters: vec![HttpRouteFilter::redirect_to_https()],
            backend_refs: Vec::new(),
        };
        route(names::PLATFORM_REDIRECT, &mut listeners.http.iter(), rule)
    });
    (main, redirect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_is_for_the_names_below_it() {
        assert!(is_for(None, "vm.example.org"));
        assert!(is_for(Some("vm.example.org"), "vm.example.org"));
        assert!(is_for(Some("*.example.org"), "vm.example.org"));
        for other in ["*.vm.example.org", "example.org", "*.ample.org", "*.org.x"] {
            assert!(!is_for(Some(other), "vm.example.org"), "{other}");
        }
    }
}
