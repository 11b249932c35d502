//! Offers: VMs of a fixed size that administrators give away and users claim.

use std::{borrow::Cow, sync::Arc};

use aide::axum::{
    ApiRouter,
    routing::{delete_with, get_with, post_with},
};
use axum::extract::{Path, State};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kite_core::{
    cluster::ObjectKey,
    crd::{
        AccessLevel, KiteVirtualMachine, KiteVirtualMachineOffer, KiteVirtualMachineOfferSpec,
        OfferClaim, OfferPhase,
    },
    quantity::Bytes,
    span::Span,
};
use kite_identity::{Caller, Principal};
use kite_rest::{
    Accepted, Answer, Bounds, Created, Deleting, Form, IdempotencyKey, IfMatch, Input, Items,
    LABEL, Named, Page, Problem, ProblemKind, Sent, cache::Cache, openapi::about, require_future,
};
use kube::ResourceExt as _;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    caches::Caches,
    catalogue::{self, Catalogued},
    owned,
    policy::{Action, Whose},
    state::ApiState,
    vm_view::VmView,
    vms::{self, Claim},
};

impl Catalogued for KiteVirtualMachineOffer {
    const WHAT: &'static str = "offer";
    const PLACE: &'static str = "/api/v1/admin/offers";
    type View = OfferView;

    fn copies(caches: &Caches) -> &Cache<Self> {
        &caches.offers
    }

    fn view(&self) -> OfferView {
        OfferView::inside(self)
    }
}

/// The paths below `/offers` and `/admin/offers`.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    use ProblemKind::{Conflict, NotFound, QuotaExceeded, Taken};
    ApiRouter::new()
        .api_route(
            "/offers",
            get_with(
                list,
                about(
                    "catalogue",
                    "listOffers",
                    "List offers that one can claim",
                    &[],
                ),
            ),
        )
        .api_route(
            "/offers/{name}/claim",
            post_with(
                claim,
                about(
                    "catalogue",
                    "claimOffer",
                    "Create a VM from an offer",
                    &[NotFound, Taken, QuotaExceeded, Conflict],
                ),
            ),
        )
        .api_route(
            "/admin/offers",
            get_with(
                list_all,
                about("admin", "listAllOffers", "List all offers", &[]),
            )
            .post_with(
                create,
                about("admin", "createOffer", "Offer a VM", &[Taken]),
            ),
        )
        .api_route(
            "/admin/offers/{name}",
            delete_with(
                delete,
                about(
                    "admin",
                    "deleteOffer",
                    "Withdraw an offer; a VM that was made from it stays",
                    &[NotFound, Conflict],
                ),
            ),
        )
}

/// An offer as the API shows it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Offer")]
pub(crate) struct OfferView {
    /// By which it is claimed.
    name: String,
    /// How many CPUs its VM has.
    cpu: u32,
    /// How much memory its VM has.
    memory: Bytes,
    /// How large its VM's disk is.
    disk: Bytes,
    /// Name of the image that the disk is made from.
    image: String,
    /// Until when it can be claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
    /// How long a VM that is made from it may last.
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime: Option<Span>,
    /// Which of its settings cannot be read, and why: what is shown in their place is
    /// not theirs. Left out where all can.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    /// Whether it can be claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<OfferPhase>,
    /// For administrators: whose it is, and who has it.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    inside: Option<Inside>,
}

/// What only administrators see.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Inside {
    /// The only account that can claim it; everybody where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// Who claimed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_by: Option<OfferClaim>,
    /// Why it is as it is.
    conditions: Vec<Condition>,
}

