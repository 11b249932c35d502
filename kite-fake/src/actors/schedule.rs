//! Schedules as cron writes them and as `CronJob`s read them, in any time zone.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};

/// How far ahead a next time is looked for: leap days come at least every
/// eight years.
const YEARS: i16 = 9;

/// A schedule.
///
/// ```
/// use jiff::tz::TimeZone;
/// use kite_fake::actors::schedule::Schedule;
///
/// let schedule = Schedule::parse("30 2 * * mon-fri").ok_or("no schedule")?;
/// let next = schedule.next("2026-11-21T17:05:30Z".parse()?, &TimeZone::UTC);
/// assert_eq!(next, Some("2026-11-23T02:30:00Z".parse()?));
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

impl Schedule {
    /// Reads `minute hour day month weekday`, one of the names such as `@daily`, or
    /// `@every` with a duration. `None` when it is no schedule.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(pause) = text.strip_prefix("@every ") {
            let pause: SignedDuration = pause.trim().parse().ok()?;
            // In whole seconds, and at least one.
            let seconds = pause.as_secs().max(1);
            return Some(Self(Times::Every(SignedDuration::from_secs(seconds))));
        }
        let text = match text {
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
        Some(Self(Times::At(Fields {
            minutes: field(minutes, 0, 59, &[])?,
            hours: field(hours, 0, 23, &[])?,
            days: field(days, 1, 31, &[])?,
            months: field(months, 1, 12, &MONTHS)?,
            weekdays: week,
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
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "5-1 * * * *",
            "*/0 * * * *",
            "x * * * *",
            "@every",
            "@sometimes",
        ] {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
    }
}
