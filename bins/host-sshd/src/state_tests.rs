#![allow(clippy::unwrap_used)]

use std::os::unix::fs::symlink;

use super::*;

fn record(path: &Path, original: Option<&[u8]>) -> FileRecord {
    FileRecord {
        path: path.to_owned(),
        target: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
        original: original.map(Digest::of),
        moved: Digest::of(b"moved"),
        owner: Owner::PUBLIC,
        made: None,
    }
}

fn state() -> State {
    State {
        version: VERSION,
        phase: Phase::Moved,
        from: 22,
        to: 2222,
        begun: Timestamp::UNIX_EPOCH,
        config: PathBuf::from("/etc/ssh/sshd_config"),
        activation: Activation::Service {
            unit: "ssh.service".to_owned(),
        },
        addresses: vec!["::".parse().unwrap()],
        shared: false,
        backup: PathBuf::from("backups/19700101T000000.000Z"),
        files: vec![record(Path::new("/etc/ssh/sshd_config"), Some(b"x"))],
    }
}

#[test]
fn what_a_file_has() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sshd_config");
    let new = record(&path, None);
    assert_eq!(new.found().unwrap(), Found::On(Side::Original));
    fs::write(&path, "original").unwrap();
    let file = record(&path, Some(b"original"));
    assert_eq!(file.found().unwrap(), Found::On(Side::Original));
    assert_eq!(new.found().unwrap(), Found::Changed);
    fs::write(&path, "moved").unwrap();
    assert_eq!(file.found().unwrap(), Found::On(Side::Moved));
    assert_eq!(new.found().unwrap(), Found::On(Side::Moved));
    fs::write(&path, "moved, and edited").unwrap();
    assert_eq!(file.found().unwrap(), Found::Changed);
    fs::remove_file(&path).unwrap();
    assert_eq!(file.found().unwrap(), Found::Gone);
}

#[test]
fn a_link_that_leads_elsewhere_is_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let [one, other, link] = ["one", "other", "link"].map(|name| dir.path().join(name));
    fs::write(&one, "original").unwrap();
    fs::write(&other, "original").unwrap();
    symlink(&one, &link).unwrap();
    let file = record(&link, Some(b"original"));
    assert_eq!(file.found().unwrap(), Found::On(Side::Original));
    fs::remove_file(&link).unwrap();
    symlink(&other, &link).unwrap();
    assert_eq!(file.found().unwrap(), Found::Changed);
}

#[test]
fn a_note_is_read_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    assert_eq!(store.load().unwrap(), None);
    fs::write(store.state(), serde_json::to_vec(&state()).unwrap()).unwrap();
    assert_eq!(store.load().unwrap(), Some(state()));
}

#[test]
fn a_note_that_cannot_be_used_says_where_the_copies_are() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let newer = State {
        version: VERSION + 1,
        ..state()
    };
    let newer = serde_json::to_vec(&newer).unwrap();
    for (json, why) in [(&b"{"[..], "EOF"), (&newer, "version: 2 is not 1")] {
        fs::write(store.state(), json).unwrap();
        let error = store.load().unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        let backups = dir.path().join("backups");
        assert!(
            error.remedy().contains(backups.to_str().unwrap()),
            "{error}"
        );
    }
}

#[test]
fn a_copy_that_was_changed_is_not_put_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    let state = state();
    let copy = store.copy(&state, Area::Original, &state.files[0].path);
    fs::create_dir_all(copy.parent().unwrap()).unwrap();
    fs::write(&copy, "x").unwrap();
    let kept = store.kept(&state, &state.files[0], Side::Original).unwrap();
    assert_eq!(kept.as_deref(), Some(&b"x"[..]));
    fs::write(&copy, "y").unwrap();
    let error = store
        .kept(&state, &state.files[0], Side::Original)
        .unwrap_err();
    assert!(error.to_string().contains("SHA-256"), "{error}");
}

#[test]
fn the_lock_keeps_others_away_while_it_is_held() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path());
    assert!(!store.is_busy());
    let guard = store.lock().unwrap();
    assert!(store.is_busy());
    assert!(matches!(
        store.lock(),
        Err(Error::Refused(Refusal::Busy { .. }))
    ));
    drop(guard);
    crate::probe::tests::eventually(|| !store.is_busy());
}
