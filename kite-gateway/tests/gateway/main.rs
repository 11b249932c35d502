//! The gateway before machines, hosts and a cluster, as people and programs meet it. One
//! program, so that what waits for one thing runs beside what waits for another; what watches
//! the memory or the time of its whole process is a program of its own beside this.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod algorithms;
mod attack;
mod certificates;
#[path = "../common/mod.rs"]
mod common;
mod connections;
mod defence;
mod direct;
mod host;
mod hostile_vm;
mod interop;
mod kubernetes;
mod logins;
mod openssh;
mod recordings;
mod records;
mod restart;
mod sshd;
mod strangers;
mod terminal;
mod withdrawn;
mod x11;
