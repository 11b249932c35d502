//! Lists, selectors, pages, consistency.

use serde_json::{Value, json};

use super::objects::open_schema;
use crate::answer::ensure;
use crate::site::{Definition, Site, core, map, maps};
use crate::{Checked, Failure};

table! { Lists;
    lists_are_sorted_by_name:
        "A list is in the order of namespace and name.",
        "Pages and diffs rely on an order.";
    lists_carry_kind_and_version:
        "A list has the kind <Kind>List and a resourceVersion; items of core types carry no kind.",
        "A watch starts from the list's version.";
    custom_items_carry_their_kind:
        "Items of a list of custom resources have kind and apiVersion.",
        "Generic clients read them one by one.";
    lists_keep_to_the_namespace:
        "A list of a namespace has its objects only, one over all namespaces those of all.",
        "Namespaces separate tenants.";
    label_selectors_choose:
        "Label selectors know =, !=, in, notin, existence and absence.",
        "Controllers find their objects by label.";
    broken_label_selectors_are_refused:
        "A label selector that cannot be read is 400.",
        "A misspelt selector must not mean everything.";
    field_selectors_choose:
        "metadata.name can be selected by = and !=.",
        "A watch of one object is a list with a selector.";
    unknown_fields_cannot_be_selected:
        "Selecting by a field that is not selectable is 400.",
        "A misspelt selector must not mean nothing.";
    custom_fields_can_be_selected:
        "selectableFields of a definition can be selected by.",
        "Clients filter on the server.";
    built_in_fields_can_be_selected:
        "Secrets are selected by type, Namespaces by phase.",
        "kubectl get --field-selector.";
    pages_have_everything_once:
        "limit and continue give every object once, and remainingItemCount what is left.",
        "Large lists are read in pages.";
    pages_are_of_one_moment:
        "Later pages show the state at the first, whatever happened since.",
        "A paged list is as good as a whole one.";
    selected_pages_do_not_count:
        "With a selector there is no remainingItemCount.",
        "The server would have to look at all.";
    broken_tokens_are_refused:
        "A continue token that is none is 400, and so is one with a resourceVersion.",
        "Pages come from the server alone.";
    lists_of_the_past:
        "resourceVersionMatch=Exact lists the state at that resourceVersion.",
        "Reproducible reads.";
    lists_not_older_than:
        "resourceVersionMatch=NotOlderThan is at least as new as what was written.",
        "Clients read their own writes from a cache.";
    match_needs_a_version:
        "resourceVersionMatch without resourceVersion is 422.",
        "It would mean nothing.";
    versions_are_numbers:
        "A resourceVersion that is no number is 400.",
        "Versions come from the server alone.";
    the_future_is_not_there_yet:
        "A resourceVersion that is not reached is 504 with cause ResourceVersionTooLarge.",
        "A lagging server must not answer with old data.";
}

fn labelled(name: &str, labels: &Value) -> Value {
    let mut object = map(name, &json!({}));
    object["metadata"]["labels"] = labels.clone();
    object
}

/// A namespace with these `ConfigMap`s, labelled `set: ours`.
async fn filled(s: &Site, names: &[&str]) -> Result<String, Failure> {
    let ns = s.namespace().await?;
    for name in names {
        let object = labelled(name, &json!({"set": "ours"}));
        s.post(&maps(&ns), &object).await?.expect(201)?;
    }
    Ok(ns)
}

/// A custom resource with a namespace that holds these objects.
async fn widgets(s: &Site, names: &[&str]) -> Result<(Definition, String), Failure> {
    let ns = s.namespace().await?;
    let widgets = s.definition(&open_schema(), &json!({})).await?;
    for name in names {
        s.post(&widgets.within(&ns), &widgets.object(name, &json!({})))
            .await?
            .expect(201)?;
    }
    let path = widgets.within(&ns);
    Ok((widgets, path))
}

