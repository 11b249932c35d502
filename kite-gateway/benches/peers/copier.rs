//! A copier of bytes between two TCP connections, in a process of its own: what any process
//! between a client and a VM costs, whatever it does.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;

use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::{TcpListener, TcpStream};

/// As much as the gateway reads at once, and no less than what it lets wait.
const BUFFER: usize = 128 * 1024;

/// Copies to and from the VM of the bed in `dir` until the input ends.
pub fn play(dir: &Path) {
    let vm = std::fs::read_to_string(dir.join("vm_address")).unwrap();
    let vm: SocketAddr = vm.trim().parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(copy(client, vm));
            }
        });
        let ended = tokio::task::spawn_blocking(|| {
            let _ = std::io::stdin().read(&mut [0]);
        });
        ended.await.unwrap();
        std::process::exit(0);
    });
}

async fn copy(mut client: TcpStream, vm: SocketAddr) {
    let Ok(mut server) = TcpStream::connect(vm).await else {
        return;
    };
    for stream in [&client, &server] {
        let _ = stream.set_nodelay(true);
    }
    // Either end may go when it likes.
    let _ = copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER, BUFFER).await;
}
