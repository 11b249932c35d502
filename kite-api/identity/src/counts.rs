//! [`Counts`]: what is counted of sign-ins.

use std::sync::atomic::Ordering;

use kite_rest::ProblemKind;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

/// What is counted of sign-ins, and of the passwords that are hashed for them.
#[derive(Clone, Debug)]
pub struct Counts {
    sign_ins: Family<SignInLabel, Counter>,
    hashing: Hashing,
}

/// How passwords are being hashed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hashing {
    running: Gauge,
    most: Gauge,
    refused: Counter,
}

impl Hashing {
    /// Notes that a hash begins, until what this gives is dropped.
    #[must_use = "it has ended when this is dropped"]
    pub(crate) fn begin(&self) -> Begun {
        let running = self.running.inc() + 1;
        self.most.inner().fetch_max(running, Ordering::Relaxed);
        Begun(self.running.clone())
    }

    pub(crate) fn refused(&self) {
        self.refused.inc();
    }
}

/// A hash that runs.
pub(crate) struct Begun(Gauge);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SignInLabel {
    outcome: &'static str,
}

/// Of an outcome that appears with its first sign-in, no increase is seen: all are
/// there from the start, as 0.
fn sign_ins_from_the_start() -> Family<SignInLabel, Counter> {
    let sign_ins = Family::default();
    for outcome in [
        "success",
        "wrong_credentials",
        "second_factor_required",
        "throttled",
        "suspended",
        "error",
    ] {
        drop(sign_ins.get_or_create(&SignInLabel { outcome }));
    }
    sign_ins
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            sign_ins: sign_ins_from_the_start(),
            hashing: Hashing::default(),
        }
    }
}

impl Counts {
    /// Makes the counts part of what `registry` shows, whose names begin as the application
    /// says ([`Registry::sub_registry_with_prefix`]).
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "sign_ins",
            "Attempts to sign in, by outcome",
            self.sign_ins.clone(),
        );
        registry.register(
            "passwords_hashing",
            "Passwords that are being hashed or verified",
            self.hashing.running.clone(),
        );
        registry.register(
            "passwords_hashing_most",
            "Most passwords that were hashed or verified at once since the start",
            self.hashing.most.clone(),
        );
        registry.register(
            "passwords_refused",
            "Requests that were refused because too many waited for a password's hash",
            self.hashing.refused.clone(),
        );
    }

    pub(crate) fn hashing(&self) -> &Hashing {
        &self.hashing
    }

    pub(crate) fn signed_in(&self, outcome: Result<(), ProblemKind>) {
        let outcome = match outcome {
            Ok(()) => "success",
            Err(ProblemKind::WrongCredentials) => "wrong_credentials",
            Err(ProblemKind::SecondFactorRequired) => "second_factor_required",
            Err(ProblemKind::TooManyRequests) => "throttled",
            Err(ProblemKind::Suspended) => "suspended",
            Err(_) => "error",
        };
        self.sign_ins.get_or_create(&SignInLabel { outcome }).inc();
    }
}
