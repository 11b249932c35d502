//! `move`.

use jiff::Timestamp;

use crate::cli::{MoveOptions, default_config};
use crate::config::edit::Edit;
use crate::config::tree::Tree;
use crate::config::{Disk, Overlay, Ports};
use crate::error::{Error, Refusal};
use crate::files::same_file;
use crate::observe::check_free;
use crate::plan::{self, Observed};
use crate::report::{FileReport, Moved, Outcome};
use crate::sshd::Sshd;
use crate::state::{FileRecord, Found, Phase, Side, State, Store};
use crate::switch::{self, Switcher, undrifted};
use crate::{notices, observe};

/// Moves sshd, or goes on with a move that was cut off.
pub(crate) fn run(options: &MoveOptions, progress: &mut dyn FnMut(&str)) -> Result<Moved, Error> {
    let ports = options.ports();
    if ports.from == ports.to {
        return Err(Refusal::SamePort { port: ports.to }.into());
    }
    let sshd = Sshd::new(&options.common.sshd)?;
    let store = Store::new(&options.common.state_dir);
    let _guard = store.lock()?;
    let mut switcher = Switcher {
        store: &store,
        patience: options.common.patience(),
        progress,
    };
    match store.load()? {
        None => begin(options, ports, &sshd, &mut switcher),
        Some(state) if state.ports() != ports => Err(elsewhere(&state).into()),
        Some(state) if state.phase == Phase::Moved => settled(options, &state),
        Some(state) => go_on(options, state, &sshd, &mut switcher),
    }
}

fn elsewhere(state: &State) -> Refusal {
    let (from, to) = (state.from, state.to);
    match state.phase {
        Phase::Moved => Refusal::MovedElsewhere { from, to },
        Phase::Moving | Phase::Restoring => Refusal::Unfinished { from, to },
    }
}

fn begin(
    options: &MoveOptions,
    ports: Ports,
    sshd: &Sshd,
    switcher: &mut Switcher<'_>,
) -> Result<Moved, Error> {
    let running = observe::running(None)?;
    let daemon = running.find(ports.from)?;
    let asked = options.config.as_deref();
    let config = daemon.arguments.config(asked, same_file)?;
    let config = config.unwrap_or_else(default_config);
    let tree = Tree::load(&config, &Disk)?;
    let effective = sshd.effective(&config)?;
    let observed = Observed {
        tree: &tree,
        effective: &effective,
        running: &running,
        files: &Disk,
    };
    let edits = plan::edits(&observed, &daemon, ports)?;
    let ips = daemon.addresses.iter().copied();
    check_free(&running, Some(&daemon), ips, ports.to, false)?;
    (switcher.progress)("test the new configuration");
    let changed = |edit: &Edit| (edit.path.clone(), Some(edit.after.clone()));
    let overlay = Overlay {
        below: &Disk,
        files: edits.iter().map(changed).collect(),
    };
    let tree = Tree::load(&config, &overlay)?;
    let new = sshd.test(&tree, &switcher.store.staging())?;
    if let Some(difference) = new.difference(&effective.moved(ports)) {
        return Err(Refusal::MoreChanges { difference }.into());
    }

    let shared = running.ports_of(&daemon).contains(&ports.to);
    let mut state = State::new(ports, Timestamp::now(), config, &daemon, shared);
    state.files = switch::records(&edits, &state.config)?;
    let preparation = plan::preparation(&edits, &switcher.store.state());
    let mut moved = Moved {
        outcome: Outcome::Moved,
        steps: preparation.iter().map(ToString::to_string).collect(),
        files: FileReport::of(&edits, &state, switcher.store),
        notices: notices::of_move(options, &state, &effective),
        ..Moved::of(&state)
    };
    if options.dry_run {
        let found = vec![Found::On(Side::Original); state.files.len()];
        let rest = plan::steps(Side::Moved, &state, &found, &running, &daemon.activation);
        moved.steps.extend(rest.iter().map(ToString::to_string));
        moved.outcome = Outcome::Planned;
        return Ok(moved);
    }
    if let Some(notice) = notices::selinux(state.to) {
        (switcher.progress)(&notice);
    }
    switcher.begin(&state, &edits)?;
    let steps = switcher.go(&mut state, Side::Moved, &daemon.activation)?;
    moved.steps.extend(steps);
    Ok(moved)
}

/// A move that is made already.
fn settled(options: &MoveOptions, state: &State) -> Result<Moved, Error> {
    let running = observe::running(None)?;
    let to = state.to;
    let listens = running.find(to).map(|daemon| running.ports_of(&daemon));
    if !listens.is_ok_and(|ports| !ports.contains(&state.from)) {
        let sshd_on = running.sshd_ports();
        return Err(Refusal::NotThere { to, sshd_on }.into());
    }
    let mut notices = notices::drift(state)?;
    notices.extend(notices::of_ports(options, state));
    Ok(Moved {
        outcome: Outcome::AlreadyMoved,
        notices,
        ..Moved::of(state)
    })
}

/// A move that was cut off.
fn go_on(
    options: &MoveOptions,
    mut state: State,
    sshd: &Sshd,
    switcher: &mut Switcher<'_>,
) -> Result<Moved, Error> {
    state.files.iter().try_for_each(undrifted)?;
    let running = observe::running_of(&state, &state.activation)?;
    let activation = running.activation_of(&state);
    let daemon = running.daemon_of(&state);
    let ips = state.addresses.iter().copied();
    check_free(&running, daemon.as_ref(), ips, state.to, false)?;
    (switcher.progress)("test the new configuration");
    let overlay = Overlay {
        below: &Disk,
        files: switcher.store.side(&state, Side::Moved)?,
    };
    let tree = Tree::load(&state.config, &overlay)?;
    sshd.test(&tree, &switcher.store.staging())?;
    let mut moved = Moved {
        notices: notices::of_ports(options, &state),
        ..Moved::of(&state)
    };
    if options.dry_run {
        let found: Result<Vec<Found>, Error> = state.files.iter().map(FileRecord::found).collect();
        let steps = plan::steps(Side::Moved, &state, &found?, &running, &activation);
        moved.steps = steps.iter().map(ToString::to_string).collect();
        moved.outcome = Outcome::Planned;
        return Ok(moved);
    }
    moved.steps = switcher.go(&mut state, Side::Moved, &activation)?;
    Ok(moved)
}
