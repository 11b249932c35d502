//! How to test one of Kite's reconcilers on the in-memory cluster, without Kubernetes
//! and without waiting: see `tests/settles.rs`. `tests/own_kind.rs` is of an operator
//! with a kind of its own, and the example `own_operator` a whole one that has nothing
//! to do with Kite. Run them with
//!
//! ```console
//! $ cargo test -p test_on_the_fake
//! ```
