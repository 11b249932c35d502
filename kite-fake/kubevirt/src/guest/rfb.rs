//! A small VNC server (RFC 6143, RFB 3.8): no security, raw pixels.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::screen::{HEIGHT, Screen, WIDTH};

const VERSION: &[u8; 12] = b"RFB 003.008\n";
/// Security type `None` (§7.2.1).
const NO_SECURITY: u8 = 1;
/// Encoding `Raw` (§7.7.1).
const RAW: i32 = 0;
/// Longest text that a client may cut.
const MAX_CUT: u32 = 1024 * 1024;
/// How often the picture is looked at while nothing is typed.
const TICK: Duration = Duration::from_millis(250);

/// How a client wants its pixels (§7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format {
    /// 1, 2 or 4.
    bytes: usize,
    big_endian: bool,
    max: [u16; 3],
    shift: [u8; 3],
}

impl Format {
    /// The server's own.
    const NATIVE: Self = Self {
        bytes: 4,
        big_endian: false,
        max: [255; 3],
        shift: [16, 8, 0],
    };

    /// Reads one of 16 bytes.
    fn read(bytes: [u8; 16]) -> io::Result<Self> {
        let [
            bits,
            _,
            big,
            colour,
            r1,
            r0,
            g1,
            g0,
            b1,
            b0,
            red,
            green,
            blue,
            ..,
        ] = bytes;
        if colour == 0 || !matches!(bits, 8 | 16 | 32) || red.max(green).max(blue) > 31 {
            return Err(unexpected("a pixel format that is not played"));
        }
        Ok(Self {
            bytes: usize::from(bits / 8),
            big_endian: big != 0,
            max: [[r1, r0], [g1, g0], [b1, b0]].map(u16::from_be_bytes),
            shift: [red, green, blue],
        })
    }

    fn write(self) -> [u8; 16] {
        let [r, g, b] = self.max.map(u16::to_be_bytes);
        let [red, green, blue] = self.shift;
        let bits = u8::try_from(self.bytes * 8).unwrap_or(32);
        let big = u8::from(self.big_endian);
        [
            bits, 24, big, 1, r[0], r[1], g[0], g[1], b[0], b[1], red, green, blue, 0, 0, 0,
        ]
    }

    /// Adds a pixel.
    fn put(self, pixel: u32, out: &mut Vec<u8>) {
        let [_, red, green, blue] = pixel.to_be_bytes();
        let mut value = 0;
        for ((part, max), shift) in [red, green, blue].iter().zip(self.max).zip(self.shift) {
            value |= (u32::from(*part) * u32::from(max) / 255) << shift;
        }
        if self.big_endian {
            out.extend_from_slice(&value.to_be_bytes()[4 - self.bytes..]);
        } else {
            out.extend_from_slice(&value.to_le_bytes()[..self.bytes]);
        }
    }
}

