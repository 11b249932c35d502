//! What a cost or a size lies between.

/// Reading through a character of a text.
pub(super) const TRAVERSE: f64 = 0.1;
/// A character of a regular expression.
pub(super) const REGEX: f64 = 0.25;

/// From least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Range {
    pub(super) const UNKNOWN: Self = Self {
        min: 0,
        max: u64::MAX,
    };

    pub(super) fn just(n: u64) -> Self {
        Self { min: n, max: n }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    pub(super) fn by(self, factor: f64) -> Self {
        Self {
            min: scale(self.min, factor),
            max: scale(self.max, factor),
        }
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates; a cast saturates"
)]
fn scale(n: u64, factor: f64) -> u64 {
    (n as f64 * factor).ceil() as u64
}

/// Comparing ends with the smaller value.
pub(super) fn compared(a: Range, b: Range) -> Range {
    let max = a.max.min(b.max);
    Range {
        min: u64::from(max > 0),
        max,
    }
    .by(TRAVERSE)
}

/// How long a text may become by replacing parts of it.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates; a cast saturates"
)]
pub(super) fn replaced(text: Range, part: Range, by: Range) -> Range {
    let parts = |whole: u64, part: u64| (whole as f64 / part as f64).ceil() as u64;
    let (count_max, kept_max) = if part.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if by.max <= part.min {
        (0, text.max)
    } else {
        (parts(text.max, part.min), 0)
    };
    let (count_min, kept_min) = if part.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if part.max <= by.min {
        (0, text.min)
    } else {
        (parts(text.min, part.max), 0)
    };
    let count = Range {
        min: count_min,
        max: count_max,
    };
    count.times(by).plus(Range {
        min: kept_min,
        max: kept_max,
    })
}
