//! What is said of an expression of an admission policy or a webhook when it is stored.

use std::sync::{Arc, LazyLock};

use serde_json::{Value as Json, json};

use super::super::model::{Kind, Schema};
use super::check::{Variable, check};
use super::program::{Program, STACK, bounded};
use super::types::Type;
use crate::schema::declared::{Declared, Wanted};

impl Wanted {
    /// Whether a type is this one for sure; the words of the refusal if not.
    fn is(self, found: &Type<'_>) -> Result<(), &'static str> {
        match (self, found) {
            (Self::Anything, _)
            | (Self::Bool, Type::Bool)
            | (Self::Text | Self::TextOrNull, Type::Text)
            | (Self::TextOrNull, Type::Null) => Ok(()),
            (Self::Bool, _) => Err("must evaluate to bool"),
            (Self::Text, _) => Err("must evaluate to string"),
            (Self::TextOrNull, _) => Err("must evaluate to one of [string null_type]"),
        }
    }
}

/// Looks at an expression: whether it compiles with what is declared, and what it comes to.
///
/// # Errors
///
/// What is wrong, in the API server's words.
pub(crate) fn review_expression(
    source: &str,
    declared: &Declared<'_>,
    wanted: Wanted,
) -> Result<(), String> {
    // Trees can be deep.
    let found = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let thread = thread.spawn_scoped(scope, || look_at(source, declared, wanted));
        thread.ok()?.join().ok()
    });
    found.unwrap_or_else(|| Err("compilation failed: the expression cannot be checked".to_owned()))
}

fn look_at(source: &str, declared: &Declared<'_>, wanted: Wanted) -> Result<(), String> {
    let failed = |why: &str| format!("compilation failed: {why}");
    bounded(source).map_err(|why| failed(&why))?;
    let composed = declared.variables.map(|names| Schema {
        kind: Kind::Object,
        properties: names
            .iter()
            .map(|name| ((*name).to_owned(), Arc::new(anything())))
            .collect(),
        ..Schema::default()
    });
    let mut variables: Vec<Variable<'_>> = vec![
        ("object", Type::Dyn),
        ("oldObject", Type::Dyn),
        ("request", Type::Object(&REQUEST)),
        ("namespaceObject", Type::Object(&NAMESPACE)),
    ];
    if declared.params {
        variables.push(("params", Type::Dyn));
    }
    if declared.authorizer {
        variables.push(("authorizer", Type::Named(AUTHORIZER)));
    }
    if let Some(composed) = &composed {
        variables.push(("variables", Type::Object(composed)));
    }
    let checked = match (check(source, variables), Program::compile(source)) {
        // Where the grammar is not followed, the grammar's parser has the words.
        (Err(None) | Ok(_), Err(why)) | (Err(Some(why)), _) => return Err(failed(&why)),
        (Err(None), Ok(_)) => return Err(failed("the expression cannot be parsed")),
        (Ok(checked), Ok(_)) => checked,
    };
    let found = checked.types.get(&checked.root.id).unwrap_or(&Type::Dyn);
    wanted.is(found).map_err(str::to_owned)
}

/// The type of who asks, as the declarations name it.
const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";

/// A value whose type is not known.
fn anything() -> Schema {
    Schema {
        kind: Kind::IntOrString,
        ..Schema::default()
    }
}

static REQUEST: LazyLock<Schema> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": text});
    let kind = object(
        "GroupVersionKind",
        &json!({"group": text, "version": text, "kind": text}),
    );
    let resource = json!({"group": text, "version": text, "resource": text});
    let resource = object("GroupVersionResource", &resource);
    let user = json!({
        "username": text, "uid": text, "groups": texts,
        "extra": {"type": "object", "additionalProperties": texts},
    });
    let request = json!({
        "kind": kind, "resource": resource, "subResource": text,
        "requestKind": kind, "requestResource": resource, "requestSubResource": text,
        "name": text, "namespace": text, "operation": text,
        "userInfo": object("UserInfo", &user), "dryRun": {"type": "boolean"},
        "options": {"x-kubernetes-int-or-string": true},
    });
    read(&object("AdmissionRequest", &request))
});

static NAMESPACE: LazyLock<Schema> = LazyLock::new(|| {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    let texts = json!({"type": "array", "items": text});
    let map = json!({"type": "object", "additionalProperties": text});
    let time = json!({"type": "string", "format": "date-time"});
    let metadata = json!({
        "name": text, "generateName": text, "namespace": text, "labels": map,
        "annotations": map, "UID": text, "creationTimestamp": time,
        "deletionGracePeriodSeconds": number, "deletionTimestamp": time,
        "generation": number, "resourceVersion": text, "finalizers": texts,
    });
    let namespace = json!({
        "metadata": object("NamespaceMetadata", &metadata),
        "spec": object("NamespaceSpec", &json!({"finalizers": texts})),
        "status": object("NamespaceStatus", &json!({"phase": text})),
    });
    read(&object("Namespace", &namespace))
});

/// The schema of a declared type with these members.
fn object(name: &str, members: &Json) -> Json {
    json!({"type": "object", "x-go-type": format!("kubernetes.{name}"), "properties": members})
}

fn read(schema: &Json) -> Schema {
    Schema::from_json(schema).unwrap_or_else(|_| anything())
}
