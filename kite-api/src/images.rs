//! The catalogue of images.

mod input;
mod view;

use std::sync::Arc;

use aide::axum::{ApiRouter, routing::get_with};
use axum::extract::{Path, Query, State};
use kite_core::crd::{AccessLevel, KiteImage, KitePlatformSpec};
use kite_identity::Caller;
use kite_rest::{
    Accepted, Answer, Created, Deleting, Form, IdempotencyKey, IfMatch, Items, Named, Page,
    Problem, ProblemKind, Sent, cache::Cache, etag_of, finish_edit, openapi::about, whole_of_edit,
};

use self::input::{Edit, NewImage, model};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::view::ImageView;
use crate::{
    caches::Caches,
    catalogue::{self, Catalogued},
    policy::{Action, Whose},
    registries::{Repository, Tags},
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
            "/admin/image-tags",
            get_with(
                tags,
                about(
                    "admin",
                    "listImageTags",
                    "List the versions of a container disk that its registry has",
                    &[NotFound, Conflict, ProblemKind::Invalid],
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
        form.error("url", not_admitted(&platform));
    }
}

fn not_admitted(platform: &KitePlatformSpec) -> String {
    let sources: Vec<_> = platform.image_sources().collect();
    let sources = match &*sources {
        [] => "nowhere".to_owned(),
        some => some.join(", "),
    };
    format!(
        "is not below a place from which images may come ({sources}): use one of those, or ask an \
         administrator of the cluster, who can set spec.imageSources of KitePlatform default"
    )
}

/// Of which repository the tags are wanted.
#[derive(Deserialize, JsonSchema)]
struct Wanted {
    /// The address of a container disk, such as `docker://quay.io/containerdisks/fedora`; a tag
    /// in it is passed over.
    #[schemars(length(max = 2048))]
    url: Option<String>,
}

/// The versions that a registry has of a container disk.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ImageTags")]
struct TagsView {
    /// The address without a tag: with a colon and one of the tags it is an image's `url`.
    url: String,
    /// Names of versions, the newest first as far as names tell.
    tags: Vec<String>,
    /// Whether the registry has no others.
    complete: bool,
}

/// `GET /api/v1/admin/image-tags`
async fn tags(
    State(state): State<ApiState>,
    caller: Caller,
    Query(Wanted { url }): Query<Wanted>,
) -> Result<Answer<TagsView>, Problem> {
    require(&caller)?;
    let url = url.unwrap_or_default();
    let refused = |why: String| Problem::field(ProblemKind::Invalid, "url", &url, why);
    let of = Repository::of(&url).ok_or_else(|| {
        let remedy = "write docker://, a registry and a repository, such as \
                      docker://quay.io/containerdisks/fedora";
        refused(remedy.to_owned())
    })?;
    let platform = state.platform();
    let plain = of.url();
    if !platform.admits_image(&plain) {
        return Err(refused(not_admitted(&platform)));
    }
    match state.registries().tags(&of).await {
        Ok(Tags { tags, complete }) => Ok(Answer::new(TagsView {
            url: plain,
            tags,
            complete,
        })),
        Err(error) => Err(error.into_problem(&of)),
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
    condition: IfMatch,
) -> Result<Accepted<Deleting>, Problem> {
    require(&caller)?;
    catalogue::delete::<KiteImage>(&state, &caller, name, &condition).await
}
