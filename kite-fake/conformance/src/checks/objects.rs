//! Create, read, update.

use serde_json::json;

use crate::Checked;
use crate::answer::ensure;
use crate::site::{Site, core, map, maps};

table! { Objects;
    create_gives_identity:
        "A created object has uid, resourceVersion and creationTimestamp; what the client sent of them is ignored.",
        "Owners and preconditions are by uid.";
    create_twice_is_refused:
        "Creating a name that exists is 409 AlreadyExists and changes nothing.",
        "A create is how clients claim a name.";
    generate_name_appends_five_characters:
        "generateName yields the prefix and five random characters.",
        "Clients tell generated objects by their prefix.";
    create_takes_no_version:
        "A create with a resourceVersion is refused.",
        "Writing back an object under another name must not look like an update.";
    missing_object_is_not_found:
        "GET, PUT, PATCH and DELETE of a missing object are 404 NotFound and name it.",
        "Clients decide by the reason and the details.";
    update_is_optimistic:
        "A PUT with an old resourceVersion is 409 Conflict; with the current one it is done.",
        "Two writers never lose each other's change.";
    update_without_version_overwrites:
        "A PUT of a ConfigMap without resourceVersion is unconditional.",
        "Scripts replace objects without reading them.";
    custom_update_needs_a_version:
        "A PUT of a custom resource without resourceVersion is 422.",
        "Custom resources cannot be replaced blindly.";
    update_with_another_uid_is_a_conflict:
        "A PUT with the uid of another object is 409 Conflict.",
        "An object that was deleted and made again is not the one that was read.";
    identical_update_changes_nothing:
        "Writing what is there keeps the resourceVersion.",
        "Settled reconcilers must not wake each other.";
    names_are_checked:
        "A name that is no RFC 1123 subdomain is 422 with a cause at metadata.name.",
        "Names end up in DNS and paths.";
    labels_are_checked:
        "Label values that are no label values are 422 with a cause at metadata.labels.",
        "Selectors are written in the same alphabet.";
    body_and_path_agree:
        "Name and namespace in the body have to be those of the path: 400.",
        "A wrong path must not write to another object.";
    kind_and_path_agree:
        "A body of another kind is 400.",
        "A wrong path must not store another kind.";
    uid_is_immutable:
        "metadata.uid cannot be changed.",
        "Everything that refers to an object relies on it.";
    unknown_fields_warn:
        "Unknown fields are dropped with a Warning header; with fieldValidation=Strict they are 400, with Ignore silent.",
        "kubectl shows what was misspelt.";
    immutable_config_map:
        "The data of an immutable ConfigMap cannot be changed.",
        "Kubelets cache immutable objects for good.";
    secret_string_data:
        "stringData of a Secret goes into data and is never shown; the default type is Opaque.",
        "Clients write plain text and read base64.";
    annotations_are_bounded:
        "Annotations of more than 256 KiB are 422.",
        "Nobody can fill the store through metadata.";
    put_creates_a_lease:
        "A PUT of a missing Lease creates it; of a missing ConfigMap it does not.",
        "Only some types may be made by an update.";
    finalizers_are_qualified:
        "A finalizer without a domain that is no standard one is 422.",
        "Somebody has to know who removes it.";
}

