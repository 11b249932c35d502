//! A guest's screen: what stands on it, drawn from rectangles.
//!
//! It has the guest's name, a clock that counts the seconds since boot, what was
//! typed, and a square where the pointer is, so that whoever looks sees it change.

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// Its width in pixels.
pub const WIDTH: u16 = 640;
/// Its height in pixels.
pub const HEIGHT: u16 = 480;

const BACKGROUND: u32 = 0x0010_1820;
const FRAME: u32 = 0x0030_6080;
const BRIGHT: u32 = 0x00e0_e8f0;
const DIM: u32 = 0x0070_90a0;
const POINTER: u32 = 0x0040_c060;
const PRESSED: u32 = 0x00e0_5040;

/// A glyph is 3 by 5 dots; with the gap a letter takes 4 by 6.
const GLYPH: (usize, usize) = (4, 6);
/// Dots of what is typed, in pixels.
const SCALE: usize = 3;
/// Letters in a line of what is typed.
const LINE: usize = (WIDTH as usize - 40) / (GLYPH.0 * SCALE);
/// Lines of it.
const LINES: usize = 10;

/// Rows of each glyph from the top, three bits each.
const GLYPHS: [(char, [u8; 5]); 42] = [
    ('0', [7, 5, 5, 5, 7]),
    ('1', [2, 6, 2, 2, 7]),
    ('2', [7, 1, 7, 4, 7]),
    ('3', [7, 1, 7, 1, 7]),
    ('4', [5, 5, 7, 1, 1]),
    ('5', [7, 4, 7, 1, 7]),
    ('6', [7, 4, 7, 5, 7]),
    ('7', [7, 1, 1, 2, 2]),
    ('8', [7, 5, 7, 5, 7]),
    ('9', [7, 5, 7, 1, 7]),
    ('A', [2, 5, 7, 5, 5]),
    ('B', [6, 5, 6, 5, 6]),
    ('C', [3, 4, 4, 4, 3]),
    ('D', [6, 5, 5, 5, 6]),
    ('E', [7, 4, 6, 4, 7]),
    ('F', [7, 4, 6, 4, 4]),
    ('G', [3, 4, 5, 5, 3]),
    ('H', [5, 5, 7, 5, 5]),
    ('I', [7, 2, 2, 2, 7]),
    ('J', [1, 1, 1, 5, 2]),
    ('K', [5, 5, 6, 5, 5]),
    ('L', [4, 4, 4, 4, 7]),
    ('M', [5, 7, 7, 5, 5]),
    ('N', [6, 5, 5, 5, 5]),
    ('O', [2, 5, 5, 5, 2]),
    ('P', [6, 5, 6, 4, 4]),
    ('Q', [2, 5, 5, 6, 3]),
    ('R', [6, 5, 6, 5, 5]),
    ('S', [3, 4, 2, 1, 6]),
    ('T', [7, 2, 2, 2, 2]),
    ('U', [5, 5, 5, 5, 7]),
    ('V', [5, 5, 5, 5, 2]),
    ('W', [5, 5, 7, 7, 5]),
    ('X', [5, 5, 2, 5, 5]),
    ('Y', [5, 5, 2, 2, 2]),
    ('Z', [7, 1, 2, 4, 7]),
    (' ', [0, 0, 0, 0, 0]),
    (':', [0, 2, 0, 2, 0]),
    ('.', [0, 0, 0, 0, 2]),
    ('-', [0, 0, 7, 0, 0]),
    ('/', [1, 1, 2, 4, 4]),
    ('_', [0, 0, 0, 0, 7]),
];

#[derive(Debug, Default, Clone)]
struct Seen {
    /// Lines that were typed; the last one is being typed.
    typed: Vec<String>,
    pointer: (u16, u16),
    pressed: bool,
}

/// A screen with a keyboard and a mouse.
#[derive(Debug)]
pub struct Screen {
    hostname: String,
    booted: Instant,
    seen: Mutex<Seen>,
    changed: watch::Sender<()>,
}

