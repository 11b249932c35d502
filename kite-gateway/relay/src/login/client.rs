//! A client's side of the login.

use zeroize::Zeroizing;

use super::{CONNECTION, LoginError, USERAUTH, signed_part};
use crate::algorithm::Algorithm;
use crate::message::{
    SERVICE_ACCEPT, SERVICE_REQUEST, USERAUTH_60, USERAUTH_61, USERAUTH_BANNER, USERAUTH_FAILURE,
    USERAUTH_REQUEST, USERAUTH_SUCCESS, printable,
};
use crate::sign::SigningKey;
use crate::wire::{Fields, Malformed, Message, names};

/// Bytes of banners that a server may send.
pub(super) const MOST_WORDS: usize = 64 * 1024;
/// Questions that a server may ask at once.
const MOST_QUESTIONS: u32 = 32;

/// A question of a server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What is asked.
    pub text: Vec<u8>,
    /// Whether the answer may be seen as it is typed.
    pub echo: bool,
}

/// Questions of a server's, which belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Questions {
    /// What the server calls them.
    pub name: Vec<u8>,
    /// What it says before them.
    pub instruction: Vec<u8>,
    /// The questions; there may be none.
    pub questions: Vec<Question>,
}

/// What a server has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Answered {
    /// Something may be tried.
    Ready,
    /// What was tried does not suffice.
    Failure {
        /// What may be tried.
        methods: Vec<Vec<u8>>,
        /// Whether it was right.
        in_part: bool,
    },
    /// The user is in.
    Success,
    /// Words for the user.
    Banner(Vec<u8>),
    /// Questions.
    Questions(Questions),
    /// The password is right, and has to be changed.
    ChangePassword,
    /// A message that nobody knows.
    Unimplemented,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The service was asked for.
    Asking,
    /// Nothing is tried.
    Ready,
    /// A key is tried.
    Key,
    /// A password is.
    Password,
    /// Questions were asked for, or answered.
    Interactive,
    /// They wait for answers.
    Questioned,
    Done,
}

/// A client's side of the login.
#[derive(Debug)]
pub struct Client {
    user: Vec<u8>,
    state: State,
    words: usize,
}

impl Client {
    /// For a user; and the first message to send.
    #[must_use]
    pub fn start(user: &[u8]) -> (Self, Vec<u8>) {
        let client = Self {
            user: user.to_vec(),
            state: State::Asking,
            words: 0,
        };
        let request = Message::new(SERVICE_REQUEST).string(USERAUTH);
        (client, request.done())
    }

    /// Reads a message.
    ///
    /// # Errors
    /// The server breaks the protocol. The connection is to be ended.
    pub fn take(&mut self, payload: &[u8]) -> Result<Answered, LoginError> {
        let number = *payload.first().ok_or(LoginError::Malformed(0))?;
        let malformed = LoginError::of(number);
        let mut fields = Fields(&payload[1..]);
        match (self.state, number) {
            (State::Asking, SERVICE_ACCEPT) => {
                let service = fields.string().map_err(malformed)?;
                if service != USERAUTH {
                    return Err(LoginError::Service(printable(service)));
                }
                self.state = State::Ready;
                Ok(Answered::Ready)
            }
            (state, USERAUTH_BANNER) if state != State::Done => {
                let words = fields.string().map_err(malformed)?;
                self.words += words.len();
                if self.words > MOST_WORDS {
                    return Err(LoginError::Words);
                }
                Ok(Answered::Banner(words.to_vec()))
            }
            (State::Key | State::Password | State::Interactive, USERAUTH_FAILURE) => {
                let failed = failure(fields).map_err(malformed)?;
                self.state = State::Ready;
                Ok(failed)
            }
            (State::Key | State::Password | State::Interactive, USERAUTH_SUCCESS) => {
                fields.end().map_err(malformed)?;
                self.state = State::Done;
                Ok(Answered::Success)
            }
            (State::Password, USERAUTH_60) => {
                self.state = State::Ready;
                Ok(Answered::ChangePassword)
            }
            (State::Interactive, USERAUTH_60) => {
                let questions = questions(fields).map_err(malformed)?;
                self.state = State::Questioned;
                Ok(Answered::Questions(questions))
            }
            (_, USERAUTH_61..80) => Ok(Answered::Unimplemented),
            _ => Err(LoginError::Forbidden {
                number,
                wanted: "an answer to the login",
            }),
        }
    }

