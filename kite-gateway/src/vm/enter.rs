//! Logging in to a machine: with the gateway's key, or with what the user typed.

use std::sync::Arc;

use russh::MethodKind;
use russh::client::{AuthResult, Handle, KeyboardInteractiveAuthResponse as Asked};
use russh::keys::{HashAlg, PrivateKeyWithHashAlg};

use super::dial::DialError;
use super::handler::VmHandler;
use crate::route::{Credential, Target};
use crate::secret::Secret;

/// Rounds of questions that a machine may ask: one for the password, and some
/// without a question, which PAM sends to tell something.
const ROUNDS: usize = 4;

/// Logs in as the target's user.
pub(super) async fn log_in(
    handle: &mut Handle<VmHandler>,
    target: &Target,
    password: Option<&Secret>,
) -> Result<(), DialError> {
    let user = &target.user;
    match &target.credential {
        Credential::Key(key) => {
            let hash = key.algorithm().is_rsa().then_some(HashAlg::Sha512);
            let key = PrivateKeyWithHashAlg::new(Arc::clone(key), hash);
            if handle.authenticate_publickey(user, key).await?.success() {
                Ok(())
            } else {
                Err(DialError::Refused(user.clone()))
            }
        }
        Credential::UsersPassword => {
            let password = password.ok_or(DialError::NoPassword)?;
            with_password(handle, user, password).await
        }
    }
}

async fn with_password(
    handle: &mut Handle<VmHandler>,
    user: &str,
    password: &Secret,
) -> Result<(), DialError> {
    match handle
        .authenticate_password(user, password.reveal())
        .await?
    {
        AuthResult::Success => Ok(()),
        AuthResult::Failure {
            partial_success: true,
            ..
        } => Err(DialError::MoreThanPassword(user.to_owned())),
        // Only a machine that does not know the method at all is asked by the
        // other one: it would count one wrong password twice.
        AuthResult::Failure {
            remaining_methods, ..
        } if !remaining_methods.contains(&MethodKind::Password)
            && remaining_methods.contains(&MethodKind::KeyboardInteractive) =>
        {
            answer(handle, user, password).await
        }
        AuthResult::Failure { .. } => Err(DialError::Password(user.to_owned())),
    }
}

/// Keyboard-interactive, where it comes down to one hidden question.
async fn answer(
    handle: &mut Handle<VmHandler>,
    user: &str,
    password: &Secret,
) -> Result<(), DialError> {
    let mut asked = handle
        .authenticate_keyboard_interactive_start(user, None)
        .await?;
    let mut answered = false;
    for _ in 0..ROUNDS {
        let answers = match asked {
            Asked::Success => return Ok(()),
            Asked::Failure {
                partial_success: false,
                ..
            } => return Err(DialError::Password(user.to_owned())),
            Asked::InfoRequest { prompts, .. } => match prompts.as_slice() {
                [] => Vec::new(),
                [prompt] if !prompt.echo && !answered => {
                    answered = true;
                    vec![password.reveal().to_owned()]
                }
                _ => break,
            },
            Asked::Failure { .. } => break,
        };
        asked = handle
            .authenticate_keyboard_interactive_respond(answers)
            .await?;
    }
    Err(DialError::MoreThanPassword(user.to_owned()))
}
