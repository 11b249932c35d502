#![allow(clippy::unwrap_used)]

use super::*;
use crate::systemd;

pub(crate) fn process(pid: u32, name: &str, command: &[&str], unit: Option<&str>) -> Process {
    Process {
        pid,
        name: name.to_owned(),
        parent: 1,
        command: command
            .iter()
            .map(|&argument| argument.to_owned())
            .collect(),
        unit: unit.map(str::to_owned),
    }
}

pub(crate) fn sshd(pid: u32, title: &str, unit: Option<&str>) -> Process {
    process(pid, "sshd", &[title], unit)
}

pub(crate) fn on(address: &str, holder: Process) -> Listener {
    Listener {
        address: address.parse().unwrap(),
        holders: vec![holder],
    }
}

const TITLE: &str = "sshd: /usr/sbin/sshd -D -e [listener] 0 of 10-100 startups";

pub(crate) fn as_service(port: u16) -> Running {
    let daemon = || sshd(812, TITLE, Some("ssh.service"));
    Running {
        listeners: vec![
            on(&format!("0.0.0.0:{port}"), daemon()),
            on(&format!("[::]:{port}"), daemon()),
        ],
        sockets: Vec::new(),
        services: systemd::services(
            "Id=ssh.service\nActiveState=active\nMainPID=812\nCanReload=yes\nKillMode=process\n",
        ),
    }
}

pub(crate) fn by_socket(kill_mode: &str, active: &str) -> Running {
    let mut held = on("[::]:22", process(1, "systemd", &["/sbin/init"], None));
    held.holders.push(sshd(812, TITLE, Some("ssh.service")));
    Running {
        listeners: vec![held],
        sockets: systemd::sockets(
            "Id=dbus.socket\nActiveState=active\nListen=/run/dbus (Stream)\nTriggers=dbus.service\n\n\
             Id=ssh.socket\nActiveState=active\nAccept=no\nListen=[::]:22 (Stream)\nTriggers=ssh.service\n",
        ),
        services: systemd::services(&format!(
            "Id=ssh.service\nActiveState={active}\nMainPID=812\nCanReload=yes\nKillMode={kill_mode}\n"
        )),
    }
}

pub(crate) fn by_hand(port: u16) -> Running {
    let daemon = sshd(900, TITLE, Some("terminal.service"));
    Running {
        listeners: vec![on(&format!("127.0.0.1:{port}"), daemon)],
        ..Running::default()
    }
}

fn unit(name: &str) -> String {
    name.to_owned()
}

#[test]
fn a_service_is_reloaded() {
    let running = as_service(22);
    let daemon = running.find(22).unwrap();
    let unit = unit("ssh.service");
    assert_eq!(
        daemon.activation,
        Activation::Service { unit: unit.clone() }
    );
    assert_eq!(daemon.addresses.len(), 2);
    assert_eq!(running.sshd_ports(), [22].into());
    let switches = running.switches(&daemon.activation, [22, 2222]);
    assert_eq!(switches, [Switch::Reload { unit }]);
}

#[test]
fn a_service_that_cannot_be_reloaded_gets_the_signal() {
    let mut running = as_service(22);
    running.services[0].can_reload = false;
    let daemon = running.find(22).unwrap();
    let switches = running.switches(&daemon.activation, [22, 2222]);
    assert_eq!(switches, [Switch::Hangup { pid: 812 }]);
}

#[test]
fn a_service_that_died_is_started() {
    let mut running = as_service(22);
    let daemon = running.find(22).unwrap();
    running.listeners.clear();
    running.services[0].active = false;
    let unit = unit("ssh.service");
    let switches = running.switches(&daemon.activation, [22, 2222]);
    assert_eq!(switches, [Switch::Start { unit }]);
}

