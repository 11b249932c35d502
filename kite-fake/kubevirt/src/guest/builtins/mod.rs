//! The commands of the guest's shell.

mod files;
mod session;
mod text;

use std::io;

use super::shell::{Flow, Shell};
use super::stream::Io;

/// What `help` prints.
const HELP: &str = "\
This is a small shell on an in-memory disk; it plays the shell of a VM.
  files     cat ls cd pwd mkdir rm mv cp touch
  text      echo head wc sha256sum
  system    whoami hostname uname id date env export sleep true false kill exit help
  syntax    ; && || | > >> < 2> 2>&1 'quotes' \"$VAR\" $? NAME=value ~ # comment
";

/// Runs the command `name`. An unknown one is status 127, as in any shell.
///
/// # Errors
///
/// When a stream of the command fails; a reader that went away is
/// [`io::ErrorKind::BrokenPipe`].
pub async fn run(name: &str, args: &[String], shell: &mut Shell, io: &Io) -> io::Result<Flow> {
    let status = match name {
        "cat" => text::cat(args, shell, io).await?,
        "echo" => text::echo(args, io).await?,
        "head" => text::head(args, shell, io).await?,
        "wc" => text::wc(args, shell, io).await?,
        "sha256sum" => text::sha256sum(args, shell, io).await?,
        "ls" => files::ls(args, shell, io).await?,
        "cd" => files::cd(args, shell, io).await?,
        "pwd" => print(io, &shell.cwd.to_string()).await?,
        "mkdir" => files::mkdir(args, shell, io).await?,
        "rm" => files::rm(args, shell, io).await?,
        "mv" => files::mv(args, shell, io).await?,
        "cp" => files::cp(args, shell, io).await?,
        "touch" => files::touch(args, shell, io).await?,
        "whoami" => print(io, &shell.machine.user).await?,
        "hostname" => print(io, &shell.machine.hostname).await?,
        "uname" => session::uname(args, shell, io).await?,
        "id" => session::id(shell, io).await?,
        "date" => session::date(io).await?,
        "env" => session::env(shell, io).await?,
        "export" => session::export(args, shell, io).await?,
        "sleep" => session::sleep(args, io).await?,
        "true" | ":" => 0,
        "false" => 1,
        "help" => {
            io.print(HELP).await?;
            0
        }
        "exit" | "logout" => return session::exit(args, shell, io).await,
        "kill" => return session::kill(args, io).await,
        other => {
            io.complain(&format!("sh: {other}: command not found (try `help`)"))
                .await?;
            127
        }
    };
    Ok(Flow::Continue(status))
}

async fn print(io: &Io, text: &str) -> io::Result<u8> {
    io.print(&format!("{text}\n")).await?;
    Ok(0)
}

/// Splits leading options of single letters from the operands; refuses letters
/// that are not in `known`.
fn options<'a>(args: &'a [String], known: &str) -> Result<(String, &'a [String]), String> {
    let mut flags = String::new();
    let mut rest = args;
    while let Some((first, tail)) = rest.split_first() {
        match first.strip_prefix('-') {
            Some("-") => return Ok((flags, tail)),
            Some(letters) if !letters.is_empty() => {
                if let Some(bad) = letters.chars().find(|c| !known.contains(*c)) {
                    return Err(format!("unknown option -- '{bad}'"));
                }
                flags.push_str(letters);
                rest = tail;
            }
            _ => break,
        }
    }
    Ok((flags, rest))
}
