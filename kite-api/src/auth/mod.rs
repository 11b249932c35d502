//! Who is calling: sessions, passwords, sign-in and what guards it.

pub(crate) mod bootstrap;
mod caller;
pub(crate) mod cookie;
mod everyone;
mod invite;
mod kept_token;
pub(crate) mod last_admin;
mod lookups;
pub(crate) mod oidc;
mod origin;
mod passwords;
mod permit;
mod personal;
mod presence;
mod refresh;
mod reseal;
mod rotation;
mod routes;
mod seal;
mod second_factor;
mod session;
mod shape;
mod sign_in;
mod sign_up;
mod sweep;
mod throttle;
mod token;

pub use self::{
    caller::{Caller, Principal},
    kept_token::SEALED_TOKENS,
    seal::Seal,
};
pub(crate) use self::{
    caller::{Client, address_in, check_socket_origin},
    everyone::new_epoch,
    invite::{InviteState, new_invite, state_of},
    kept_token::{API_TOKEN, INVITE_TOKEN, seal_token, sealed_token},
    lookups::Lookups,
    passwords::{PASSWORD, Passwords, read_password},
    personal::{NotedUses, end_token, is_token_of, is_valid, new_token, tokens_of},
    routes::routes,
    second_factor::{confirm, enrol, find_factor, remove_factor},
    session::{belongs_to, end_session, end_sessions_but, end_sessions_of, is_open, sessions_of},
    sign_in::{COOKIE_MEANING, SignedIn, clear_cookies, greet, too_many},
    sign_up::{create_user, require_free_email},
    sweep::{INTERVAL as SWEEP_INTERVAL, sweep},
    throttle::{Limits, Throttle},
    token::random_token,
};
