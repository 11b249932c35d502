//! Taking an installation away.

use std::time::Duration;

use k8s_openapi::{
    api::{
        admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
        apps::v1::{Deployment, StatefulSet},
        core::v1::{Namespace, Service, ServiceAccount},
        networking::v1::{Ingress, NetworkPolicy},
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
        storage::v1::StorageClass,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kite_core::{
    crd::{self, KiteImage, KiteUser, KiteVirtualMachine},
    gateway_api::HttpRoute,
    labels,
};
use kite_render::install::{Manifest, PART_OF, ServiceMonitor};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Preconditions},
};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::{
    Error, MANAGER,
    object::{ObjectName, is_absent},
};

/// Between two looks whether something is gone.
const PAUSE: Duration = Duration::from_millis(500);

/// What becomes of what people have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Users, VMs with their disks, images, settings and Kite's Secrets stay, and so do
    /// the kinds and namespaces that they are in. VMs run on.
    Keep,
    /// All of it is deleted, with each disk.
    Delete,
}

/// What becomes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Removed {
    /// It was deleted; in a dry run, would be.
    Deleted,
    /// It is gone, with all that depended on it.
    Gone,
}

fn kind<K: kube::Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

/// What is installed and is of no use without Kite, in the order in which it goes: the
/// processes first, so that nobody makes again what is taken away, or is left
/// without a right in the midst of something.
fn installed() -> [Vec<ApiResource>; 2] {
    [
        vec![kind::<Deployment>(), kind::<StatefulSet>()],
        vec![
            kind::<PodDisruptionBudget>(),
            kind::<ServiceMonitor>(),
            kind::<Service>(),
            kind::<NetworkPolicy>(),
            kind::<ValidatingAdmissionPolicyBinding>(),
            kind::<ValidatingAdmissionPolicy>(),
            kind::<RoleBinding>(),
            kind::<Role>(),
            kind::<ClusterRoleBinding>(),
            kind::<ClusterRole>(),
            kind::<ServiceAccount>(),
        ],
    ]
}

/// A removal that is under way.
struct Removal<'a, T> {
    client: &'a Client,
    dry_run: bool,
    deadline: Instant,
    longest: Duration,
    told: T,
}

/// Removes what was installed, and tells of each object. Each wait is for `longest`
/// at most; what was not reached by then stays, and a repeated request goes on.
pub async fn remove(
    client: &Client,
    data: Data,
    dry_run: bool,
    longest: Duration,
    told: impl FnMut(&ObjectName, Removed),
) -> Result<(), Error> {
    let mut removal = Removal {
        client,
        dry_run,
        deadline: Instant::now() + longest,
        longest,
        told,
    };
    let part_of = format!("{}={}", PART_OF.0, PART_OF.1);
    if data == Data::Delete {
        // While the controller is there to clear away behind them.
        removal.clear(&kind::<KiteUser>(), None).await?;
        removal.wait(&kind::<KiteVirtualMachine>(), None).await?;
        removal.clear(&kind::<KiteImage>(), None).await?;
    }
    let [workloads, rest] = installed();
    for kind in &workloads {
        removal.clear(kind, Some(&part_of)).await?;
    }
    // What the controller made so that people reach the platform.
    for kind in [kind::<Service>(), kind::<Ingress>(), kind::<HttpRoute>()] {
        removal.delete(&kind, Some(labels::PLATFORM_NAME)).await?;
    }
    for kind in &rest {
        removal.delete(kind, Some(&part_of)).await?;
    }
    if data == Data::Delete {
        removal.clear_definitions().await?;
        for kind in [kind::<StorageClass>(), kind::<Namespace>()] {
            removal.clear(&kind, Some(&part_of)).await?;
        }
    }
    Ok(())
}

