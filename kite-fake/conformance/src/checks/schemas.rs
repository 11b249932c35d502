//! Validation, defaulting, pruning and CEL rules of custom resources.

use serde_json::{Value, json};

use crate::answer::ensure;
use crate::site::{Definition, Site};
use crate::{Checked, Failure};

table! { Schemas;
    schemas_are_enforced:
        "Required fields, types, bounds, patterns, enums and lengths are checked: 422 with a cause at the field.",
        "Controllers need not check what the schema says.";
    all_errors_are_told:
        "An object with several errors is refused with a cause for each.",
        "A person fixes them at once.";
    defaults_are_filled_in:
        "Defaults are set on creation, nested ones where their parent is there.",
        "Controllers find every field.";
    null_becomes_the_default:
        "A null where null is not allowed is dropped, and the default set.",
        "Clients of typed languages send null.";
    unknown_fields_are_pruned:
        "Fields that the schema does not know are not stored.",
        "A field added later begins empty.";
    open_objects_keep_everything:
        "x-kubernetes-preserve-unknown-fields keeps unknown fields, and prunes again below known ones.",
        "Values that are not one's own are carried.";
    int_or_string:
        "x-kubernetes-int-or-string takes both and nothing else.",
        "Ports have names or numbers.";
    sets_have_no_duplicates:
        "Duplicate elements of a set, or keys of a map list, are 422.",
        "Elements have to be told apart.";
    rules_are_enforced:
        "A CEL rule that does not hold is 422 with its message at its field.",
        "What a schema cannot say is still decided by the server.";
    rules_see_the_old_object:
        "A rule with oldSelf holds for updates and is not asked on creation.",
        "Fields are made immutable.";
    rules_see_the_name:
        "A rule at the root sees metadata.name.",
        "Singletons are made by their name.";
    rules_tell_what_is_wrong:
        "messageExpression makes the message; fieldPath and reason say where and what.",
        "People read it.";
    rules_wait_for_the_schema:
        "After an error of the schema rules are not asked, and a cause says so.",
        "Rules rely on types.";
    old_errors_may_stay:
        "After a schema was tightened an object that breaks it can be updated, as long as the broken field is not touched.",
        "Tightening a schema does not freeze old objects.";
    status_is_validated:
        "A write to /status is checked against the schema of status.",
        "Controllers make mistakes, too.";
}

async fn place(s: &Site, spec: Value) -> Result<(Definition, String), Failure> {
    let ns = s.namespace().await?;
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    let widgets = s.definition(&schema, &json!({})).await?;
    let path = widgets.within(&ns);
    Ok((widgets, path))
}

async fn schemas_are_enforced(s: Site) -> Checked {
    let (widgets, path) = place(
        &s,
        json!({"type": "object", "required": ["n"], "properties": {
        "n": {"type": "integer", "minimum": 1, "maximum": 9},
        "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
        "color": {"type": "string", "enum": ["red", "green"]},
        "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
        "at": {"type": "string", "format": "date-time"}}}),
    )
    .await?;
    for (spec, reason, field) in [
        (json!({}), "FieldValueRequired", "spec.n"),
        (json!({"n": 0}), "FieldValueInvalid", "spec.n"),
        (json!({"n": 10}), "FieldValueInvalid", "spec.n"),
        (json!({"n": "1"}), "FieldValueTypeInvalid", "spec.n"),
        (
            json!({"n": 1, "code": "A"}),
            "FieldValueInvalid",
            "spec.code",
        ),
        (
            json!({"n": 1, "code": "abcd"}),
            "FieldValueTooLong",
            "spec.code",
        ),
        (
            json!({"n": 1, "color": "blue"}),
            "FieldValueNotSupported",
            "spec.color",
        ),
        (
            json!({"n": 1, "tags": ["a", "b", "c"]}),
            "FieldValueTooMany",
            "spec.tags",
        ),
        (
            json!({"n": 1, "tags": ["a", 2]}),
            "FieldValueTypeInvalid",
            "spec.tags[1]",
        ),
        (
            json!({"n": 1, "at": "yesterday"}),
            "FieldValueTypeInvalid",
            "spec.at",
        ),
    ] {
        let answer = s.post(&path, &widgets.object("a", &spec)).await?;
        answer.refused(422, "Invalid")?.cause(reason, field)?;
    }
    let good =
        json!({"n": 9, "code": "abc", "color": "red", "tags": [], "at": "2026-01-01T00:00:00Z"});
    s.post(&path, &widgets.object("a", &good))
        .await?
        .expect(201)?;
    s.merge(&format!("{path}/a"), &json!({"spec": {"n": 99}}))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn all_errors_are_told(s: Site) -> Checked {
    let (widgets, path) = place(&s, json!({"type": "object", "required": ["n"], "properties": {
        "n": {"type": "integer"}, "color": {"type": "string", "enum": ["red"]}, "m": {"type": "integer", "minimum": 1}}})).await?;
    let answer = s
        .post(
            &path,
            &widgets.object("a", &json!({"color": "blue", "m": 0})),
        )
        .await?
        .refused(422, "Invalid")?;
    let answer = answer
        .cause("FieldValueRequired", "spec.n")?
        .cause("FieldValueInvalid", "spec.m")?;
    answer.cause("FieldValueNotSupported", "spec.color")?;
    Ok(())
}

async fn defaults_are_filled_in(s: Site) -> Checked {
    let (widgets, path) = place(&s, json!({"type": "object", "properties": {
        "mode": {"type": "string", "default": "auto"},
        "net": {"type": "object", "properties": {"port": {"type": "integer", "default": 80}}},
        "deep": {"type": "object", "default": {}, "properties": {"n": {"type": "integer", "default": 1}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"w": {"type": "integer", "default": 5}}}}}})).await?;
    let made = s
        .post(&path, &widgets.object("a", &json!({})))
        .await?
        .expect(201)?;
    made.is("/spec", json!({"mode": "auto", "deep": {"n": 1}}))?;
    let given = json!({"mode": "own", "net": {}, "list": [{}, {"w": 1}]});
    let made = s
        .post(&path, &widgets.object("b", &given))
        .await?
        .expect(201)?;
    made.is(
        "/spec",
        json!({"mode": "own", "deep": {"n": 1}, "net": {"port": 80}, "list": [{"w": 5}, {"w": 1}]}),
    )?;
    Ok(())
}

