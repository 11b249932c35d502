//! A server's side of the login.

use zeroize::Zeroizing;

use super::request::{Offered, Proof, Request, Verified};
use super::{CONNECTION, LoginError, USERAUTH, signed_part};
use crate::message::{
    GLOBAL_REQUEST, SERVICE_ACCEPT, SERVICE_REQUEST, USERAUTH_60, USERAUTH_61, USERAUTH_BANNER,
    USERAUTH_FAILURE, USERAUTH_REQUEST, USERAUTH_SUCCESS, printable,
};
use crate::wire::{Fields, Malformed, Message};

const PUBLIC_KEY: &str = "publickey";
/// Names the host key in what is signed (OpenSSH's `PROTOCOL`, 3.1).
const HOST_BOUND: &str = "publickey-hostbound-v00@openssh.com";
const PASSWORD: &str = "password";
const INTERACTIVE: &str = "keyboard-interactive";

/// Answers to questions that are read.
const MOST_ANSWERS: u32 = 32;

/// What may be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Methods {
    /// Keys.
    pub key: bool,
    /// A password.
    pub password: bool,
    /// Questions.
    pub interactive: bool,
}

impl Methods {
    fn list(self) -> String {
        let all = [
            (self.key, PUBLIC_KEY),
            (self.password, PASSWORD),
            (self.interactive, INTERACTIVE),
        ];
        let on = all.iter().filter(|(is_on, _)| *is_on);
        let names: Vec<_> = on.map(|(_, name)| *name).collect();
        names.join(",")
    }
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// What is asked.
    pub text: String,
    /// Whether the answer may be seen as it is typed.
    pub echo: bool,
}

/// What a client's message is.
#[derive(Debug)]
#[must_use]
pub enum Asked {
    /// Something with this answer, whatever anybody decides.
    Reply(Vec<u8>),
    /// A try, which waits for a decision.
    Request {
        /// The name that is logged in to, as the client wrote it.
        user: Vec<u8>,
        /// By what.
        request: Request,
    },
    /// Something that means nothing any more.
    Nothing,
    /// A message that nobody knows.
    Unimplemented,
}

/// What a decision may be on.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pending {
    /// Something that proves what it has to by itself, or is decided elsewhere.
    Plain,
    /// Questions were asked for, or answered: more may be asked.
    Questions,
    /// A key that was not used.
    Probe { algorithm: Vec<u8>, key: Vec<u8> },
    /// A key with a signature.
    Key { request: u64, is_verified: bool },
    /// A method that is not here.
    Unknown,
}

#[derive(Debug)]
enum State {
    /// Nobody has asked for the login.
    Closed,
    /// A try may come.
    Ready,
    /// One waits for a decision.
    Deciding {
        user: Vec<u8>,
        pending: Pending,
    },
    /// Questions wait for answers.
    Questioning {
        user: Vec<u8>,
    },
    Done,
}

/// A server's side of the login.
#[derive(Debug)]
pub struct Server {
    session: Vec<u8>,
    host_key: Vec<u8>,
    state: State,
    requests: u64,
}