#[test]
fn a_process_in_somebody_elses_service_is_one_of_its_own() {
    // As that of somebody who started sshd from a terminal.
    let mut running = by_hand(22);
    running.services = systemd::services("Id=terminal.service\nActiveState=active\nMainPID=5\n");
    let daemon = running.find(22).unwrap();
    let command: Vec<String> = ["/usr/sbin/sshd", "-D", "-e"].map(str::to_owned).into();
    let expected = Activation::Process { command };
    assert_eq!(daemon.activation, expected);
    let switches = running.switches(&expected, [22, 2222]);
    assert_eq!(switches, [Switch::Hangup { pid: 900 }]);
    let moved = by_hand(2222).switches(&expected, [22, 2222]);
    assert_eq!(moved, [Switch::Hangup { pid: 900 }]);
    let command: Vec<String> = ["/usr/sbin/sshd", "-e"].map(str::to_owned).into();
    let dead = Running::default().switches(&expected, [22, 2222]);
    assert_eq!(dead, [Switch::Run { command }]);
}

#[test]
fn a_socket_is_bound_anew() {
    let running = by_socket("process", "active");
    let daemon = running.find(22).unwrap();
    let unit = unit("ssh.socket");
    assert_eq!(daemon.activation, Activation::Socket { unit: unit.clone() });
    assert_eq!(daemon.addresses, ["::".parse().unwrap()].into());
    assert!(running.check_sessions(&daemon.activation).is_ok());
    assert_eq!(
        running.switches(&daemon.activation, [22, 2222]),
        [
            Switch::ReloadUnits,
            Switch::Stop {
                unit: "ssh.service".to_owned()
            },
            Switch::Rebind { unit: unit.clone() },
        ]
    );
    let idle = by_socket("process", "inactive");
    assert_eq!(
        idle.switches(&daemon.activation, [22, 2222]),
        [Switch::ReloadUnits, Switch::Rebind { unit }]
    );
}

#[test]
fn a_service_whose_stop_would_end_sessions_is_not_stopped() {
    for mode in ["control-group", "mixed"] {
        let running = by_socket(mode, "active");
        let daemon = running.find(22).unwrap();
        let refusal = running.check_sessions(&daemon.activation).unwrap_err();
        assert!(refusal.to_string().contains(mode), "{refusal}");
        assert!(refusal.remedy().contains("KillMode=process"), "{refusal}");
        let idle = by_socket(mode, "inactive");
        assert!(idle.check_sessions(&daemon.activation).is_ok());
        let mut each = by_socket(mode, "active");
        each.sockets[1].per_connection = true;
        assert!(each.check_sessions(&daemon.activation).is_ok());
    }
}

#[test]
fn a_socket_that_is_not_active_holds_nothing() {
    let mut running = by_socket("process", "active");
    running.sockets[1].active = false;
    let activation = running.find(22).unwrap().activation;
    assert_eq!(
        activation,
        Activation::Service {
            unit: unit("ssh.service")
        }
    );
}

#[test]
fn who_else_has_the_port_is_said() {
    let running = Running {
        listeners: vec![
            on("0.0.0.0:22", process(7, "kite-gateway", &[], None)),
            on("0.0.0.0:2222", sshd(8, TITLE, None)),
        ],
        ..Running::default()
    };
    let refusal = running.find(22).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "port 22 is held by kite-gateway (pid 7), which is no sshd"
    );
    assert_eq!(running.stranger(22, None).unwrap(), "kite-gateway (pid 7)");
    let daemon = running.find(2222).unwrap();
    assert_eq!(running.stranger(2222, Some(&daemon)), None);
    assert_eq!(running.stranger(2222, None).unwrap(), "sshd (pid 8)");
    let refusal = running.find(23).unwrap_err();
    assert!(
        refusal.to_string().contains("sshd listens on 2222"),
        "{refusal}"
    );
    assert!(refusal.remedy().contains("--from 2222"), "{refusal}");
    let refusal = Running::default().find(22).unwrap_err();
    assert!(refusal.remedy().contains("start sshd"), "{refusal}");
}

