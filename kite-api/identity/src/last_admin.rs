//! That there is always an administrator who can come in: somebody must be able to mend
//! the settings.
//!
//! Two of them may take the level away from each other at one moment, on whatever
//! replicas. So it is looked before such a write, and after it: the later one at least
//! sees that there is no other left, and takes its write back.

use std::{future::Future, time::Duration};

use kite_core::{
    cluster::{Cluster as _, ObjectKey},
    crd::{AccessLevel, Identity, KitePlatformSpec, KiteUser},
};
use kite_rest::{Problem, ProblemKind, audit::carried};
use kube::{ResourceExt as _, api::ListParams};
use serde_json::{Map, Value, json};

use crate::{password::has_way_in, state::Accounts};

/// Pauses between attempts to make somebody administrator again: for as long as an
/// API server takes to come back.
const RAISING: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(60),
    Duration::from_secs(120),
];

/// By which way an administrator may come in, to count as one who can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WayIn {
    /// A password, or an identity at a provider of the platform.
    Kite,
    /// The project around Kite lets people in.
    Elsewhere,
}

/// What became of a write that takes an administrator away.
#[derive(Debug)]
pub(crate) enum Lowered {
    /// There is another one.
    Done(KiteUser),
    /// Nothing was written: there is no other one.
    Last,
    /// The user is as before: it was found out afterwards, or could not be.
    TakenBack(KiteUser),
}

/// Whether this account is one that counts, and a change of these fields of its spec ends
/// that.
pub(crate) fn lowers(user: &KiteUser, spec: &Map<String, Value>) -> bool {
    let is_lower = |level: &Value| *level != json!(AccessLevel::Admin);
    user.spec.access_level == AccessLevel::Admin
        && user.spec.may_come_in()
        && (spec.get("accessLevel").is_some_and(is_lower)
            || spec.get("suspended") == Some(&Value::Bool(true)))
}

/// Has `write` take the administrator `user` away by a change of the fields `spec`,
/// unless it turns out that there is no other one, or that this cannot be found out.
pub(crate) async fn lower<W>(
    state: &Accounts,
    user: &KiteUser,
    way: WayIn,
    spec: &Map<String, Value>,
    write: W,
) -> Result<Lowered, Problem>
where
    W: Future<Output = Result<KiteUser, Problem>> + Send + 'static,
{
    if !has_other(state, user, way).await? {
        return Ok(Lowered::Last);
    }
    let before = before(user, spec)?;
    let state = state.clone();
    // By itself: a client that goes away must not end it half way.
    let lowering = tokio::spawn(carried(async move {
        let lowered = write.await?;
        let why = match has_other(&state, &lowered, way).await {
            Ok(true) => return Ok(Lowered::Done(lowered)),
            Ok(false) => "the other one has just ceased to be".to_owned(),
            Err(problem) => problem.detail().to_owned(),
        };
        let user = take_back(&state, &lowered, &before, &why).await?;
        Ok(Lowered::TakenBack(user))
    }));
    lowering.await.unwrap_or_else(|error| {
        let detail = format!("the account could not be changed: {error}");
        Err(Problem::new(ProblemKind::Internal, detail))
    })
}

/// What these fields of the spec were.
fn before(user: &KiteUser, spec: &Map<String, Value>) -> Result<Value, Problem> {
    let was = serde_json::to_value(&user.spec).map_err(|error| {
        let detail = format!("the account cannot be written down: {error}");
        Problem::new(ProblemKind::Internal, detail)
    })?;
    let fields = spec.keys().map(|name| (name.clone(), was[name].clone()));
    Ok(Value::Object(fields.collect()))
}

async fn take_back(
    state: &Accounts,
    user: &KiteUser,
    before: &Value,
    why: &str,
) -> Result<KiteUser, Problem> {
    let name = user.name_any();
    tracing::warn!(user = name, why, "stays administrator");
    let mut raised = write(state, user, before).await;
    for wait in RAISING {
        if raised.is_ok() {
            break;
        }
        tokio::time::sleep(wait).await;
        raised = write(state, user, before).await;
    }
    if let Err(problem) = &raised {
        tracing::error!(
            user = name,
            why = problem.detail(),
            "there may be no administrator left who can sign in"
        );
    }
    raised
}

/// Changes fields of an account, whatever others change meanwhile.
pub(crate) async fn write(
    state: &Accounts,
    user: &KiteUser,
    spec: &Value,
) -> Result<KiteUser, Problem> {
    let patch = json!({ "metadata": { "uid": user.uid() }, "spec": spec });
    let key = ObjectKey::of(user);
    let edited = state
        .cluster()
        .merge_patch(state.store().manager(), &key, &patch)
        .await;
    let edited: KiteUser = edited?;
    state.caches().users.caught_up_with(&edited).await;
    Ok(edited)
}

/// Whether another administrator can come in, as the API server has it: two
/// replicas may be about to lower one each.
async fn has_other(state: &Accounts, than: &KiteUser, way: WayIn) -> Result<bool, Problem> {
    let platform = state.platform_now().await?;
    let all = ListParams::default();
    let everybody = state.cluster().list::<KiteUser>(None, &all).await?;
    let is_other = |user: &&KiteUser| {
        user.spec.access_level == AccessLevel::Admin
            && user.uid() != than.uid()
            && user.spec.may_come_in()
            && user.metadata.deletion_timestamp.is_none()
    };
    let others: Vec<&KiteUser> = everybody.items.iter().filter(is_other).collect();
    let has_way = |user: &KiteUser| {
        let mut identities = user.spec.identities.iter();
        way == WayIn::Elsewhere || identities.any(|it| leads_in(&platform, it))
    };
    if others.iter().any(|user| has_way(user)) {
        return Ok(true);
    }
    for user in others {
        // A password that is lost is nobody's way in.
        if has_way_in(state, user).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether there is a provider at which somebody signs in by this identity.
pub(crate) fn leads_in(platform: &KitePlatformSpec, identity: &Identity) -> bool {
    let mut providers = platform.sign_in_providers.iter();
    providers.any(|provider| provider.issuer == identity.issuer)
}
