//! Whether there is room in a user's quota for what one of several objects of a kind asks for.
//!
//! What is asked for stands in the status first, so that of two who ask at once the later sees
//! the earlier, and is given when a view of the others that is at least as new has room for all
//! of it. As with VMs, of which more than one number is judged.

/// Another object of the user's, as it is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Other {
    /// What it has been granted.
    pub(crate) granted: u64,
    /// That, or what it asks for.
    pub(crate) charge: u64,
    /// Whether it comes before the one that is judged, where both ask.
    pub(crate) is_older: bool,
}

/// What is said to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It may have what it asks for.
    Granted,
    /// It has to be told first how much that is.
    Ask,
    /// It is not known yet, or those who asked later have to give way first.
    Wait,
    /// There is none beside what the others have.
    None {
        /// That, in bytes.
        others: u64,
    },
}

/// What is said to an object that `needs` so much of `limit`, and has its status say so if it
/// `has_asked`; `are_known` where the others were seen as they were then, or later.
pub(crate) fn room(
    needs: u64,
    limit: u64,
    has_asked: bool,
    others: &[Other],
    are_known: bool,
) -> Room {
    let sum = |of: fn(&Other) -> u64| others.iter().map(of).fold(0, u64::saturating_add);
    let fits = |others: u64| others.saturating_add(needs) <= limit;
    let all = sum(|it| it.charge);
    if !has_asked && fits(all) {
        return Room::Ask;
    }
    if !are_known {
        return Room::Wait;
    }
    if has_asked && fits(all) {
        return Room::Granted;
    }
    // Who asked later sees this one, and gives way.
    let least = sum(|it| if it.is_older { it.charge } else { it.granted });
    if has_asked && fits(least) {
        return Room::Wait;
    }
    Room::None { others: all }
}
