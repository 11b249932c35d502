//! An administrator's password is longer than others' have to be. Access level and
//! password are set by writes of their own, of which each is looked at beside the other:
//! both rest on the account as it was then, and are refused if it is not any more.

use std::sync::Arc;

use kite_core::{
    cluster::{ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KiteUser},
};
use kite_rest::{IfMatch, Problem, ProblemKind};
use kube::ResourceExt as _;

use crate::{password_rule::is_long, state::Accounts};

/// The account that a write of a `level` or a `password` is to rest on, and its condition:
/// where it makes somebody an administrator, or sets a password that is none of an
/// administrator, it is as the API server has it now, and has to stay so.
pub(crate) async fn rest_on(
    state: &Accounts,
    user: &Arc<KiteUser>,
    condition: IfMatch,
    level: Option<AccessLevel>,
    password: Option<&str>,
) -> Result<(Arc<KiteUser>, IfMatch), Problem> {
    if level != Some(AccessLevel::Admin) && password.is_none_or(is_long) {
        return Ok((Arc::clone(user), condition));
    }
    let key = ObjectKey::cluster(user.name_any());
    let now = state.cluster().get_opt::<KiteUser>(&key).await?;
    // A write of one that is gone is refused.
    let now = now.filter(|now| now.uid() == user.uid());
    let now = now.map_or_else(|| Arc::clone(user), Arc::new);
    condition.check(now.as_ref())?;
    // The password was looked at for the level of before.
    if level.is_none() && now.spec.access_level != user.spec.access_level {
        return Err(Problem::new(
            ProblemKind::Conflict,
            "the account was changed by somebody else at the same moment: try again",
        ));
    }
    let as_found = condition.as_found(now.as_ref());
    Ok((now, as_found))
}
