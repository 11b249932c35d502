//! Lists in pages: so many items after the last one, in the order of their keys,
//! which no change of other objects disturbs.

use aide::{OperationInput, generate::GenContext, openapi::Operation};
use axum::extract::{FromRequestParts, Query};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::request::Parts;
use kite_core::cluster::{Object, ObjectKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{num::NonZeroUsize, sync::Arc};

use crate::{
    openapi::refuses,
    problem::{FieldError, Problem, ProblemKind},
};

/// Items of a page unless asked otherwise.
const USUAL: usize = 100;
/// Most items of a page.
const MOST: usize = 1000;
/// Longest text that is searched for.
const LONGEST_SEARCH: usize = 100;

/// A page of a list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}List")]
#[allow(
    clippy::struct_field_names,
    reason = "lists of Kubernetes are called so too"
)]
pub(crate) struct Items<T> {
    /// The items of this page, in the order of their names unless told otherwise.
    pub(crate) items: Vec<T>,
    /// How many there are on all pages together.
    pub(crate) total: usize,
    /// What `after` must say to get the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// Which part of a list is asked for.
#[derive(Debug, Default)]
pub(crate) struct Page {
    limit: Option<NonZeroUsize>,
    after: Option<String>,
    search: Option<String>,
}

/// As it stands in the query. Texts, so that what is wrong can be named.
#[derive(Deserialize, JsonSchema)]
struct PageQuery {
    /// Most items of a page: 1 to 1000, by default 100.
    #[schemars(with = "Option<u16>", range(min = 1, max = 1000))]
    limit: Option<String>,
    /// What the page before gave as `next`.
    #[schemars(with = "Option<String>")]
    after: Option<String>,
    /// Only what has this text in its name or in what people know it by; upper
    /// and lower case are the same.
    #[schemars(with = "Option<String>", length(max = 100))]
    search: Option<String>,
}

impl Page {
    /// Whether an item with these texts is looked for.
    pub(crate) fn wants<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> bool {
        self.search.as_ref().is_none_or(|search| {
            texts
                .into_iter()
                .any(|text| text.to_lowercase().contains(search))
        })
    }

    /// Cuts the page out of all objects that are wanted, which are in the order
    /// of their keys.
    pub(crate) fn cut<K: Object, T>(&self, all: &[Arc<K>], view: impl Fn(&K) -> T) -> Items<T> {
        self.cut_by(all, Arc::as_ref, |object| view(object))
    }

    /// The same of anything that has an object in it.
    pub(crate) fn cut_by<I, K: Object, T>(
        &self,
        all: &[I],
        object: impl Fn(&I) -> &K,
        view: impl Fn(&I) -> T,
    ) -> Items<T> {
        self.cut_along(all, |item| cursor(object(item)), view)
    }

    /// The same of anything that is in the order of such texts.
    pub(crate) fn cut_along<I, T>(
        &self,
        all: &[I],
        place: impl Fn(&I) -> String,
        view: impl Fn(&I) -> T,
    ) -> Items<T> {
        let start = self
            .after
            .as_ref()
            .map_or(0, |after| all.partition_point(|item| place(item) <= *after));
        let limit = self.limit.map_or(USUAL, NonZeroUsize::get);
        let page = &all[start..all.len().min(start + limit)];
        let is_last = start + page.len() == all.len();
        Items {
            items: page.iter().map(view).collect(),
            total: all.len(),
            next: page
                .last()
                .filter(|_| !is_last)
                .map(|last| URL_SAFE_NO_PAD.encode(place(last))),
        }
    }
}

/// Where an object stands in a list, in the order of caches: by namespace, then
/// by name, of which none has a character before `\0`.
fn cursor<K: Object>(object: &K) -> String {
    let key = ObjectKey::of(object);
    format!("{}\0{}", key.namespace.unwrap_or_default(), key.name)
}

impl<S: Send + Sync> FromRequestParts<S> for Page {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(query) = Query::<PageQuery>::from_request_parts(parts, state)
            .await
            .map_err(|error| Problem::new(ProblemKind::Malformed, error.body_text()))?;
        let mut wrong = Vec::new();
        let mut blame = |field: &str, value: &str, message: &str| {
            wrong.push(FieldError {
                field: field.to_owned(),
                value: Some(value.into()),
                message: message.to_owned(),
            });
        };
        let limit = query.limit.and_then(|text| {
            let limit = text.parse::<NonZeroUsize>().ok();
            let limit = limit.filter(|limit| limit.get() <= MOST);
            if limit.is_none() {
                blame("limit", &text, "write a whole number from 1 to 1000");
            }
            limit
        });
        let after = query.after.and_then(|text| {
            let bytes = URL_SAFE_NO_PAD.decode(&text).ok();
            let after = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            if after.is_none() {
                blame("after", &text, "write what the page before gave as next");
            }
            after
        });
        let search = query.search.map(|text| {
            if text.chars().count() > LONGEST_SEARCH {
                let start: String = text.chars().take(LONGEST_SEARCH).collect();
                blame(
                    "search",
                    &start,
                    "is longer than 100 characters: write less",
                );
            }
            text.to_lowercase()
        });
        if wrong.is_empty() {
            Ok(Self {
                limit,
                after,
                search,
            })
        } else {
            Err(Problem::invalid(wrong))
        }
    }
}

impl OperationInput for Page {
    fn operation_input(ctx: &mut GenContext, operation: &mut Operation) {
        Query::<PageQuery>::operation_input(ctx, operation);
        refuses(
            ctx,
            operation,
            &[ProblemKind::Malformed, ProblemKind::Invalid],
        );
    }
}
