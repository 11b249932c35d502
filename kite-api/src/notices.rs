//! What the owner of an account should know of, until they have seen it.
//!
//! Nearly nothing is stored for it: API tokens, keys, places of sign-ins and VMs have their
//! dates, and the account has a mark up to which its owner has seen them. So nothing is
//! told twice, and no crash loses a notice.

use std::time::Duration;

use aide::axum::{
    ApiRouter,
    routing::{get_with, post_with},
};
use axum::extract::State;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    cluster::{Cluster as _, FieldManager, ObjectKey},
    crd::{KiteUser, KiteVirtualMachine},
    names,
};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    auth::{Caller, is_token_of, is_valid, places_of, tokens_of},
    key_dates,
    openapi::about,
    policy::{Action, Whose},
    problem::Problem,
    state::ApiState,
    web::{Answer, Done, Form, Input, Sent},
};

const TAG: &str = "me";

/// The annotation that tells up to when the owner has seen notices.
const SEEN: &str = "hy3ons.github.io/notices-seen";
/// The annotation that tells since when the quota is what it is.
const QUOTA: &str = "hy3ons.github.io/quota-since";
/// The annotation that tells since when there is a second factor, or none any more.
const FACTOR: &str = "hy3ons.github.io/factor-since";
/// The annotation of a VM that tells since when it has its end.
const END: &str = "hy3ons.github.io/end-since";
/// How long before its end a VM is told of.
const AHEAD: Duration = Duration::from_secs(24 * 3600);
/// Most notices that are told at once: the newest.
const MOST: usize = 50;

/// The paths below `/me/notices`.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    ApiRouter::new()
        .api_route(
            "/me/notices",
            get_with(
                list,
                about(TAG, "listNotices", "What one has not seen yet", &[]),
            ),
        )
        .api_route(
            "/me/notices/seen",
            post_with(
                see,
                about(TAG, "seeNotices", "Note that one has seen notices", &[]),
            ),
        )
}

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(crate) enum NoticeKind {
    /// Somebody signed in from a browser or an address that the account was not seen at.
    SignIn,
    /// An API token was made.
    Token,
    /// A key was added that opens all VMs.
    Key,
    /// The account has another password.
    Password,
    /// A second factor was set up, or taken away.
    SecondFactor,
    /// The quota is another.
    Quota,
    /// A VM is switched off soon, as its time is over.
    VmExpires,
    /// A VM that has expired is deleted with its disk.
    VmDeleted,
}

/// Something that the owner of an account should know of.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Notice")]
pub(crate) struct NoticeView {
    /// Tells it from others.
    id: String,
    /// What it is about.
    kind: NoticeKind,
    /// Since when it is so.
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// What it is about by name: the token, the key, the VM, or what the client called
    /// itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The network that somebody signed in from.
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<String>,
    /// When the VM is switched off, or deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    until: Option<String>,
    #[serde(skip)]
    when: Timestamp,
}

impl NoticeView {
    fn new(kind: NoticeKind, of: &str, when: Timestamp) -> Self {
        Self {
            id: names::fingerprint(&format!("{kind:?}\n{of}\n{when}")),
            kind,
            at: when.to_string(),
            name: (!of.is_empty()).then(|| of.to_owned()),
            network: None,
            until: None,
            when,
        }
    }
}

/// What was not seen yet.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NoticeList")]
pub(crate) struct Notices {
    /// The newest first.
    items: Vec<NoticeView>,
}

/// `GET /api/v1/me/notices`
async fn list(State(state): State<ApiState>, caller: Caller) -> Result<Answer<Notices>, Problem> {
    caller.require(Action::UseAccount, Whose::Own)?;
    let items = unseen(&state, caller.user(), Timestamp::now());
    Ok(Answer::new(Notices { items }))
}

/// Up to which notice one has seen them.
pub(crate) struct NoticesSeen {
    until: Time,
}

impl Input for NoticesSeen {
    const NAME: &'static str = "NoticesSeen";
    const MEANING: &'static [(&'static str, &'static str)] = &[(
        "until",
        "The time of the newest notice that was seen. What is later stays.",
    )];

    fn read(form: &mut Form) -> Option<Self> {
        form.required("until").map(|until| Self { until })
    }
}

/// `POST /api/v1/me/notices/seen`
async fn see(
    State(state): State<ApiState>,
    caller: Caller,
    Sent { input, mut form }: Sent<NoticesSeen>,
) -> Result<Done, Problem> {
    // They may be the only trace of a session that was taken.
    caller.require(Action::PutAwayNotices, Whose::Own)?;
    let NoticesSeen { until } = form.finish_with(input)?;
    let user = caller.user();
    // What is still to come was seen by nobody.
    let until = until.0.min(Timestamp::now());
    if seen_until(user).is_some_and(|seen| seen >= until) {
        return Ok(Done::default());
    }
    let patch = json!({
        "metadata": { "uid": user.uid(), "annotations": { SEEN: until.to_string() } },
    });
    let key = ObjectKey::of(user.as_ref());
    let edited = state
        .cluster()
        .edit(FieldManager::API, &key, &patch)
        .await?;
    state.caches().users.caught_up_with(&edited).await;
    Ok(Done::default())
}

