#![allow(clippy::unwrap_used)]

use object_store::ObjectStoreExt as _;
use object_store::memory::InMemory;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::*;

fn terminal() -> Terminal {
    Terminal {
        term: "xterm".to_owned(),
        columns: 80,
        rows: 24,
    }
}

async fn recorded(recordings: &Recordings) -> String {
    let vm = VmKey {
        namespace: "kite-user-ann".to_owned(),
        name: "../../etc/x".to_owned(),
    };
    let login = LoginName::parse("ann-web").unwrap();
    let recording = recordings.begin(&terminal(), &login, &vm).unwrap();
    for text in ["hello ", "world\r\n"] {
        let text = Bytes::from_static(text.as_bytes());
        recording.printed(&text).await.unwrap();
    }
    recording.resized(100, 50);
    recording.name().to_owned()
}

fn events(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().skip(1);
    lines
        .map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            assert!(event[0].as_f64().unwrap() >= 0.0);
            let field = |at: usize| event[at].as_str().unwrap().to_owned();
            (field(1), field(2))
        })
        .collect()
}

#[tokio::test]
async fn a_session_becomes_a_file_that_players_read() {
    let directory = tempfile::tempdir().unwrap();
    let recordings = Recordings::to(directory.path()).unwrap();
    let name = recorded(&recordings).await;
    recordings.finish().await;
    assert!(!name.contains('/'), "{name}");
    let text = std::fs::read_to_string(directory.path().join(&name)).unwrap();
    let header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&header["version"], &header["width"]),
        (&2.into(), &80.into())
    );
    assert_eq!(header["title"], "ann-web on kite-user-ann/../../etc/x");
    let events = events(&text);
    let all = |kind: &str| {
        let of = events.iter().filter(|(it, _)| it == kind);
        of.map(|(_, text)| text.as_str()).collect::<String>()
    };
    assert_eq!(
        (all("o").as_str(), all("r").as_str()),
        ("hello world\r\n", "100x50")
    );
    assert_eq!(
        files(directory.path(), PART).unwrap(),
        Vec::<PathBuf>::new()
    );
}

#[tokio::test]
async fn what_a_crash_left_is_taken_up_and_carried_away() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("old.cast.part"), "{}\n").unwrap();
    let store = Arc::new(InMemory::new());
    let prefix = object_store::path::Path::from("recordings");
    let recordings = Recordings::to(directory.path())
        .unwrap()
        .upload_to(Arc::clone(&store) as _, prefix.clone());
    let ended = CancellationToken::new();
    let uploading = tokio::spawn(Uploader::of(&recordings).unwrap().run(ended.clone()));
    let name = recorded(&recordings).await;
    recordings.finish().await;
    ended.cancel();
    uploading.await.unwrap();
    for name in ["old.cast", &name] {
        let stored = store.get(&prefix.clone().join(name)).await.unwrap();
        assert!(!stored.bytes().await.unwrap().is_empty());
    }
    assert_eq!(
        files(directory.path(), WHOLE).unwrap(),
        Vec::<PathBuf>::new()
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_does_not_keep_the_gateway_from_ending() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("old.cast"), "{}\n").unwrap();
    let hanging = ThrottleConfig {
        wait_put_per_call: Duration::from_secs(3600),
        ..ThrottleConfig::default()
    };
    let store = Arc::new(ThrottledStore::new(InMemory::new(), hanging));
    let recordings = Recordings::to(directory.path())
        .unwrap()
        .upload_to(store, object_store::path::Path::from("recordings"));
    let ended = CancellationToken::new();
    let uploading = tokio::spawn(Uploader::of(&recordings).unwrap().run(ended.clone()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    ended.cancel();
    let uploaded = tokio::time::timeout(Duration::from_secs(30), uploading).await;
    assert!(uploaded.is_ok(), "it still waits");
    // The next process that has the directory carries it.
    assert_eq!(files(directory.path(), WHOLE).unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_reach_its_store_is_counted() {
    let (directory, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["one.cast", "two.cast"] {
        std::fs::write(directory.path().join(name), "{}\n").unwrap();
    }
    // A file is where a directory is to be.
    let blocked = there.path().join("recordings");
    std::fs::write(&blocked, "").unwrap();
    let url = url::Url::from_file_path(&blocked).unwrap();
    let recordings = Recordings::open(directory.path(), Some(&url)).unwrap();
    let mut registry = Registry::default();
    recordings.register_metrics(&mut registry);
    let counted = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().parse::<u32>().unwrap()
        };
        (
            value("kite_recordings_waiting "),
            value("kite_recordings_upload_failures_total "),
        )
    };
    assert_eq!(counted(), (0, 0));
    let ended = CancellationToken::new();
    let uploading = tokio::spawn(Uploader::of(&recordings).unwrap().run(ended.clone()));
    while counted().1 < 2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(counted().0, 2);
    std::fs::remove_file(&blocked).unwrap();
    while counted().0 > 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    ended.cancel();
    uploading.await.unwrap();
    assert!(blocked.join("two.cast").is_file());
}

#[test]
fn a_directory_that_cannot_be_written_to_is_said_at_once() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(Recordings::to(file.path().join("below")).is_err());
}
