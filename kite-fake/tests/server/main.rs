//! The API server as programs meet it: by kube, by kubectl and other clients, and by plain
//! requests. One program: what waits for one thing runs beside what waits for another.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bodies;
mod clients;
mod control_plane;
mod fault;
mod hooks;
mod http;
mod kube_client;
mod kube_runtime;
mod protobuf;
mod reads;
mod texts;
mod writes;
