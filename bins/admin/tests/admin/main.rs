//! What the commands do for who looks after an installation, before an API server in memory.
//! One program: what waits for one thing runs beside what waits for another.
#![allow(clippy::unwrap_used, clippy::panic)]

mod doctor;
mod install;
mod retry;
mod rights;
