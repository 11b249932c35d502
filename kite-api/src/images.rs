//! The catalogue of images.

mod input;
mod view;

use std::sync::Arc;

use aide::axum::{ApiRouter, routing::get_with};
use axum::extract::{Path, State};
use kite_core::crd::{AccessLevel, KiteImage};
use kite_identity::Caller;
use kite_rest::{
    Accepted, Answer, Created, Deleting, Form, IdempotencyKey, IfMatch, Items, Named, Page,
    Problem, ProblemKind, Sent, cache::Cache, etag_of, finish_edit, openapi::about, whole_of_edit,
};

use self::input::{Edit, NewImage, model};
pub(crate) use self::view::ImageView;
use crate::{
    caches::Caches,
    catalogue::{self, Catalogued},
    policy::{Action, Whose},
    state::ApiState,
};

impl Catalogued for KiteImage {
    const WHAT: &'static str = "image";
    const PLACE: &'static str = "/api/v1/admin/images";
    type View = ImageView;

    fn copies(caches: &Caches) -> &Cache<Self> {
        &caches.images
    }

    fn view(&self) -> ImageView {
        ImageView::inside(self)
    }
}

/// The paths below `/images` and `/admin/images`.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    use ProblemKind::{Conflict, NotFound, Taken};
    ApiRouter::new()
        .api_route(
            "/images",
            get_with(list, about("catalogue", "listImages", "List images", &[])),
        )
        .api_route(
            "/admin/images",
            get_with(
                list_all,
                about(
                    "admin",
                    "listAllImages",
                    "List images with where they come from",
                    &[],
                ),
            )
            .post_with(
                create,
                about(
                    "admin",
                    "createImage",
                    "Add an image to the catalogue",
                    &[Taken],
                ),
            ),
        )
        .api_route(
            "/admin/images/{name}",
            get_with(get, about("admin", "getImage", "See an image", &[NotFound]))
                .patch_with(
                    patch,
                    about(
                        "admin",
                        "editImage",
                        "Change what is said of an image",
                        &[NotFound, Conflict],
                    ),
                )
                .delete_with(
                    delete,
                    about(
                        "admin",
                        "deleteImage",
                        "Take an image out of the catalogue; VMs that were made from it stay",
                        &[NotFound, Conflict],
                    ),
                ),
        )
}

/// `GET /api/v1/images`
async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
) -> Result<Answer<Items<ImageView>>, Problem> {
    caller.require(Action::SeeImages, Whose::Other(AccessLevel::Admin))?;
    let images = found(&state, &page);
    Ok(Answer::new(page.cut(&images, ImageView::of)))
}

/// `GET /api/v1/admin/images`
async fn list_all(
    State(state): State<ApiState>,
    caller: Caller,
    page: Page,
) -> Result<Answer<Items<ImageView>>, Problem> {
    require(&caller)?;
    let images = found(&state, &page);
    Ok(Answer::new(page.cut(&images, ImageView::inside)))
}

/// The images that are looked for.
fn found(state: &ApiState, page: &Page) -> Vec<Arc<KiteImage>> {
    state.caches().images.list(|image| {
        let name = image.metadata.name.as_deref();
        let words = [name, image.spec.display_name.as_deref()];
        page.wants(words.into_iter().flatten())
    })
}

/// `GET /api/v1/admin/images/{name}`
async fn get(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
) -> Result<Answer<ImageView>, Problem> {
    require(&caller)?;
    let image = catalogue::find::<KiteImage>(&state, &name).await?;
    Ok(answer(&image))
}

fn require(caller: &Caller) -> Result<(), Problem> {
    caller.require(Action::ManageImages, Whose::Other(AccessLevel::ReadOnly))
}

/// `POST /api/v1/admin/images`
async fn create(
    State(state): State<ApiState>,
    caller: Caller,
    once: IdempotencyKey,
    Sent { input, mut form }: Sent<NewImage>,
) -> Result<Created<ImageView>, Problem> {
    require(&caller)?;
    require_source(&state, &mut form);
    let object = |NewImage { name, spec }| KiteImage::new(&name, spec);
    catalogue::create(&state, &caller, once, &mut form, input, (model(), object)).await
}

/// That administrators of the cluster let images come from there: whatever an importer reaches
/// becomes a disk that people read.
fn require_source(state: &ApiState, form: &mut Form) {
    let platform = state.platform();
    if let Some(url) = form.peek::<String>("url")
        && !platform.admits_image(&url)
    {
        let sources: Vec<_> = platform.image_sources().collect();
        let sources = match &*sources {
            [] => "nowhere".to_owned(),
            some => some.join(", "),
        };
        form.error(
            "url",
            format!(
                "is not below a place from which images may come ({sources}): use one of those, or \
                 ask an administrator of the cluster, who can set spec.imageSources of KitePlatform \
                 default"
            ),
        );
    }
}

/// `PATCH /api/v1/admin/images/{name}`
async fn patch(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
    condition: IfMatch,
    Sent { input, mut form }: Sent<Edit>,
) -> Result<Answer<ImageView>, Problem> {
    require(&caller)?;
    let image = catalogue::find::<KiteImage>(&state, &name).await?;
    let image = image.as_ref();
    let store = state.store();
    let Edit(spec) = finish_edit(store, &mut form, input, image).await?;
    if spec.is_empty() {
        condition.check(image)?;
        return Ok(answer(image));
    }
    let copies = &state.caches().images;
    let spec = spec.into();
    match kite_rest::edit(store, copies, image, &condition, &spec, &form).await {
        Ok(edited) => Ok(answer(&edited)),
        Err(problem) => Err(whole_of_edit::<Edit, _>(store, &mut form, problem, image).await),
    }
}

fn answer(image: &KiteImage) -> Answer<ImageView> {
    Answer::new(ImageView::inside(image)).with_etag(&etag_of(image))
}

/// `DELETE /api/v1/admin/images/{name}`
async fn delete(
    State(state): State<ApiState>,
    caller: Caller,
    Path(Named { name }): Path<Named>,
) -> Result<Accepted<Deleting>, Problem> {
    require(&caller)?;
    catalogue::delete::<KiteImage>(&state, &caller, name).await
}
