//! Custom resource definitions.

use serde_json::{Value, json};

use super::objects::open_schema;
use crate::Checked;
use crate::answer::ensure;
use crate::site::{DEFINITIONS, Site, definition_object};

table! { Definitions;
    definitions_become_established:
        "A new definition is accepted and established, and its versions are named as stored.",
        "Clients wait for the condition Established.";
    definition_names_follow_their_parts:
        "The name of a definition has to be <plural>.<group>.",
        "Two definitions never serve one path.";
    schemas_are_structural:
        "A schema without types is 422.",
        "Pruning and apply need to know every field's type.";
    one_version_is_stored:
        "Exactly one version is stored.",
        "Objects are kept in one form.";
    defaults_fit_their_schema:
        "A default that its own schema refuses is 422.",
        "Defaulting never makes an object invalid.";
    rules_have_to_compile:
        "A CEL rule that does not compile is 422 at its field.",
        "A broken rule is found before the first object.";
    map_lists_name_their_keys:
        "A list of type map without keys is 422.",
        "Elements have to be told apart.";
    scope_and_kind_are_immutable:
        "Scope and kind of a definition cannot be changed.",
        "Stored objects would be lost.";
    protected_groups_need_approval:
        "A definition in *.k8s.io without the approval annotation is 422.",
        "Those groups belong to the community.";
    schema_changes_take_effect:
        "A field added to the schema can be set from then on.",
        "Operators are upgraded in place.";
    versions_share_their_objects:
        "An object written in one served version is read in another, with its apiVersion.",
        "Clients of two releases work side by side.";
    unserved_versions_are_not_there:
        "A version that is not served is 404.",
        "Old versions can be switched off.";
    deprecated_versions_warn:
        "A request to a deprecated version gets a Warning header.",
        "Users learn of it in time.";
    definitions_take_their_objects_along [controllers]:
        "Deleting a definition deletes its objects, and then its paths are 404.",
        "Operators are removed with one call.";
    definitions_wait_for_finalizers [controllers]:
        "A definition stays while one of its objects has a finalizer, and takes no new objects.",
        "Cleaning up is never skipped.";
}

