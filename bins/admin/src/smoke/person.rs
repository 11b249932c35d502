//! The throw-away user of a smoke test.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume};
use kite_core::{
    conditions,
    crd::{
        KiteImage, KiteReservation, KiteSession, KiteSessionSpec, KiteUser, KiteUserSpec,
        KiteVirtualMachine, Quota, UserPhase,
    },
    names,
    password::PasswordHash,
    quantity::Bytes,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Preconditions},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout};

use super::report::{Failure, Waiting};
use crate::{causes::said, retry::create};

/// Label of the users that smoke tests make.
pub const LABEL: &str = "hy3ons.github.io/smoke";
/// Annotation: when the test must be over that made the user. Without it the user is
/// kept on purpose.
pub const ENDS: &str = "hy3ons.github.io/smoke-ends";
/// What the names of such users begin with.
const PREFIX: &str = "smoke-";
/// Between two looks.
pub(super) const PAUSE: Duration = Duration::from_millis(300);
/// How long a request may still be under way to the API server that nobody waits for
/// any more.
const LATE: Duration = Duration::from_secs(5);
/// Longest time for an answer of the API server while things are taken away.
const ANSWER: Duration = Duration::from_secs(20);
/// Memory of the VM.
pub(super) const MEMORY_GIB: u32 = 1;

