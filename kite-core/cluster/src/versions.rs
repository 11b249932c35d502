//! Fields that some versions of Kubernetes' API have as optional and others do not.
//!
//! `k8s_openapi` has the types of the version that the program at hand chose, by a
//! feature. What is written with these fits all of them.
//!
//! ```
//! use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
//! use kite_cluster::versions::{as_option, wrap};
//!
//! let mut slice = EndpointSlice::default();
//! slice.endpoints = wrap(vec![Endpoint::default()]);
//! let endpoints = as_option::<Vec<Endpoint>, _>(&slice.endpoints);
//! assert_eq!(endpoints.map(Vec::len), Some(1));
//! ```

/// What such a field is given: `value`, in `Some` where the field is optional.
pub fn wrap<T, F: From<T>>(value: T) -> F {
    F::from(value)
}

/// What such a field has, if anything; `Some` wherever it is not optional.
pub fn as_option<'a, T: 'a, F>(field: &'a F) -> Option<&'a T>
where
    Option<&'a T>: From<&'a F>,
{
    Option::from(field)
}
