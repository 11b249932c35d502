//! Bringing back what was kept.

use std::{collections::BTreeMap, time::Duration};

use kite_core::{crd::KiteUser, names};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{
    compare::differences,
    document::{Backup, Entry},
    factor::Seals,
    kinds::{Kind, essence},
    order::in_order,
};
use crate::{causes::causes, install::ObjectName};

/// Between two looks whether a user has a namespace.
const PAUSE: Duration = Duration::from_millis(300);

/// How a backup is restored.
#[derive(Clone, Debug)]
pub struct Options {
    /// The API server judges all of it, and stores nothing.
    pub dry_run: bool,
    /// Objects that are there and differ are made as they were.
    pub overwrite: bool,
    /// VMs and their keys stay out: their disks may have to come first.
    pub without_vms: bool,
    /// How long the controller may take for a user's namespace.
    pub timeout: Duration,
}

/// What became of an object; in a dry run, what would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "change")]
pub enum Outcome {
    /// It is back.
    Created,
    /// It was there, and is as it was kept.
    Unchanged,
    /// It was another, and is now as it was kept.
    Overwritten,
    /// It is another, and was left alone.
    Differs {
        /// Where.
        fields: Vec<String>,
    },
    /// What it rests on is not back, and so it is not.
    Skipped {
        /// What that is.
        why: String,
    },
    /// It could not be brought back.
    Failed {
        /// What was said.
        why: String,
        /// What to do.
        remedy: String,
    },
}

impl Outcome {
    /// Whether the object is as it was kept.
    pub fn is_back(&self) -> bool {
        match self {
            Self::Created | Self::Unchanged | Self::Overwritten => true,
            Self::Differs { .. } | Self::Skipped { .. } | Self::Failed { .. } => false,
        }
    }

    fn skipped(why: impl Into<String>) -> Self {
        Self::Skipped { why: why.into() }
    }

    fn failed(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Failed {
            why: why.into(),
            remedy: remedy.into(),
        }
    }
}

/// Brings back what `backup` has, and tells of each object. What rests on something that
/// is not back is not brought back either. It may be repeated: what is back stays.
pub async fn restore(
    client: &Client,
    backup: &Backup,
    options: &Options,
    mut told: impl FnMut(&ObjectName, &Outcome),
) {
    let mut restoring = Restoring {
        client,
        backup,
        options,
        uids: BTreeMap::new(),
        namespaces: BTreeMap::new(),
    };
    for (kind, entry) in in_order(&backup.entries, &backup.namespace) {
        let is_of_vm = kind == Kind::Machine
            || (kind == Kind::Secret && !restoring.is_of_kite(entry))
            || restoring.is_claim_of_vm(kind, entry);
        if options.without_vms && is_of_vm {
            continue;
        }
        let outcome = restoring.one(kind, entry).await;
        let name = ObjectName::found(&kind.resource(), &entry.object);
        told(&name, &outcome);
    }
}

struct Restoring<'a> {
    client: &'a Client,
    backup: &'a Backup,
    options: &'a Options,
    /// What objects that are back are called now, by their former uids.
    uids: BTreeMap<String, String>,
    /// Whether namespaces of users are there.
    namespaces: BTreeMap<String, bool>,
}

