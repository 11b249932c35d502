//! Taking an installation away.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::{
    api::{
        admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding},
        apps::v1::{Deployment, StatefulSet},
        core::v1::{ConfigMap, Namespace, Service, ServiceAccount},
        networking::v1::{Ingress, NetworkPolicy},
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
        storage::v1::StorageClass,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kite_core::{
    crd::{self, KiteImage, KiteSnapshot, KiteUser, KiteVirtualMachine, KiteVolume},
    gateway_api::HttpRoute,
    labels,
};
use kite_render::install::{Manifest, PART_OF, Process, PrometheusRule, ServiceMonitor};
use kube::{
    Api, Client, ResourceExt as _,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions,
    },
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    Error, MADE_HERE, MANAGER,
    made_again::makers,
    object::{ObjectName, is_absent},
    own::left,
};

/// Between two looks whether something is gone.
const PAUSE: Duration = Duration::from_millis(500);

/// How often an object may be there again that was deleted: a controller that ends may
/// finish what it has begun.
const MOST_MADE_AGAIN: usize = 4;

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

pub(super) fn kind<K: kube::Resource<DynamicType = ()>>() -> ApiResource {
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
            kind::<PrometheusRule>(),
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
            kind::<ConfigMap>(),
        ],
    ]
}

/// Kinds of which [`prune`] deletes what a version has no more.
pub(crate) fn may_be_pruned() -> impl Iterator<Item = ApiResource> {
    installed().into_iter().flatten()
}

/// A removal that is under way.
pub(super) struct Removal<'a, T> {
    pub(super) client: &'a Client,
    dry_run: bool,
    longest: Duration,
    told: T,
    /// The objects that were seen under each name.
    seen: BTreeMap<ObjectName, BTreeSet<String>>,
}

/// What selects objects.
#[derive(Clone, Copy)]
enum Which {
    /// Those that [`super::apply`] made.
    Installed,
    /// The workloads among them of every process but the controller.
    BesideController,
    /// Namespaces among them that were not there before.
    NewNamespaces,
    /// Those that the controller made so that people reach the platform.
    OfPlatform,
    /// All of the kind.
    All,
}

impl Which {
    fn labels(self) -> Option<String> {
        match self {
            Self::Installed | Self::BesideController | Self::NewNamespaces => {
                Some(format!("{}={}", PART_OF.0, PART_OF.1))
            }
            Self::OfPlatform => Some(labels::PLATFORM_NAME.to_owned()),
            Self::All => None,
        }
    }

    fn includes(self, object: &DynamicObject) -> bool {
        let controller = Some(Process::Controller.name());
        match self {
            Self::Installed => is_installed(object),
            Self::BesideController => {
                is_installed(object) && object.metadata.name.as_deref() != controller
            }
            Self::NewNamespaces => {
                is_installed(object) && object.annotations().contains_key(MADE_HERE)
            }
            Self::OfPlatform | Self::All => true,
        }
    }
}

/// Whether [`super::apply`] made it: who installs by other means looks after that.
fn is_installed(object: &DynamicObject) -> bool {
    let fields = object.metadata.managed_fields.as_deref();
    let mut managers = fields.unwrap_or_default().iter();
    managers.any(|it| it.manager.as_deref() == Some(MANAGER))
}

/// That no installation is in another namespace than `namespace`.
///
/// # Errors
/// [`Error::Elsewhere`] with the first object of another installation, or another [`Error`] if
/// the API server refuses to say.
pub async fn require_here(client: &Client, namespace: &str) -> Result<(), Error> {
    let removal = Removal::new(client, true, Duration::ZERO, |_: &ObjectName, _| {});
    for kind in &installed()[0] {
        for object in removal.find(kind, Which::Installed).await? {
            let name = ObjectName::found(kind, &object);
            if name.namespace.as_deref() != Some(namespace) {
                return Err(Error::Elsewhere {
                    object: Box::new(name),
                    namespace: namespace.to_owned(),
                });
            }
        }
    }
    Ok(())
}

