//! [`Rule`]: what is said of an action, once; and [`actions!`](crate::actions), a table of
//! them.

use std::collections::BTreeSet;

use kite_core::crd::{AccessLevel, TokenScope};

use crate::act::{Access, Act, Whose};

/// A row of a table of actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// What the action is, as its documentation has it.
    pub meaning: &'static str,
    /// What it is, after "you may not".
    pub words: &'static str,
    /// Who may do it to what is their own.
    pub own: Who,
    /// Who may do it to what is another account's.
    pub others: Who,
    /// What an API token needs for it.
    pub token: Scopes,
    /// When it asks for a fresh proof.
    pub proof: Proof,
    /// Whether it leads to a second factor of one's own.
    pub leads_to_factor: bool,
}

impl Rule {
    /// A row, for [`actions!`](crate::actions).
    #[doc(hidden)]
    #[must_use]
    pub const fn new(
        [meaning, words]: [&'static str; 2],
        [own, others]: [Who; 2],
        token: Scopes,
        proof: Proof,
        leads_to_factor: bool,
    ) -> Self {
        Self {
            meaning,
            words,
            own,
            others,
            token,
            proof,
            leads_to_factor,
        }
    }

    /// Whether an account of level `who` may do it to what is `whose`.
    pub fn is_allowed(self, who: AccessLevel, whose: Whose) -> bool {
        match whose {
            Whose::Own => self.own.has(who, who),
            Whose::Other(owner) => self.others.has(who, owner),
        }
    }

    /// The least scope that lets an API token do it; none where no token may.
    pub const fn scope(self, access: Access) -> Option<TokenScope> {
        match (self.token, access) {
            (Scopes::Both(scope), _)
            | (Scopes::Looking(scope) | Scopes::Each(scope, _), Access::Read)
            | (Scopes::Each(_, scope), Access::Write) => Some(scope),
            (Scopes::Never, _) | (Scopes::Looking(_), Access::Write) => None,
        }
    }

    /// Whether it asks for a fresh proof where it changes what is `whose`.
    pub const fn asks_for_proof(self, whose: Whose) -> bool {
        match self.proof {
            Proof::Never => false,
            Proof::OfOthers => matches!(whose, Whose::Other(_)),
            Proof::Always => true,
        }
    }
}

/// Who may do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Who {
    /// No account.
    Nobody,
    /// Accounts of this level and above.
    From(AccessLevel),
    /// The same, but none to what is of an account above their own.
    Downwards(AccessLevel),
}

impl Who {
    fn has(self, who: AccessLevel, owner: AccessLevel) -> bool {
        match self {
            Self::Nobody => false,
            Self::From(least) => who >= least,
            Self::Downwards(least) => who >= least && who >= owner,
        }
    }
}

/// The least scopes with which an API token does something that its user may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scopes {
    /// No token does it.
    Never,
    /// This one to look at it, and no token changes it.
    Looking(TokenScope),
    /// This one to look at it and to change it.
    Both(TokenScope),
    /// The first to look at it, the second to change it.
    Each(TokenScope, TokenScope),
}

/// When what changes something asks for a fresh proof of who one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Never, outside of `admin/`.
    Never,
    /// When it is about what belongs to another account.
    OfOthers,
    /// Always.
    Always,
}

