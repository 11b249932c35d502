//! The `ConfigMap` that tells other workloads how a VM is reached.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kite_core::names;

use crate::Vm;

/// The `ConfigMap` of the VM.
pub fn config_map(vm: &Vm<'_>) -> ConfigMap {
    ConfigMap {
        metadata: vm.metadata(names::info(vm.name)),
        data: Some(BTreeMap::from([
            ("login".to_owned(), vm.object.spec.ssh_id.clone()),
            ("service".to_owned(), names::access_service(vm.name)),
        ])),
        ..ConfigMap::default()
    }
}
