//! Ports, tried from outside: who answers, and what can be bound.

use std::io::{self, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

/// How long one attempt to connect and read may take.
const ATTEMPT: Duration = Duration::from_secs(2);

/// What every SSH server says first (RFC 4253 §4.2).
const BANNER: &[u8] = b"SSH-2.0-";

/// How much is read in search of that: servers may say other lines before.
const LONGEST: u64 = 8 * 1024;

/// Waits until an SSH server answers at the address, or says why none did in time.
pub(crate) fn await_banner(ip: IpAddr, port: u16, deadline: Instant) -> Result<(), String> {
    loop {
        let mut last = None;
        for address in ways_to(ip, port) {
            match has_banner(address) {
                Ok(true) => return Ok(()),
                Ok(false) => last = Some(format!("{address} answers, but not as an SSH server")),
                Err(error) => last = last.or(Some(format!("{address}: {error}"))),
            }
        }
        if Instant::now() >= deadline {
            return Err(last.unwrap_or_default());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Where to connect to for something that listens on an address.
fn ways_to(ip: IpAddr, port: u16) -> Vec<SocketAddr> {
    let ways = match ip {
        IpAddr::V4(v4) if v4.is_unspecified() => vec![Ipv4Addr::LOCALHOST.into()],
        // A socket for both has an IPv6 address only.
        IpAddr::V6(v6) if v6.is_unspecified() => {
            vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]
        }
        ip => vec![ip],
    };
    let address = |ip| SocketAddr::new(ip, port);
    ways.into_iter().map(address).collect()
}

fn has_banner(address: SocketAddr) -> io::Result<bool> {
    let stream = TcpStream::connect_timeout(&address, ATTEMPT)?;
    stream.set_read_timeout(Some(ATTEMPT))?;
    let mut said = Vec::new();
    let mut stream = stream.take(LONGEST);
    let mut buffer = [0; 256];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(false);
        }
        said.extend(&buffer[..count]);
        if said
            .split(|byte| *byte == b'\n')
            .any(|line| line.starts_with(BANNER))
        {
            return Ok(true);
        }
    }
}

/// Whether the host has this address now.
pub(crate) fn is_local(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// What keeps the port from being bound, for ports on which nothing listens.
pub(crate) fn obstacle(ips: impl Iterator<Item = IpAddr>, port: u16) -> Option<String> {
    let local = ips.filter(|ip| is_local(*ip));
    let errors = local.map(|ip| bind(SocketAddr::new(ip, port)).err());
    errors.flatten().next().map(|error| match error.kind() {
        io::ErrorKind::AddrInUse => "a connection, or a socket that does not listen".to_owned(),
        _ => format!("something that keeps it from being bound ({error})"),
    })
}

/// As sshd binds. Without listening, it is in no one's way meanwhile.
fn bind(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())
}

/// Whether somebody answers on a port on which no process of this host listens: rules
/// of a packet filter lead it elsewhere, as they do for host ports and node ports.
pub(crate) fn led_elsewhere(port: u16) -> Option<String> {
    let hosts = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let mut hosts = hosts.into_iter().chain(own_addresses());
    hosts.find_map(|ip| {
        let address = SocketAddr::new(ip, port);
        TcpStream::connect_timeout(&address, ATTEMPT).ok()?;
        Some(format!(
            "no process of this host, and yet {address} answers: a packet filter leads it \
             elsewhere (a host port or node port of a pod?)"
        ))
    })
}

/// The addresses from which this host speaks to others. Nothing is sent.
fn own_addresses() -> impl Iterator<Item = IpAddr> {
    // Addresses for documentation (RFC 5737, RFC 3849): any route leads there.
    let routes = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];
    routes.into_iter().filter_map(|(any, far)| {
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(far).ok()?;
        Some(socket.local_addr().ok()?.ip())
    })
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write as _;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Waits until it holds: a socket that was closed lives on for a moment in processes
    /// that other tests are starting.
    pub(crate) fn eventually(holds: impl Fn() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < Duration::from_secs(60), "not in time");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn saying(text: &'static str) -> u16 {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut stream, _) = socket.accept().unwrap();
            let _ = stream.write_all(text.as_bytes());
        });
        port
    }

    fn answer(port: u16) -> Result<(), String> {
        await_banner(Ipv4Addr::UNSPECIFIED.into(), port, Instant::now())
    }

    #[test]
    fn an_ssh_server_is_known_by_its_banner() {
        assert_eq!(answer(saying("SSH-2.0-OpenSSH_9.2\r\n")), Ok(()));
        assert_eq!(answer(saying("hello\r\nSSH-2.0-x\r\n")), Ok(()));
        let error = answer(saying("HTTP/1.1 400\r\n")).unwrap_err();
        assert!(error.contains("not as an SSH server"), "{error}");
    }

    #[test]
    fn where_nobody_answers_it_is_said() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        drop(socket);
        eventually(|| {
            let answer = answer(port);
            answer.is_err_and(|error| error.contains(&format!("{port}: Connection refused")))
        });
    }

    #[test]
    fn whoever_answers_is_noticed_though_no_process_shows() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let said = led_elsewhere(port).unwrap();
        assert!(said.contains(&format!("127.0.0.1:{port}")), "{said}");
        drop(socket);
        eventually(|| led_elsewhere(port).is_none());
    }

    #[test]
    fn a_bound_port_is_an_obstacle() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let ips = || [address.ip()].into_iter();
        assert!(obstacle(ips(), address.port()).is_some());
        drop(socket);
        eventually(|| obstacle(ips(), address.port()).is_none());
        let far = ["192.0.2.1".parse().unwrap()];
        assert_eq!(obstacle(far.into_iter(), address.port()), None);
    }
}