fn unexpected(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What the drawing side has to know of the client.
enum Asked {
    Format(Format),
    /// The picture; all of it, or what changed.
    Update {
        incremental: bool,
    },
}

/// Serves one viewer until the stream ends.
pub async fn serve(screen: &Screen, stream: impl AsyncRead + AsyncWrite + Send) -> io::Result<()> {
    let (mut input, mut output) = tokio::io::split(stream);
    greet(screen, &mut input, &mut output).await?;
    // Requests that wait are as good as one; more than these come from nobody.
    let (ask, asked) = mpsc::channel(16);
    tokio::select! {
        ended = listen(screen, input, ask) => ended,
        ended = draw(screen, output, asked) => ended,
    }
}

/// The handshake (§7.1 to §7.3).
async fn greet(
    screen: &Screen,
    input: &mut (impl AsyncRead + Unpin),
    output: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    output.write_all(VERSION).await?;
    let mut version = [0; 12];
    input.read_exact(&mut version).await?;
    if version != *VERSION {
        return Err(unexpected("another version than 3.8"));
    }
    output.write_all(&[1, NO_SECURITY]).await?;
    if input.read_u8().await? != NO_SECURITY {
        return Err(unexpected("another security type than None"));
    }
    output.write_u32(0).await?;
    let _shared = input.read_u8().await?;
    let name = screen.hostname().as_bytes();
    let mut init = Vec::new();
    init.extend_from_slice(&WIDTH.to_be_bytes());
    init.extend_from_slice(&HEIGHT.to_be_bytes());
    init.extend_from_slice(&Format::NATIVE.write());
    let length = u32::try_from(name.len()).unwrap_or_default();
    init.extend_from_slice(&length.to_be_bytes());
    init.extend_from_slice(name);
    output.write_all(&init).await
}

/// Reads what the client says (§7.5).
async fn listen(
    screen: &Screen,
    mut input: impl AsyncRead + Unpin,
    ask: mpsc::Sender<Asked>,
) -> io::Result<()> {
    loop {
        match input.read_u8().await? {
            0 => {
                let mut message = [0; 19];
                input.read_exact(&mut message).await?;
                let mut format = [0; 16];
                format.copy_from_slice(&message[3..]);
                // Nobody listens only when it is over.
                let _ = ask.send(Asked::Format(Format::read(format)?)).await;
            }
            2 => {
                input.read_u8().await?;
                let count = input.read_u16().await?;
                for _ in 0..count {
                    // Whatever else it knows, every client knows raw pixels.
                    input.read_i32().await?;
                }
            }
            3 => {
                let incremental = input.read_u8().await? != 0;
                let mut place = [0; 8];
                input.read_exact(&mut place).await?;
                let _ = ask.send(Asked::Update { incremental }).await;
            }
            4 => {
                let down = input.read_u8().await? != 0;
                input.read_u16().await?;
                let keysym = input.read_u32().await?;
                if down {
                    screen.key(keysym);
                }
            }
            5 => {
                let buttons = input.read_u8().await?;
                let (x, y) = (input.read_u16().await?, input.read_u16().await?);
                screen.point(x, y, buttons);
            }
            6 => {
                let mut padding = [0; 3];
                input.read_exact(&mut padding).await?;
                let length = input.read_u32().await?;
                if length > MAX_CUT {
                    return Err(unexpected("a text that is too long"));
                }
                let mut text = (&mut input).take(length.into());
                tokio::io::copy(&mut text, &mut tokio::io::sink()).await?;
            }
            other => return Err(unexpected(&format!("message type {other}"))),
        }
    }
}

/// Sends pictures, when one is asked for and there is something new.
async fn draw(
    screen: &Screen,
    mut output: impl AsyncWrite + Unpin,
    mut asked: mpsc::Receiver<Asked>,
) -> io::Result<()> {
    let (mut format, mut shown) = (Format::NATIVE, None::<Vec<u32>>);
    let mut waiting = false;
    let mut changes = screen.changes();
    loop {
        tokio::select! {
            next = asked.recv() => match next {
                Some(Asked::Format(wanted)) => {
                    format = wanted;
                    shown = None;
                }
                Some(Asked::Update { incremental }) => {
                    waiting = true;
                    if !incremental {
                        shown = None;
                    }
                }
                None => return Ok(()),
            },
            _ = changes.changed(), if waiting => {}
            () = tokio::time::sleep(TICK), if waiting => {}
        }
        if !waiting {
            continue;
        }
        let picture = screen.picture();
        if let Some((top, bottom)) = differ(shown.as_deref(), &picture) {
            output
                .write_all(&update(&picture, top, bottom, format))
                .await?;
            output.flush().await?;
            shown = Some(picture);
            waiting = false;
        }
    }
}

/// The first row that differs, and the one behind the last.
fn differ(shown: Option<&[u32]>, picture: &[u32]) -> Option<(u16, u16)> {
    let Some(shown) = shown else {
        return Some((0, HEIGHT));
    };
    let width = usize::from(WIDTH);
    let mut rows = (0..HEIGHT).filter(|row| {
        let start = usize::from(*row) * width;
        shown.get(start..start + width) != picture.get(start..start + width)
    });
    let first = rows.next()?;
    let last = rows.next_back().unwrap_or(first);
    Some((first, last + 1))
}

/// A `FramebufferUpdate` of one rectangle (§7.6.1).
fn update(picture: &[u32], top: u16, bottom: u16, format: Format) -> Vec<u8> {
    let width = usize::from(WIDTH);
    let pixels = picture.get(usize::from(top) * width..usize::from(bottom) * width);
    let pixels = pixels.unwrap_or_default();
    let mut out = Vec::with_capacity(16 + pixels.len() * format.bytes);
    out.extend_from_slice(&[0, 0, 0, 1]);
    for number in [0, top, WIDTH, bottom - top] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(&RAW.to_be_bytes());
    for pixel in pixels {
        format.put(*pixel, &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use tokio::io::DuplexStream;

    use super::*;

    /// A viewer that has shaken hands.
    async fn viewer(screen: &Arc<Screen>) -> DuplexStream {
        let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
        let screen = Arc::clone(screen);
        tokio::spawn(async move { serve(&screen, theirs).await });
        let mut version = [0; 12];
        ours.read_exact(&mut version).await.unwrap();
        assert_eq!(&version, VERSION);
        ours.write_all(VERSION).await.unwrap();
        assert_eq!(ours.read_u16().await.unwrap(), 0x0101);
        ours.write_u8(NO_SECURITY).await.unwrap();
        assert_eq!(ours.read_u32().await.unwrap(), 0);
        ours.write_u8(1).await.unwrap();
        let mut init = [0; 24];
        ours.read_exact(&mut init).await.unwrap();
        assert_eq!(init[..4], [2, 128, 1, 224], "640 by 480");
        let mut name = vec![0; usize::from(init[23])];
        ours.read_exact(&mut name).await.unwrap();
        assert_eq!(name, b"web");
        ours
    }

    async fn ask(viewer: &mut DuplexStream, incremental: u8) {
        let mut message = vec![3, incremental, 0, 0, 0, 0];
        message.extend_from_slice(&WIDTH.to_be_bytes());
        message.extend_from_slice(&HEIGHT.to_be_bytes());
        viewer.write_all(&message).await.unwrap();
    }

    /// Top, height and pixels of the next update.
    async fn next(viewer: &mut DuplexStream, bytes: usize) -> (u16, u16, Vec<u8>) {
        assert_eq!(viewer.read_u32().await.unwrap(), 1, "one rectangle");
        let (left, top) = (
            viewer.read_u16().await.unwrap(),
            viewer.read_u16().await.unwrap(),
        );
        let (width, height) = (
            viewer.read_u16().await.unwrap(),
            viewer.read_u16().await.unwrap(),
        );
        assert_eq!((left, width), (0, WIDTH));
        assert_eq!(viewer.read_i32().await.unwrap(), RAW);
        let mut pixels = vec![0; usize::from(width) * usize::from(height) * bytes];
        viewer.read_exact(&mut pixels).await.unwrap();
        (top, height, pixels)
    }

    #[tokio::test]
    async fn a_viewer_gets_all_and_then_what_changed() {
        let screen = Arc::new(Screen::new("web"));
        let mut viewer = viewer(&screen).await;
        ask(&mut viewer, 0).await;
        let (top, height, all) = next(&mut viewer, 4).await;
        assert_eq!((top, height), (0, HEIGHT));
        assert_eq!(
            all[..4],
            [0x60, 0xc0, 0x40, 0],
            "the pointer, in the corner"
        );
        // A key: only its rows come.
        ask(&mut viewer, 1).await;
        viewer
            .write_all(&[4, 1, 0, 0, 0, 0, 0, b'x'])
            .await
            .unwrap();
        let (_, height, _) = next(&mut viewer, 4).await;
        assert!(height < HEIGHT, "{height}");
        // Another format, and then all again.
        let mut set = vec![0; 4];
        let narrow = Format {
            bytes: 2,
            big_endian: true,
            max: [31, 63, 31],
            shift: [11, 5, 0],
        };
        set.extend_from_slice(&narrow.write());
        viewer.write_all(&set).await.unwrap();
        ask(&mut viewer, 0).await;
        let (_, height, all) = next(&mut viewer, 2).await;
        assert_eq!((height, all.len()), (HEIGHT, 640 * 480 * 2));
    }

    #[tokio::test]
    async fn what_makes_no_sense_ends_it() {
        let screen = Arc::new(Screen::new("web"));
        for message in [&[99][..], &[6, 0, 0, 0, 255, 255, 255, 255]] {
            let mut viewer = viewer(&screen).await;
            viewer.write_all(message).await.unwrap();
            assert!(viewer.read_u8().await.is_err());
        }
    }

    #[test]
    fn pixels_follow_the_format() {
        let mut out = Vec::new();
        Format::NATIVE.put(0x0011_2233, &mut out);
        let rgb = Format {
            shift: [0, 8, 16],
            ..Format::NATIVE
        };
        rgb.put(0x0011_2233, &mut out);
        assert_eq!(out, [0x33, 0x22, 0x11, 0, 0x11, 0x22, 0x33, 0]);
        assert_eq!(Format::read(rgb.write()).unwrap(), rgb);
    }
}
