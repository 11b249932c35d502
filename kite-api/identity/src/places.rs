//! From where somebody signs in: which browser, and about which address.
//!
//! A place that an account was not seen at before is worth a notice to its owner. The
//! places are annotations of the account, the newest of them only: one write for each new
//! place, and one where a place that is known has an address that it had not lately. The
//! notice is there by the same write as a new place, and stays when that is forgotten.
//!
//! The addresses themselves are what tells whoever is next to the owner from somebody in
//! the same network, who must not find out which accounts there are.

use std::net::IpAddr;

use jiff::Timestamp;
use kite_core::{
    cidr,
    cluster::{Cluster as _, ClusterError, ObjectKey},
    crd::KiteUser,
    names,
};
use kite_rest::Problem;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    client::Client, notices::put_sign_in, principal::Principal, state::Accounts, throttle::Source,
};

/// Begins the name of an annotation that has a place.
const PLACE: &str = "hy3ons.github.io/place-";
/// How many characters of its hash are in that name, which has room for 63.
const HASH: usize = 40;
/// Most places that are remembered.
const MOST: usize = 16;
/// Most addresses that are remembered of a place.
const MOST_ADDRESSES: usize = 4;
/// How many characters of the hash of one.
const ADDRESS_HASH: usize = 16;
/// Most characters of what a client calls itself.
const MOST_CLIENT: usize = 200;

/// Where somebody signed in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Place {
    /// When that was for the first time.
    at: Timestamp,
    /// Hashes of the addresses that it had last, the newest at the end. What an earlier
    /// version noted has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<String>,
}

impl Place {
    /// Adds the hash of an address; whether it was not there before.
    fn add(&mut self, address: Option<String>) -> bool {
        let Some(address) = address.filter(|it| !self.addresses.contains(it)) else {
            return false;
        };
        self.addresses.push(address);
        let beyond = self.addresses.len().saturating_sub(MOST_ADDRESSES);
        self.addresses.drain(..beyond);
        true
    }

    fn text(&self) -> Value {
        json!(serde_json::to_string(self).unwrap_or_default())
    }
}

/// About which address: the network of a provider's customer, or of an office.
fn network_of(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}::/48")
        }
    }
}

