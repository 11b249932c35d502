//! Where people sign up, in and out.

use aide::axum::{
    ApiRouter,
    routing::{get_with, post_with},
};
use axum::extract::FromRef;
use kite_rest::{
    Bodies,
    ProblemKind::{
        BootstrapClosed, Conflict, CrossOrigin, Forbidden, InviteOver, Malformed, NotFound,
        SecondFactorRequired, SignInFailed, SignUpClosed, Suspended, Taken, TooManyRequests,
        Unauthenticated, WrongCredentials,
    },
    openapi::about,
};

use crate::{
    bootstrap::bootstrap,
    everyone::sign_everyone_out,
    oidc::{callback, start},
    presence::session,
    prove::prove,
    refresh::refresh,
    reseal::rotate_seal_key,
    sign_in::{sign_in, sign_out},
    sign_up::sign_up,
    state::Accounts,
};

const TAG: &str = "auth";

/// The paths below `/auth`.
pub(crate) fn routes<S>() -> ApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Accounts: FromRef<S>,
    Bodies: FromRef<S>,
{
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
                        SecondFactorRequired,
                        CrossOrigin,
                        Forbidden,
                        Suspended,
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
                        SecondFactorRequired,
                        CrossOrigin,
                        Forbidden,
                        Suspended,
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
                        Forbidden,
                        Suspended,
                        TooManyRequests,
                    ],
                ),
            ),
        )
        .merge(provider_routes())
        .merge(session_routes())
        .merge(everyones_routes())
}

/// The paths of a session that was begun.
fn session_routes<S>() -> ApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Accounts: FromRef<S>,
    Bodies: FromRef<S>,
{
    ApiRouter::new()
        .api_route(
            "/auth/session",
            get_with(
                session,
                about(TAG, "getPresence", "Whether somebody is signed in", &[]),
            ),
        )
        .api_route(
            "/auth/prove",
            post_with(
                prove,
                about(
                    TAG,
                    "prove",
                    "Show again that it is still oneself who has the session",
                    &[
                        WrongCredentials,
                        SecondFactorRequired,
                        Conflict,
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
                    &[Unauthenticated, CrossOrigin, Forbidden, TooManyRequests],
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
}

/// The paths of what is about everybody's sessions and second factors.
fn everyones_routes<S>() -> ApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Accounts: FromRef<S>,
    Bodies: FromRef<S>,
{
    ApiRouter::new()
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
        .api_route(
            "/admin/rotate-seal-key",
            post_with(
                rotate_seal_key,
                about(
                    "admin",
                    "rotateSealKey",
                    "Put another key in place of the one that seals second factors",
                    &[Conflict],
                ),
            ),
        )
}

/// The paths of signing in at a provider.
fn provider_routes<S>() -> ApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Accounts: FromRef<S>,
    Bodies: FromRef<S>,
{
    ApiRouter::new()
        .api_route(
            "/auth/oidc/{name}",
            get_with(
                start,
                about(
                    TAG,
                    "beginProviderSignIn",
                    "Lead a browser to a sign-in provider",
                    &[NotFound, TooManyRequests],
                ),
            ),
        )
        .api_route(
            "/auth/oidc/{name}/callback",
            get_with(
                callback,
                about(
                    TAG,
                    "endProviderSignIn",
                    "Where a sign-in provider sends a browser back",
                    &[
                        Malformed,
                        SignInFailed,
                        NotFound,
                        Forbidden,
                        Suspended,
                        SignUpClosed,
                        Taken,
                        Conflict,
                        TooManyRequests,
                    ],
                ),
            ),
        )
}
