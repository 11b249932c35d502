//! The code of `docs/embedding.md`, as doctests: what stands there compiles, and
//! what can be run without a cluster is run.

#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct Guide;
