//! A queue in which those who wait take turns: however much one of them has waiting,
//! the others get through.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// What waits, by whose it is.
pub(crate) struct Turns<K, T> {
    waiting: HashMap<K, VecDeque<T>>,
    /// Whose turn it is next; each of those above is in it once.
    order: VecDeque<K>,
    most_each: usize,
}

impl<K: Eq + Hash + Clone, T> Turns<K, T> {
    /// Of nobody more than `most_each` wait.
    pub(crate) fn new(most_each: usize) -> Self {
        Self {
            waiting: HashMap::new(),
            order: VecDeque::new(),
            most_each,
        }
    }

    /// Takes an item of `whose`; gives it back if as many wait as may. `is_wanted`
    /// says of what waits already whether anybody still wants it.
    pub(crate) fn push(
        &mut self,
        whose: K,
        item: T,
        is_wanted: impl Fn(&T) -> bool,
    ) -> Result<(), T> {
        if self.most_each == 0 {
            return Err(item);
        }
        let Some(waiting) = self.waiting.get_mut(&whose) else {
            self.waiting.insert(whose.clone(), VecDeque::from([item]));
            self.order.push_back(whose);
            return Ok(());
        };
        if waiting.len() >= self.most_each {
            waiting.retain(is_wanted);
        }
        if waiting.len() >= self.most_each {
            return Err(item);
        }
        waiting.push_back(item);
        Ok(())
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next item.
    pub(crate) fn pop(&mut self) -> Option<T> {
        while let Some(whose) = self.order.pop_front() {
            let Some(waiting) = self.waiting.get_mut(&whose) else {
                continue;
            };
            let item = waiting.pop_front();
            if waiting.is_empty() {
                self.waiting.remove(&whose);
            } else {
                self.order.push_back(whose);
            }
            if item.is_some() {
                return item;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(turns: &mut Turns<char, u32>, whose: char, item: u32) -> Result<(), u32> {
        turns.push(whose, item, |_| true)
    }

    #[test]
    fn whoever_has_little_waits_for_one_of_each_other() {
        let mut turns = Turns::new(100);
        for item in 0..100 {
            assert_eq!(push(&mut turns, 'a', item), Ok(()));
        }
        assert_eq!(push(&mut turns, 'b', 1000), Ok(()));
        assert_eq!(push(&mut turns, 'c', 2000), Ok(()));
        let first: Vec<_> = (0..5).filter_map(|_| turns.pop()).collect();
        assert_eq!(first, [0, 1000, 2000, 1, 2]);
        assert_eq!(push(&mut turns, 'b', 1001), Ok(()));
        assert_eq!((turns.pop(), turns.pop()), (Some(3), Some(1001)));
        let rest: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(rest, (4..100).collect::<Vec<_>>());
        assert!(turns.waiting.is_empty() && turns.order.is_empty());
    }

    #[test]
    fn what_nobody_wants_any_more_makes_room() {
        let mut turns = Turns::new(2);
        assert_eq!(push(&mut turns, 'a', 1), Ok(()));
        assert_eq!(push(&mut turns, 'a', 2), Ok(()));
        assert_eq!(push(&mut turns, 'a', 3), Err(3));
        assert_eq!(push(&mut turns, 'b', 4), Ok(()), "another's bound");
        assert_eq!(turns.push('a', 5, |item| *item == 2), Ok(()));
        let rest: Vec<_> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(rest, [2, 4, 5]);
    }
}
