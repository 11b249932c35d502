//! What the demo says to the person who started it.

use std::path::Path;

use super::{Ready, seed};
use crate::cluster::quoted;

/// What to do next, with lines that work as pasted. Terminals are recorded into
/// `recorded`, if there is such a directory.
pub(super) fn text(ready: &Ready, bootstrap_token: &str, recorded: Option<&Path>) -> String {
    let Ready {
        api,
        kubeconfig,
        known_hosts,
        identity,
        ..
    } = ready;
    let (host, port) = ready
        .gateway
        .rsplit_once(':')
        .unwrap_or((&ready.gateway, "22"));
    // OpenSSH takes an IPv6 address without the brackets that a URL needs.
    let host = host.trim_matches(['[', ']']);
    let path = |path: &Path| quoted(path);
    let kite = std::env::current_exe().unwrap_or_else(|_| "kite".into());
    let recording = match recorded {
        Some(directory) => format!(
            "Terminals are recorded, those by ssh and those in the browser. The administrator sees
them again in the browser, under \"Sessions in VMs\", or where they lie:

  {}
",
            path(directory)
        ),
        None => {
            "Terminals are not recorded: `kite demo --record` has them recorded, for administrators
to see again in the browser.
"
            .to_owned()
        }
    };
    format!(
        "
Kite runs. Everything is in memory and on this machine only; Ctrl-C ends it.

Log in to the VM {vm} of the user {user}:

  ssh -i {identity} -o IdentitiesOnly=yes -o UserKnownHostsFile={known_hosts} -p {port} {vm}@{host}

Become the administrator in a browser, and create VMs:

  {api}
  one-use token: {bootstrap_token}

Look at the cluster:

  export KUBECONFIG={kubeconfig}
  kubectl get kiteusers,kiteimages,ktvm,vm,dv,svc -A

See whether all of it works, by the whole way of a user:

  KUBECONFIG={kubeconfig} {kite} smoke --api-url {api}

{recording}
",
        kite = path(&kite),
        vm = seed::VM,
        user = seed::USER,
        identity = path(identity),
        known_hosts = path(known_hosts),
        kubeconfig = path(kubeconfig),
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn shown(recorded: Option<&Path>) -> String {
        let ready = Ready {
            apiserver: String::new(),
            api: "http://127.0.0.1:8080".to_owned(),
            gateway: "[::1]:2222".to_owned(),
            kubeconfig: PathBuf::from("kubeconfig"),
            known_hosts: PathBuf::from("known_hosts"),
            identity: PathBuf::from("id_ed25519"),
            bootstrap_token_file: PathBuf::new(),
            pid: 1,
        };
        text(&ready, "token", recorded)
    }

    #[test]
    fn whether_terminals_are_recorded_is_told() {
        let recorded = shown(Some(Path::new("state/recordings")));
        assert!(
            recorded.contains("Terminals are recorded, those by ssh and those in the browser."),
            "{recorded}"
        );
        assert!(recorded.contains("state/recordings"), "{recorded}");
        let not = shown(None);
        assert!(not.contains("Terminals are not recorded"), "{not}");
        assert!(not.contains("kite demo --record"), "{not}");
    }

    #[test]
    fn what_asks_the_cluster_says_which_cluster() {
        let shown = shown(None);
        let smoke = shown.lines().find(|line| line.contains(" smoke ")).unwrap();
        assert!(
            smoke.trim_start().starts_with("KUBECONFIG=kubeconfig "),
            "{smoke}"
        );
    }
}