async fn lists_are_sorted_by_name(s: Site) -> Checked {
    let ns = filled(&s, &["b", "a", "c-1", "a.b", "c"]).await?;
    let list = s
        .get(&format!("{}?labelSelector=set%3Dours", maps(&ns)))
        .await?
        .expect(200)?;
    list.lists(&["a", "a.b", "b", "c", "c-1"])?;
    Ok(())
}

async fn lists_carry_kind_and_version(s: Site) -> Checked {
    let ns = filled(&s, &["a"]).await?;
    let list = s
        .get(&format!("{}?labelSelector=set%3Dours", maps(&ns)))
        .await?
        .expect(200)?;
    let list = list
        .is("/kind", "ConfigMapList")?
        .is("/apiVersion", "v1")?
        .has("/metadata/resourceVersion")?;
    list.lacks("/items/0/kind")?.lacks("/items/0/apiVersion")?;
    Ok(())
}

async fn custom_items_carry_their_kind(s: Site) -> Checked {
    let (widgets, path) = widgets(&s, &["a"]).await?;
    let list = s.get(&path).await?.expect(200)?.is("/kind", "WidgetList")?;
    let api = format!("{}/v1", widgets.group);
    list.is("/apiVersion", api.as_str())?
        .is("/items/0/kind", "Widget")?
        .is("/items/0/apiVersion", api)?;
    Ok(())
}

async fn lists_keep_to_the_namespace(s: Site) -> Checked {
    let mark = json!({"run": s.unique()});
    let (one, two) = (s.namespace().await?, s.namespace().await?);
    for ns in [&one, &two] {
        s.post(&maps(ns), &labelled("a", &mark))
            .await?
            .expect(201)?;
    }
    let selector = format!(
        "labelSelector=run%3D{}",
        mark["run"].as_str().unwrap_or_default()
    );
    s.get(&format!("{}?{selector}", maps(&one)))
        .await?
        .expect(200)?
        .lists(&["a"])?;
    let all = s
        .get(&format!("/api/v1/configmaps?{selector}"))
        .await?
        .expect(200)?;
    let mut namespaces = vec![one, two];
    namespaces.sort();
    ensure(
        all.each("/metadata/namespace") == namespaces,
        "both namespaces are listed, in order",
    )
}

async fn label_selectors_choose(s: Site) -> Checked {
    let ns = s.namespace().await?;
    for (name, labels) in [
        ("a", json!({"set": "ours", "tier": "db"})),
        ("b", json!({"set": "ours", "tier": "web"})),
        ("c", json!({"set": "ours", "tier": "web", "old": ""})),
        ("d", json!({"set": "ours"})),
    ] {
        s.post(&maps(&ns), &labelled(name, &labels))
            .await?
            .expect(201)?;
    }
    let cases: [(&str, &[&str]); 8] = [
        ("tier%3Dweb", &["b", "c"]),
        ("tier%3D%3Ddb", &["a"]),
        ("tier%21%3Dweb", &["a", "d"]),
        ("tier+in+%28db%2Cweb%29", &["a", "b", "c"]),
        ("tier+notin+%28db%29", &["b", "c", "d"]),
        ("old", &["c"]),
        ("%21old", &["a", "b", "d"]),
        ("tier%3Dweb%2C%21old", &["b"]),
    ];
    for (selector, names) in cases {
        let path = format!("{}?labelSelector=set%3Dours%2C{selector}", maps(&ns));
        s.get(&path).await?.expect(200)?.lists(names)?;
    }
    Ok(())
}

async fn broken_label_selectors_are_refused(s: Site) -> Checked {
    let ns = s.namespace().await?;
    for selector in ["a%3D%3D%3Db", "a+in", "%3Db", "a%3Db%20c"] {
        let path = format!("{}?labelSelector={selector}", maps(&ns));
        s.get(&path).await?.refused(400, "BadRequest")?;
    }
    Ok(())
}