#[test]
fn two_daemons_are_one_too_many() {
    let mut running = by_hand(22);
    running
        .listeners
        .push(on("10.0.0.1:22", sshd(901, TITLE, None)));
    let refusal = running.find(22).unwrap_err();
    assert!(
        matches!(refusal, Refusal::SeveralDaemons { .. }),
        "{refusal}"
    );
}

#[test]
fn command_lines() {
    let arguments = |line: &str| {
        let command: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Arguments::parse(&command)
    };
    assert_eq!(arguments("/usr/sbin/sshd -D"), Arguments::default());
    assert_eq!(
        arguments("sshd -D -oCiphers=aes256-ctr -E /log"),
        Arguments::default()
    );
    let config = arguments("sshd -Df /opt/sshd_config -h /p22").config;
    assert_eq!(config, Some(PathBuf::from("/opt/sshd_config")));
    for (line, option) in [
        ("sshd -p 22", "-p 22"),
        ("sshd -Dp22 -p 23", "-p 22"),
        ("sshd -f x -o Port=22", "-o Port=22"),
        ("sshd -oListenAddress=::1", "-o ListenAddress=::1"),
    ] {
        assert_eq!(arguments(line).listening.as_deref(), Some(option), "{line}");
    }
    let title = ["sshd: /usr/sbin/sshd -f /a [listener] 0 of 10-100 startups".to_owned()];
    assert_eq!(command_line(&title), ["/usr/sbin/sshd", "-f", "/a"]);
    let plain = ["/usr/sbin/sshd", "-D"].map(str::to_owned);
    assert_eq!(command_line(&plain), plain);
}

#[test]
fn the_configuration_is_the_one_that_runs() {
    let running = Arguments {
        config: Some(PathBuf::from("/opt/config")),
        listening: None,
    };
    let same = |one: &Path, other: &Path| one == other;
    let none = Arguments::default();
    let asked = Path::new("/etc/ssh/sshd_config");
    assert_eq!(none.config(None, same).unwrap(), None);
    assert_eq!(none.config(Some(asked), same).unwrap().unwrap(), asked);
    assert_eq!(running.config(None, same).unwrap(), running.config);
    let own = running.config.as_deref();
    assert_eq!(running.config(own, same).unwrap(), running.config);
    let refusal = running.config(Some(asked), same).unwrap_err();
    assert!(
        refusal.remedy().contains("--config /opt/config"),
        "{refusal}"
    );
}

#[test]
fn another_sshd_is_a_stranger() {
    let mut running = as_service(22);
    let other = sshd(901, TITLE, None);
    running.listeners.push(on("0.0.0.0:2222", other));
    let daemon = running.find(22).unwrap();
    assert_eq!(running.ports_of(&daemon), [22].into());
    assert_eq!(running.sshd_ports(), [22, 2222].into());
    let stranger = running.stranger(2222, Some(&daemon)).unwrap();
    assert_eq!(stranger, "sshd (pid 901)");
}

#[test]
fn what_systemd_holds_for_others_is_not_sshds() {
    let mut running = by_socket("process", "active");
    let held = on("[::]:9090", process(1, "systemd", &[], None));
    running.listeners.push(held);
    running.sockets.extend(systemd::sockets(
        "Id=cockpit.socket\nActiveState=active\nListen=[::]:9090 (Stream)\nTriggers=cockpit.service\n",
    ));
    let daemon = running.find(22).unwrap();
    assert_eq!(running.ports_of(&daemon), [22].into());
    assert!(running.stranger(22, Some(&daemon)).is_none());
    let stranger = running.stranger(9090, Some(&daemon)).unwrap();
    assert_eq!(stranger, "systemd (pid 1)");
    let refusal = running.find(9090).unwrap_err();
    assert!(matches!(refusal, Refusal::NotSshd { .. }), "{refusal}");
}
