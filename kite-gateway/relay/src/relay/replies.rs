//! Replies come in the order of their requests (RFC 4254 §4, §5.4), also where the relay gives
//! some of them itself.

use std::collections::VecDeque;

/// Requests that wait for a reply, the first one first.
#[derive(Debug, Default)]
pub(super) struct Replies(VecDeque<Reply>);

#[derive(Debug)]
enum Reply {
    /// From across.
    Theirs,
    /// This, as soon as all before it are there.
    Ours(Vec<u8>),
}

/// Requests that may wait.
const MOST: usize = 4096;

impl Replies {
    /// A request passes. `false` if too many wait.
    pub(super) fn pass(&mut self) -> bool {
        self.0.push_back(Reply::Theirs);
        self.0.len() <= MOST
    }

    /// The relay replies by itself: with what it gives back now, or later.
    pub(super) fn reply(&mut self, message: Vec<u8>) -> Option<Vec<u8>> {
        if self.0.is_empty() {
            return Some(message);
        }
        self.0.push_back(Reply::Ours(message));
        None
    }

    /// A reply from across passes: what the relay says behind it. `None` if nothing was asked.
    pub(super) fn passed(&mut self) -> Option<Vec<Vec<u8>>> {
        let Some(Reply::Theirs) = self.0.pop_front() else {
            return None;
        };
        let mut ours = Vec::new();
        while let Some(Reply::Ours(_)) = self.0.front() {
            if let Some(Reply::Ours(message)) = self.0.pop_front() {
                ours.push(message);
            }
        }
        Some(ours)
    }

    /// Nobody across replies any more: what is said to all that wait, where `reply` stands for
    /// those from across.
    pub(super) fn give(&mut self, reply: &[u8]) -> Vec<Vec<u8>> {
        let all = self.0.drain(..).map(|it| match it {
            Reply::Theirs => reply.to_vec(),
            Reply::Ours(message) => message,
        });
        all.collect()
    }

    /// Whether too many wait.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() > MOST
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn ours_wait_for_those_before_them() {
        let mut replies = Replies::default();
        assert_eq!(replies.reply(vec![1]), Some(vec![1]));
        assert!(replies.pass() && replies.pass());
        assert_eq!(replies.reply(vec![2]), None);
        assert_eq!(replies.reply(vec![3]), None);
        assert!(replies.pass());
        assert_eq!(replies.passed().unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(replies.passed().unwrap(), [[2], [3]]);
        assert_eq!(replies.passed().unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(replies.passed(), None);
    }
}
