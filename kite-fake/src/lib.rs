//! kite-fake
