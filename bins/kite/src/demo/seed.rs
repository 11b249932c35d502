//! What a cluster with Kite has when its first user comes: namespaces, the
//! platform's settings, images, the bootstrap token, and one user with one VM.

use std::net::SocketAddr;

use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{Namespace, Secret},
        storage::v1::StorageClass,
    },
};
use kite_core::{
    crd::{
        Exposure, GatewayExposure, ImageSource, KiteImage, KiteImageSpec, KitePlatform,
        KitePlatformSpec, KiteUser, KiteUserSpec, KiteVirtualMachine, KiteVirtualMachineSpec,
        OsFamily, SignUp, WebExposure,
    },
    names,
};
use kube::api::ObjectMeta;
use serde::Serialize;

use crate::cluster;

/// Name of the user and of the VM that the demo starts with.
pub(super) const USER: &str = "demo";
pub(super) const VM: &str = "hello";

/// What differs from demo to demo.
pub(super) struct Seed<'a> {
    pub(super) gateway: SocketAddr,
    pub(super) bootstrap_token: &'a str,
    pub(super) user_key: &'a str,
}

/// Objects that are there before Kite starts.
pub(super) fn objects(seed: &Seed<'_>) -> anyhow::Result<Vec<serde_json::Value>> {
    let mut all = Objects::default();
    for namespace in [names::PLATFORM_NAMESPACE, names::IMAGE_NAMESPACE] {
        all.push(&Namespace {
            metadata: named(namespace),
            ..Namespace::default()
        })?;
    }
    all.push(&StorageClass {
        metadata: named(names::STORAGE_CLASS),
        provisioner: cluster::PROVISIONER.to_owned(),
        allow_volume_expansion: Some(true),
        ..StorageClass::default()
    })?;
    all.push(&secret(
        names::BOOTSTRAP_SECRET,
        names::BOOTSTRAP_TOKEN_KEY,
        seed.bootstrap_token,
    ))?;
    all.push(&platform(seed.gateway))?;
    for image in images()? {
        all.push(&image)?;
    }
    let mut user = KiteUserSpec::new(USER);
    user.ssh_public_keys = vec![seed.user_key.to_owned()];
    all.push(&KiteUser::new(USER, user))?;
    Ok(all.0)
}

/// The first VM. It needs the user's namespace, so it comes later.
pub(super) fn first_vm() -> anyhow::Result<KiteVirtualMachine> {
    let spec = KiteVirtualMachineSpec::new(1, "1Gi".parse()?, "10Gi".parse()?, "debian-12", VM);
    let mut vm = KiteVirtualMachine::new(VM, spec);
    vm.metadata.namespace = Some(names::user_namespace(USER));
    Ok(vm)
}

fn platform(gateway: SocketAddr) -> KitePlatform {
    KitePlatform::new(
        names::PLATFORM,
        KitePlatformSpec {
            base_domain: Some("vm.kite.test".to_owned()),
            exposure: Exposure {
                ingress_class_name: Some(cluster::INGRESS_CLASS.to_owned()),
                ..Exposure::default()
            },
            // The page is at an address of this machine, and not at the domain.
            web: WebExposure {
                enabled: false,
                ..WebExposure::default()
            },
            sign_up: SignUp::Open,
            gateway: GatewayExposure {
                public_host: Some(gateway.ip().to_string()),
                public_port: gateway.port(),
                ..GatewayExposure::default()
            },
            ..KitePlatformSpec::default()
        },
    )
}

fn images() -> anyhow::Result<Vec<KiteImage>> {
    let images = [
        (
            "debian-12",
            "Debian 12",
            OsFamily::Debian,
            "debian",
            "debian:12",
            "4Gi",
        ),
        (
            "ubuntu-24.04",
            "Ubuntu 24.04 LTS",
            OsFamily::Debian,
            "ubuntu",
            "ubuntu:24.04",
            "4Gi",
        ),
        (
            "fedora-43",
            "Fedora 43",
            OsFamily::RedHat,
            "fedora",
            "fedora:43",
            "6Gi",
        ),
        (
            "alpine-3.22",
            "Alpine 3.22",
            OsFamily::Alpine,
            "alpine",
            "alpine:3.22",
            "1Gi",
        ),
    ];
    images
        .into_iter()
        .map(|(name, display_name, os_family, user, disk, min_disk)| {
            let url = format!("docker://images.kite.test/{disk}");
            Ok(KiteImage::new(
                name,
                KiteImageSpec {
                    display_name: Some(display_name.to_owned()),
                    description: Some(
                        "In the demo: an in-memory guest with a small shell of its own.".to_owned(),
                    ),
                    default_user: Some(user.to_owned()),
                    os_family,
                    ..KiteImageSpec::new(ImageSource::registry(url), min_disk.parse()?)
                },
            ))
        })
        .collect()
}

/// A Secret with one text in the platform's namespace.
pub(super) fn secret(name: &str, key: &str, value: &str) -> Secret {
    Secret {
        metadata: ObjectMeta {
            namespace: Some(names::PLATFORM_NAMESPACE.to_owned()),
            ..named(name)
        },
        data: Some([(key.to_owned(), ByteString(value.as_bytes().to_vec()))].into()),
        ..Secret::default()
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

#[derive(Default)]
struct Objects(Vec<serde_json::Value>);

impl Objects {
    fn push(&mut self, object: &impl Serialize) -> anyhow::Result<()> {
        self.0.push(serde_json::to_value(object)?);
        Ok(())
    }
}