/// Deletes what an earlier version or other options installed and `wanted` has no
/// more. Only what [`super::apply`] made: who installs by other means looks after
/// that. Definitions, namespaces, classes, settings and images stay.
pub async fn prune(
    client: &Client,
    wanted: &[Manifest],
    dry_run: bool,
    told: impl FnMut(&ObjectName, Removed),
) -> Result<(), Error> {
    let wanted: Vec<_> = wanted.iter().map(ObjectName::of).collect();
    let mut removal = Removal {
        client,
        dry_run,
        deadline: Instant::now(),
        longest: Duration::ZERO,
        told,
    };
    let part_of = format!("{}={}", PART_OF.0, PART_OF.1);
    for kind in installed().iter().flatten() {
        for object in removal.find(kind, Some(&part_of)).await? {
            let fields = object.metadata.managed_fields.as_deref();
            let mut managers = fields.unwrap_or_default().iter();
            let is_own = managers.any(|it| it.manager.as_deref() == Some(MANAGER));
            if is_own && !wanted.contains(&ObjectName::found(kind, &object)) {
                removal.delete_one(kind, &object).await?;
            }
        }
    }
    Ok(())
}

impl<T: FnMut(&ObjectName, Removed)> Removal<'_, T> {
    /// The objects of a kind that `selector` selects; none of a kind that is not served.
    async fn find(
        &self,
        kind: &ApiResource,
        selector: Option<&str>,
    ) -> Result<Vec<DynamicObject>, Error> {
        let params = ListParams {
            label_selector: selector.map(str::to_owned),
            ..ListParams::default()
        };
        let api = Api::<DynamicObject>::all_with(self.client.clone(), kind);
        match api.list(&params).await {
            Ok(list) => Ok(list.items),
            Err(error) if is_absent(&error) => Ok(Vec::new()),
            Err(error) => {
                let all = ObjectName {
                    kind: kind.kind.clone(),
                    namespace: None,
                    name: "(all)".to_owned(),
                };
                Err(Error::of(&all, error))
            }
        }
    }

    /// Deletes them.
    async fn delete(&mut self, kind: &ApiResource, selector: Option<&str>) -> Result<(), Error> {
        for object in self.find(kind, selector).await? {
            self.delete_one(kind, &object).await?;
        }
        Ok(())
    }

    async fn delete_one(
        &mut self,
        kind: &ApiResource,
        object: &DynamicObject,
    ) -> Result<(), Error> {
        if object.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let name = ObjectName::found(kind, object);
        let params = DeleteParams {
            dry_run: self.dry_run,
            ..DeleteParams::background().preconditions(Preconditions {
                uid: object.metadata.uid.clone(),
                resource_version: None,
            })
        };
        let api = name.api(self.client, kind);
        match api.delete(&name.name, &params).await {
            Ok(_) => (self.told)(&name, Removed::Deleted),
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(Error::of(&name, error)),
        }
        Ok(())
    }

    /// Deletes Kite's kinds, and with them what is left of them, such as sessions.
    async fn clear_definitions(&mut self) -> Result<(), Error> {
        let kind = kind::<CustomResourceDefinition>();
        let own: Vec<_> = crd::all().into_iter().map(|it| it.metadata.name).collect();
        for definition in self.find(&kind, None).await? {
            if own.contains(&definition.metadata.name) {
                self.delete_one(&kind, &definition).await?;
            }
        }
        Ok(())
    }

    /// Deletes them and waits until they are gone.
    async fn clear(&mut self, kind: &ApiResource, selector: Option<&str>) -> Result<(), Error> {
        self.delete(kind, selector).await?;
        self.wait(kind, selector).await
    }

    /// Waits until there are none.
    async fn wait(&mut self, kind: &ApiResource, selector: Option<&str>) -> Result<(), Error> {
        if self.dry_run {
            return Ok(());
        }
        let mut before = Vec::new();
        loop {
            let left = self.find(kind, selector).await?;
            let left: Vec<_> = left.iter().map(|it| ObjectName::found(kind, it)).collect();
            let gone = before.iter().filter(|name| !left.contains(name));
            for name in gone {
                (self.told)(name, Removed::Gone);
            }
            let Some(first) = left.first() else {
                // Each wait begins anew: the longest of them may take long.
                self.deadline = Instant::now() + self.longest;
                return Ok(());
            };
            if Instant::now() > self.deadline {
                return Err(Error::Late {
                    what: format!("{} is still there, of {} in all", first, left.len()),
                    seconds: self.longest.as_secs(),
                    remedy: format!(
                        "look at kubectl get {} {} -o yaml, whose finalizers and status say what \
                         it waits for, and repeat this",
                        kind.plural, first.name
                    ),
                });
            }
            before = left;
            sleep(PAUSE).await;
        }
    }
}
