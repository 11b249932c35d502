//! From where somebody signs in: which browser, and about which address.
//!
//! A place that an account was not seen at before is worth a notice to its owner. The
//! places are annotations of the account, the newest of them only: one write for each new
//! place, and none for one that is known. The notice is there by the same write, and stays
//! when the place is forgotten.

use std::net::IpAddr;

use jiff::Timestamp;
use kite_core::{
    cluster::{Cluster as _, ClusterError, FieldManager, ObjectKey},
    crd::KiteUser,
    names,
};
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Client;
use crate::{notices::put_sign_in, problem::Problem, state::ApiState};

/// Begins the name of an annotation that has a place.
const PLACE: &str = "hy3ons.github.io/place-";
/// How many characters of its hash are in that name, which has room for 63.
const HASH: usize = 40;
/// Most places that are remembered.
const MOST: usize = 16;
/// Most characters of what a client calls itself.
const MOST_CLIENT: usize = 200;

/// Where somebody signed in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Place {
    /// When that was for the first time.
    at: Timestamp,
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

/// The annotation of the place that `client` is at. A newer version of the same browser is
/// the same place.
fn name_of(user: &KiteUser, client: &Client) -> String {
    let agent = client.agent.as_deref().unwrap_or_default();
    let agent: String = agent.chars().filter(|c| !c.is_ascii_digit()).collect();
    let network = client.address.map(network_of).unwrap_or_default();
    let uid = user.uid().unwrap_or_default();
    let hash = names::fingerprint(&format!("{uid}\n{agent}\n{network}"));
    format!("{PLACE}{}", hash.get(..HASH).unwrap_or(&hash))
}

/// The places of `user` by the names of their annotations.
fn places_of(user: &KiteUser) -> Vec<(&str, Place)> {
    let annotations = user.annotations().iter();
    let places = annotations.filter(|(name, _)| name.starts_with(PLACE));
    places
        .filter_map(|(name, text)| Some((name.as_str(), serde_json::from_str(text).ok()?)))
        .collect()
}

/// What is to be written down for a sign-in; nothing where the place is known.
fn noted(user: &KiteUser, client: &Client, now: Timestamp) -> Map<String, Value> {
    let name = name_of(user, client);
    let mut known = places_of(user);
    if known.iter().any(|(place, _)| *place == name) {
        return Map::new();
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
    let text = serde_json::to_string(&Place { at: now }).unwrap_or_default();
    notes.insert(name, json!(text));
    notes
}

/// Whether `user` is known to have signed in where `client` is.
pub(super) fn is_place_of(user: &KiteUser, client: &Client) -> bool {
    user.annotations().contains_key(&name_of(user, client))
}

/// Notes from where `user` signs in, before they have a session: nobody has one of which
/// the owner is not told. What the account has otherwise is no reason to keep them out.
pub(super) async fn note_place(
    state: &ApiState,
    user: &KiteUser,
    client: &Client,
) -> Result<(), Problem> {
    // What another replica noted a moment ago may be in the copy only.
    let key = ObjectKey::of(user);
    let copy = state.caches().users.get(&key);
    let copy = copy.filter(|copy| copy.uid() == user.uid());
    let user = copy.as_deref().unwrap_or(user);
    let notes = noted(user, client, Timestamp::now());
    if notes.is_empty() {
        return Ok(());
    }
    let patch = json!({"metadata": {"uid": user.uid(), "annotations": notes}});
    let edited = state.cluster().edit(FieldManager::API, &key, &patch).await;
    match edited {
        Ok(edited) => state.caches().users.caught_up_with(&edited).await,
        Err(error @ ClusterError::Unavailable { .. }) => return Err(error.into()),
        Err(error) => tracing::warn!(%error, "a new place of a sign-in is not noted"),
    }
    Ok(())
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
        let notes = noted(&ann, &at("Firefox/140.0", "192.0.2.1"), now);
        apply(&mut ann, notes);
        assert_eq!(places_of(&ann).len(), 1);
        assert_eq!(ann.annotations().len(), 1, "it is no news");
        for same in [
            at("Firefox/140.0", "192.0.2.1"),
            at("Firefox/141.5", "192.0.2.77"),
            at("Firefox/9.0", "::ffff:192.0.2.3"),
        ] {
            assert!(noted(&ann, &same, now).is_empty());
        }
        for other in [
            at("Chrome/140.0", "192.0.2.1"),
            at("Firefox/140.0", "192.0.3.1"),
            at("Firefox/140.0", "2001:db8::1"),
        ] {
            let notes = noted(&ann, &other, now);
            assert_eq!(notes.len(), 2, "with a notice");
            apply(&mut ann, notes);
        }
        assert_eq!(places_of(&ann).len(), 4);
        assert!(noted(&ann, &at("Firefox/140.0", "2001:db8:0:7::9"), now).is_empty());
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut ann = KiteUser::new("ann", KiteUserSpec::new("ann"));
        for number in 0..40_u8 {
            let now = Timestamp::UNIX_EPOCH + Duration::from_secs(u64::from(number));
            let place = at("curl", &format!("192.0.{number}.1"));
            let notes = noted(&ann, &place, now);
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
        assert!(noted(&ann, &newest, Timestamp::UNIX_EPOCH).is_empty());
    }
}
