//! Terminal sessions that are recorded, with OpenSSH's client.

use std::path::PathBuf;

use crate::common::{Bed, run, text, until};
use kite_gateway::Recordings;

/// All recordings, once `count` of them are whole.
async fn whole(directory: &std::path::Path, count: usize) -> Vec<PathBuf> {
    until("all recordings are whole", async || {
        let all = std::fs::read_dir(directory).unwrap();
        let mut all: Vec<_> = all.map(|entry| entry.unwrap().path()).collect();
        all.sort();
        let are_whole = all.iter().all(|it| it.extension().unwrap() == "cast");
        (all.len() == count && are_whole).then_some(all)
    })
    .await
}

/// In a terminal.
async fn in_terminal(bed: &Bed, command: &str) -> std::process::Output {
    let mut client = bed.with_key("ssh");
    client.args(["-tt", "-l", "web", "127.0.0.1", command]);
    run(client, b"secret\n".to_vec()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_is_recorded_and_its_user_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let bed = Bed::recorded(Recordings::to(directory.path()).unwrap()).await;
    let _guest = bed.machine("web").await;
    // Neither a command without a terminal nor what it prints.
    assert_eq!(text(&bed.ssh("web", "echo quiet").await.stdout), "quiet\n");

    let output = in_terminal(&bed, "echo loud; exit 4").await;
    let told = text(&output.stdout) + &text(&output.stderr);
    assert!(told.contains("kite: this session is recorded"), "{told}");
    assert!(told.contains("loud"), "{told}");
    assert_eq!(output.status.code(), Some(4));

    let files = whole(directory.path(), 1).await;
    let cast = std::fs::read_to_string(&files[0]).unwrap();
    let mut lines = cast.lines();
    let header: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(
        (&header["version"], &header["title"]),
        (&2.into(), &"web on kite-user-ann/web".into())
    );
    assert!(lines.all(|line| line.starts_with('[') && line.contains(",\"o\",")));
    assert!(cast.contains("loud") && !cast.contains("quiet"), "{cast}");
    let record = bed.records.find(|r| r["event"] == "recording").await;
    assert_eq!(
        record["name"],
        files[0].file_name().unwrap().to_str().unwrap()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_be_recorded_does_not_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let bed = Bed::recorded(Recordings::to(directory.path()).unwrap()).await;
    let _guest = bed.machine("web").await;
    directory.close().unwrap();
    let output = in_terminal(&bed, "echo done > marker; echo loud").await;
    let told = text(&output.stdout) + &text(&output.stderr);
    assert!(told.contains("has to be recorded, and cannot be"), "{told}");
    assert!(!told.contains("loud"), "{told}");
    assert_eq!(output.status.code(), Some(255));
    // What is not recorded goes on; the other has not even begun.
    let output = bed.ssh("web", "cat marker").await;
    assert_ne!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert_eq!(text(&bed.ssh("web", "echo quiet").await.stdout), "quiet\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_all_is_recorded_so_is_what_has_no_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let recordings = Recordings::to(directory.path()).unwrap();
    let bed = Bed::recorded(recordings.everything(true)).await;
    let _guest = bed.machine("web").await;
    let command = bed.ssh("web", "echo said by a command; exit 3").await;
    assert_eq!(text(&command.stdout), "said by a command\n");
    assert!(text(&command.stderr).contains("kite: this session is recorded"));
    assert_eq!(command.status.code(), Some(3));
    let mut shell = bed.with_key("ssh");
    shell.args(["-T", "-l", "web", "127.0.0.1"]);
    let shell = run(shell, b"echo said by a shell\nexit\n".to_vec()).await;
    assert!(text(&shell.stdout).contains("said by a shell"));
    let in_terminal = in_terminal(&bed, "echo said in a terminal").await;
    assert!(text(&in_terminal.stdout).contains("said in a terminal"));
    // Files are not what people do in a session.
    let mut sftp = bed.with_key("sftp");
    sftp.args(["-b", "-", "web@127.0.0.1"]);
    let sftp = run(sftp, b"ls\n".to_vec()).await;
    assert_eq!(sftp.status.code(), Some(0), "{}", text(&sftp.stderr));

    let mut all = String::new();
    for file in whole(directory.path(), 3).await {
        all += &std::fs::read_to_string(file).unwrap();
    }
    for said in ["by a command", "by a shell", "in a terminal"] {
        assert_eq!(
            all.matches(&format!("said {said}")).count(),
            1,
            "{said}: {all}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_cannot_be_recorded_does_not_begin() {
    let directory = tempfile::tempdir().unwrap();
    let recordings = Recordings::to(directory.path()).unwrap();
    let bed = Bed::recorded(recordings.everything(true)).await;
    let guest = bed.machine("web").await;
    directory.close().unwrap();
    let output = bed.ssh("web", "echo done > marker; echo loud").await;
    let told = text(&output.stdout) + &text(&output.stderr);
    assert!(told.contains("has to be recorded, and cannot be"), "{told}");
    assert!(!told.contains("loud"), "{told}");
    assert_eq!(output.status.code(), Some(255));
    drop(guest);
}
