#![allow(clippy::unwrap_used)]

use tokio::io::AsyncReadExt;

use super::*;

fn shell() -> Shell {
    let machine = Machine {
        hostname: "web".to_owned(),
        user: "alice".to_owned(),
        disk: Home::default(),
    };
    machine.disk.create_dir_all(&machine.home_dir()).unwrap();
    Shell::new(machine)
}

/// Runs `line` with `input` and gives standard output, standard error and the flow.
async fn run(shell: &mut Shell, line: &str, input: &str) -> (String, String, Flow) {
    let (mut out, out_writer) = tokio::io::duplex(1 << 20);
    let (mut err, err_writer) = tokio::io::duplex(1 << 20);
    let io = Io {
        stdin: Input::stream(std::io::Cursor::new(input.as_bytes().to_vec())),
        stdout: Output::stream(out_writer),
        stderr: Output::stream(err_writer),
    };
    let flow = shell.run(line, &io).await;
    drop(io);
    let (mut stdout, mut stderr) = (String::new(), String::new());
    out.read_to_string(&mut stdout).await.unwrap();
    err.read_to_string(&mut stderr).await.unwrap();
    (stdout, stderr, flow)
}

async fn out(line: &str) -> String {
    run(&mut shell(), line, "").await.0
}

#[tokio::test]
async fn echo_and_exit_code() {
    let (stdout, _, flow) = run(&mut shell(), "echo hello; exit 7; echo never", "").await;
    assert_eq!((stdout.as_str(), flow), ("hello\n", Flow::Exit(7)));
}

#[tokio::test]
async fn lists_follow_the_status() {
    assert_eq!(out("true && echo a || echo b").await, "a\n");
    assert_eq!(out("false && echo a || echo b; echo $?").await, "b\n0\n");
    assert_eq!(out("nope 2>/dev/null; echo $?").await, "127\n");
}

#[tokio::test]
async fn standard_error_is_its_own_stream() {
    let (stdout, stderr, _) = run(&mut shell(), "echo out; echo err >&2", "").await;
    assert_eq!((stdout.as_str(), stderr.as_str()), ("out\n", "err\n"));
    assert_eq!(
        out("{ 2>&1").await,
        "sh: {: command not found (try `help`)\n"
    );
}

#[tokio::test]
async fn files_redirections_and_pipes() {
    let mut shell = shell();
    let script = "echo one >f; echo two >>f; cat <f | wc -l; mkdir -p d/e; cp f d; mv d/f d/g; \
                  ls d; cat d/g; rm -r d; ls";
    let (stdout, stderr, _) = run(&mut shell, script, "").await;
    assert_eq!(stderr, "");
    assert_eq!(stdout, "2\ne\ng\none\ntwo\nf\n");
    let (stdout, ..) = run(&mut shell, "cat > up; wc -c up; cd /; pwd", "12345").await;
    assert_eq!(stdout, "5 up\n/\n");
}

#[tokio::test]
async fn a_pipe_ends_its_writer() {
    assert_eq!(out("cat /dev/zero | head -c 1M | wc -c").await, "1048576\n");
}

#[tokio::test]
async fn variables() {
    assert_eq!(
        out("A='x  y'; echo $A \"$A\" ${A}z").await,
        "x y x  y x yz\n"
    );
    assert_eq!(
        out("export B=1; B=2 env | head -n 1; echo $B").await,
        "B=2\n1\n"
    );
    assert_eq!(
        out("echo ~ $HOME $USER").await,
        "/home/alice /home/alice alice\n"
    );
}

#[tokio::test]
async fn the_disk_survives_the_shell() {
    let mut first = shell();
    run(&mut first, "echo kept > note", "").await;
    let mut second = Shell::new(first.machine.clone());
    assert_eq!(run(&mut second, "cat note", "").await.0, "kept\n");
}

#[tokio::test]
async fn nothing_of_the_host_is_there() {
    let (stdout, stderr, _) = run(&mut shell(), "cat /etc/passwd; ls /proc; ls /", "").await;
    assert_eq!(stdout, "home\n");
    assert!(stderr.contains("/etc/passwd: No such file"), "{stderr}");
}

#[tokio::test]
async fn a_signal_ends_the_session() {
    let (.., flow) = run(&mut shell(), "kill -9 $$; echo no", "").await;
    assert_eq!(flow, Flow::Killed("KILL".to_owned()));
}

#[tokio::test]
async fn sums_are_right() {
    let (stdout, ..) = run(&mut shell(), "sha256sum", "abc").await;
    assert!(
        stdout.starts_with("ba7816bf8f01cfea414140de5dae2223"),
        "{stdout}"
    );
}
