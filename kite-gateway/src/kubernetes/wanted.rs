//! Which VMs' keys are to be read, and when. No clock, no I/O.
//!
//! A VM's keys are made once and stay. So they are read when the VM is first heard of,
//! by the name of their Secret, and again only when the VM did not take them: nobody has
//! to be allowed to list Secrets for that.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::route::VmKey;

/// How long after keys could not be read they are tried again, doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest of these times.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// After how many failures nobody waits for the keys any more: 31 seconds at least.
const GIVEN_UP: u32 = 6;
/// How long all keys together are waited for: where nothing answers, those that are
/// known shall open the doors that they can.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long keys are believed that a VM did not take: it may be asked often.
const BELIEVED: Duration = Duration::from_secs(10);

/// What came of reading a VM's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// They are known.
    Done,
    /// There are none, or none that can be used: not yet, or somebody has to act.
    None,
    /// Nobody said whether there are any. Such as a right that is on its way, an API
    /// server that is too busy, or no answer.
    Failed,
}

/// The VMs whose keys are wanted.
#[derive(Default)]
pub(super) struct Wanted {
    vms: HashMap<VmKey, Want>,
    /// What is to be read, by when; first what was never tried.
    queue: BTreeSet<(Option<Instant>, VmKey)>,
    /// Of how many nobody knows yet whether there are any.
    untried: usize,
    /// When the first was asked for.
    begun: Option<Instant>,
    /// Whether that is too long ago to wait for the rest.
    given_up: bool,
}

struct Want {
    uid: String,
    state: State,
    tried: bool,
    failures: u32,
}

#[derive(Clone, Copy)]
enum State {
    Due(Option<Instant>),
    UnderWay,
    Read(Instant),
}

impl Wanted {
    /// Says which VM of this name there is, if any; whether it is another than before,
    /// with keys of its own.
    pub(super) fn set(&mut self, vm: &VmKey, uid: Option<&str>) -> bool {
        let known = self.vms.get(vm).map(|want| want.uid.as_str());
        if known == uid {
            return false;
        }
        if let Some(old) = self.vms.remove(vm) {
            self.untried -= usize::from(!old.tried);
            if let State::Due(at) = old.state {
                self.queue.remove(&(at, vm.clone()));
            }
        }
        if let Some(uid) = uid {
            let want = Want {
                uid: uid.to_owned(),
                state: State::Due(None),
                tried: false,
                failures: 0,
            };
            self.vms.insert(vm.clone(), want);
            self.queue.insert((None, vm.clone()));
            self.untried += 1;
        }
        true
    }

    /// At most `most` VMs whose keys are to be read now, each with its uid. They are
    /// under way from now on.
    pub(super) fn due(&mut self, most: usize, now: Instant) -> Vec<(VmKey, String)> {
        let mut due = Vec::new();
        while due.len() < most
            && let Some((at, _)) = self.queue.first()
            && at.is_none_or(|at| at <= now)
            && let Some((_, vm)) = self.queue.pop_first()
        {
            if let Some(want) = self.vms.get_mut(&vm) {
                want.state = State::UnderWay;
                self.begun.get_or_insert(now);
                due.push((vm, want.uid.clone()));
            }
        }
        due
    }

    /// Takes in what came of reading the keys; `false` if that VM is not there any more.
    pub(super) fn done(&mut self, vm: &VmKey, uid: &str, read: Reading, now: Instant) -> bool {
        let begun = *self.begun.get_or_insert(now);
        self.given_up |= now - begun >= LONGEST_WAIT;
        let Some(want) = self.vms.get_mut(vm).filter(|want| want.uid == uid) else {
            return false;
        };
        if read == Reading::Done {
            want.failures = 0;
            want.state = State::Read(now);
        } else {
            let doubled = FIRST_PAUSE.saturating_mul(1 << want.failures.min(10));
            want.failures = want.failures.saturating_add(1);
            let at = Some(now + doubled.min(LONGEST_PAUSE));
            want.state = State::Due(at);
            self.queue.insert((at, vm.clone()));
        }
        if !want.tried && (read != Reading::Failed || want.failures >= GIVEN_UP) {
            want.tried = true;
            self.untried -= 1;
        }
        true
    }

    /// The VM did not take its keys; whether they are to be read again.
    pub(super) fn doubt(&mut self, vm: &VmKey, uid: &str) -> bool {
        let Some(want) = self.vms.get_mut(vm).filter(|want| want.uid == uid) else {
            return false;
        };
        let State::Read(read) = want.state else {
            return false;
        };
        let at = Some(read + BELIEVED);
        want.state = State::Due(at);
        self.queue.insert((at, vm.clone()));
        true
    }

