//! Schedules as cron writes them and as `CronJob`s read them, in any time zone.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};

use crate::go;

/// How far ahead a next time is looked for: leap days come at least every
/// eight years.
const YEARS: i16 = 9;

/// A schedule.
///
/// ```
/// use jiff::tz::TimeZone;
/// use kite_fake::schedule::Schedule;
///
/// let schedule = Schedule::parse("30 2 * * mon-fri")?;
/// let next = schedule.next("2026-11-21T17:05:30Z".parse()?, &TimeZone::UTC);
/// assert_eq!(next, Some("2026-11-23T02:30:00Z".parse()?));
///
/// let wrong = Schedule::parse("60 2 * * *").unwrap_err();
/// assert_eq!(wrong.to_string(), "end of range (60) above maximum (59): 60");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule(Times);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Times {
    At(Fields),
    Every(SignedDuration),
}

/// Which minutes, hours, days, months and weekdays.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// With neither of these, either day will do.
    any_day: bool,
    any_weekday: bool,
}

/// Why a text is no schedule, in the words of the library that Kubernetes reads
/// schedules with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotASchedule(String);

impl Schedule {
    /// Reads `minute hour day month weekday`, one of the names such as `@daily`, or
    /// `@every` with a duration, as `CronJob`s have them: weekdays are 0 to 6.
    ///
    /// # Errors
    ///
    /// [`NotASchedule`] says which part cannot be read.
    pub fn parse(text: &str) -> Result<Self, NotASchedule> {
        Self::read(text, 6).map_err(NotASchedule)
    }

    /// As [`parse`](Self::parse), but Sunday may be 7, too, as CDI has it.
    ///
    /// # Errors
    ///
    /// [`NotASchedule`] says which part cannot be read.
    pub fn parse_with_seven(text: &str) -> Result<Self, NotASchedule> {
        Self::read(text, 7).map_err(NotASchedule)
    }

    fn read(text: &str, last_weekday: u32) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        if let Some(pause) = text.strip_prefix("@every ") {
            let pause = go::duration(pause)
                .map_err(|wrong| format!("failed to parse duration {text}: {wrong}"))?;
            // In whole seconds, and at least one.
            let seconds = pause.as_secs().max(1);
            return Ok(Self(Times::Every(SignedDuration::from_secs(seconds))));
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other if other.starts_with('@') => {
                return Err(format!("unrecognized descriptor: {other}"));
            }
            text => text,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!(
                "expected exactly 5 fields, found {}: [{}]",
                fields.len(),
                fields.join(" ")
            ));
        };
        Ok(Self(Times::At(Fields {
            minutes: field(minutes, 0, 59, &[])?,
            hours: field(hours, 0, 23, &[])?,
            days: field(days, 1, 31, &[])?,
            months: field(months, 1, 12, &MONTHS)?,
            // Sunday is 0 and 7.
            weekdays: field(weekdays, 0, last_weekday, &WEEKDAYS)
                .map(|week| week | (week >> 7 & 1))?,
            any_day: is_any(days),
            any_weekday: is_any(weekdays),
        })))
    }

    /// The first time after `at`. A time of day that a zone skips does not come on that
    /// day, one that it has twice comes twice.
    pub fn next(&self, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.0 {
            Times::At(fields) => fields.next(at, zone),
            Times::Every(pause) => {
                let whole = Timestamp::from_second(at.as_second()).ok()?;
                whole.checked_add(*pause).ok()
            }
        }
    }

    /// The last time after `since` that is not after `now`.
    pub fn latest(&self, since: Timestamp, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if let Times::Every(pause) = &self.0 {
            let passed = now.as_second() - since.as_second();
            let rounds = passed.checked_div(pause.as_secs())?;
            let whole = Timestamp::from_second(since.as_second()).ok()?;
            let after = SignedDuration::from_secs(rounds * pause.as_secs());
            return (rounds > 0).then(|| whole.checked_add(after).ok())?;
        }
        let mut span = SignedDuration::from_mins(2);
        loop {
            let from = now.checked_sub(span).unwrap_or(since).max(since);
            let mut found = self.next(from, zone).filter(|at| *at <= now);
            if let Some(mut latest) = found.take() {
                while let Some(next) = self.next(latest, zone).filter(|at| *at <= now) {
                    latest = next;
                }
                return Some(latest);
            }
            if from == since {
                return None;
            }
            span = span.checked_add(span)?;
        }
    }
}

