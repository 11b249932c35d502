//! Fields that others own, and how a refusal tells of them.

use serde_json::{Value, json};

use super::set::FieldSet;
use super::{Manager, Operation};
use crate::go;

/// One field that another manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Who owns it.
    pub manager: Manager,
    /// Which field: `.spec.items[name="a"].value`.
    pub field: String,
}

impl Conflict {
    /// `"m1" with subresource "status" using v1`; appliers are named without a version.
    fn owner(&self) -> String {
        let mut text = go::quote(&self.manager.name);
        if !self.manager.subresource.is_empty() {
            text.push_str(" with subresource ");
            text.push_str(&go::quote(&self.manager.subresource));
        }
        if self.manager.operation == Operation::Update {
            text.push_str(" using ");
            text.push_str(&self.manager.api_version);
        }
        text
    }
}

/// All conflicts of one apply, ordered by owner and field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conflicts(pub Vec<Conflict>);

impl Conflicts {
    pub(super) fn add(&mut self, manager: &Manager, fields: &FieldSet) {
        self.0
            .extend(fields.paths().into_iter().map(|field| Conflict {
                manager: manager.clone(),
                field,
            }));
    }

    /// The message of the `Status`.
    pub fn message(&self) -> String {
        if let [one] = self.0.as_slice() {
            return format!(
                "Apply failed with 1 conflict: conflict with {}: {}",
                one.owner(),
                one.field
            );
        }
        let mut lines = Vec::new();
        let mut last: Option<&Manager> = None;
        for conflict in &self.0 {
            if last != Some(&conflict.manager) {
                lines.push(format!("conflicts with {}:", conflict.owner()));
                last = Some(&conflict.manager);
            }
            lines.push(format!("- {}", conflict.field));
        }
        format!(
            "Apply failed with {} conflicts: {}",
            self.0.len(),
            lines.join("\n")
        )
    }

    /// `details.causes` of the `Status`.
    pub fn causes(&self) -> Vec<Value> {
        self.0
            .iter()
            .map(|conflict| {
                json!({
                    "reason": "FieldManagerConflict",
                    "message": format!("conflict with {}", conflict.owner()),
                    "field": conflict.field,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_conflicts_are_grouped_by_owner() {
        let manager = |name: &str, operation, subresource: &str| Manager {
            name: name.into(),
            operation,
            api_version: "v1".into(),
            subresource: subresource.into(),
        };
        let conflict = |manager: &Manager, field: &str| Conflict {
            manager: manager.clone(),
            field: field.into(),
        };
        let a = manager("a", Operation::Apply, "status");
        let b = manager("b", Operation::Update, "");
        let conflicts = Conflicts(vec![
            conflict(&a, ".x"),
            conflict(&a, ".y"),
            conflict(&b, ".x"),
        ]);
        assert_eq!(
            conflicts.message(),
            "Apply failed with 3 conflicts: conflicts with \"a\" with subresource \"status\":\n- .x\n- .y\nconflicts with \"b\" using v1:\n- .x"
        );
    }
}
