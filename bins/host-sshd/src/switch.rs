//! Carries a plan out, and puts things back where that fails.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::config::edit::Edit;
use crate::daemon::{Activation, Running, Switch};
use crate::error::{Error, Refusal};
use crate::files::{self, Digest, Owner};
use crate::plan::{self, Step};
use crate::state::{Area, FileRecord, Found, Phase, Side, State, Store};
use crate::{observe, probe};

/// Carries steps out.
pub(crate) struct Switcher<'a> {
    pub(crate) store: &'a Store,
    /// How long sshd may take to answer.
    pub(crate) patience: Duration,
    /// Hears of each step before it is taken.
    pub(crate) progress: &'a mut dyn FnMut(&str),
}

impl Switcher<'_> {
    /// Keeps copies of all files and notes what is to be undone. Nothing is changed yet.
    pub(crate) fn begin(&mut self, state: &State, edits: &[Edit]) -> Result<(), Error> {
        let mut steps = plan::preparation(edits, &self.store.state()).into_iter();
        for (edit, step) in edits.iter().zip(&mut steps) {
            (self.progress)(&step.to_string());
            if let Some(before) = &edit.before {
                self.store.keep(state, Area::Original, &edit.path, before)?;
            }
            self.store
                .keep(state, Area::Moved, &edit.path, &edit.after)?;
        }
        steps.for_each(|step| (self.progress)(&step.to_string()));
        self.store.save(state)
    }

    /// Goes to one side, and back to the other where that fails.
    pub(crate) fn go(
        &mut self,
        state: &mut State,
        goal: Side,
        activation: &Activation,
    ) -> Result<Vec<String>, Error> {
        let why = match self.attempt(state, goal, activation) {
            Ok(steps) => return Ok(steps),
            Err(why) => Box::new(why),
        };
        let (back, port) = match goal {
            Side::Moved => (Side::Original, state.from),
            Side::Original => (Side::Moved, state.to),
        };
        (self.progress)(&format!("{why}: putting everything back"));
        match self.attempt(state, back, activation) {
            Ok(_) => Err(Error::RolledBack { why, port }),
            Err(then) => Err(Error::Stuck {
                why,
                then: Box::new(then),
            }),
        }
    }

    fn attempt(
        &mut self,
        state: &mut State,
        goal: Side,
        activation: &Activation,
    ) -> Result<Vec<String>, Error> {
        let running = observe::running_of(state, activation)?;
        let mut taken = Vec::new();
        let found: Result<Vec<Found>, Error> = state.files.iter().map(FileRecord::found).collect();
        for step in plan::steps(goal, state, &found?, &running, activation) {
            let text = step.to_string();
            (self.progress)(&text);
            self.take(state, activation, &step)?;
            taken.push(text);
        }
        Ok(taken)
    }

    fn take(
        &mut self,
        state: &mut State,
        activation: &Activation,
        step: &Step,
    ) -> Result<(), Error> {
        match step {
            // Taken before there is anything to come back from.
            Step::Keep { .. } | Step::Note { .. } => Ok(()),
            Step::Write { file, side, .. } => {
                undrifted(&state.files[*file])?;
                self.write(state, &state.files[*file], *side)
            }
            Step::Remove { file, .. } => {
                undrifted(&state.files[*file])?;
                remove(&state.files[*file])
            }
            Step::Switch(switch) => carry_out(switch),
            Step::Answer { port, and_not } => {
                await_answer(state, activation, *port, *and_not, self.patience)
            }
            Step::Settle => {
                state.phase = Phase::Moved;
                self.store.save(state)
            }
            Step::Forget => self.store.forget(),
        }
    }

    fn write(&self, state: &State, file: &FileRecord, side: Side) -> Result<(), Error> {
        let Some(content) = self.store.kept(state, file, side)? else {
            return remove(file);
        };
        let write = || {
            if let Some(dir) = file.target.parent() {
                std::fs::create_dir_all(dir)?;
            }
            files::write(&file.target, &content, &file.owner)
        };
        write().map_err(Error::io(format!("write {}", file.target.display())))
    }

    /// Puts files that somebody else changed since there as they were. A copy of each is
    /// kept; gives where.
    pub(crate) fn set_aside(&mut self, state: &State) -> Result<Vec<PathBuf>, Error> {
        let mut copies = Vec::new();
        for file in &state.files {
            if let Found::On(_) = file.found()? {
                continue;
            }
            (self.progress)(&format!("set aside what {} became", file.path.display()));
            let became = files::read(&file.target).map_err(Error::io(reading(&file.path)))?;
            if let Some(became) = became {
                let area = Area::Replaced;
                self.store.keep(state, area, &file.path, &became)?;
                copies.push(self.store.copy(state, area, &file.path));
            }
            self.write(state, file, Side::Original)?;
        }
        Ok(copies)
    }
}

