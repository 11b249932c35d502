//! [`Sent`]: a request's body as the operation reads it, from which its
//! description in the OpenAPI document comes too.

use std::{borrow::Cow, marker::PhantomData};

use aide::{OperationInput, generate::GenContext, openapi, operation::set_body};
use axum::extract::{FromRef, FromRequest, Request};
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};

use crate::{
    body::Bodies,
    bounds::Bounds,
    form::{Form, Known, Use, form_of},
    openapi::{refuses, schema_object},
    problem::{Problem, ProblemKind},
};

/// The fields that an operation takes.
///
/// What [`Input::read`] asks of the form *is* the description: there is no
/// second list of fields that could say something else.
pub trait Input: Sized {
    /// Name of the schema in the OpenAPI document.
    const NAME: &'static str;
    /// What fields mean that are none of the custom resource's.
    const MEANING: &'static [(&'static str, &'static str)] = &[];

    /// How long fields may be that are none of the custom resource's.
    const BOUNDS: &'static [(&'static str, Bounds)] = &[];

    /// The field that names what is created.
    const NAMED_BY: &'static str = "name";

    /// Reads the fields. `None` only if an error was noted.
    fn read(form: &mut Form) -> Option<Self>;

    /// The spec of the custom resource that the fields end up in: bounds and
    /// meaning of those with the same name are taken from it.
    fn resource(_: &mut SchemaGenerator) -> Option<Schema> {
        None
    }

    /// A body as somebody would write it, for the OpenAPI document.
    fn example() -> Option<Value> {
        None
    }
}

/// A request's body, read as `B`. Nothing is refused yet, so that the handler
/// can add what it finds wrong; see [`Form::finish_with`].
pub struct Sent<B> {
    /// `None` only if the form has an error.
    pub input: Option<B>,
    /// What was read, with what is wrong with it.
    pub form: Form,
}

impl<B> Sent<B> {
    fn read(mut form: Form) -> Self
    where
        B: Input,
    {
        Self {
            input: B::read(&mut form),
            form,
        }
    }
}

impl<B: Input, S: Send + Sync> FromRequest<S> for Sent<B>
where
    Bodies: FromRef<S>,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bodies = Bodies::from_ref(state);
        Ok(Self::read(form_of(&bodies, request).await?))
    }
}

impl<B: Input> OperationInput for Sent<B> {
    fn operation_input(ctx: &mut GenContext, operation: &mut openapi::Operation) {
        let schema = ctx.schema.subschema_for::<Described<B>>();
        let content = openapi::MediaType {
            schema: Some(schema_object(schema)),
            example: B::example(),
            ..openapi::MediaType::default()
        };
        let body = openapi::RequestBody {
            content: [("application/json".to_owned(), content)]
                .into_iter()
                .collect(),
            required: true,
            ..openapi::RequestBody::default()
        };
        set_body(ctx, operation, body);
        refuses(
            ctx,
            operation,
            &[
                ProblemKind::Malformed,
                ProblemKind::TooLarge,
                ProblemKind::UnsupportedMediaType,
                ProblemKind::Invalid,
            ],
        );
    }
}

/// The schema of what `B` reads.
struct Described<B>(PhantomData<B>);

impl<B: Input> JsonSchema for Described<B> {
    fn schema_name() -> Cow<'static, str> {
        B::NAME.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let read = Sent::<B>::read(Form::new(Map::new()));
        let mut inline = SchemaSettings::draft2020_12()
            .with(|settings| settings.inline_subschemas = true)
            .into_generator();
        let resource = B::resource(&mut inline);
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in read.form.known() {
            if field.use_ == Use::Fixed {
                continue;
            }
            if field.use_ == Use::Required {
                required.push(json!(field.name));
            }
            let schema = describe::<B>(field, resource.as_ref(), generator);
            properties.insert(field.name.to_owned(), schema);
        }
        json_schema!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }
}

/// The schema of one field.
fn describe<B: Input>(
    field: &Known,
    resource: Option<&Schema>,
    generator: &mut SchemaGenerator,
) -> Value {
    let mut schema = resource
        .and_then(|resource| resource.get("properties")?.get(field.name))
        .map_or_else(|| (field.schema)(generator).to_value(), plain);
    let meaning = of_field(B::MEANING, field);
    if let (Some(meaning), Some(schema)) = (meaning, schema.as_object_mut()) {
        schema.insert("description".to_owned(), json!(meaning));
    }
    if let (Some(bounds), Some(schema)) = (of_field(B::BOUNDS, field), schema.as_object_mut()) {
        bounds.describe(schema);
    }
    if field.use_ != Use::Optional {
        return schema;
    }
    let description = schema
        .as_object_mut()
        .and_then(|schema| schema.remove("description"));
    let mut nullable = json!({ "anyOf": [schema, { "type": "null" }] });
    if let Some(description) = description {
        nullable["description"] = description;
    }
    nullable
}

/// What a table of fields has for this one.
fn of_field<T: Copy>(table: &[(&str, T)], field: &Known) -> Option<T> {
    let mut entries = table.iter();
    entries.find_map(|(name, it)| (*name == field.name).then_some(*it))
}

/// A property of a custom resource without defaults, which an edit does not
/// have, and without null, which stands for "not given" there.
fn plain(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "default")
            .map(|(name, value)| match (name.as_str(), value) {
                ("type", Value::Array(types)) => {
                    let mut types = types.clone();
                    types.retain(|it| it != "null");
                    let only = (types.len() == 1).then(|| types[0].clone());
                    (name.clone(), only.unwrap_or(Value::Array(types)))
                }
                _ => (name.clone(), plain(value)),
            })
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}
