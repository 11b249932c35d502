//! What a console is to the WebSocket before it: bytes both ways.

use async_trait::async_trait;
use bytes::Bytes;

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Characters in a line.
    pub columns: u16,
    /// Lines.
    pub rows: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self {
            columns: 80,
            rows: 24,
        }
    }
}

/// How a console came to its end from the VM's side.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsoleEnded {
    /// The program in the terminal ended with this status.
    Exited(u32),
    /// The program was ended by a signal of this name, without `SIG`.
    Killed(String),
    /// The stream ended, and says nothing of why.
    Closed,
    /// It broke; the text says how.
    Lost(String),
}

/// The way towards the VM.
#[async_trait]
pub trait ConsoleInput: Send + 'static {
    /// Carries what was typed. Waits while the VM does not take it, and so holds
    /// up whoever types.
    ///
    /// # Errors
    /// [`ConsoleEnded`] once nothing can be typed any more.
    async fn write(&mut self, data: Bytes) -> Result<(), ConsoleEnded>;

    /// The terminal has another size. What has none takes no notice.
    async fn resize(&mut self, size: TerminalSize);
}

/// The way from the VM.
#[async_trait]
pub trait ConsoleOutput: Send + 'static {
    /// The next bytes. Waits for some; what is not asked for must hold up the VM
    /// and not pile up. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`ConsoleEnded`] once nothing will come any more.
    async fn next(&mut self) -> Result<Bytes, ConsoleEnded>;
}

/// A console that is open. Dropping both ways ends it.
pub struct ConsoleStream {
    /// Towards the VM.
    pub input: Box<dyn ConsoleInput>,
    /// From the VM.
    pub output: Box<dyn ConsoleOutput>,
    /// Name of its recording, if it is recorded: what
    /// [`Recordings::read`](crate::Recordings::read) finds it by.
    pub recording: Option<String>,
}
