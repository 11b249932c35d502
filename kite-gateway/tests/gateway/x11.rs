//! A window of a program in the VM on the display of its user.

use std::io::Write as _;
use std::process::Command;

use crate::common::{Bed, Sshd, run, text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// What a program of X11 sends first, but for the cookie: little-endian, version
/// 11.0, the lengths of the name and of the cookie, the name with its padding.
const SETUP: &str = r"l\0\013\0\0\0\022\0\020\0\0\0MIT-MAGIC-COOKIE-1\0\0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_of_the_vm_reaches_the_display_of_its_user() {
    let bed = Bed::new().await;
    // Its xauth must not write into the file of whoever runs the test.
    let options = format!("SetEnv XAUTHORITY={}", bed.path("xauthority-vm").display());
    let Some(sshd) = Sshd::start(&bed, &options).await else {
        return;
    };
    if Command::new("xauth").arg("version").output().is_err() {
        assert!(
            std::env::var_os("KITE_REQUIRE_CLIENTS").is_none(),
            "KITE_REQUIRE_CLIENTS is set: there is no xauth"
        );
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: there is no xauth (Debian: xauth), which sshd wants for X11"
        );
        return;
    }
    sshd.behind(&bed, "web");
    // Displays are ports from 6000 on; take one that is free.
    let (display, listener) = {
        let mut found = None;
        for number in 60..100 {
            if let Ok(listener) = TcpListener::bind(("127.0.0.1", 6000 + number)).await {
                found = Some((number, listener));
                break;
            }
        }
        found.expect("a free display")
    };
    // The bytes 00, 11, 22, ... ff.
    let cookie = "00112233445566778899aabbccddeeff";
    let authority = bed.path("xauthority");
    let added = Command::new("xauth")
        .arg("-f")
        .arg(&authority)
        .args(["add", &format!("127.0.0.1:{display}"), ".", cookie])
        .status()
        .unwrap();
    assert!(added.success());
    // The display: it knows the cookie of its user and answers.
    let shown = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut setup = [0; 48];
        stream.read_exact(&mut setup).await.unwrap();
        stream.write_all(b"display").await.unwrap();
        setup
    });
    // The program: it has the cookie that sshd made up for this session.
    let program = format!(
        "set -e\n\
         cookie=$(xauth list \"$DISPLAY\" | awk '{{print $3; exit}}')\n\
         number=${{DISPLAY#*:}}; number=${{number%.*}}\n\
         exec 3<>/dev/tcp/127.0.0.1/$((6000 + number))\n\
         printf '{SETUP}' >&3\n\
         printf \"$(printf %s \"$cookie\" | sed 's/../\\\\x&/g')\" >&3\n\
         head -c 7 <&3\n"
    );
    let mut client = bed.with_key("ssh");
    client
        .env("DISPLAY", format!("127.0.0.1:{display}"))
        .env("XAUTHORITY", &authority)
        .args(["-Y", "-l", "web", "127.0.0.1", "bash -s"]);
    let output = run(client, program.into_bytes()).await;
    assert_eq!(text(&output.stdout), "display", "{}", text(&output.stderr));
    let setup = shown.await.unwrap();
    // The client of the user put the display's own cookie in the place of the other.
    let real: Vec<u8> = (0..16).map(|byte| byte * 0x11).collect();
    assert_eq!(setup.get(32..), Some(real.as_slice()));
    let is_x11 = |record: &serde_json::Value| record["purpose"] == "x11";
    let record = bed.records.find(is_x11).await;
    assert_eq!(record["bytes_up"], 7, "{record}");
    assert_eq!(record["bytes_down"], 48, "{record}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_having_been_asked_no_window_is_shown() {
    let bed = Bed::new().await;
    let Some(sshd) = Sshd::start(&bed, "").await else {
        return;
    };
    sshd.behind(&bed, "web");
    let mut client = bed.with_key("ssh");
    client.env("DISPLAY", "127.0.0.1:99");
    client.args(["-x", "-l", "web", "127.0.0.1", "echo \"($DISPLAY)\""]);
    assert_eq!(text(&run(client, Vec::new()).await.stdout), "()\n");
}