/// What a client calls itself, of whichever version.
fn browser_of(client: &Client) -> String {
    let agent = client.agent.as_deref().unwrap_or_default();
    agent.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// The annotation of the place that `client` is at. A newer version of the same browser is
/// the same place.
fn name_of(user: &KiteUser, client: &Client) -> String {
    let agent = browser_of(client);
    let network = client.address.map(network_of).unwrap_or_default();
    let uid = user.uid().unwrap_or_default();
    let hash = names::fingerprint(&format!("{uid}\n{agent}\n{network}"));
    format!("{PLACE}{}", hash.get(..HASH).unwrap_or(&hash))
}

/// The hash of an address that `client` has; an IPv6 host has a network of them.
fn hash_of(user: &KiteUser, client: &Client, address: IpAddr) -> String {
    let (agent, address) = (browser_of(client), cidr::place(address));
    let uid = user.uid().unwrap_or_default();
    let hash = names::fingerprint(&format!("{uid}\n{agent}\n{address}"));
    hash.get(..ADDRESS_HASH).unwrap_or(&hash).to_owned()
}

/// The places of `user` by the names of their annotations.
fn places_of(user: &KiteUser) -> Vec<(&str, Place)> {
    let annotations = user.annotations().iter();
    let places = annotations.filter(|(name, _)| name.starts_with(PLACE));
    places
        .filter_map(|(name, text)| Some((name.as_str(), serde_json::from_str(text).ok()?)))
        .collect()
}

/// What is to be written down for a sign-in; nothing where all of it is known. `own` is the
/// client's address where nobody else may be behind it.
fn noted(
    user: &KiteUser,
    client: &Client,
    own: Option<IpAddr>,
    now: Timestamp,
) -> Map<String, Value> {
    let name = name_of(user, client);
    let own = own.map(|address| hash_of(user, client, address));
    let mut known = places_of(user);
    if let Some((_, place)) = known.iter().find(|(place, _)| *place == name) {
        let mut place = place.clone();
        let is_new = place.add(own);
        return is_new.then(|| (name, place.text())).into_iter().collect();
    }
    known.sort_by_key(|(_, place)| place.at);
    let beyond = (known.len() + 1).saturating_sub(MOST);
    let gone = known.iter().take(beyond);
    let mut notes: Map<_, _> = gone
        .map(|(name, _)| ((*name).to_owned(), Value::Null))
        .collect();
    // The first place of all is no news.
    if !known.is_empty() {
        let agent = client.agent.as_deref().unwrap_or_default();
        let printable = agent.chars().filter(|c| !c.is_control());
        let agent: String = printable.take(MOST_CLIENT).collect();
        let network = client.address.map(network_of);
        put_sign_in(user, &mut notes, &name, (agent.as_str(), network), now);
    }
    let place = Place {
        at: now,
        addresses: own.into_iter().collect(),
    };
    notes.insert(name, place.text());
    notes
}

/// Whether `user` is known to have signed in by such a browser as `client`, from the very
/// address that it has.
fn is_place_of(user: &KiteUser, client: &Client) -> bool {
    let text = user.annotations().get(&name_of(user, client));
    let place = text.and_then(|text| serde_json::from_str::<Place>(text).ok());
    place.zip(client.address).is_some_and(|(place, address)| {
        let address = hash_of(user, client, address);
        place.addresses.contains(&address)
    })
}

/// Notes from where `user` signs in, before they have a session: nobody has one of which
/// the owner is not told. What the account has otherwise is no reason to keep them out.
pub(crate) async fn note_place(
    state: &Accounts,
    user: &KiteUser,
    client: &Client,
) -> Result<(), Problem> {
    // What another replica noted a moment ago may be in the copy only.
    let key = ObjectKey::of(user);
    let copy = state.caches().users.get(&key);
    let copy = copy.filter(|copy| copy.uid() == user.uid());
    let user = copy.as_deref().unwrap_or(user);
    let own = client.source(state).own_address();
    let notes = noted(user, client, own, Timestamp::now());
    if notes.is_empty() {
        return Ok(());
    }
    let patch = json!({"metadata": {"uid": user.uid(), "annotations": notes}});
    let edited = state
        .cluster()
        .merge_patch(state.store().manager(), &key, &patch)
        .await;
    match edited {
        Ok(edited) => state.caches().users.caught_up_with(&edited).await,
        Err(error @ ClusterError::Unavailable { .. }) => return Err(error.into()),
        Err(error) => tracing::warn!(%error, "a new place of a sign-in is not noted"),
    }
    Ok(())
}

impl Client {
    /// The same to whoever counts guesses at what is `owner`'s.
    pub(crate) fn source_of(&self, state: &Accounts, owner: &KiteUser) -> Source<'static> {
        Source {
            is_known: is_place_of(owner, self),
            ..self.source(state)
        }
    }

    /// The same of `caller`, who guesses at what is their own.
    pub(crate) fn source_in<'a>(&self, state: &Accounts, caller: &'a Principal) -> Source<'a> {
        let session = caller.session();
        let session = session.and_then(|session| session.metadata.name.as_deref());
        Source {
            // Whoever was recognised elsewhere has none that has a name here.
            session: Some(session.unwrap_or_default()),
            ..self.source_of(state, caller.user())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use kite_core::crd::KiteUserSpec;

    use super::*;

    fn at(agent: &str, address: &str) -> Client {
        Client {
            address: Some(address.parse().unwrap()),
            agent: Some(agent.to_owned()),
        }
    }

    fn note(user: &KiteUser, client: &Client, now: Timestamp) -> Map<String, Value> {
        noted(user, client, client.address, now)
    }

    fn apply(user: &mut KiteUser, notes: Map<String, Value>) {
        for (name, value) in notes {
            match value.as_str() {
                Some(text) => user.annotations_mut().insert(name, text.to_owned()),
                None => user.annotations_mut().remove(&name),
            };
        }
    }

    #[test]
    fn a_place_is_a_browser_and_about_an_address() {
        let mut ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
        let now = Timestamp::UNIX_EPOCH;
        let notes = note(&ann, &at("Firefox/140.0", "192.0.2.1"), now);
        apply(&mut ann, notes);
        assert_eq!(places_of(&ann).len(), 1);
        assert_eq!(ann.annotations().len(), 1, "it is no news");
        for same in [
            at("Firefox/140.0", "192.0.2.1"),
            at("Firefox/141.5", "192.0.2.77"),
            at("Firefox/9.0", "::ffff:192.0.2.3"),
        ] {
            let notes = note(&ann, &same, now);
            let name = name_of(&ann, &same);
            assert!(notes.keys().all(|it| *it == name), "it is no news");
            apply(&mut ann, notes);
            assert_eq!(ann.annotations().len(), 1);
            assert!(note(&ann, &same, now).is_empty());
        }
        for other in [
            at("Chrome/140.0", "192.0.2.1"),
            at("Firefox/140.0", "192.0.3.1"),
            at("Firefox/140.0", "2001:db8::1"),
        ] {
            let notes = note(&ann, &other, now);
            assert_eq!(notes.len(), 2, "with a notice");
            apply(&mut ann, notes);
        }
        assert_eq!(places_of(&ann).len(), 4);
        let same = at("Firefox/140.0", "2001:db8:0:7::9");
        let notes = note(&ann, &same, now);
        assert_eq!(notes.keys().collect::<Vec<_>>(), [&name_of(&ann, &same)]);
    }

    #[test]
    fn who_is_in_the_same_network_only_is_not_taken_for_somebody_known() {
        let mut ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
        let now = Timestamp::UNIX_EPOCH;
        let home = at("Firefox/140.0", "192.0.2.1");
        let notes = note(&ann, &home, now);
        apply(&mut ann, notes);
        assert!(is_place_of(&ann, &home));
        assert!(is_place_of(&ann, &at("Firefox/141.0", "::ffff:192.0.2.1")));
        for other in [
            at("Firefox/140.0", "192.0.2.77"),
            at("Chrome/140.0", "192.0.2.1"),
        ] {
            assert!(!is_place_of(&ann, &other));
        }
        let bob = KiteUser::new("bob", KiteUserSpec::new("bob"));
        assert!(!is_place_of(&bob, &home));
        // Of the addresses that the place had, those of last are known.
        for host in 2..=5 {
            let client = at("Firefox/140.0", &format!("192.0.2.{host}"));
            let notes = note(&ann, &client, now);
            apply(&mut ann, notes);
            assert!(is_place_of(&ann, &client));
            assert_eq!(is_place_of(&ann, &home), host < 5, "{host}");
        }
        // There may be anybody: it is not noted.
        let shared = at("Firefox/140.0", "192.0.2.200");
        assert!(noted(&ann, &shared, None, now).is_empty());
    }

    #[test]
    fn what_an_earlier_version_noted_is_read_and_completed() {
        let mut ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
        let home = at("Firefox/140.0", "192.0.2.1");
        let name = name_of(&ann, &home);
        let before = r#"{"at":"1970-01-01T00:00:00Z"}"#.to_owned();
        ann.annotations_mut().insert(name, before);
        assert!(!is_place_of(&ann, &home));
        let notes = note(&ann, &home, Timestamp::now());
        assert_eq!(notes.len(), 1, "it is no news");
        apply(&mut ann, notes);
        assert!(is_place_of(&ann, &home));
        let places = places_of(&ann);
        assert_eq!(places[0].1.at, Timestamp::UNIX_EPOCH);
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
        for number in 0..40_u8 {
            let now = Timestamp::UNIX_EPOCH + Duration::from_secs(u64::from(number));
            let place = at("curl", &format!("192.0.{number}.1"));
            let notes = note(&ann, &place, now);
            for name in notes.keys() {
                assert!(name.split_once('/').unwrap().1.len() <= 63, "{name}");
            }
            apply(&mut ann, notes);
        }
        assert_eq!(places_of(&ann).len(), MOST);
        // The notices of those that are forgotten are not, as far as there is room.
        let notices = ann.annotations().values();
        let notices: Vec<_> = notices.filter(|it| it.contains("SignIn")).collect();
        assert_eq!(notices.len(), 12);
        for network in ["192.0.1.0/24", "192.0.12.0/24"] {
            assert!(notices.iter().any(|it| it.contains(network)), "{network}");
        }
        let newest = at("curl", "192.0.39.1");
        assert!(note(&ann, &newest, Timestamp::UNIX_EPOCH).is_empty());
    }
}
