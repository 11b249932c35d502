//! Where people sign up, in and out.

use aide::axum::{ApiRouter, routing::post_with};

use super::{
    bootstrap::bootstrap,
    sign_in::{sign_in, sign_out},
    sign_up::sign_up,
};
use crate::{
    openapi::about,
    problem::ProblemKind::{
        BootstrapClosed, CrossOrigin, SignUpClosed, Suspended, Taken, TooManyRequests,
        WrongCredentials,
    },
    state::ApiState,
};

const TAG: &str = "auth";

/// The paths below `/auth`.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    ApiRouter::new()
        .api_route(
            "/auth/bootstrap",
            post_with(
                bootstrap,
                about(
                    TAG,
                    "bootstrap",
                    "Make the first administrator",
                    &[
                        WrongCredentials,
                        CrossOrigin,
                        BootstrapClosed,
                        Taken,
                        TooManyRequests,
                    ],
                ),
            ),
        )
        .api_route(
            "/auth/sign-up",
            post_with(
                sign_up,
                about(
                    TAG,
                    "signUp",
                    "Make an account for oneself",
                    &[CrossOrigin, SignUpClosed, Taken, TooManyRequests],
                ),
            ),
        )
        .api_route(
            "/auth/sign-in",
            post_with(
                sign_in,
                about(
                    TAG,
                    "signIn",
                    "Sign in",
                    &[WrongCredentials, CrossOrigin, Suspended, TooManyRequests],
                ),
            ),
        )
        .api_route(
            "/auth/sign-out",
            post_with(
                sign_out,
                about(TAG, "signOut", "End the session on every replica", &[]),
            ),
        )
}
