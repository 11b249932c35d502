//! What is made for an object stands in one table: what was seen of it, what came of a
//! change, and what goes when, go by that.

/// Declares what there is under names that follow from the owner's: a field for each, of
/// its kind, with how it is named. Where the owner goes by itself, by its finalizer, each
/// also says with what it goes, and by which rule it is told whether it is left.
macro_rules! slots {
    (
        $(#[$meta:meta])*
        pub struct $Made:ident;
        $(
            $(#[$doc:meta])*
            $field:ident: $kind:ident = $name:expr;
        )*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        pub struct $Made {
            $( $(#[$doc])* pub $field: Option<$kind>, )*
        }

        impl $Made {
            /// Takes in that `object`, of the owner of this name, is like this now, or gone.
            /// Whatever has no place here is nothing that the owner's plan looks at.
            pub(crate) fn take(&mut self, owner: &str, object: $crate::objects::AnyObject, is_gone: bool) {
                match object {
                    $(
                        $crate::objects::AnyObject::$kind(object)
                            if object.metadata.name == Some($name(owner)) =>
                        {
                            self.$field = (!is_gone).then_some(*object);
                        }
                    )*
                    _ => {}
                }
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub struct $Made:ident of $Owner:ty, seen by $Observed:ty;
        $(
            $(#[$doc:meta])*
            $field:ident: $kind:ident = $name:expr, goes with $part:ident by $left:path;
        )*
    ) => {
        $crate::slots::slots! {
            $(#[$meta])*
            pub struct $Made;
            $( $(#[$doc])* $field: $kind = $name; )*
        }

        impl $Made {
            /// What is left of what goes with this part.
            pub(super) fn left(&self, of: &$Owner, seen: &$Observed, part: Teardown) -> Vec<Left> {
                let mut left = Vec::new();
                $(
                    if part == Teardown::$part {
                        left.push($left(of, seen, self.$field.as_ref(), &$name(of.name)));
                    }
                )*
                left
            }
        }
    };
}

pub(crate) use slots;
