//! The envelope of every reply: the version of its schema, and one field with the content.

macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident { $(#[$field_doc:meta])* $field:ident: $type:ty })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
        pub struct $name {
            /// The version of the schema.
            pub schema: u32,
            $(#[$field_doc])*
            pub $field: $type,
        }

        impl From<$type> for $name {
            fn from($field: $type) -> Self {
                Self { schema: stats::SCHEMA, $field }
            }
        }
    )*};
}

pub(crate) use answers;