fn time_in<K: kube::ResourceExt>(object: &K, name: &str) -> Option<Timestamp> {
    object.annotations().get(name)?.parse().ok()
}

fn seen_until(user: &KiteUser) -> Option<Timestamp> {
    time_in(user, SEEN)
}

/// What `user` has not seen by `now`, the newest first.
fn unseen(state: &ApiState, user: &KiteUser, now: Timestamp) -> Vec<NoticeView> {
    let namespace = names::user_namespace(&user.name_any());
    let vms = state.caches().vms.list_shown(Some(&namespace), |vm| {
        vm.spec.expires_at.is_some() && vm.metadata.deletion_timestamp.is_none()
    });
    let mut notices = of_account(user);
    notices.extend(of_tokens(state, user));
    notices.extend(vms.iter().filter_map(|(vm, _)| of_vm(vm, now)));
    let seen = seen_until(user);
    notices.retain(|it| it.when <= now && seen.is_none_or(|seen| it.when > seen));
    notices.sort_by(|a, b| b.when.cmp(&a.when).then(a.id.cmp(&b.id)));
    notices.truncate(MOST);
    notices
}

/// What the account itself tells.
fn of_account(user: &KiteUser) -> Vec<NoticeView> {
    let mut notices = Vec::new();
    for (_, place) in places_of(user) {
        // Making an account is no news to whoever has just done so.
        if !place.is_first {
            let client = place.client.as_deref().unwrap_or_default();
            let mut notice = NoticeView::new(NoticeKind::SignIn, client, place.at);
            notice.network = place.network;
            notices.push(notice);
        }
    }
    for (key, at) in key_dates::dates_of(user) {
        notices.push(NoticeView::new(NoticeKind::Key, &key, at));
    }
    for (kind, at) in [
        (NoticeKind::Password, key_dates::password_since(user)),
        (NoticeKind::SecondFactor, time_in(user, FACTOR)),
        (NoticeKind::Quota, time_in(user, QUOTA)),
    ] {
        if let Some(at) = at {
            notices.push(NoticeView::new(kind, "", at));
        }
    }
    notices
}

fn of_tokens(state: &ApiState, user: &KiteUser) -> Vec<NoticeView> {
    let platform = state.platform();
    let mut tokens = tokens_of(state, user);
    tokens.retain(|token| is_valid(token) && is_token_of(token, user, &platform));
    let notices = tokens.iter().filter_map(|token| {
        let made = token.creation_timestamp()?.0;
        Some(NoticeView::new(NoticeKind::Token, &token.spec.name, made))
    });
    notices.collect()
}

/// What is told of the end of a VM.
fn of_vm(vm: &KiteVirtualMachine, now: Timestamp) -> Option<NoticeView> {
    let end = vm.spec.expires_at.as_ref()?.0;
    let name = vm.name_any();
    let status = vm.status.as_ref();
    if let Some(expiry) = status.and_then(|status| status.expiry.as_ref()) {
        let mut notice = NoticeView::new(NoticeKind::VmDeleted, &name, expiry.expired_at.0);
        notice.until = Some(expiry.delete_at.0.to_string());
        return Some(notice);
    }
    // One that was given its end a moment ago is told of then, and not before.
    let since = time_in(vm, END).or_else(|| Some(vm.creation_timestamp()?.0));
    let when = since.map_or(end - AHEAD, |since| since.max(end - AHEAD));
    if when > now {
        return None;
    }
    let mut notice = NoticeView::new(NoticeKind::VmExpires, &name, when);
    notice.until = Some(end.to_string());
    Some(notice)
}

fn since_now(annotation: &str) -> Map<String, Value> {
    Map::from_iter([(annotation.to_owned(), json!(Timestamp::now().to_string()))])
}

/// Notes what an account that is about to be made has from its beginning, which is no news.
pub(crate) fn note_new(user: &mut KiteUser) {
    let now = Timestamp::now();
    key_dates::note_new(user, now);
    let annotations = user.annotations_mut();
    annotations.insert(SEEN.to_owned(), now.to_string());
}

/// What is noted when an account gets another quota.
pub(crate) fn note_quota() -> Map<String, Value> {
    since_now(QUOTA)
}

/// What is noted when a VM gets another end.
pub(crate) fn note_end() -> Map<String, Value> {
    since_now(END)
}

/// Notes that the second factor of `user` is another, or gone. That stands where this
/// fails.
pub(crate) async fn note_factor(state: &ApiState, user: &KiteUser) {
    let patch = json!({
        "metadata": { "uid": user.uid(), "annotations": since_now(FACTOR) },
    });
    let key = ObjectKey::of(user);
    let edited = state.cluster().edit(FieldManager::API, &key, &patch).await;
    match edited {
        Ok(edited) => state.caches().users.caught_up_with(&edited).await,
        Err(error) => tracing::warn!(%error, "a change of a second factor is not noted"),
    }
}
