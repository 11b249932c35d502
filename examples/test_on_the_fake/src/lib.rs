//! How to test a reconciler on the in-memory cluster, without Kubernetes and
//! without waiting: see `tests/settles.rs`, and `tests/survives.rs` for one with
//! which everything goes wrong. Run them with
//!
//! ```console
//! $ cargo test -p test_on_the_fake
//! ```
