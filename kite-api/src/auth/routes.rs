//! Where people sign up, in and out.

use aide::axum::{ApiRouter, routing::post_with};

use super::{
    bootstrap::bootstrap,
    everyone::sign_everyone_out,
    refresh::refresh,
    sign_in::{sign_in, sign_out},
    sign_up::sign_up,
};
use crate::{
    openapi::about,
    problem::ProblemKind::{
        BootstrapClosed, Conflict, CrossOrigin, InviteOver, SecondFactorRequired, SignUpClosed,
        Suspended, Taken, TooManyRequests, Unauthenticated, WrongCredentials,
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
                    &[
                        WrongCredentials,
                        CrossOrigin,
                        SignUpClosed,
                        Taken,
                        InviteOver,
                        TooManyRequests,
                    ],
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
                    &[
                        WrongCredentials,
                        SecondFactorRequired,
                        CrossOrigin,
                        Suspended,
                        TooManyRequests,
                    ],
                ),
            ),
        )
        .api_route(
            "/auth/refresh",
            post_with(
                refresh,
                about(
                    TAG,
                    "refresh",
                    "Renew the cookies of a session",
                    &[Unauthenticated, CrossOrigin, TooManyRequests],
                ),
            ),
        )
        .api_route(
            "/auth/sign-out",
            post_with(
                sign_out,
                about(
                    TAG,
                    "signOut",
                    "End the session on every replica",
                    &[Unauthenticated, CrossOrigin],
                ),
            ),
        )
        .api_route(
            "/admin/sign-out-everyone",
            post_with(
                sign_everyone_out,
                about(
                    "admin",
                    "signOutEveryone",
                    "End all sessions on every replica",
                    &[Conflict],
                ),
            ),
        )
}
