//! The channels of a relay, by the numbers that both sides give them.

use std::collections::HashMap;

use super::replies::Replies;
use super::rules::{Channel, Side};
use crate::message::CHANNEL_EXTENDED_DATA;
use crate::wire::Message;

/// `SSH_EXTENDED_DATA_STDERR` (RFC 4254 §5.2).
const STDERR: u32 = 1;

/// What is known of a channel.
#[derive(Debug)]
pub(super) struct Entry<N> {
    pub(super) channel: Channel<N>,
    /// The numbers that the user and the server give it; one is missing until it is confirmed.
    numbers: [Option<u32>; 2],
    /// Who has closed it.
    closed: [bool; 2],
    /// What the user, and the server, wait for.
    pub(super) replies: [Replies; 2],
    /// Bytes of the user's window of which the server does not know, and how many those were.
    reserve: u32,
    whole_reserve: u32,
    /// The server says no more on it.
    pub(super) is_finished: bool,
    /// The relay has ended it towards both sides, and waits for them to close it.
    pub(super) is_ended: bool,
}

/// Why a number is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoChannel;

/// All channels.
#[derive(Debug)]
pub(super) struct Table<N> {
    next: u64,
    entries: HashMap<u64, Entry<N>>,
    /// From the numbers that the user gives, and the server.
    keys: [HashMap<u32, u64>; 2],
}

impl<N> Entry<N> {
    /// The number by which `side` knows it.
    pub(super) fn number(&self, side: Side) -> Option<u32> {
        self.numbers[side.index()]
    }

    /// The user has room for so many bytes more: those of them that the server does not hear
    /// of, as they are for words again.
    pub(super) fn keep_back(&mut self, more: u32) -> u32 {
        let kept = more.min(self.whole_reserve - self.reserve);
        self.reserve += kept;
        kept
    }

    pub(super) fn is_closed_by(&self, side: Side) -> bool {
        self.closed[side.index()]
    }

    /// What is to be told to the user, as far as the reserve suffices.
    pub(super) fn words(&mut self) -> Vec<(Side, Vec<u8>)> {
        let words = std::mem::take(&mut self.channel.words);
        let Some(number) = self.number(Side::User) else {
            return Vec::new();
        };
        // Nobody says anything behind the end of what is said.
        let is_open = self.numbers.iter().all(Option::is_some)
            && self.closed == [false, false]
            && !self.is_finished
            && !self.is_ended;
        let mut said = Vec::new();
        for words in words {
            let length = u32::try_from(words.len()).unwrap_or(u32::MAX);
            if let Some(left) = self.reserve.checked_sub(length).filter(|_| is_open) {
                self.reserve = left;
                let message = Message::new(CHANNEL_EXTENDED_DATA).number(number);
                let message = message.number(STDERR).string(words);
                said.push((Side::User, message.done()));
            }
        }
        said
    }
}

impl<N> Default for Table<N> {
    fn default() -> Self {
        Self {
            next: 0,
            entries: HashMap::new(),
            keys: [HashMap::new(), HashMap::new()],
        }
    }
}

impl<N> Table<N> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A channel is asked for, under a number of that side's.
    pub(super) fn open(
        &mut self,
        number: u32,
        channel: Channel<N>,
        reserve: u32,
    ) -> Result<(), NoChannel> {
        let index = channel.by.index();
        if self.keys[index].contains_key(&number) {
            return Err(NoChannel);
        }
        let key = self.next;
        self.next += 1;
        self.keys[index].insert(number, key);
        let mut numbers = [None, None];
        numbers[index] = Some(number);
        let entry = Entry {
            channel,
            numbers,
            closed: [false, false],
            replies: [Replies::default(), Replies::default()],
            reserve,
            whole_reserve: reserve,
            is_finished: false,
            is_ended: false,
        };
        self.entries.insert(key, entry);
        Ok(())
    }

    /// Whether a side may give that number to a channel it asks for.
    pub(super) fn is_free(&self, by: Side, number: u32) -> bool {
        !self.keys[by.index()].contains_key(&number)
    }

    /// Whether that number of a side's is one of a channel that the relay has ended.
    pub(super) fn is_ended(&self, by: Side, number: u32) -> bool {
        let key = self.keys[by.index()].get(&number);
        let entry = key.and_then(|key| self.entries.get(key));
        entry.is_some_and(|entry| entry.is_ended)
    }

    /// The channel that the side across from `by` has asked for under `number`, and that
    /// nobody has confirmed.
    fn asked(&self, by: Side, number: u32) -> Result<u64, NoChannel> {
        let other = by.other();
        let key = self.keys[other.index()].get(&number).ok_or(NoChannel)?;
        let entry = self.entries.get(key).ok_or(NoChannel)?;
        let is_asked = entry.channel.by == other && entry.numbers[by.index()].is_none();
        is_asked.then_some(*key).ok_or(NoChannel)
    }

    /// `by` grants the channel that was asked for under `number`, and calls it `theirs`.
    pub(super) fn confirm(
        &mut self,
        by: Side,
        number: u32,
        theirs: u32,
    ) -> Result<&mut Entry<N>, NoChannel> {
        let key = self.asked(by, number)?;
        if !self.is_free(by, theirs) {
            return Err(NoChannel);
        }
        self.keys[by.index()].insert(theirs, key);
        let entry = self.entries.get_mut(&key).ok_or(NoChannel)?;
        entry.numbers[by.index()] = Some(theirs);
        Ok(entry)
    }

    /// `by` refuses it.
    pub(super) fn refuse(&mut self, by: Side, number: u32) -> Result<Channel<N>, NoChannel> {
        let key = self.asked(by, number)?;
        self.remove(key).ok_or(NoChannel)
    }

    /// The open channel that `by` writes to under the number of the side across.
    pub(super) fn find(&mut self, by: Side, number: u32) -> Result<&mut Entry<N>, NoChannel> {
        let key = self.keys[by.other().index()].get(&number);
        let entry = key.and_then(|key| self.entries.get_mut(key));
        let is_open =
            |it: &&mut Entry<N>| it.numbers.iter().all(Option::is_some) && !it.closed[by.index()];
        entry.filter(is_open).ok_or(NoChannel)
    }

    /// `by` closes it: whether the other side is to be told, and the channel, if that has
    /// closed it, too.
    pub(super) fn close(
        &mut self,
        by: Side,
        number: u32,
    ) -> Result<(bool, Option<Channel<N>>), NoChannel> {
        let entry = self.find(by, number)?;
        entry.closed[by.index()] = true;
        let passes = !entry.is_ended;
        if entry.closed != [true, true] {
            return Ok((passes, None));
        }
        let key = self.keys[by.other().index()].get(&number).copied();
        Ok((passes, key.and_then(|key| self.remove(key))))
    }

    fn remove(&mut self, key: u64) -> Option<Channel<N>> {
        let entry = self.entries.remove(&key)?;
        for (keys, number) in self.keys.iter_mut().zip(entry.numbers) {
            if let Some(number) = number {
                keys.remove(&number);
            }
        }
        Some(entry.channel)
    }

    /// All that are there.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry<N>> {
        self.entries.values_mut()
    }

    /// All that are there when the connection ends.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Channel<N>> {
        let keys = &mut self.keys;
        keys.iter_mut().for_each(HashMap::clear);
        std::mem::take(&mut self.entries)
            .into_values()
            .map(|entry| entry.channel)
    }
}
