//! The protobuf wire format (protobuf.dev, "Encoding").

use super::Malformed;

/// How a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Varint,
    Fixed64,
    Bytes,
    StartGroup,
    EndGroup,
    Fixed32,
}

impl Wire {
    /// What a field with this number of a type begins with, of the message `message`.
    fn of(bits: u64) -> Result<Self, Malformed> {
        Ok(match bits & 7 {
            0 => Self::Varint,
            1 => Self::Fixed64,
            2 => Self::Bytes,
            3 => Self::StartGroup,
            4 => Self::EndGroup,
            5 => Self::Fixed32,
            other => return Err(Malformed::IllegalWire(other)),
        })
    }

    /// Its number.
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Varint => 0,
            Self::Fixed64 => 1,
            Self::Bytes => 2,
            Self::StartGroup => 3,
            Self::EndGroup => 4,
            Self::Fixed32 => 5,
        }
    }
}

/// Reads the fields of a message in order.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Number and type of the next field, whose value is to be read or skipped; `None`
    /// at the end. `message` is what an error calls the message.
    pub(crate) fn tag(&mut self, message: &str) -> Result<Option<(u32, Wire)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let short = || message.rsplit('.').next().unwrap_or(message).to_owned();
        if tag & 7 == Wire::EndGroup.number() {
            return Err(Malformed::EndOfNoGroup(short()));
        }
        // Go takes the lower half of what is left.
        #[expect(clippy::cast_possible_truncation, reason = "as Go does")]
        let number = (tag >> 3) as u32;
        if number == 0 || number > i32::MAX.unsigned_abs() {
            return Err(Malformed::IllegalTag {
                message: short(),
                number: number.cast_signed(),
                tag,
            });
        }
        Ok(Some((number, Wire::of(tag)?)))
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.rest.split_first().ok_or(Malformed::CutOff)?;
            self.rest = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed::Overflow)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let count = self.varint()?;
        if count.cast_signed() < 0 {
            return Err(Malformed::Length);
        }
        self.take(usize::try_from(count).map_err(|_| Malformed::Length)?)
    }

    pub(crate) fn fixed64(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8)?;
        Ok(u64::from_le_bytes(
            bytes.try_into().map_err(|_| Malformed::CutOff)?,
        ))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed::CutOff)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Skips the value of a field.
    pub(crate) fn skip(&mut self, wire: Wire) -> Result<(), Malformed> {
        let mut depth = 0_usize;
        let mut wire = wire;
        loop {
            match wire {
                Wire::Varint => drop(self.varint()?),
                Wire::Fixed64 => drop(self.take(8)?),
                Wire::Bytes => drop(self.bytes()?),
                Wire::Fixed32 => drop(self.take(4)?),
                Wire::StartGroup => depth += 1,
                Wire::EndGroup => {
                    depth = depth.checked_sub(1).ok_or(Malformed::EndOfGroup)?;
                }
            }
            if depth == 0 {
                return Ok(());
            }
            wire = Wire::of(self.varint()?)?;
        }
    }
}

/// The lower half of a number, which Go keeps of an `int32`.
pub(crate) fn int32(number: u64) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "as Go does")]
    (number as u32).cast_signed()
}

/// What was read of a field; nothing, and zero, where it is not there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Read<'a> {
    number: u64,
    pub(crate) bytes: &'a [u8],
}

impl Read<'_> {
    pub(crate) fn int64(self) -> i64 {
        self.number.cast_signed()
    }

    pub(crate) fn int32(self) -> i32 {
        int32(self.number)
    }

    /// As Go reads strings: what is no UTF-8 is replaced.
    pub(crate) fn text(self) -> String {
        String::from_utf8_lossy(self.bytes).into_owned()
    }
}

