//! How Kite itself is reached: the SSH gateway, the web page and the HTTP API.

pub mod gateway;
pub mod web;
