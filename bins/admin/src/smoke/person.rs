//! The throw-away user of a smoke test.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume};
use kite_core::{
    conditions,
    crd::{
        KiteImage, KiteReservation, KiteSession, KiteUser, KiteUserSpec, KiteVirtualMachine, Quota,
        UserPhase,
    },
    names,
    password::PasswordHash,
    quantity::Bytes,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::report::{Failure, Waiting};

/// Label of the users that smoke tests make.
pub const LABEL: &str = "hy3ons.github.io/smoke";
/// Annotation: when the test must be over that made the user. Without it the user is
/// kept on purpose.
pub const ENDS: &str = "hy3ons.github.io/smoke-ends";
/// What the names of such users begin with.
const PREFIX: &str = "smoke-";
/// Between two looks.
pub(super) const PAUSE: Duration = Duration::from_millis(300);
/// Memory of the VM.
pub(super) const MEMORY_GIB: u32 = 1;

/// Somebody who is there for a test and goes with it.
pub(super) struct Person<'a> {
    client: &'a Client,
    longest: Duration,
    pub(super) name: String,
    pub(super) password: String,
}

/// A name that no other smoke test has.
pub(super) fn fresh_name() -> String {
    let random = rand::random::<u64>() >> 16;
    format!("{PREFIX}{random:012x}")
}

impl<'a> Person<'a> {
    pub(super) fn new(client: &'a Client, name: &str, longest: Duration) -> Self {
        Self {
            client,
            longest,
            name: name.to_owned(),
            password: format!("{:032x}", rand::random::<u128>()),
        }
    }

    fn users(&self) -> Api<KiteUser> {
        Api::all(self.client.clone())
    }

    pub(super) fn namespace(&self) -> String {
        names::user_namespace(&self.name)
    }

    /// Makes the user as an administrator does with kubectl, and waits for its
    /// namespace. It may have one VM of `image`. With no `ends` nobody sweeps it.
    pub(super) async fn join(
        &self,
        image: &KiteImage,
        ends: Option<Timestamp>,
        waiting: &mut Waiting<'_, '_>,
    ) -> Result<((), String), Failure> {
        let password = self.password.clone();
        let hash = tokio::task::spawn_blocking(move || PasswordHash::create(&password)).await;
        let hash = hash.map_err(|error| Failure::new(error.to_string()))?;
        let mut spec = KiteUserSpec::new(&self.name);
        spec.password_hash = Some(hash.map_err(|error| Failure::new(error.to_string()))?);
        spec.quota = Some(Quota {
            vms: 1,
            cpu: 1,
            memory: Bytes::from_gib(MEMORY_GIB),
            disk: image.spec.min_disk.clone(),
        });
        let mut user = KiteUser::new(&self.name, spec);
        user.labels_mut()
            .insert(LABEL.to_owned(), "true".to_owned());
        if let Some(ends) = ends {
            let annotations = user.annotations_mut();
            annotations.insert(ENDS.to_owned(), ends.to_string());
        }
        self.users().create(&PostParams::default(), &user).await?;
        let since = Instant::now();
        loop {
            let status = self
                .users()
                .get(&self.name)
                .await?
                .status
                .unwrap_or_default();
            if status.phase == Some(UserPhase::Ready) {
                return Ok(((), format!("{} has a namespace", self.name)));
            }
            let ready = conditions::find(&status.conditions, "Ready");
            waiting.on(ready.map_or("the controller to look at it", |it| &it.message));
            self.patience(since, "the user is not ready", waiting)
                .await?;
        }
    }

    /// Waits a moment, or fails if it has been waited too long.
    pub(super) async fn patience(
        &self,
        since: Instant,
        what: &str,
        waiting: &Waiting<'_, '_>,
    ) -> Result<(), Failure> {
        if since.elapsed() > self.longest {
            let seconds = self.longest.as_secs();
            let last = waiting.last();
            return Err(Failure::new(format!("{what} after {seconds} s: {last}")));
        }
        sleep(PAUSE).await;
        Ok(())
    }

    pub(super) async fn vm(&self, name: &str) -> Result<Option<KiteVirtualMachine>, Failure> {
        let vms = Api::namespaced(self.client.clone(), &self.namespace());
        Ok(vms.get_opt(name).await?)
    }