    /// When keys are to be read that are not yet.
    pub(super) fn next(&self) -> Option<Instant> {
        self.queue.first().and_then(|(at, _)| *at)
    }

    /// Whether of all VMs it is known whether there are keys, or that cannot be had.
    pub(super) fn all_tried(&self) -> bool {
        self.untried == 0 || self.given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> VmKey {
        VmKey {
            namespace: "kite-user-ann".to_owned(),
            name: "web".to_owned(),
        }
    }

    fn due(wanted: &mut Wanted, now: Instant) -> Vec<String> {
        let due = wanted.due(9, now);
        due.into_iter().map(|(_, uid)| uid).collect()
    }

    #[test]
    fn keys_are_read_once_and_those_of_another_vm_of_the_name_again() {
        let (mut wanted, now) = (Wanted::default(), Instant::now());
        wanted.set(&web(), Some("1"));
        assert!(!wanted.all_tried());
        assert_eq!(due(&mut wanted, now), ["1"]);
        assert!(due(&mut wanted, now).is_empty(), "it is under way");
        assert!(wanted.done(&web(), "1", Reading::Done, now));
        wanted.set(&web(), Some("1"));
        assert!(due(&mut wanted, now).is_empty() && wanted.all_tried());
        wanted.set(&web(), Some("2"));
        assert_eq!(due(&mut wanted, now), ["2"]);
        // What was asked for before that is of no use.
        assert!(!wanted.done(&web(), "1", Reading::Done, now));
        wanted.set(&web(), None);
        assert!(!wanted.done(&web(), "2", Reading::Done, now) && wanted.all_tried());
    }

    #[test]
    fn what_failed_is_tried_again_less_and_less_often() {
        let (mut wanted, mut now) = (Wanted::default(), Instant::now());
        wanted.set(&web(), Some("1"));
        let (begun, mut pauses) = (now, Vec::new());
        for _ in 0..8 {
            assert_eq!(due(&mut wanted, now), ["1"]);
            wanted.done(&web(), "1", Reading::Failed, now);
            let has_passed = now - begun >= Duration::from_secs(31);
            assert_eq!(wanted.all_tried(), has_passed, "nobody waits for ever");
            let next = wanted.next().unwrap_or(now);
            pauses.push((next - now).as_secs());
            now = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn many_reads_without_an_answer_hold_up_a_gateway_for_a_minute() {
        let (mut wanted, begun) = (Wanted::default(), Instant::now());
        let vms: Vec<_> = (0..100)
            .map(|number| VmKey {
                name: format!("vm-{number}"),
                ..web()
            })
            .collect();
        for vm in &vms {
            wanted.set(vm, Some("1"));
        }
        let mut now = begun;
        while !wanted.all_tried() {
            let due = wanted.due(2, now);
            now += Duration::from_secs(10);
            for (vm, uid) in due {
                wanted.done(&vm, &uid, Reading::Failed, now);
            }
        }
        assert_eq!(now - begun, LONGEST_WAIT);
    }

    #[test]
    fn nobody_waits_for_keys_that_are_not_there() {
        let (mut wanted, now) = (Wanted::default(), Instant::now());
        wanted.set(&web(), Some("1"));
        wanted.due(9, now);
        wanted.done(&web(), "1", Reading::None, now);
        assert!(wanted.all_tried());
        // One that goes before anybody knew is not waited for either.
        wanted.set(&web(), Some("2"));
        wanted.due(9, now);
        wanted.done(&web(), "2", Reading::Failed, now);
        assert!(!wanted.all_tried());
        wanted.set(&web(), None);
        assert!(wanted.all_tried());
    }

    #[test]
    fn keys_that_a_vm_does_not_take_are_read_again_now_and_then() {
        let (mut wanted, now) = (Wanted::default(), Instant::now());
        wanted.set(&web(), Some("1"));
        wanted.due(9, now);
        wanted.done(&web(), "1", Reading::Done, now);
        assert!(!wanted.doubt(&web(), "2"), "another VM");
        assert!(wanted.doubt(&web(), "1"));
        assert!(!wanted.doubt(&web(), "1"), "that is known");
        assert_eq!(wanted.next(), Some(now + BELIEVED));
        assert!(due(&mut wanted, now + BELIEVED / 2).is_empty());
        assert_eq!(due(&mut wanted, now + BELIEVED), ["1"]);
    }
}