impl Restoring<'_> {
    fn is_of_kite(&self, entry: &Entry) -> bool {
        entry.object.namespace().as_deref() == Some(&self.backup.namespace)
    }

    fn is_claim_of_vm(&self, kind: Kind, entry: &Entry) -> bool {
        let holder = &entry.object.data["spec"]["holder"];
        // A claim that is used up outlasts its VM.
        let is_used_up = entry.object.data["spec"]["fulfilled"] == true;
        kind == Kind::Reservation
            && holder["kind"] == "KiteVirtualMachine"
            && (!is_used_up || self.is_kept(&holder["uid"]))
    }

    fn is_kept(&self, uid: &Value) -> bool {
        let mut entries = self.backup.entries.iter();
        entries.any(|it| Some(&*it.former_uid) == uid.as_str())
    }

    async fn one(&mut self, kind: Kind, entry: &Entry) -> Outcome {
        let mut wanted = entry.object.clone();
        if let Err(outcome) = self.rename(kind, &mut wanted) {
            return outcome;
        }
        if let Err(outcome) = self.namespace_of(kind, &wanted).await {
            return outcome;
        }
        let api = self.api(kind, &wanted);
        let there = match api.get_opt(&wanted.name_any()).await {
            Ok(there) => there,
            Err(error) => return refused(&error),
        };
        if kind == Kind::SecondFactor
            && let Err(outcome) = self.seal(entry, &mut wanted, there.as_ref()).await
        {
            return outcome;
        }
        match there {
            None => self.create(kind, entry, &wanted).await,
            Some(there) if there.metadata.deletion_timestamp.is_some() => {
                Outcome::failed("it is being deleted", "repeat this once it is gone")
            }
            Some(there) => self.meet(kind, entry, &wanted, there).await,
        }
    }

    fn api(&self, kind: Kind, object: &DynamicObject) -> Api<DynamicObject> {
        let resource = kind.resource();
        ObjectName::found(&resource, object).api(self.client, &resource)
    }

    /// Has `wanted` name other objects by their new uids.
    fn rename(&self, kind: Kind, wanted: &mut DynamicObject) -> Result<(), Outcome> {
        for path in kind.uids() {
            let Some(place) = wanted.data.pointer_mut(path) else {
                continue;
            };
            let former = place.as_str().unwrap_or_default();
            if let Some(now) = self.uids.get(former) {
                *place = json!(now);
            } else if matches!(kind, Kind::SecondFactor | Kind::Token) {
                return Err(Outcome::skipped("its user is not back"));
            } else if kind == Kind::Reservation && wanted.data["spec"]["fulfilled"] != true {
                return Err(Outcome::skipped("its holder is not back"));
            }
        }
        for owner in wanted.metadata.owner_references.iter_mut().flatten() {
            let Some(now) = self.uids.get(&owner.uid) else {
                let (kind, name) = (&owner.kind, &owner.name);
                return Err(Outcome::skipped(format!("{kind} {name} is not back")));
            };
            owner.uid.clone_from(now);
        }
        Ok(())
    }

    /// Waits for the namespace of a user, which the controller makes.
    async fn namespace_of(&mut self, kind: Kind, wanted: &DynamicObject) -> Result<(), Outcome> {
        let Some(namespace) = wanted.namespace() else {
            return Ok(());
        };
        let Some(user) = names::user_of_namespace(&namespace) else {
            return Ok(());
        };
        let mut entries = self.backup.entries.iter();
        let kept = entries
            .find(|it| Kind::of(&it.object) == Some(Kind::User) && it.object.name_any() == user);
        if kept.is_none_or(|it| !self.uids.contains_key(&it.former_uid)) {
            return Err(Outcome::skipped(format!("the user {user} is not back")));
        }
        if self.options.dry_run {
            return Ok(());
        }
        if !self.namespaces.contains_key(&namespace) {
            let is_there = self.wait_for_namespace(user).await?;
            self.namespaces.insert(namespace.clone(), is_there);
        }
        if self.namespaces[&namespace] {
            return Ok(());
        }
        let kind = kind.resource().kind;
        Err(Outcome::failed(
            format!(
                "the namespace {namespace} was not there after {} s, and a {kind} needs it",
                self.options.timeout.as_secs()
            ),
            format!(
                "see whether kite-controller runs (kite doctor) and kubectl describe kiteuser \
                 {user}, and repeat this"
            ),
        ))
    }

    async fn wait_for_namespace(&self, user: &str) -> Result<bool, Outcome> {
        let users = Api::<KiteUser>::all(self.client.clone());
        let since = Instant::now();
        loop {
            let found = users.get(user).await.map_err(|error| refused(&error))?;
            if found.status.is_some_and(|it| it.namespace.is_some()) {
                return Ok(true);
            }
            if since.elapsed() > self.options.timeout {
                return Ok(false);
            }
            sleep(PAUSE).await;
        }
    }

    async fn seal(
        &self,
        entry: &Entry,
        wanted: &mut DynamicObject,
        there: Option<&DynamicObject>,
    ) -> Result<(), Outcome> {
        if self.options.dry_run {
            return Ok(());
        }
        let seals = Seals::find(self.client, self.backup).await;
        let seals = seals.map_err(|error| refused(&error))?;
        let former = entry.object.data["spec"]["userUid"].as_str();
        let renewed = seals.renew(wanted, former.unwrap_or_default(), there);
        renewed.ok_or_else(|| {
            Outcome::failed(
                "it is sealed with another key than that of this cluster",
                format!(
                    "restore a backup that was taken with --with-secrets; without the Secret {} \
                     of that cluster the user has to set up a second factor anew",
                    names::SEAL_SECRET
                ),
            )
        })
    }

    async fn create(&mut self, kind: Kind, entry: &Entry, wanted: &DynamicObject) -> Outcome {
        let params = PostParams {
            dry_run: self.options.dry_run,
            ..PostParams::default()
        };
        let mut bare = wanted.clone();
        let status = take_status(&mut bare);
        let created = match self.api(kind, wanted).create(&params, &bare).await {
            Ok(created) => created,
            // Its namespace, or its kind, would be there by then.
            Err(kube::Error::Api(answer)) if answer.code == 404 && self.options.dry_run => bare,
            Err(error) => return refused(&error),
        };
        if self.options.dry_run {
            let former = &entry.former_uid;
            self.uids.insert(former.clone(), former.clone());
            return Outcome::Created;
        }
        if let Some(status) = status
            && let Err(error) = self.write_status(kind, &created, status).await
        {
            // An invite that was used must not be good again.
            if kind == Kind::Invite {
                self.take_back(kind, &created).await;
                return refused(&error);
            }
            self.note(entry, &created);
            return Outcome::failed(
                format!("it is there without its status: {}", causes(&error)),
                "repeat this",
            );
        }
        self.note(entry, &created);
        Outcome::Created
    }

    /// What to do about an object that is there.
    async fn meet(
        &mut self,
        kind: Kind,
        entry: &Entry,
        wanted: &DynamicObject,
        there: DynamicObject,
    ) -> Outcome {
        let mut fields = differences(wanted, &essence(kind, &there));
        let mut outcome = Outcome::Unchanged;
        if !fields.is_empty() {
            if !self.options.overwrite {
                let is_the_same = there.uid().as_ref() == Some(&entry.former_uid);
                // Of another user of the name nothing is brought back.
                if is_the_same || kind == Kind::Offer {
                    self.note(entry, &there);
                }
                fields.truncate(8);
                return Outcome::Differs { fields };
            }
            if let Err(error) = self.overwrite(kind, wanted, &there).await {
                return refused(&error);
            }
            outcome = Outcome::Overwritten;
        }
        self.note(entry, &there);
        let missing = missing_truths(wanted, &there);
        if let Some(status) = missing
            && !self.options.dry_run
            && let Err(error) = self.write_status(kind, &there, status).await
        {
            return refused(&error);
        }
        outcome
    }

    async fn overwrite(
        &self,
        kind: Kind,
        wanted: &DynamicObject,
        there: &DynamicObject,
    ) -> Result<(), kube::Error> {
        let mut object = there.clone();
        object.types.clone_from(&wanted.types);
        object.metadata.labels.clone_from(&wanted.metadata.labels);
        object
            .metadata
            .annotations
            .clone_from(&wanted.metadata.annotations);
        object.data.clone_from(&wanted.data);
        take_status(&mut object);
        let params = PostParams {
            dry_run: self.options.dry_run,
            ..PostParams::default()
        };
        let api = self.api(kind, wanted);
        api.replace(&wanted.name_any(), &params, &object).await?;
        Ok(())
    }

    async fn write_status(
        &self,
        kind: Kind,
        object: &DynamicObject,
        status: Value,
    ) -> Result<(), kube::Error> {
        let patch = Patch::Merge(json!({
            "metadata": {"uid": object.metadata.uid},
            "status": status,
        }));
        let params = PatchParams::default();
        let api = self.api(kind, object);
        api.patch_status(&object.name_any(), &params, &patch)
            .await?;
        Ok(())
    }

    async fn take_back(&self, kind: Kind, object: &DynamicObject) {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: object.uid(),
            resource_version: None,
        });
        // If that fails, too, the failure that led here names the object.
        let _ = self
            .api(kind, object)
            .delete(&object.name_any(), &params)
            .await;
    }

    fn note(&mut self, entry: &Entry, now: &DynamicObject) {
        let uid = now.uid().unwrap_or_default();
        self.uids.insert(entry.former_uid.clone(), uid);
    }
}

