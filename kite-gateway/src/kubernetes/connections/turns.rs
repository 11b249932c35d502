//! Whose turn it is to be written: nobody who floods the queue with one kind of
//! connections keeps others out. No clock, no I/O.

use std::cmp::Reverse;
use std::iter::once;

use tokio::time::Instant;

/// What others know of a connection that waits to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rank {
    /// It is open: only what is written can be listed, and ended.
    Open,
    /// It is over, and others may see it as open.
    SeenOpen,
    /// It is over, and nobody has seen it open.
    Over,
}

/// The order in which ranks have their turn; that of one of which nothing waits goes
/// to the first one of which something does. What is open becomes what is seen open:
/// as many turns for that keep its queue short.
const TURNS: [Rank; 5] = [
    Rank::Open,
    Rank::SeenOpen,
    Rank::Open,
    Rank::SeenOpen,
    Rank::Over,
];

/// Remembers whose turn it is.
#[derive(Default)]
pub(super) struct Turns {
    next: usize,
}

impl Turns {
    /// Picks at most `most` of those that wait, each given by its rank, since when it
    /// waits, and its number: of a rank those first that wait longest.
    pub(super) fn take(
        &mut self,
        waiting: impl Iterator<Item = (Rank, Instant, u64)>,
        most: usize,
    ) -> Vec<u64> {
        let (mut open, mut seen, mut over) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, since, number) in waiting {
            let queue = match rank {
                Rank::Open => &mut open,
                Rank::SeenOpen => &mut seen,
                Rank::Over => &mut over,
            };
            queue.push(Reverse((since, number)));
        }
        for queue in [&mut open, &mut seen, &mut over] {
            queue.sort_unstable();
        }
        let mut taken = Vec::new();
        while taken.len() < most {
            let turn = TURNS[self.next % TURNS.len()];
            let ranks = once(turn).chain([Rank::Open, Rank::SeenOpen, Rank::Over]);
            let first = ranks.into_iter().find_map(|rank| match rank {
                Rank::Open => open.pop(),
                Rank::SeenOpen => seen.pop(),
                Rank::Over => over.pop(),
            });
            let Some(Reverse((_, number))) = first else {
                break;
            };
            self.next = (self.next + 1) % TURNS.len();
            taken.push(number);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_kept_out_by_a_flood_of_others() {
        let now = Instant::now();
        let many = (0..100).map(|number| (Rank::Over, now, number));
        let seen = (100..200).map(|number| (Rank::SeenOpen, now, number));
        let open = (200..300).map(|number| (Rank::Open, now, number));
        let all: Vec<_> = many.chain(seen).chain(open).collect();
        let mut turns = Turns::default();
        // One at a time, as in a queue that has used up its burst.
        let one = |turns: &mut Turns| turns.take(all.iter().copied(), 1);
        let taken: Vec<_> = (0..10).flat_map(|_| one(&mut turns)).collect();
        assert_eq!(taken, [200, 100, 200, 100, 0, 200, 100, 200, 100, 0]);
        assert_eq!(turns.take(all.iter().copied(), 1000).len(), 300);
    }

    #[test]
    fn turns_that_nobody_waits_for_go_to_others() {
        let now = Instant::now();
        let over = (0..4).map(|number| (Rank::Over, now, number));
        let all: Vec<_> = over.chain([(Rank::Open, now, 9)]).collect();
        assert_eq!(Turns::default().take(all.into_iter(), 9), [9, 0, 1, 2, 3]);
    }
}
