//! Where a server is, as a kubeconfig says it.

/// A server's URL, and the certificate authority that its clients trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub(crate) url: String,
    pub(crate) authority: Option<String>,
}

impl From<&str> for Endpoint {
    fn from(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            authority: None,
        }
    }
}

impl From<&String> for Endpoint {
    fn from(url: &String) -> Self {
        Self::from(url.as_str())
    }
}
