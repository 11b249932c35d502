//! The operator as a process: `KUBECONFIG=… cargo run -p own_operator`.

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    own_operator::run(kube::Client::try_default().await?).await;
    Ok(())
}
