#![allow(clippy::unwrap_used)]

use super::*;

fn path(text: &str) -> AbsPath {
    AbsPath::root().join(text).unwrap()
}

const CREATE: Open = Open {
    create: true,
    exclusive: false,
    truncate: false,
};

#[test]
fn a_clone_sees_the_same_disk() {
    let home = Home::default();
    home.create_dir_all(&path("/a/b")).unwrap();
    home.clone()
        .open(&path("/a/b/f"), CREATE)
        .unwrap()
        .append(b"hello")
        .unwrap();
    assert_eq!(home.stat(&path("/a/b/f")).unwrap().size, 5);
    assert_eq!(home.list(&path("/a")).unwrap()[0].0, "b");
}

#[test]
fn space_is_bounded_and_given_back() {
    let home = Home::with_capacity(10);
    let file = home.open(&path("/f"), CREATE).unwrap();
    file.append(b"12345678").unwrap();
    assert_eq!(file.append(b"123"), Err(FsError::NoSpace));
    assert_eq!(file.write_at(9, b"12"), Err(FsError::NoSpace));
    assert_eq!(file.set_len(11), Err(FsError::NoSpace));
    assert_eq!(home.used(), 8);
    home.remove_file(&path("/f")).unwrap();
    assert_eq!(home.used(), 8, "still open");
    drop(file);
    assert_eq!(home.used(), 0);
}

#[test]
fn entries_are_bounded() {
    let home = Home::default();
    for i in 0..MAX_ENTRIES {
        home.open(&path(&format!("/{i}")), CREATE).unwrap();
    }
    assert_eq!(
        home.open(&path("/more"), CREATE).unwrap_err(),
        FsError::NoSpace
    );
    home.remove_file(&path("/0")).unwrap();
    home.create_dir(&path("/more"), 0o755).unwrap();
}

#[test]
fn a_gap_reads_as_zeros() {
    let file = Home::default().open(&path("/f"), CREATE).unwrap();
    file.write_at(2, b"x").unwrap();
    assert_eq!(file.read_at(0, 10), b"\0\0x");
    assert_eq!(file.read_at(99, 10), b"");
}

#[test]
fn rename_follows_posix() {
    let home = Home::default();
    home.open(&path("/f"), CREATE)
        .unwrap()
        .append(b"f")
        .unwrap();
    home.open(&path("/g"), CREATE).unwrap();
    home.create_dir_all(&path("/d/e")).unwrap();
    assert_eq!(
        home.rename(&path("/f"), &path("/g"), false),
        Err(FsError::Exists)
    );
    home.rename(&path("/f"), &path("/g"), true).unwrap();
    assert_eq!(home.stat(&path("/g")).unwrap().size, 1);
    assert_eq!(
        home.rename(&path("/d"), &path("/d/e/x"), true),
        Err(FsError::InvalidName)
    );
    assert_eq!(
        home.rename(&path("/g"), &path("/d"), true),
        Err(FsError::IsADirectory)
    );
    home.rename(&path("/d/e"), &path("/h"), true).unwrap();
    assert_eq!(home.stat(&path("/h")).unwrap().kind, Kind::Dir);
}

#[test]
fn removal_asks_for_the_right_kind() {
    let home = Home::default();
    home.create_dir_all(&path("/d/e")).unwrap();
    assert_eq!(home.remove_dir(&path("/d")), Err(FsError::NotEmpty));
    assert_eq!(home.remove_file(&path("/d")), Err(FsError::IsADirectory));
    home.remove_all(&path("/d")).unwrap();
    assert_eq!(home.stat(&path("/d")).unwrap_err(), FsError::NotFound);
    assert_eq!(
        home.remove_all(&AbsPath::root()),
        Err(FsError::InvalidName),
        "the root stays"
    );
}