impl Fields {
    fn next(&self, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut now: Zoned = at.to_zoned(zone.clone());
        now = now.with().second(0).subsec_nanosecond(0).build().ok()?;
        now = now.checked_add(1.minute()).ok()?;
        let last = now.year().checked_add(YEARS)?;
        let begin = |date: Date| date.to_zoned(zone.clone()).ok();
        while now.year() <= last {
            if !has(self.months, now.month()) {
                now = begin(now.date().first_of_month().checked_add(1.month()).ok()?)?;
            } else if !self.has_day(now.date()) {
                now = begin(now.date().tomorrow().ok()?)?;
            } else if !has(self.hours, now.hour()) {
                // By time that passes: where clocks go back by half an hour, an hour more on
                // the clock may be before this one.
                now = now
                    .checked_add((60 - i64::from(now.minute())).minutes())
                    .ok()?;
            } else if has(self.minutes, now.minute()) {
                return Some(now.timestamp());
            } else {
                now = now.checked_add(1.minute()).ok()?;
            }
        }
        None
    }

    fn has_day(&self, at: Date) -> bool {
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

/// Whether a field says nothing: with a step it does.
fn is_any(field: &str) -> bool {
    let mut parts = field.split(',');
    parts.any(|part| {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        (range == "*" || range == "?") && step == "1"
    })
}

/// A field as a set of numbers: a list of ranges with steps. `names` stand for
/// numbers from `least` on.
fn field(text: &str, least: u32, most: u32, names: &[&str]) -> Result<u64, String> {
    let number = |text: &str| {
        let lower = text.to_lowercase();
        match (least..).zip(names).find(|(_, name)| **name == lower) {
            Some((value, _)) => Ok(value),
            None => count(text),
        }
    };
    let mut set = 0;
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (from, mut to) = if low == "*" || low == "?" {
            (least, most)
        } else if high.contains('-') {
            return Err(format!("too many hyphens: {part}"));
        } else {
            (number(low)?, number(high)?)
        };
        if step.contains('/') {
            return Err(format!("too many slashes: {part}"));
        }
        let step = count(step)?;
        if part.contains('/') && !range.contains('-') {
            to = most;
        }
        let wrong = if from < least {
            format!("beginning of range ({from}) below minimum ({least})")
        } else if to > most {
            format!("end of range ({to}) above maximum ({most})")
        } else if from > to {
            format!("beginning of range ({from}) beyond end of range ({to})")
        } else if step == 0 {
            "step of range should be a positive number".to_owned()
        } else {
            let step = usize::try_from(step).unwrap_or(usize::MAX);
            for member in (from..=to).step_by(step) {
                set |= 1 << member;
            }
            continue;
        };
        return Err(format!("{wrong}: {part}"));
    }
    Ok(set)
}

fn count(text: &str) -> Result<u32, String> {
    let found: i64 = text.parse().map_err(|_| {
        let quoted = go::quote(text);
        format!("failed to parse int from {text}: strconv.Atoi: parsing {quoted}: invalid syntax")
    })?;
    u32::try_from(found).map_err(|_| format!("negative number ({found}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn next_in(zone: &str, schedule: &str, at: &str) -> String {
        let zone = TimeZone::get(zone).unwrap();
        let at: Timestamp = at.parse().unwrap();
        let next = Schedule::parse(schedule).unwrap().next(at, &zone).unwrap();
        next.to_string()
    }

    fn next(schedule: &str, at: &str) -> String {
        next_in("UTC", schedule, at)
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
        assert_eq!(next("@every 1h30m", at), "2026-11-21T18:35:30Z");
    }

    #[test]
    fn a_day_of_the_month_or_of_the_week_will_do() {
        let at = "2026-11-21T00:00:00Z";
        assert_eq!(next("0 0 30 * sun", at), "2026-11-22T00:00:00Z");
        // With a step it says something.
        assert_eq!(next("0 0 */20 * sun", at), "2026-11-22T00:00:00Z");
        assert_eq!(next("0 0 */1 * sun", at), "2026-11-22T00:00:00Z");
        assert_eq!(next("0 0 */1 * mon", at), "2026-11-23T00:00:00Z");
    }

    #[test]
    fn zones_have_their_own_days() {
        let at = "2026-11-21T17:05:30Z";
        let of = |schedule: &str, at: &str| next_in("Europe/Berlin", schedule, at);
        assert_eq!(of("0 0 * * *", at), "2026-11-21T23:00:00Z");
        assert_eq!(
            next_in("Asia/Kolkata", "0 9 * * *", at),
            "2026-11-22T03:30:00Z"
        );
        // This half past two is skipped.
        assert_eq!(
            of("30 2 * * *", "2026-03-28T12:00:00Z"),
            "2026-03-30T00:30:00Z"
        );
        // Clocks go back by half an hour, to before the hour that is looked at.
        assert_eq!(
            next_in("Australia/Lord_Howe", "0 5 * * *", "2026-04-04T12:00:00Z"),
            "2026-04-04T18:30:00Z"
        );
        // And this one comes twice.
        assert_eq!(
            of("30 2 * * *", "2026-10-24T12:00:00Z"),
            "2026-10-25T00:30:00Z"
        );
        assert_eq!(
            of("30 2 * * *", "2026-10-25T00:30:00Z"),
            "2026-10-25T01:30:00Z"
        );
    }

    #[test]
    fn the_latest_time_is_found_however_long_ago() {
        let latest = |schedule: &str, since: &str| {
            let now = "2026-11-21T17:05:30Z".parse().unwrap();
            let schedule = Schedule::parse(schedule).unwrap();
            let latest = schedule.latest(since.parse().unwrap(), now, &TimeZone::UTC);
            latest.map(|at| at.to_string())
        };
        let old = "2020-01-01T00:00:00Z";
        assert_eq!(latest("* * * * *", old).unwrap(), "2026-11-21T17:05:00Z");
        assert_eq!(latest("0 0 29 2 *", old).unwrap(), "2024-02-29T00:00:00Z");
        assert_eq!(latest("0 0 29 2 *", "2024-02-29T00:00:00Z"), None);
        assert_eq!(
            latest("@every 1h", "2026-11-21T15:00:00Z").unwrap(),
            "2026-11-21T17:00:00Z"
        );
        assert_eq!(latest("@every 3h", "2026-11-21T15:00:00Z"), None);
    }

    #[test]
    fn what_is_no_schedule_is_told_apart() {
        for (text, wrong) in [
            ("", "empty spec string"),
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "5-1 * * * *",
                "beginning of range (5) beyond end of range (1): 5-1",
            ),
            (
                "*/0 * * * *",
                "step of range should be a positive number: */0",
            ),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("*/2/3 * * * *", "too many slashes: */2/3"),
            (
                "x * * * *",
                "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (
                "* * * foo *",
                "failed to parse int from foo: strconv.Atoi: parsing \"foo\": invalid syntax",
            ),
            ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
            ("* * * * 7", "end of range (7) above maximum (6): 7"),
            ("@every", "unrecognized descriptor: @every"),
            (
                "@every day",
                "failed to parse duration @every day: time: invalid duration \"day\"",
            ),
            ("@sometimes", "unrecognized descriptor: @sometimes"),
        ] {
            let found = Schedule::parse(text).unwrap_err();
            assert_eq!(found.to_string(), wrong, "{text}");
        }
    }

    #[test]
    fn sunday_is_seven_for_some() {
        let of = |text: &str| Schedule::parse_with_seven(text).unwrap();
        let at: Timestamp = "2026-11-21T17:05:30Z".parse().unwrap();
        let next = of("0 0 * * 7").next(at, &TimeZone::UTC).unwrap();
        assert_eq!(next.to_string(), "2026-11-22T00:00:00Z");
        assert_eq!(of("0 0 * * 0").next(at, &TimeZone::UTC), Some(next));
    }
}
