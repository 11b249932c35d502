//! Objects that an expression makes (`Object{…}`, `Object.spec{…}`, `JSONPatch{…}`), which
//! only policies that change objects may do. They are maps that know what they were called,
//! for what stands in a member must be called after it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_cel::cel::Value;
use kube_cel::cel::common::ast::{
    EntryExpr, Expr, IdedExpr, LiteralValue, MapEntryExpr, MapExpr, StructExpr,
};
use kube_cel::cel::objects::Key;
use serde_json::{Map, Value as Json};

use super::check::display;

/// The member that has the name of an object's type. No expression can name it.
const TYPE: &str = "@type";
/// An operation of a JSON patch.
const OPERATION: &str = "JSONPatch";
/// The type of the object as a whole.
const ROOT: &str = "Object";

/// Makes maps of the objects in an expression.
///
/// # Errors
/// The compiler's text about a type that is not known: none is, unless `mutating`.
pub(super) fn construct(source: &str, expr: IdedExpr, mutating: bool) -> Result<IdedExpr, String> {
    let within = |expr| construct(source, expr, mutating);
    let boxed = |expr: Box<IdedExpr>| within(*expr).map(Box::new);
    let all = |list: Vec<IdedExpr>| list.into_iter().map(within).collect::<Result<Vec<_>, _>>();
    let made = match expr.expr {
        Expr::Struct(object) => {
            if !mutating || !is_known(&object.type_name) {
                return Err(undeclared(source, &object.type_name));
            }
            map_of(object, &within)?
        }
        Expr::Call(mut call) => {
            call.target = call.target.map(boxed).transpose()?;
            call.args = all(call.args)?;
            Expr::Call(call)
        }
        Expr::Comprehension(mut inner) => {
            inner.iter_range = within(inner.iter_range)?;
            inner.accu_init = within(inner.accu_init)?;
            inner.loop_cond = within(inner.loop_cond)?;
            inner.loop_step = within(inner.loop_step)?;
            inner.result = within(inner.result)?;
            Expr::Comprehension(inner)
        }
        Expr::List(mut list) => {
            list.elements = all(list.elements)?;
            Expr::List(list)
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    entry.key = within(std::mem::take(&mut entry.key))?;
                    entry.value = within(std::mem::take(&mut entry.value))?;
                }
            }
            Expr::Map(map)
        }
        Expr::Select(mut select) => {
            select.operand = boxed(select.operand)?;
            Expr::Select(select)
        }
        other @ (Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_)) => other,
    };
    Ok(IdedExpr { expr: made, ..expr })
}

fn is_known(name: &str) -> bool {
    name == OPERATION || name == ROOT || name.starts_with("Object.")
}

fn undeclared(source: &str, name: &str) -> String {
    let at = source.find(name).unwrap_or(0);
    let at = source.get(..at).map_or(0, |before| before.chars().count());
    let why = format!("undeclared reference to '{name}' (in container '')");
    display(source, &[(at, why)])
}

fn map_of(
    object: StructExpr,
    within: &impl Fn(IdedExpr) -> Result<IdedExpr, String>,
) -> Result<Expr, String> {
    let text = |text: String| IdedExpr {
        expr: Expr::Literal(LiteralValue::String(text.into())),
        ..IdedExpr::default()
    };
    let mut entries = Vec::with_capacity(object.entries.len() + 1);
    for mut entry in object.entries {
        if let EntryExpr::StructField(field) = entry.expr {
            entry.expr = EntryExpr::MapEntry(MapEntryExpr {
                key: text(field.field),
                value: within(field.value)?,
                optional: field.optional,
            });
            entries.push(entry);
        }
    }
    let name = MapEntryExpr {
        key: text(TYPE.to_owned()),
        value: text(object.type_name),
        optional: false,
    };
    entries.push(kube_cel::cel::common::ast::IdedEntryExpr {
        id: 0,
        expr: EntryExpr::MapEntry(name),
    });
    Ok(Expr::Map(MapExpr { entries }))
}

/// What an expression made to be applied, in JSON.
///
/// # Errors
/// It is something else, or a part of it is called otherwise than its place.
pub(crate) fn configuration(value: &Value) -> Result<Json, String> {
    if type_of(value) != Some(ROOT) {
        return Err(format!("must evaluate to {ROOT}"));
    }
    in_json(value)
}

/// The operations of a JSON patch that an expression made.
///
/// # Errors
/// It is something else, or a value has a part that is called otherwise than its place.
pub(crate) fn operations(value: &Value) -> Result<Vec<Json>, String> {
    let Value::List(elements) = value else {
        return Err(format!("must evaluate to list({OPERATION})"));
    };
    let one = |element: &Value| {
        let Value::Map(members) = element else {
            return Err(format!("must evaluate to list({OPERATION})"));
        };
        if type_of(element) != Some(OPERATION) {
            return Err(format!("must evaluate to list({OPERATION})"));
        }
        let mut made = Map::new();
        for (key, member) in members.map.iter() {
            let name = key.to_string();
            match (name.as_str(), member) {
                (TYPE, _) => {}
                ("value", value) => {
                    made.insert(name, in_json(value)?);
                }
                ("op" | "path" | "from", Value::String(text)) => {
                    made.insert(name, Json::from(text.as_str()));
                }
                ("op" | "path" | "from", _) => {
                    return Err(format!("unexpected type for JSONPatchType '{name}' field"));
                }
                _ => return Err(format!("unexpected JSONPatchType field: {name}")),
            }
        }
        Ok(Json::Object(made))
    };
    elements.iter().map(one).collect()
}

