#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::config::tree::tests::{files, tree};
use crate::daemon::tests::{as_service, by_hand, by_socket};
use crate::files::{Digest, Owner};
use crate::state::FileRecord;

const PORTS: Ports = Ports { from: 22, to: 2222 };
const EFFECTIVE: &str = "port 22\nlistenaddress [::]:22\nlistenaddress 0.0.0.0:22\nusepam yes\n";

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn planned(files: &Files, effective: &str, running: &Running) -> Result<Vec<Edit>, Refusal> {
    let observed = Observed {
        tree: &tree(files),
        effective: &Effective::parse(effective),
        running,
        files,
    };
    edits(&observed, &running.find(22)?, PORTS)
}

fn paths(edits: &[Edit]) -> Vec<&str> {
    edits
        .iter()
        .map(|edit| edit.path.to_str().unwrap())
        .collect()
}

fn debian() -> Files {
    let main = "Include /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\n";
    files(&[("sshd_config", main), ("sshd_config.d/README", "")])
}

#[test]
fn a_service_gets_a_file_of_the_configuration() {
    let edits = planned(&debian(), EFFECTIVE, &as_service(22)).unwrap();
    assert_eq!(
        paths(&edits),
        ["/etc/ssh/sshd_config.d/kite-host-sshd.conf"]
    );
}

#[test]
fn a_socket_gets_a_drop_in_and_the_configuration_follows() {
    let edits = planned(&debian(), EFFECTIVE, &by_socket("process", "active")).unwrap();
    let drop_in = "/etc/systemd/system/ssh.socket.d/zz-kite-host-sshd.conf";
    assert_eq!(
        paths(&edits),
        ["/etc/ssh/sshd_config.d/kite-host-sshd.conf", drop_in]
    );
    let text = String::from_utf8_lossy(&edits[1].after);
    assert!(
        text.ends_with("ListenStream=\nListenStream=[::]:2222\n"),
        "{text}"
    );
    let told: Vec<_> = edits[1]
        .changes
        .iter()
        .map(|change| change.new.as_str())
        .collect();
    assert_eq!(told, ["ListenStream=", "ListenStream=[::]:2222"]);
}

#[test]
fn a_socket_may_listen_elsewhere_than_the_configuration_says() {
    // Ubuntu 22.10 to 23.10 do not read the configuration for it.
    let files = files(&[("sshd_config", "Port 2022\n")]);
    let effective = "listenaddress 0.0.0.0:2022\n";
    let edits = planned(&files, effective, &by_socket("process", "active")).unwrap();
    assert_eq!(edits.len(), 1);
    let refusal = planned(&files, effective, &as_service(22)).unwrap_err();
    assert!(
        matches!(refusal, Refusal::NotConfigured { .. }),
        "{refusal}"
    );
}

#[test]
fn an_older_drop_in_of_kites_is_replaced() {
    let mut files = debian();
    let path = "/etc/systemd/system/ssh.socket.d/zz-kite-host-sshd.conf";
    files.insert(PathBuf::from(path), b"[Socket]\n".to_vec());
    let edits = planned(&files, EFFECTIVE, &by_socket("process", "active")).unwrap();
    assert_eq!(edits[1].before.as_deref(), Some(&b"[Socket]\n"[..]));
}

#[test]
fn what_cannot_be_moved_is_refused() {
    let files = debian();
    let refused = |running: &Running| planned(&files, EFFECTIVE, running).unwrap_err();
    let mut by_option = by_hand(22);
    by_option.listeners[0].holders[0].command =
        vec!["sshd: /usr/sbin/sshd -p 22 [listener] 0 of 10-100 startups".to_owned()];
    let refusal = refused(&by_option);
    assert!(refusal.to_string().contains("-p 22"), "{refusal}");
    assert!(refusal.remedy().contains("/etc/default/ssh"), "{refusal}");
    let refusal = refused(&by_socket("mixed", "active"));
    assert!(
        matches!(refusal, Refusal::SessionsWouldEnd { .. }),
        "{refusal}"
    );
    let mut odd = by_socket("process", "active");
    odd.sockets[1].listens.push(systemd::Listen {
        kind: "Netlink".to_owned(),
        address: "kobject-uevent 1".to_owned(),
    });
    let refusal = refused(&odd);
    assert!(refusal.to_string().contains("kobject-uevent"), "{refusal}");
}

#[test]
fn a_configuration_that_is_read_otherwise_than_by_sshd_is_left_alone() {
    let files = files(&[("sshd_config", "Port 22\n")]);
    let effective = "listenaddress 0.0.0.0:22\nlistenaddress 0.0.0.0:99\n";
    let refusal = planned(&files, effective, &as_service(22)).unwrap_err();
    assert!(matches!(refusal, Refusal::Misread { .. }), "{refusal}");
}

fn record(path: &str, original: Option<&str>) -> FileRecord {
    FileRecord {
        path: PathBuf::from(path),
        target: PathBuf::from(path),
        original: original.map(|text| Digest::of(text.as_bytes())),
        moved: Digest::of(b"moved"),
        owner: Owner::PUBLIC,
        made: None,
    }
}

