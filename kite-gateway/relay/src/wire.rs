//! Fields of messages (RFC 4251 §5), read without a copy and written at the end of a vector.

/// A message ends before its fields do, or does not end behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message that ends early, or goes on behind its end")]
pub struct Malformed;

/// What is left of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        self.bytes(1).map(|it| it[0])
    }

    /// Any byte but zero is true.
    pub(crate) fn boolean(&mut self) -> Result<bool, Malformed> {
        self.byte().map(|it| it != 0)
    }

    pub(crate) fn number(&mut self) -> Result<u32, Malformed> {
        let bytes = self.bytes(4)?;
        let bytes = bytes.try_into().map_err(|_| Malformed)?;
        Ok(u32::from_be_bytes(bytes))
    }

    pub(crate) fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number()?;
        self.bytes(usize::try_from(length).map_err(|_| Malformed)?)
    }

    /// Nothing is left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

/// A message that is written.
#[derive(Debug)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    pub(crate) fn new(number: u8) -> Self {
        Self(vec![number])
    }

    /// One that does not grow, and so leaves no copy of a secret behind, as long as its fields
    /// have not more than `room` bytes.
    pub(crate) fn secret(number: u8, room: usize) -> Self {
        let mut message = Vec::with_capacity(1 + room);
        message.push(number);
        Self(message)
    }

    pub(crate) fn boolean(mut self, value: bool) -> Self {
        self.0.push(u8::from(value));
        self
    }

    pub(crate) fn number(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn string(mut self, value: impl AsRef<[u8]>) -> Self {
        string(&mut self.0, value.as_ref());
        self
    }

    pub(crate) fn bytes(mut self, value: &[u8]) -> Self {
        self.0.extend_from_slice(value);
        self
    }

    pub(crate) fn done(self) -> Vec<u8> {
        self.0
    }
}

/// Appends a string with its length. What is longer than a length can tell is cut, which no
/// packet could carry either.
pub(crate) fn string(out: &mut Vec<u8>, value: &[u8]) {
    let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&value[..value.len().min(length as usize)]);
}

/// Names that a peer has written into a list, each without an empty one.
pub(crate) fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let all = list.split(|byte| *byte == b',');
    all.filter(|name| !name.is_empty())
}