impl OfferView {
    pub(crate) fn of(offer: &KiteVirtualMachineOffer) -> Self {
        let spec = offer.spec.clone();
        Self {
            name: offer.name_any(),
            cpu: spec.cpu,
            memory: spec.memory,
            disk: spec.disk,
            image: spec.image,
            expires_at: spec.expires_at,
            lifetime: spec.lifetime,
            unreadable: offer.unreadable().map(Cow::into_owned),
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
pub(crate) fn is_for(offer: &KiteVirtualMachineOffer, caller: &Principal) -> bool {
    let user = offer.spec.user.as_deref();
    user.is_none_or(|user| user == caller.name())
}

/// The offers that `caller` can claim.
pub(crate) fn open_to(state: &ApiState, caller: &Principal) -> Vec<Arc<KiteVirtualMachineOffer>> {
    state
        .caches()
        .offers
        .list(|offer| is_open_to(offer, caller))
}

/// Whether `caller` can claim the offer.
pub(crate) fn is_open_to(offer: &KiteVirtualMachineOffer, caller: &Principal) -> bool {
    is_for(offer, caller) && matches!(phase(offer), None | Some(OfferPhase::Available))
}

/// `GET /api/v1/offers`: those that the caller can claim.
async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
) -> Result<Answer<Items<OfferView>>, Problem> {
    caller.require(Action::SeeOffers, Whose::Own)?;
    let mut offers = open_to(&state, &caller);
    offers.retain(|offer| page.wants(texts(offer)));
    Ok(Answer::new(page.cut(&offers, OfferView::of)))
}

/// What people look for an offer by.
fn texts(offer: &KiteVirtualMachineOffer) -> impl Iterator<Item = &str> {
    let name = offer.metadata.name.as_deref();
    [name, Some(&*offer.spec.image), offer.spec.user.as_deref()]
        .into_iter()
        .flatten()
}

/// `POST /api/v1/offers/{name}/claim`: a VM that is made from the offer. Who has
/// it is decided by the controller: of two claims in the same instant both VMs
/// are created, and one of them gets the offer.
async fn claim(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    once: IdempotencyKey,
    Sent { input, mut form }: Sent<Claim>,
) -> Result<Created<VmView>, Problem> {
    caller.require(Action::CreateVm, Whose::Own)?;
    let offer = catalogue::find::<KiteVirtualMachineOffer>(&state, &name).await?;
    if !is_for(&offer, &caller) {
        // Not told that there is one.
        return Err(Problem::not_found("offer", &name));
    }
    let owner = Arc::clone(caller.user());
    if let Some(obstacle) = obstacle(&state, &caller, &offer) {
        // Perhaps this very request has claimed it, and its answer was lost.
        let made =
            owned::made_by::<KiteVirtualMachine>(&state, &caller, &owner, &once, &form).await?;
        return made.ok_or(obstacle);
    }
    let mut end = None;
    if let Some(lifetime) = &offer.spec.lifetime {
        if form.peek::<Time>("expiresAt").is_some() {
            form.error(
                "expiresAt",
                "is decided by the offer's lifetime: leave it out",
            );
        }
        let now = Timestamp::now();
        let latest = now.checked_add(lifetime.duration());
        end = Some(Time(latest.unwrap_or(Timestamp::MAX)));
    }
    let new = input.map(|claim| claim.of(&offer.spec, end));
    Box::pin(vms::make(
        &state,
        &caller,
        &owner,
        once,
        new,
        form,
        Some(name),
    ))
    .await
}

/// Why nobody can claim an offer.
fn obstacle(
    state: &ApiState,
    caller: &Principal,
    offer: &KiteVirtualMachineOffer,
) -> Option<Problem> {
    let name = offer.name_any();
    let too_late = match phase(offer) {
        None | Some(OfferPhase::Available) => None,
        Some(OfferPhase::Claimed) if is_claimed_by(offer, caller) => {
            Some("you have claimed it yourself, and an offer is for one VM")
        }
        Some(OfferPhase::Claimed) => Some("somebody else has claimed it"),
        Some(OfferPhase::Expired) if offer.unreadable().is_some() => {
            Some("what it offers cannot be read; tell an administrator")
        }
        Some(OfferPhase::Expired) => Some("its time is over"),
        Some(OfferPhase::Deleting) => Some("it is being withdrawn"),
    };
    if let Some(why) = too_late {
        return Some(Problem::new(
            ProblemKind::Taken,
            format!("the offer {name:?} cannot be claimed any more: {why}; choose another"),
        ));
    }
    let why = vms::obstacle_of_offer(state, &offer.spec)?;
    Some(Problem::new(
        ProblemKind::Conflict,
        format!(
            "the offer {name:?} cannot be claimed: {why}; choose another, or tell an \
             administrator"
        ),
    ))
}

/// Whether the caller's is the VM that the offer is claimed for.
fn is_claimed_by(offer: &KiteVirtualMachineOffer, caller: &Principal) -> bool {
    let claim = offer.status.as_ref().and_then(|it| it.claimed_by.as_ref());
    claim.is_some_and(|claim| claim.user.as_deref() == Some(&*caller.name()))
}

/// `GET /api/v1/admin/offers`
async fn list_all(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
) -> Result<Answer<Items<OfferView>>, Problem> {
    caller.require(Action::ManageOffers, Whose::Other(AccessLevel::ReadOnly))?;
    let offers = state.caches().offers.list(|offer| page.wants(texts(offer)));
    Ok(Answer::new(page.cut(&offers, OfferView::inside)))
}

/// An offer that an administrator makes.
pub(crate) struct NewOffer {
    name: String,
    spec: KiteVirtualMachineOfferSpec,
}

impl Input for NewOffer {
    const NAME: &'static str = "NewOffer";
    const MEANING: &'static [(&'static str, &'static str)] = &[(
        "name",
        "Name of the offer: lower-case letters, digits and hyphens.",
    )];
    const BOUNDS: &'static [(&'static str, Bounds)] = &[("name", LABEL)];

    fn example() -> Option<Value> {
        Some(json!({
            "name": "small",
            "cpu": 1,
            "memory": "1Gi",
            "disk": "10Gi",
            "image": "debian-12",
            "lifetime": "720h",
        }))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let name = form.required("name");
        let cpu = form.required("cpu");
        let memory = form.required("memory");
        let disk = form.required("disk");
        let image = form.required("image");
        let expires_at: Option<Time> = form.optional("expiresAt");
        require_future(
            form,
            "expiresAt",
            expires_at.as_ref(),
            "leave it out if the offer is to last until it is claimed",
        );
        let lifetime = form.optional("lifetime");
        let user = form.optional("user");
        Some(Self {
            name: name?,
            spec: KiteVirtualMachineOfferSpec {
                cpu: cpu?,
                memory: memory?,
                disk: disk?,
                image: image?,
                expires_at,
                lifetime,
                user,
                unreadable: None,
            },
        })
    }

    fn resource(generator: &mut SchemaGenerator) -> Option<Schema> {
        Some(KiteVirtualMachineOfferSpec::json_schema(generator))
    }
}

