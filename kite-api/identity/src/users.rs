//! Everybody's accounts, for administrators.

mod identities;

use std::sync::Arc;

use aide::axum::{
    ApiRouter,
    routing::{delete_with, get_with},
};
use axum::{
    extract::FromRef,
    extract::{Path, State},
};
use kite_core::{
    cluster::{ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KiteUser, KiteUserSpec},
};
use kite_rest::{
    Accepted, Answer, Bodies, Bounds, Created, Form, IdempotencyKey, IfMatch, Input, Items, Named,
    OneOf, Page, Problem,
    ProblemKind::{Conflict, NotFound, Taken, TooManyRequests},
    Sent, SshKeys, as_map,
    audit::note,
    change_to_json, edit_noting, etag_of, finish_edit, finish_new,
    openapi::about,
    present, texts,
};
use kube::ResourceExt as _;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::{
    account_action::AccountAction,
    act::Whose,
    allowance::Allowance,
    caller::Caller,
    everyone::new_epoch,
    free::require_free_email,
    key_dates,
    last_admin::{Lowered, lower, lowers},
    notices::note_edit,
    open_sign_up::EMAIL_UNVERIFIED,
    openapi::{EXAMPLE_PASSWORD, example_quota},
    password::{StoredPassword, forget_password, has_long_password},
    password_rule::{Owner as PasswordOwner, is_long, read_password},
    password_rule::{PASSWORD_BOUNDS, PASSWORD_MEANING, spec_of_user},
    raise::rest_on,
    second_factor::remove_factor,
    session::end_sessions_of,
    sign_up::{Maker, create_user},
    state::Accounts,
    view::UserView,
};

const TAG: &str = "admin";

/// The paths below `/admin/users`.
pub(crate) fn routes<S>() -> ApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Accounts: FromRef<S>,
    Bodies: FromRef<S>,
{
    ApiRouter::new()
        .api_route(
            "/admin/users",
            get_with(list, about(TAG, "listUsers", "List accounts", &[])).post_with(
                create,
                about(TAG, "createUser", "Create an account", &[Taken]),
            ),
        )
        .api_route(
            "/admin/users/{name}",
            get_with(get, about(TAG, "getUser", "See an account", &[NotFound]))
                .patch_with(
                    patch,
                    about(
                        TAG,
                        "editUser",
                        "Change an account",
                        &[NotFound, Taken, Conflict],
                    ),
                )
                .delete_with(
                    delete,
                    about(
                        TAG,
                        "deleteUser",
                        "Delete an account with all that is its",
                        &[NotFound, Conflict],
                    ),
                ),
        )
        .api_route(
            "/admin/users/{name}/identities/{id}",
            delete_with(
                identities::unlink,
                about(
                    TAG,
                    "unlinkIdentityOfUser",
                    "Unlink an account from a sign-in provider",
                    &[NotFound, Conflict, TooManyRequests],
                ),
            ),
        )
}

/// Whose account `user` is from the caller's point of view.
pub fn whose(caller: &Caller, user: &KiteUser) -> Whose {
    if user.uid() == caller.user().uid() {
        Whose::Own
    } else {
        Whose::Other(user.spec.access_level)
    }
}

/// The account called `name`. Who may not see accounts learns nothing of which
/// there are.
async fn find(state: &Accounts, caller: &Caller, name: &str) -> Result<Arc<KiteUser>, Problem> {
    caller.require(AccountAction::SeeUsers, Whose::Other(AccessLevel::ReadOnly))?;
    let key = ObjectKey::cluster(name);
    let found = present(state.cluster(), &state.caches().users, &key).await?;
    let found = found.ok_or_else(|| Problem::not_found("user", name))?;
    note(|notes| notes.of(Some(name)));
    Ok(found)
}

/// `GET /api/v1/admin/users`
async fn list(
    State(state): State<Accounts>,
    caller: Caller,
    page: Page,
) -> Result<Answer<Items<UserView>>, Problem> {
    caller.require(AccountAction::SeeUsers, Whose::Other(AccessLevel::ReadOnly))?;
    let users = state.caches().users.list(|user| {
        let name = user.metadata.name.as_deref();
        let email = user.spec.email.as_deref();
        page.wants(
            [name, Some(&*user.spec.username), email]
                .into_iter()
                .flatten(),
        )
    });
    Ok(Answer::new(page.cut(&users, UserView::of)))
}

/// An account with the tag by which it is edited.
pub(crate) fn answer<const STATUS: u16>(user: &KiteUser) -> Answer<UserView, STATUS> {
    Answer::new(UserView::of(user)).with_etag(&etag_of(user))
}

