//! kite-api
