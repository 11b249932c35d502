//! Objects as tables (`meta.k8s.io/v1 Table`) and as their metadata alone,
//! which clients ask for with `as=` in `Accept`.

mod jsonpath;

pub use jsonpath::JsonPath;
