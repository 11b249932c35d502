//! [`Vocabulary`]: an application's words for the fields of its custom resources.

/// What an application says of the fields of its custom resources: an API server's words
/// are for who writes manifests.
#[derive(Clone, Copy, Debug)]
pub struct Vocabulary {
    /// What to write into a field of which the schema refused the value, in whole, such as
    /// `write a size such as 2Gi`. The field is a place such as `quota.cpu` or `keys[1]`.
    pub remedy: fn(&str) -> Option<&'static str>,
    /// What the bodies of the API call a field of a spec that has another name there.
    pub renamed: fn(&str) -> Option<&'static str>,
    /// What somebody is told whose quota does not allow what they asked for, and what they may
    /// do: with what the API server says of it, such as `requested: count=1, used: count=5,
    /// limited: count=5`.
    pub quota: fn(&str) -> String,
}

impl Default for Vocabulary {
    /// The API server's own words, and the names of the specs.
    fn default() -> Self {
        Self {
            remedy: |_| None,
            renamed: |_| None,
            quota: |what| {
                format!(
                    "your quota does not allow it ({what}): delete something, ask for less, or \
                     ask an administrator for more"
                )
            },
        }
    }
}
