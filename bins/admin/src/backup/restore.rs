//! Bringing back what was kept.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kite_core::{
    crd::{KitePlatform, VOLUMES_KEPT},
    names,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, ListParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    bootstrap,
    compare::differences,
    document::{Backup, Entry},
    factor::Seals,
    kinds::{FORMER_UID, Kind, essence},
    order::in_order,
    outcome::Outcome,
    rising::raise,
    selection::Selection,
    write::{missing_truths, take_status},
};
use crate::{causes::said, install::ObjectName, retry::is_in_doubt};

/// How often an object is looked at anew that changes meanwhile.
const ATTEMPTS: usize = 5;

/// What of a backup is restored.
#[derive(Clone, Debug)]
pub enum Scope {
    /// All of it.
    All,
    /// VMs and their keys stay out: their disks may have to come first.
    WithoutVms,
    /// Nothing but these; the others are looked at.
    Only(Selection),
}

/// How a backup is restored.
#[derive(Clone, Debug)]
pub struct Options {
    /// The API server judges all of it, and stores nothing.
    pub dry_run: bool,
    /// Objects that are there and differ are made as they were.
    pub overwrite: bool,
    /// API tokens and invites come back also where their user was here before, and they
    /// may have been taken away on purpose.
    pub with_tokens: bool,
    /// What comes back.
    pub scope: Scope,
    /// How long the controller may take for a user's namespace.
    pub timeout: Duration,
}

/// Why nothing can be brought back at all.
#[derive(Debug, thiserror::Error)]
pub enum NotInstalled {
    /// Its kinds are not there.
    #[error(
        "Kite is not installed in this cluster, which knows no KitePlatform: install it first \
         (kite install, with the options of the installation that the file is of), and repeat this"
    )]
    NoKinds,
    /// It could not be looked.
    #[error("KitePlatform: {}", said(.0))]
    Unknown(Box<kube::Error>),
}

/// That there is an installation to bring something back to.
///
/// # Errors
/// [`NotInstalled`] if there is none, or the API server does not say.
pub async fn require_installed(client: &Client) -> Result<(), NotInstalled> {
    let platforms = Api::<KitePlatform>::all(client.clone());
    match platforms.list(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(answer)) if answer.code == 404 => Err(NotInstalled::NoKinds),
        Err(error) => Err(NotInstalled::Unknown(Box::new(error))),
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
        new_users: BTreeSet::new(),
        is_administered: false,
        passwords: BTreeSet::new(),
        without_password: BTreeSet::new(),
        namespaces: BTreeMap::new(),
    };
    for (kind, entry) in in_order(&backup.entries, &backup.namespace) {
        let is_of_vm = matches!(kind, Kind::Machine | Kind::Volume)
            || (kind == Kind::Secret && !restoring.is_of_kite(entry))
            || restoring.is_claim_of_vm(kind, entry);
        if matches!(options.scope, Scope::WithoutVms) && is_of_vm {
            continue;
        }
        let name = ObjectName::found(&kind.resource(), &entry.object);
        if let Scope::Only(only) = &options.scope
            && !only.has(entry)
        {
            if let Err(error) = restoring.look(kind, entry).await {
                told(&name, &Outcome::refused(&error));
            }
            continue;
        }
        let outcome = restoring.one(kind, entry).await;
        if kind == Kind::Password && outcome.is_back() {
            restoring.passwords.insert(entry.object.name_any());
        }
        if kind == Kind::User
            && outcome.is_back()
            && bootstrap::is_administrator(&restoring.as_back(entry))
        {
            restoring.is_administered = true;
        }
        told(&name, &outcome);
        if kind == Kind::User
            && outcome.is_back()
            && let Some((name, outcome)) = restoring.tell_password(entry)
        {
            told(&name, &outcome);
        }
    }
    for (name, outcome) in restoring.tell_offers().await {
        told(&name, &outcome);
    }
    if restoring.is_administered
        && let Some((name, outcome)) =
            bootstrap::withdraw(client, &backup.namespace, options.dry_run).await
    {
        told(&name, &outcome);
    }
}

