//! kite-reconcile
