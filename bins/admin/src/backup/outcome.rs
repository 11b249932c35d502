//! What becomes of objects.

use serde::Serialize;

use crate::causes::said;

/// What became of an object; in a dry run, what would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "change")]
pub enum Outcome {
    /// It is back.
    Created,
    /// It was there, and is as it was kept.
    Unchanged,
    /// It was another, and is now as it was kept.
    Overwritten,
    /// It is another, and was left alone.
    Differs {
        /// Where.
        fields: Vec<String>,
    },
    /// What it rests on is not back, or somebody may have taken it away on purpose, and
    /// so it is not.
    Skipped {
        /// What that is.
        why: String,
    },
    /// It is not to be there any more, and is gone.
    Removed {
        /// Why.
        why: String,
    },
    /// It could not be brought back.
    Failed {
        /// What was said.
        why: String,
        /// What to do.
        remedy: String,
    },
}

impl Outcome {
    /// Whether all is as it is to be.
    pub fn is_back(&self) -> bool {
        match self {
            Self::Created | Self::Unchanged | Self::Overwritten | Self::Removed { .. } => true,
            Self::Differs { .. } | Self::Skipped { .. } | Self::Failed { .. } => false,
        }
    }

    pub(super) fn skipped(why: impl Into<String>) -> Self {
        Self::Skipped { why: why.into() }
    }

    pub(super) fn failed(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Failed {
            why: why.into(),
            remedy: remedy.into(),
        }
    }

    /// What the API server did not do.
    pub(super) fn refused(error: &kube::Error) -> Self {
        let remedy = match error {
            kube::Error::Api(status) => match status.code {
                401 | 403 => "use credentials that may do this: a cluster administrator's",
                404 => "install Kite first: kite install",
                409 => "it changed meanwhile: repeat this",
                422 => {
                    "this cluster does not take it as it was: make it by hand, or delete what is \
                     there if it cannot be changed, and repeat this"
                }
                _ => "repeat this",
            },
            _ => "see whether the API server answers, and repeat this",
        };
        Self::failed(said(error), remedy)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_api_server_refuses_is_told_in_its_words() {
        let status = serde_json::from_value(json!({"status": "Failure", "code": 404,
            "message": "404 page not found", "reason": "Failed to parse error data"}));
        let outcome = Outcome::refused(&kube::Error::Api(status.unwrap()));
        let wanted = Outcome::failed("404 page not found", "install Kite first: kite install");
        assert_eq!(outcome, wanted);
    }
}
