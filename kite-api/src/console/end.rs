//! Why a console is over, as its client gets to know: a close frame, and words before
//! it for what such a frame has no room for.

use std::borrow::Cow;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes};
use serde::Serialize;
use serde_json::json;

/// Most bytes of a close frame's reason (RFC 6455 §5.5).
const MOST_REASON: usize = 123;

/// Why a console is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    code: u16,
    reason: Cow<'static, str>,
    told: Option<Told>,
    /// The VM's side ended without saying why: somebody else may know.
    is_unexplained: bool,
}

/// What is told of an end before it, for a page to say in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Told {
    /// Somebody wished it.
    Ended(Wish),
    /// It came to its own.
    Cause(Cause),
}

/// Who wants a console to end, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Wish {
    pub(crate) by: String,
    pub(crate) reason: String,
}

/// What came to its end, and a console with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Cause {
    /// The shell, with this status.
    Exited(u32),
    /// The shell, by a signal of this name.
    Killed(String),
    /// The VM, which does not run any more.
    VmStopped,
    /// The VM, which was told to start anew.
    VmRestarted,
    /// The VM, which is deleted.
    VmGone,
}

impl End {
    fn new(code: u16, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            reason: reason.into(),
            told: None,
            is_unexplained: false,
        }
    }

    /// It has come to its end.
    pub(crate) fn ended(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(1000, reason)
    }

    /// The stream ended without a word, as those of the cluster do.
    pub(crate) fn unexplained() -> Self {
        Self {
            is_unexplained: true,
            ..Self::ended("")
        }
    }

    /// The stream broke.
    pub(crate) fn lost(how: &str) -> Self {
        Self {
            is_unexplained: true,
            ..Self::failed(format!("the VM's side was lost: {how}"))
        }
    }

    /// The process is about to end, and another one may be there.
    pub(crate) fn going_away() -> Self {
        Self::new(1001, "the server is about to end: connect again")
    }

    /// The session or the account is over.
    pub(crate) fn session_over(reason: &'static str) -> Self {
        Self::new(4401, reason)
    }

    /// The account may not have it open any more.
    pub(crate) fn forbidden() -> Self {
        Self::new(4403, "the account may not open this console any more")
    }

    /// It was open, or idle, for as long as one may be.
    pub(crate) fn timed_out(reason: &'static str) -> Self {
        Self::new(4408, reason)
    }

    /// Somebody else is at the console now.
    pub(crate) fn taken() -> Self {
        Self::new(4409, "somebody else opened this console")
    }

    /// Somebody wished it away.
    pub(crate) fn wished(wish: Wish) -> Self {
        let Wish { by, reason } = &wish;
        let words = if reason.is_empty() {
            format!("ended by {by}")
        } else {
            format!("ended by {by}: {reason}")
        };
        Self {
            told: Some(Told::Ended(wish)),
            ..Self::new(4410, words)
        }
    }

    /// Anything else.
    pub(crate) fn failed(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(4500, reason)
    }

    /// The same, because of what came to its end.
    #[must_use]
    pub(crate) fn because(self, cause: Cause) -> Self {
        Self {
            told: Some(Told::Cause(cause)),
            ..self
        }
    }

    /// Whether why is still to be found out.
    pub(crate) fn is_unexplained(&self) -> bool {
        self.is_unexplained
    }

    /// Whether it is the end of the VM, and nobody's wish.
    pub(crate) fn is_of_vm(&self) -> bool {
        use Cause::{VmGone, VmRestarted, VmStopped};
        matches!(
            self.told,
            Some(Told::Cause(VmGone | VmRestarted | VmStopped))
        )
    }

    /// The close code.
    pub(crate) fn code(&self) -> u16 {
        self.code
    }

    /// Why, in words.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// What is told before the end.
    pub(crate) fn words(&self) -> Option<Message> {
        let told = self.told.as_ref()?;
        Some(Message::text(json!(told).to_string()))
    }

    /// The end itself.
    pub(crate) fn frame(&self) -> CloseFrame {
        let mut end = self.reason.len().min(MOST_REASON);
        while !self.reason.is_char_boundary(end) {
            end -= 1;
        }
        CloseFrame {
            code: self.code,
            reason: Utf8Bytes::from(&self.reason[..end]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(end: &End) -> String {
        let words = end.words();
        let text = words.as_ref().and_then(|words| words.to_text().ok());
        text.unwrap_or_default().to_owned()
    }

    #[test]
    fn reasons_fit_into_a_frame() {
        let end = End::failed("ä".repeat(100));
        let frame = end.frame();
        assert_eq!(frame.reason.len(), 122, "whole letters");
        assert_eq!(End::taken().frame().code, 4409);
    }

    #[test]
    fn what_somebody_wrote_is_told_in_whole() {
        let reason = "ä".repeat(200);
        let by = "ann".to_owned();
        let told = words(&End::wished(Wish { by, reason }));
        assert!(told.contains(&"ä".repeat(200)), "{told}");
        assert!(End::taken().words().is_none());
    }

    #[test]
    fn what_came_to_its_end_is_told_apart() {
        for (cause, told) in [
            (Cause::Exited(7), r#"{"cause":{"exited":7}}"#),
            (
                Cause::Killed("TERM".to_owned()),
                r#"{"cause":{"killed":"TERM"}}"#,
            ),
            (Cause::VmRestarted, r#"{"cause":"vmRestarted"}"#),
        ] {
            let is_of_vm = cause == Cause::VmRestarted;
            let end = End::ended("").because(cause);
            assert_eq!(words(&end), told);
            assert_eq!((end.is_of_vm(), end.is_unexplained()), (is_of_vm, false));
        }
        assert!(End::lost("it broke").is_unexplained());
    }
}