async fn null_becomes_the_default(s: Site) -> Checked {
    let (widgets, path) = place(
        &s,
        json!({"type": "object", "properties": {
        "mode": {"type": "string", "default": "auto"},
        "opt": {"type": "string", "nullable": true, "default": "x"}}}),
    )
    .await?;
    let made = s
        .post(
            &path,
            &widgets.object("a", &json!({"mode": null, "opt": null})),
        )
        .await?
        .expect(201)?;
    made.is("/spec/mode", "auto")?
        .is("/spec/opt", Value::Null)?;
    Ok(())
}

async fn unknown_fields_are_pruned(s: Site) -> Checked {
    let (widgets, path) = place(
        &s,
        json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
    )
    .await?;
    let mut object = widgets.object("a", &json!({"n": 1, "m": 2}));
    object["extra"] = json!({"x": 1});
    let made = s.post(&path, &object).await?.expect(201)?;
    let made = made.is("/spec", json!({"n": 1}))?.lacks("/extra")?;
    let warned = made
        .warnings
        .iter()
        .any(|w| w.contains("unknown field \\\"spec.m\\\""));
    ensure(warned, format!("the warnings were {:?}", made.warnings))?;
    s.get(&format!("{path}/a"))
        .await?
        .expect(200)?
        .is("/spec", json!({"n": 1}))?;
    Ok(())
}

async fn open_objects_keep_everything(s: Site) -> Checked {
    let (widgets, path) = place(
        &s,
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"known": {"type": "object", "properties": {"n": {"type": "integer"}}}}}),
    )
    .await?;
    let spec = json!({"free": {"deep": [1, {"x": null}]}, "known": {"n": 1, "m": 2}});
    let made = s
        .post(&path, &widgets.object("a", &spec))
        .await?
        .expect(201)?;
    made.is(
        "/spec",
        json!({"free": {"deep": [1, {"x": null}]}, "known": {"n": 1}}),
    )?;
    Ok(())
}

async fn int_or_string(s: Site) -> Checked {
    let (widgets, path) = place(
        &s,
        json!({"type": "object", "properties": {
        "port": {"x-kubernetes-int-or-string": true}}}),
    )
    .await?;
    for (name, port) in [("a", json!(80)), ("b", json!("http"))] {
        let made = s
            .post(&path, &widgets.object(name, &json!({"port": port})))
            .await?
            .expect(201)?;
        made.is("/spec/port", port)?;
    }
    s.post(&path, &widgets.object("c", &json!({"port": true})))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn sets_have_no_duplicates(s: Site) -> Checked {
    let (widgets, path) = place(&s, json!({"type": "object", "properties": {
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}}})).await?;
    for (spec, field) in [
        (json!({"set": ["a", "b", "a"]}), "spec.set[2]"),
        (
            json!({"map": [{"name": "a"}, {"name": "a"}]}),
            "spec.map[1]",
        ),
    ] {
        let answer = s
            .post(&path, &widgets.object("a", &spec))
            .await?
            .refused(422, "Invalid")?;
        answer.cause("FieldValueDuplicate", field)?;
    }
    Ok(())
}

fn ruled(rules: Value) -> Value {
    json!({"type": "object", "properties": {"min": {"type": "integer"}, "max": {"type": "integer"},
        "name": {"type": "string", "maxLength": 20}}, "x-kubernetes-validations": rules})
}

