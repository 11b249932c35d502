//! Requests that change nothing.

use serde_json::json;

use super::objects::open_schema;
use crate::Checked;
use crate::answer::ensure;
use crate::site::{Site, map, maps};

table! { DryRun;
    dry_creates_store_nothing:
        "A dry create answers 201 with a uid and without a resourceVersion, and nothing is there.",
        "kubectl apply --dry-run=server.";
    dry_updates_store_nothing:
        "A dry update or patch shows its outcome under the old resourceVersion.",
        "kubectl diff.";
    dry_applies_show_conflicts:
        "A dry apply merges and conflicts like a real one.",
        "Conflicts are seen before they happen.";
    dry_deletes_delete_nothing:
        "A dry delete answers like a real one, and the object stays.",
        "Scripts are tried out.";
    dry_runs_are_validated:
        "A dry run is refused for what a real request would be.",
        "A dry run tells what would happen.";
    dry_run_has_one_value:
        "Another value of dryRun than All is 422, and does not run.",
        "A misspelt dry run must not be a real one.";
    dry_generations_count:
        "A dry update of spec shows the next generation.",
        "The answer is what the object would be.";
}

async fn dry_creates_store_nothing(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let answer = s
        .post(
            &format!("{}?dryRun=All", maps(&ns)),
            &map("a", &json!({"k": "v"})),
        )
        .await?;
    answer
        .expect(201)?
        .has("/metadata/uid")?
        .lacks("/metadata/resourceVersion")?;
    s.get(&format!("{}/a", maps(&ns))).await?.expect(404)?;
    Ok(())
}

async fn dry_updates_store_nothing(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let made = s
        .post(&maps(&ns), &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    let patched = s
        .merge(&format!("{path}?dryRun=All"), &json!({"data": {"k": "2"}}))
        .await?
        .expect(200)?;
    let patched = patched.is("/data/k", "2")?;
    ensure(
        patched.version() == made.version(),
        "the resourceVersion is the old one",
    )?;
    let put = s
        .put(&format!("{path}?dryRun=All"), &map("a", &json!({"l": "2"})))
        .await?
        .expect(200)?;
    put.is("/data", json!({"l": "2"}))?;
    let read = s.get(&path).await?.expect(200)?;
    ensure(read.body == made.body, "the object is as it was")
}

async fn dry_applies_show_conflicts(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let made = s
        .apply(&path, "m1", &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    let dry = format!("{path}?dryRun=All");
    let answer = s
        .apply(&dry, "m2", &map("a", &json!({"l": "2"})))
        .await?
        .expect(200)?;
    answer.is("/data", json!({"k": "1", "l": "2"}))?;
    s.apply(&dry, "m2", &map("a", &json!({"k": "2"})))
        .await?
        .refused(409, "Conflict")?;
    let read = s.get(&path).await?.expect(200)?;
    ensure(read.body == made.body, "the object is as it was")
}

async fn dry_deletes_delete_nothing(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let made = s
        .post(&maps(&ns), &map("a", &json!({})))
        .await?
        .expect(201)?;
    s.delete(&format!("{path}?dryRun=All"))
        .await?
        .expect(200)?
        .is("/details/uid", made.uid())?;
    s.delete_with(&path, &json!({"dryRun": ["All"]}))
        .await?
        .expect(200)?;
    let read = s.get(&path).await?.expect(200)?;
    ensure(read.body == made.body, "the object is as it was")
}

async fn dry_runs_are_validated(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let dry = format!("{}?dryRun=All", maps(&ns));
    s.post(&dry, &map("Bad!", &json!({})))
        .await?
        .refused(422, "Invalid")?;
    s.post(&maps(&ns), &map("a", &json!({})))
        .await?
        .expect(201)?;
    s.post(&dry, &map("a", &json!({})))
        .await?
        .refused(409, "AlreadyExists")?;
    Ok(())
}

async fn dry_run_has_one_value(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let answer = s
        .post(&format!("{}?dryRun=true", maps(&ns)), &map("a", &json!({})))
        .await?;
    answer
        .refused(422, "Invalid")?
        .cause("FieldValueNotSupported", "dryRun")?;
    s.get(&format!("{}/a", maps(&ns))).await?.expect(404)?;
    Ok(())
}

async fn dry_generations_count(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s.definition(&open_schema(), &json!({})).await?;
    s.post(&widgets.within(&ns), &widgets.object("a", &json!({"n": 1})))
        .await?
        .expect(201)?;
    let path = format!("{}/a", widgets.within(&ns));
    let dry = s
        .merge(&format!("{path}?dryRun=All"), &json!({"spec": {"n": 2}}))
        .await?
        .expect(200)?;
    dry.is("/metadata/generation", 2)?;
    s.get(&path)
        .await?
        .expect(200)?
        .is("/metadata/generation", 1)?;
    Ok(())
}
