//! What the owner of an account should know of, until they have seen it.
//!
//! | Module | What |
//! |---|---|
//! | [`told`] | what was told of last: what differs from it is news |
//! | [`expiry`] | what is told of the end of a VM |
//! | [`write`] | what is written by itself |
//!
//! A notice is there by the same write as what it tells of, or before that, and stays until
//! somebody has named it by its id: so none is lost to a crash, or with what it is about.

mod expiry;
mod told;
mod write;

use std::sync::Arc;

use aide::axum::{
    ApiRouter,
    routing::{get_with, post_with},
};
use axum::extract::State;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kite_core::{
    crd::{KiteUser, KiteVirtualMachine},
    names,
};
use kite_identity::{
    AccountAction, Caller,
    notices::{
        store::{Annotations, Record, Seen, applied, more, stored},
        told::found,
    },
};
use kite_rest::{Answer, Done, Form, Input, Problem, ProblemKind, Sent, openapi::about};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use self::{
    expiry::note_vm_edit,
    told::note_new_vm,
    write::{find_out, forget_end},
};
use self::{
    expiry::{is_seen, is_told, of_vm},
    told::found_of_vm,
};

use crate::{policy::Whose, state::ApiState};

const TAG: &str = "me";

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
                about(
                    TAG,
                    "seeNotices",
                    "Note that one has seen notices",
                    &[ProblemKind::Conflict],
                ),
            ),
        )
}

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum NoticeKind {
    /// Somebody signed in from a browser or an address that the account was not seen at.
    SignIn,
    /// An API token was made.
    Token,
    /// A key was added that opens all VMs.
    Key,
    /// The account was linked with somebody at a sign-in provider, who may sign in to it.
    Identity,
    /// A VM has another key or password with which one may log in to it.
    VmAccess,
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
    /// What it is about by name: the token, the key, the VM, where the sign-in provider is,
    /// or what the client called itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The network that somebody signed in from.
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<String>,
    /// When the VM is switched off, or deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    until: Option<String>,
}

impl NoticeView {
    fn of((id, record): (String, Record<NoticeKind>)) -> Self {
        Self {
            id,
            kind: record.kind,
            at: record.at.to_string(),
            name: record.name,
            network: record.network,
            until: record.until.map(|until| until.to_string()),
        }
    }
}

/// What was not seen yet.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NoticeList")]
pub(crate) struct Notices {
    /// The newest first.
    items: Vec<NoticeView>,
    /// At least so many more there were, of which no more than that is known: of each kind
    /// some are kept.
    more: u32,
}

/// `GET /api/v1/me/notices`
async fn list(State(state): State<ApiState>, caller: Caller) -> Result<Answer<Notices>, Problem> {
    caller.require(AccountAction::UseAccount, Whose::Own)?;
    Ok(Answer::new(unseen(&state, caller.user(), Timestamp::now())))
}

/// What one has seen.
pub(crate) struct NoticesSeen {
    ids: Vec<String>,
    more: Option<u32>,
    until: Option<Time>,
}

impl Input for NoticesSeen {
    const NAME: &'static str = "NoticesSeen";
    const MEANING: &'static [(&'static str, &'static str)] = &[
        (
            "ids",
            "The ids of the notices that were seen. All others stay.",
        ),
        (
            "more",
            "How many more there were when one was told so: these are put away, too.",
        ),
        (
            "until",
            "For clients that name no ids: the time of the newest notice that was seen. All up \
             to then are put away, whether they were shown or not.",
        ),
    ];

    fn example() -> Option<Value> {
        Some(json!({"ids": ["0f3a5c1e9b7d24680f3a5c1e9b7d2468"], "more": 0}))
    }

    fn read(form: &mut Form) -> Option<Self> {
        Some(Self {
            ids: form.optional("ids").unwrap_or_default(),
            more: form.optional("more"),
            until: form.optional("until"),
        })
    }
}

/// `POST /api/v1/me/notices/seen`
async fn see(
    State(state): State<ApiState>,
    caller: Caller,
    Sent { input, mut form }: Sent<NoticesSeen>,
) -> Result<Done, Problem> {
    // They may be the only trace of a session that was taken.
    caller.require(AccountAction::PutAwayNotices, Whose::Own)?;
    let NoticesSeen { ids, more, until } = form.finish_with(input)?;
    let seen = Seen {
        ids: ids.into_iter().collect(),
        more: more.unwrap_or_default(),
        // What is still to come was seen by nobody.
        until: until.map(|until| until.0.min(Timestamp::now())),
    };
    write::see(&state, caller.user(), &seen).await?;
    Ok(Done::default())
}

/// The VMs of `user`.
fn all_vms_of(state: &ApiState, user: &KiteUser) -> Vec<Arc<KiteVirtualMachine>> {
    let namespace = names::user_namespace(&user.name_any());
    let vms = state.caches().vms.list_shown(Some(&namespace), |_| true);
    vms.into_iter().map(|(vm, _)| vm).collect()
}

/// The VMs of `user` that are not being deleted.
pub(crate) fn vms_of(state: &ApiState, user: &KiteUser) -> Vec<Arc<KiteVirtualMachine>> {
    let mut vms = all_vms_of(state, user);
    vms.retain(|vm| vm.metadata.deletion_timestamp.is_none());
    vms
}

/// The annotations of `vm` once what others wrote of it is written down.
pub(crate) fn noted_of_vm(vm: &KiteVirtualMachine, now: Timestamp) -> Annotations {
    applied(vm.annotations(), &found_of_vm(vm, now))
}

/// What `user` has not seen by `now`. What others wrote is found here, too, and written
/// down by the next sweep.
fn unseen(state: &ApiState, user: &KiteUser, now: Timestamp) -> Notices {
    let vms = all_vms_of(state, user);
    let vms: Vec<&KiteVirtualMachine> = vms.iter().map(AsRef::as_ref).collect();
    let there = applied(user.annotations(), &found(user, now));
    let mut notices = stored(&there);
    notices.retain(|(_, record)| is_told(record, &vms, now));
    let mut beyond = more(&there);
    let stay = vms.iter();
    for vm in stay.filter(|vm| vm.metadata.deletion_timestamp.is_none()) {
        let there = noted_of_vm(vm, now);
        notices.append(&mut stored(&there));
        beyond = beyond.saturating_add(more(&there));
        notices.extend(of_vm(vm, now).filter(|(id, _)| !is_seen(vm, id)));
    }
    notices.sort_by(|(a, one), (b, other)| other.at.cmp(&one.at).then(a.cmp(b)));
    Notices {
        items: notices.into_iter().map(NoticeView::of).collect(),
        more: beyond,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use kite_identity::notices::AccountNotice;

    use super::*;

    #[test]
    fn notices_of_accounts_are_among_all_by_the_same_names() {
        for kind in AccountNotice::ALL {
            let all: NoticeKind = serde_json::from_value(json!(kind)).unwrap();
            assert_eq!(format!("{all:?}"), format!("{kind:?}"));
        }
    }
}
