//! [`described_as`]: types that stand in the document as another one does.

/// Has the document show a type as it shows the other one, under that one's name. What schemars
/// derives for a transparent type does so only where the type has no words of its own.
macro_rules! described_as {
    ($type:ident $(<$of:ident>)? as $other:ty) => {
        impl$(<$of: ::schemars::JsonSchema>)? ::schemars::JsonSchema for $type $(<$of>)? {
            fn inline_schema() -> bool {
                <$other as ::schemars::JsonSchema>::inline_schema()
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                <$other as ::schemars::JsonSchema>::schema_name()
            }

            fn schema_id() -> ::std::borrow::Cow<'static, str> {
                <$other as ::schemars::JsonSchema>::schema_id()
            }

            fn json_schema(generator: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                <$other as ::schemars::JsonSchema>::json_schema(generator)
            }
        }
    };
}

pub(crate) use described_as;