async fn field_selectors_choose(s: Site) -> Checked {
    let (_, path) = widgets(&s, &["a", "b", "c"]).await?;
    s.get(&format!("{path}?fieldSelector=metadata.name%3Db"))
        .await?
        .expect(200)?
        .lists(&["b"])?;
    s.get(&format!("{path}?fieldSelector=metadata.name%21%3Db"))
        .await?
        .expect(200)?
        .lists(&["a", "c"])?;
    s.get(&format!("{path}?fieldSelector=metadata.name%3Dnone"))
        .await?
        .expect(200)?
        .lists(&[])?;
    Ok(())
}

async fn unknown_fields_cannot_be_selected(s: Site) -> Checked {
    let (_, path) = widgets(&s, &[]).await?;
    let answer = s
        .get(&format!("{path}?fieldSelector=spec.n%3D1"))
        .await?
        .refused(400, "BadRequest")?;
    answer.says("field label not supported: spec.n")?;
    let ns = s.namespace().await?;
    let answer = s
        .get(&format!("{}?fieldSelector=data.x%3D1", maps(&ns)))
        .await?;
    answer
        .refused(400, "BadRequest")?
        .says("is not a known field selector")?;
    Ok(())
}

async fn custom_fields_can_be_selected(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "color": {"type": "string"}, "n": {"type": "integer"}}}}});
    let extras =
        json!({"selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.n"}]});
    let widgets = s.definition(&schema, &extras).await?;
    let path = widgets.within(&ns);
    for (name, color, n) in [("a", "red", 1), ("b", "red", 2), ("c", "blue", 1)] {
        let object = widgets.object(name, &json!({"color": color, "n": n}));
        s.post(&path, &object).await?.expect(201)?;
    }
    s.get(&format!("{path}?fieldSelector=spec.color%3Dred"))
        .await?
        .expect(200)?
        .lists(&["a", "b"])?;
    s.get(&format!("{path}?fieldSelector=spec.n%3D1"))
        .await?
        .expect(200)?
        .lists(&["a", "c"])?;
    let both = s
        .get(&format!(
            "{path}?fieldSelector=spec.color%3Dred%2Cspec.n%21%3D1"
        ))
        .await?;
    both.expect(200)?.lists(&["b"])?;
    Ok(())
}

async fn built_in_fields_can_be_selected(s: Site) -> Checked {
    let ns = s.namespace().await?;
    for (name, kind) in [("a", "Opaque"), ("b", "example.com/other")] {
        let object =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind});
        s.post(&core(&ns, "secrets"), &object).await?.expect(201)?;
    }
    let path = format!(
        "{}?fieldSelector=type%3Dexample.com%2Fother",
        core(&ns, "secrets")
    );
    s.get(&path).await?.expect(200)?.lists(&["b"])?;
    let path =
        format!("/api/v1/namespaces?fieldSelector=status.phase%3DActive%2Cmetadata.name%3D{ns}");
    s.get(&path).await?.expect(200)?.lists(&[&ns])?;
    Ok(())
}

async fn pages_have_everything_once(s: Site) -> Checked {
    let (_, path) = widgets(&s, &["a", "b", "c", "d", "e"]).await?;
    let first = s
        .get(&format!("{path}?limit=2"))
        .await?
        .expect(200)?
        .lists(&["a", "b"])?;
    let first = first.is("/metadata/remainingItemCount", 3)?;
    let token = first.text("/metadata/continue");
    let second = s
        .get(&format!("{path}?limit=2&continue={token}"))
        .await?
        .expect(200)?;
    let second = second
        .lists(&["c", "d"])?
        .is("/metadata/remainingItemCount", 1)?;
    let token = second.text("/metadata/continue");
    let last = s
        .get(&format!("{path}?limit=2&continue={token}"))
        .await?
        .expect(200)?
        .lists(&["e"])?;
    ensure(
        last.text("/metadata/continue").is_empty(),
        "the last page ends the list",
    )?;
    last.lacks("/metadata/remainingItemCount")?;
    Ok(())
}

