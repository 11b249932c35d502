//! `restore`.

use crate::cli::RestoreOptions;
use crate::config::tree::Tree;
use crate::config::{Disk, Overlay};
use crate::error::Error;
use crate::notices;
use crate::observe::{self, check_free};
use crate::report::{Outcome, Restored};
use crate::sshd::Sshd;
use crate::state::{Phase, Side, Store};
use crate::switch::{Switcher, undrifted};

/// Puts everything back, also after a move that was cut off.
pub(crate) fn run(
    options: &RestoreOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<Restored, Error> {
    let sshd = Sshd::new(&options.common.sshd)?;
    let store = Store::new(&options.common.state_dir);
    let _guard = store.lock()?;
    let Some(mut state) = store.load()? else {
        return Ok(Restored::nothing());
    };
    let mut switcher = Switcher {
        store: &store,
        patience: options.common.patience(),
        progress,
    };
    if !options.force {
        state.files.iter().try_for_each(undrifted)?;
    }
    let running = observe::running_of(&state, &state.activation)?;
    let activation = running.activation_of(&state);
    running.check_sessions(&activation)?;
    let daemon = running.daemon_of(&state);
    let ips = state.addresses.iter().copied();
    check_free(&running, daemon.as_ref(), ips, state.from, true)?;
    (switcher.progress)("test the configuration as it was");
    let overlay = Overlay {
        below: &Disk,
        files: store.side(&state, Side::Original)?,
    };
    let tree = Tree::load(&state.config, &overlay)?;
    sshd.test(&tree, &store.staging())?;

    state.phase = Phase::Restoring;
    store.save(&state)?;
    let kept = switcher.set_aside(&state)?;
    let steps = switcher.go(&mut state, Side::Original, &activation)?;
    Ok(Restored {
        outcome: Outcome::Restored,
        notices: notices::of_restore(&state, &kept),
        steps,
        ..Restored::of(&state)
    })
}