fn take_status(object: &mut DynamicObject) -> Option<Value> {
    let status = object.data.as_object_mut()?.remove("status")?;
    status
        .as_object()
        .is_some_and(|it| !it.is_empty())
        .then_some(status)
}

/// What was kept of the status and is not there: what is there counts.
fn missing_truths(wanted: &DynamicObject, there: &DynamicObject) -> Option<Value> {
    let kept = wanted.data.get("status")?.as_object()?;
    let now = &there.data["status"];
    let missing = kept
        .iter()
        .filter(|(field, _)| now[field.as_str()].is_null());
    let missing: serde_json::Map<_, _> = missing.map(|(k, v)| (k.clone(), v.clone())).collect();
    (!missing.is_empty()).then(|| missing.into())
}

fn refused(error: &kube::Error) -> Outcome {
    let remedy = match error {
        kube::Error::Api(status) => match status.code {
            401 | 403 => "use credentials that may do this: a cluster administrator's",
            404 => "install Kite first: kite install",
            409 => "it changed meanwhile: repeat this",
            422 => {
                "this cluster does not take it as it was: make it by hand, or delete what is there \
                 if it cannot be changed, and repeat this"
            }
            _ => "repeat this",
        },
        _ => "see whether the API server answers, and repeat this",
    };
    Outcome::failed(causes(error), remedy)
}
