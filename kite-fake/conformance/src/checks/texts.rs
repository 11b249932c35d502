//! What bodies look like, letter by letter.

use serde_json::json;

use super::objects::open_schema;
use crate::Checked;
use crate::answer::ensure;
use crate::site::{Site, map, maps};

table! { Texts;
    members_are_in_the_order_of_the_types:
        "A built-in object begins with kind and apiVersion, its metadata with name and namespace.",
        "Recorded answers are compared as texts.";
    custom_objects_are_in_the_order_of_names:
        "A custom object begins with apiVersion.",
        "Recorded answers are compared as texts.";
    failures_begin_with_their_kind:
        "A Status begins with kind, apiVersion, metadata, status and message.",
        "Clients show the text of what they cannot read.";
    bodies_end_with_a_line_feed:
        "A body in JSON ends with a line feed, but for one that is indented.",
        "Streams are split at line feeds.";
    markup_is_escaped:
        "Less-than, greater-than and ampersand are escaped in JSON.",
        "Answers are shown in pages.";
    bad_json_is_told_in_words:
        "A body that is no JSON is 400, with what the decoder found.",
        "People find the place.";
}

async fn members_are_in_the_order_of_the_types(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let made = s.post(&maps(&ns), &map("a", &json!({"k": "v"}))).await?;
    let made = made.expect(201)?;
    let head = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":""#;
    made.begins(head)?;
    s.get(&maps(&ns))
        .await?
        .begins(r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":""#)?;
    Ok(())
}

async fn custom_objects_are_in_the_order_of_names(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s.definition(&open_schema(), &json!({})).await?;
    let object = widgets.object("a", &json!({"b": 1, "a": 2}));
    let made = s.post(&widgets.within(&ns), &object).await?.expect(201)?;
    let made = made.begins(&format!(r#"{{"apiVersion":"{}/v1","kind":"#, widgets.group))?;
    ensure(
        made.raw.contains(r#""spec":{"a":2,"b":1}"#),
        "spec is by name",
    )
}

async fn failures_begin_with_their_kind(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let answer = s.get(&format!("{}/a", maps(&ns))).await?.expect(404)?;
    let head = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":""#;
    answer.begins(head)?;
    Ok(())
}

async fn bodies_end_with_a_line_feed(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let list = s.get(&maps(&ns)).await?.expect(200)?;
    ensure(list.raw.ends_with("}\n"), "a list ends with a line feed")?;
    let missing = s.get(&format!("{}/a", maps(&ns))).await?.expect(404)?;
    ensure(
        missing.raw.ends_with("}\n"),
        "a failure ends with a line feed",
    )?;
    let pretty = s
        .get(&format!("{}?pretty=true", maps(&ns)))
        .await?
        .expect(200)?;
    ensure(
        pretty.raw.ends_with('}'),
        "an indented body ends with itself",
    )
}

async fn markup_is_escaped(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let made = s
        .post(&maps(&ns), &map("a", &json!({"k": "<a&b>"})))
        .await?;
    let made = made.expect(201)?;
    ensure(
        made.raw.contains(r"\u003ca\u0026b\u003e"),
        "markup is escaped",
    )
}

async fn bad_json_is_told_in_words(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let body = br#"{"kind":"ConfigMap",}"#.to_vec();
    let answer = s
        .send(http::Method::POST, &maps(&ns), "application/json", body)
        .await?;
    answer
        .refused(400, "BadRequest")?
        .says("invalid character '}' looking for beginning of object key string")?;
    Ok(())
}
