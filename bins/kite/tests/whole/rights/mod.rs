//! The processes under their own accounts, on an API server that lets them do what
//! `kite manifests` grants them, and nothing else.
//!
//! One life of a platform is enough for all of it: nothing that the processes ask for is
//! refused, and each right that they have is used by a request that no other right
//! allows. With `KITE_SWEEP` that is shown the other way round, too: without any one of
//! them something is refused.

mod atoms;
mod console;
mod life;
mod provider;
mod stage;

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use atoms::{Asked, Atom, atoms};
use kite_render::install::{Installation, Process, Profile};
use stage::Stage;

use crate::support::{clients_present, unless};

/// With terminals, so that every right is granted, and a certificate that is brought.
fn installation() -> Installation {
    let mut installation = Profile::SingleNode.installation();
    installation.terminals = true;
    installation.certificate_secrets = vec!["brought".to_owned()];
    installation
}

#[test]
fn each_process_may_do_what_it_needs_and_nothing_else() {
    if !clients_present() {
        return;
    }
    let installation = installation();
    let mut stage = Stage::installed(&installation, None);
    stage.leave_something_behind(&installation);
    stage.start(&installation);
    life::whole(&stage);
    let asked = stage.end();

    let refused: BTreeSet<_> = asked
        .iter()
        .filter(|asked| asked.is_refused())
        .map(Asked::to_string)
        .collect();
    assert!(refused.is_empty(), "refused: {refused:#?}");

    let granted = atoms(&installation);
    let idle: BTreeSet<_> = granted
        .iter()
        .filter(|atom| atom.is_asked_within().is_none())
        .filter(|atom| {
            let others = || granted.iter().filter(|other| other != atom);
            let mut allowed = asked.iter().filter(|asked| atom.allows(asked));
            !allowed.any(|asked| !others().any(|other| other.allows(asked)))
        })
        .map(Atom::to_string)
        .collect();
    assert!(idle.is_empty(), "of no use: {idle:#?}");
    if std::env::var_os("KITE_COUNT").is_some() {
        for atom in &granted {
            let n = asked.iter().filter(|asked| atom.allows(asked)).count();
            eprintln!("{n} {atom}");
        }
    }
}

#[test]
fn secrets_beyond_their_reach_are_refused() {
    let installation = installation();
    let stage = Stage::installed(&installation, None);
    stage.give_a_namespace(&installation, "ann");
    for process in [Process::Gateway, Process::Api] {
        for (namespace, name, is_read) in [
            ("kite-user-ann", "web-ssh-key", true),
            ("kube-system", "bootstrap-token", false),
            ("kite", "somebody-elses", false),
            ("default", "web-ssh-key", false),
            ("kite", "kite-gateway-host-key", process == Process::Gateway),
            ("kite", "kite-seal", process == Process::Api),
        ] {
            let code = stage.get_secret(process, namespace, name);
            let expected = if is_read { 404 } else { 403 };
            assert_eq!(code, expected, "{process:?}: {namespace}/{name}");
        }
        for namespace in ["kite-user-ann", "kite", ""] {
            let code = stage.list_secrets(process, namespace);
            assert_eq!(code, 403, "{process:?} lists {namespace:?}");
        }
    }
}

#[test]
fn the_controller_reads_secrets_of_users_and_few_others() {
    let installation = installation();
    let stage = Stage::installed(&installation, None);
    stage.give_a_namespace(&installation, "ann");
    let me = Process::Controller;
    for (namespace, name, expected) in [
        ("kite-user-ann", "web-ssh-key", 404),
        // The settings may name it, as was said when Kite was installed.
        ("kite", "brought", 404),
        ("kite", "a-certificate", 403),
        ("kite", "kite-seal", 403),
        ("kite", "kite-bootstrap", 403),
        ("kite", "kite-oidc", 403),
        ("kube-system", "bootstrap-token", 403),
        ("default", "credentials", 403),
        ("kite-images", "credentials", 403),
        // It is called like a user's, and nothing is bound there.
        ("kite-user-bob", "web-ssh-key", 403),
    ] {
        let code = stage.get_secret(me, namespace, name);
        assert_eq!(code, expected, "{namespace}/{name}");
    }
    assert_eq!(stage.list_secrets(me, "kite-user-ann"), 200);
    for namespace in ["kube-system", "kite", "kite-images", ""] {
        let code = stage.list_secrets(me, namespace);
        assert_eq!(code, 403, "lists {namespace:?}");
    }
}

/// How many rights are taken away in one run, unless all are.
const SLICE: usize = 3;

#[test]
fn without_any_one_right_something_is_refused() {
    if !clients_present() {
        return;
    }
    let installation = installation();
    let granted = atoms(&installation);
    // Nothing else shows what those are for.
    let (within, needed): (Vec<_>, Vec<_>) = granted
        .iter()
        .partition(|atom| atom.is_asked_within().is_some());
    assert_eq!(within.len(), 6, "{within:?}");
    let (step, most) = match std::env::var_os("KITE_SWEEP") {
        Some(_) => (1, needed.len()),
        None => (needed.len() / SLICE, SLICE),
    };
    let harmless: BTreeSet<_> = needed
        .into_iter()
        .step_by(step)
        .take(most)
        .chain(within)
        .filter(|atom| !is_missed(&installation, atom))
        .map(Atom::to_string)
        .collect();
    assert!(
        harmless.is_empty(),
        "nothing is refused without these: {harmless:#?}"
    );
}

/// Whether something is refused in a life without this right.
fn is_missed(installation: &Installation, right: &Atom) -> bool {
    let mut stage = Stage::installed(installation, Some(right));
    let in_vain = Arc::default();
    let found = stage.watch_for_refusal(&in_vain);
    // As soon as something is, the rest may go wrong.
    unless(&in_vain, || {
        let _ = catch_unwind(AssertUnwindSafe(|| {
            stage.leave_something_behind(installation);
            stage.start(installation);
            life::whole(&stage);
        }));
    });
    // Some ask a moment later. Who waits in vain here has found that the right is of no use.
    let start = Instant::now();
    while !found.is_finished() && start.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(stage);
    let refused = found.join().unwrap();
    eprintln!("without {right}: {refused:?}");
    refused.is_some()
}