/// The name of the type of an object that an expression made.
fn type_of(value: &Value) -> Option<&str> {
    let Value::Map(members) = value else {
        return None;
    };
    let key = Key::String(TYPE.to_owned().into());
    match members.map.get(&key) {
        Some(Value::String(name)) => Some(name.as_str()),
        _ => None,
    }
}

/// A value in JSON, once all its parts are called after their places.
fn in_json(value: &Value) -> Result<Json, String> {
    let mut wrong = Vec::new();
    if let Some(name) = type_of(value) {
        misnamed(value, &mut vec![name], &mut wrong);
    }
    if !wrong.is_empty() {
        return Err(format!("type mismatch: {}", wrong.join("\n")));
    }
    plain(value)
}

fn plain(value: &Value) -> Result<Json, String> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => Json::from(*flag),
        Value::Int(number) => Json::from(*number),
        Value::UInt(number) => Json::from(*number),
        Value::Float(number) => Json::from(*number),
        Value::String(text) => Json::from(text.as_str()),
        Value::Bytes(bytes) => Json::from(STANDARD.encode(bytes.as_slice())),
        Value::List(elements) => elements.iter().map(plain).collect::<Result<_, _>>()?,
        Value::Map(members) => Json::Object(
            members
                .map
                .iter()
                .map(|(key, member)| Ok((key.to_string(), plain(member)?)))
                .filter(|member| !matches!(member, Ok((name, _)) if name == TYPE))
                .collect::<Result<_, String>>()?,
        ),
        other => {
            return Err(format!(
                "a value of type {} could not marshal to JSON",
                other.type_of()
            ));
        }
    })
}

fn misnamed<'a>(value: &'a Value, place: &mut Vec<&'a str>, wrong: &mut Vec<String>) {
    match value {
        Value::List(elements) => {
            for element in elements.iter() {
                misnamed(element, place, wrong);
            }
        }
        Value::Map(members) => {
            let own = type_of(value);
            if let Some(name) = own
                && place.join(".") != name
            {
                wrong.push(format!(
                    "unexpected type name {name:?}, expected {:?}, which matches field name path from root Object type",
                    place.join(".")
                ));
            }
            let mut members: Vec<_> = members.map.iter().collect();
            members.sort_by_cached_key(|(key, _)| key.to_string());
            for (key, member) in members {
                // Plain maps have no names of their own.
                match key {
                    Key::String(name) if own.is_some() => {
                        place.push(name.as_str());
                        misnamed(member, place, wrong);
                        place.pop();
                    }
                    _ => misnamed(member, place, wrong),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::super::Program;
    use super::*;

    fn run(source: &str) -> Value {
        Program::compile_mutation(source).unwrap().run(&[]).unwrap()
    }

    #[test]
    fn objects_are_made_of_their_members() {
        let made = run(
            r#"Object{spec: Object.spec{replicas: 1 + 2, list: [Object.spec.list{a: "b"}],
            ?none: optional.none()}, metadata: Object.metadata{labels: {"x": "y"}}}"#,
        );
        assert_eq!(
            configuration(&made),
            Ok(json!({"spec": {"replicas": 3, "list": [{"a": "b"}]},
                "metadata": {"labels": {"x": "y"}}}))
        );
        let made = run(
            r#"true ? [JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b"),
            value: Object.metadata{a: 1}}] : []"#,
        );
        assert_eq!(
            operations(&made),
            Ok(vec![
                json!({"op": "add", "path": "/metadata/labels/a~1b", "value": {"a": 1}})
            ])
        );
    }

    #[test]
    fn what_is_called_otherwise_than_its_place_is_refused() {
        assert_eq!(
            configuration(&run("Object{spec: Object.status{}}")),
            Err("type mismatch: unexpected type name \"Object.status\", expected \"Object.spec\", which matches field name path from root Object type".to_owned())
        );
        assert_eq!(
            configuration(&run("Object.spec{}")),
            Err("must evaluate to Object".to_owned())
        );
        assert_eq!(
            operations(&run("[Object{}]")),
            Err("must evaluate to list(JSONPatch)".to_owned())
        );
    }

    #[test]
    fn other_expressions_know_no_objects() {
        let told = |found: Result<Program, String>| found.unwrap_err();
        assert!(told(Program::compile("Object{}")).contains("undeclared reference to 'Object'"));
        assert!(told(Program::compile_mutation("Other{}")).contains("'Other'"));
    }
}
