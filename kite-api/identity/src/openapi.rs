//! What the OpenAPI document says of signing in, and what bodies have in its examples.

use aide::{
    generate::GenContext,
    openapi::{Operation, ReferenceOr, SecurityScheme},
};
use indexmap::IndexMap;
use kite_rest::{ProblemKind, cookie::Role, openapi::refuses};
use serde_json::{Value, json};

/// Operations to which browsers are led by others: providers, and what links to them, add
/// parameters of their own. For [`Queries`](kite_rest::query::Queries).
pub const LED_TO: [&str; 2] = ["beginProviderSignIn", "endProviderSignIn"];

/// A public key.
pub const EXAMPLE_KEY: &str = "ssh-ed25519 \
    AAAAC3NzaC1lZDI1NTE5AAAAIKO9ldbqXUWB+gMw90VFK2ZXIlM5RvBXwnm/KM3V61Ut ann@laptop";
/// A password.
pub const EXAMPLE_PASSWORD: &str = "correct horse battery";

/// What somebody may have.
pub fn example_quota() -> Value {
    json!({"vms": 10, "cpu": 16, "memory": "32Gi", "disk": "400Gi"})
}

/// The ways to sign in, for the components of the document.
pub fn security_schemes() -> IndexMap<String, ReferenceOr<SecurityScheme>> {
    IndexMap::from_iter([
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
    ])
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
pub fn signed_in(ctx: &mut GenContext, operation: &mut Operation) {
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