impl Screen {
    /// The screen of a guest that boots now.
    pub fn new(hostname: &str) -> Self {
        Self {
            hostname: hostname.to_owned(),
            booted: Instant::now(),
            seen: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    /// What the guest is called.
    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// Tells of every change but the clock's.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// A key went down, as an X11 keysym (RFC 6143 §7.5.4).
    pub fn key(&self, keysym: u32) {
        let mut seen = self.seen.lock();
        if seen.typed.is_empty() {
            seen.typed.push(String::new());
        }
        match keysym {
            0xff08 => {
                if seen
                    .typed
                    .last_mut()
                    .is_some_and(|line| line.pop().is_none())
                    && seen.typed.len() > 1
                {
                    seen.typed.pop();
                }
            }
            0xff0d | 0xff8d => seen.typed.push(String::new()),
            0x20..=0x7e => {
                if let (Some(letter), Some(line)) = (char::from_u32(keysym), seen.typed.last_mut())
                {
                    line.push(letter);
                    if line.len() >= LINE {
                        seen.typed.push(String::new());
                    }
                }
            }
            _ => return,
        }
        let beyond = seen.typed.len().saturating_sub(LINES);
        seen.typed.drain(..beyond);
        drop(seen);
        self.changed.send_replace(());
    }

    /// The pointer is at a place, with these buttons down.
    pub fn point(&self, x: u16, y: u16, buttons: u8) {
        let mut seen = self.seen.lock();
        seen.pointer = (x.min(WIDTH - 1), y.min(HEIGHT - 1));
        seen.pressed = buttons & 0b111 != 0;
        drop(seen);
        self.changed.send_replace(());
    }

    /// The picture as it is now: rows from the top, each pixel as `0xRRGGBB`.
    pub fn picture(&self) -> Vec<u32> {
        let seen = self.seen.lock().clone();
        let seconds = self.booted.elapsed().as_secs();
        let mut canvas = Canvas::new();
        canvas.fill(0, 0, WIDTH.into(), 44, FRAME);
        canvas.write(20, 12, 4, BRIGHT, &self.hostname);
        let clock = format!(
            "{:02}:{:02}:{:02}",
            seconds / 3600 % 100,
            seconds / 60 % 60,
            seconds % 60
        );
        canvas.write(20, 70, 10, BRIGHT, &clock);
        canvas.write(20, 145, 3, DIM, "KITE DEMO GUEST. TYPE AND POINT.");
        for (number, line) in seen.typed.iter().enumerate() {
            canvas.write(20, 190 + number * 27, SCALE, BRIGHT, line);
        }
        // The cursor blinks.
        if seconds.is_multiple_of(2) {
            let line = seen.typed.len().saturating_sub(1);
            let column = seen.typed.last().map_or(0, String::len);
            let x = 20 + column * GLYPH.0 * SCALE;
            canvas.fill(x, 190 + line * 27, 9, 15, DIM);
        }
        let colour = if seen.pressed { PRESSED } else { POINTER };
        let (x, y) = seen.pointer;
        canvas.fill(x.into(), y.into(), 12, 12, colour);
        canvas.pixels
    }
}

struct Canvas {
    pixels: Vec<u32>,
}

impl Canvas {
    fn new() -> Self {
        let size = usize::from(WIDTH) * usize::from(HEIGHT);
        Self {
            pixels: vec![BACKGROUND; size],
        }
    }

    /// Fills a rectangle; what lies outside is cut off.
    fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, colour: u32) {
        let right = (x + width).min(WIDTH.into());
        for row in y..(y + height).min(HEIGHT.into()) {
            let start = row * usize::from(WIDTH);
            if let Some(pixels) = self.pixels.get_mut(start + x.min(right)..start + right) {
                pixels.fill(colour);
            }
        }
    }

    /// Writes a text; letters without a glyph are a dash.
    fn write(&mut self, x: usize, y: usize, scale: usize, colour: u32, text: &str) {
        for (place, letter) in text.chars().enumerate() {
            let letter = letter.to_ascii_uppercase();
            let find = |wanted| GLYPHS.iter().find(|(glyph, _)| *glyph == wanted);
            let Some((_, rows)) = find(letter).or_else(|| find('-')) else {
                continue;
            };
            let left = x + place * GLYPH.0 * scale;
            for (down, row) in rows.iter().enumerate() {
                for across in 0..3 {
                    if row >> (2 - across) & 1 == 1 {
                        let (x, y) = (left + across * scale, y + down * scale);
                        self.fill(x, y, scale, scale, colour);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_changes_with_time_keys_and_the_pointer() {
        let screen = Screen::new("web");
        let first = screen.picture();
        assert_eq!(first.len(), usize::from(WIDTH) * usize::from(HEIGHT));
        assert_eq!(first, screen.picture(), "nothing happened");
        tokio::time::advance(Duration::from_secs(2)).await;
        let later = screen.picture();
        assert_ne!(first, later);
        screen.key('a'.into());
        let typed = screen.picture();
        assert_ne!(later, typed);
        screen.key(0xff08);
        assert_eq!(later, screen.picture());
        screen.point(u16::MAX, u16::MAX, 1);
        assert_ne!(later, screen.picture());
    }

    #[test]
    fn however_much_is_typed_it_stays_bounded() {
        let screen = Screen::new("web");
        for _ in 0..LINE * LINES * 3 {
            screen.key('x'.into());
        }
        assert!(screen.seen.lock().typed.len() <= LINES);
        for _ in 0..LINE * LINES * 3 {
            screen.key(0xff08);
        }
        assert_eq!(screen.seen.lock().typed, [""]);
    }
}
