//! The policy against a model: russh's accounting of windows (one target per
//! connection, adjusted on receipt) and clients that always have data to send
//! and take turns on one TCP stream.
#![allow(clippy::unwrap_used, clippy::panic, clippy::similar_names)]

use std::collections::VecDeque;

use super::*;

const MARK: usize = 1024 * 1024;
const PACKET: u32 = 32 * 1024;

struct Side {
    /// What russh thinks that the client may still send.
    window: u32,
    /// What the client knows that it may still send.
    credit: u32,
    queued: usize,
    received: u64,
    /// The VM reads this channel.
    reads: bool,
}

struct Model {
    windows: Windows,
    target: u32,
    sides: Vec<Side>,
    /// Packets on the wire, in order, and adjustments on their way back.
    wire: VecDeque<(usize, u32)>,
    back: VecDeque<(usize, u32)>,
    turn: usize,
}

impl Model {
    fn new(reads: &[bool]) -> Self {
        let windows = Windows::default();
        let sides = reads
            .iter()
            .map(|reads| Side {
                window: INITIAL,
                credit: INITIAL,
                queued: 0,
                received: 0,
                reads: *reads,
            })
            .collect();
        Self {
            windows,
            target: INITIAL,
            sides,
            wire: VecDeque::new(),
            back: VecDeque::new(),
            turn: 0,
        }
    }

    /// The client sends, up to what fits on the wire, taking turns.
    fn send(&mut self) {
        for _ in 0..self.sides.len() * 64 {
            let id = self.turn % self.sides.len();
            self.turn += 1;
            let side = &mut self.sides[id];
            let size = side.credit.min(PACKET);
            if size > 0 && self.wire.len() < 128 {
                side.credit -= size;
                self.wire.push_back((id, size));
            }
        }
    }

    /// The gateway takes what is on the wire; adjustments reach the client a
    /// round trip later.
    fn round(&mut self) {
        self.send();
        for (id, amount) in std::mem::take(&mut self.back) {
            self.sides[id].credit += amount;
        }
        for (id, size) in std::mem::take(&mut self.wire) {
            let side = &mut self.sides[id];
            side.window -= size;
            let number = u32::try_from(id).unwrap();
            if side.window < self.target / 2 {
                self.back.push_back((id, self.target - side.window));
                side.window = self.target;
                let sides = &self.sides;
                let over = |id: u32| sides.get(id as usize).map(|side| side.queued > MARK);
                self.target = self.windows.adjusted(number, self.target, over);
            }
            let side = &mut self.sides[id];
            side.received += u64::from(size);
            side.queued += size as usize;
            self.windows.received(number, size as usize);
        }
        for side in self.sides.iter_mut().filter(|side| side.reads) {
            side.queued = 0;
        }
    }
}

#[test]
fn a_healthy_channel_gets_full_windows() {
    let mut model = Model::new(&[true]);
    for _ in 0..1000 {
        model.round();
    }
    assert!(
        model.sides[0].received > 400 * 1024 * 1024,
        "{}",
        model.sides[0].received
    );
}

#[test]
fn a_stalled_channel_stops_growing_and_does_not_slow_others() {
    let mut model = Model::new(&[false, true]);
    for _ in 0..2000 {
        model.round();
    }
    let [stalled, healthy] = &model.sides[..] else {
        panic!()
    };
    assert!(stalled.queued < 8 * 1024 * 1024, "{}", stalled.queued);
    assert!(healthy.received > 500 * 1024 * 1024, "{}", healthy.received);
}

#[test]
fn several_of_each_kind() {
    let mut model = Model::new(&[false, true, false, true, true]);
    for _ in 0..2000 {
        model.round();
    }
    for side in &model.sides {
        if side.reads {
            assert!(side.received > 100 * 1024 * 1024, "{}", side.received);
        } else {
            assert!(side.queued < 16 * 1024 * 1024, "{}", side.queued);
        }
    }
}

#[test]
fn a_quiet_stalled_channel_does_not_starve_others() {
    let mut model = Model::new(&[false, true]);
    // The first client sends its whole window and then nothing more.
    for _ in 0..40 {
        model.round();
    }
    model.sides[0].credit = 0;
    model.back.retain(|(id, _)| *id != 0);
    model.wire.retain(|(id, _)| *id != 0);
    let before = model.sides[1].received;
    for _ in 0..300 {
        model.round();
        model.sides[0].credit = 0;
    }
    assert!(model.sides[1].received - before > 50 * 1024 * 1024);
}

#[test]
fn a_drained_channel_comes_back() {
    let mut model = Model::new(&[false]);
    for _ in 0..100 {
        model.round();
    }
    let before = model.sides[0].received;
    model.round();
    assert!(model.sides[0].received - before <= u64::from(TRICKLE));
    model.sides[0].reads = true;
    for _ in 0..100 {
        model.round();
    }
    assert!(model.sides[0].received - before > 50 * 1024 * 1024);
}

#[test]
fn what_is_in_flight_survives_a_key_exchange() {
    let mut model = Model::new(&[true; 5]);
    for round in 0..300 {
        model.round();
        let open: u64 = model.sides.iter().map(|s| u64::from(s.window)).sum();
        if round > 50 {
            assert!(open < 2 * u64::from(INITIAL), "{open} in round {round}");
        }
    }
}

#[test]
fn channels_that_are_no_more_are_forgotten() {
    let mut windows = Windows::default();
    for id in 0..1000 {
        windows.received(id, 10);
        windows.adjusted(id, INITIAL, |other| (other == id).then_some(false));
    }
    assert_eq!(windows.channels.len(), 1);
}
