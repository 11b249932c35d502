//! How to test a reconciler on the in-memory cluster, without Kubernetes and
//! without waiting: see `tests/settles.rs`, and run it with
//!
//! ```console
//! $ cargo test -p test_on_the_fake
//! ```
