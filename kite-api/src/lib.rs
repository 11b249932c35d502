//! Kite's HTTP API as an axum `Router`, with its web page.
//!
//! Writes are desired state: the API creates and edits custom resources, and
//! reconcilers make the cluster match. Reads come from watched copies
//! ([`caches`]). Nothing is stored here: login sessions are objects too, so any
//! number of replicas may run.
//!
//! ```no_run
//! # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use std::net::SocketAddr;
//!
//! use kite_api::{ApiState, router};
//!
//! let state = ApiState::builder(client).secure_cookies(true).build().await?;
//! state.synced().await;
//! let app = router(state).into_make_service_with_connect_info::<SocketAddr>();
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! # let _ = (app, listener);
//! // axum::serve(listener, app).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Another project that has its own way of signing in mounts [`api_router`] and
//! puts a [`Principal`] into each request's extensions. Both are for the root of a host and
//! not for a prefix; see [`router()`].
//!
//! | Module | What |
//! |---|---|
//! | [`policy`] | who may do what to whose, and with which API token: pure tables |
//! | [`proof`] | what asks for a fresh proof of who one is |
//! | [`problem`] | errors as RFC 9457 problem details |
//! | [`metrics`] | what is counted |
//! | [`caches`] | watched copies of Kite's objects |
//! | [`audit`] | what is written down of each request |
//! | [`kite_identity`] | accounts, sessions, passwords, tokens, factors, providers: a crate |
//! | `password`, `vms`, `images`, `offers`, `platform`, `capacity`, `settings`, `certificate` | the handlers |
//! | [`console`], `consoles` | serial lines, screens and terminals over `WebSockets` |
//! | `connections`, `recordings` | who is connected to VMs: list, end, replay |
//! | `notices`, `access_dates`, `vm_access` | what owners of VMs are told of |
//! | `events` | news as server-sent events |
//! | `openapi`, `reference` | the OpenAPI document and a page to read it |
//! | `builder`, `state`, `router`, `layers` | how all of it is set up, what handlers share, and what surrounds every request |
//! | [`kite_rest`] | bodies, problems, conditions, lists, copies, the audit log: a crate |
//! | `page` | the web page in `kite-api/ui` |
//!
//! # Feature flags and the web page
//!
//! There are no features. The page is built by Node.js 20 or newer and npm when the
//! crate is; where that fails the crate is built all the same, and the page at `/` says
//! how to get it. The environment variable `KITE_UI` makes it an error (`required`) or
//! leaves it out (`off`).

mod access_dates;
mod amount;
mod builder;
pub mod caches;
mod capacity;
mod catalogue;
mod certificate;
mod connections;
pub mod console;
mod consoles;
mod event_places;
mod events;
mod images;
mod layers;
pub mod metrics;
mod nodes;
mod notices;
mod offers;
mod openapi;
mod owned;
mod page;
mod password;
mod platform;
pub mod policy;
pub mod proof;
mod recordings;
mod reference;
mod registries;
mod router;
mod setting;
mod settings;
mod snapshots;
mod state;
#[cfg(test)]
mod tables;
mod vm_access;
mod vm_fields;
mod vm_view;
mod vms;
mod vocabulary;
mod volumes;

pub use kite_identity::{Caller, Principal, SEALED_TOKENS, Seal};
pub use kite_rest::{BODY_LIMIT, STRANGERS_BODY_LIMIT, audit, budget::is_signed_in, problem};

pub use self::{
    builder::{ApiStateBuilder, BuildError},
    recordings::{Recorded, Recordings},
    router::{api_router, openapi_document, router},
    state::ApiState,
};