/// Removes what [`super::apply`] made in `namespace` and beside it, and tells of each
/// object. Each wait is for `longest` at most; what was not reached by then stays, and
/// a repeated request goes on. Of [`Data::Delete`], what others have put into a namespace
/// that was there before, and is left in it.
///
/// # Errors
/// An [`Error`] if the API server refuses something, the installation is in another namespace,
/// or something has not gone after `longest`.
pub async fn remove(
    client: &Client,
    namespace: &str,
    data: Data,
    dry_run: bool,
    longest: Duration,
    told: impl FnMut(&ObjectName, Removed),
) -> Result<Vec<ObjectName>, Error> {
    require_here(client, namespace).await?;
    let mut removal = Removal::new(client, dry_run, longest, told);
    let definitions = kind::<CustomResourceDefinition>();
    let is_here = !removal.definitions().await?.is_empty();
    let [workloads, rest] = installed();
    let mut is_installed_here = is_here;
    for kind in workloads.iter().chain(&rest) {
        is_installed_here |= !removal.find(kind, Which::Installed).await?.is_empty();
    }
    if !is_installed_here {
        // What a controller made that somebody else looks after it would make again.
        return Ok(Vec::new());
    }
    if data == Data::Delete && is_here {
        // Nobody signs up any more, and the controller clears away behind them.
        for kind in &workloads {
            removal.clear(kind, Which::BesideController).await?;
        }
        // Also what is set, or comes, while the accounts go.
        let volumes = kind::<KiteVolume>();
        let not_kept = ("onAccountDeletion", json!("Delete"));
        let users = kind::<KiteUser>();
        removal
            .clear_found(async |this| {
                this.let_go(&volumes, &not_kept).await?;
                this.found_of(&users).await
            })
            .await?;
        let snapshots = kind::<KiteSnapshot>();
        let not_protected = ("protected", json!(false));
        removal
            .clear_found(async |this| {
                this.let_go(&snapshots, &not_protected).await?;
                this.found_of(&snapshots).await
            })
            .await?;
        for kind in [
            kind::<KiteVirtualMachine>(),
            kind::<KiteVolume>(),
            kind::<KiteImage>(),
        ] {
            removal.clear(&kind, Which::All).await?;
        }
    }
    // With their pods: what is taken away next must not be made again, and nobody is to
    // be left without a right in the midst of something.
    for kind in &workloads {
        removal.clear(kind, Which::Installed).await?;
    }
    for kind in [kind::<Service>(), kind::<Ingress>(), kind::<HttpRoute>()] {
        removal.clear(&kind, Which::OfPlatform).await?;
    }
    for kind in &rest {
        removal.clear(kind, Which::Installed).await?;
    }
    if data == Data::Delete {
        // While something is left by which a repeated request knows that it is not done.
        removal.clear_own(namespace).await?;
        for definition in removal.definitions().await? {
            removal.delete_one(&definitions, &definition).await?;
        }
        removal.until_no_definitions().await?;
        removal
            .clear(&kind::<StorageClass>(), Which::Installed)
            .await?;
        removal
            .clear(&kind::<Namespace>(), Which::NewNamespaces)
            .await?;
        return left(client, namespace).await;
    }
    Ok(Vec::new())
}

/// Deletes what an earlier version or other options installed and `wanted` has no
/// more. Only what [`super::apply`] made: who installs by other means looks after
/// that. Definitions, namespaces, classes, settings and images stay.
///
/// # Errors
/// An [`Error`] if the API server refuses something.
pub async fn prune(
    client: &Client,
    wanted: &[Manifest],
    dry_run: bool,
    told: impl FnMut(&ObjectName, Removed),
) -> Result<(), Error> {
    let wanted: Vec<_> = wanted.iter().map(ObjectName::of).collect();
    let mut removal = Removal::new(client, dry_run, Duration::ZERO, told);
    for kind in installed().iter().flatten() {
        for object in removal.find(kind, Which::Installed).await? {
            if !wanted.contains(&ObjectName::found(kind, &object)) {
                removal.delete_one(kind, &object).await?;
            }
        }
    }
    Ok(())
}

impl<'a, T: FnMut(&ObjectName, Removed)> Removal<'a, T> {
    fn new(client: &'a Client, dry_run: bool, longest: Duration, told: T) -> Self {
        Self {
            client,
            dry_run,
            longest,
            told,
            seen: BTreeMap::new(),
        }
    }