/// `GET /api/v1/admin/users/{name}`
async fn get(
    State(state): State<Accounts>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
) -> Result<Answer<UserView>, Problem> {
    Ok(answer(&*find(&state, &caller, &name).await?))
}

/// An account that an administrator makes.
pub(crate) struct NewUser {
    spec: KiteUserSpec,
    password: Option<String>,
}

impl Input for NewUser {
    const NAME: &'static str = "NewUser";
    const NAMED_BY: &'static str = "username";
    const MEANING: &'static [(&'static str, &'static str)] = &[PASSWORD_MEANING];
    const BOUNDS: &'static [(&'static str, Bounds)] = &[PASSWORD_BOUNDS];

    fn example() -> Option<Value> {
        Some(json!({
            "username": "ann",
            "password": EXAMPLE_PASSWORD,
            "accessLevel": "User",
            "quota": example_quota(),
        }))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let username: Option<String> = form.required("username");
        let email: Option<String> = form.optional("email");
        let password: Option<String> = form.optional("password");
        let access_level = form.optional("accessLevel").map(|OneOf(level)| level);
        let access_level: AccessLevel = access_level.unwrap_or_default();
        let ssh_public_keys = form.optional("sshPublicKeys");
        let ssh_public_keys = ssh_public_keys.map(|SshKeys(keys)| keys);
        let quota = form.optional("quota").map(|it: Allowance| it.quota);
        if let Some(password) = &password {
            let owner = PasswordOwner {
                level: Some(access_level),
                names: &[username.as_deref(), email.as_deref()],
            };
            read_password(form, "password", password, &owner);
        }
        Some(Self {
            spec: KiteUserSpec {
                email,
                access_level,
                ssh_public_keys: ssh_public_keys.unwrap_or_default(),
                quota,
                ..KiteUserSpec::new(username?)
            },
            password,
        })
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(spec_of_user(generator))
    }
}

/// `POST /api/v1/admin/users`
async fn create(
    State(state): State<Accounts>,
    caller: Caller,
    once: IdempotencyKey,
    Sent { input, mut form }: Sent<NewUser>,
) -> Result<Created<UserView>, Problem> {
    let level = input.as_ref().map(|new| new.spec.access_level);
    let level = level.unwrap_or_default();
    caller.require(AccountAction::CreateUser, Whose::Other(level))?;
    let model = KiteUser::new("kite-model", KiteUserSpec::new("kite-model"));
    let new = finish_new(state.store(), &mut form, input, &model).await?;
    let stamp = once.stamp(&caller.uid(), &form);
    let key = ObjectKey::cluster(&new.spec.username);
    if let Some(stamp) = &stamp {
        stamp.require_only(&state.caches().users, &key)?;
    }
    let (password, by) = (new.password, Maker::Administrator);
    let made = create_user(&state, &form, new.spec, password, stamp.as_ref(), by).await;
    let user = match made {
        Ok(user) => user,
        Err(problem) => {
            let Some(stamp) = stamp else {
                return Err(problem);
            };
            // What cannot be looked for (by a name that is none) is not there.
            return match state.cluster().get_opt::<KiteUser>(&key).await {
                Ok(Some(made)) if stamp.is_on(&made) => {
                    stamp.check(&made)?;
                    state.caches().users.caught_up_with(&made).await;
                    Ok(created(&made).replayed(true))
                }
                _ => Err(problem),
            };
        }
    };
    tracing::info!(by = caller.name(), user = user.name_any(), "created a user");
    Ok(created(&user))
}

fn created(user: &KiteUser) -> Created<UserView> {
    answer(user).with_location(&format!("/api/v1/admin/users/{}", user.name_any()))
}

/// What an administrator changes of an account.
pub(crate) struct UserEdit {
    access_level: Option<AccessLevel>,
    suspended: Option<bool>,
    fields: Map<String, Value>,
    password: Option<String>,
    end_tokens: bool,
    keep_tokens: bool,
    remove_second_factor: bool,
}

