//! What a smoke test says: how far it is, and what came of it.

use std::{collections::BTreeSet, fmt, mem, time::Duration};

use serde::Serialize;
use tokio::time::Instant;

use crate::causes::said;

/// A step of the way of a user through the platform, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// The platform says where its web page and its gateway are.
    Platform,
    /// The HTTP API answers.
    Api,
    /// The gateway answers, with the right host key.
    Gateway,
    /// There is an image to make a VM from.
    Image,
    /// The throw-away user is made, with its namespace.
    User,
    /// It signs in.
    SignIn,
    /// It makes a VM.
    Vm,
    /// The VM runs.
    Running,
    /// It logs in through the gateway, and a command runs in the VM.
    Login,
    /// It deletes the VM.
    DeleteVm,
    /// The user is deleted, with its namespace.
    DeleteUser,
    /// Nothing of it is left.
    NothingLeft,
    /// What a failure, or an interruption, has left behind is taken away.
    CleanUp,
}

impl Step {
    /// How many of the steps are before this one, and how many there are on the way:
    /// clearing up is behind all of them.
    pub fn progress(self) -> (usize, usize) {
        (self as usize, Self::CleanUp as usize)
    }

    /// Its name, as scripts read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Api => "api",
            Self::Gateway => "gateway",
            Self::Image => "image",
            Self::User => "user",
            Self::SignIn => "signIn",
            Self::Vm => "vm",
            Self::Running => "running",
            Self::Login => "login",
            Self::DeleteVm => "deleteVm",
            Self::DeleteUser => "deleteUser",
            Self::NothingLeft => "nothingLeft",
            Self::CleanUp => "cleanUp",
        }
    }

    /// What to do where it fails, unless the failure itself says better.
    fn remedy(self, namespace: &str, user: &str) -> String {
        let logs = |process: &str| {
            format!("look at kubectl -n {namespace} logs -l app.kubernetes.io/name={process}")
        };
        match self {
            Self::Platform => "see kite doctor; name the addresses with --api-url and --gateway \
                               where the platform does not say them"
                .to_owned(),
            Self::Api => format!(
                "see kite doctor, or go around what is in front of it: kubectl -n {namespace} \
                 port-forward svc/kite-api 8080, and --api-url http://localhost:8080"
            ),
            Self::Gateway => format!(
                "see kite doctor and kubectl -n {namespace} get svc kite-gateway-external, or \
                 name where it is with --gateway HOST:PORT"
            ),
            Self::Image => "see kubectl get kiteimages and describe those that are not Ready, or \
                            name one with --image"
                .to_owned(),
            Self::User | Self::DeleteUser | Self::NothingLeft => {
                format!(
                    "{}, and kubectl describe kiteuser {user}",
                    logs("kite-controller")
                )
            }
            Self::SignIn => logs("kite-api"),
            Self::Vm | Self::Running | Self::DeleteVm => format!(
                "look at what its conditions say (repeat this with --keep, and kubectl describe \
                 ktvm -n kite-user-…), and {}",
                logs("kite-controller")
            ),
            Self::Login => logs("kite-gateway"),
            Self::CleanUp => format!("kubectl delete kiteuser {user}"),
        }
    }
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum State {
    /// It went well.
    Passed,
    /// It went well as far as one may look, and that is not all of it.
    NotLookedAt,
    /// It did not.
    Failed,
    /// Somebody broke it off.
    Interrupted,
}

/// A step that is over.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// Which one.
    pub step: Step,
    /// What came of it.
    pub state: State,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// What was seen.
    pub message: String,
    /// What to do; where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// As text for people: a line, and one for the remedy.
impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.state {
            State::Passed => "ok",
            State::NotLookedAt => "unseen",
            State::Failed => "FAILED",
            State::Interrupted => "stopped",
        };
        let (step, seconds) = (self.step.name(), self.seconds);
        write!(
            f,
            "{mark:<7}  {step:<11}  {seconds:>6.1} s  {}",
            self.message
        )?;
        if let Some(remedy) = &self.remedy {
            write!(f, "\n{:<7}  {:<11}  {:>8}  -> {remedy}", "", "", "")?;
        }
        Ok(())
    }
}

/// What came of all of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The worst of the steps.
    pub state: State,
    /// The throw-away user.
    pub user: String,
    /// Users that earlier smoke tests had left behind, and this one deleted.
    pub swept: Vec<String>,
    /// Every step that was begun.
    pub steps: Vec<Done>,
}

/// What happens meanwhile.
#[derive(Debug)]
pub enum News<'a> {
    /// A step is under way; the text says what it waits for.
    Waiting(Step, &'a str),
    /// A step is over.
    Done(&'a Done),
    /// A user that an earlier smoke test left behind is deleted.
    Swept(&'a str),
}

/// Why a step failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) message: String,
    /// Instead of the step's own.
    pub(super) remedy: Option<String>,
}

impl Failure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            remedy: None,
        }
    }

    pub(super) fn with_remedy(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            remedy: Some(remedy.into()),
        }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self::new(format!("the API server: {}", said(&error)))
    }
}

