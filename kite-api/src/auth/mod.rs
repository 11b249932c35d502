//! Who is calling: sessions, passwords, sign-in and what guards it.

mod alike;
pub(crate) mod bootstrap;
mod caller;
mod demand;
mod everyone;
mod invite;
mod kept_token;
pub(crate) mod last_admin;
mod lookups;
pub(crate) mod oidc;
mod open_sign_up;
mod origin;
mod orphans;
mod password;
mod password_rule;
mod passwords;
mod permit;
mod personal;
mod places;
mod presence;
mod principal;
mod prove;
mod raise;
mod refresh;
mod reseal;
mod rotation;
mod routes;
mod seal;
mod second_factor;
mod session;
mod shape;
mod shares;
mod sign_in;
mod sign_up;
mod sweep;
mod take_in;
mod throttle;
mod token;

pub(crate) use self::{
    alike::Replicas,
    caller::{Client, check_socket_origin},
    demand::{SeenFactors, require_own_factor},
    everyone::new_epoch,
    invite::{InviteState, new_invite, state_of},
    kept_token::{API_TOKEN, INVITE_TOKEN, seal_token, sealed_token},
    lookups::Lookups,
    open_sign_up::EMAIL_UNVERIFIED,
    orphans::Orphans,
    password::{StoredPassword, forget_password, has_long_password},
    password_rule::{Owner as PasswordOwner, PASSWORD, is_long, read_password},
    passwords::Passwords,
    personal::{NotedUses, end_token, is_token_of, is_valid, new_token, tokens_of},
    prove::{Evidence, prove_password, proved_until, verify_password},
    raise::rest_on,
    routes::routes,
    second_factor::{confirm, enrol, find_factor, remove_factor, require_second_factor},
    session::{belongs_to, end_session, end_sessions_but, end_sessions_of, is_open, sessions_of},
    sign_in::{COOKIE_MEANING, SignedIn, clear_cookies, greet},
    sign_up::{Maker, create_user, require_free_email},
    sweep::{INTERVAL as SWEEP_INTERVAL, sweep},
    throttle::{Limits, Source, Throttle},
    token::random_token,
};
pub use self::{caller::Caller, kept_token::SEALED_TOKENS, principal::Principal, seal::Seal};