fn state(running: &Running, files: Vec<FileRecord>) -> State {
    let daemon = running.find(22).unwrap();
    let config = PathBuf::from("/etc/ssh/sshd_config");
    let begun = jiff::Timestamp::UNIX_EPOCH;
    let mut state = State::new(PORTS, begun, config, &daemon, false);
    state.files = files;
    state
}

fn told(goal: Side, state: &State, found: &[Found], running: &Running) -> Vec<String> {
    let steps = steps(goal, state, found, running, &state.activation);
    steps.iter().map(ToString::to_string).collect()
}

#[test]
fn the_steps_there_and_back() {
    let running = as_service(22);
    let state = state(
        &running,
        vec![record("/main", Some("x")), record("/new", None)],
    );
    let old = [Found::On(Side::Original); 2];
    assert_eq!(
        told(Side::Moved, &state, &old, &running),
        [
            "write /main",
            "write /new",
            "systemctl reload ssh.service",
            "wait until sshd answers on port 2222 and not on 22",
            "note that sshd is moved",
        ]
    );
    let new = [Found::On(Side::Moved); 2];
    assert_eq!(
        told(Side::Original, &state, &new, &running),
        [
            "put /main back",
            "remove /new",
            "systemctl reload ssh.service",
            "wait until sshd answers on port 22 and not on 2222",
            "forget the move",
        ]
    );
}

#[test]
fn what_is_done_already_is_not_written_again_but_switched_again() {
    let running = by_hand(2222);
    let files = vec![record("/main", Some("x")), record("/new", None)];
    let state = state(&by_hand(22), files);
    let found = [Found::On(Side::Moved), Found::On(Side::Original)];
    assert_eq!(
        told(Side::Moved, &state, &found, &running)[..2],
        ["write /new", "send SIGHUP to sshd (pid 900)"]
    );
    assert_eq!(
        told(Side::Original, &state, &found, &running)[..2],
        ["put /main back", "send SIGHUP to sshd (pid 900)"]
    );
}

#[test]
fn an_sshd_that_listened_on_both_ports_keeps_the_other() {
    let running = by_hand(22);
    let mut state = state(&running, vec![record("/main", Some("x"))]);
    state.shared = true;
    let found = [Found::On(Side::Moved)];
    let back = told(Side::Original, &state, &found, &running);
    assert!(back.contains(&"wait until sshd answers on port 22".to_owned()));
    let there = told(Side::Moved, &state, &found, &running);
    assert!(there.contains(&"wait until sshd answers on port 2222 and not on 22".to_owned()));
}

#[test]
fn units_are_read_again_when_the_socket_has_gone_meanwhile() {
    let drop_in = "/etc/systemd/system/ssh.socket.d/zz-kite-host-sshd.conf";
    let state = state(&by_socket("process", "active"), vec![record(drop_in, None)]);
    let running = as_service(2222);
    let activation = running.activation_of(&state);
    let found = [Found::On(Side::Moved)];
    let steps = steps(Side::Original, &state, &found, &running, &activation);
    let told: Vec<String> = steps.iter().map(ToString::to_string).collect();
    assert_eq!(
        told[1..3],
        ["systemctl daemon-reload", "systemctl reload ssh.service"]
    );
}

#[test]
fn copies_and_the_note_come_first() {
    let edits = planned(&debian(), EFFECTIVE, &as_service(22)).unwrap();
    let steps = preparation(&edits, Path::new("/state.json"));
    let told: Vec<String> = steps.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "keep a copy of /etc/ssh/sshd_config.d/kite-host-sshd.conf",
            "note in /state.json what to undo"
        ]
    );
}

fn found() -> impl Strategy<Value = Found> {
    prop_oneof![
        Just(Found::On(Side::Original)),
        Just(Found::On(Side::Moved))
    ]
}

proptest! {
    #[test]
    fn from_anywhere_a_plan_leads_to_its_goal(
        found in prop::collection::vec(found(), 1..5),
        new in any::<u8>(),
        back in any::<bool>(),
    ) {
        let running = as_service(22);
        let file = |index: usize| {
            let original = (new >> index & 1 == 0).then_some("x");
            record(&format!("/{index}"), original)
        };
        let state = state(&running, (0..found.len()).map(file).collect());
        let goal = if back { Side::Original } else { Side::Moved };
        let steps = steps(goal, &state, &found, &running, &state.activation);
        let mut now = found.clone();
        let mut switched = false;
        for step in &steps {
            match step {
                Step::Write { file, side, .. } => {
                    prop_assert!(!switched, "files are written before the switch");
                    prop_assert!(*side == Side::Moved || state.files[*file].original.is_some());
                    now[*file] = Found::On(*side);
                }
                Step::Remove { file, .. } => {
                    prop_assert!(!switched && state.files[*file].original.is_none());
                    now[*file] = Found::On(Side::Original);
                }
                Step::Switch(_) => switched = true,
                Step::Answer { port, .. } => {
                    prop_assert!(switched);
                    prop_assert_eq!(*port, if back { 22 } else { 2222 });
                }
                Step::Keep { .. } | Step::Note { .. } | Step::Settle | Step::Forget => {}
            }
        }
        prop_assert!(now.iter().all(|found| *found == Found::On(goal)));
        let last = if back { Step::Forget } else { Step::Settle };
        prop_assert_eq!(steps.last(), Some(&last));
    }
}
