//! What clients do alike that are driven as `ssh` is: OpenSSH, dropbear, `PuTTY`.

use std::process::Command;

use tokio::net::TcpStream;

use crate::interop::lab::{Lab, by_socks, free_port, fresh, talk};
use crate::interop::process::{Background, Call};
use crate::interop::table::{Outcome, fine};

/// A client that takes `-L`, `-R`, `-N`, `-A` and a command.
pub struct CommandLine<'a> {
    pub lab: &'a Lab,
    /// Its login name.
    pub name: &'static str,
    /// The program with the options to log in by key.
    pub base: Box<dyn Fn() -> Command + Send + Sync + 'a>,
    /// How it ends when the command died of SIGTERM: options that make it tell,
    /// what it then says, and its exit code. The protocol tells the signal's name;
    /// what a client makes of it is its own affair.
    pub terminated: (&'static [&'static str], &'static str, i32),
}

impl CommandLine<'_> {
    /// The client with options, to run `command`.
    fn with(&self, options: &[&str], command: &[&str]) -> Command {
        let mut client = (self.base)();
        client.args(options).args(["-l", self.name, "127.0.0.1"]);
        client.args(command);
        client
    }

    /// A login by key that runs commands that end with 0 and 7, also when their
    /// output ended before: some clients close the channel then.
    pub async fn exec(&self) -> Outcome {
        let late = self.with(&[], &["exec >&- 2>&-; sleep 0.2; exit 7"]);
        Call::new(late).run().await?.exits(7)?;
        self.ends().await
    }

    /// Commands that end with 0 and 7.
    pub async fn ends(&self) -> Outcome {
        for code in [0, 7] {
            let call = Call::new(self.with(&[], &[&format!("cat; exit {code}")]));
            let done = call.input("through\n").run().await?.exits(code)?;
            if done.stdout != "through\n" {
                return Err(format!("gave {:?}", done.stdout));
            }
        }
        fine()
    }

    pub async fn signal(&self) -> Outcome {
        let (options, told, code) = self.terminated;
        let call = Call::new(self.with(options, &["kill -TERM $$"]));
        let done = call.run().await?.exits(code)?;
        if done.stderr.contains(told) {
            return Ok(format!("ok {code}"));
        }
        Err(crate::interop::process::brief(&done.stderr))
    }

    pub async fn stderr(&self) -> Outcome {
        let command = "echo out; echo err >&2; echo out; echo err >&2";
        let done = Call::new(self.with(&[], &[command])).succeed().await?;
        // A client may say more than the command does.
        if done.stdout == "out\nout\n" && done.stderr.contains("err\nerr\n") {
            return fine();
        }
        Err(format!("{:?} and {:?}", done.stdout, done.stderr))
    }

    /// A shell in a terminal of a given size, left with 3.
    pub async fn shell(&self) -> Outcome {
        let client = self.with(&["-t"], &[]);
        let words: Vec<_> = std::iter::once(client.get_program())
            .chain(client.get_args())
            .map(|word| quoted(&word.to_string_lossy()))
            .collect();
        // Clients want a terminal of their own before they ask for one.
        let mut terminal = Command::new("script");
        terminal.arg("-qec");
        terminal.arg(format!("stty cols 91 rows 33; {}", words.join(" ")));
        terminal.arg("/dev/null");
        for (name, value) in client.get_envs() {
            match value {
                Some(value) => terminal.env(name, value),
                None => terminal.env_remove(name),
            };
        }
        let typed = "test \"$SSH_TTY\" = \"$(tty)\" && echo same''tty $(stty size); exit 3\n";
        let done = Call::new(terminal).typed(typed).run().await?.exits(3)?;
        if done.stdout.contains("sametty 33 91") {
            return fine();
        }
        Err(crate::interop::process::brief(&done.stdout))
    }

    pub async fn local(&self) -> Outcome {
        let port = free_port();
        let option = format!("{port}:127.0.0.1:{}", self.lab.reverser.port());
        let _client = self.forwarding(&["-N", "-L", &option], port).await?;
        talk(connect(port).await?).await?;
        fine()
    }

    pub async fn remote(&self) -> Outcome {
        let port = free_port();
        let option = format!("{port}:127.0.0.1:{}", self.lab.reverser.port());
        let _client = self.forwarding(&["-N", "-R", &option], port).await?;
        talk(connect(port).await?).await?;
        fine()
    }

    pub async fn dynamic(&self) -> Outcome {
        let port = free_port();
        let options = ["-N", "-D", &port.to_string()];
        let _client = self.forwarding(&options, port).await?;
        talk(by_socks(port, self.lab.reverser).await?).await?;
        fine()
    }

    /// A client that runs on, once `port` answers.
    async fn forwarding(&self, options: &[&str], port: u16) -> Result<Background, String> {
        let log = self.lab.bed.path(&format!("{}.log", fresh(self.name)));
        let mut client = Background::start(self.with(options, &[]), log)?;
        client.until(async || connect(port).await.is_ok()).await?;
        Ok(client)
    }

    /// The VM sees the key in the user's agent with `-A`, and none without.
    pub async fn agent(&self) -> Outcome {
        for (options, is_there) in [(&["-A"][..], true), (&[][..], false)] {
            let mut client = self.with(options, &["ssh-add -l; true"]);
            client.env("SSH_AUTH_SOCK", &self.lab.agent);
            let done = Call::new(client).succeed().await?;
            if done.stdout.contains("ED25519") != is_there {
                return Err(format!("{options:?}: {}{}", done.stdout, done.stderr));
            }
        }
        fine()
    }
}

async fn connect(port: u16) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await;
    stream.map_err(|error| format!("port {port}: {error}"))
}

/// A client as one word of a command line, as `rsync -e` takes it.
pub fn as_shell(client: &Command) -> String {
    let words = std::iter::once(client.get_program()).chain(client.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
