//! Making one account with something that is good for one: the bootstrap token,
//! or an invite.
//!
//! 1. It is *claimed* for a username by a write on the condition that nobody
//!    changed it, so of two racing requests one loses.
//! 2. The account is created, marked with the permit's uid.
//! 3. The permit is used up.
//!
//! A crash or a lost answer after 1 or 2 leaves a claim with which only the same
//! username can go on. If the username cannot be had, the claim is released.

use std::sync::Arc;

use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, Object, ObjectKey},
    crd::{KiteUser, KiteUserSpec},
    names,
};
use kite_rest::{Form, Problem, ProblemKind, Stamp};
use kube::{ResourceExt as _, api::PropagationPolicy};

use crate::{
    client::Client,
    free::{check_free, taken, without_code},
    notices::note_new,
    open_sign_up::mark_email,
    password::{StoredPassword, forget_password},
    password_rule::is_long,
    sign_in::let_in,
    state::Accounts,
};

/// An object that lets somebody make one account.
pub(crate) trait Permit: Object {
    /// What people call it, with its article.
    const CALLED: &'static str;
    /// Annotation of the account: uid of the permit that made it.
    const MADE_BY: &'static str;
    /// What it is when the account was made with it before.
    const OVER: ProblemKind;

    /// Whether whoever gave it out has written down the account's email address.
    fn vouches_for_email(&self) -> bool;

    /// The username that it was claimed for.
    fn holder(&self) -> Option<&str>;

    /// Writes down for which username it is claimed, or that it is for none, on the
    /// condition that it is unchanged since it was read.
    async fn hold(&self, state: &Accounts, username: Option<&str>) -> Result<Self, ClusterError>;

    /// Sees to it that no other account is made with it. False if one was.
    async fn use_up(&self, state: &Accounts, user: &KiteUser) -> Result<bool, Problem>;
}

/// Makes the account that `permit` allows, or finds that an earlier attempt with
/// the same username and password got that far. Whether it is new.
pub(crate) async fn make_account<P: Permit>(
    state: &Accounts,
    client: &Client,
    form: &Form,
    permit: P,
    mut spec: KiteUserSpec,
    password: String,
    stamp: Option<&Stamp>,
) -> Result<(KiteUser, bool), Problem> {
    let uid = permit.uid().unwrap_or_default();
    let username = spec.username.clone();
    let key = ObjectKey::cluster(&username);
    let earlier = state.cluster().get_opt::<KiteUser>(&key).await?;
    let free = match &earlier {
        Some(user) if made_by::<P>(user, &uid) => Ok(()),
        Some(_) => Err(taken("username", &username)),
        None => check_free(state, &spec, permit.vouches_for_email()).await,
    };
    if let Err(problem) = free {
        if problem.kind() == ProblemKind::Taken && permit.holder() == Some(&username) {
            release(state, &permit).await?;
        }
        return Err(problem);
    }

    let permit = claim(state, permit, &username).await?;
    let hash = state.passwords().hash(password.clone()).await?;
    spec.credential = Some(names::credential(&hash));
    let mut user = KiteUser::new(&username, spec);
    note_new(&mut user);
    if !permit.vouches_for_email() {
        mark_email(&mut user);
    }
    user.annotations_mut()
        .insert(P::MADE_BY.to_owned(), uid.clone());
    if let Some(stamp) = stamp {
        stamp.mark(&mut user);
    }
    let stored = StoredPassword::make(state, &username, &hash, is_long(&password)).await?;
    user.spec.password_hash = stored.shown();
    let created = state.cluster().create(&user).await;
    // What came of other faults the sweep finds out.
    let refused = matches!(
        created,
        Err(ClusterError::AlreadyExists { .. }
            | ClusterError::Invalid { .. }
            | ClusterError::Forbidden { .. })
    );
    if refused {
        stored.forget(state).await;
    }
    let (mut user, is_new) = match created {
        Ok(user) => (user, true),
        Err(ClusterError::AlreadyExists { .. }) => {
            let user = state.cluster().get::<KiteUser>(&key).await?;
            if !made_by::<P>(&user, &uid) {
                release(state, &permit).await?;
                return Err(taken("username", &username));
            }
            (user, false)
        }
        // With another username it may be let pass.
        Err(error @ (ClusterError::Invalid { .. } | ClusterError::Forbidden { .. })) => {
            release(state, &permit).await?;
            return Err(form.blame(error));
        }
        Err(error) => return Err(error.into()),
    };
    // Also where an earlier attempt made the account: then the permit is used up
    // whether or not the password is the same.
    if !permit.use_up(state, &user).await? {
        let gone = PropagationPolicy::Background;
        state.cluster().delete_by_uid(&user, gone).await?;
        forget_password(state, &user).await;
        return Err(at_the_same_moment::<P>());
    }
    if !is_new {
        // Its owner may have done a lot with it since: it is signed in to as ever.
        let earlier = Some(Arc::new(user.clone()));
        let known = let_in(state, client, &username, earlier, password, None).await;
        let known = known.map_err(|problem| match problem.kind() {
            ProblemKind::WrongCredentials => {
                let called = P::CALLED;
                let detail = format!(
                    "the account {username:?} was made with {called} before: sign in with the \
                     password given then"
                );
                Problem::new(P::OVER, detail)
            }
            _ => without_code(problem, &username),
        })?;
        user = KiteUser::clone(&known);
    }
    state.caches().users.caught_up_with(&user).await;
    Ok((user, is_new))
}

fn made_by<P: Permit>(user: &KiteUser, permit_uid: &str) -> bool {
    user.annotations().get(P::MADE_BY).map(String::as_str) == Some(permit_uid)
}

fn at_the_same_moment<P: Permit>() -> Problem {
    Problem::new(
        ProblemKind::Conflict,
        format!(
            "another request used {} at the same moment: reload the page",
            P::CALLED
        ),
    )
}

/// Claims the permit for `username`, or finds that it is already.
async fn claim<P: Permit>(state: &Accounts, permit: P, username: &str) -> Result<P, Problem> {
    match permit.holder() {
        Some(holder) if holder == username => return Ok(permit),
        Some(holder) => {
            return Err(Problem::field(
                ProblemKind::Conflict,
                "username",
                username,
                format!(
                    "{} was claimed for {holder:?} by a request that did not finish: repeat it \
                     with that username",
                    P::CALLED
                ),
            ));
        }
        None => {}
    }
    match permit.hold(state, Some(username)).await {
        Ok(permit) => Ok(permit),
        Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => {
            Err(at_the_same_moment::<P>())
        }
        Err(error) => Err(error.into()),
    }
}

async fn release<P: Permit>(state: &Accounts, permit: &P) -> Result<(), Problem> {
    match permit.hold(state, None).await {
        Ok(_) | Err(ClusterError::Conflict { .. } | ClusterError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
