//! Which clients can do what through the gateway, before a real OpenSSH server: a
//! table client × feature, printed whatever comes of it. Clients that are missing
//! are named in it, and are a failure where `KITE_REQUIRE_CLIENTS` is set.
//! `KITE_INTEROP_CLIENTS` names those to be tried, as in `putty,ssh2`.

mod algorithms;
mod ansible;
mod channels;
mod command_line;
mod dropbear;
mod files;
mod git;
mod lab;
mod machines;
mod openssh;
mod process;
mod putty;
mod scripted;
mod table;

use futures::StreamExt;
use futures::future::LocalBoxFuture;

use lab::Lab;
use table::Row;

/// Megabytes that clients carry there and back.
const SIZE: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_client_can_do_through_the_gateway_what_it_can_do() {
    let required = std::env::var_os("KITE_REQUIRE_CLIENTS").is_some();
    let names = [
        openssh::NAME,
        openssh::NEWER,
        openssh::VSCODE,
        dropbear::NAME,
        putty::NAME,
        files::LFTP,
        files::SSHFS,
        ansible::NAME,
        scripted::PARAMIKO,
        scripted::ASYNCSSH,
        scripted::SSH2,
        scripted::LIBSSH2,
    ];
    let started = std::time::Instant::now();
    let Some(lab) = Lab::start(&names).await else {
        assert!(!required, "KITE_REQUIRE_CLIENTS is set: there is no sshd");
        return;
    };
    let lab = &lab;
    let rows: [LocalBoxFuture<'_, Row>; 12] = [
        Box::pin(openssh::row(lab)),
        Box::pin(openssh::newer_row(lab)),
        Box::pin(openssh::vscode(lab)),
        Box::pin(dropbear::row(lab)),
        Box::pin(putty::row(lab)),
        Box::pin(files::lftp(lab)),
        Box::pin(files::sshfs(lab)),
        Box::pin(ansible::row(lab)),
        Box::pin(scripted::paramiko(lab)),
        Box::pin(scripted::asyncssh(lab)),
        Box::pin(scripted::ssh2(lab)),
        Box::pin(scripted::libssh2(lab)),
    ];
    let only = std::env::var("KITE_INTEROP_CLIENTS").ok();
    let is_wanted = |name: &str| {
        only.as_ref()
            .is_none_or(|only| only.split(',').any(|n| n == name))
    };
    let rows = names
        .into_iter()
        .zip(rows)
        .filter(|(name, _)| is_wanted(name))
        .map(|(_, row)| row);
    // Two at a time: one mostly waits for another's processes.
    let rows: Vec<Row> = futures::stream::iter(rows).buffered(2).collect().await;
    table::conclude(&rows, started, required);
}
