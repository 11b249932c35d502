//! [`Vocabulary`]: an application's words for the fields of its custom resources.

/// What an application says of the fields of its custom resources: an API server's words
/// are for who writes manifests.
#[derive(Clone, Copy, Debug)]
pub struct Vocabulary {
    pub(crate) remedy: fn(&str) -> Option<&'static str>,
    pub(crate) renamed: fn(&str) -> Option<&'static str>,
    pub(crate) quota: fn(&str) -> String,
}

impl Vocabulary {
    /// The API server's own words, and the names of the specs.
    pub const fn new() -> Self {
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

    /// What to write into a field of which the schema refused the value, in whole, such as
    /// `write a size such as 2Gi`. The field is a place such as `quota.cpu` or `keys[1]`.
    #[must_use]
    pub const fn remedy(mut self, of: fn(&str) -> Option<&'static str>) -> Self {
        self.remedy = of;
        self
    }

    /// What the bodies of the API call a field of a spec that has another name there.
    #[must_use]
    pub const fn renamed(mut self, of: fn(&str) -> Option<&'static str>) -> Self {
        self.renamed = of;
        self
    }

    /// What somebody is told whose quota does not allow what they asked for, and what they may
    /// do: with what the API server says of it, such as `requested: count=1, used: count=5,
    /// limited: count=5`.
    #[must_use]
    pub const fn quota(mut self, of: fn(&str) -> String) -> Self {
        self.quota = of;
        self
    }
}

impl Default for Vocabulary {
    fn default() -> Self {
        Self::new()
    }
}
