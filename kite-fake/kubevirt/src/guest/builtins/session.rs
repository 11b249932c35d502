//! Commands about the machine, the environment and the session.

use std::io;
use std::time::Duration;

use super::super::shell::{Flow, Shell};
use super::super::stream::Io;
use super::print;

/// Longest sleep that is taken; a session does not live longer anyway.
const MAX_SLEEP_SECONDS: f64 = 7.0 * 86_400.0;

pub(super) async fn uname(args: &[String], shell: &Shell, io: &Io) -> io::Result<u8> {
    let text = match args.first().map(String::as_str) {
        Some("-a") => format!(
            "Linux {} 6.1.0-kite x86_64 GNU/Linux",
            shell.machine.hostname
        ),
        Some("-n") => shell.machine.hostname.clone(),
        Some("-r") => "6.1.0-kite".to_owned(),
        Some("-m") => "x86_64".to_owned(),
        None | Some("-s") => "Linux".to_owned(),
        Some(other) => {
            io.complain(&format!("uname: unknown option '{other}'"))
                .await?;
            return Ok(1);
        }
    };
    print(io, &text).await
}

pub(super) async fn id(shell: &Shell, io: &Io) -> io::Result<u8> {
    let user = &shell.machine.user;
    print(
        io,
        &format!("uid=1000({user}) gid=1000({user}) groups=1000({user})"),
    )
    .await
}

pub(super) async fn date(io: &Io) -> io::Result<u8> {
    let now = jiff::Timestamp::now().strftime("%a %b %e %H:%M:%S UTC %Y");
    print(io, &now.to_string()).await
}

pub(super) async fn env(shell: &Shell, io: &Io) -> io::Result<u8> {
    for (name, value) in &shell.env {
        print(io, &format!("{name}={value}")).await?;
    }
    Ok(0)
}

pub(super) async fn export(args: &[String], shell: &mut Shell, io: &Io) -> io::Result<u8> {
    let mut status = 0;
    for arg in args {
        let (name, value) = arg.split_once('=').unwrap_or((arg, ""));
        let valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !valid {
            io.complain(&format!("export: {arg}: not a valid name"))
                .await?;
            status = 1;
        } else if arg.contains('=') {
            shell.set_var(name, value.to_owned());
        }
    }
    Ok(status)
}

pub(super) async fn sleep(args: &[String], io: &Io) -> io::Result<u8> {
    let seconds = args
        .first()
        .and_then(|text| text.trim_end_matches('s').parse::<f64>().ok())
        .filter(|s| (0.0..=MAX_SLEEP_SECONDS).contains(s));
    let Some(seconds) = seconds else {
        io.complain("sleep: needs a number of seconds").await?;
        return Ok(1);
    };
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    Ok(0)
}

pub(super) async fn exit(args: &[String], shell: &Shell, io: &Io) -> io::Result<Flow> {
    let Some(text) = args.first() else {
        return Ok(Flow::Exit(shell.status()));
    };
    if let Ok(code) = text.parse::<i64>() {
        // As in any shell only the low eight bits count.
        return Ok(Flow::Exit(code.to_le_bytes()[0]));
    }
    io.complain(&format!("exit: {text}: numeric argument required"))
        .await?;
    Ok(Flow::Exit(2))
}

pub(super) async fn kill(args: &[String], io: &Io) -> io::Result<Flow> {
    let (signal, target) = match args {
        [target] => ("TERM", target.as_str()),
        [signal, target] => (signal.trim_start_matches('-'), target.as_str()),
        _ => ("", ""),
    };
    let name = match signal.trim_start_matches("SIG") {
        "1" | "HUP" => "HUP",
        "2" | "INT" => "INT",
        "3" | "QUIT" => "QUIT",
        "6" | "ABRT" => "ABRT",
        "9" | "KILL" => "KILL",
        "15" | "TERM" => "TERM",
        _ => {
            io.complain("kill: usage: kill [-SIGNAL] $$").await?;
            return Ok(Flow::Continue(2));
        }
    };
    if target != "1000" {
        io.complain(&format!(
            "kill: ({target}): no such process (only $$ is one)"
        ))
        .await?;
        return Ok(Flow::Continue(1));
    }
    Ok(Flow::Killed(name.to_owned()))
}
