//! Recordings out of where they are kept, whether their sessions are still known or
//! not: what a recording is called says whose it is.

use std::{cmp::Reverse, collections::BinaryHeap};

use axum::extract::{Path, Query, State};
use futures::TryStreamExt as _;
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use kite_core::{cluster::ObjectKey, crd::AccessLevel, names};
use kite_identity::{Caller, whose};
use kite_rest::{Answer, DAY, Items, Page, Problem, audit::note, day};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{not_read_here, unreadable};
use crate::{
    policy::{Action, Whose},
    recordings::{Cast, Recordings, is_plain},
    state::ApiState,
};

/// Most recordings of one day that are listed, the newest of it.
const MOST_OF_DAY: usize = 10_000;
/// How a recording's name begins: when it was begun.
const BEGUN: &str = "%Y%m%dT%H%M%SZ";

/// Which recordings are asked for.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Wanted {
    /// The day on which they were begun (UTC); today if it is not given.
    #[schemars(extend("format" = DAY))]
    day: Option<String>,
    /// Only those of VMs of this name.
    vm: Option<String>,
    /// Only those of VMs of the account with this name.
    user: Option<String>,
}

/// A recording.
#[derive(Deserialize, JsonSchema)]
pub(super) struct OfArchive {
    /// Name of the recording.
    recording: String,
}

/// A recording of a terminal.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Recording")]
pub(super) struct RecordingView {
    /// Its name.
    name: String,
    /// When it was begun.
    #[schemars(extend("format" = "date-time"))]
    begun_at: String,
    /// Name of the VM.
    vm: String,
    /// Name of the account whose VM it was, as far as its namespace says.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// With which name somebody logged in.
    login: String,
    /// How many bytes it has.
    bytes: u64,
}

/// What a recording's name says.
#[derive(Debug, PartialEq, Eq)]
struct Parts<'a> {
    begun: Timestamp,
    owner: Option<&'a str>,
    vm: &'a str,
    login: &'a str,
}

impl<'a> Parts<'a> {
    /// Out of a name as the gateway gives it: time, namespace, VM, login name and a
    /// number by chance. Only a login name may have an underscore in it.
    fn of(name: &'a str) -> Option<Self> {
        let stem = name.strip_suffix(".cast").filter(|_| is_plain(name))?;
        let (rest, _) = stem.rsplit_once('_')?;
        let mut parts = rest.splitn(4, '_');
        let (begun, namespace) = (parts.next()?, parts.next()?);
        let (vm, login) = (parts.next()?, parts.next()?);
        let begun = jiff::civil::DateTime::strptime(BEGUN, begun).ok()?;
        let begun = begun.to_zoned(TimeZone::UTC).ok()?.timestamp();
        Some(Self {
            begun,
            owner: names::user_of_namespace(namespace),
            vm,
            login,
        })
    }
}

/// `GET /api/v1/admin/recordings`
pub(super) async fn list(
    State(state): State<ApiState>,
    caller: Caller,
    Query(wanted): Query<Wanted>,
    page: Page,
) -> Result<Answer<Items<RecordingView>>, Problem> {
    caller.require(Action::ReplayVmSession, Whose::Other(AccessLevel::Admin))?;
    note(|notes| notes.of(wanted.user.as_deref()));
    let recordings = state.recordings().ok_or_else(not_read_here)?;
    // What is no day was refused by then.
    let day = wanted.day.as_deref().and_then(day);
    let day = day.unwrap_or_else(|| Timestamp::now().to_zoned(TimeZone::UTC).date());
    let fits = |name: &str| {
        let is = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_deref().is_none_or(|it| Some(it) == is)
        };
        Parts::of(name).is_some_and(|parts| {
            is(&wanted.vm, Some(parts.vm)) && is(&wanted.user, parts.owner) && page.wants([name])
        })
    };
    let found = newest_of(recordings.as_ref(), day, fits).await;
    let found = found.map_err(|error| unreadable("", &error))?;
    Ok(Answer::new(page.cut_along(
        &found,
        |(name, _)| place(name),
        |(name, bytes)| view(name, *bytes),
    )))
}

