//! [`Failure`]: what may go wrong between a click on a provider's button and a
//! session. Browsers are led to a page that says it in words; whatever a provider
//! sent is for the log alone.

use std::time::Duration;

use kite_rest::{Problem, ProblemKind};

use crate::throttle::too_many;

/// Why somebody is not signed in.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The platform has no such provider.
    NoProvider,
    /// Where the person wants to be in the end is no page of the application's.
    BadReturn(String),
    /// The browser did not begin this sign-in, or not within its time.
    Expired,
    /// The person, or the provider, said no.
    Denied,
    /// The provider did not give a token for the code.
    Refused,
    /// What the provider sent does not prove anything.
    Untrusted,
    /// The provider does not answer.
    Unavailable,
    /// The settings of the provider cannot work.
    Misconfigured(String),
    /// The person is in none of the groups that may sign in.
    NotAdmitted,
    /// The person has no account and does not get one.
    NoAccount,
    /// The provider says nothing that could be a username.
    NoUsername,
    /// Another account has the username.
    UsernameTaken(String),
    /// The account is suspended or being deleted.
    Suspended,
    /// Another account has the identity.
    IdentityTaken,
    /// No further identity can be linked.
    TooManyIdentities,
    /// The session that began to link an identity is not that of the browser.
    OtherSession,
    /// Too many attempts.
    TooMany(Duration),
    /// Anything else.
    Other(Problem),
}

impl Failure {
    /// What the page looks up its words by.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::NoProvider => "no-provider",
            Self::BadReturn(_) => "bad-return",
            Self::Expired => "expired",
            Self::Denied => "denied",
            Self::Refused => "refused",
            Self::Untrusted => "untrusted",
            Self::Unavailable => "unavailable",
            Self::Misconfigured(_) => "misconfigured",
            Self::NotAdmitted => "not-admitted",
            Self::NoAccount => "no-account",
            Self::NoUsername => "no-username",
            Self::UsernameTaken(_) => "username-taken",
            Self::Suspended => "suspended",
            Self::IdentityTaken => "identity-taken",
            Self::TooManyIdentities => "too-many-identities",
            Self::OtherSession => "other-session",
            Self::TooMany(_) => "too-many",
            Self::Other(_) => "error",
        }
    }

    /// The same for scripts.
    pub(crate) fn problem(self) -> Problem {
        use ProblemKind::{
            Conflict, Forbidden, Internal, Invalid, NotFound, SignInFailed, SignUpClosed,
            Suspended, Taken, Unavailable,
        };
        let (kind, detail) = match self {
            Self::NoProvider => (
                NotFound,
                "there is no sign-in provider of this name: GET /api/v1/config lists them",
            ),
            Self::BadReturn(path) => {
                let message = "must be a path of the web page such as /account";
                return Problem::field(Invalid, "returnTo", &path, message);
            }
            Self::Expired => (
                SignInFailed,
                "the sign-in was not begun by this browser, or more than ten minutes ago: begin \
                 again on the sign-in page",
            ),
            Self::Denied => (
                SignInFailed,
                "the provider did not let you in, or you said no there: try again, or ask who \
                 runs it",
            ),
            Self::Refused => (
                SignInFailed,
                "the provider does not accept its own code, as when a page is loaded again: begin \
                 again on the sign-in page",
            ),
            Self::Untrusted => (
                SignInFailed,
                "what the provider sent cannot be trusted: begin again; if that does not help, \
                 the operator finds the cause in the log",
            ),
            Self::Unavailable => {
                return Problem::new(
                    Unavailable,
                    "the sign-in provider does not answer: try again shortly",
                )
                .retry_after(Duration::from_secs(10));
            }
            Self::Misconfigured(detail) => return Problem::new(Internal, detail),
            Self::NotAdmitted => (
                Forbidden,
                "you are in none of the provider's groups that may use this platform: ask an \
                 administrator",
            ),
            Self::NoAccount => (
                SignUpClosed,
                "there is no account that is linked with you at the provider: ask an \
                 administrator for one, or sign in otherwise and link it on the account page",
            ),
            Self::NoUsername => (
                Conflict,
                "the provider gives no name that could be a username here: ask an administrator \
                 for an account",
            ),
            Self::UsernameTaken(username) => {
                return Problem::new(
                    Taken,
                    format!(
                        "another account has the username {username:?}: if it is yours, sign in \
                         with its password and link the provider on the account page; otherwise \
                         ask an administrator"
                    ),
                );
            }
            Self::Suspended => (Suspended, "the account is suspended: ask an administrator"),
            Self::IdentityTaken => (
                Taken,
                "another account is linked with this identity: sign in to it and unlink it there \
                 first",
            ),
            Self::TooManyIdentities => (
                Conflict,
                "the account is linked with as many identities as it can be: unlink one first",
            ),
            Self::OtherSession => (
                Conflict,
                "you are not signed in any more as when you began to link the provider: sign in \
                 and begin again",
            ),
            Self::TooMany(wait) => return too_many(wait),
            Self::Other(problem) => return problem,
        };
        Problem::new(kind, detail)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        match problem.kind() {
            ProblemKind::Suspended => Self::Suspended,
            _ => Self::Other(problem),
        }
    }
}
