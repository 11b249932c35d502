//! How many sessions a server lets a connection have, and that a client is told.

use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::interop::channels::Master;
use crate::interop::lab::Lab;
use crate::interop::process::{Call, QUICK, brief};
use crate::interop::table::Outcome;

/// Opens as many as there may be, and is refused one more; it gets in once another ends.
pub async fn told(lab: &Lab, name: &'static str, most: usize) -> Outcome {
    let master = Master::start(lab, name, || lab.bed.with_key("ssh"), &[]).await?;
    let all = (0..most).map(|_| sitting(&master, name));
    let mut all = futures::future::try_join_all(all).await?;
    let another = || {
        let mut client = master.client();
        // It would try a connection of its own otherwise.
        client.args(["-o", "ProxyCommand=false"]);
        client.args(["-l", name, "127.0.0.1", "echo in"]);
        Call::new(client).run()
    };
    let refused = another().await?.exits(255)?;
    if !refused.stderr.contains("Session open refused by peer") {
        return Err(brief(&refused.stderr));
    }
    drop(all.pop());
    let began = std::time::Instant::now();
    // The server sees a moment later that it has ended.
    loop {
        let done = another().await?;
        if done.stdout == "in\n" {
            return Ok(format!("ok {most}"));
        }
        if began.elapsed() > QUICK {
            let (one, master) = (brief(&done.stderr), master.said());
            return Err(format!("not let in again: {one}; {master}"));
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// A session that is there until this is dropped: its input ends then, and it with it.
async fn sitting(master: &Master<'_>, name: &str) -> Result<tokio::process::Child, String> {
    let mut client = master.client();
    client.args(["-l", name, "127.0.0.1", "echo in; cat"]);
    client.stdin(std::process::Stdio::piped());
    client.stdout(std::process::Stdio::piped());
    let mut child = tokio::process::Command::from(client)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let read = tokio::time::timeout(QUICK, said.read_line(&mut line)).await;
    match read {
        Ok(Ok(_)) if line == "in\n" => Ok(child),
        _ => Err(format!("a session said {line:?}")),
    }
}
