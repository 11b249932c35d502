//! kite-core
