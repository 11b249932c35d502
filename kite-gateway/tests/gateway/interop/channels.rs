//! Many channels on one connection of OpenSSH's client.

use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::net::TcpStream;

use crate::interop::lab::{Lab, fresh};
use crate::interop::process::{Background, Call};

/// A connection that clients share.
pub struct Master<'a> {
    base: Box<dyn Fn() -> Command + Send + Sync + 'a>,
    name: &'static str,
    control: std::path::PathBuf,
    running: Background,
}

impl<'a> Master<'a> {
    /// Starts one of the login name `name`; `base` is the client to log in by key.
    pub async fn start(
        lab: &Lab,
        name: &'static str,
        base: impl Fn() -> Command + Send + Sync + 'a,
        options: &[&str],
    ) -> Result<Self, String> {
        let control = lab.bed.path(&fresh("control"));
        let mut client = base();
        client.arg("-S").arg(&control).args(["-M", "-N"]);
        client.args(options).args(["-l", name, "127.0.0.1"]);
        let log = lab.bed.path(&format!("{}.log", fresh(name)));
        let mut running = Background::start(client, log)?;
        running.until(async || control.exists()).await?;
        Ok(Self {
            base: Box::new(base),
            name,
            control,
            running,
        })
    }

    /// What the client that has the connection said.
    pub fn said(&self) -> String {
        self.running.said()
    }

    /// A client on this connection.
    pub fn client(&self) -> Command {
        let mut client = (self.base)();
        client.arg("-S").arg(&self.control);
        client
    }

    /// A channel into which is written and that nobody in the VM reads.
    pub fn stall(&self) -> Result<tokio::process::Child, String> {
        let mut client = self.client();
        client.args(["-l", self.name, "127.0.0.1", "sleep 600"]);
        // Nobody here reads either.
        client.stdin(std::fs::File::open("/dev/zero").map_err(|error| error.to_string())?);
        client.stdout(Stdio::piped()).stderr(Stdio::null());
        tokio::process::Command::from(client)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| error.to_string())
    }

    /// That many commands at a time, each with an answer of its own.
    pub async fn commands(&self, count: usize) -> Result<(), String> {
        // What was stalled before has filled its buffers by now.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let all = (0..count).map(|number| async move {
            let mut client = self.client();
            client.args(["-l", self.name, "127.0.0.1", "cat; exit 3"]);
            let input = format!("{number}\n").repeat(10_000);
            let call = Call::new(client).input(input.clone());
            let done = call.run().await?.exits(3)?;
            if done.stdout == input {
                Ok(())
            } else {
                Err(format!("channel {number} gave {} bytes", done.stdout.len()))
            }
        });
        futures::future::try_join_all(all).await?;
        Ok(())
    }
}

/// Writes until nothing more is taken.
pub async fn fill(stream: &TcpStream) {
    let data = vec![0; 1 << 16];
    let patience = Duration::from_millis(500);
    while tokio::time::timeout(patience, stream.writable())
        .await
        .is_ok()
    {
        if let Err(error) = stream.try_write(&data)
            && error.kind() != std::io::ErrorKind::WouldBlock
        {
            return;
        }
    }
}
