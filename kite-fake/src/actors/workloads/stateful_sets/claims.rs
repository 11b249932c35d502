//! The claims of a `StatefulSet`, and who owns them.

use serde_json::{Value, json};

use super::member::{Claim, claims, name};
use crate::actors::actor::{ActorError, Context};
use crate::actors::events;
use crate::actors::kind::{CLAIM, Key, POD};
use crate::actors::mirror::Found;
use crate::actors::objects::{Objects, controller_reference, ignore_missing, is_deleting, uid};
use crate::actors::workloads::making::{Made, make};
use crate::actors::workloads::owned::Owner;

use super::COMPONENT;

/// What can be done about a Pod, by its claims.
#[derive(Debug)]
pub(super) enum Prepared {
    /// They are there: it may come.
    Ready,
    /// One that belonged to a Pod before is still to go.
    NotYet,
    /// One may not be made.
    Refused,
}

/// Sees to it that the claims of the Pod are there.
pub(super) async fn prepare(
    context: &Context,
    objects: Objects<'_>,
    owner: Owner<'_>,
    ordinal: i64,
) -> Result<Prepared, ActorError> {
    let namespace = owner.object.metadata.namespace.as_deref();
    for claim in claims(owner, ordinal) {
        let found = objects.find(&CLAIM, namespace, &claim.name).await?;
        match found {
            // It belonged to a Pod before, and goes.
            Some(found) if is_deleting(&found) || is_of_another(owner, &found, ordinal) => {
                return Ok(Prepared::NotYet);
            }
            Some(_) => {}
            None => {
                if !create(context, objects, owner, &claim, ordinal).await? {
                    return Ok(Prepared::Refused);
                }
            }
        }
    }
    Ok(Prepared::Ready)
}

/// Whether a claim goes with a Pod of this number that was there before: it is not to be
/// used by the next one.
fn is_of_another(owner: Owner<'_>, claim: &Found, ordinal: i64) -> bool {
    let policy = &owner.object.data["spec"]["persistentVolumeClaimRetentionPolicy"];
    let pod = name(owner, ordinal);
    let mut owners = claim.metadata.owner_references.iter().flatten();
    policy["whenScaled"] == "Delete" && owners.any(|it| it.kind == "Pod" && it.name == pod)
}

/// Makes a claim; false if that is refused.
async fn create(
    context: &Context,
    objects: Objects<'_>,
    owner: Owner<'_>,
    claim: &Claim<'_>,
    ordinal: i64,
) -> Result<bool, ActorError> {
    let owners = owners(owner, None);
    let made = make(objects, owner.object, &CLAIM, claim.body(owner, &owners)).await?;
    let set = owner.object.metadata.name.as_deref().unwrap_or_default();
    let of = format!(
        "create Claim {} Pod {} in StatefulSet {set}",
        claim.name,
        name(owner, ordinal)
    );
    let about = (owner.kind, owner.object);
    match made {
        Made::Object(_) => {
            let said = events::normal("SuccessfulCreate", format!("{of} success"));
            events::tell(context, COMPONENT, about, said).await;
            Ok(true)
        }
        Made::Exists | Made::Nothing => Ok(true),
        Made::Refused(why) => {
            let said = events::warning("FailedCreate", format!("{of} failed error: {why}"));
            events::tell(context, COMPONENT, about, said).await;
            Ok(false)
        }
    }
}

/// Sees to it that the claims of a Pod go when they are to. `is_condemned` says that
/// the Pod goes because the set has fewer.
pub(super) async fn retain(
    objects: Objects<'_>,
    owner: Owner<'_>,
    pod: &Found,
    ordinal: i64,
    is_condemned: bool,
) -> Result<(), ActorError> {
    let namespace = owner.object.metadata.namespace.as_deref();
    let wanted = owners(owner, is_condemned.then_some(pod));
    for claim in claims(owner, ordinal) {
        let Some(found) = objects.find(&CLAIM, namespace, &claim.name).await? else {
            continue;
        };
        let has = found.metadata.owner_references.iter().flatten();
        let is_ours = |it: &Value| it["uid"] == uid(owner.object) || it["uid"] == uid(pod);
        let (ours, mut others): (Vec<Value>, Vec<Value>) =
            has.map(|it| json!(it)).partition(is_ours);
        // Who controls it already decides about it.
        let is_taken = others.iter().any(|it| it["controller"] == true);
        let wanted = if is_taken { &[][..] } else { &wanted[..] };
        let same = |a: &Value, b: &Value| a["uid"] == b["uid"];
        let is_right =
            ours.len() == wanted.len() && ours.iter().zip(wanted).all(|(a, b)| same(a, b));
        if is_right || is_deleting(&found) {
            continue;
        }
        others.extend(wanted.iter().cloned());
        let patch = json!({"metadata": {"ownerReferences": others}});
        let key = Key::of(&CLAIM, &found);
        ignore_missing(objects.merge(&key, Some(&found), patch).await)?;
    }
    Ok(())
}

/// With whom a claim goes: with the set, with a condemned Pod, or with nobody.
fn owners(owner: Owner<'_>, condemned: Option<&Found>) -> Vec<Value> {
    let policy = &owner.object.data["spec"]["persistentVolumeClaimRetentionPolicy"];
    match condemned {
        Some(pod) if policy["whenScaled"] == "Delete" => vec![controller_reference(&POD, pod)],
        _ if policy["whenDeleted"] == "Delete" => {
            vec![controller_reference(owner.kind, owner.object)]
        }
        _ => Vec::new(),
    }
}