async fn create_gives_identity(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let mut object = map("a", &json!({"k": "v"}));
    let uid = "11111111-2222-3333-4444-555555555555";
    object["metadata"]["uid"] = uid.into();
    object["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z".into();
    let made = s.post(&maps(&ns), &object).await?.expect(201)?;
    let made = made
        .has("/metadata/resourceVersion")?
        .is("/metadata/namespace", ns.as_str())?;
    ensure(
        made.uid().len() == 36 && made.uid() != uid,
        "the uid is the server's own",
    )?;
    let created = made.text("/metadata/creationTimestamp");
    ensure(
        !created.starts_with("2001"),
        "the creation time is the server's own",
    )?;
    let read = s.get(&format!("{}/a", maps(&ns))).await?.expect(200)?;
    ensure(read.body == made.body, "what was answered is what is read")
}

async fn create_twice_is_refused(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let made = s
        .post(&maps(&ns), &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    let again = s.post(&maps(&ns), &map("a", &json!({"k": "2"}))).await?;
    again
        .refused(409, "AlreadyExists")?
        .is("/details/name", "a")?
        .is("/details/kind", "configmaps")?;
    let read = s.get(&format!("{}/a", maps(&ns))).await?.expect(200)?;
    ensure(read.body == made.body, "the first object is as it was")
}

async fn generate_name_appends_five_characters(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let mut object = map("", &json!({}));
    object["metadata"] = json!({"generateName": "made-"});
    let one = s
        .post(&maps(&ns), &object)
        .await?
        .expect(201)?
        .is("/metadata/generateName", "made-")?;
    let two = s.post(&maps(&ns), &object).await?.expect(201)?;
    let (one, two) = (one.text("/metadata/name"), two.text("/metadata/name"));
    let good = |name: &str| {
        name.strip_prefix("made-")
            .is_some_and(|rest| rest.len() == 5)
    };
    ensure(
        good(&one) && good(&two) && one != two,
        format!("made {one} and {two}"),
    )
}

async fn create_takes_no_version(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let mut object = map("a", &json!({}));
    object["metadata"]["resourceVersion"] = "1".into();
    let answer = s.post(&maps(&ns), &object).await?.expect(500)?;
    answer.says("resourceVersion should not be set on objects to be created")?;
    Ok(())
}

async fn missing_object_is_not_found(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/none", maps(&ns));
    let object = map("none", &json!({}));
    let answers = [
        s.get(&path).await?,
        s.put(&path, &object).await?,
        s.merge(&path, &json!({"data": {}})).await?,
        s.delete(&path).await?,
    ];
    for answer in answers {
        let answer = answer.refused(404, "NotFound")?;
        let answer = answer.is("/message", "configmaps \"none\" not found")?;
        answer
            .is("/details/name", "none")?
            .is("/details/kind", "configmaps")?;
    }
    Ok(())
}

async fn update_is_optimistic(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let made = s
        .post(&maps(&ns), &map("a", &json!({"k": "1"})))
        .await?
        .expect(201)?;
    let mut first = made.body.clone();
    first["data"]["k"] = "2".into();
    let updated = s
        .put(&path, &first)
        .await?
        .expect(200)?
        .is("/data/k", "2")?;
    ensure(
        updated.version() != made.version(),
        "a write moves the resourceVersion",
    )?;
    let late = s.put(&path, &made.body).await?.refused(409, "Conflict")?;
    late.says("the object has been modified; please apply your changes to the latest version")?;
    s.get(&path).await?.expect(200)?.is("/data/k", "2")?;
    Ok(())
}

async fn update_without_version_overwrites(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    s.post(&maps(&ns), &map("a", &json!({"k": "1", "l": "1"})))
        .await?
        .expect(201)?;
    let put = s
        .put(&path, &map("a", &json!({"k": "2"})))
        .await?
        .expect(200)?;
    put.is("/data", json!({"k": "2"}))?;
    Ok(())
}

async fn custom_update_needs_a_version(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let widgets = s.definition(&open_schema(), &json!({})).await?;
    let object = widgets.object("a", &json!({"n": 1}));
    s.post(&widgets.within(&ns), &object).await?.expect(201)?;
    let answer = s
        .put(&format!("{}/a", widgets.within(&ns)), &object)
        .await?;
    let answer = answer.refused(422, "Invalid")?;
    answer
        .cause("FieldValueInvalid", "metadata.resourceVersion")?
        .says("must be specified for an update")?;
    Ok(())
}

async fn update_with_another_uid_is_a_conflict(s: Site) -> Checked {
    let ns = s.namespace().await?;
    s.post(&maps(&ns), &map("a", &json!({})))
        .await?
        .expect(201)?;
    let mut other = map("a", &json!({"k": "v"}));
    other["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555".into();
    let answer = s.put(&format!("{}/a", maps(&ns)), &other).await?;
    answer
        .refused(409, "Conflict")?
        .says("Precondition failed: UID in precondition")?;
    Ok(())
}

async fn identical_update_changes_nothing(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let made = s
        .post(&maps(&ns), &map("a", &json!({"k": "v"})))
        .await?
        .expect(201)?;
    let put = s.put(&path, &made.body).await?.expect(200)?;
    let patched = s
        .merge(&path, &json!({"data": {"k": "v"}}))
        .await?
        .expect(200)?;
    ensure(put.version() == made.version(), "a PUT of the same")?;
    ensure(patched.version() == made.version(), "a patch to the same")
}

async fn names_are_checked(s: Site) -> Checked {
    let ns = s.namespace().await?;
    for name in ["Upper", "under_score", "-dash", "dot."] {
        let answer = s.post(&maps(&ns), &map(name, &json!({}))).await?;
        let answer = answer
            .refused(422, "Invalid")?
            .cause("FieldValueInvalid", "metadata.name")?;
        answer.says("a lowercase RFC 1123 subdomain must consist of")?;
    }
    let long = s
        .post(&maps(&ns), &map(&"n".repeat(254), &json!({})))
        .await?;
    long.refused(422, "Invalid")?
        .says("must be no more than 253")?;
    s.post(&maps(&ns), &map("a.b-c", &json!({})))
        .await?
        .expect(201)?;
    Ok(())
}

async fn labels_are_checked(s: Site) -> Checked {
    let ns = s.namespace().await?;
    for labels in [
        json!({"k": "a b"}),
        json!({"k": "v".repeat(64)}),
        json!({"a/b/c": "v"}),
        json!({"": "v"}),
    ] {
        let mut object = map("a", &json!({}));
        object["metadata"]["labels"] = labels;
        let answer = s.post(&maps(&ns), &object).await?.refused(422, "Invalid")?;
        answer.cause("FieldValueInvalid", "metadata.labels")?;
    }
    let mut object = map("a", &json!({}));
    object["metadata"]["labels"] = json!({"example.com/k": "", "k": "A.b_c-1"});
    s.post(&maps(&ns), &object).await?.expect(201)?;
    Ok(())
}

async fn body_and_path_agree(s: Site) -> Checked {
    let ns = s.namespace().await?;
    s.post(&maps(&ns), &map("a", &json!({})))
        .await?
        .expect(201)?;
    let answer = s
        .put(&format!("{}/a", maps(&ns)), &map("b", &json!({})))
        .await?;
    answer
        .refused(400, "BadRequest")?
        .says("the name of the object (b) does not match the name on the URL (a)")?;
    let mut elsewhere = map("c", &json!({}));
    elsewhere["metadata"]["namespace"] = "default".into();
    let answer = s
        .post(&maps(&ns), &elsewhere)
        .await?
        .refused(400, "BadRequest")?;
    answer.says(
        "the namespace of the provided object does not match the namespace sent on the request",
    )?;
    Ok(())
}

async fn kind_and_path_agree(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    s.post(&maps(&ns), &secret)
        .await?
        .refused(400, "BadRequest")?;
    s.get(&format!("{}/a", core(&ns, "secrets")))
        .await?
        .expect(404)?;
    Ok(())
}

async fn uid_is_immutable(s: Site) -> Checked {
    let ns = s.namespace().await?;
    s.post(&maps(&ns), &map("a", &json!({})))
        .await?
        .expect(201)?;
    let patch = json!({"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}});
    let answer = s
        .merge(&format!("{}/a", maps(&ns)), &patch)
        .await?
        .refused(422, "Invalid")?;
    answer
        .cause("FieldValueInvalid", "metadata.uid")?
        .says("field is immutable")?;
    Ok(())
}

async fn unknown_fields_warn(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let mut object = map("a", &json!({}));
    object["dat"] = json!({"k": "v"});
    let warned = s
        .post(&maps(&ns), &object)
        .await?
        .expect(201)?
        .lacks("/dat")?;
    ensure(
        warned
            .warnings
            .iter()
            .any(|w| w.contains("unknown field") && w.contains("dat")),
        format!("the warnings were {:?}", warned.warnings),
    )?;
    object["metadata"]["name"] = "b".into();
    let strict = s
        .post(&format!("{}?fieldValidation=Strict", maps(&ns)), &object)
        .await?;
    strict
        .refused(400, "BadRequest")?
        .says("strict decoding error: unknown field \"dat\"")?;
    let silent = s
        .post(&format!("{}?fieldValidation=Ignore", maps(&ns)), &object)
        .await?
        .expect(201)?;
    ensure(silent.warnings.is_empty(), "Ignore gives no warning")
}

async fn immutable_config_map(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/a", maps(&ns));
    let mut object = map("a", &json!({"k": "v"}));
    object["immutable"] = true.into();
    s.post(&maps(&ns), &object).await?.expect(201)?;
    let answer = s
        .merge(&path, &json!({"data": {"k": "w"}}))
        .await?
        .refused(422, "Invalid")?;
    answer.cause("FieldValueForbidden", "data")?;
    let answer = s
        .merge(&path, &json!({"immutable": false}))
        .await?
        .refused(422, "Invalid")?;
    answer.cause("FieldValueForbidden", "immutable")?;
    s.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}}))
        .await?
        .expect(200)?;
    Ok(())
}

async fn secret_string_data(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = core(&ns, "secrets");
    let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"},
        "data": {"k": "b2xk", "l": "bA=="}, "stringData": {"k": "new"}});
    let made = s
        .post(&path, &object)
        .await?
        .expect(201)?
        .lacks("/stringData")?;
    made.is("/data", json!({"k": "bmV3", "l": "bA=="}))?
        .is("/type", "Opaque")?;
    let answer = s
        .merge(&format!("{path}/a"), &json!({"type": "example.com/other"}))
        .await?;
    answer
        .refused(422, "Invalid")?
        .cause("FieldValueInvalid", "type")?;
    Ok(())
}

async fn annotations_are_bounded(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let mut object = map("a", &json!({}));
    object["metadata"]["annotations"] = json!({"k": "v".repeat(257 * 1024)});
    let answer = s.post(&maps(&ns), &object).await?.refused(422, "Invalid")?;
    answer.cause("FieldValueTooLong", "metadata.annotations")?;
    Ok(())
}

async fn put_creates_a_lease(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "a"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}});
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/a");
    s.put(&path, &lease)
        .await?
        .expect(201)?
        .has("/metadata/uid")?;
    s.put(&format!("{}/a", maps(&ns)), &map("a", &json!({})))
        .await?
        .expect(404)?;
    Ok(())
}

async fn finalizers_are_qualified(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let mut object = map("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["nosuch"]);
    let answer = s.post(&maps(&ns), &object).await?.refused(422, "Invalid")?;
    answer.says("name is neither a standard finalizer name nor is it fully qualified")?;
    Ok(())
}

/// Objects with any members below `spec` and `status`.
pub(super) fn open_schema() -> serde_json::Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"type": "object", "properties": {"spec": open, "status": open}})
}
