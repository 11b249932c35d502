//! Guests: what runs inside a VM, as far as others can tell.
//!
//! A [`Guest`] is a real SSH server on a loopback port with a small built-in
//! shell, `exec` with exit status and standard error, and SFTP, all on an
//! in-memory disk ([`Home`]) that outlives a reboot. It never runs a program of
//! the host and never opens a file of the host.
//!
//! | Module | What |
//! |---|---|
//! | `config` | what a guest is told at boot; reads cloud-init user data |
//! | `server` | the sshd: log-in, channels, requests |
//! | `session` | one channel at work |
//! | `shell`, `parse`, `builtins` | the shell |
//! | `tty`, `editor` | the terminal: echo, line editing, Ctrl-C |
//! | `sftp` | the SFTP subsystem |
//! | `console`, `screen`, `rfb` | the serial line, the screen, and VNC to it |
//! | `home`, `file`, `path` | the disk |
//! | `homes` | the disks of all guests, and copies of them |
//! | `inlet`, `cut`, `stream` | bytes on their way |

mod builtins;
mod config;
mod console;
mod cut;
mod editor;
mod file;
mod home;
mod homes;
mod inlet;
mod parse;
mod path;
mod rfb;
mod screen;
mod server;
mod session;
mod sftp;
mod shell;
mod stream;
mod tty;

pub use config::{GuestConfig, GuestError, Passwords};
pub use console::Consoles;
pub use home::{DEFAULT_CAPACITY, Home};
pub(crate) use homes::Homes;
pub use server::{Guest, GuestHandle};