/// Somebody who is there for a test and goes with it.
pub(super) struct Person<'a> {
    client: &'a Client,
    longest: Duration,
    /// Whether the API server was asked to make it and did not say what came of that.
    is_in_doubt: AtomicBool,
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
            is_in_doubt: AtomicBool::new(false),
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
        spec.quota = Some(Quota::new(
            1,
            1,
            Bytes::from_gib(MEMORY_GIB),
            image.least_disk().clone(),
        ));
        let mut user = KiteUser::new(&self.name, spec);
        user.labels_mut()
            .insert(LABEL.to_owned(), "true".to_owned());
        if let Some(ends) = ends {
            let annotations = user.annotations_mut();
            annotations.insert(ENDS.to_owned(), ends.to_string());
        }
        self.is_in_doubt.store(true, Ordering::Relaxed);
        // Nobody else gives a user that name.
        let created = create(&self.users(), &user).await;
        let is_refused = matches!(&created, Err(kube::Error::Api(it)) if it.code < 500);
        if created.is_ok() || is_refused {
            self.is_in_doubt.store(false, Ordering::Relaxed);
        }
        created?;
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

    /// Asks the API server until it answers, or it has been waited too long. That it
    /// refuses for good is an answer.
    async fn answer<T>(
        &self,
        since: Instant,
        waiting: &mut Waiting<'_, '_>,
        ask: impl AsyncFn() -> kube::Result<T>,
    ) -> Result<kube::Result<T>, Failure> {
        loop {
            let why = match timeout(ANSWER, ask()).await {
                Ok(Err(error)) if !is_final(&error) => {
                    format!("the API server: {}", said(&error))
                }
                Ok(answer) => return Ok(answer),
                Err(_) => format!("the API server does not answer within {ANSWER:?}"),
            };
            waiting.on(&why);
            self.patience(since, "the API server has not done it", waiting)
                .await?;
        }
    }

    /// Deletes the user, if it is there and a smoke test's, and waits until it is gone
    /// with its namespace.
    pub(super) async fn leave(
        &self,
        waiting: &mut Waiting<'_, '_>,
    ) -> Result<((), String), Failure> {
        let (since, users) = (Instant::now(), self.users());
        loop {
            let user = self
                .answer(since, waiting, async || users.get_opt(&self.name).await)
                .await??;
            let Some(user) = user else {
                if self.is_in_doubt.load(Ordering::Relaxed) && since.elapsed() < LATE {
                    waiting.on("a request to make the user, which may still be under way");
                    sleep(PAUSE).await;
                    continue;
                }
                break;
            };
            if !is_of_a_smoke(&user) {
                return Err(Failure::new(format!(
                    "{} has no label {LABEL} any more: it is left alone",
                    self.name
                )));
            }
            self.is_in_doubt.store(false, Ordering::Relaxed);
            self.answer(since, waiting, async || delete(&users, &user).await)
                .await??;
            self.sign_out().await;
            let status = user.status.unwrap_or_default();
            let ready = conditions::find(&status.conditions, "Ready");
            waiting.on(ready.map_or("the user to go", |it| &it.message));
            self.patience(since, "the user is still there", waiting)
                .await?;
        }
        let namespaces = Api::<Namespace>::all(self.client.clone());
        let namespace = &self.namespace();
        loop {
            let seen = self
                .answer(since, waiting, async || namespaces.get_opt(namespace).await)
                .await?;
            match seen {
                Ok(None) => return Ok(((), "the user and its namespace are gone".to_owned())),
                Ok(Some(_)) => waiting.on("the namespace to go"),
                Err(error) if is_forbidden(&error) => {
                    waiting.may_not_see("Namespace");
                    return Ok(((), "the user is gone".to_owned()));
                }
                Err(error) => return Err(error.into()),
            }
            self.patience(since, "its namespace is still there", waiting)
                .await?;
        }
    }

    /// Ends its sessions. Nobody else ever had the name.
    async fn sign_out(&self) {
        sign_out(self.client, |it| it.user == self.name).await;
    }

    /// Waits until nothing in the cluster speaks of the user.
    pub(super) async fn is_forgotten(
        &self,
        waiting: &mut Waiting<'_, '_>,
    ) -> Result<((), String), Failure> {
        let since = Instant::now();
        loop {
            let left = self.left(since, waiting).await?;
            if left.is_empty() {
                return Ok(((), "nothing of it is left".to_owned()));
            }
            waiting.on(&format!("there is still {}", left.join(", ")));
            // A sign-in may have been under way while the user went.
            self.sign_out().await;
            self.patience(since, "not all is gone", waiting).await?;
        }
    }

    async fn left(
        &self,
        since: Instant,
        waiting: &mut Waiting<'_, '_>,
    ) -> Result<Vec<String>, Failure> {
        let (name, namespace) = (&self.name, &self.namespace());
        let is_held = |it: &KiteReservation| {
            let holder = &it.spec.holder;
            // What is kept for who is gone frees itself.
            it.spec.kept.is_none()
                && (holder.namespace.as_ref() == Some(namespace)
                    || (holder.namespace.is_none() && holder.name == *name))
        };
        let is_signed_in = |it: &KiteSession| it.spec.user == *name;
        let is_disk = |it: &PersistentVolume| {
            let spec = it.spec.as_ref();
            let claim = spec.and_then(|it| it.claim_ref.as_ref());
            let policy = spec.and_then(|it| it.persistent_volume_reclaim_policy.as_deref());
            // Others are kept on purpose.
            policy == Some("Delete")
                && claim.is_some_and(|it| it.namespace.as_ref() == Some(namespace))
        };
        Ok([
            self.all(since, waiting, is_held).await?,
            self.all(since, waiting, is_signed_in).await?,
            self.all(since, waiting, is_disk).await?,
        ]
        .concat())
    }

    /// Those of a kind that are meant; it is noted where one may not look.
    async fn all<K>(
        &self,
        since: Instant,
        waiting: &mut Waiting<'_, '_>,
        which: impl Fn(&K) -> bool,
    ) -> Result<Vec<String>, Failure>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let list = Api::<K>::all(self.client.clone());
        let all = ListParams::default();
        let listed = self
            .answer(since, waiting, async || list.list(&all).await)
            .await?;
        match listed {
            Ok(list) => {
                let found = list.items.iter().filter(|it| which(it));
                let name = |it: &K| format!("{} {}", K::kind(&()), it.name_any());
                Ok(found.map(name).collect())
            }
            Err(error) if is_forbidden(&error) => {
                waiting.may_not_see(&K::kind(&()));
                Ok(Vec::new())
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether the API server would say the same again.
fn is_final(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 401 | 403 | 422))
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
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

/// Deletes what smoke tests have left behind, as far as that goes; gives the names of
/// the users. Nobody waits for their end.
pub(super) async fn sweep(client: &Client) -> Vec<String> {
    let users = Api::<KiteUser>::all(client.clone());
    let now = Timestamp::now();
    let mut swept = Vec::new();
    let listed = users.list(&ListParams::default().labels(LABEL)).await;
    for user in listed.into_iter().flat_map(|it| it.items) {
        let is_going = user.metadata.deletion_timestamp.is_some();
        if is_left_behind(&user, now) && !is_going && delete(&users, &user).await.is_ok() {
            sign_out(client, |it| user.uid().as_ref() == Some(&it.user_uid)).await;
            swept.push(user.name_any());
        }
    }
    swept
}

/// Ends the sessions of a user that goes, as far as one may: they are of no use without
/// it, and hold up nothing.
async fn sign_out(client: &Client, is_meant: impl Fn(&KiteSessionSpec) -> bool) {
    let sessions = Api::<KiteSession>::all(client.clone());
    let params = ListParams::default();
    let Ok(Ok(list)) = timeout(ANSWER, sessions.list(&params)).await else {
        return;
    };
    for session in list.items {
        if is_meant(&session.spec) {
            let _ = timeout(ANSWER, delete(&sessions, &session)).await;
        }
    }
}

/// Deletes this object, and no later one of its name.
async fn delete<K>(api: &Api<K>, object: &K) -> kube::Result<()>
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
        Err(error) => Err(error),
    }
}
