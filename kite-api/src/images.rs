//! The catalogue of images.

use std::borrow::Cow;

use aide::axum::{ApiRouter, routing::get_with};
use axum::extract::State;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kite_core::{
    crd::{AccessLevel, ImagePhase, KiteImage, OsFamily},
    quantity::Bytes,
};
use kite_identity::Caller;
use kite_rest::{Answer, Items, Page, Problem, openapi::about};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    policy::{Action, Whose},
    state::ApiState,
};

/// The paths below `/images`.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    ApiRouter::new().api_route(
        "/images",
        get_with(list, about("catalogue", "listImages", "List images", &[])),
    )
}

/// An image as people choose one.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Image")]
pub(crate) struct ImageView {
    /// By which VMs name it.
    name: String,
    /// What people call it.
    display_name: String,
    /// Why it cannot be read, if it cannot: what is told of it is then as far as it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    /// What it is, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// What kind of system it is.
    os_family: OsFamily,
    /// The smallest disk that an administrator has allowed for it.
    min_disk: Bytes,
    /// How large it is, once that is known: no disk can be smaller, whatever
    /// `minDisk` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<Bytes>,
    /// Whether VMs can be made from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<ImagePhase>,
    /// How much of it is fetched, such as `42.0%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<String>,
    /// Why it is as it is: `Ready`, and `UpToDate` where it is fetched by a schedule.
    conditions: Vec<Condition>,
}

impl ImageView {
    pub(crate) fn of(image: &KiteImage) -> Self {
        let status = image.status.clone().unwrap_or_default();
        let name = image.name_any();
        Self {
            display_name: image
                .spec
                .display_name
                .clone()
                .unwrap_or_else(|| name.clone()),
            name,
            unreadable: image.unreadable().map(Cow::into_owned),
            description: image.spec.description.clone(),
            os_family: image.spec.os_family,
            min_disk: image.spec.min_disk.clone(),
            size: status.size,
            phase: status.phase,
            progress: status.progress,
            conditions: status.conditions,
        }
    }
}

/// `GET /api/v1/images`
async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
) -> Result<Answer<Items<ImageView>>, Problem> {
    caller.require(Action::SeeImages, Whose::Other(AccessLevel::Admin))?;
    let images = state.caches().images.list(|image| {
        let name = image.metadata.name.as_deref();
        page.wants(
            [name, image.spec.display_name.as_deref()]
                .into_iter()
                .flatten(),
        )
    });
    Ok(Answer::new(page.cut(&images, ImageView::of)))
}