pub(super) struct Restoring<'a> {
    pub(super) client: &'a Client,
    pub(super) backup: &'a Backup,
    pub(super) options: &'a Options,
    /// What objects that are back are called now, by their former uids.
    pub(super) uids: BTreeMap<String, String>,
    /// Former uids of users that only a restore has brought here.
    new_users: BTreeSet<String>,
    /// Whether an administrator who can sign in is back.
    is_administered: bool,
    /// Names of passwords that are back.
    pub(super) passwords: BTreeSet<String>,
    /// Former uids of users whose password is not, and who have none.
    pub(super) without_password: BTreeSet<String>,
    /// Whether namespaces of users are there.
    pub(super) namespaces: BTreeMap<String, bool>,
}

/// Whether a claim stays though its holder is gone: it is used up, or kept.
fn outlasts_holder(claim: &DynamicObject) -> bool {
    let spec = &claim.data["spec"];
    spec["fulfilled"] == true || !spec["kept"].is_null()
}

impl Restoring<'_> {
    fn is_of_kite(&self, entry: &Entry) -> bool {
        entry.object.namespace().as_deref() == Some(&self.backup.namespace)
    }

    fn is_claim_of_vm(&self, kind: Kind, entry: &Entry) -> bool {
        let holder = &entry.object.data["spec"]["holder"];
        kind == Kind::Reservation
            && holder["kind"] == "KiteVirtualMachine"
            && (!outlasts_holder(&entry.object) || self.is_kept(&holder["uid"]))
    }

    fn is_kept(&self, uid: &Value) -> bool {
        let mut entries = self.backup.entries.iter();
        entries.any(|it| Some(&*it.former_uid) == uid.as_str())
    }

    /// Notes an object that is not to come back, if it is there: others may rest on it.
    async fn look(&mut self, kind: Kind, entry: &Entry) -> Result<(), kube::Error> {
        if !kind.is_named_by_uid() {
            return Ok(());
        }
        let api = self.api(kind, &entry.object);
        let there = api.get_opt(&entry.object.name_any()).await?;
        let there = there.filter(|it| it.metadata.deletion_timestamp.is_none());
        if let Some(there) = there
            && (is_the_same(entry, &there)
                || kind == Kind::Offer
                || differences(&entry.object, &essence(kind, &there)).is_empty())
        {
            self.note(entry, &there);
        }
        Ok(())
    }

    async fn one(&mut self, kind: Kind, entry: &Entry) -> Outcome {
        let mut wanted = entry.object.clone();
        if let Err(outcome) = self.rename(kind, &mut wanted) {
            return outcome;
        }
        if let Err(outcome) = self.namespace_of(kind, &wanted).await {
            return outcome;
        }
        let mut doubt = None;
        for _ in 0..ATTEMPTS {
            match self.settle(kind, entry, wanted.clone()).await {
                // The controller was there first: it is looked at anew.
                Err(kube::Error::Api(answer)) if answer.code == 409 => {}
                // Whatever came of it is seen then.
                Err(error) if is_in_doubt(&error) => doubt = Some(error),
                Err(error) => return Outcome::refused(&error),
                Ok(outcome) => return outcome,
            }
        }
        match doubt {
            Some(error) => Outcome::refused(&error),
            None => Outcome::failed("it changes all the time", "repeat this"),
        }
    }

    async fn settle(
        &mut self,
        kind: Kind,
        entry: &Entry,
        mut wanted: DynamicObject,
    ) -> Result<Outcome, kube::Error> {
        let api = self.api(kind, &wanted);
        let there = api.get_opt(&wanted.name_any()).await?;
        if matches!(kind, Kind::SecondFactor | Kind::Password)
            && let Err(outcome) = self.seal(kind, entry, &mut wanted, there.as_ref()).await
        {
            return Ok(outcome);
        }
        if kind == Kind::User {
            self.fit_password(entry, &mut wanted, there.as_ref())
                .await?;
        }
        let Some(there) = there else {
            if let Some(why) = self.withheld(kind, entry) {
                return Ok(Outcome::skipped(why));
            }
            return self.create(kind, entry, &wanted).await;
        };
        if there.metadata.deletion_timestamp.is_some() {
            return Ok(on_its_way_out(&there));
        }
        if kind == Kind::Reservation
            && let Some(outcome) = self.claim(entry, &mut wanted, &there).await?
        {
            return Ok(outcome);
        }
        self.meet(kind, entry, wanted, there).await
    }

    /// Why something that is not there stays away.
    fn withheld(&self, kind: Kind, entry: &Entry) -> Option<String> {
        let opens = matches!(kind, Kind::Token | Kind::Invite);
        let mut users = kind
            .uids()
            .iter()
            .map(|path| entry.object.data.pointer(path));
        let is_new = users.all(|it| {
            let former = it.and_then(Value::as_str).unwrap_or_default();
            self.new_users.contains(former)
        });
        (opens && !is_new && !self.options.with_tokens).then(|| {
            "its user was here before, so it may have been revoked: --with-tokens brings it back"
                .to_owned()
        })
    }

    pub(super) fn api(&self, kind: Kind, object: &DynamicObject) -> Api<DynamicObject> {
        let resource = kind.resource();
        ObjectName::found(&resource, object).api(self.client, &resource)
    }

    /// Has `wanted` name other objects by their new uids.
    fn rename(&self, kind: Kind, wanted: &mut DynamicObject) -> Result<(), Outcome> {
        for path in kind.uids() {
            let Some(place) = wanted.data.pointer_mut(path) else {
                continue;
            };
            if let Some(now) = place.as_str().and_then(|former| self.uids.get(former)) {
                *place = json!(now);
            } else if matches!(kind, Kind::SecondFactor | Kind::Token) {
                return Err(Outcome::skipped("its user is not back"));
            } else if kind == Kind::Invite {
                return Err(Outcome::skipped("who made it is not back"));
            } else if kind == Kind::Reservation
                && (!outlasts_holder(wanted) || self.is_kept(&wanted.data["spec"]["holder"]["uid"]))
            {
                // One that is used up or kept outlasts its holder, but not so a holder that comes
                // back with another uid.
                return Err(Outcome::skipped("its holder is not back"));
            }
        }
        // For whom it is kept. Who is not back is nobody here, and gets it no more.
        if let Some(place) = wanted.data.pointer_mut("/spec/kept/userUid")
            && let Some(now) = place.as_str().and_then(|former| self.uids.get(former))
        {
            *place = json!(now);
        }
        let entries = &self.backup.entries;
        for owner in wanted.metadata.owner_references.iter_mut().flatten() {
            let is_it = |it: &&Entry| {
                let types = it.object.types.as_ref();
                it.former_uid == owner.uid
                    && it.object.name_any() == owner.name
                    && types.is_some_and(|it| it.kind == owner.kind)
            };
            let kept = entries.iter().find(is_it);
            let Some(now) = kept.and_then(|it| self.uids.get(&it.former_uid)) else {
                let (kind, name) = (&owner.kind, &owner.name);
                return Err(Outcome::skipped(format!("{kind} {name} is not back")));
            };
            owner.uid.clone_from(now);
        }
        Ok(())
    }

    async fn seal(
        &self,
        kind: Kind,
        entry: &Entry,
        wanted: &mut DynamicObject,
        there: Option<&DynamicObject>,
    ) -> Result<(), Outcome> {
        if self.options.dry_run {
            return Ok(());
        }
        let seals = Seals::find(self.client, self.backup).await;
        let seals = seals.map_err(|error| Outcome::refused(&error))?;
        let renewed = seals.renew(kind, &entry.object, wanted, there);
        renewed.ok_or_else(|| {
            let anew = if kind == Kind::Password {
                let user = entry.object.data["spec"]["user"].as_str();
                format!(
                    "an administrator gives {} another password",
                    user.unwrap_or_default()
                )
            } else {
                "the user has to set up a second factor anew".to_owned()
            };
            Outcome::failed(
                "it is sealed with another key than that of this cluster",
                format!(
                    "restore a backup that was taken with --with-secrets; without the Secret {} \
                     of that cluster {anew}",
                    names::SEAL_SECRET
                ),
            )
        })
    }

    pub(super) async fn create(
        &mut self,
        kind: Kind,
        entry: &Entry,
        wanted: &DynamicObject,
    ) -> Result<Outcome, kube::Error> {
        let params = PostParams {
            dry_run: self.options.dry_run,
            ..PostParams::default()
        };
        let mut bare = wanted.clone();
        let status = take_status(&mut bare);
        if kind.is_named_by_uid() {
            let former = (FORMER_UID.to_owned(), entry.former_uid.clone());
            bare.metadata
                .annotations
                .get_or_insert_default()
                .extend([former]);
        }
        if kind == Kind::User {
            self.new_users.insert(entry.former_uid.clone());
        }
        let created = match self.api(kind, wanted).create(&params, &bare).await {
            Ok(created) => created,
            // Its namespace, or its kind, would be there by then.
            Err(kube::Error::Api(answer)) if answer.code == 404 && self.options.dry_run => bare,
            Err(error) => return Err(error),
        };
        if self.options.dry_run {
            let former = &entry.former_uid;
            self.uids.insert(former.clone(), former.clone());
            return Ok(Outcome::Created);
        }
        if let Some(status) = status
            && let Err(error) = self.write_status(kind, &created, status).await
        {
            // For whom an invite is claimed nobody else may have it.
            if kind == Kind::Invite {
                // If that fails, too, the failure that led here names the object.
                let _ = self.delete(kind, &created).await;
                return Err(error);
            }
            self.note(entry, &created);
            return Ok(Outcome::failed(
                format!("it is there without its status: {}", said(&error)),
                "repeat this",
            ));
        }
        self.note(entry, &created);
        Ok(Outcome::Created)
    }

    /// What to do about an object that is there.
    async fn meet(
        &mut self,
        kind: Kind,
        entry: &Entry,
        mut wanted: DynamicObject,
        there: DynamicObject,
    ) -> Result<Outcome, kube::Error> {
        let raised = raise(kind, &mut wanted, &there);
        let mut now = essence(kind, &there);
        for (field, value) in &raised {
            now.data["spec"][field] = value.clone();
        }
        let mut fields = differences(&wanted, &now);
        if !fields.is_empty() && kind == Kind::Secret && there.name_any() == names::SEAL_SECRET {
            // It may have been replaced since: what is sealed with it would open no more.
            return Ok(Outcome::skipped(
                "the cluster's key stays, and second factors and passwords are sealed with it",
            ));
        }
        let is_its = fields.is_empty() || is_the_same(entry, &there);
        let outcome = if !fields.is_empty() && self.options.overwrite {
            self.overwrite(kind, &wanted, &there).await?;
            Outcome::Overwritten
        } else {
            // What was over stays over, whatever else is left as it is.
            let is_epoch = kind == Kind::Platform || (kind == Kind::User && is_its);
            let is_raised = is_epoch && !raised.is_empty();
            if is_raised {
                self.patch_spec(kind, &there, &raised.into()).await?;
            }
            if !fields.is_empty() {
                // Of another user of the name nothing is brought back.
                if is_its || kind == Kind::Offer {
                    self.note(entry, &there);
                }
                fields.truncate(8);
                return Ok(Outcome::Differs { fields });
            }
            if is_raised {
                Outcome::Overwritten
            } else {
                Outcome::Unchanged
            }
        };
        if kind == Kind::Password && outcome == Outcome::Unchanged && !self.options.dry_run {
            self.keep(&there).await?;
        }
        self.note(entry, &there);
        let missing = missing_truths(&wanted, &there);
        if let Some(status) = missing
            && !self.options.dry_run
        {
            self.write_status(kind, &there, status).await?;
        }
        Ok(outcome)
    }

    /// Notes that an object is back.
    fn note(&mut self, entry: &Entry, now: &DynamicObject) {
        if Kind::of(&entry.object) == Some(Kind::User) && is_restored(entry, now) {
            self.new_users.insert(entry.former_uid.clone());
        }
        let uid = now.uid().unwrap_or_default();
        self.uids.insert(entry.former_uid.clone(), uid);
    }
}

/// Of something that goes: it cannot be stopped. An account whose volumes outlive it is not to be
/// hurried by somebody who wants it back.
fn on_its_way_out(there: &DynamicObject) -> Outcome {
    let conditions = there.data["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    match conditions.find(|it| it["reason"] == VOLUMES_KEPT) {
        Some(kept) => Outcome::failed(
            format!(
                "it is being deleted, and waits: {}",
                kept["message"].as_str().unwrap_or_default()
            ),
            "leave it as it is while anybody needs that data, which is lost with those volumes; only \
             once they are gone the account can come back",
        ),
        None => Outcome::failed("it is being deleted", "repeat this once it is gone"),
    }
}

/// Whether an object is the one that was kept, or was made of it.
fn is_the_same(entry: &Entry, there: &DynamicObject) -> bool {
    there.uid().as_ref() == Some(&entry.former_uid) || is_restored(entry, there)
}

/// Whether a restore has made an object of `entry`.
fn is_restored(entry: &Entry, there: &DynamicObject) -> bool {
    there.annotations().get(FORMER_UID) == Some(&entry.former_uid)
}
