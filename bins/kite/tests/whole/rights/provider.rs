//! Signing in at a provider, as far as it takes rights: to the point where Kite proves who
//! it is by its secret.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    process::Command,
    thread,
};

use serde_json::{Value, json};

use super::life::settings;
use crate::support::{Platform, run, show};

/// A provider that knows no code.
fn provider() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let document = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
    });
    thread::spawn(move || {
        for client in listener.incoming() {
            answer(&client.unwrap(), &document);
        }
    });
    issuer
}

fn answer(mut client: &TcpStream, document: &Value) {
    let lines = BufReader::new(client).lines();
    // Whatever the body is, it is no code that is known here.
    let head: Vec<_> = lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .collect();
    let is_document = head
        .first()
        .is_some_and(|line| line.contains("/.well-known/"));
    let (status, body) = if is_document {
        ("200 OK", document.to_string())
    } else {
        (
            "400 Bad Request",
            json!({"error": "invalid_grant"}).to_string(),
        )
    };
    // Who has hung up misses it.
    let _ = write!(
        client,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
}

/// What a browser gets there: the headers of the answer.
fn visit(url: &str, cookie: &str) -> String {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-o", "/dev/null", "-D", "-", "-H"]);
    curl.args([&format!("Cookie: {cookie}"), url]);
    let output = run(curl, "");
    assert!(output.status.success(), "{}", show(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn header<'a>(headers: &'a str, name: &str) -> &'a str {
    let mut lines = headers.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.unwrap_or_else(|| panic!("no {name} in {headers}")).1
}

/// Somebody goes there and comes back with a code that the provider does not know.
pub fn come_back_in_vain(platform: &Platform, boss: &str) {
    let issuer = provider();
    let staff = json!({
        "name": "staff", "issuer": issuer, "clientId": "kite", "clientSecretKey": "staff",
    });
    let bound = json!({ "stringData": { "staff.issuer": issuer } }).to_string();
    platform.kubectl_ok(&[
        "patch",
        "secret",
        "kite-oidc",
        "--type=merge",
        "-n",
        "kite",
        "--patch",
        &bound,
    ]);
    settings(platform, boss, &json!({ "signInProviders": [staff] }));
    let start = format!("{}/api/v1/auth/oidc/staff", platform.text("api"));
    let left = visit(&start, "");
    let flow = header(&left, "set-cookie").split(';').next().unwrap();
    let (_, state) = header(&left, "location").split_once("state=").unwrap();
    let state = state.split('&').next().unwrap();
    let back = visit(
        &format!("{start}/callback?state={state}&code=unknown"),
        flow,
    );
    // The provider was asked, and said no: whatever lacks on this side is another answer.
    assert!(back.starts_with("HTTP/1.1 400 "), "{back}");
    settings(platform, boss, &json!({ "signInProviders": [] }));
}