impl Server {
    /// Of a connection with that name and host key.
    #[must_use]
    pub fn new(session: &[u8], host_key: &[u8]) -> Self {
        Self {
            session: session.to_vec(),
            host_key: host_key.to_vec(),
            state: State::Closed,
            requests: 0,
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// The client breaks the protocol, or asks for a service that is not here. The connection
    /// is to be ended.
    pub fn take(&mut self, payload: &[u8]) -> Result<Asked, LoginError> {
        let number = *payload.first().ok_or(LoginError::Malformed(0))?;
        let malformed = LoginError::of(number);
        let mut fields = Fields(&payload[1..]);
        match (&mut self.state, number) {
            (State::Deciding { .. }, _) => Err(LoginError::Misuse("a decision is")),
            (State::Closed | State::Ready | State::Questioning { .. }, SERVICE_REQUEST) => {
                let service = fields.string().and_then(|it| fields.end().map(|()| it));
                let service = service.map_err(malformed)?;
                if service != USERAUTH {
                    return Err(LoginError::Service(printable(service)));
                }
                // As often as a client likes: some ask before each try.
                self.state = State::Ready;
                let accept = Message::new(SERVICE_ACCEPT).string(service);
                Ok(Asked::Reply(accept.done()))
            }
            (State::Ready | State::Questioning { .. }, USERAUTH_REQUEST) => {
                self.request(fields).map_err(malformed)?
            }
            (State::Questioning { user }, USERAUTH_61) => {
                let user = std::mem::take(user);
                let answers = answers(fields).map_err(malformed)?;
                Ok(self.decide(user, Pending::Questions, Request::Answers(answers)))
            }
            // What was on its way when the login succeeded (RFC 4252 §5.1).
            (State::Done, USERAUTH_REQUEST) => Ok(Asked::Nothing),
            (State::Done, SERVICE_REQUEST) | (_, 62..GLOBAL_REQUEST) => Ok(Asked::Unimplemented),
            (State::Closed, _) => Err(forbidden(number, "the login's service")),
            (State::Ready | State::Questioning { .. }, _) => Err(forbidden(number, "the login")),
            (State::Done, _) => Err(forbidden(number, "the connection")),
        }
    }

    fn request(&mut self, mut fields: Fields<'_>) -> Result<Result<Asked, LoginError>, Malformed> {
        let (user, service, method) = (fields.string()?, fields.string()?, fields.string()?);
        if service != CONNECTION {
            return Ok(Err(LoginError::Service(printable(service))));
        }
        let user = user.to_vec();
        self.requests += 1;
        let is_bound = method == HOST_BOUND.as_bytes();
        let (pending, request) = if method == b"none" {
            fields.end()?;
            // It proves nothing, which suffices for whoever says so.
            (Pending::Plain, Request::None)
        } else if method == PASSWORD.as_bytes() {
            // To change it is not offered, and whoever tries does not get in by the old one.
            let changes = fields.boolean()?;
            let password = Zeroizing::new(fields.string()?.to_vec());
            if changes {
                (Pending::Unknown, Request::Unknown(b"password".to_vec()))
            } else {
                fields.end()?;
                (Pending::Plain, Request::Password(password))
            }
        } else if method == INTERACTIVE.as_bytes() {
            // A language and how the client would like to be asked.
            fields.string()?;
            fields.string()?;
            fields.end()?;
            (Pending::Questions, Request::Interactive)
        } else if is_bound || method == PUBLIC_KEY.as_bytes() {
            self.key(&user, fields, is_bound)?
        } else {
            (Pending::Unknown, Request::Unknown(method.to_vec()))
        };
        Ok(Ok(self.decide(user, pending, request)))
    }

    fn key(
        &self,
        user: &[u8],
        mut fields: Fields<'_>,
        is_bound: bool,
    ) -> Result<(Pending, Request), Malformed> {
        let is_signed = fields.boolean()?;
        let (algorithm, blob) = (fields.string()?, fields.string()?);
        let bound = if is_bound {
            Some(fields.string()?)
        } else {
            None
        };
        let signature = if is_signed {
            Some(fields.string()?)
        } else {
            None
        };
        fields.end()?;
        let is_elsewhere = bound.is_some_and(|key| key != self.host_key);
        let Some(offered) = Offered::read(algorithm, blob).filter(|_| !is_elsewhere) else {
            return Ok((Pending::Unknown, Request::Unknown(algorithm.to_vec())));
        };
        let Some(signature) = signature else {
            let pending = Pending::Probe {
                algorithm: algorithm.to_vec(),
                key: blob.to_vec(),
            };
            return Ok((pending, Request::Probe(Box::new(offered))));
        };
        let method = if is_bound { HOST_BOUND } else { PUBLIC_KEY };
        let mut signed = signed_part(&self.session, user, method, algorithm, blob);
        if let Some(key) = bound {
            crate::wire::string(&mut signed, key);
        }
        let request = self.requests;
        let proof = Proof {
            key: offered.key.clone(),
            algorithm: offered.algorithm,
            signature: signature.to_vec(),
            signed,
            request,
        };
        let pending = Pending::Key {
            request,
            is_verified: false,
        };
        Ok((pending, Request::Key(Box::new(offered), Box::new(proof))))
    }

    fn decide(&mut self, user: Vec<u8>, pending: Pending, request: Request) -> Asked {
        self.state = State::Deciding {
            user: user.clone(),
            pending,
        };
        Asked::Request { user, request }
    }

    /// The signature of the key that waits for a decision is the key's.
    ///
    /// # Errors
    /// It is that of another try.
    pub fn verified(&mut self, verified: &Verified) -> Result<(), LoginError> {
        match &mut self.state {
            State::Deciding {
                pending:
                    Pending::Key {
                        request,
                        is_verified,
                    },
                ..
            } if *request == verified.request => {
                *is_verified = true;
                Ok(())
            }
            _ => Err(LoginError::Misuse("a signature")),
        }
    }

    /// Whether what waits for a decision may be enough.
    fn may_suffice(&self) -> bool {
        match &self.state {
            State::Deciding { pending, .. } => match pending {
                Pending::Plain | Pending::Questions => true,
                Pending::Key { is_verified, .. } => *is_verified,
                Pending::Probe { .. } | Pending::Unknown => false,
            },
            _ => false,
        }
    }

    /// Lets the user in; the message to send.
    ///
    /// # Errors
    /// Nothing waits for a decision that may be enough: a key of which no signature was
    /// verified lets nobody in.
    pub fn accept(&mut self) -> Result<Vec<u8>, LoginError> {
        if !self.may_suffice() {
            return Err(LoginError::Misuse("a try that may be enough"));
        }
        self.state = State::Done;
        Ok(vec![USERAUTH_SUCCESS])
    }

    /// What was tried is right, and something else is wanted beside it; the message to send.
    ///
    /// # Errors
    /// As [`Server::accept`].
    pub fn accept_in_part(&mut self, rest: Methods) -> Result<Vec<u8>, LoginError> {
        if !self.may_suffice() {
            return Err(LoginError::Misuse("a try that may be enough"));
        }
        self.state = State::Ready;
        Ok(failure(rest, true))
    }

    /// Refuses what was tried, and tells what may be; the message to send.
    ///
    /// # Errors
    /// Nothing waits for a decision.
    pub fn reject(&mut self, methods: Methods) -> Result<Vec<u8>, LoginError> {
        let State::Deciding { .. } = &self.state else {
            return Err(LoginError::Misuse("a try"));
        };
        self.state = State::Ready;
        Ok(failure(methods, false))
    }

    /// The key that the client has not used is worth a signature; the message to send.
    ///
    /// # Errors
    /// No such key waits for a decision.
    pub fn try_key(&mut self) -> Result<Vec<u8>, LoginError> {
        let State::Deciding {
            pending: Pending::Probe { algorithm, key },
            ..
        } = &self.state
        else {
            return Err(LoginError::Misuse("a key that was not used"));
        };
        let message = Message::new(USERAUTH_60).string(algorithm).string(key);
        self.state = State::Ready;
        Ok(message.done())
    }

    /// Asks the user something, with words before it; the message to send.
    ///
    /// # Errors
    /// No try by questions waits for a decision.
    pub fn ask(&mut self, words: &str, prompts: &[Prompt]) -> Result<Vec<u8>, LoginError> {
        let State::Deciding {
            user,
            pending: Pending::Questions,
        } = &mut self.state
        else {
            return Err(LoginError::Misuse("questions"));
        };
        let user = std::mem::take(user);
        self.state = State::Questioning { user };
        let message = Message::new(USERAUTH_60).string("").string(words);
        let count = u32::try_from(prompts.len()).unwrap_or(u32::MAX);
        let mut message = message.string("").number(count);
        for prompt in prompts {
            message = message.string(&prompt.text).boolean(prompt.echo);
        }
        Ok(message.done())
    }

    /// Words for the user, as long as nobody is let in; the message to send.
    ///
    /// # Errors
    /// The login is over.
    pub fn banner(&self, words: &[u8]) -> Result<Vec<u8>, LoginError> {
        if matches!(self.state, State::Closed | State::Done) {
            return Err(LoginError::Misuse("a login"));
        }
        let message = Message::new(USERAUTH_BANNER).string(words).string("");
        Ok(message.done())
    }

    /// Whether the user was let in.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }
}

fn failure(methods: Methods, in_part: bool) -> Vec<u8> {
    let message = Message::new(USERAUTH_FAILURE).string(methods.list());
    message.boolean(in_part).done()
}

fn forbidden(number: u8, wanted: &'static str) -> LoginError {
    LoginError::Forbidden { number, wanted }
}

fn answers(mut fields: Fields<'_>) -> Result<Vec<Zeroizing<Vec<u8>>>, Malformed> {
    let count = fields.number()?;
    if count > MOST_ANSWERS {
        return Err(Malformed);
    }
    let mut answers = Vec::new();
    for _ in 0..count {
        answers.push(Zeroizing::new(fields.string()?.to_vec()));
    }
    fields.end()?;
    Ok(answers)
}
