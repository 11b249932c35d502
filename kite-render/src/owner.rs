//! The objects that own what is rendered, with their names judged once.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kite_core::{
    crd::{
        Holder, HolderKind, KiteImage, KitePlatform, KiteSnapshot, KiteUser, KiteVirtualMachine,
        KiteVolume,
    },
    labels,
    names::{self, SNAPSHOT_NAME_MAX, USER_NAME_MAX, VM_NAME_MAX, VOLUME_NAME_MAX},
};
use kube::Resource;

use crate::RenderError;

/// Most characters of a `KiteImage`'s name: label values have as many.
const IMAGE_NAME_MAX: usize = 63;
/// Most characters of the `KitePlatform`'s name, for the same reason.
const PLATFORM_NAME_MAX: usize = 63;

/// A `KiteVirtualMachine` that is in the cluster, with a name from which all
/// others can be derived.
#[derive(Clone, Copy, Debug)]
pub struct Vm<'a> {
    /// The object.
    pub object: &'a KiteVirtualMachine,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

impl<'a> Vm<'a> {
    /// Looks at `object`, which was read from a cluster.
    ///
    /// # Errors
    /// [`RenderError::Missing`] if it has no uid or namespace, [`RenderError::Name`] if no
    /// names can be made from its own.
    pub fn of(object: &'a KiteVirtualMachine) -> Result<Self, RenderError> {
        let (name, uid) = identity(object, VM_NAME_MAX, is_dns_label)?;
        let namespace = object.metadata.namespace.as_deref();
        Ok(Self {
            object,
            namespace: namespace.ok_or_else(|| missing(object, "metadata.namespace"))?,
            name,
            uid,
        })
    }

    /// Metadata of an object of this VM in its namespace.
    pub fn metadata(&self, name: String) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace.to_owned()),
            labels: Some(labels::for_vm(self.namespace, self.name)),
            owner_references: Some(vec![owner(self.object, self.name, self.uid, true)]),
            ..ObjectMeta::default()
        }
    }

    /// The VM as the holder of a reservation.
    pub fn holder(&self) -> Holder {
        Holder {
            kind: HolderKind::KiteVirtualMachine,
            namespace: Some(self.namespace.to_owned()),
            name: self.name.to_owned(),
            uid: self.uid.to_owned(),
        }
    }
}

/// A `KiteUser` that is in the cluster.
#[derive(Clone, Copy, Debug)]
pub struct User<'a> {
    /// The object.
    pub object: &'a KiteUser,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

impl<'a> User<'a> {
    /// Looks at `object`, which was read from a cluster.
    ///
    /// # Errors
    /// [`RenderError::Missing`] if it has no uid, [`RenderError::Name`] if no names can be made
    /// from its own.
    pub fn of(object: &'a KiteUser) -> Result<Self, RenderError> {
        let (name, uid) = identity(object, USER_NAME_MAX, is_dns_label)?;
        Ok(Self { object, name, uid })
    }

    /// The user's namespace.
    pub fn namespace(&self) -> String {
        names::user_namespace(self.name)
    }

    /// Metadata of an object of this user: in `namespace`, or cluster-scoped. It
    /// does not hold up a foreground deletion of the user, which the garbage collector
    /// begins with all that the user owns, this object included.
    pub fn metadata(&self, name: String, namespace: Option<String>) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace,
            labels: Some(labels::for_user(self.name)),
            owner_references: Some(vec![owner(self.object, self.name, self.uid, false)]),
            ..ObjectMeta::default()
        }
    }

    /// The user as the holder of a reservation.
    pub fn holder(&self) -> Holder {
        Holder {
            kind: HolderKind::KiteUser,
            namespace: None,
            name: self.name.to_owned(),
            uid: self.uid.to_owned(),
        }
    }
}

/// A `KiteImage` that is in the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// The object.
    pub object: &'a KiteImage,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

impl<'a> Image<'a> {
    /// Looks at `object`, which was read from a cluster.
    ///
    /// # Errors
    /// [`RenderError::Missing`] if it has no uid, [`RenderError::Name`] if no names can be made
    /// from its own.
    pub fn of(object: &'a KiteImage) -> Result<Self, RenderError> {
        let (name, uid) = identity(object, IMAGE_NAME_MAX, is_dns_subdomain)?;
        Ok(Self { object, name, uid })
    }

    /// Metadata of the object of this image that lies in `namespace`.
    pub fn metadata(&self, namespace: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels::for_image(self.name)),
            owner_references: Some(vec![owner(self.object, self.name, self.uid, true)]),
            ..ObjectMeta::default()
        }
    }
}

/// A `KiteSnapshot` that is in the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The object.
    pub object: &'a KiteSnapshot,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
}

