//! What the demo says to the person who started it.

use std::path::Path;

use super::{Ready, seed};
use crate::cluster::quoted;

/// What to do next, with lines that work as pasted.
pub(super) fn text(ready: &Ready, bootstrap_token: &str) -> String {
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

",
        vm = seed::VM,
        user = seed::USER,
        identity = path(identity),
        known_hosts = path(known_hosts),
        kubeconfig = path(kubeconfig),
    )
}