async fn pages_are_of_one_moment(s: Site) -> Checked {
    let (widgets, path) = widgets(&s, &["a", "b", "c", "d"]).await?;
    let first = s.get(&format!("{path}?limit=2")).await?.expect(200)?;
    s.post(&path, &widgets.object("bb", &json!({})))
        .await?
        .expect(201)?;
    s.delete(&format!("{path}/d")).await?.expect(200)?;
    let token = first.text("/metadata/continue");
    let second = s
        .get(&format!("{path}?limit=9&continue={token}"))
        .await?
        .expect(200)?;
    second.lists(&["c", "d"])?.is(
        "/metadata/resourceVersion",
        first.text("/metadata/resourceVersion"),
    )?;
    Ok(())
}

async fn selected_pages_do_not_count(s: Site) -> Checked {
    let (_, path) = widgets(&s, &["a", "b", "c"]).await?;
    let page = s
        .get(&format!("{path}?limit=2&labelSelector=%21none"))
        .await?
        .expect(200)?;
    let page = page
        .lists(&["a", "b"])?
        .lacks("/metadata/remainingItemCount")?;
    ensure(
        !page.text("/metadata/continue").is_empty(),
        "there is another page",
    )
}

async fn broken_tokens_are_refused(s: Site) -> Checked {
    let (_, path) = widgets(&s, &["a", "b"]).await?;
    let answer = s
        .get(&format!("{path}?limit=1&continue=abc"))
        .await?
        .refused(400, "BadRequest")?;
    answer.says("continue key is not valid")?;
    let page = s.get(&format!("{path}?limit=1")).await?.expect(200)?;
    let (token, version) = (
        page.text("/metadata/continue"),
        page.text("/metadata/resourceVersion"),
    );
    let both = s
        .get(&format!(
            "{path}?limit=1&continue={token}&resourceVersion={version}"
        ))
        .await?;
    both.refused(400, "BadRequest")?;
    Ok(())
}

async fn lists_of_the_past(s: Site) -> Checked {
    let (widgets, path) = widgets(&s, &["a"]).await?;
    let then = s
        .get(&path)
        .await?
        .expect(200)?
        .text("/metadata/resourceVersion");
    s.post(&path, &widgets.object("b", &json!({})))
        .await?
        .expect(201)?;
    s.merge(&format!("{path}/a"), &json!({"spec": {"n": 2}}))
        .await?
        .expect(200)?;
    let past = s
        .get(&format!(
            "{path}?resourceVersion={then}&resourceVersionMatch=Exact"
        ))
        .await?;
    past.expect(200)?
        .lists(&["a"])?
        .is("/metadata/resourceVersion", then)?
        .lacks("/items/0/spec/n")?;
    Ok(())
}

async fn lists_not_older_than(s: Site) -> Checked {
    let (widgets, path) = widgets(&s, &["a"]).await?;
    let written = s
        .post(&path, &widgets.object("b", &json!({})))
        .await?
        .expect(201)?
        .version();
    let list = s
        .get(&format!(
            "{path}?resourceVersion={written}&resourceVersionMatch=NotOlderThan"
        ))
        .await?;
    list.expect(200)?.lists(&["a", "b"])?;
    Ok(())
}

async fn match_needs_a_version(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let answer = s
        .get(&format!("{}?resourceVersionMatch=Exact", maps(&ns)))
        .await?;
    answer
        .refused(422, "Invalid")?
        .cause("FieldValueForbidden", "resourceVersionMatch")?;
    Ok(())
}

async fn versions_are_numbers(s: Site) -> Checked {
    let ns = s.namespace().await?;
    s.get(&format!("{}?resourceVersion=abc", maps(&ns)))
        .await?
        .refused(400, "BadRequest")?;
    Ok(())
}

async fn the_future_is_not_there_yet(s: Site) -> Checked {
    let (_, path) = widgets(&s, &["a"]).await?;
    let now = s
        .get(&path)
        .await?
        .expect(200)?
        .text("/metadata/resourceVersion");
    for path in [
        format!("{path}?resourceVersion={now}00000"),
        format!("{path}/a?resourceVersion={now}00000"),
    ] {
        let answer = s.get(&path).await?.refused(504, "Timeout")?;
        answer.is("/details/causes/0/reason", "ResourceVersionTooLarge")?;
    }
    Ok(())
}