fn version(name: &str, served: bool, storage: bool, schema: &Value) -> Value {
    json!({"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

fn spec_of(properties: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
}

async fn definitions_become_established(s: Site) -> Checked {
    let widgets = s.definition(&open_schema(), &json!({})).await?;
    let answer = s.get(&widgets.path()).await?.expect(200)?;
    let answer = answer
        .is("/status/acceptedNames/kind", "Widget")?
        .is("/status/storedVersions", json!(["v1"]))?;
    for wanted in ["NamesAccepted", "Established"] {
        let conditions = answer
            .at("/status/conditions")
            .as_array()
            .cloned()
            .unwrap_or_default();
        let held = conditions
            .iter()
            .any(|c| c["type"] == wanted && c["status"] == "True");
        ensure(held, format!("{wanted} is not among {conditions:?}"))?;
    }
    Ok(())
}

async fn definition_names_follow_their_parts(s: Site) -> Checked {
    let widgets = s.new_definition();
    let mut object = definition_object(
        &widgets,
        &json!([version("v1", true, true, &open_schema())]),
    );
    let name = format!("other.{}", widgets.group);
    s.remove_later(format!("{DEFINITIONS}/{name}"));
    object["metadata"]["name"] = name.into();
    let answer = s
        .post(DEFINITIONS, &object)
        .await?
        .refused(422, "Invalid")?;
    answer.cause("FieldValueInvalid", "metadata.name")?;
    Ok(())
}

async fn refused(s: &Site, versions: Value, field: &str) -> Checked {
    let widgets = s.new_definition();
    let answer = s
        .post(DEFINITIONS, &definition_object(&widgets, &versions))
        .await?;
    answer.refused(422, "Invalid")?.says(field)?;
    Ok(())
}

async fn schemas_are_structural(s: Site) -> Checked {
    let untyped = spec_of(json!({"a": {}}));
    refused(
        &s,
        json!([version("v1", true, true, &untyped)]),
        "properties[a].type: Required value",
    )
    .await?;
    refused(
        &s,
        json!([{"name": "v1", "served": true, "storage": true}]),
        "schema",
    )
    .await
}

async fn one_version_is_stored(s: Site) -> Checked {
    for storage in [false, true] {
        let versions = json!([
            version("v1", true, storage, &open_schema()),
            version("v2", true, storage, &open_schema())
        ]);
        refused(
            &s,
            versions,
            "must have exactly one version marked as storage version",
        )
        .await?;
    }
    Ok(())
}

async fn defaults_fit_their_schema(s: Site) -> Checked {
    let schema = spec_of(json!({"n": {"type": "integer", "default": "one"}}));
    refused(
        &s,
        json!([version("v1", true, true, &schema)]),
        "properties[n].default",
    )
    .await
}

async fn rules_have_to_compile(s: Site) -> Checked {
    let mut schema = spec_of(json!({"n": {"type": "integer"}}));
    schema["properties"]["spec"]["x-kubernetes-validations"] = json!([{"rule": "self.none == 1"}]);
    refused(
        &s,
        json!([version("v1", true, true, &schema)]),
        "x-kubernetes-validations[0].rule",
    )
    .await
}

async fn map_lists_name_their_keys(s: Site) -> Checked {
    let item = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let schema =
        spec_of(json!({"l": {"type": "array", "x-kubernetes-list-type": "map", "items": item}}));
    refused(
        &s,
        json!([version("v1", true, true, &schema)]),
        "properties[l].x-kubernetes-list-map-keys",
    )
    .await
}

async fn scope_and_kind_are_immutable(s: Site) -> Checked {
    let widgets = s.definition(&open_schema(), &json!({})).await?;
    for (patch, field) in [
        (json!({"spec": {"scope": "Cluster"}}), "spec.scope"),
        (
            json!({"spec": {"names": {"kind": "Gadget"}}}),
            "spec.names.kind",
        ),
    ] {
        let answer = s
            .merge(&widgets.path(), &patch)
            .await?
            .refused(422, "Invalid")?;
        answer
            .cause("FieldValueInvalid", field)?
            .says("field is immutable")?;
    }
    Ok(())
}

async fn protected_groups_need_approval(s: Site) -> Checked {
    let mut widgets = s.new_definition();
    widgets.group = format!("{}.k8s.io", s.unique());
    s.remove_later(widgets.path());
    let object = definition_object(
        &widgets,
        &json!([version("v1", true, true, &open_schema())]),
    );
    let answer = s
        .post(DEFINITIONS, &object)
        .await?
        .refused(422, "Invalid")?;
    answer.says("protected groups must have approval annotation")?;
    Ok(())
}

async fn schema_changes_take_effect(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s
        .definition(&spec_of(json!({"old": {"type": "string"}})), &json!({}))
        .await?;
    let path = widgets.within(&ns);
    let object = widgets.object("a", &json!({"old": "x", "new": "y"}));
    let made = s
        .post(&path, &object)
        .await?
        .expect(201)?
        .lacks("/spec/new")?;
    let schema =
        spec_of(json!({"old": {"type": "string"}, "new": {"type": "string", "default": "given"}}));
    let patch = json!({"spec": {"versions": [version("v1", true, true, &schema)]}});
    s.merge(&widgets.path(), &patch)
        .await?
        .expect(200)?
        .is("/metadata/generation", 2)?;
    let item = format!("{path}/a");
    let seen = s
        .until(&item, "defaulted on reading", |answer| {
            answer.text("/spec/new") == "given"
        })
        .await?;
    ensure(seen.version() == made.version(), "reading does not write")?;
    s.merge(&item, &json!({"spec": {"new": "z"}}))
        .await?
        .expect(200)?
        .is("/spec/new", "z")?;
    Ok(())
}

async fn versions_share_their_objects(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let versions = json!([
        version("v1", true, true, &open_schema()),
        version("v2", true, false, &open_schema())
    ]);
    let widgets = s.definition_of(&versions).await?;
    s.post(&widgets.within(&ns), &widgets.object("a", &json!({"n": 1})))
        .await?
        .expect(201)?;
    let item = format!("{}/a", widgets.version_within("v2", &ns));
    let read = s.get(&item).await?.expect(200)?;
    let read = read
        .is("/apiVersion", format!("{}/v2", widgets.group))?
        .is("/spec/n", 1)?;
    let mut object = read.body.clone();
    object["spec"]["n"] = 2.into();
    s.put(&item, &object).await?.expect(200)?;
    let read = s
        .get(&format!("{}/a", widgets.within(&ns)))
        .await?
        .expect(200)?;
    read.is("/apiVersion", format!("{}/v1", widgets.group))?
        .is("/spec/n", 2)?;
    Ok(())
}

async fn unserved_versions_are_not_there(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let versions = json!([
        version("v1", true, true, &open_schema()),
        version("v0", false, false, &open_schema())
    ]);
    let widgets = s.definition_of(&versions).await?;
    s.get(&widgets.version_within("v0", &ns))
        .await?
        .expect(404)?;
    let mut object = widgets.object("a", &json!({}));
    object["apiVersion"] = format!("{}/v0", widgets.group).into();
    s.post(&widgets.version_within("v0", &ns), &object)
        .await?
        .expect(404)?;
    Ok(())
}

async fn deprecated_versions_warn(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let mut old = version("v1", true, true, &open_schema());
    old["deprecated"] = true.into();
    old["deprecationWarning"] = "use something else".into();
    let widgets = s.definition_of(&json!([old])).await?;
    let answer = s.get(&widgets.within(&ns)).await?.expect(200)?;
    let warned = answer
        .warnings
        .iter()
        .any(|w| w.contains("use something else"));
    ensure(warned, format!("the warnings were {:?}", answer.warnings))
}

async fn definitions_take_their_objects_along(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s.definition(&open_schema(), &json!({})).await?;
    s.post(&widgets.within(&ns), &widgets.object("a", &json!({})))
        .await?
        .expect(201)?;
    let answer = s.delete(&widgets.path()).await?.expect(200)?;
    let cleanup = json!(["customresourcecleanup.apiextensions.k8s.io"]);
    answer
        .is("/kind", "CustomResourceDefinition")?
        .is("/metadata/finalizers", cleanup)?;
    s.gone(&widgets.path()).await?;
    s.gone(&format!("{}/a", widgets.within(&ns))).await
}

async fn definitions_wait_for_finalizers(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s.definition(&open_schema(), &json!({})).await?;
    let mut object = widgets.object("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    s.post(&widgets.within(&ns), &object).await?.expect(201)?;
    s.delete(&widgets.path()).await?.expect(200)?;
    let item = format!("{}/a", widgets.within(&ns));
    let marked = s.until(&item, "being deleted", |a| {
        !a.at("/metadata/deletionTimestamp").is_null()
    });
    marked.await?;
    s.get(&widgets.path())
        .await?
        .expect(200)?
        .has("/metadata/deletionTimestamp")?;
    let late = s
        .post(&widgets.within(&ns), &widgets.object("b", &json!({})))
        .await?;
    ensure(late.code >= 400, "no new object")?;
    s.merge(&item, &json!({"metadata": {"finalizers": null}}))
        .await?
        .expect(200)?;
    s.gone(&widgets.path()).await
}
