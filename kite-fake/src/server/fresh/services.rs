//! Where the server's own Service leads, and from where Services have their addresses.

use serde_json::{Value, json};

use super::START;

/// What runs in a cluster in one process listens there.
const ADDRESS: &str = "127.0.0.1";
const PORT: i64 = 6443;

pub(super) fn endpoints() -> Vec<Value> {
    vec![json!({
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{
            "addresses": [{"ip": ADDRESS}],
            "ports": [{"name": "https", "port": PORT, "protocol": "TCP"}],
        }],
    })]
}

pub(super) fn slices() -> Vec<Value> {
    vec![json!({
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [ADDRESS], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": PORT, "protocol": "TCP"}],
    })]
}

pub(super) fn ranges() -> Vec<Value> {
    vec![json!({
        "metadata": {
            "name": "kubernetes",
            "finalizers": ["networking.k8s.io/service-cidr-finalizer"],
        },
        "spec": {"cidrs": ["10.96.0.0/16"]},
        "status": {"conditions": [{
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": START,
            "reason": "",
            "message": "Kubernetes Service CIDR is ready",
        }]},
    })]
}
