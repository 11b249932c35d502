//! The start, single requests, lists and memory.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderValue;
use http::header::ACCEPT;
use kite_fake::FakeCluster;
use kite_fake::protobuf::MEDIA_TYPE;
use stats_alloc::Region;

use crate::figures::{Table, best, best_of_made};
use crate::objects::{ROOT, answer, apply, filled, name, object, request, send};
use crate::plain::PlainMap;

const OBJECTS: usize = 10_000;
const PLAIN: &str = "plain map";

/// The word with which this program measures its own first start and ends.
pub const FIRST_START: &str = "first-start";

/// Prints how long the first start of this process takes, in nanoseconds.
pub fn first_start() {
    let begin = Instant::now();
    let first = FakeCluster::builder().build().unwrap();
    println!("{}", begin.elapsed().as_nanos());
    drop(first);
}

/// The first start of another process.
fn first_elsewhere() -> Duration {
    let program = std::env::current_exe().unwrap();
    let output = std::process::Command::new(program)
        .arg(FIRST_START)
        .output()
        .unwrap();
    let nanos = String::from_utf8(output.stdout).unwrap();
    Duration::from_nanos(nanos.trim().parse().unwrap())
}

pub fn start(table: &mut Table) {
    let first = (0..9).map(|_| first_elsewhere()).min().unwrap();
    table.times(
        "start, the first in a process (best of nine)",
        first,
        Some(10_000),
        "–",
        None,
    );
    let again = best(5, 20, |_| {
        FakeCluster::builder().build().unwrap();
    });
    table.times("start, later ones", again, Some(10_000), "–", None);
}

fn plain(count: usize) -> PlainMap {
    let mut map = PlainMap::default();
    for i in 0..count {
        map.apply(&name(i), object(i).to_string().as_bytes());
    }
    map
}

pub fn requests(table: &mut Table) {
    let bodies: Vec<Bytes> = (0..OBJECTS).map(|i| object(i).to_string().into()).collect();
    let cluster = FakeCluster::builder().build().unwrap();
    let mut map = PlainMap::default();
    let ours = best(50, 200, |i| {
        apply(&cluster, i, bodies[i].clone());
    });
    let theirs = best(50, 200, |i| {
        map.apply(&name(i), &bodies[i]);
    });
    table.times("create by apply", ours, None, PLAIN, Some(theirs));

    // Not in order, so that nothing is next to what was used last.
    let any = |i: usize| (i * 7919) % OBJECTS;
    // What the client does to make a request is not the server's time.
    let get = |i| request("GET", &format!("{ROOT}/{}", name(any(i))), Bytes::new());
    let ours = best_of_made(400, 50, get, |request| {
        answer(&cluster, request);
    });
    let theirs = best_of_made(
        400,
        50,
        |i| name(any(i)),
        |name| {
            map.get(&name);
        },
    );
    table.times("get", ours, Some(5), PLAIN, Some(theirs));

    let theirs = best(100, 200, |i| {
        map.apply(&name(any(i)), &bodies[any(i)]);
    });
    let ours = best(100, 200, |i| {
        apply(&cluster, any(i), bodies[any(i)].clone());
    });
    table.times("apply of the same", ours, Some(15), PLAIN, Some(theirs));

    let changed: Vec<Bytes> = (0..OBJECTS)
        .map(|i| {
            let mut object = object(i);
            object["data"]["key-3"] = "another".into();
            object.to_string().into()
        })
        .collect();
    let body = |i: usize| {
        // Every other round changes it back.
        let of = if (i / OBJECTS).is_multiple_of(2) {
            &changed
        } else {
            &bodies
        };
        of[any(i)].clone()
    };
    let ours = best(100, 200, |i| {
        apply(&cluster, any(i), body(i));
    });
    let theirs = best(100, 200, |i| {
        map.apply(&name(any(i)), &body(i));
    });
    table.times("apply of a change", ours, None, PLAIN, Some(theirs));
}

fn list_all(cluster: &FakeCluster) -> Duration {
    best(1, 1, |_| {
        send(cluster, "GET", ROOT, Bytes::new());
    })
}

