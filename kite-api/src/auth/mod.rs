//! Who is calling: sessions, passwords, sign-in and what guards it.

pub(crate) mod bootstrap;
mod caller;
mod cookie;
mod origin;
mod passwords;
mod routes;
mod session;
mod sign_in;
mod sign_up;
mod sweep;
mod throttle;

pub use self::caller::{Caller, Principal};
pub(crate) use self::{
    caller::Client,
    passwords::{Passwords, read_password},
    routes::routes,
    session::{
        belongs_to, end_session, end_sessions_but, end_sessions_of, is_open, open_session,
        sessions_of,
    },
    sign_in::{COOKIE_MEANING, SignedIn, greet, too_many},
    sign_up::{create_user, require_free_email},
    sweep::{INTERVAL as SWEEP_INTERVAL, sweep},
    throttle::{Limits, Throttle},
};
