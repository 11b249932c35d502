//! Which algorithms the gateway takes: as OpenSSH's client and ssh-audit see them.

use std::process::{Command, Output};
use std::sync::Arc;

use crate::common::{Bed, Trusting, run, text};
use kite_gateway::Config;
use russh::keys::{Algorithm, HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey};

async fn with_options(bed: &Bed, options: &[&str]) -> Output {
    let mut client = bed.with_key("ssh");
    for option in options {
        client.args(["-o", option]);
    }
    client.args(["-l", "web", "127.0.0.1", "echo in"]);
    run(client, Vec::new()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_exchanged_by_elliptic_curves_only() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    for taken in [
        "KexAlgorithms=curve25519-sha256",
        "KexAlgorithms=curve25519-sha256@libssh.org",
        "Ciphers=aes128-ctr",
        "MACs=hmac-sha2-256-etm@openssh.com",
    ] {
        let output = with_options(&bed, &[taken, "Ciphers=aes128-ctr"]).await;
        let told = text(&output.stderr);
        assert_eq!(text(&output.stdout), "in\n", "{taken}: {told}");
    }
    for refused in [
        "KexAlgorithms=diffie-hellman-group14-sha256",
        "KexAlgorithms=diffie-hellman-group16-sha512",
        "KexAlgorithms=diffie-hellman-group18-sha512",
        "KexAlgorithms=diffie-hellman-group-exchange-sha256",
        "MACs=hmac-sha2-256",
        "MACs=hmac-sha2-512",
        "MACs=hmac-sha1",
    ] {
        let output = with_options(&bed, &[refused, "Ciphers=aes128-ctr"]).await;
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(255), "{refused}");
        assert!(told.contains("no matching"), "{refused}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rsa_logs_in_but_not_by_sha_1() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    let file = bed.path("rsa");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "rsa", "-b", "2048", "-N", "", "-f"])
        .arg(&file)
        .status();
    assert!(made.unwrap().success());
    let public = std::fs::read_to_string(file.with_extension("pub")).unwrap();
    let public = PublicKey::from_openssh(&public).unwrap();
    bed.table
        .change("web", |route| route.authorized_keys = vec![public.into()]);
    let identity = format!("IdentityFile={}", file.display());
    for (algorithm, gets_in) in [
        ("rsa-sha2-256", true),
        ("rsa-sha2-512", true),
        ("ssh-rsa", false),
    ] {
        let mut client = bed.client("ssh");
        let accepted = format!("PubkeyAcceptedAlgorithms={algorithm}");
        client.args(["-o", &identity, "-o", "BatchMode=yes", "-o", &accepted]);
        client.args(["-l", "web", "127.0.0.1", "echo in"]);
        let output = run(client, Vec::new()).await;
        let is_in = text(&output.stdout) == "in\n";
        assert_eq!(is_in, gets_in, "{algorithm}: {}", text(&output.stderr));
    }
}

/// A client of russh's that goes on with SHA-1 though the gateway does not name it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_insists_on_sha_1_is_refused() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    let rsa = Algorithm::Rsa { hash: None };
    let key = PrivateKey::random(&mut rand::rng(), rsa).unwrap();
    let public = key.public_key().clone();
    bed.table
        .change("web", |route| route.authorized_keys = vec![public.into()]);
    let key = Arc::new(key);
    for (hash, gets_in) in [
        (None, false),
        (Some(HashAlg::Sha256), true),
        (Some(HashAlg::Sha512), true),
    ] {
        let connecting = russh::client::connect(Arc::default(), bed.address, Trusting);
        let mut handle = connecting.await.unwrap();
        let named = handle.best_supported_rsa_hash().await.unwrap();
        assert_eq!(named, Some(Some(HashAlg::Sha512)), "server-sig-algs");
        let key = PrivateKeyWithHashAlg::new(key.clone(), hash);
        let login = handle.authenticate_publickey("web", key).await.unwrap();
        assert_eq!(login.success(), gets_in, "{hash:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_sig_algs_are_those_of_openssh() {
    let bed = Bed::new().await;
    let _guest = bed.machine("web").await;
    let mut client = bed.with_key("ssh");
    client.args(["-vv", "-l", "web", "127.0.0.1", "echo in"]);
    let told = text(&run(client, Vec::new()).await.stderr);
    let line = told.lines().find(|line| line.contains("server-sig-algs="));
    let line = line.expect("the client shows what it is told");
    for named in [
        "ssh-ed25519",
        "sk-ssh-ed25519@openssh.com",
        "ecdsa-sha2-nistp256",
        "sk-ecdsa-sha2-nistp256@openssh.com",
        "rsa-sha2-512",
        "rsa-sha2-256",
    ] {
        assert!(line.contains(named), "{named}: {line}");
    }
    let names = line.split(['<', '>', ',']).map(str::trim);
    assert!(names.clone().count() > 6 && !names.clone().any(|it| it == "ssh-rsa"));
}

/// What ssh-audit has against the gateway: nothing that fails, and no attack by the cost
/// of handshakes; one warning unless what is taken withstands quantum computers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ssh_audit_finds_nothing_that_fails() {
    let python = std::env::var("KITE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let audit = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(["-m", "ssh_audit.ssh_audit"]).args(arguments);
        command
    };
    let there = audit(&["--help"]).output();
    if !there.is_ok_and(|output| text(&output.stdout).contains("ssh-audit")) {
        let required = std::env::var_os("KITE_REQUIRE_CLIENTS").is_some();
        assert!(!required, "there is no ssh-audit in {python}");
        eprintln!("skipped: there is no ssh-audit (pip install ssh-audit)");
        return;
    }
    for post_quantum_only in [false, true] {
        let config = Config {
            post_quantum_only,
            ..Config::default()
        };
        let bed = Bed::with(config).await;
        let port = bed.address.port().to_string();
        let output = run(audit(&["-n", "-p", &port, "127.0.0.1"]), Vec::new()).await;
        let told = text(&output.stdout);
        assert!(told.contains("mlkem768x25519-sha256"), "{told}");
        for word in ["[fail]", "DHEat"] {
            assert!(!told.contains(word), "{word}: {told}");
        }
        // By default clients get in, too, that know exchanges by curves alone.
        let warnings = told.lines().filter(|line| line.contains("[warn]"));
        for warning in warnings {
            assert!(
                warning.contains("post-quantum") && !post_quantum_only,
                "{warning}"
            );
        }
        let by_curves = told.contains("curve25519-sha256@libssh.org");
        assert_eq!(by_curves, !post_quantum_only, "{told}");
    }
}
