//! Line editing, as a terminal driver and a small shell's prompt do it.
//! Pure: bytes typed in, what to echo and what happened out.

/// Longest line that is kept; more is refused with a bell.
const MAX_LINE: usize = 4096;
/// Lines remembered for the arrow keys.
const MAX_HISTORY: usize = 100;

/// What a typed byte led to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Only the line under edit changed, if anything.
    None,
    /// A line was entered; without its newline.
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D on an empty line.
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Escape {
    None,
    Started,
    Bracket,
    Parameter(u8),
}

/// The line under edit, with a history.
#[derive(Debug)]
pub struct Editor {
    line: Vec<char>,
    cursor: usize,
    history: Vec<String>,
    /// Where the arrow keys are in the history; its length while at the new line.
    at: usize,
    escape: Escape,
    /// Bytes of a UTF-8 character that is not complete yet.
    partial: Vec<u8>,
    /// The last byte ended a line as CR: a following LF belongs to it.
    after_cr: bool,
}

impl Default for Editor {
    fn default() -> Self {
        Self {
            line: Vec::new(),
            cursor: 0,
            history: Vec::new(),
            at: 0,
            escape: Escape::None,
            partial: Vec::new(),
            after_cr: false,
        }
    }
}

impl Editor {
    /// Takes one byte; adds what the terminal should show to `echo`.
    ///
    /// `history` says whether the arrow keys walk the history (at a prompt) or
    /// not (while a command reads).
    pub fn feed(&mut self, byte: u8, history: bool, echo: &mut Vec<u8>) -> Event {
        let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
        if byte == b'\n' && after_cr {
            return Event::None;
        }
        if self.escape != Escape::None {
            self.escape_byte(byte, history, echo);
            return Event::None;
        }
        match byte {
            b'\r' | b'\n' => return self.enter(history, echo),
            0x01 => self.move_to(0, echo),
            0x02 => self.move_to(self.cursor.saturating_sub(1), echo),
            0x03 => {
                self.clear();
                echo.extend_from_slice(b"^C\r\n");
                return Event::Interrupt;
            }
            0x04 if self.line.is_empty() => return Event::End,
            0x04 => self.delete_at_cursor(echo),
            0x05 => self.move_to(self.line.len(), echo),
            0x06 => self.move_to(self.cursor + 1, echo),
            0x08 | 0x7f if self.cursor > 0 => {
                self.move_to(self.cursor - 1, echo);
                self.delete_at_cursor(echo);
            }
            0x0b => {
                self.line.truncate(self.cursor);
                echo.extend_from_slice(b"\x1b[K");
            }
            0x15 => self.replace(Vec::new(), echo),
            0x17 => self.erase_word(echo),
            0x1b => self.escape = Escape::Started,
            0x00..=0x1f | 0x7f => {}
            byte => self.text_byte(byte, echo),
        }
        Event::None
    }

    #[cfg(test)]
    fn pending(&self) -> String {
        self.line.iter().collect()
    }

    fn enter(&mut self, history: bool, echo: &mut Vec<u8>) -> Event {
        let line: String = self.line.iter().collect();
        self.clear();
        echo.extend_from_slice(b"\r\n");
        if history && !line.trim().is_empty() && self.history.last() != Some(&line) {
            if self.history.len() == MAX_HISTORY {
                self.history.remove(0);
            }
            self.history.push(line.clone());
        }
        self.at = self.history.len();
        Event::Line(line)
    }

    fn clear(&mut self) {
        self.line.clear();
        self.partial.clear();
        self.cursor = 0;
        self.at = self.history.len();
    }

    fn text_byte(&mut self, byte: u8, echo: &mut Vec<u8>) {
        self.partial.push(byte);
        let c = match std::str::from_utf8(&self.partial) {
            Ok(text) => text.chars().next(),
            Err(e) if e.error_len().is_none() && self.partial.len() < 4 => return,
            Err(_) => Some(char::REPLACEMENT_CHARACTER),
        };
        self.partial.clear();
        let Some(c) = c else { return };
        if self.line.len() >= MAX_LINE {
            echo.push(0x07);
            return;
        }
        self.line.insert(self.cursor, c);
        self.cursor += 1;
        push(echo, c);
        if self.cursor < self.line.len() {
            self.redraw_tail(echo);
        }
    }

    fn escape_byte(&mut self, byte: u8, history: bool, echo: &mut Vec<u8>) {
        let before = std::mem::replace(&mut self.escape, Escape::None);
        match (before, byte) {
            (Escape::Started, b'[' | b'O') => self.escape = Escape::Bracket,
            (Escape::Bracket, b'A') if history => self.recall(self.at.checked_sub(1), echo),
            (Escape::Bracket, b'B') if history => self.recall(Some(self.at + 1), echo),
            (Escape::Bracket, b'C') => self.move_to(self.cursor + 1, echo),
            (Escape::Bracket, b'D') => self.move_to(self.cursor.saturating_sub(1), echo),
            (Escape::Bracket, digit @ b'0'..=b'9') => self.escape = Escape::Parameter(digit),
            (Escape::Parameter(first), b'0'..=b'9' | b';') => {
                self.escape = Escape::Parameter(first);
            }
            (Escape::Parameter(b'3'), b'~') => self.delete_at_cursor(echo),
            (Escape::Bracket, b'H') | (Escape::Parameter(b'1' | b'7'), b'~') => {
                self.move_to(0, echo);
            }
            (Escape::Bracket, b'F') | (Escape::Parameter(b'4' | b'8'), b'~') => {
                self.move_to(self.line.len(), echo);
            }
            _ => {}
        }
    }