    fn may(&self, state: State) -> Result<(), LoginError> {
        if self.state == state {
            Ok(())
        } else {
            Err(LoginError::Misuse("what this is for"))
        }
    }

    fn request(&self, method: &str) -> Message {
        let message = Message::new(USERAUTH_REQUEST).string(&self.user);
        message.string(CONNECTION).string(method)
    }

    /// Tries a key, on a connection of that name; the message to send.
    ///
    /// # Errors
    /// Something is tried already, or the key does not sign.
    pub fn key(
        &mut self,
        session: &[u8],
        key: &SigningKey,
        algorithm: Algorithm,
    ) -> Result<Vec<u8>, LoginError> {
        self.may(State::Ready)?;
        let name = algorithm.name().as_bytes();
        let signed = signed_part(session, &self.user, "publickey", name, key.blob());
        let signature = key.sign(algorithm, &signed)?;
        self.state = State::Key;
        let request = self.request("publickey").boolean(true);
        Ok(request
            .string(name)
            .string(key.blob())
            .string(signature)
            .done())
    }

    /// Tries a password; the message to send.
    ///
    /// # Errors
    /// Something is tried already.
    pub fn password(&mut self, password: &[u8]) -> Result<Zeroizing<Vec<u8>>, LoginError> {
        self.may(State::Ready)?;
        self.state = State::Password;
        let method = b"password";
        let fixed = self.user.len() + CONNECTION.len() + method.len();
        let message = Message::secret(USERAUTH_REQUEST, 17 + fixed + password.len());
        let request = message.string(&self.user).string(CONNECTION).string(method);
        Ok(Zeroizing::new(
            request.boolean(false).string(password).done(),
        ))
    }

    /// Asks for questions; the message to send.
    ///
    /// # Errors
    /// Something is tried already.
    pub fn interactive(&mut self) -> Result<Vec<u8>, LoginError> {
        self.may(State::Ready)?;
        self.state = State::Interactive;
        let request = self.request("keyboard-interactive");
        Ok(request.string("").string("").done())
    }

    /// Answers questions; the message to send.
    ///
    /// # Errors
    /// There are none.
    pub fn answers(&mut self, answers: &[&[u8]]) -> Result<Zeroizing<Vec<u8>>, LoginError> {
        self.may(State::Questioned)?;
        self.state = State::Interactive;
        let count = u32::try_from(answers.len()).unwrap_or(u32::MAX);
        let bytes: usize = answers.iter().map(|answer| 4 + answer.len()).sum();
        let mut message = Message::secret(USERAUTH_61, 4 + bytes).number(count);
        for answer in answers {
            message = message.string(answer);
        }
        Ok(Zeroizing::new(message.done()))
    }

    /// Whether the user is in.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }
}

fn failure(mut fields: Fields<'_>) -> Result<Answered, Malformed> {
    let methods = names(fields.string()?).map(<[u8]>::to_vec).collect();
    let in_part = fields.boolean()?;
    fields.end()?;
    Ok(Answered::Failure { methods, in_part })
}

fn questions(mut fields: Fields<'_>) -> Result<Questions, Malformed> {
    let (name, instruction) = (fields.string()?.to_vec(), fields.string()?.to_vec());
    fields.string()?;
    let count = fields.number()?;
    if count > MOST_QUESTIONS {
        return Err(Malformed);
    }
    let mut questions = Vec::new();
    for _ in 0..count {
        let (text, echo) = (fields.string()?.to_vec(), fields.boolean()?);
        questions.push(Question { text, echo });
    }
    fields.end()?;
    Ok(Questions {
        name,
        instruction,
        questions,
    })
}
