//! The catalogue of images.

use axum::{Json, extract::State};
use kite_core::crd::{AccessLevel, ImagePhase, KiteImage, OsFamily};
use kite_core::quantity::Bytes;
use kube::ResourceExt as _;
use serde::Serialize;

use crate::{
    auth::Caller,
    policy::{Action, Whose},
    problem::Problem,
    state::ApiState,
    web::Items,
};

/// An image as people choose one.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageView {
    name: String,
    display_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    os_family: OsFamily,
    min_disk: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<ImagePhase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<String>,
}

impl ImageView {
    fn of(image: &KiteImage) -> Self {
        let status = image.status.clone().unwrap_or_default();
        let name = image.name_any();
        Self {
            display_name: image
                .spec
                .display_name
                .clone()
                .unwrap_or_else(|| name.clone()),
            name,
            description: image.spec.description.clone(),
            os_family: image.spec.os_family,
            min_disk: image.spec.min_disk.clone(),
            phase: status.phase,
            progress: status.progress,
        }
    }
}

/// `GET /api/v1/images`
pub(crate) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
) -> Result<Json<Items<ImageView>>, Problem> {
    caller.require(Action::SeeImages, Whose::Other(AccessLevel::Admin))?;
    let images = state.caches().images.list(|_| true);
    Ok(Json(Items {
        items: images.iter().map(|image| ImageView::of(image)).collect(),
    }))
}