impl<'a> Snapshot<'a> {
    /// Looks at `object`, which was read from a cluster.
    ///
    /// # Errors
    /// [`RenderError::Missing`] if it has no uid or namespace, [`RenderError::Name`] if no
    /// names can be made from its own.
    pub fn of(object: &'a KiteSnapshot) -> Result<Self, RenderError> {
        let (name, uid) = identity(object, SNAPSHOT_NAME_MAX, is_dns_subdomain)?;
        let namespace = object.metadata.namespace.as_deref();
        Ok(Self {
            object,
            namespace: namespace.ok_or_else(|| missing(object, "metadata.namespace"))?,
            name,
            uid,
        })
    }

    /// Metadata of an object of this snapshot in its namespace. It has no owner: where a
    /// snapshot is deleted in the foreground, the garbage collector would delete what it owns
    /// before anybody has asked whether that may go.
    pub fn metadata(&self, name: String) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.namespace.to_owned()),
            labels: Some(labels::for_snapshot(self.name, self.uid)),
            ..ObjectMeta::default()
        }
    }
}

/// A `KiteVolume` that is in the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Volume<'a> {
    /// The object.
    pub object: &'a KiteVolume,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl<'a> Volume<'a> {
    /// Looks at `object`, which was read from a cluster.
    ///
    /// # Errors
    /// [`RenderError::Missing`] if it has no uid or namespace, [`RenderError::Name`] if no
    /// names can be made from its own.
    pub fn of(object: &'a KiteVolume) -> Result<Self, RenderError> {
        let (name, _) = identity(object, VOLUME_NAME_MAX, is_dns_label)?;
        let namespace = object.metadata.namespace.as_deref();
        Ok(Self {
            object,
            namespace: namespace.ok_or_else(|| missing(object, "metadata.namespace"))?,
            name,
        })
    }

    /// Metadata of what holds its data. That has no owner, lest a garbage collector delete it
    /// before anybody has asked who has the volume; and no uid, so that a volume which comes
    /// back from a backup finds it.
    pub fn metadata(&self) -> ObjectMeta {
        ObjectMeta {
            name: Some(names::volume_disk(self.name)),
            namespace: Some(self.namespace.to_owned()),
            labels: Some(labels::for_volume(self.name)),
            ..ObjectMeta::default()
        }
    }
}

/// The `KitePlatform` that is in the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Platform<'a> {
    /// The object.
    pub object: &'a KitePlatform,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// The namespace in which Kite runs.
    pub namespace: &'a str,
}

impl<'a> Platform<'a> {
    /// Looks at `object`, which was read from a cluster in which Kite runs in
    /// `namespace`.
    ///
    /// # Errors
    /// [`RenderError::Missing`] if it has no uid, [`RenderError::Name`] if no names can be made
    /// from its own.
    pub fn of(object: &'a KitePlatform, namespace: &'a str) -> Result<Self, RenderError> {
        let (name, uid) = identity(object, PLATFORM_NAME_MAX, is_dns_subdomain)?;
        Ok(Self {
            object,
            name,
            uid,
            namespace,
        })
    }

    /// Metadata of an object of the platform in Kite's namespace. Garbage
    /// collection removes it after the platform; nothing waits for it.
    pub fn metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.namespace.to_owned()),
            labels: Some(labels::for_platform(self.name)),
            owner_references: Some(vec![owner(self.object, self.name, self.uid, false)]),
            ..ObjectMeta::default()
        }
    }
}

fn identity<K: Resource<DynamicType = ()>>(
    object: &K,
    most: usize,
    well_formed: fn(&str) -> bool,
) -> Result<(&str, &str), RenderError> {
    let name = object.meta().name.as_deref();
    let name = name.ok_or_else(|| missing(object, "metadata.name"))?;
    if name.len() > most || !well_formed(name) {
        return Err(RenderError::Name {
            kind: kind(object),
            name: name.to_owned(),
            most,
        });
    }
    let uid = object.meta().uid.as_deref();
    Ok((name, uid.ok_or_else(|| missing(object, "metadata.uid"))?))
}

fn missing<K: Resource<DynamicType = ()>>(object: &K, field: &'static str) -> RenderError {
    RenderError::Missing {
        kind: kind(object),
        name: object.meta().name.clone().unwrap_or_default(),
        field,
    }
}

/// The kind as an unchanging text: derived kinds borrow it from their type.
fn kind<K: Resource<DynamicType = ()>>(_: &K) -> &'static str {
    match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(_) => "object",
    }
}

/// With `blocks`, a foreground deletion of the owner deletes the owned object
/// first.
fn owner<K: Resource<DynamicType = ()>>(
    object: &K,
    name: &str,
    uid: &str,
    blocks: bool,
) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: kind(object).to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: blocks.then_some(true),
    }
}

/// RFC 1123 label.
fn is_dns_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

/// RFC 1123 subdomain: labels joined by dots.
fn is_dns_subdomain(name: &str) -> bool {
    name.split('.').all(is_dns_label)
}