/// Reads the fields 1 to `N` of a small message, with their types and names in Go.
pub(crate) fn fields<'a, const N: usize>(
    message: &str,
    fields: [(Wire, &str); N],
    bytes: &'a [u8],
) -> Result<[Read<'a>; N], Malformed> {
    let mut found = [Read::default(); N];
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.tag(message)? {
        let at = usize::try_from(number).unwrap_or(usize::MAX) - 1;
        let Some(((wanted, name), slot)) = fields.get(at).zip(found.get_mut(at)) else {
            reader.skip(wire)?;
            continue;
        };
        if wire != *wanted {
            return Err(Malformed::WrongWire {
                wire: wire.number(),
                field: (*name).to_owned(),
            });
        }
        match wire {
            Wire::Bytes => slot.bytes = reader.bytes()?,
            _ => slot.number = reader.varint()?,
        }
    }
    Ok(found)
}

/// Writes a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "the lowest seven bits")]
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is less than 128")]
    out.push(value as u8);
}

/// Writes what a field begins with.
pub(crate) fn put_tag(out: &mut Vec<u8>, number: u32, wire: Wire) {
    put_varint(out, u64::from(number) << 3 | wire.number());
}

/// Writes a field of bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_tag(out, number, Wire::Bytes);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a field whose value `write` writes, of whatever length.
pub(crate) fn put_nested<E>(
    out: &mut Vec<u8>,
    number: u32,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    put_tag(out, number, Wire::Bytes);
    // Mostly the length is one byte; a longer one moves the value.
    let at = out.len();
    out.push(0);
    write(out)?;
    let mut length = Vec::with_capacity(4);
    put_varint(&mut length, (out.len() - at - 1) as u64);
    out.splice(at..=at, length);
    Ok(())
}

/// How many bytes a varint takes.
pub(crate) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// How many bytes a field of so many bytes takes, of a number below 16.
pub(crate) fn field_len(bytes: usize) -> usize {
    1 + varint_len(bytes as u64) + bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_varint_is_read_as_it_is_written() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
            assert_eq!(Reader::new(&out).varint().unwrap(), value);
        }
        assert!(matches!(
            Reader::new(&[0x80; 11]).varint(),
            Err(Malformed::Overflow)
        ));
        assert!(matches!(
            Reader::new(&[0x80; 3]).varint(),
            Err(Malformed::CutOff)
        ));
    }

    #[test]
    fn a_small_message_is_of_its_types() {
        let expected = [(Wire::Varint, "Type"), (Wire::Bytes, "Text")];
        let [number, text] = fields("X", expected, &[8, 7, 18, 1, b'a', 26, 0]).unwrap();
        assert_eq!((number.int32(), text.text()), (7, "a".to_owned()));
        let error = fields("X", expected, &[10, 0]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "proto: wrong wireType = 2 for field Type"
        );
    }

    #[test]
    fn a_long_value_gets_a_long_length() {
        let mut out = Vec::new();
        put_nested(&mut out, 3, |out| {
            out.extend([7; 200]);
            Ok::<_, Malformed>(())
        })
        .unwrap();
        let mut reader = Reader::new(&out);
        assert_eq!(reader.tag("X").unwrap(), Some((3, Wire::Bytes)));
        assert_eq!(reader.bytes().unwrap(), [7; 200]);
        assert_eq!(reader.tag("X").unwrap(), None);
    }

    #[test]
    fn groups_are_skipped_with_all_that_is_in_them() {
        // Group 1 { 2: varint, group 3 { } }, then field 4.
        let bytes = [0x0b, 0x10, 0x05, 0x1b, 0x1c, 0x0c, 0x20, 0x01];
        let mut reader = Reader::new(&bytes);
        let (_, wire) = reader.tag("X").unwrap().unwrap();
        reader.skip(wire).unwrap();
        assert_eq!(reader.tag("X").unwrap(), Some((4, Wire::Varint)));
        let error = Reader::new(&[0x0c]).tag("core.v1.Pod").unwrap_err();
        assert_eq!(
            error.to_string(),
            "proto: Pod: wiretype end group for non-group"
        );
        let error = Reader::new(&[0x02]).tag("core.v1.Pod").unwrap_err();
        assert_eq!(error.to_string(), "proto: Pod: illegal tag 0 (wire type 2)");
    }
}
