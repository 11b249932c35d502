//! Errors with all that led to them.

use std::error::Error;

/// An error with its causes, in one line. What was said already is left out.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// What the API server said, or why it said nothing, in one line: of its answer the
/// words that are for people.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => {
            let message = &status.message;
            match status.code {
                401 | 403 => format!(
                    "{message}. Do this as somebody who may, such as a cluster administrator"
                ),
                _ => message.clone(),
            }
        }
        error => causes(error),
    }
}