pub fn lists(table: &mut Table) {
    let (cluster, double) = (filled(OBJECTS), filled(2 * OBJECTS));
    // In turn, so that a busy machine does not hit one alone.
    let rounds: Vec<[Duration; 2]> = (0..25)
        .map(|_| [list_all(&cluster), list_all(&double)])
        .collect();
    let least = |which: usize| rounds.iter().map(|r| r[which]).min().unwrap();
    let (ours, double) = (least(0), least(1));
    let map = plain(OBJECTS);
    let theirs = best(5, 1, |_| {
        map.list(None);
    });
    table.times("list of 10,000", ours, None, PLAIN, Some(theirs));
    let mut in_protobuf = request("GET", ROOT, Bytes::new());
    let accept = HeaderValue::from_static(MEDIA_TYPE);
    in_protobuf.headers_mut().insert(ACCEPT, accept);
    // The first of them encodes each object.
    let protobuf = best(25, 1, |_| {
        answer(&cluster, in_protobuf.clone());
    });
    table.times("the same in protobuf", protobuf, None, "JSON", Some(ours));
    let ratio = double.as_secs_f64() / ours.as_secs_f64();
    table.row(
        "list of 20,000 beside one of 10,000",
        &format!("× {ratio:.2}"),
        "linear",
        "–",
        "–",
    );
    let timed = |query: &str, times: usize| {
        let path = format!("{ROOT}?{query}");
        best(7, times, |_| {
            send(&cluster, "GET", &path, Bytes::new());
        })
    };
    let theirs = best(7, 1, |_| {
        map.list(Some(("app", "a3")));
    });
    table.times(
        "list of 1,000 of 10,000 by label",
        timed("labelSelector=app%3Da3", 1),
        None,
        PLAIN,
        Some(theirs),
    );
    table.times(
        "list of 1 of 10,000 by field",
        timed("fieldSelector=metadata.name%3Dm00500", 1),
        None,
        "–",
        None,
    );
    table.times("page of 500", timed("limit=500", 5), None, "–", None);

    // A whole paged list, while somebody writes.
    let begin = Instant::now();
    let mut token = String::new();
    let mut pages = 0;
    loop {
        let path = format!("{ROOT}?limit=500&continue={token}");
        let page = send(&cluster, "GET", &path, Bytes::new());
        pages += 1;
        let mut new = object(pages * 17);
        new["data"]["key-1"] = pages.into();
        new["data"]["key-1"] = new["data"]["key-1"].to_string().into();
        apply(&cluster, pages * 17, new.to_string().into());
        let page: serde_json::Value = serde_json::from_slice(&page[..400]).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&page[..600]).into_owned();
            let found = text
                .split("\"continue\":\"")
                .nth(1)
                .and_then(|t| t.split('"').next());
            serde_json::json!({"continue": found})
        });
        match page["continue"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    table.times(
        &format!("{pages} pages of 500, each after a write, per page"),
        begin.elapsed() / u32::try_from(pages).unwrap(),
        None,
        "–",
        None,
    );
}

pub fn memory(table: &mut Table) {
    let size = object(0).to_string().len();
    let cluster = FakeCluster::builder().build().unwrap();
    let region = Region::new(crate::ALLOCATOR);
    let mut stored = 0;
    for i in 0..OBJECTS {
        stored = apply(&cluster, i, object(i).to_string().into()).len();
    }
    let change = region.change();
    let ours = (change.bytes_allocated - change.bytes_deallocated) / OBJECTS;
    let region = Region::new(crate::ALLOCATOR);
    let map = plain(OBJECTS);
    let change = region.change();
    let theirs = (change.bytes_allocated - change.bytes_deallocated) / OBJECTS;
    drop(map);
    table.row(
        &format!("memory for an object of {size} bytes, {stored} as stored"),
        &format!("{ours} bytes"),
        &format!("4 KB, {}", if ours <= 4096 { "met" } else { "missed" }),
        PLAIN,
        &format!("{theirs} bytes"),
    );
    let region = Region::new(crate::ALLOCATOR);
    for i in 0..50_000_usize {
        let mut object = object(i % 100);
        object["data"]["key-1"] = i.to_string().into();
        apply(&cluster, i % 100, object.to_string().into());
    }
    let change = region.change();
    let grown = change
        .bytes_allocated
        .saturating_sub(change.bytes_deallocated);
    table.row(
        "growth by 50,000 changes",
        &format!("{:.1} MB", f64::from(u32::try_from(grown).unwrap()) / 1e6),
        "bounded",
        "–",
        "–",
    );
}