    fn recall(&mut self, at: Option<usize>, echo: &mut Vec<u8>) {
        let Some(at) = at.filter(|at| *at <= self.history.len()) else {
            return;
        };
        self.at = at;
        let line = self
            .history
            .get(at)
            .map_or_else(Vec::new, |l| l.chars().collect());
        self.replace(line, echo);
    }

    fn replace(&mut self, line: Vec<char>, echo: &mut Vec<u8>) {
        self.move_to(0, echo);
        echo.extend_from_slice(b"\x1b[K");
        self.cursor = line.len();
        for c in &line {
            push(echo, *c);
        }
        self.line = line;
    }

    fn erase_word(&mut self, echo: &mut Vec<u8>) {
        let before = self.line.get(..self.cursor).unwrap_or_default();
        let kept = before
            .iter()
            .rposition(|c| !c.is_whitespace())
            .and_then(|end| before.get(..end))
            .and_then(|word| word.iter().rposition(|c| c.is_whitespace()))
            .map_or(0, |at| at + 1);
        let removed = kept..self.cursor;
        self.move_to(kept, echo);
        self.line.drain(removed);
        self.redraw_tail(echo);
    }

    fn delete_at_cursor(&mut self, echo: &mut Vec<u8>) {
        if self.cursor < self.line.len() {
            self.line.remove(self.cursor);
            self.redraw_tail(echo);
        }
    }

    fn move_to(&mut self, to: usize, echo: &mut Vec<u8>) {
        let to = to.min(self.line.len());
        let (count, direction) = if to < self.cursor {
            (self.cursor - to, 'D')
        } else {
            (to - self.cursor, 'C')
        };
        if count > 0 {
            echo.extend_from_slice(format!("\x1b[{count}{direction}").as_bytes());
        }
        self.cursor = to;
    }

    /// Shows what stands behind the cursor again and puts the cursor back.
    fn redraw_tail(&self, echo: &mut Vec<u8>) {
        let tail = self.line.get(self.cursor..).unwrap_or_default();
        if !tail.is_empty() {
            for c in tail {
                push(echo, *c);
            }
        }
        echo.extend_from_slice(b"\x1b[K");
        if !tail.is_empty() {
            echo.extend_from_slice(format!("\x1b[{}D", tail.len()).as_bytes());
        }
    }
}

fn push(echo: &mut Vec<u8>, c: char) {
    echo.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(editor: &mut Editor, keys: &[u8]) -> (Vec<Event>, String) {
        let mut echo = Vec::new();
        let events = keys
            .iter()
            .map(|b| editor.feed(*b, true, &mut echo))
            .filter(|e| *e != Event::None)
            .collect();
        (events, String::from_utf8_lossy(&echo).into_owned())
    }

    fn line(keys: &[u8]) -> String {
        match typed(&mut Editor::default(), keys).0.as_slice() {
            [Event::Line(line)] => line.clone(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn edits() {
        for (keys, expected) in [
            (&b"hello\r"[..], "hello"),
            (b"helxx\x7f\x7flo\r", "hello"),
            (b"ello\x01h\x05!\r", "hello!"),
            (b"hllo\x1b[D\x1b[D\x1b[De\r", "hello"),
            (b"junk\x15hello\r", "hello"),
            (b"say  junk\x17hello\r", "say  hello"),
            (b"hello junk\x01\x06\x06\x06\x06\x06\x0b\r", "hello"),
            (b"xhello\x1b[H\x1b[3~\r", "hello"),
            ("gr\u{fc}n\r".as_bytes(), "gr\u{fc}n"),
            (b"a\x02\x02\x02b\r", "ba"),
        ] {
            assert_eq!(line(keys), expected, "{keys:?}");
        }
    }

    #[test]
    fn each_newline_counts_once() {
        let mut editor = Editor::default();
        let (events, _) = typed(&mut editor, b"a\r\nb\nc\r\r");
        let lines = ["a", "b", "c", ""].map(|l| Event::Line(l.to_owned()));
        assert_eq!(events, lines);
    }

    #[test]
    fn history_and_control() {
        let mut editor = Editor::default();
        typed(&mut editor, b"one\rtwo\r");
        assert_eq!(
            typed(&mut editor, b"\x1b[A\x1b[A\r").0,
            [Event::Line("one".into())]
        );
        assert_eq!(
            typed(&mut editor, b"\x1b[A\x1b[B\r").0,
            [Event::Line(String::new())]
        );
        assert_eq!(
            typed(&mut editor, b"xy\x03z\r").0,
            [Event::Interrupt, Event::Line("z".into())]
        );
        assert_eq!(typed(&mut editor, b"\x04").0, [Event::End]);
        assert_eq!(typed(&mut editor, b"a\x04\r").0, [Event::Line("a".into())]);
    }

    #[test]
    fn a_line_is_bounded() {
        let mut editor = Editor::default();
        let (_, echo) = typed(&mut editor, &[b'a'; MAX_LINE + 1]);
        assert!(echo.ends_with('\x07'));
        assert_eq!(editor.pending().len(), MAX_LINE);
    }

    #[test]
    fn noise_never_panics() {
        let mut editor = Editor::default();
        let mut state = 1_u32;
        let mut echo = Vec::new();
        for i in 0..20_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let byte = state.to_le_bytes()[3];
            editor.feed(if i % 7 == 0 { 0x1b } else { byte }, i % 3 != 0, &mut echo);
            echo.clear();
        }
    }
}
