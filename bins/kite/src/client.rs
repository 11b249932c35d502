//! The client of all commands that work on a cluster.

use kite_admin::retry::retrying;
use kite_process::ClusterArgs;
use kube::Client;

use crate::output::{Lines, Output};

/// A client that tries again what passes, and says so where people look: on standard
/// error, whatever the answer is written as.
pub(crate) async fn client(cluster: &ClusterArgs) -> anyhow::Result<Client> {
    let client = cluster.client_without_retries().await?;
    Ok(retrying(client, |notice| {
        Lines::new(Output::Text).line(&format!("waiting: {notice}"));
    }))
}
