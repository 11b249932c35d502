//! The line of the last change, for all who watch it.

use bytes::Bytes;
use parking_lot::Mutex;

use crate::store::END;

/// A thousand watchers that are told of the same change send the same bytes: what an
/// event begins with is that of the stored object, and its end is put to it once.
#[derive(Debug, Default)]
pub(super) struct LastLine(Mutex<Option<Joined>>);

/// Pieces that were joined. It holds them, so that no others come to be at their place.
#[derive(Debug)]
struct Joined {
    piece: Bytes,
    line: Bytes,
}

impl LastLine {
    /// The pieces to send, where those of a single event are one.
    pub(super) fn join(&self, pieces: Vec<Bytes>) -> Vec<Bytes> {
        let [piece, end] = pieces.as_slice() else {
            return pieces;
        };
        if *end != END {
            return pieces;
        }
        let mut last = self.0.lock();
        let known = last.as_ref().filter(|it| is_same(&it.piece, piece));
        if let Some(known) = known {
            return vec![known.line.clone()];
        }
        let line = Bytes::from([&**piece, &**end].concat());
        *last = Some(Joined {
            piece: piece.clone(),
            line: line.clone(),
        });
        vec![line]
    }
}

fn is_same(one: &Bytes, other: &Bytes) -> bool {
    one.as_ptr() == other.as_ptr() && one.len() == other.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_joined_once_for_all() {
        let lines = LastLine::default();
        let piece = Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{}");
        let join = |piece: &Bytes| lines.join(vec![piece.clone(), END]);
        let one = join(&piece);
        assert_eq!(one, ["{\"type\":\"ADDED\",\"object\":{}}\n"]);
        assert!(one.iter().zip(&join(&piece)).all(|(a, b)| is_same(a, b)));
        // What is elsewhere may become something else.
        let other = Bytes::copy_from_slice(&piece);
        assert!(!one.iter().zip(&join(&other)).all(|(a, b)| is_same(a, b)));
        for others in [vec![], vec![END], vec![END, piece], vec![END, END, END]] {
            assert_eq!(lines.join(others.clone()), others);
        }
    }
}