async fn rules_are_enforced(s: Site) -> Checked {
    let rules = json!([{"rule": "!has(self.min) || !has(self.max) || self.min <= self.max",
        "message": "min must not exceed max"}]);
    let (widgets, path) = place(&s, ruled(rules)).await?;
    s.post(&path, &widgets.object("a", &json!({"min": 1, "max": 2})))
        .await?
        .expect(201)?;
    let answer = s
        .post(&path, &widgets.object("b", &json!({"min": 3, "max": 2})))
        .await?
        .refused(422, "Invalid")?;
    answer
        .cause("FieldValueInvalid", "spec")?
        .says("min must not exceed max")?;
    s.merge(&format!("{path}/a"), &json!({"spec": {"max": 0}}))
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn rules_see_the_old_object(s: Site) -> Checked {
    let mut spec = ruled(json!([]));
    spec["properties"]["name"]["x-kubernetes-validations"] =
        json!([{"rule": "self == oldSelf", "message": "name is immutable"}]);
    let (widgets, path) = place(&s, spec).await?;
    s.post(&path, &widgets.object("a", &json!({"name": "x"})))
        .await?
        .expect(201)?;
    let item = format!("{path}/a");
    let answer = s
        .merge(&item, &json!({"spec": {"name": "y"}}))
        .await?
        .refused(422, "Invalid")?;
    answer
        .cause("FieldValueInvalid", "spec.name")?
        .says("name is immutable")?;
    s.merge(&item, &json!({"spec": {"name": "x", "min": 1}}))
        .await?
        .expect(200)?;
    Ok(())
}

async fn rules_see_the_name(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}},
        "x-kubernetes-validations": [{"rule": "self.metadata.name == 'default'", "message": "there is one"}]});
    let widgets = s.definition(&schema, &json!({})).await?;
    let path = widgets.within(&ns);
    s.post(&path, &widgets.object("other", &json!({})))
        .await?
        .refused(422, "Invalid")?
        .says("there is one")?;
    s.post(&path, &widgets.object("default", &json!({})))
        .await?
        .expect(201)?;
    Ok(())
}

async fn rules_tell_what_is_wrong(s: Site) -> Checked {
    let rules = json!([
        {"rule": "!has(self.name) || self.name.startsWith('x')", "messageExpression": "'bad name ' + self.name"},
        {"rule": "!has(self.max) || self.max < 100", "message": "too big", "fieldPath": ".max",
            "reason": "FieldValueForbidden"}]);
    let (widgets, path) = place(&s, ruled(rules)).await?;
    let answer = s
        .post(&path, &widgets.object("a", &json!({"name": "y"})))
        .await?
        .refused(422, "Invalid")?;
    answer.says("bad name y")?;
    let answer = s
        .post(&path, &widgets.object("a", &json!({"max": 100})))
        .await?
        .refused(422, "Invalid")?;
    answer
        .cause("FieldValueForbidden", "spec.max")?
        .says("too big")?;
    Ok(())
}

async fn rules_wait_for_the_schema(s: Site) -> Checked {
    let (widgets, path) = place(
        &s,
        ruled(json!([{"rule": "self.min < 5", "message": "never asked"}])),
    )
    .await?;
    let answer = s
        .post(&path, &widgets.object("a", &json!({"min": "x"})))
        .await?
        .refused(422, "Invalid")?;
    let answer = answer
        .says("some validation rules were not checked")?
        .cause("FieldValueTypeInvalid", "spec.min")?;
    ensure(
        !answer.text("/message").contains("never asked"),
        "the rule was not asked",
    )
}

async fn old_errors_may_stay(s: Site) -> Checked {
    let open = json!({"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}});
    let (widgets, path) = place(&s, open.clone()).await?;
    s.post(&path, &widgets.object("a", &json!({"n": 9, "m": 1})))
        .await?
        .expect(201)?;
    let mut tight = open;
    tight["properties"]["n"]["maximum"] = 5.into();
    let schema = json!({"type": "object", "properties": {"spec": tight}});
    let patch = json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": schema}}]}});
    s.merge(&widgets.path(), &patch).await?.expect(200)?;
    // On a real server it takes a moment until the new schema is in force.
    let fresh = widgets.object("b", &json!({"n": 9}));
    for _ in 0..600 {
        if s.post(&format!("{path}?dryRun=All"), &fresh).await?.code == 422 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    s.post(&path, &fresh).await?.refused(422, "Invalid")?;
    let item = format!("{path}/a");
    s.merge(&item, &json!({"spec": {"m": 2}}))
        .await?
        .expect(200)?
        .is("/spec/n", 9)?;
    s.merge(&item, &json!({"spec": {"n": 8}}))
        .await?
        .refused(422, "Invalid")?;
    s.merge(&item, &json!({"spec": {"n": 5}}))
        .await?
        .expect(200)?;
    Ok(())
}

async fn status_is_validated(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}, "status": {"type": "object",
        "properties": {"phase": {"type": "string", "enum": ["Ready"]}}}}});
    let widgets = s
        .definition(&schema, &json!({"subresources": {"status": {}}}))
        .await?;
    let path = widgets.within(&ns);
    s.post(&path, &widgets.object("a", &json!({})))
        .await?
        .expect(201)?;
    let status = format!("{path}/a/status");
    let answer = s
        .merge(&status, &json!({"status": {"phase": "Odd"}}))
        .await?
        .refused(422, "Invalid")?;
    answer.cause("FieldValueNotSupported", "status.phase")?;
    s.merge(&status, &json!({"status": {"phase": "Ready"}}))
        .await?
        .expect(200)?;
    Ok(())
}
