//! What the server says about itself.

use serde_json::{Value, json};

use super::objects::open_schema;
use crate::Checked;
use crate::answer::ensure;
use crate::site::{Site, maps};

table! { Discovery;
    the_version_is_told:
        "/version has major, minor and gitVersion.",
        "Clients adapt to the release.";
    groups_and_resources_are_told:
        "/api and /apis name versions and groups, and each version its resources with kind, scope and verbs.",
        "Clients learn paths from kinds.";
    aggregated_discovery:
        "/apis as APIGroupDiscoveryList has groups, versions and resources in one answer.",
        "kubectl starts with two requests.";
    definitions_are_discovered:
        "A custom resource is in discovery with names, scope and subresources.",
        "kubectl knows new kinds at once.";
    schemas_are_published:
        "The OpenAPI v3 document of a custom resource has its schema with descriptions.",
        "kubectl explain, and validation before sending.";
    the_openapi_index_leads_on:
        "/openapi/v3 names a document for each group and version, with a hash.",
        "Clients cache documents.";
    the_server_is_ready:
        "/readyz and /livez answer ok.",
        "Load balancers ask.";
    unknown_paths_are_not_found:
        "An unknown resource of a known group is a Status 404, an unknown group is 404.",
        "Clients tell a missing kind from a missing object.";
    unknown_methods_are_refused:
        "PUT and PATCH of a collection, and POST to a ConfigMap, are 405 MethodNotAllowed.",
        "A wrong path must not do something else.";
    unknown_media_types_are_refused:
        "A body of an unknown type is 415, an Accept of an unknown type 406.",
        "Clients learn what is understood.";
    broken_bodies_are_refused:
        "A body that is no JSON, or of another type, is 400 BadRequest.",
        "A broken client is told so.";
}

async fn the_version_is_told(s: Site) -> Checked {
    let answer = s
        .get("/version")
        .await?
        .expect(200)?
        .is("/major", "1")?
        .has("/minor")?;
    ensure(
        answer.text("/gitVersion").starts_with("v1."),
        answer.text("/gitVersion"),
    )
}

fn find<'a>(list: &'a Value, member: &str, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|item| item[member] == name)
}

async fn groups_and_resources_are_told(s: Site) -> Checked {
    s.get("/api")
        .await?
        .expect(200)?
        .is("/kind", "APIVersions")?
        .is("/versions", json!(["v1"]))?;
    let groups = s
        .get("/apis")
        .await?
        .expect(200)?
        .is("/kind", "APIGroupList")?;
    let apps = find(groups.at("/groups"), "name", "apps");
    ensure(
        apps.is_some_and(|g| g["preferredVersion"]["version"] == "v1"),
        "apps/v1 is preferred",
    )?;
    let core = s
        .get("/api/v1")
        .await?
        .expect(200)?
        .is("/kind", "APIResourceList")?;
    let maps = find(core.at("/resources"), "name", "configmaps")
        .cloned()
        .unwrap_or_default();
    ensure(
        maps["kind"] == "ConfigMap" && maps["namespaced"] == true,
        format!("{maps}"),
    )?;
    let verbs = maps["verbs"].as_array().cloned().unwrap_or_default();
    for verb in [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ] {
        ensure(
            verbs.iter().any(|v| v == verb),
            format!("{verb} is among {verbs:?}"),
        )?;
    }
    ensure(maps["shortNames"] == json!(["cm"]), format!("{maps}"))
}

async fn aggregated_discovery(s: Site) -> Checked {
    let media =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let answer = s.accepting(media).get("/apis").await?.expect(200)?;
    let answer = answer
        .is("/kind", "APIGroupDiscoveryList")?
        .is("/apiVersion", "apidiscovery.k8s.io/v2")?;
    let groups = answer.at("/items").as_array().cloned().unwrap_or_default();
    let apps = groups
        .iter()
        .find(|g| g["metadata"]["name"] == "apps")
        .cloned()
        .unwrap_or_default();
    let resources = &apps["versions"][0]["resources"];
    let deployments = find(resources, "resource", "deployments")
        .cloned()
        .unwrap_or_default();
    ensure(
        deployments["responseKind"]["kind"] == "Deployment",
        format!("{deployments}"),
    )?;
    ensure(
        deployments["scope"] == "Namespaced",
        format!("{deployments}"),
    )
}

