//! What is known of the address that a client comes from.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use kite_core::cidr::{Cidr, place};
use parking_lot::{Mutex, RwLock};

use crate::route::LoginName;

/// Logins whose places are remembered; of more, all are forgotten.
const MAX_LOGINS: usize = 16 * 1024;
/// Places that are remembered for one login; of more, the oldest is forgotten.
const PLACES_OF_LOGIN: usize = 16;

/// What is known of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// The operator trusts it.
    Trusted,
    /// It belongs to what lies between clients and the gateway: whose connections
    /// come from it cannot be told.
    Many,
    /// Somebody has logged in from it.
    Known,
    /// Nothing.
    Stranger,
}

/// Addresses of what lies between clients and the gateway, such as nodes, pods and
/// load balancers. Many clients may share each, so none is banned, and none is bounded
/// by itself. Clones share what is set.
#[derive(Clone, Debug, Default)]
pub struct Infrastructure(Arc<RwLock<Vec<Cidr>>>);

impl Infrastructure {
    /// Says which addresses that are now.
    pub fn set(&self, ranges: Vec<Cidr>) {
        *self.0.write() = ranges;
    }

    /// Whether `address` is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.read().iter().any(|range| range.contains(address))
    }
}

/// A login to one machine: another machine may get the name later.
type Login = (LoginName, String);

#[derive(Default)]
struct Seen {
    places: HashMap<Login, VecDeque<IpAddr>>,
    /// How many logins have been seen from each place.
    logins: HashMap<IpAddr, usize>,
}

/// The places from which logins have succeeded. In memory: each gateway knows its own.
#[derive(Default)]
pub(crate) struct KnownPlaces(Mutex<Seen>);

impl KnownPlaces {
    /// A login to the machine `uid` from `address` has succeeded.
    pub(crate) fn add(&self, login: &LoginName, uid: &str, address: IpAddr) {
        let place = place(address);
        let mut seen = self.0.lock();
        let key = (login.clone(), uid.to_owned());
        if seen.places.len() >= MAX_LOGINS && !seen.places.contains_key(&key) {
            *seen = Seen::default();
        }
        let places = seen.places.entry(key).or_default();
        if places.contains(&place) {
            return;
        }
        places.push_back(place);
        let forgotten = (places.len() > PLACES_OF_LOGIN).then(|| places.pop_front());
        *seen.logins.entry(place).or_default() += 1;
        if let Some(old) = forgotten.flatten()
            && let Some(count) = seen.logins.get_mut(&old)
        {
            *count -= 1;
            if *count == 0 {
                seen.logins.remove(&old);
            }
        }
    }

    /// Whether that login has succeeded from there.
    pub(crate) fn has(&self, login: &LoginName, uid: &str, address: IpAddr) -> bool {
        let seen = self.0.lock();
        let places = seen.places.get(&(login.clone(), uid.to_owned()));
        places.is_some_and(|places| places.contains(&place(address)))
    }

    /// Whether any login has succeeded from there.
    pub(crate) fn has_any(&self, address: IpAddr) -> bool {
        self.0.lock().logins.contains_key(&place(address))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn login(name: &str) -> LoginName {
        LoginName::parse(name).unwrap()
    }

    #[test]
    fn a_place_is_known_for_the_login_and_machine_that_it_was() {
        let known = KnownPlaces::default();
        let (here, there) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        known.add(&login("web"), "1", here);
        assert!(known.has(&login("web"), "1", here) && known.has_any(here));
        assert!(!known.has(&login("web"), "2", here), "another machine");
        assert!(!known.has(&login("db"), "1", here), "another login");
        assert!(!known.has(&login("web"), "1", there) && !known.has_any(there));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let known = KnownPlaces::default();
        let place = |n: usize| IpAddr::from(u32::try_from(n).unwrap().to_be_bytes());
        for n in 0..100 {
            known.add(&login("web"), "1", place(n));
            known.add(&login("web"), "1", place(n));
        }
        assert!(known.has(&login("web"), "1", place(99)));
        assert!(!known.has_any(place(0)), "the oldest is forgotten");
        assert_eq!(known.0.lock().logins.len(), PLACES_OF_LOGIN);
        for n in 0..2 * MAX_LOGINS {
            known.add(&login("web"), &n.to_string(), place(n));
        }
        let seen = known.0.lock();
        assert!(seen.places.len() <= MAX_LOGINS && seen.logins.len() <= MAX_LOGINS);
    }

    #[test]
    fn infrastructure_is_what_was_said_last() {
        let ranges = Infrastructure::default();
        let (node, pod) = ([10, 0, 0, 1].into(), [10, 42, 7, 1].into());
        assert!(!ranges.contains(node));
        let shared = ranges.clone();
        shared.set(vec!["10.0.0.1".parse().unwrap()]);
        assert!(ranges.contains(node) && !ranges.contains(pod));
        shared.set(vec!["10.42.0.0/16".parse().unwrap()]);
        assert!(!ranges.contains(node) && ranges.contains(pod));
    }
}
