//! Requests to servers that somebody names, such as sign-in providers and image registries:
//! bounded in time, in size and in number, without following redirects, and not to the machine
//! that this process runs on, nor to what only that machine reaches.

mod fetch;
mod reach;

pub use self::{
    fetch::{FetchError, Web, get},
    reach::Reach,
};
