//! An answer of the server, and what a check says of it.

use serde_json::Value;

/// Why a check ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The server does otherwise.
    #[error("{0}")]
    Differs(String),
    /// The client may not do what the check needs.
    #[error("no right: {0}")]
    NoRight(String),
    /// The server cannot be reached.
    #[error("the request failed: {0}")]
    Unreachable(#[from] kube::Error),
}

/// The check's own view of what went wrong.
pub(super) fn differs<T>(what: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Differs(what.into()))
}

/// Fails unless something is so.
pub(super) fn ensure(so: bool, what: impl Into<String>) -> Result<(), Failure> {
    if so { Ok(()) } else { differs(what) }
}

/// An answer that is no stream.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// The request, in words.
    pub(super) request: String,
    /// Whether it was sent as another user.
    pub(super) impersonated: bool,
    pub(super) code: u16,
    /// The body: JSON, or a string if it is none.
    pub(super) body: Value,
    /// The body as it was sent.
    pub(super) raw: String,
    /// Texts of the `Warning` headers.
    pub(super) warnings: Vec<String>,
    pub(super) content_type: String,
}

impl Answer {
    /// The value at a JSON pointer, null if there is none.
    pub(super) fn at(&self, pointer: &str) -> &Value {
        self.body.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// The text at a JSON pointer, empty if there is none.
    pub(super) fn text(&self, pointer: &str) -> String {
        self.at(pointer).as_str().unwrap_or_default().to_owned()
    }

    /// `metadata.resourceVersion`.
    pub(super) fn version(&self) -> String {
        self.text("/metadata/resourceVersion")
    }

    /// `metadata.uid`.
    pub(super) fn uid(&self) -> String {
        self.text("/metadata/uid")
    }

    /// Texts at a pointer below each of `items`.
    pub(super) fn each(&self, pointer: &str) -> Vec<String> {
        let items = self.at("/items").as_array();
        items
            .into_iter()
            .flatten()
            .map(|item| item.pointer(pointer).and_then(Value::as_str))
            .map(|text| text.unwrap_or_default().to_owned())
            .collect()
    }

    /// Names of the listed objects.
    pub(super) fn names(&self) -> Vec<String> {
        self.each("/metadata/name")
    }

    /// What is wrong, with the request and the answer.
    pub(super) fn wrong<T>(&self, what: &str) -> Result<T, Failure> {
        let mut body = self.body.to_string();
        if let Some((end, _)) = body.char_indices().nth(600) {
            body.truncate(end);
            body.push('…');
        }
        let (request, code) = (&self.request, self.code);
        differs(format!("{request}: {what}; the answer was {code} {body}"))
    }

    /// Fails unless the answer has this code. Lack of a right is told apart.
    pub(super) fn expect(self, code: u16) -> Result<Self, Failure> {
        if self.code == code {
            return Ok(self);
        }
        self.lack()?;
        self.wrong(&format!("{code} was expected"))
    }

    /// Fails if the client lacks the right to ask. What another user may do, as
    /// whom it asks, is the server's affair; whether it may ask so is the
    /// client's.
    pub(super) fn lack(&self) -> Result<(), Failure> {
        let message = self.text("/message");
        let refusal = if self.impersonated {
            " cannot impersonate"
        } else {
            " cannot "
        };
        if self.code == 403 && message.contains(refusal) {
            return Err(Failure::NoRight(message));
        }
        Ok(())
    }

    /// Fails unless the answer is a failure with this code and reason.
    pub(super) fn refused(self, code: u16, reason: &str) -> Result<Self, Failure> {
        self.expect(code)?
            .is("/kind", "Status")?
            .is("/reason", reason)
    }

    /// Fails unless the value at the pointer is this.
    pub(super) fn is(self, pointer: &str, value: impl Into<Value>) -> Result<Self, Failure> {
        let (value, found) = (value.into(), self.at(pointer));
        if *found == value {
            return Ok(self);
        }
        let what = format!("{pointer} should be {value} and is {found}");
        self.wrong(&what)
    }

    /// Fails unless there is something at the pointer.
    pub(super) fn has(self, pointer: &str) -> Result<Self, Failure> {
        match self.body.pointer(pointer) {
            None | Some(Value::Null) => self.wrong(&format!("{pointer} should be there")),
            Some(_) => Ok(self),
        }
    }

    /// Fails if there is something at the pointer.
    pub(super) fn lacks(self, pointer: &str) -> Result<Self, Failure> {
        match self.body.pointer(pointer) {
            None => Ok(self),
            Some(_) => self.wrong(&format!("{pointer} should not be there")),
        }
    }

    /// Fails unless the message has this text.
    pub(super) fn says(self, text: &str) -> Result<Self, Failure> {
        let message = match &self.body {
            Value::String(text) => text.clone(),
            _ => self.text("/message"),
        };
        if message.contains(text) {
            return Ok(self);
        }
        self.wrong(&format!("the message should say {text:?}"))
    }

    /// Fails unless the body, as it was sent, begins like this.
    pub(super) fn begins(self, text: &str) -> Result<Self, Failure> {
        if self.raw.starts_with(text) {
            return Ok(self);
        }
        self.wrong(&format!("the text should begin with {text}"))
    }

    /// Fails unless there is a cause with this reason and field.
    pub(super) fn cause(self, reason: &str, field: &str) -> Result<Self, Failure> {
        let causes = self.at("/details/causes").as_array();
        let fits = |cause: &Value| cause["reason"] == reason && cause["field"] == field;
        if causes.is_some_and(|all| all.iter().any(fits)) {
            return Ok(self);
        }
        self.wrong(&format!("a cause {reason} at {field} should be there"))
    }

    /// Fails unless these objects are listed, in this order.
    pub(super) fn lists(self, names: &[&str]) -> Result<Self, Failure> {
        if self.names() == names {
            return Ok(self);
        }
        self.wrong(&format!("the names should be {names:?}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn forbidden(impersonated: bool, message: &str) -> Answer {
        Answer {
            request: "GET /api/v1/nodes".into(),
            impersonated,
            code: 403,
            body: json!({"kind": "Status", "reason": "Forbidden", "message": message}),
            raw: String::new(),
            warnings: Vec::new(),
            content_type: "application/json".into(),
        }
    }

    #[test]
    fn only_a_right_of_the_client_itself_can_lack() {
        let list = "nodes is forbidden: User \"a\" cannot list resource \"nodes\"";
        let own = forbidden(false, list).expect(200);
        assert!(matches!(own, Err(Failure::NoRight(_))), "{own:?}");
        let other = forbidden(true, list).expect(200);
        assert!(matches!(other, Err(Failure::Differs(_))), "{other:?}");

        let ask = "users \"b\" is forbidden: User \"a\" cannot impersonate resource \"users\"";
        let own = forbidden(true, ask).expect(200);
        assert!(matches!(own, Err(Failure::NoRight(_))), "{own:?}");
    }
}