impl Input for UserEdit {
    const NAME: &'static str = "UserEdit";
    const MEANING: &'static [(&'static str, &'static str)] = &[
        PASSWORD_MEANING,
        (
            "removeSecondFactor",
            "Whether the account's second factor is taken away, for who has lost it.",
        ),
        (
            "endTokens",
            "Whether all API tokens of the account are over.",
        ),
        (
            "keepTokens",
            "Whether the account's API tokens outlive a new password. They end with it otherwise.",
        ),
    ];
    const BOUNDS: &'static [(&'static str, Bounds)] = &[PASSWORD_BOUNDS];

    fn example() -> Option<Value> {
        Some(json!({"quota": example_quota()}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        form.fixed("username", "cannot be changed: create another user");
        let access_level = form.changed("accessLevel").map(|OneOf(level)| level);
        let suspended = form.changed("suspended");
        let fields = [
            change_to_json("email", form.change::<String>("email")),
            change_to_json(
                "quota",
                form.change("quota").map(|it: Allowance| it.written),
            ),
            change_to_json(
                "sshPublicKeys",
                form.change("sshPublicKeys").map(|SshKeys(keys)| keys),
            ),
        ];
        Some(Self {
            access_level,
            suspended,
            fields: as_map(fields),
            password: form.changed("password"),
            end_tokens: form.optional("endTokens").unwrap_or(false),
            keep_tokens: form.optional("keepTokens").unwrap_or(false),
            remove_second_factor: form.optional("removeSecondFactor").unwrap_or(false),
        })
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(spec_of_user(generator))
    }
}

/// `PATCH /api/v1/admin/users/{name}`
async fn patch(
    State(state): State<Accounts>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    condition: IfMatch,
    Sent { input, mut form }: Sent<UserEdit>,
) -> Result<Answer<UserView>, Problem> {
    let user = find(&state, &caller, &name).await?;
    let whose = whose(&caller, &user);
    if let Some(password) = input.as_ref().and_then(|edit| edit.password.as_ref()) {
        caller.require(AccountAction::ChangePassword, whose)?;
        if whose == Whose::Own {
            form.error("password", "is changed by POST /api/v1/me/password");
        }
        let level = input.as_ref().and_then(|edit| edit.access_level);
        let owner = PasswordOwner {
            level: Some(level.unwrap_or(user.spec.access_level)),
            names: &[Some(&user.spec.username), user.spec.email.as_deref()],
        };
        read_password(&mut form, "password", password, &owner);
    }
    if input.as_ref().is_some_and(|edit| edit.remove_second_factor) {
        caller.require(AccountAction::ManageSecondFactor, whose)?;
        if whose == Whose::Own {
            let remedy = "is done by DELETE /api/v1/me/totp";
            form.error("removeSecondFactor", remedy);
        }
    }
    let UserEdit {
        access_level,
        suspended,
        fields: mut spec,
        password,
        end_tokens,
        keep_tokens,
        remove_second_factor,
    } = if caller.require(AccountAction::EditUser, whose).is_ok() {
        finish_edit(state.store(), &mut form, input, user.as_ref()).await?
    } else {
        // Who may not edit it has nothing of it tried with the rights of the API.
        form.finish_with(input)?
    };
    // What is wrong whatever was edited meanwhile is told first.
    condition.check(user.as_ref())?;
    let (user, condition) =
        rest_on(&state, &user, condition, access_level, password.as_deref()).await?;
    // A later pardon does not bring them back.
    let ends_tokens = end_tokens || suspended == Some(true) || (password.is_some() && !keep_tokens);
    if !spec.is_empty() || end_tokens {
        caller.require(AccountAction::EditUser, whose)?;
    }
    let mut notes = Map::new();
    if let Some(keys) = spec.get("sshPublicKeys") {
        caller.require(AccountAction::EditAccountKeys, whose)?;
        notes.append(&mut key_dates::note_keys(Some(&user), &texts(keys)));
    }
    if password.is_some() {
        notes.append(&mut key_dates::note_password_by_others(&user));
    }
    if spec.contains_key("email") {
        // Whoever manages accounts answers for it.
        notes.insert(EMAIL_UNVERIFIED.to_owned(), Value::Null);
    }
    if let Some(level) = access_level {
        if level != user.spec.access_level {
            caller.require(AccountAction::SetAccessLevel, whose)?;
            require_long_password(&state, &user, level, password.is_some()).await?;
        }
        spec.insert("accessLevel".to_owned(), json!(level));
    }
    if let Some(suspended) = suspended {
        if suspended != user.spec.suspended {
            caller.require(AccountAction::SuspendUser, whose)?;
        }
        // `false` is the default and not written out.
        let value = if suspended { json!(true) } else { Value::Null };
        spec.insert("suspended".to_owned(), value);
    }
    if ends_tokens {
        spec.insert("tokenEpoch".to_owned(), json!(new_epoch()));
    }
    let is_long = password.as_deref().is_some_and(is_long);
    let hash = state.passwords().hash_if_any(password).await?;
    if let Some(Value::String(email)) = spec.get("email") {
        require_free_email(&state, email, user.uid().as_deref()).await?;
    }
    let ends_sessions = suspended == Some(true) || hash.is_some();
    let is_edited = !spec.is_empty() || hash.is_some();
    let edited = match hash {
        Some(hash) => {
            let password = StoredPassword::make(&state, &name, &hash, is_long).await?;
            spec.append(&mut password.fields());
            let written = write(&state, &caller, &user, condition, spec, notes, form).await;
            password.settle(&state, Some(&user), written).await?
        }
        None if is_edited => write(&state, &caller, &user, condition, spec, notes, form).await?,
        None => KiteUser::clone(&user),
    };
    // Only now: what refuses the rest refuses this, too.
    if remove_second_factor && remove_factor(&state, &edited).await? {
        tracing::warn!(by = caller.name(), user = name, "removed a second factor");
    }
    if ends_sessions {
        end_sessions_of(&state, &edited).await?;
    }
    if is_edited {
        tracing::info!(by = caller.name(), user = name, "edited a user");
    }
    Ok(answer(&edited))
}

/// Refuses to make somebody an administrator whose password may be shorter than one's has
/// to be: a new one was looked at, and who has none signs in elsewhere.
async fn require_long_password(
    state: &Accounts,
    user: &KiteUser,
    level: AccessLevel,
    has_new: bool,
) -> Result<(), Problem> {
    let keeps_one = !has_new && user.spec.has_password();
    if level != AccessLevel::Admin || !keeps_one || has_long_password(state, user).await? {
        return Ok(());
    }
    Err(Problem::field(
        Conflict,
        "accessLevel",
        "Admin",
        "takes a password of at least 12 characters, and the account's is not known to have \
         them: send a new one as password along with it, or have its owner set one first",
    ))
}

/// Changes fields of an account, but never those of the last administrator so that there
/// is none any more.
async fn write(
    state: &Accounts,
    caller: &Caller,
    user: &Arc<KiteUser>,
    condition: IfMatch,
    spec: Map<String, Value>,
    mut notes: Map<String, Value>,
    form: Form,
) -> Result<KiteUser, Problem> {
    notes.append(&mut note_edit(user, &spec));
    let is_lowered = lowers(user, &spec);
    let writing = {
        let (state, user, spec) = (state.clone(), Arc::clone(user), spec.clone().into());
        async move {
            let users = &state.caches().users;
            edit_noting(
                state.store(),
                users,
                user.as_ref(),
                &condition,
                &spec,
                &notes,
                &form,
            )
            .await
        }
    };
    if !is_lowered {
        return writing.await;
    }
    match lower(state, user, caller.way_in(), &spec, writing).await? {
        Lowered::Done(edited) => Ok(edited),
        Lowered::Last | Lowered::TakenBack(_) => Err(last_admin(user)),
    }
}

fn last_admin(user: &KiteUser) -> Problem {
    Problem::new(
        Conflict,
        format!(
            "{} stays as it is: there would be no administrator left who can come in; give \
             somebody else the access level Admin first",
            user.spec.username
        ),
    )
}

/// `DELETE /api/v1/admin/users/{name}`
async fn delete(
    State(state): State<Accounts>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    condition: IfMatch,
) -> Result<Accepted<UserView>, Problem> {
    let user = find(&state, &caller, &name).await?;
    caller.require(AccountAction::DeleteUser, whose(&caller, &user))?;
    condition.check(user.as_ref())?;
    let lowering = Map::from_iter([("accessLevel".to_owned(), json!(AccessLevel::User))]);
    if lowers(&user, &lowering) {
        // What is deleted cannot be taken back, as this can.
        let form = Form::new(Map::new()).speaking(state.settings().vocabulary);
        let lowered = write(
            &state,
            &caller,
            &user,
            condition,
            lowering,
            Map::new(),
            form,
        )
        .await?;
        kite_rest::delete(state.store(), &lowered, &IfMatch::default()).await?;
    } else {
        kite_rest::delete(state.store(), user.as_ref(), &condition).await?;
    }
    state.caches().users.caught_up_with_deletion(&user).await;
    forget_password(&state, &user).await;
    end_sessions_of(&state, &user).await?;
    tracing::info!(by = caller.name(), user = name, "deleted a user");
    let mut view = UserView::of(&user);
    view.deleting = true;
    Ok(Answer::new(view))
}