/// `POST /api/v1/admin/offers`
async fn create(
    State(state): State<ApiState>,
    caller: Caller,
    once: IdempotencyKey,
    Sent { input, mut form }: Sent<NewOffer>,
) -> Result<Created<OfferView>, Problem> {
    caller.require(Action::ManageOffers, Whose::Other(AccessLevel::ReadOnly))?;
    let (image, disk) = (form.peek("image"), form.peek("disk"));
    vms::check_image(&state, &mut form, image, disk);
    if let Some(user) = form.peek::<String>("user")
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
    let object = |NewOffer { name, spec }| KiteVirtualMachineOffer::new(&name, spec);
    catalogue::create(&state, &caller, once, &mut form, input, (model(), object)).await
}

/// An offer that the API server takes, to try single fields with.
fn model() -> KiteVirtualMachineOffer {
    let spec = KiteVirtualMachineOfferSpec {
        cpu: 1,
        memory: Bytes::from_gib(1),
        disk: Bytes::from_gib(10),
        image: "model".to_owned(),
        expires_at: None,
        lifetime: None,
        user: None,
        unreadable: None,
    };
    KiteVirtualMachineOffer::new("kite-model", spec)
}

/// `DELETE /api/v1/admin/offers/{name}`. A VM that was made from it stays.
async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
) -> Result<Accepted<Deleting>, Problem> {
    caller.require(Action::ManageOffers, Whose::Other(AccessLevel::ReadOnly))?;
    catalogue::delete::<KiteVirtualMachineOffer>(&state, &caller, name, &IfMatch::default()).await
}
