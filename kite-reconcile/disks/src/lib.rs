//! Which of a machine's disks counts, and which may go.
//!
//! A machine (a virtual one, whose guest writes to one root disk) is restored from a
//! snapshot by another disk that is made from it, and by having the machine point there:
//! a new *generation*. The former disk is kept, so that the restore can be taken back.
//! [`plan`] says what is to be done next, from what was seen of the cluster; it has no I/O,
//! no clock, and no memory beside the objects themselves:
//!
//! - Each disk that ever was the machine's carries a [`Mark`]: the *turn* in which it
//!   became that, and the request that asked for it. The machine carries the mark of the
//!   disk that it points at. Turns only rise. The disk with the highest one is the
//!   machine's, so writing the mark is the one moment that decides.
//! - A request is carried out once: the machine's disk carries its time, and what is not later
//!   is no request. That outlives a status that is lost, as in a backup.
//! - Who copies may say too early that it is done, and a snapshot may die with the disk that
//!   it was taken of and be called ready all the same. So a disk goes only when its
//!   successor is *proven* (a guest has run on it), and when no snapshot needs it; a snapshot
//!   goes when nothing is copied from it.
//!
//! ```
//! use std::time::Duration;
//!
//! use jiff::Timestamp;
//! use kite_disks::{Act, Disk, Fill, From, Machine, Mark, Power, Request, Seen, Standing, plan};
//!
//! let first = Disk {
//!     is_proven: true,
//!     ..Disk::first("web-disk", Fill::Done)
//! };
//! let seen = Seen {
//!     disks: &[first],
//!     others: 0,
//!     machine: Some(Machine {
//!         disk: "web-disk",
//!         generation: 1,
//!         mark: Some(Mark::FIRST),
//!     }),
//!     power: Power::Runs { on: "web-disk" },
//!     request: Some(Request {
//!         at: "2026-12-01T09:30:00Z".parse()?,
//!         from: From::Snapshot("before-the-update"),
//!     }),
//!     snapshots: &[],
//!     keep: Duration::from_secs(24 * 3600),
//!     now: Timestamp::now(),
//! };
//! // The copy is made while the guest still runs.
//! let plan = plan(&seen);
//! assert_eq!(plan.standing, Standing::Copying);
//! assert!(matches!(plan.acts[..], [Act::Make { generation: 2, .. }]));
//! # Ok::<(), jiff::Error>(())
//! ```
//!
//! # What an act rests on
//!
//! Whoever carries an [`Act`] out reads all afresh and plans once more before, and sees to it
//! that the act is refused where the cluster is not as it was seen then; how is said at each.
//!
//! # Map
//!
//! | Module | What is there |
//! |---|---|
//! | (the crate itself) | what is seen ([`Seen`]), what is to be done ([`plan`], [`plan_end`]), and who needs what ([`is_needed`], [`may_be_deleted`]) |
//! | [`class`] | by which class of snapshots a disk's is taken, and why by none |
//! | [`schedule`] | when snapshots are taken, and which of them go again |
//! | [`taking`] | how a snapshot of a disk is taken, and what is told of it |
//!
//! # Feature flags
//!
//! There are no features.

pub mod class;
mod hold;
mod plan;
pub mod schedule;
mod seen;
pub mod taking;

pub use hold::{is_needed, may_be_deleted};
pub use plan::{Act, End, Plan, Refusal, Standing, plan, plan_end};
pub use seen::{Disk, Fill, From, Machine, Mark, Power, Request, Seen, Snapshot};
