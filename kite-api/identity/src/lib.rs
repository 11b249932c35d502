//! Accounts for HTTP APIs over a Kubernetes cluster, as axum routes and extractors.
//!
//! People sign up, in and out; with passwords, second factors and OpenID Connect; by sessions
//! in cookies or headers, and by API tokens with scopes. Whoever guesses waits, whoever is
//! suspended is out at once, and what outlives a session asks for a fresh proof of who one
//! is. Accounts, sessions, tokens, invites and passwords are custom resources of
//! [`kite_core::crd`], so that any number of replicas serve them and `kubectl` shows them.
//! What is behind the accounts is the application's: this crate knows nothing of it but the
//! enum of what people [do](Act) there.
//!
//! An application has [`Accounts`] in its state, merges [`routes`], takes [`Caller`] in its
//! handlers, and calls [`sweep`] each [`SWEEP_INTERVAL`]:
//!
//! ```
//! use axum::{extract::FromRef, routing::get};
//! use kite_identity::{Accounts, Caller, Whose, actions};
//! use kite_rest::{Bodies, Problem};
//!
//! actions! {
//!     /// What people do here.
//!     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
//!     pub enum Action;
//!
//!     /// Read a book of one's own.
//!     ReadBook: "read the book",
//!         own From(ReadOnly), others Nobody, token Never, proof Never;
//! }
//!
//! #[derive(Clone, FromRef)]
//! struct App {
//!     accounts: Accounts,
//!     bodies: Bodies,
//! }
//!
//! async fn book(caller: Caller) -> Result<String, Problem> {
//!     caller.require(Action::ReadBook, Whose::Own)?;
//!     Ok(format!("Once upon a time, {} …", caller.name()))
//! }
//!
//! let app = aide::axum::ApiRouter::<App>::new()
//!     .route("/book", get(book))
//!     .merge(kite_identity::routes());
//! # drop(app);
//! ```
//!
//! | Module | What |
//! |---|---|
//! | [`Accounts`], [`Copies`], [`Settings`] | what signing in works with |
//! | [`Caller`], [`Principal`], [`Client`] | who sends a request, and from where |
//! | [`Act`], [`AccountAction`], [`actions!`], [`rule`] | who may do what to whose, with which token, after which proof: pure tables |
//! | [`routes`] | `auth/…`, `me`, `me/sessions`, `me/tokens`, `me/totp`, `me/identities`, `admin/users`, `admin/invites` |
//! | [`change_password`] | `me/password`, for the application's own route |
//! | [`notices`], [`key_dates`] | what owners of accounts are told of, and since when they have what |
//! | [`openapi`], [`proof`] | what the document says of signing in, and of fresh proofs |
//! | [`Counts`] | what is counted |
//!
//! # Feature flags
//!
//! There are none.

mod account;
mod account_action;
mod act;
mod alike;
mod allowance;
mod bootstrap;
mod caller;
mod client;
mod cluster_ranges;
mod copies;
mod counts;
mod demand;
mod everyone;
mod free;
mod identities;
mod invite;
mod invites;
mod kept_token;
pub mod key_dates;
mod last_admin;
pub mod notices;
mod oidc;
mod open_sign_up;
pub mod openapi;
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
pub mod proof;
mod prove;
mod providers;
mod raise;
mod refresh;
mod reseal;
mod rotation;
mod routes;
pub mod rule;
mod seal;
mod second_factor;
mod session;
mod shape;
mod shares;
mod sign_in;
mod sign_up;
mod state;
mod sweep;
mod take_in;
mod throttle;
mod token;
mod tokens;
mod totp;
mod unread;
mod users;
mod view;

use aide::axum::ApiRouter;
use axum::extract::FromRef;
use kite_rest::Bodies;

pub use self::{
    account::{NewPassword, PasswordChanged, change_password},
    account_action::AccountAction,
    act::{Access, Act, Deed, Whose},
    bootstrap::is_open as is_bootstrap_open,
    caller::{Caller, check_socket_origin},
    client::Client,
    copies::Copies,
    counts::Counts,
    demand::require_own_factor,
    kept_token::SEALED_TOKENS,
    password_rule::{Owner as PasswordOwner, PASSWORD, read_password},
    passwords::Passwords,
    principal::Principal,
    seal::Seal,
    session::{belongs_to, is_open},
    sign_in::SignedIn,
    state::{Accounts, Settings},
    sweep::{INTERVAL as SWEEP_INTERVAL, can_sweep, sweep},
    token::random_token,
    unread::require_read,
    users::whose,
    view::{LinkedIdentity, UserView},
};

/// All paths below `/auth`, `/me`, `/admin/users` and `/admin/invites`, to be nested at
/// `/api/v1` and nowhere else (the refresh cookie has that path, and what is below `admin/`
/// is known by it), but for `POST me/password` ([`change_password`]) and `me/notices`.
pub fn routes<S>() -> ApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Accounts: FromRef<S>,
    Bodies: FromRef<S>,
{
    ApiRouter::new()
        .merge(routes::routes())
        .merge(account::routes())
        .merge(identities::routes())
        .merge(tokens::routes())
        .merge(totp::routes())
        .merge(users::routes())
        .merge(invites::routes())
}