    /// Deletes the user, if it is there and a smoke test's, and waits until it is gone
    /// with its namespace.
    pub(super) async fn leave(
        &self,
        waiting: &mut Waiting<'_, '_>,
    ) -> Result<((), String), Failure> {
        let since = Instant::now();
        while let Some(user) = self.users().get_opt(&self.name).await? {
            if !is_of_a_smoke(&user) {
                return Err(Failure::new(format!(
                    "{} has no label {LABEL} any more: it is left alone",
                    self.name
                )));
            }
            self.sign_out(&user).await?;
            delete(&self.users(), &user).await?;
            let status = user.status.unwrap_or_default();
            let ready = conditions::find(&status.conditions, "Ready");
            waiting.on(ready.map_or("the user to go", |it| &it.message));
            self.patience(since, "the user is still there", waiting)
                .await?;
        }
        let namespaces = Api::<Namespace>::all(self.client.clone());
        while namespaces.get_opt(&self.namespace()).await?.is_some() {
            waiting.on("the namespace to go");
            self.patience(since, "its namespace is still there", waiting)
                .await?;
        }
        Ok(((), "the user and its namespace are gone".to_owned()))
    }

    /// Ends the sessions of the user.
    async fn sign_out(&self, user: &KiteUser) -> Result<(), Failure> {
        let sessions = Api::<KiteSession>::all(self.client.clone());
        for session in sessions.list(&ListParams::default()).await?.items {
            let is_own = user.uid().as_ref() == Some(&session.spec.user_uid);
            if is_own && session.metadata.deletion_timestamp.is_none() {
                delete(&sessions, &session).await?;
            }
        }
        Ok(())
    }

    /// Waits until nothing in the cluster speaks of the user.
    pub(super) async fn is_forgotten(
        &self,
        waiting: &mut Waiting<'_, '_>,
    ) -> Result<((), String), Failure> {
        let since = Instant::now();
        loop {
            let left = self.left().await?;
            if left.is_empty() {
                return Ok(((), "nothing of it is left".to_owned()));
            }
            waiting.on(&format!("there is still {}", left.join(", ")));
            self.patience(since, "not all is gone", waiting).await?;
        }
    }

    async fn left(&self) -> Result<Vec<String>, Failure> {
        let (name, namespace) = (&self.name, &self.namespace());
        let reservations = self
            .all::<KiteReservation>(|it| {
                let holder = &it.spec.holder;
                holder.namespace.as_ref() == Some(namespace)
                    || (holder.namespace.is_none() && holder.name == *name)
            })
            .await?;
        let sessions = self.all::<KiteSession>(|it| it.spec.user == *name).await?;
        let volumes = self
            .all::<PersistentVolume>(|it| {
                let spec = it.spec.as_ref();
                let claim = spec.and_then(|it| it.claim_ref.as_ref());
                let policy = spec.and_then(|it| it.persistent_volume_reclaim_policy.as_deref());
                // Others are kept on purpose.
                policy == Some("Delete")
                    && claim.is_some_and(|it| it.namespace.as_ref() == Some(namespace))
            })
            .await?;
        Ok([reservations, sessions, volumes].concat())
    }

    /// Those of a kind that are meant, as far as one may look.
    async fn all<K>(&self, which: impl Fn(&K) -> bool) -> Result<Vec<String>, Failure>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let list = Api::<K>::all(self.client.clone());
        match list.list(&ListParams::default()).await {
            Ok(list) => {
                let found = list.items.iter().filter(|it| which(it));
                let name = |it: &K| format!("{} {}", K::kind(&()), it.name_any());
                Ok(found.map(name).collect())
            }
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a smoke test made this user.
fn is_of_a_smoke(user: &KiteUser) -> bool {
    user.labels().contains_key(LABEL) && user.name_any().starts_with(PREFIX)
}

/// Whether a smoke test that was killed left this user behind.
fn is_left_behind(user: &KiteUser, now: Timestamp) -> bool {
    let ends = user.annotations().get(ENDS);
    let ends = ends.and_then(|text| text.parse::<Timestamp>().ok());
    is_of_a_smoke(user) && ends.is_some_and(|ends| ends < now)
}

/// Deletes what smoke tests have left behind; gives the names of the users. Nobody
/// waits for their end.
pub(super) async fn sweep(client: &Client) -> Result<Vec<String>, Failure> {
    let users = Api::<KiteUser>::all(client.clone());
    let now = Timestamp::now();
    let mut swept = Vec::new();
    for user in users
        .list(&ListParams::default().labels(LABEL))
        .await?
        .items
    {
        if is_left_behind(&user, now) && user.metadata.deletion_timestamp.is_none() {
            delete(&users, &user).await?;
            swept.push(user.name_any());
        }
    }
    Ok(swept)
}

/// Deletes this object, and no later one of its name.
async fn delete<K>(api: &Api<K>, object: &K) -> Result<(), Failure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    if object.meta().deletion_timestamp.is_some() {
        return Ok(());
    }
    let params = DeleteParams::background().preconditions(Preconditions {
        uid: object.uid(),
        resource_version: None,
    });
    match api.delete(&object.name_any(), &params).await {
        Ok(_) => Ok(()),
        // Gone, or replaced by another.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