    /// The objects of a kind that are meant; none of a kind that is not served.
    async fn find(&self, kind: &ApiResource, which: Which) -> Result<Vec<DynamicObject>, Error> {
        let params = ListParams {
            label_selector: which.labels(),
            ..ListParams::default()
        };
        let api = Api::<DynamicObject>::all_with(self.client.clone(), kind);
        match api.list(&params).await {
            Ok(list) => Ok(list
                .items
                .into_iter()
                .filter(|it| which.includes(it))
                .collect()),
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

    /// The definitions of Kite's kinds that were installed.
    async fn definitions(&self) -> Result<Vec<DynamicObject>, Error> {
        let own: Vec<_> = crd::all().into_iter().map(|it| it.metadata.name).collect();
        let mut found = self
            .find(&kind::<CustomResourceDefinition>(), Which::All)
            .await?;
        found.retain(|it| is_installed(it) && own.contains(&it.metadata.name));
        Ok(found)
    }

    async fn until_no_definitions(&mut self) -> Result<(), Error> {
        let started = Instant::now();
        while let Some(first) = self.definitions().await?.first()
            && !self.dry_run
        {
            let name = ObjectName::found(&kind::<CustomResourceDefinition>(), first);
            self.check(started, &name, 1)?;
            sleep(PAUSE).await;
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
            ..DeleteParams::foreground().preconditions(Preconditions {
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

    /// All of a kind that there is.
    async fn found_of(
        &self,
        kind: &ApiResource,
    ) -> Result<Vec<(ApiResource, DynamicObject)>, Error> {
        let found = self.find(kind, Which::All).await?.into_iter();
        Ok(found.map(|object| (kind.clone(), object)).collect())
    }

    /// Lets go what would wait for somebody's word, where all data is to go: what has something
    /// else than `loose` in this field of its spec, be it unreadable, gets that. Where an object
    /// is refused, another of its fields is wrong: then it waits, and is told of when it is late.
    async fn let_go(
        &self,
        kind: &ApiResource,
        (field, loose): &(&str, Value),
    ) -> Result<(), Error> {
        let patch = json!({"spec": {*field: loose}});
        for object in self.find(kind, Which::All).await? {
            let is = &object.data["spec"][*field];
            if self.dry_run || is.is_null() || is == loose {
                continue;
            }
            let namespace = object.namespace().unwrap_or_default();
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &namespace, kind);
            let patch = Patch::Merge(&patch);
            let done = api
                .patch(&object.name_any(), &PatchParams::default(), &patch)
                .await;
            match done {
                Ok(_) => {}
                Err(error) if is_absent(&error) => {}
                Err(kube::Error::Api(status)) if status.code == 422 => {}
                Err(error) => return Err(Error::of(&ObjectName::found(kind, &object), error)),
            }
        }
        Ok(())
    }

    async fn clear(&mut self, kind: &ApiResource, which: Which) -> Result<(), Error> {
        self.clear_found(async |this| {
            let found = this.find(kind, which).await?.into_iter();
            Ok(found.map(|object| (kind.clone(), object)).collect())
        })
        .await
    }

    /// Deletes what is found, also what comes meanwhile, and waits until nothing is.
    pub(super) async fn clear_found(
        &mut self,
        find: impl AsyncFn(&Self) -> Result<Vec<(ApiResource, DynamicObject)>, Error>,
    ) -> Result<(), Error> {
        let started = Instant::now();
        let mut before: Vec<ObjectName> = Vec::new();
        loop {
            let found = find(self).await?;
            let left = found.iter().map(|(kind, it)| ObjectName::found(kind, it));
            let left: Vec<_> = left.collect();
            for name in before.iter().filter(|name| !left.contains(name)) {
                (self.told)(name, Removed::Gone);
            }
            for (kind, object) in &found {
                self.require_end(kind, object).await?;
                self.delete_one(kind, object).await?;
            }
            let Some(first) = left.first() else {
                return Ok(());
            };
            if self.dry_run {
                return Ok(());
            }
            self.check(started, first, left.len())?;
            before = left;
            sleep(PAUSE).await;
        }
    }

    /// That nobody makes an object again and again that is deleted.
    async fn require_end(
        &mut self,
        kind: &ApiResource,
        object: &DynamicObject,
    ) -> Result<(), Error> {
        let name = ObjectName::found(kind, object);
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let uids = self.seen.entry(name.clone()).or_default();
        uids.insert(uid);
        let times = uids.len() - 1;
        if times < MOST_MADE_AGAIN {
            return Ok(());
        }
        Err(Error::MadeAgain {
            object: Box::new(name),
            times,
            by: makers(self.client, object).await,
        })
    }

    /// That it has not been waited for too long.
    fn check(&self, started: Instant, first: &ObjectName, count: usize) -> Result<(), Error> {
        if started.elapsed() <= self.longest {
            return Ok(());
        }
        let place = first.namespace.as_ref();
        let place = place.map(|it| format!(" -n {it}")).unwrap_or_default();
        Err(Error::Late {
            what: format!("{first} is still there, of {count} in all"),
            seconds: self.longest.as_secs(),
            remedy: format!(
                "look at kubectl get{place} {} {} -o yaml, whose finalizers and status say what \
                 it waits for, and repeat this",
                first.kind.to_lowercase(),
                first.name
            ),
        })
    }
}
