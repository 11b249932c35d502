//! Schedules as cron writes them: five fields, in UTC.

use jiff::civil::{DateTime, date};
use jiff::{Timestamp, ToSpan as _};

/// How far ahead a next time is looked for: leap days come at least every
/// eight years.
const YEARS: i16 = 9;

/// A schedule: which minutes, hours, days, months and weekdays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// With both set, either day will do.
    any_day: bool,
    any_weekday: bool,
}

impl Schedule {
    /// Reads `minute hour day month weekday`, or one of the names such as
    /// `@daily`. `None` when it is no schedule.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text => text,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return None;
        };
        let mut week = field(weekdays, 0, 7, &WEEKDAYS)?;
        // Sunday is 0 and 7.
        if week & (1 << 7) != 0 {
            week |= 1;
        }
        Some(Self {
            minutes: field(minutes, 0, 59, &[])?,
            hours: field(hours, 0, 23, &[])?,
            days: field(days, 1, 31, &[])?,
            months: field(months, 1, 12, &MONTHS)?,
            weekdays: week,
            any_day: days.starts_with('*') || days == "?",
            any_weekday: weekdays.starts_with('*') || weekdays == "?",
        })
    }

    /// The first time after `at`.
    pub(super) fn next(&self, at: Timestamp) -> Option<Timestamp> {
        let zone = jiff::tz::TimeZone::UTC;
        let mut now: DateTime = at.to_zoned(zone.clone()).datetime();
        now = now.with().second(0).subsec_nanosecond(0).build().ok()?;
        now = now.checked_add(1.minute()).ok()?;
        let last = now.year().checked_add(YEARS)?;
        while now.year() <= last {
            if !has(self.months, now.month()) {
                now = date(now.year(), now.month(), 1).at(0, 0, 0, 0);
                now = now.checked_add(1.month()).ok()?;
            } else if !self.has_day(now) {
                now = now.date().at(0, 0, 0, 0).checked_add(1.day()).ok()?;
            } else if !has(self.hours, now.hour()) {
                now = now.with().minute(0).build().ok()?;
                now = now.checked_add(1.hour()).ok()?;
            } else if has(self.minutes, now.minute()) {
                return Some(now.to_zoned(zone).ok()?.timestamp());
            } else {
                now = now.checked_add(1.minute()).ok()?;
            }
        }
        None
    }

    fn has_day(&self, at: DateTime) -> bool {
        let day = has(self.days, at.day());
        let weekday = has(self.weekdays, at.weekday().to_sunday_zero_offset());
        if self.any_day || self.any_weekday {
            day && weekday
        } else {
            day || weekday
        }
    }
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

fn has(set: u64, member: i8) -> bool {
    u32::try_from(member).is_ok_and(|member| set & (1 << member) != 0)
}

/// A field as a set of numbers: a list of ranges with steps. `names` stand for
/// numbers from `least` on.
fn field(text: &str, least: u32, most: u32, names: &[&str]) -> Option<u64> {
    let number = |text: &str| -> Option<u32> {
        let lower = text.to_lowercase();
        let found = names.iter().position(|name| *name == lower);
        let value = match found {
            Some(place) => least + u32::try_from(place).ok()?,
            None => text.parse().ok()?,
        };
        (least..=most).contains(&value).then_some(value)
    };
    let mut set = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<u32>().ok().filter(|s| *s > 0)?)),
            None => (part, None),
        };
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (number(from)?, number(to)?),
            None if range == "*" || range == "?" => (least, most),
            None if step.is_some() => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return None;
        }
        let step = usize::try_from(step.unwrap_or(1)).ok()?;
        for member in (from..=to).step_by(step) {
            set |= 1 << member;
        }
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn next(schedule: &str, at: &str) -> String {
        let at: Timestamp = at.parse().unwrap();
        let next = Schedule::parse(schedule).unwrap().next(at).unwrap();
        next.to_string()
    }

    #[test]
    fn the_next_time_is_after_now() {
        let at = "2026-11-21T17:05:30Z";
        assert_eq!(next("* * * * *", at), "2026-11-21T17:06:00Z");
        assert_eq!(next("*/15 * * * *", at), "2026-11-21T17:15:00Z");
        assert_eq!(next("30 2 * * *", at), "2026-11-22T02:30:00Z");
        assert_eq!(next("0 0 1 jan *", at), "2027-01-01T00:00:00Z");
        assert_eq!(next("0 9-17/4 * * mon-fri", at), "2026-11-23T09:00:00Z");
        assert_eq!(next("0 0 29 2 *", at), "2028-02-29T00:00:00Z");
        assert_eq!(next("@weekly", at), "2026-11-22T00:00:00Z");
    }

    #[test]
    fn a_day_of_the_month_or_of_the_week_will_do() {
        let at = "2026-11-21T00:00:00Z";
        assert_eq!(next("0 0 30 * sun", at), "2026-11-22T00:00:00Z");
    }

    #[test]
    fn what_is_no_schedule_is_told_apart() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "x * * * *",
        ] {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
    }
}
