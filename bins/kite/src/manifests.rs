//! `kite manifests`: what has to be there before Kite starts, as YAML.

use std::{collections::BTreeMap, io::Write as _};

use anyhow::Context as _;
use clap::Args;
use kite_core::names;
use kite_render::install::{Install, Storage};
use kube::Resource;
use serde::Serialize;

#[derive(Args)]
pub(crate) struct Options {
    /// Namespace in which Kite runs.
    #[arg(long, default_value = names::PLATFORM_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Namespace of golden images: spec.imageNamespace of the `KitePlatform`.
    #[arg(long, default_value = names::IMAGE_NAMESPACE, value_name = "NAMESPACE")]
    image_namespace: String,
    /// CSI driver of VM disks; without one no `StorageClass` is printed.
    #[arg(long, value_name = "DRIVER")]
    provisioner: Option<String>,
    /// Parameter for the CSI driver; may be given several times.
    #[arg(
        long = "parameter",
        value_name = "NAME=VALUE",
        requires = "provisioner"
    )]
    parameters: Vec<String>,
    /// Make disks at once, not where and when their VM first starts: for storage
    /// that every node reaches.
    #[arg(long, requires = "provisioner")]
    immediate: bool,
}

pub(crate) fn run(options: Options) -> anyhow::Result<()> {
    let text = text(&options.install()?)?;
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

impl Options {
    fn install(self) -> anyhow::Result<Install> {
        let parameters = self
            .parameters
            .iter()
            .map(|text| {
                let pair = text.split_once('=');
                pair.map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .with_context(|| format!("--parameter {text:?}: write NAME=VALUE"))
            })
            .collect::<Result<BTreeMap<_, _>, _>>()?;
        let waits_for_consumer = !self.immediate;
        Ok(Install {
            namespace: self.namespace,
            image_namespace: self.image_namespace,
            storage: self.provisioner.map(|provisioner| Storage {
                provisioner,
                waits_for_consumer,
                parameters,
            }),
        })
    }
}

/// Everything, in the order in which to apply it.
fn text(install: &Install) -> anyhow::Result<String> {
    let mut text = String::new();
    for namespace in install.namespaces() {
        add(&mut text, &namespace)?;
    }
    if let Some(class) = install.storage_class() {
        add(&mut text, &class)?;
    }
    add(&mut text, &install.controller_account())?;
    add(&mut text, &install.clone_role())?;
    add(&mut text, &install.clone_binding())?;
    add(&mut text, &install.api_service())?;
    Ok(text)
}

fn add<K: Resource<DynamicType = ()> + Serialize>(
    text: &mut String,
    object: &K,
) -> anyhow::Result<()> {
    text.push_str("---\n");
    // By way of a JSON value, so that the keys have one order.
    text.push_str(&serde_saphyr::to_string(&serde_json::to_value(object)?)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn printed(arguments: &[&str]) -> anyhow::Result<String> {
        let cli = Cli::try_parse_from([&["kite"], arguments].concat())?;
        text(&cli.options.install()?)
    }

    #[test]
    fn all_of_it_is_yaml_that_names_its_kinds() {
        let text = printed(&[
            "--provisioner",
            "csi.example.org",
            "--parameter",
            "pool=a=b",
        ]);
        let text = text.unwrap();
        let documents: Vec<serde_json::Value> = text
            .split("---\n")
            .filter(|document| !document.is_empty())
            .map(|document| serde_saphyr::from_str(document).unwrap())
            .collect();
        let kinds: Vec<_> = documents.iter().map(|it| it["kind"].as_str()).collect();
        let named = |kind: &str| kinds.iter().filter(|it| **it == Some(kind)).count();
        assert_eq!(
            (named("Namespace"), named("StorageClass"), named("Role")),
            (2, 1, 1)
        );
        let class = documents.iter().find(|it| it["kind"] == "StorageClass");
        let class = class.unwrap();
        assert_eq!(class["volumeBindingMode"], "WaitForFirstConsumer");
        assert_eq!(class["parameters"]["pool"], "a=b");
    }

    #[test]
    fn without_a_driver_there_is_no_storage_class() {
        assert!(!printed(&[]).unwrap().contains("StorageClass"));
        assert!(printed(&["--immediate"]).is_err());
        assert!(printed(&["--provisioner", "x", "--parameter", "y"]).is_err());
    }
}