/// The names and lengths of those of a day that fit, the newest first.
async fn newest_of(
    recordings: &dyn Recordings,
    day: Date,
    fits: impl Fn(&str) -> bool,
) -> std::io::Result<Vec<(String, u64)>> {
    let from = day.strftime("%Y%m%dT").to_string();
    let mut names = recordings.names(&from);
    let mut newest = BinaryHeap::new();
    while let Some((name, length)) = names.try_next().await? {
        if name.starts_with(&from) && fits(&name) {
            newest.push(Reverse((name, length)));
            if newest.len() > MOST_OF_DAY {
                newest.pop();
            }
        }
    }
    let mut found: Vec<_> = newest.into_iter().map(|Reverse(it)| it).collect();
    found.sort_by_cached_key(|(name, _)| place(name));
    Ok(found)
}

/// Where it stands in the list, as a text: what was begun later comes first.
fn place(name: &str) -> String {
    let begun = Parts::of(name).map_or(0, |parts| parts.begun.as_second());
    format!("{:020}\0{name}", i64::MAX - begun.max(0))
}

fn view(name: &str, bytes: u64) -> RecordingView {
    let parts = Parts::of(name);
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    RecordingView {
        name: name.to_owned(),
        begun_at: text(parts.as_ref().map(|it| it.begun.to_string()).as_deref()),
        vm: text(parts.as_ref().map(|it| it.vm)),
        owner: parts.as_ref().and_then(|it| it.owner).map(str::to_owned),
        login: text(parts.as_ref().map(|it| it.login)),
        bytes,
    }
}

/// `GET /api/v1/admin/recordings/{recording}`
pub(super) async fn replay(
    State(state): State<ApiState>,
    caller: Caller,
    Path(OfArchive { recording }): Path<OfArchive>,
) -> Result<Cast, Problem> {
    caller.require(Action::SeeVmSessions, Whose::Other(AccessLevel::Admin))?;
    let parts = Parts::of(&recording).ok_or_else(|| Problem::not_found("recording", &recording))?;
    let owner = parts.owner.map(ObjectKey::cluster);
    let owner = owner.and_then(|owner| state.caches().users.get(&owner));
    // An account that nobody knows may have been anybody's.
    let of = owner.map_or(Whose::Other(AccessLevel::Admin), |it| whose(&caller, &it));
    caller.require(Action::ReplayVmSession, of)?;
    let recordings = state.recordings().ok_or_else(not_read_here)?;
    let found = recordings.read(&recording).await;
    let found = found.map_err(|error| unreadable(&recording, &error))?;
    let recorded = found.ok_or_else(|| Problem::not_found("recording", &recording))?;
    note(|notes| {
        notes.of(parts.owner);
        let (vm, owner) = (parts.vm, parts.owner.unwrap_or("somebody unknown"));
        notes.remark(format!(
            "replayed the recording {recording} of {owner}'s VM {vm}"
        ));
    });
    Ok(Cast(recorded))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_name_says_whose_it_is() {
        let parts = Parts::of("20260102T030405Z_kite-user-ann_web_my_login_0a1b2c3d.cast").unwrap();
        let begun = "2026-01-02T03:04:05Z".parse().unwrap();
        let expected = Parts {
            begun,
            owner: Some("ann"),
            vm: "web",
            login: "my_login",
        };
        assert_eq!(parts, expected);
        for name in [
            "20260102T030405Z_kite-user-ann_web_0a1b2c3d.cast",
            "2026_kite-user-ann_web_login_0a1b2c3d.cast",
            "20260102T030405Z_kite-user-ann_web_login_0a1b2c3d.cast.part",
            "../20260102T030405Z_kite-user-ann_web_login_0a1b2c3d.cast",
        ] {
            assert_eq!(Parts::of(name), None, "{name}");
        }
    }

    #[test]
    fn the_newest_come_first() {
        let name = |time: &str| format!("{time}_kite-user-ann_web_login_0a.cast");
        let (early, late) = (name("20260102T000001Z"), name("20260102T000002Z"));
        assert!(place(&late) < place(&early));
    }
}
