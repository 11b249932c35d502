//! The platform's settings, for administrators: the `KitePlatform` named
//! `default`.

use std::{borrow::Cow, sync::Arc};

use aide::axum::{ApiRouter, routing::get_with};
use axum::extract::State;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ObjectKey},
    crd::{
        AccessLevel, ClusterSetting, Exposure, GatewayExposure, KitePlatform, KitePlatformSpec,
        KitePlatformStatus, SecondFactorOf, SignInProvider, SignUp, WebExposure,
    },
    names,
};
use kite_identity::{Caller, require_own_factor};
use kite_rest::{
    Answer, Change, Field, FieldError, Form, IfMatch, Input, Listed, OneOf, Partial, Problem,
    ProblemKind, Sent, as_map, change_to_json, edit, etag_of, finish_edit, judge_edit,
    openapi::about,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    policy::{Action, Whose},
    state::ApiState,
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
    /// What was seen.
    status: KitePlatformStatus,
    /// Which of the settings cannot be read, and why: what is shown in their place is not
    /// theirs, and keeps closed what they may have closed. Left out where all can.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
}

fn answer(platform: &KitePlatform) -> Answer<PlatformView> {
    let view = PlatformView {
        spec: platform.spec.clone(),
        etag: etag_of(platform),
        status: platform.status.clone().unwrap_or_default(),
        unreadable: platform.spec.unreadable.clone(),
    };
    Answer::new(view).with_etag(&etag_of(platform))
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
/// stays, and null removes. What [`ClusterSetting`] names is refused.
pub(crate) struct PlatformEdit(Map<String, Value>);

impl Input for PlatformEdit {
    const NAME: &'static str = "PlatformEdit";

    fn example() -> Option<Value> {
        Some(json!({
            "signUp": "Open",
            "blockedNetworks": ["198.51.100.0/24"],
            "gateway": {"publicHost": "ssh.example.org"},
        }))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let networks = form.change::<Networks>("blockedNetworks");
        let nameservers = form.change::<Nameservers>("nameservers");
        let labels = form.change::<Labels>("reservedDomainPrefixes");
        let sources = form.change::<Sources>("imageSources");
        let providers = form.change::<Listed<SignInProvider>>("signInProviders");
        Some(Self(as_map([
            form.changed("signUp")
                .map(|OneOf::<SignUp>(sign_up)| ("signUp", json!(sign_up))),
            change_to_json("signUpsPerDay", form.change::<u32>("signUpsPerDay")),
            form.changed("requireSecondFactor")
                .map(|OneOf::<SecondFactorOf>(whose)| ("requireSecondFactor", json!(whose))),
            change_to_json("signInProviders", providers.map(|it| it.0)),
            change_to_json("baseDomain", form.change::<String>("baseDomain")),
            change_to_json("storageClass", form.change::<String>("storageClass")),
            change_to_json("imageNamespace", form.change::<String>("imageNamespace")),
            change_to_json("blockedNetworks", networks.map(|it| it.0)),
            change_to_json("nameservers", nameservers.map(|it| it.0)),
            change_to_json("reservedDomainPrefixes", labels.map(|it| it.0)),
            change_to_json("imageSources", sources.map(|it| it.0)),
            change_to_json("exposure", part::<Exposure>(form, "exposure")),
            change_to_json("web", part::<WebExposure>(form, "web")),
            change_to_json("gateway", part::<GatewayExposure>(form, "gateway")),
        ])))
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(KitePlatformSpec::json_schema(generator))
    }
}

/// Lists of texts, each with what is expected where something else is sent.
macro_rules! lists {
    ($($(#[$meaning:meta])* $name:ident, $expected:literal;)*) => { $(
        $(#[$meaning])*
        #[derive(JsonSchema)]
        #[schemars(transparent)]
        struct $name(Vec<String>);

        impl Field for $name {
            fn expected() -> Cow<'static, str> {
                $expected.into()
            }

            fn parse(value: &Value) -> Option<Self> {
                Vec::parse(value).map(Self)
            }
        }
    )* };
}

lists! {
    /// Networks in CIDR notation.
    Networks, "a list of networks such as [\"198.51.100.0/24\"]";
    /// Addresses of nameservers.
    Nameservers, "a list of addresses such as [\"192.0.2.53\"]";
    /// What addresses of images begin with.
    Sources, "a list of places such as [\"https://images.example.org/public/\"]";
    /// Labels below the base domain.
    Labels, "a list of labels such as [\"www\", \"login\"]";
}

/// Reads what of an object is changed.
fn part<T: JsonSchema>(form: &mut Form, name: &'static str) -> Change<Map<String, Value>> {
    form.change::<Partial<T>>(name).map(|part| part.0)
}

/// `PATCH /api/v1/admin/platform`
async fn patch(
    State(state): State<ApiState>,
    caller: Caller,
    condition: IfMatch,
    Sent { input, mut form }: Sent<PlatformEdit>,
) -> Result<Answer<PlatformView>, Problem> {
    require(&caller)?;
    if let Some(PlatformEdit(spec)) = &input
        && spec.contains_key("signInProviders")
    {
        caller.require(Action::ManageProviders, Whose::Other(AccessLevel::ReadOnly))?;
    }
    let factors = form.peek("requireSecondFactor").map(|OneOf(whose)| whose);
    if factors.is_some() {
        check_factors(&caller)?;
    }
    let there = state.platform_object();
    refuse_of_cluster(&state, &mut form, there.as_deref()).await;
    let PlatformEdit(spec) = match &there {
        Some(platform) => finish_edit(state.store(), &mut form, input, platform.as_ref()).await?,
        None => form.finish_with(input)?,
    };
    if let Some(asked) = factors {
        require_factor_oneself(&state, &caller, asked).await?;
    }
    let platform = match there {
        Some(platform) => platform,
        None => Arc::new(create(&state).await?),
    };
    let fields: Vec<&String> = spec.keys().collect();
    tracing::info!(by = caller.name(), ?fields, "edits the platform");
    let cache = &state.caches().platforms;
    let spec = Value::from(spec.clone());
    let edited = edit(
        state.store(),
        cache,
        platform.as_ref(),
        &condition,
        &spec,
        &form,
    )
    .await?;
    Ok(answer(&edited))
}

/// Notes what the body would change that only administrators of the cluster may change.
async fn refuse_of_cluster(state: &ApiState, form: &mut Form, there: Option<&KitePlatform>) {
    let before = there.map(|it| it.spec.clone()).unwrap_or_default();
    let mut refused = ClusterSetting::refused(&before, &form.sound());
    if let (Some(platform), false) = (there, refused.is_empty()) {
        let mut tried = form.to_try();
        judge_edit::<PlatformEdit, _>(state.store(), &mut tried, platform).await;
        // What is wrong inside of it says more.
        refused.retain(|setting| !tried.is_wrong_inside(setting.path));
    }
    form.note(refused.into_iter().map(|setting| FieldError {
        field: setting.path.to_owned(),
        value: None,
        message: setting.refusal(),
    }));
}

/// Who needs a second factor is no API token's to say: it would let in whoever has the
/// token and a password.
fn check_factors(caller: &Caller) -> Result<(), Problem> {
    match caller.token() {
        None => Ok(()),
        Some(token) => Err(Problem::new(
            ProblemKind::Forbidden,
            format!(
                "the API token {:?} may not change requireSecondFactor: no API token may, sign in",
                token.spec.name
            ),
        )),
    }
}

/// Who signs in elsewhere is not kept out by what this platform asks for.
async fn require_factor_oneself(
    state: &ApiState,
    caller: &Caller,
    asked: SecondFactorOf,
) -> Result<(), Problem> {
    match caller.session() {
        Some(_) => require_own_factor(state.accounts(), caller.user(), asked).await,
        None => Ok(()),
    }
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
