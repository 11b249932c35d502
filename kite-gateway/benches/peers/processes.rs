//! Child processes that end with whoever started them, however that ends.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Those that run, for when this process is told to end.
static RUNNING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn running() -> MutexGuard<'static, Vec<u32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child process; killed when dropped.
pub struct Process(pub Child);

impl Process {
    pub fn start(command: &mut Command) -> Self {
        let child = command.spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        running().push(child.id());
        Self(child)
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits for it to end well.
    pub fn finish(mut self) {
        let status = self.0.wait().unwrap();
        assert!(
            status.success(),
            "a process of the benchmark failed: {status}"
        );
    }

    /// Its output by lines.
    pub fn lines(&mut self) -> BufReader<ChildStdout> {
        BufReader::new(self.0.stdout.take().expect("its output is a pipe"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let id = self.id();
        // Both fail only where it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
        running().retain(|other| *other != id);
    }
}

/// The next line of a process that is to say something.
pub fn line(said: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "a process of the benchmark ended early");
    line.trim_end().to_owned()
}

/// Runs a command that is to end well, with no input; gives its output.
pub fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Has SIGINT and SIGTERM end the child processes and remove `dir` first: they
/// run no destructors.
pub fn clean_up_on_signals(dir: &Path) {
    let dir = dir.to_owned();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let mut interrupt = signal(SignalKind::interrupt()).unwrap();
            let mut terminate = signal(SignalKind::terminate()).unwrap();
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        for id in running().iter() {
            let _ = Command::new("kill").arg(id.to_string()).status();
        }
        let _ = std::fs::remove_dir_all(dir);
        std::process::exit(130);
    });
}
