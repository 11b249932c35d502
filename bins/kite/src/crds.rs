//! `kite crds`: Kite's CRDs as YAML.

use clap::Args;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::output::print;

#[derive(Args)]
pub(crate) struct Options {
    /// Also print permissive stand-ins for the kinds of KubeVirt, CDI and the
    /// Gateway API, for an API server without them.
    #[arg(long)]
    with_kubevirt: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let mut crds = kite_core::crd::all();
    if options.with_kubevirt {
        crds.extend(foreign());
    }
    print(&yaml(&crds)?)?;
    Ok(())
}

/// Stand-ins for the CRDs that KubeVirt, CDI and the Gateway API install.
pub(crate) fn foreign() -> Vec<CustomResourceDefinition> {
    let mut crds = kite_core::kubevirt::crds();
    crds.extend(kite_core::cdi::crds());
    crds.extend(kite_core::gateway_api::crds());
    crds
}

fn yaml(crds: &[CustomResourceDefinition]) -> anyhow::Result<String> {
    let mut text = String::new();
    for crd in crds {
        text.push_str("---\n");
        // By way of a JSON value, so that the keys have one order.
        text.push_str(&serde_saphyr::to_string(&serde_json::to_value(crd)?)?);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_committed_crds_are_those_of_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds/kite.yaml");
        let fresh = yaml(&kite_core::crd::all()).unwrap();
        if std::env::var_os("KITE_BLESS").is_some() {
            std::fs::write(path, &fresh).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == fresh,
            "deploy/crds/kite.yaml is stale: run `KITE_BLESS=1 cargo test -p kite crds`"
        );
    }
}
