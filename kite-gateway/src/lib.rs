//! kite-gateway
