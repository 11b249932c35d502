//! What is made of the table of a VM's fields.

/// Declares what follows from the fields of a VM's spec: how they are read of a new VM and
/// of an edit, how they are shown, and a list of them.
///
/// A field has its documentation in answers, its name and type in the spec, its name in
/// JSON, and what new VMs and edits may say of it. A field of the spec that has no row and
/// does not stand below `hidden` does not compile.
macro_rules! fields {
    (
        hidden $($hidden:ident),*;
        $(
            $(#[$shown:meta])*
            $field:ident: $Type:ty = $name:literal, $new:expr, $edit:expr;
        )*
    ) => {
        /// What is shown of a VM's spec.
        #[derive(Serialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub(crate) struct VmSettings {
            $( $(#[$shown])* $field: $Type, )*
        }

        impl VmSettings {
            /// What is shown of `spec`.
            pub(crate) fn of(spec: &KiteVirtualMachineSpec) -> Self {
                Self { $( $field: Clone::clone(&spec.$field), )* }
            }
        }

        /// What an edit does to each field of a VM's spec.
        #[derive(Clone)]
        pub(crate) struct VmChanges {
            $( pub(crate) $field: Change<$Type>, )*
        }

        impl VmChanges {
            /// What `spec` is with them.
            pub(crate) fn applied_to(&self, spec: &KiteVirtualMachineSpec) -> KiteVirtualMachineSpec {
                let (spec, changes) = (spec.clone(), self.clone());
                KiteVirtualMachineSpec {
                    $( $field: spec.$field.after(changes.$field), )*
                    $( $hidden: spec.$hidden, )*
                }
            }

            /// Reads them, and hands to `put` what is to be written, with what one must be
            /// allowed to do for it.
            fn read(form: &mut Form, mut put: impl FnMut(Action, &'static str, Value)) -> Self {
                $(
                    let $field = match $edit {
                        Edited::Never(why) => {
                            form.fixed($name, why);
                            Change::Keep
                        }
                        Edited::By(action) => {
                            let change = <$Type as Setting>::changed(form, $name);
                            let patch = change.as_ref().map(Setting::patch);
                            if let Some((name, value)) = change_to_json($name, patch) {
                                put(action, name, value);
                            }
                            change
                        }
                    };
                )*
                Self { $($field,)* }
            }
        }

        /// Reads the spec of a new VM into `spec`; of one from an offer, what is not the
        /// offer's. False only if an error was noted.
        fn read_spec(form: &mut Form, spec: &mut KiteVirtualMachineSpec, is_offered: bool) -> bool {
            let mut is_whole = true;
            $(
                match $new {
                    New::Sized if is_offered => {
                        form.fixed($name, "is what the offer has: leave it out");
                    }
                    New::Alone if is_offered => {
                        form.fixed($name, "cannot be had with an offer: leave it out");
                    }
                    New::Sized => {
                        match <$Type as Setting>::required(form, $name) {
                            Some(value) => spec.$field = value,
                            None => is_whole = false,
                        }
                    }
                    New::Optional | New::Alone => {
                        if let Some(value) = <$Type as Setting>::optional(form, $name) {
                            spec.$field = value;
                        }
                    }
                    New::Never => {}
                }
            )*
            is_whole
        }

        /// The fields of a VM's spec.
        #[cfg(test)]
        fn of_spec() -> [VmField; [$($name),*].len()] {
            [
                $(
                    VmField {
                        name: $name,
                        new: $new,
                        edit: $edit,
                        is_removable: <$Type as Setting>::removed().is_some(),
                    },
                )*
            ]
        }
    };
}

pub(super) use fields;
