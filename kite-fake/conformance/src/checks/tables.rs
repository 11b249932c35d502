//! Tables, partial metadata, media types.

use serde_json::{Value, json};

use crate::answer::ensure;
use crate::site::{Site, map, maps};
use crate::{Checked, Failure};

table! { Tables;
    lists_come_as_tables:
        "A list as Table has columns and a row with metadata for each object.",
        "kubectl get.";
    tables_can_leave_out_objects:
        "includeObject=None leaves objects out of a Table, Object puts them in whole.",
        "Clients choose how much is sent.";
    printer_columns_are_shown:
        "additionalPrinterColumns are the columns of a custom resource's Table, with type and priority.",
        "kubectl get shows what matters.";
    metadata_comes_alone:
        "PartialObjectMetadata and its list have metadata and nothing else.",
        "Controllers that need names and labels only.";
    metadata_can_be_watched:
        "A watch as PartialObjectMetadata has metadata and nothing else.",
        "The garbage collector lives on it.";
    answers_come_as_yaml:
        "Accept: application/yaml gives YAML.",
        "People read it.";
    bodies_may_be_yaml:
        "A create with a YAML body is like one with JSON.",
        "People write it.";
    failures_stay_a_status:
        "A failure is a Status, whatever was asked for.",
        "Clients find the reason.";
}

const TABLE_MEDIA: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

async fn filled(s: &Site) -> Result<String, Failure> {
    let ns = s.namespace().await?;
    let mut object = map("a", &json!({"k": "1", "l": "2"}));
    object["metadata"]["labels"] = json!({"set": "ours"});
    s.post(&maps(&ns), &object).await?.expect(201)?;
    Ok(format!("{}?labelSelector=set%3Dours", maps(&ns)))
}

async fn lists_come_as_tables(s: Site) -> Checked {
    let path = filled(&s).await?;
    let table = s.accepting(TABLE_MEDIA).get(&path).await?.expect(200)?;
    let table = table
        .is("/kind", "Table")?
        .is("/apiVersion", "meta.k8s.io/v1")?
        .has("/metadata/resourceVersion")?;
    let table = table
        .is("/columnDefinitions/0/name", "Name")?
        .is("/columnDefinitions/1/name", "Data")?;
    let table = table
        .is("/rows/0/cells/0", "a")?
        .is("/rows/0/cells/1", 2)?
        .lacks("/rows/1")?;
    let table = table.is("/rows/0/object/kind", "PartialObjectMetadata")?;
    table.is("/rows/0/object/metadata/name", "a")?;
    Ok(())
}

async fn tables_can_leave_out_objects(s: Site) -> Checked {
    let path = filled(&s).await?;
    let client = s.accepting(TABLE_MEDIA);
    let none = client
        .get(&format!("{path}&includeObject=None"))
        .await?
        .expect(200)?;
    ensure(none.at("/rows/0/object").is_null(), "no object in the row")?;
    let whole = client
        .get(&format!("{path}&includeObject=Object"))
        .await?
        .expect(200)?;
    whole
        .is("/rows/0/object/kind", "ConfigMap")?
        .is("/rows/0/object/data/k", "1")?;
    Ok(())
}

async fn printer_columns_are_shown(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"}, "color": {"type": "string"}}}}});
    let columns = json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]);
    let widgets = s
        .definition(&schema, &json!({"additionalPrinterColumns": columns}))
        .await?;
    let path = widgets.within(&ns);
    s.post(&path, &widgets.object("a", &json!({"size": 3})))
        .await?
        .expect(201)?;
    let table = s.accepting(TABLE_MEDIA).get(&path).await?.expect(200)?;
    let names: Vec<&Value> = match table.at("/columnDefinitions").as_array() {
        Some(columns) => columns.iter().map(|c| &c["name"]).collect(),
        None => Vec::new(),
    };
    ensure(
        names == ["Name", "Size", "Color", "Age"],
        format!("the columns are {names:?}"),
    )?;
    let table = table.is("/columnDefinitions/2/priority", 1)?;
    table
        .is("/rows/0/cells/0", "a")?
        .is("/rows/0/cells/1", 3)?
        .is("/rows/0/cells/2", Value::Null)?;
    Ok(())
}

async fn metadata_comes_alone(s: Site) -> Checked {
    let path = filled(&s).await?;
    let list = s.accepting(PARTIAL_LIST).get(&path).await?.expect(200)?;
    let list = list
        .is("/kind", "PartialObjectMetadataList")?
        .is("/items/0/kind", "PartialObjectMetadata")?;
    list.is("/items/0/metadata/name", "a")?
        .lacks("/items/0/data")?;
    let item = path.replace("?labelSelector=set%3Dours", "/a");
    let one = s.accepting(PARTIAL).get(&item).await?.expect(200)?;
    one.is("/kind", "PartialObjectMetadata")?
        .is("/metadata/labels/set", "ours")?
        .lacks("/data")?;
    Ok(())
}

async fn metadata_can_be_watched(s: Site) -> Checked {
    let path = filled(&s).await?;
    let mut watch = s.accepting(PARTIAL).watch(&path).await?;
    let event = watch.expect("ADDED", "a").await?;
    let object = &event.object;
    ensure(
        object["kind"] == "PartialObjectMetadata" && object["data"].is_null(),
        format!("{object}"),
    )
}

async fn answers_come_as_yaml(s: Site) -> Checked {
    let path = filled(&s).await?.replace("?labelSelector=set%3Dours", "/a");
    let answer = s
        .accepting("application/yaml")
        .get(&path)
        .await?
        .expect(200)?;
    ensure(
        answer.content_type.starts_with("application/yaml"),
        answer.content_type.clone(),
    )?;
    let text = answer.body.as_str().unwrap_or_default();
    let value: Value = serde_saphyr::from_str(text).unwrap_or_default();
    ensure(
        value["kind"] == "ConfigMap" && value["data"]["k"] == "1",
        format!("{text:?}"),
    )
}

async fn bodies_may_be_yaml(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: v\n";
    let answer = s
        .send(
            http::Method::POST,
            &maps(&ns),
            "application/yaml",
            yaml.into(),
        )
        .await?;
    answer.expect(201)?.is("/data/k", "v")?;
    Ok(())
}

async fn failures_stay_a_status(s: Site) -> Checked {
    let ns = s.namespace().await?;
    let path = format!("{}/none", maps(&ns));
    s.accepting(TABLE_MEDIA)
        .get(&path)
        .await?
        .refused(404, "NotFound")?;
    Ok(())
}
