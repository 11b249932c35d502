//! News as server-sent events: what a page shows, and whatever changes of it.
//!
//! A stream begins with everything (`snapshot`) and goes on with what changes.
//! Who reads too slowly to be told each change is given everything again. So a
//! client needs no memory of where it was: it connects again and is right.

mod feed;

use std::{convert::Infallible, time::Duration};

use aide::{
    OperationOutput,
    axum::{ApiRouter, routing::get_with},
    generate::GenContext,
    openapi::{self, MediaType, Operation, StatusCode},
};
use axum::{
    extract::{Query, State},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use futures::{Stream, StreamExt as _, stream::BoxStream};
use indexmap::IndexMap;
use kite_core::crd::AccessLevel;
use kite_identity::{AccountAction, Caller, UserView};
use kite_rest::{Problem, ProblemKind, audit::note, openapi::about, openapi::schema_object};
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};

use self::feed::Feed;

use crate::{
    event_places::Place,
    images::ImageView,
    offers::OfferView,
    policy::{Action, Whose},
    state::ApiState,
    vm_view::VmView,
};

/// A comment is sent when there was nothing else for so long, so that nobody in
/// between takes the connection for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The path of the news.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    ApiRouter::new().api_route(
        "/events",
        get_with(
            events,
            about(
                "events",
                "followEvents",
                "Follow VMs, images, offers and the own account",
                &[ProblemKind::Malformed, ProblemKind::TooManyRequests],
            ),
        ),
    )
}

/// What is followed.
#[derive(Deserialize, JsonSchema)]
struct Scope {
    /// Everybody's VMs, for those who may see them.
    #[serde(default)]
    all: bool,
    /// Of which VMs it is told that their sessions have changed. By default of none.
    sessions: Option<Followed>,
    /// Of whose snapshots and volumes it is told that they have changed. By default of nobody's.
    disks: Option<Followed>,
}

/// Whose it is that is followed.
#[derive(Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Followed {
    /// One's own.
    Own,
    /// Everybody's, for those who may see it.
    All,
}

impl Followed {
    /// Whose one must be allowed to see.
    fn whose(self) -> Whose {
        match self {
            Self::Own => Whose::Own,
            Self::All => Whose::Other(AccessLevel::Admin),
        }
    }
}

/// Everything that a stream tells of.
#[derive(Serialize, JsonSchema)]
struct Snapshot {
    /// VMs.
    vms: Vec<VmView>,
    /// Images of the catalogue.
    images: Vec<ImageView>,
    /// Those that the caller can claim.
    offers: Vec<OfferView>,
    /// The caller's account.
    me: UserView,
}

/// What is not there any more.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Gone {
    /// Its name.
    name: String,
    /// For VMs.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// What told it from others of the same name.
    uid: String,
}

/// The VM whose sessions or snapshots are others than they were.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "VmWithNews")]
struct WithNews {
    /// Name of the VM.
    name: String,
    /// Name of the account that it belongs to.
    owner: String,
}

/// The account whose volumes are others than they were.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OwnerWithNews")]
struct OwnerWithNews {
    /// Name of the account.
    owner: String,
}

/// `GET /api/v1/events`
async fn events(
    State(state): State<ApiState>,
    caller: Caller,
    Query(scope): Query<Scope>,
) -> Result<News, Problem> {
    caller.require(AccountAction::UseAccount, Whose::Own)?;
    for action in [Action::SeeVm, Action::SeeImages, Action::SeeOffers] {
        caller.require(action, Whose::Own)?;
    }
    if scope.all {
        caller.require(Action::SeeVm, Whose::Other(AccessLevel::Admin))?;
    }
    if let Some(sessions) = scope.sessions {
        caller.require(Action::SeeVmSessions, sessions.whose())?;
    }
    if let Some(disks) = scope.disks {
        caller.require(Action::SeeSnapshots, disks.whose())?;
        caller.require(Action::SeeVolumes, disks.whose())?;
    }
    if scope.all || [scope.sessions, scope.disks].contains(&Some(Followed::All)) {
        note(|notes| notes.of(None));
    }
    let place = state.event_places().take(&caller.name())?;
    let Caller(principal) = caller;
    let feed = Feed::new(state, principal, &scope)?;
    Ok(News(stream(feed, place).boxed()))
}

/// The feed's events until it ends; the place is free again then.
fn stream(feed: Feed, place: Place) -> impl Stream<Item = Result<Event, Infallible>> {
    futures::stream::unfold((feed, place), |(mut feed, place)| async {
        let event = feed.next().await?;
        Some((Ok(event), (feed, place)))
    })
}

/// An answer that does not end.
struct News(BoxStream<'static, Result<Event, Infallible>>);

impl IntoResponse for News {
    fn into_response(self) -> Response {
        let heartbeat = KeepAlive::new().interval(HEARTBEAT);
        Sse::new(self.0).keep_alive(heartbeat).into_response()
    }
}

impl OperationOutput for News {
    type Inner = Snapshot;

    fn inferred_responses(
        ctx: &mut GenContext,
        _: &mut Operation,
    ) -> Vec<(Option<StatusCode>, openapi::Response)> {
        // As OpenAPI has it, the schema is that of each event.
        let kinds = [
            (vec!["snapshot"], ctx.schema.subschema_for::<Snapshot>()),
            (
                vec!["vm-deleted", "image-deleted", "offer-deleted"],
                ctx.schema.subschema_for::<Gone>(),
            ),
            (
                vec!["vm-sessions", "vm-snapshots"],
                ctx.schema.subschema_for::<WithNews>(),
            ),
            (vec!["volumes"], ctx.schema.subschema_for::<OwnerWithNews>()),
            (
                vec!["vm", "image", "offer", "me", "signed-out"],
                json_schema!({ "type": "object" }),
            ),
        ];
        let kinds = kinds.map(|(events, data)| {
            json_schema!({
                "type": "object",
                "properties": {
                    "event": { "type": "string", "enum": events },
                    "data": {
                        "type": "string",
                        "contentMediaType": "application/json",
                        "contentSchema": data,
                    },
                },
                "required": ["event", "data"],
            })
        });
        let schema = json_schema!({ "oneOf": kinds });
        let content = MediaType {
            schema: Some(schema_object(schema)),
            ..MediaType::default()
        };
        let response = openapi::Response {
            description: "First `snapshot` with `{vms, images, offers, me}`, then, as it happens, \
                          `vm`, `image`, `offer` and `me` with the object as other requests \
                          show it, `vm-deleted`, `image-deleted` and `offer-deleted` with \
                          `{name, owner?, uid}`, if asked for `vm-sessions` and `vm-snapshots` \
                          with `{name, owner}` of a VM whose sessions or snapshots have changed \
                          and `volumes` with the `{owner}` of some that have, another `snapshot` for who was too \
                          slow, and `signed-out` when the session is over, which is the last."
                .to_owned(),
            content: IndexMap::from_iter([("text/event-stream".to_owned(), content)]),
            ..openapi::Response::default()
        };
        vec![(Some(StatusCode::Code(200)), response)]
    }
}
