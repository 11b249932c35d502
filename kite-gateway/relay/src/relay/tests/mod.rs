#![allow(clippy::unwrap_used)]

mod connections;
mod messages;

use super::*;
use crate::message::*;
use crate::wire::Message;

fn settings(most_channels: usize) -> Settings {
    Settings {
        most_channels,
        ..Settings::new(Vec::new())
    }
}

fn open(kind: &str, number: u32) -> Vec<u8> {
    let message = Message::new(CHANNEL_OPEN).string(kind).number(number);
    message.number(1 << 20).number(1 << 15).done()
}

fn confirm(theirs: u32, ours: u32) -> Vec<u8> {
    let message = Message::new(CHANNEL_OPEN_CONFIRMATION).number(theirs);
    message.number(ours).number(1 << 20).number(1 << 15).done()
}

fn of_channel(number: u8, channel: u32) -> Vec<u8> {
    Message::new(number).number(channel).done()
}

fn data(channel: u32, bytes: &[u8]) -> Vec<u8> {
    let message = Message::new(CHANNEL_DATA).number(channel);
    message.string(bytes).done()
}

fn asks(channel: u32, name: &str, wants_reply: bool) -> Vec<u8> {
    let message = Message::new(CHANNEL_REQUEST).number(channel);
    message.string(name).boolean(wants_reply).done()
}

fn asks_globally(name: &str, wants_reply: bool) -> Vec<u8> {
    let message = Message::new(GLOBAL_REQUEST).string(name);
    message.boolean(wants_reply).done()
}