/// Declares an enum of actions and implements [`Act`](crate::Act) for it, from a table with
/// a row for each.
///
/// A row has the action's documentation and name, its words after "you may not", who may do
/// it to what is their own and to what is [others'](Who), which
/// [scopes](Scopes) an API token needs, and when it asks for a
/// [proof](Proof). `leads to a factor: true` stands at what one does to one's own account on
/// the way to a second factor that it needs. Beside the trait, the enum gets `ALL`, every
/// action in the order of the table, and `rule`, the row.
///
/// ```
/// use kite_core::crd::AccessLevel;
/// use kite_identity::{Act, Whose};
///
/// kite_identity::actions! {
///     /// What people do to books.
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum Action;
///
///     /// Read a book.
///     ReadBook: "read the book",
///         own From(ReadOnly), others From(Manager), token Both(VmsRead), proof Never;
///     /// Lend a book to somebody.
///     LendBook: "lend the book",
///         own From(User), others Nobody, token Never, proof Always;
/// }
///
/// assert_eq!(Action::ALL, [Action::ReadBook, Action::LendBook]);
/// assert_eq!(Action::LendBook.rule().meaning.trim(), "Lend a book to somebody.");
/// assert!(!Action::LendBook.is_allowed(AccessLevel::ReadOnly, Whose::Own));
/// assert_eq!(kite_identity::rule::flaws(&Action::ALL), Vec::<String>::new());
/// ```
#[macro_export]
macro_rules! actions {
    (
        $(#[$meta:meta])*
        $vis:vis enum $Actions:ident;
        $(
            $(#[doc = $doc:literal])+
            $Action:ident: $words:literal,
                own $own:ident $(($own_from:ident))?,
                others $others:ident $(($others_from:ident))?,
                token $token:ident $(($($scope:ident),+))?,
                proof $proof:ident
                $(, leads to a factor: $factor:literal)?;
        )+
    ) => {
        $(#[$meta])*
        $vis enum $Actions {
            $( $(#[doc = $doc])+ $Action, )+
        }

        impl $Actions {
            /// Every action, in the order of the table.
            $vis const ALL: [Self; [$(stringify!($Action)),+].len()] = [$(Self::$Action),+];

            /// What the table says of it.
            #[must_use]
            $vis const fn rule(self) -> $crate::rule::Rule {
                match self {
                    $(
                        Self::$Action => $crate::rule::Rule::new(
                            [concat!($($doc),+), $words],
                            [
                                $crate::rule::Who::$own $(($crate::rule::Level::$own_from))?,
                                $crate::rule::Who::$others
                                    $(($crate::rule::Level::$others_from))?,
                            ],
                            $crate::rule::Scopes::$token
                                $(($($crate::rule::Scope::$scope),+))?,
                            $crate::rule::Proof::$proof,
                            false $(|| $factor)?,
                        ),
                    )+
                }
            }
        }

        impl $crate::Act for $Actions {
            fn describe(self) -> &'static str {
                self.rule().words
            }

            fn is_allowed(self, who: $crate::rule::Level, whose: $crate::Whose) -> bool {
                self.rule().is_allowed(who, whose)
            }

            fn scope(self, access: $crate::Access) -> Option<$crate::rule::Scope> {
                self.rule().scope(access)
            }

            fn asks_for_proof(self, whose: $crate::Whose) -> bool {
                self.rule().asks_for_proof(whose)
            }

            fn leads_to_factor(self, whose: $crate::Whose) -> bool {
                self.rule().leads_to_factor && whose == $crate::Whose::Own
            }
        }
    };
}

// What the macro names, wherever it is used.
#[doc(hidden)]
pub use kite_core::crd::{AccessLevel as Level, TokenScope as Scope};

/// The levels, each with its letter in the tables of the documentation.
const LETTERS: [(AccessLevel, char); 4] = [
    (AccessLevel::ReadOnly, 'R'),
    (AccessLevel::User, 'U'),
    (AccessLevel::Manager, 'M'),
    (AccessLevel::Admin, 'A'),
];

/// Who may do it, as tables have it: a word for each of [`Whose::ALL`], with the letters of
/// the levels that may, in ascending order, and hyphens for the others.
pub fn levels(action: impl Act) -> [String; Whose::ALL.len()] {
    Whose::ALL.map(|whose| {
        let letter = |(who, letter)| {
            if action.is_allowed(who, whose) {
                letter
            } else {
                '-'
            }
        };
        LETTERS.map(letter).iter().collect()
    })
}

/// When it asks for a fresh proof, by what handlers ask of it.
pub fn proof(action: impl Act) -> Proof {
    let other = Whose::Other(AccessLevel::User);
    match [Whose::Own, other].map(|whose| action.asks_for_proof(whose)) {
        [true, _] => Proof::Always,
        [false, true] => Proof::OfOthers,
        [false, false] => Proof::Never,
    }
}

/// What no table of actions should say, in words, for a test of `all` its actions: that
/// more power means fewer rights over others, or that an API token with several scopes does
/// more or less than tokens with one of them each.
pub fn flaws<A: Act>(all: &[A]) -> Vec<String> {
    let falling = all.iter().flat_map(|action| falling(*action));
    falling.chain(uneven(all)).collect()
}

fn falling(action: impl Act) -> impl Iterator<Item = String> {
    Whose::ALL.into_iter().flat_map(move |whose| {
        let above = LETTERS.iter().skip(1);
        let pairs = LETTERS.iter().zip(above);
        pairs.filter_map(move |((low, _), (high, _))| {
            let falls = action.is_allowed(*low, whose) && !action.is_allowed(*high, whose);
            falls.then(|| format!("{action:?} of {whose:?}: {low:?}, and not {high:?}"))
        })
    })
}

fn uneven<A: Act>(all: &[A]) -> impl Iterator<Item = String> {
    let sets = 0_u32..1 << TokenScope::ALL.len();
    sets.filter_map(|bits| {
        let members = TokenScope::ALL.into_iter().enumerate();
        let set: Vec<_> = members
            .filter_map(|(n, scope)| (bits & (1 << n) != 0).then_some(scope))
            .collect();
        let sum: BTreeSet<_> = set.iter().flat_map(|it| within(all, &[*it])).collect();
        (within(all, &set) != sum).then(|| format!("tokens with {set:?}"))
    })
}

/// Of `all` actions those that a token with these scopes may do, such as `ReadSeeUsers`.
pub fn within<A: Act>(all: &[A], scopes: &[TokenScope]) -> BTreeSet<String> {
    let pairs = all
        .iter()
        .flat_map(|it| Access::ALL.map(|access| (*it, access)));
    pairs
        .filter(|(action, access)| action.is_within(scopes, *access))
        .map(|(action, access)| format!("{access:?}{action:?}"))
        .collect()
}
