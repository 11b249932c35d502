//! Signing in at OpenID Connect providers: the authorization code flow with PKCE
//! (OpenID Connect Core 1.0 §3.1, RFC 7636, RFC 9700).
//!
//! 1. [`begin`] seals what the way back has to prove into a cookie of the browser
//!    and sends it to the provider. Nothing is kept here, so any replica may
//!    answer the way back.
//! 2. [`callback`](handlers) checks that the browser is the one that began, has
//!    the code exchanged, verifies the ID token, finds or makes the account and
//!    opens a session like any other.
//!
//! | Module | What |
//! |---|---|
//! | `flow` | the cookie that carries a sign-in from its begin to its end |
//! | `place` | where Kite is, and where people may be sent |
//! | `exchange`, `id_token`, `person` | from a code to a person |
//! | `account` | from a person to an account |

mod account;
mod exchange;
mod flow;
mod handlers;
mod id_token;
mod person;
mod place;

pub(super) use self::handlers::{callback, start};
pub(crate) use self::{
    account::unlink,
    flow::{Linking, begin},
    handlers::find_provider,
    place::{LOCAL_PATH, Visit, is_local_path},
};
