//! [`Notes`]: what is known of the request that this task serves.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{By, Change, Of, SignIn};

/// Most changes of one request that are listed.
const MOST_CHANGES: usize = 64;
/// Most characters of a name that somebody made up.
const NAME: usize = 64;

tokio::task_local! {
    static CURRENT: Arc<dyn Noting>;
}

/// What keeps notes for as long as something works on a request.
pub(super) trait Noting: Send + Sync {
    /// The notes.
    fn notes(&self) -> &Mutex<Notes>;
}

impl Noting for Mutex<Notes> {
    fn notes(&self) -> &Mutex<Notes> {
        self
    }
}

/// What was noted of a request.
#[derive(Debug, Default)]
pub struct Notes {
    pub(super) user: Option<String>,
    pub(super) by: Option<By>,
    pub(super) of: Option<Of>,
    pub(super) sign_in: Option<SignIn>,
    pub(super) remarks: Vec<String>,
    pub(super) changes: Vec<Change>,
    pub(super) further_changes: usize,
}

impl Notes {
    /// The account that sent it, and by what it was recognised.
    pub fn caller(&mut self, user: String, by: By) {
        self.user = Some(user);
        self.by = Some(by);
    }

    /// The account of whom it is, as far as it is known.
    pub fn account(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The account of whom it is, where nothing else has told.
    pub fn came_in(&mut self, user: &str) {
        self.user.get_or_insert_with(|| user.to_owned());
    }

    /// It is about what belongs to this account; if none is named, to all.
    pub fn of(&mut self, account: Option<&str>) {
        let name = account.filter(|it| is_name(it)).map(str::to_owned);
        self.of = Some(name.map_or(Of::Everybody, Of::Account));
    }

    /// Somebody signs in, or tries to. What is given as the account may be anything, and
    /// even a password by mistake: what cannot be a name is not repeated.
    pub fn sign_in(&mut self, method: impl Into<String>, account: Option<&str>) {
        let factor = self.sign_in.take().and_then(|it| it.factor);
        self.sign_in = Some(SignIn {
            method: method.into(),
            account: account.filter(|it| is_name(it)).map(str::to_owned),
            factor,
        });
    }

    /// A second factor was asked for.
    pub fn factor(&mut self, factor: &'static str) {
        if let Some(sign_in) = &mut self.sign_in {
            sign_in.factor = Some(factor);
        }
    }

    /// What else there is to say.
    pub fn remark(&mut self, text: impl Into<String>) {
        self.remarks.push(text.into());
    }

    pub(super) fn change(&mut self, change: Change) {
        if self.changes.len() < MOST_CHANGES {
            self.changes.push(change);
        } else {
            self.further_changes += 1;
        }
    }

    pub(super) fn are_empty(&self) -> bool {
        self.sign_in.is_none() && self.remarks.is_empty() && self.changes.is_empty()
    }
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    text.len() <= NAME && chars.all(|c| c.is_ascii_alphanumeric() || ".-_@".contains(c))
}

/// Notes something of the request that is served here. Outside of one nothing is.
pub fn note(what: impl FnOnce(&mut Notes)) {
    let _ = CURRENT.try_with(|notes| what(&mut notes.notes().lock()));
}

/// `task` with the notes of this request, for what goes on though the client leaves.
pub fn carried<T>(task: impl Future<Output = T>) -> impl Future<Output = T> {
    let notes = CURRENT.try_with(Arc::clone);
    let notes = notes.unwrap_or_else(|_| Arc::new(Mutex::<Notes>::default()));
    CURRENT.scope(notes, task)
}

/// Serves a request of which things are noted in `notes`.
pub(super) fn noting<T>(
    notes: Arc<dyn Noting>,
    task: impl Future<Output = T>,
) -> impl Future<Output = T> {
    CURRENT.scope(notes, task)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn notes_are_of_their_request_and_go_with_what_it_spawns() {
        note(|it| it.remark("outside"));
        let notes: [Arc<Mutex<Notes>>; 2] = Default::default();
        let one = noting(notes[0].clone(), async {
            note(|it| it.remark("one"));
            let _ = tokio::spawn(carried(async { note(|it| it.remark("spawned")) })).await;
            let _ = tokio::spawn(async { note(|it| it.remark("elsewhere")) }).await;
        });
        let other = noting(notes[1].clone(), async {
            tokio::task::yield_now().await;
            note(|it| it.remark("other"));
        });
        tokio::join!(one, other);
        assert_eq!(notes[0].lock().remarks, ["one", "spawned"]);
        assert_eq!(notes[1].lock().remarks, ["other"]);
    }

    #[test]
    fn what_can_be_no_name_is_not_repeated() {
        for (given, kept) in [
            ("ann", true),
            ("ann@example.org", true),
            ("my secret!", false),
            (&*"a".repeat(65), false),
            ("a\nb", false),
        ] {
            let mut notes = Notes::default();
            notes.sign_in("password", Some(given));
            let account = notes.sign_in.and_then(|it| it.account);
            assert_eq!(account.is_some(), kept, "{given:?}");
        }
    }
}
