//! kite-fake

pub mod schema;
