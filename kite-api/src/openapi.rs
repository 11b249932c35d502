//! The OpenAPI 3.1 document: made from the handlers' own types, so that it says
//! what they take and answer.
//!
//! Types add what they stand for ([`kite_rest::Sent`] the body and what is
//! wrong with bodies, [`crate::auth::Caller`] the ways to sign in and 401, …);
//! what an operation refuses beside is said where it is routed ([`about`]).

pub(crate) mod examples;
#[cfg(test)]
mod tests;

use aide::{
    generate::GenContext,
    openapi::{
        Components, Info, License, OpenApi, Operation, ReferenceOr, SecurityScheme, Server, Tag,
    },
    transform::TransformOperation,
};
use indexmap::IndexMap;
use kite_rest::{
    ProblemKind,
    cookie::Role,
    openapi::{about_also, add_components, refuses},
};

use crate::proof;

/// Groups of operations, with what they are for.
const TAGS: [(&str, &str); 7] = [
    ("auth", "Signing up, in and out"),
    ("me", "One's own account"),
    ("vms", "Virtual machines"),
    ("catalogue", "What VMs can be made from: images and offers"),
    ("events", "News as they happen"),
    ("admin", "For administrators"),
    ("platform", "What everybody may know"),
];

/// What the document says of operations that ask for a fresh proof: when they do.
const PROOF: &str = "x-kite-proof";

/// Names and explains an operation, and lists what it refuses beside what its
/// types say.
pub(crate) fn about(
    tag: &'static str,
    id: &'static str,
    summary: &'static str,
    refused: &'static [ProblemKind],
) -> impl FnOnce(TransformOperation<'_>) -> TransformOperation<'_> {
    about_also(tag, id, summary, refused, move |ctx, operation| {
        if let Some(when) = proof::of_operation(id).described() {
            refuses(ctx, operation, &[ProblemKind::ProofRequired]);
            operation.extensions.insert(PROOF.to_owned(), when);
        }
    })
}

/// The document before the operations are added.
pub(crate) fn begin() -> OpenApi {
    let mut components = Components {
        security_schemes: IndexMap::from_iter([
            (BEARER.to_owned(), ReferenceOr::Item(bearer())),
            (
                COOKIE.to_owned(),
                ReferenceOr::Item(cookie(
                    Role::Access.name(false),
                    "The cookie that signing in with `\"cookie\": true` sets without TLS.",
                )),
            ),
            (
                TLS_COOKIE.to_owned(),
                ReferenceOr::Item(cookie(
                    Role::Access.name(true),
                    "The same where the server is behind TLS (`--secure-cookies`).",
                )),
            ),
        ]),
        ..Components::default()
    };
    add_components(&mut components);
    OpenApi {
        info: Info {
            title: "Kite".to_owned(),
            summary: Some("Self-service virtual machines on Kubernetes".to_owned()),
            description: Some(
                "Writes are desired state; `status` says what was seen. Every refusal is a \
                 problem document (RFC 9457) that names fields, values and remedies."
                    .to_owned(),
            ),
            license: Some(License {
                name: "Apache-2.0".to_owned(),
                identifier: Some("Apache-2.0".to_owned()),
                ..License::default()
            }),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Info::default()
        },
        servers: vec![Server {
            url: "/".to_owned(),
            ..Server::default()
        }],
        tags: TAGS
            .map(|(name, description)| Tag {
                name: name.to_owned(),
                description: Some(description.to_owned()),
                ..Tag::default()
            })
            .into(),
        components: Some(components),
        ..OpenApi::default()
    }
}

/// Name of the way to sign in with a header.
const BEARER: &str = "bearer";
/// Names of the ways to sign in with a cookie.
const COOKIE: &str = "cookie";
const TLS_COOKIE: &str = "tlsCookie";

fn bearer() -> SecurityScheme {
    SecurityScheme::Http {
        scheme: "bearer".to_owned(),
        bearer_format: None,
        description: Some("The token that signing in gives.".to_owned()),
        extensions: IndexMap::default(),
    }
}

fn cookie(name: &str, description: &str) -> SecurityScheme {
    SecurityScheme::ApiKey {
        location: aide::openapi::ApiKeyLocation::Cookie,
        name: name.to_owned(),
        description: Some(description.to_owned()),
        extensions: IndexMap::default(),
    }
}

/// Notes that an operation is for those who are signed in.
pub(crate) fn signed_in(ctx: &mut GenContext, operation: &mut Operation) {
    operation.security = [BEARER, COOKIE, TLS_COOKIE]
        .map(|name| IndexMap::from_iter([(name.to_owned(), Vec::new())]))
        .into();
    refuses(
        ctx,
        operation,
        &[
            ProblemKind::Unauthenticated,
            ProblemKind::Forbidden,
            ProblemKind::SecondFactorMissing,
            ProblemKind::CrossOrigin,
            // Answers that are not read hold memory, and one account may hold so much.
            ProblemKind::TooManyRequests,
        ],
    );
}