/// What is noted of files that are to be changed.
pub(crate) fn records(edits: &[Edit], config: &Path) -> Result<Vec<FileRecord>, Error> {
    let owner_of = |path: &Path| Owner::of(path).map_err(Error::io(reading(path)));
    let record = |edit: &Edit| {
        let (target, owner) = match edit.before {
            Some(_) => {
                let target = std::fs::canonicalize(&edit.path);
                let target = target.map_err(Error::io(reading(&edit.path)))?;
                let owner = owner_of(&target)?;
                (target, owner)
            }
            None if crate::systemd::is_unit(&edit.path) => (edit.path.clone(), Owner::PUBLIC),
            None => (edit.path.clone(), owner_of(config)?),
        };
        Ok(FileRecord {
            path: edit.path.clone(),
            made: target.parent().and_then(files::first_missing),
            original: edit.before.as_deref().map(Digest::of),
            moved: Digest::of(&edit.after),
            target,
            owner,
        })
    };
    edits.iter().map(record).collect()
}

/// Fails where somebody else changed a file since.
pub(crate) fn undrifted(file: &FileRecord) -> Result<(), Error> {
    let what = match file.found()? {
        Found::On(_) => return Ok(()),
        Found::Changed => "was changed",
        Found::Gone => "was removed",
    };
    let path = file.path.clone();
    Err(Refusal::Drifted { path, what }.into())
}

fn reading(path: &Path) -> String {
    format!("read {}", path.display())
}

fn remove(file: &FileRecord) -> Result<(), Error> {
    let doing = format!("remove {}", file.target.display());
    files::remove(&file.target).map_err(Error::io(doing))?;
    let Some(made) = &file.made else {
        return Ok(());
    };
    let dirs = file.target.ancestors().skip(1);
    for dir in dirs.take_while(|dir| dir.starts_with(made)) {
        // Somebody else may have put something there.
        if std::fs::remove_dir(dir).is_err() {
            break;
        }
    }
    Ok(())
}

fn carry_out(switch: &Switch) -> Result<(), Error> {
    let systemctl = |verb: &str, unit: Option<&String>| {
        let mut command = observe::systemctl();
        command.arg(verb).args(unit).stderr(Stdio::piped());
        run(command, &switch.to_string())
    };
    match switch {
        Switch::ReloadUnits => systemctl("daemon-reload", None),
        Switch::Reload { unit } => systemctl("reload", Some(unit)),
        Switch::Start { unit } => systemctl("start", Some(unit)),
        Switch::Stop { unit } => systemctl("stop", Some(unit)),
        Switch::Rebind { unit } => systemctl("restart", Some(unit)),
        Switch::Hangup { pid } => {
            let doing = switch.to_string();
            let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
            pid.map_or(Ok(()), |pid| kill_process(pid, Signal::HUP))
                .map_err(|error| Error::io(doing)(error.into()))
        }
        Switch::Run { command } => {
            let Some((program, arguments)) = command.split_first() else {
                return Ok(());
            };
            let mut run_it = Command::new(program);
            // A daemon that kept a pipe would keep who reads it waiting.
            run_it.args(arguments).stderr(Stdio::null());
            run(run_it, &command.join(" "))
        }
    }
}

fn run(mut command: Command, shown: &str) -> Result<(), Error> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.spawn();
    let ended = child.and_then(std::process::Child::wait_with_output);
    let output = ended.map_err(Error::io(format!("run `{shown}`")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    Err(Error::Failed {
        command: shown.to_owned(),
        output: if said.is_empty() {
            output.status.to_string()
        } else {
            said.to_owned()
        },
    })
}

fn await_answer(
    state: &State,
    activation: &Activation,
    port: u16,
    and_not: Option<u16>,
    patience: Duration,
) -> Result<(), Error> {
    let deadline = Instant::now() + patience;
    let silent = |what| Error::Silent { port, what };
    // An address may have gone since.
    let here = state.addresses.iter().filter(|ip| probe::is_local(**ip));
    let mut here: Vec<IpAddr> = here.copied().collect();
    if here.is_empty() {
        here.push(Ipv4Addr::UNSPECIFIED.into());
    }
    for ip in here {
        probe::await_banner(ip, port, deadline).map_err(silent)?;
    }
    loop {
        let running = observe::running(Some(activation))?;
        let Some(what) = amiss(&running, port, and_not) else {
            return Ok(());
        };
        if Instant::now() >= deadline {
            return Err(silent(what));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn amiss(running: &Running, port: u16, and_not: Option<u16>) -> Option<String> {
    let daemon = match running.find(port) {
        Ok(daemon) => daemon,
        Err(refusal) => return Some(refusal.to_string()),
    };
    if let Some(other) = running.stranger(port, Some(&daemon)) {
        return Some(format!("{other} has it"));
    }
    let still = and_not.filter(|old| running.has_sshd(*old))?;
    Some(format!("it still listens on port {still}"))
}