async fn definitions_are_discovered(s: Site) -> Checked {
    let widgets = s
        .definition(&open_schema(), &json!({"subresources": {"status": {}}}))
        .await?;
    let path = format!("/apis/{}/v1", widgets.group);
    let answer = s
        .until(&path, "discovered", |answer| answer.code == 200)
        .await?;
    let resource = find(answer.at("/resources"), "name", "widgets")
        .cloned()
        .unwrap_or_default();
    ensure(
        resource["kind"] == "Widget" && resource["namespaced"] == true,
        format!("{resource}"),
    )?;
    ensure(
        find(answer.at("/resources"), "name", "widgets/status").is_some(),
        "the subresource is told",
    )?;
    let group = s
        .get(&format!("/apis/{}", widgets.group))
        .await?
        .expect(200)?;
    group.is("/preferredVersion/version", "v1")?;
    Ok(())
}

async fn schemas_are_published(s: Site) -> Checked {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "description": "What is wanted.",
        "properties": {"size": {"type": "integer", "minimum": 1}}}}});
    let widgets = s.definition(&schema, &json!({})).await?;
    let path = format!("/openapi/v3/apis/{}/v1", widgets.group);
    let answer = s
        .until(&path, "published", |answer| answer.code == 200)
        .await?;
    let schemas = answer
        .at("/components/schemas")
        .as_object()
        .cloned()
        .unwrap_or_default();
    let found = schemas.values().find(|schema| {
        let kinds = &schema["x-kubernetes-group-version-kind"];
        find(kinds, "kind", "Widget").is_some_and(|k| k["group"] == widgets.group.as_str())
    });
    let spec = found
        .map(|schema| schema["properties"]["spec"].clone())
        .unwrap_or_default();
    ensure(spec["description"] == "What is wanted.", format!("{spec}"))?;
    ensure(
        spec["properties"]["size"]["type"] == "integer",
        format!("{spec}"),
    )
}

async fn the_openapi_index_leads_on(s: Site) -> Checked {
    let index = s.get("/openapi/v3").await?.expect(200)?;
    for key in [
        "/paths/api~1v1/serverRelativeURL",
        "/paths/apis~1apps~1v1/serverRelativeURL",
    ] {
        let url = index.text(key);
        ensure(url.contains("?hash="), format!("{key} is {url:?}"))?;
        s.get(&url).await?.expect(200)?.has("/components/schemas")?;
    }
    Ok(())
}

async fn the_server_is_ready(s: Site) -> Checked {
    for path in ["/readyz", "/livez"] {
        s.get(path).await?.expect(200)?.says("ok")?;
    }
    Ok(())
}

async fn unknown_paths_are_not_found(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let answer = s
        .get(&format!("/api/v1/namespaces/{ns}/wombats"))
        .await?
        .refused(404, "NotFound")?;
    answer.is(
        "/message",
        "the server could not find the requested resource",
    )?;
    s.get("/apis/apps/v9/deployments").await?.expect(404)?;
    s.get(&format!("/apis/{}.example.com/v1/things", s.unique()))
        .await?
        .expect(404)?;
    Ok(())
}

async fn unknown_methods_are_refused(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let object = crate::site::map("a", &json!({}));
    s.post(&maps(&ns), &object).await?.expect(201)?;
    s.put(&maps(&ns), &object)
        .await?
        .refused(405, "MethodNotAllowed")?;
    s.merge(&maps(&ns), &object)
        .await?
        .refused(405, "MethodNotAllowed")?;
    s.post(&format!("{}/a", maps(&ns)), &object)
        .await?
        .refused(405, "MethodNotAllowed")?;
    Ok(())
}

async fn unknown_media_types_are_refused(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let answer = s
        .send(http::Method::POST, &maps(&ns), "text/plain", b"a".to_vec())
        .await?;
    answer.refused(415, "UnsupportedMediaType")?;
    s.accepting("text/html")
        .get(&maps(&ns))
        .await?
        .refused(406, "NotAcceptable")?;
    Ok(())
}

async fn broken_bodies_are_refused(s: Site) -> Checked {
    let ns = s.namespace().await?;
    for body in ["{", "", "[]"] {
        let answer = s
            .send(
                http::Method::POST,
                &maps(&ns),
                "application/json",
                body.into(),
            )
            .await?;
        answer.refused(400, "BadRequest")?;
    }
    let answer = s
        .post(&maps(&ns), &crate::site::map("a", &json!({"k": 1})))
        .await?;
    answer
        .refused(400, "BadRequest")?
        .says("cannot be handled as a ConfigMap")?;
    Ok(())
}
