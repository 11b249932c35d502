//! `kite backup` and `kite restore` on the demo.

mod bed;
mod everything;
mod offers;