/// That a step failed, and so nothing after it makes sense.
pub(super) struct Stopped;

/// Keeps what came of each step, and tells of it.
pub(super) struct Record<'a> {
    told: &'a mut dyn FnMut(&News<'_>),
    namespace: String,
    user: String,
    steps: Vec<Done>,
    swept: Vec<String>,
    current: Option<(Step, Instant)>,
    /// The step that all is well with, if it is.
    last: Step,
    /// Whether somebody broke it off, be it within a step or between two.
    is_broken_off: bool,
}

impl<'a> Record<'a> {
    pub(super) fn new(
        namespace: &str,
        user: &str,
        last: Step,
        told: &'a mut dyn FnMut(&News<'_>),
    ) -> Self {
        Self {
            last,
            is_broken_off: false,
            told,
            namespace: namespace.to_owned(),
            user: user.to_owned(),
            steps: Vec::new(),
            swept: Vec::new(),
            current: None,
        }
    }

    /// Takes a step: `task` gives what goes on with, and what was seen.
    pub(super) async fn take<T>(
        &mut self,
        step: Step,
        task: impl AsyncFnOnce(&mut Waiting<'_, '_>) -> Result<(T, String), Failure>,
    ) -> Result<T, Stopped> {
        self.current = Some((step, Instant::now()));
        let mut waiting = Waiting {
            step,
            told: &mut *self.told,
            last: String::new(),
            unseen: BTreeSet::new(),
        };
        waiting.on("");
        let taken = task(&mut waiting).await;
        let unseen = mem::take(&mut waiting.unseen);
        match taken {
            Ok((value, message)) if unseen.is_empty() => {
                self.end(State::Passed, message, None);
                Ok(value)
            }
            Ok((value, message)) => {
                let unseen = unseen.into_iter().collect::<Vec<_>>().join(", ");
                let message = format!("{message}; not looked at: {unseen}");
                let remedy = format!("run it as somebody with the right to list {unseen}");
                self.end(State::NotLookedAt, message, Some(remedy));
                Ok(value)
            }
            Err(Failure { message, remedy }) => {
                self.end(State::Failed, message, remedy);
                Err(Stopped)
            }
        }
    }

    /// All was broken off, with the step that is under way if there is one.
    pub(super) fn interrupted(&mut self) {
        self.is_broken_off = true;
        let remedy = Some("repeat it".to_owned());
        self.end(State::Interrupted, "broken off".to_owned(), remedy);
    }

    /// Whether the step was begun, and is over.
    pub(super) fn has(&self, step: Step) -> bool {
        self.steps.iter().any(|it| it.step == step)
    }

    pub(super) fn swept(&mut self, user: String) {
        (self.told)(&News::Swept(&user));
        self.swept.push(user);
    }

    fn end(&mut self, state: State, message: String, remedy: Option<String>) {
        let Some((step, since)) = self.current.take() else {
            return;
        };
        let is_well = state == State::Passed;
        let own = || step.remedy(&self.namespace, &self.user);
        let done = Done {
            step,
            state,
            seconds: tenths(since.elapsed()),
            message,
            remedy: (!is_well).then(|| remedy.unwrap_or_else(own)),
        };
        (self.told)(&News::Done(&done));
        self.steps.push(done);
    }

    pub(super) fn report(self) -> Report {
        let has = |state| self.steps.iter().any(|it| it.state == state);
        let state = if has(State::Failed) {
            State::Failed
        } else if self.is_broken_off {
            State::Interrupted
        } else if !self.has(self.last) {
            State::Failed
        } else if has(State::NotLookedAt) {
            State::NotLookedAt
        } else {
            State::Passed
        };
        Report {
            state,
            user: self.user,
            swept: self.swept,
            steps: self.steps,
        }
    }
}

/// Tells what the step under way waits for.
pub(super) struct Waiting<'r, 'a> {
    step: Step,
    told: &'r mut (dyn FnMut(&News<'_>) + 'a),
    last: String,
    unseen: BTreeSet<String>,
}

impl Waiting<'_, '_> {
    pub(super) fn on(&mut self, what: &str) {
        if self.last != what || what.is_empty() {
            (self.told)(&News::Waiting(self.step, what));
            what.clone_into(&mut self.last);
        }
    }

    /// That objects of this kind may not be looked at.
    pub(super) fn may_not_see(&mut self, kind: &str) {
        self.unseen.insert(kind.to_owned());
    }

    /// What it waited for last.
    pub(super) fn last(&self) -> &str {
        if self.last.is_empty() {
            "nothing was seen of it"
        } else {
            &self.last
        }
    }
}

/// Seconds, to the tenth.
fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}
