//! kite-render
