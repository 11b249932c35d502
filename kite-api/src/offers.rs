//! Offers: VMs of a fixed size that administrators give away and users claim.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    response::Response,
};
use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::{
        AccessLevel, KiteVirtualMachineOffer, KiteVirtualMachineOfferSpec, OfferClaim, OfferPhase,
    },
    quantity::Bytes,
};
use kube::{ResourceExt as _, api::PropagationPolicy, core::Duration};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    auth::Caller,
    policy::{Action, Whose},
    problem::{Problem, ProblemKind},
    state::ApiState,
    vms,
    web::{Form, Items},
};

/// An offer as the API shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfferView {
    name: String,
    cpu: u32,
    memory: Bytes,
    disk: Bytes,
    image: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<OfferPhase>,
    /// For administrators: whose it is, and who has it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    inside: Option<Inside>,
}

/// What only administrators see.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inside {
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_by: Option<OfferClaim>,
    conditions: Vec<Condition>,
}

impl OfferView {
    fn of(offer: &KiteVirtualMachineOffer) -> Self {
        let spec = offer.spec.clone();
        Self {
            name: offer.name_any(),
            cpu: spec.cpu,
            memory: spec.memory,
            disk: spec.disk,
            image: spec.image,
            expires_at: spec.expires_at,
            lifetime: spec.lifetime,
            phase: phase(offer),
            inside: None,
        }
    }

    fn inside(offer: &KiteVirtualMachineOffer) -> Self {
        let status = offer.status.clone().unwrap_or_default();
        Self {
            inside: Some(Inside {
                user: offer.spec.user.clone(),
                claimed_by: status.claimed_by,
                conditions: status.conditions,
            }),
            ..Self::of(offer)
        }
    }
}

fn phase(offer: &KiteVirtualMachineOffer) -> Option<OfferPhase> {
    offer.status.as_ref().and_then(|status| status.phase)
}

/// Whether the offer is for `caller`, or for anybody.
fn is_for(offer: &KiteVirtualMachineOffer, caller: &Caller) -> bool {
    let user = offer.spec.user.as_deref();
    user.is_none_or(|user| user == caller.name())
}

/// `GET /api/v1/offers`: those that the caller can claim.
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
) -> Result<Json<Items<OfferView>>, Problem> {
    caller.require(Action::SeeOffers, Whose::Own)?;
    let offers = state.caches().offers.list(|offer| {
        is_for(offer, &caller) && matches!(phase(offer), None | Some(OfferPhase::Available))
    });
    Ok(Json(Items {
        items: offers.iter().map(|offer| OfferView::of(offer)).collect(),
    }))
}

/// `POST /api/v1/offers/{name}/claim`: a VM that is made from the offer. Who has
/// it is decided by the controller: of two claims in the same instant both VMs
/// are created, and one of them gets the offer.
pub(crate) async fn claim(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<String>,
    mut form: Form,
) -> Result<Response, Problem> {
    caller.require(Action::CreateVm, Whose::Own)?;
    let offer = find(&state, &name)?;
    if !is_for(&offer, &caller) {
        // Not told that there is one.
        return Err(Problem::not_found("offer", &name));
    }
    let too_late = match phase(&offer) {
        None | Some(OfferPhase::Available) => None,
        Some(OfferPhase::Claimed) => Some("somebody else has claimed it"),
        Some(OfferPhase::Expired) => Some("its time is over"),
        Some(OfferPhase::Deleting) => Some("it is being withdrawn"),
    };
    if let Some(why) = too_late {
        return Err(Problem::new(
            ProblemKind::Taken,
            format!("the offer {name:?} cannot be claimed any more: {why}; choose another"),
        ));
    }
    for (field, value) in [
        ("cpu", json!(offer.spec.cpu)),
        ("memory", json!(offer.spec.memory)),
        ("disk", json!(offer.spec.disk)),
        ("image", json!(offer.spec.image)),
    ] {
        form.preset(field, value, "is what the offer has: leave it out");
    }
    if let Some(lifetime) = offer.spec.lifetime {
        let end = Timestamp::now() + std::time::Duration::from(lifetime);
        let why = "is decided by the offer's lifetime: leave it out";
        form.preset("expiresAt", json!(Time(end)), why);
    }
    let owner = Arc::clone(caller.user());
    vms::make(&state, &caller, &owner, form, Some(name)).await
}

/// `GET /api/v1/admin/offers`
pub(crate) async fn list_all(
    State(state): State<ApiState>,
    caller: Caller,
) -> Result<Json<Items<OfferView>>, Problem> {
    caller.require(Action::ManageOffers, Whose::Other(AccessLevel::ReadOnly))?;
    let offers = state.caches().offers.list(|_| true);
    Ok(Json(Items {
        items: offers
            .iter()
            .map(|offer| OfferView::inside(offer))
            .collect(),
    }))
}

/// `POST /api/v1/admin/offers`
pub(crate) async fn create(
    State(state): State<ApiState>,
    caller: Caller,
    mut form: Form,
) -> Result<(StatusCode, Json<OfferView>), Problem> {
    caller.require(Action::ManageOffers, Whose::Other(AccessLevel::ReadOnly))?;
    let name: Option<String> = form.required("name");
    let cpu = form.required("cpu");
    let memory = form.required("memory");
    let disk = form.required("disk");
    let image = form.required("image");
    let expires_at = form.optional("expiresAt");
    let lifetime = form.optional("lifetime");
    let user: Option<String> = form.optional("user");
    vms::check_image(&state, &mut form);
    if let Some(user) = &user
        && state
            .caches()
            .users
            .get(&ObjectKey::cluster(user))
            .is_none()
    {
        form.error(
            "user",
            "is no account: write the name of one, or leave it out",
        );
    }
    form.finish()?;
    let (Some(name), Some(cpu), Some(memory), Some(disk), Some(image)) =
        (name, cpu, memory, disk, image)
    else {
        return Err(Problem::invalid(Vec::new()));
    };
    let offer = KiteVirtualMachineOffer::new(
        &name,
        KiteVirtualMachineOfferSpec {
            cpu,
            memory,
            disk,
            image,
            expires_at,
            lifetime,
            user,
        },
    );
    let created = match state.cluster().create(&offer).await {
        Err(ClusterError::AlreadyExists { .. }) => {
            return Err(Problem::field(
                ProblemKind::Taken,
                "name",
                &name,
                "is the name of another offer: choose another",
            ));
        }
        created => created.map_err(|error| form.blame(error))?,
    };
    state.caches().offers.caught_up_with(&created).await;
    tracing::info!(by = caller.name(), offer = name, "created an offer");
    Ok((StatusCode::CREATED, Json(OfferView::inside(&created))))
}

/// `DELETE /api/v1/admin/offers/{name}`. A VM that was made from it stays.
pub(crate) async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    caller.require(Action::ManageOffers, Whose::Other(AccessLevel::ReadOnly))?;
    let offer = find(&state, &name)?;
    state
        .cluster()
        .remove(offer.as_ref(), PropagationPolicy::Background)
        .await?;
    state.caches().offers.caught_up_with_deletion(&offer).await;
    tracing::info!(by = caller.name(), offer = name, "deleted an offer");
    Ok((
        StatusCode::ACCEPTED,
        Json(json!({ "name": name, "deleting": true })),
    ))
}

fn find(state: &ApiState, name: &str) -> Result<Arc<KiteVirtualMachineOffer>, Problem> {
    let found = state.caches().offers.get(&ObjectKey::cluster(name));
    found.ok_or_else(|| Problem::not_found("offer", name))
}
