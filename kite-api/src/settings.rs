//! The platform's settings, for administrators: the `KitePlatform` named
//! `default`.

use std::sync::Arc;

use aide::axum::{ApiRouter, routing::get_with};
use axum::extract::State;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ObjectKey},
    crd::{
        AccessLevel, KitePlatform, KitePlatformSpec, KitePlatformStatus, SignInProvider, SignUp,
    },
    names,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize as _, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    auth::Caller,
    openapi::about,
    policy::{Action, Whose},
    problem::{Problem, ProblemKind},
    state::ApiState,
    users::{as_map, change_to_json},
    web::{Answer, Change, Form, IfMatch, Input, Sent, edit, tag_of},
};

const TAG: &str = "admin";

/// The path of the platform's settings.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    ApiRouter::new().api_route(
        "/admin/platform",
        get_with(
            get,
            about(TAG, "getPlatform", "See the platform's settings", &[]),
        )
        .patch_with(
            patch,
            about(
                TAG,
                "editPlatform",
                "Change the platform's settings",
                &[ProblemKind::Conflict],
            ),
        ),
    )
}

/// The settings as they are wanted, and what came of them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Platform")]
pub(crate) struct PlatformView {
    #[serde(flatten)]
    spec: KitePlatformSpec,
    /// What an edit sends as `If-Match` to count only if nobody else edited since.
    etag: String,
    status: KitePlatformStatus,
}

fn answer(platform: &KitePlatform) -> Answer<PlatformView> {
    let view = PlatformView {
        spec: platform.spec.clone(),
        etag: tag_of(platform),
        status: platform.status.clone().unwrap_or_default(),
    };
    Answer::new(view).tagged(&tag_of(platform))
}

fn require(caller: &Caller) -> Result<(), Problem> {
    caller.require(Action::ManagePlatform, Whose::Other(AccessLevel::ReadOnly))
}

/// `GET /api/v1/admin/platform`: the defaults while nothing was set.
async fn get(
    State(state): State<ApiState>,
    caller: Caller,
) -> Result<Answer<PlatformView>, Problem> {
    require(&caller)?;
    let defaults = || {
        Arc::new(KitePlatform::new(
            names::PLATFORM,
            KitePlatformSpec::default(),
        ))
    };
    Ok(answer(&state.platform_object().unwrap_or_else(defaults)))
}

/// What an administrator changes. Objects are merged: what is not named in them
/// stays, and null removes.
pub(crate) struct PlatformEdit(Map<String, Value>);

impl Input for PlatformEdit {
    const NAME: &'static str = "PlatformEdit";

    fn read(form: &mut Form) -> Option<Self> {
        Some(Self(as_map([
            form.changed::<SignUp>("signUp")
                .map(|sign_up| ("signUp", json!(sign_up))),
            change_to_json("signInProviders", read_providers(form)),
            change_to_json("baseDomain", form.change::<String>("baseDomain")),
            change_to_json("storageClass", form.change::<String>("storageClass")),
            change_to_json("imageNamespace", form.change::<String>("imageNamespace")),
            change_to_json(
                "blockedNetworks",
                form.change::<Vec<String>>("blockedNetworks"),
            ),
            change_to_json("exposure", form.change::<Map<String, Value>>("exposure")),
            change_to_json("web", form.change::<Map<String, Value>>("web")),
            change_to_json("gateway", form.change::<Map<String, Value>>("gateway")),
        ])))
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(KitePlatformSpec::json_schema(generator))
    }
}

/// Reads a list of providers. A misspelt field would be ignored in silence.
fn read_providers(form: &mut Form) -> Change<Vec<Map<String, Value>>> {
    let change = form.change::<Vec<Map<String, Value>>>("signInProviders");
    let Change::Set(providers) = &change else {
        return change;
    };
    let schema = SchemaGenerator::default().into_root_schema_for::<SignInProvider>();
    let known = schema.get("properties").and_then(Value::as_object);
    for (n, provider) in providers.iter().enumerate() {
        let place = format!("signInProviders[{n}]");
        for name in provider.keys() {
            if known.is_some_and(|known| !known.contains_key(name)) {
                let known: Vec<_> = known.into_iter().flat_map(Map::keys).cloned().collect();
                let message = format!("is no field of a provider, which has: {}", known.join(", "));
                form.error(&format!("{place}.{name}"), message);
            }
        }
        if let Err(error) = SignInProvider::deserialize(provider) {
            form.error(&place, format!("cannot be read: {error}"));
        }
    }
    change
}

/// `PATCH /api/v1/admin/platform`
async fn patch(
    State(state): State<ApiState>,
    caller: Caller,
    condition: IfMatch,
    Sent { input, mut form }: Sent<PlatformEdit>,
) -> Result<Answer<PlatformView>, Problem> {
    require(&caller)?;
    let PlatformEdit(spec) = form.finish_with(input)?;
    let platform = match state.platform_object() {
        Some(platform) => platform,
        None => Arc::new(create(&state).await?),
    };
    let fields: Vec<&String> = spec.keys().collect();
    tracing::info!(by = caller.name(), ?fields, "edits the platform");
    let cache = &state.caches().platforms;
    let spec = Value::from(spec.clone());
    let edited = edit(&state, cache, platform.as_ref(), &condition, &spec, &form).await?;
    Ok(answer(&edited))
}

/// The platform with its defaults, to be edited.
async fn create(state: &ApiState) -> Result<KitePlatform, Problem> {
    let platform = KitePlatform::new(names::PLATFORM, KitePlatformSpec::default());
    match state.cluster().create(&platform).await {
        Err(ClusterError::AlreadyExists { .. }) => {
            let key = ObjectKey::cluster(names::PLATFORM);
            Ok(state.cluster().get(&key).await?)
        }
        created => Ok(created?),
    }
}
