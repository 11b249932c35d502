//! What the expressions of a policy say of a write.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use kube_cel::cel::Value as Cel;
use serde_json::{Map, Value, json};

use super::{Verdict, Write, fails_closed, own_kind};
use crate::auth::{Identity, Rights};
use crate::registry::Resource;
use crate::schema::{Program, authorizer, untyped};
use crate::store::Store;

impl Write<'_> {
    /// Evaluates a policy with one set of parameters.
    pub(super) fn evaluate(&self, store: &Store, spec: &Value, params: &Value) -> Vec<Verdict> {
        let mut scope = self.scope(store, params);
        match scope.meets(spec) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(problem) => return fails_closed(spec, problem),
        }
        scope.compose(spec);
        let mut found = Vec::new();
        for validation in list(spec, "validations") {
            match scope.run(&validation["expression"]) {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => found.push(Verdict {
                    message: scope.message(validation),
                    reason: validation["reason"].as_str().unwrap_or_default().to_owned(),
                }),
                Err(problem) => found.extend(fails_closed(spec, problem)),
            }
        }
        found
    }

    /// What the expressions of a policy can refer to, with one set of parameters.
    pub(super) fn scope<'s>(&'s self, store: &'s Store, params: &Value) -> Scope<'s> {
        let mut scope = self.outline(store);
        scope.variables.push(("params", untyped(params)));
        let namespace = untyped(&self.namespace);
        scope.variables.push(("namespaceObject", namespace));
        scope
    }

    /// Whether all of a webhook's conditions hold.
    ///
    /// # Errors
    /// None is false, and some cannot be evaluated.
    pub(in crate::server) fn conditions(
        &self,
        store: &Store,
        conditions: &[Value],
    ) -> Result<bool, String> {
        self.outline(store).all_hold(conditions)
    }

    /// What every expression can refer to.
    fn outline<'s>(&'s self, store: &'s Store) -> Scope<'s> {
        let plain = |value: Option<&Value>| untyped(value.unwrap_or(&Value::Null));
        Scope {
            variables: vec![
                ("object", plain(self.object)),
                ("oldObject", plain(self.old)),
                ("request", untyped(&self.request())),
            ],
            composed: BTreeMap::new(),
            failed: BTreeMap::new(),
            asks: (store, &self.call.identity),
            authorizer: OnceCell::new(),
        }
    }

    /// The request as expressions see it (`AdmissionRequest`).
    fn request(&self) -> Value {
        let call = self.call;
        let kind = |of: &Resource| match own_kind(call) {
            Some((group, version, kind)) => {
                json!({"group": group, "version": version, "kind": kind})
            }
            None => json!({"group": of.group, "version": of.version, "kind": of.kind}),
        };
        let plural = |of: &Resource| json!({"group": of.group, "version": of.version, "resource": of.plural});
        let (matched, asked) = (&self.resource, &call.resource);
        let extra: Map<String, Value> = call
            .identity
            .extra
            .iter()
            .map(|(name, values)| (name.clone(), json!(values)))
            .collect();
        let dry_run = call.query.get("dryRun") == Some("All");
        json!({
            "kind": kind(matched), "requestKind": kind(asked),
            "resource": plural(matched), "requestResource": plural(asked),
            "subResource": call.target.subresource, "requestSubResource": call.target.subresource,
            "name": self.name(), "namespace": call.namespace(),
            "operation": self.operation, "dryRun": dry_run,
            "userInfo": {
                "username": call.identity.name, "uid": call.identity.uid,
                "groups": call.identity.groups, "extra": extra,
            },
        })
    }
}

fn list<'a>(of: &'a Value, member: &str) -> impl Iterator<Item = &'a Value> {
    of[member].as_array().into_iter().flatten()
}

/// What the expressions of a policy can refer to.
pub(super) struct Scope<'a> {
    variables: Vec<(&'static str, Cel)>,
    /// The policy's own variables.
    composed: BTreeMap<String, Cel>,
    /// Those of them that could not be evaluated, and why.
    failed: BTreeMap<String, String>,
    /// Who asks, and where their rights are.
    asks: (&'a Store, &'a Identity),
    /// Those rights, which few expressions are about.
    authorizer: OnceCell<Cel>,
}

impl Scope<'_> {
    /// Whether the conditions of a policy hold.
    pub(super) fn meets(&self, spec: &Value) -> Result<bool, String> {
        self.all_hold(list(spec, "matchConditions"))
    }

    fn all_hold<'c>(
        &self,
        conditions: impl IntoIterator<Item = &'c Value>,
    ) -> Result<bool, String> {
        let mut problems = Vec::new();
        for condition in conditions {
            match self.run(&condition["expression"]) {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(problem) => problems.push(problem),
            }
        }
        // A condition that is false counts for more than one that fails.
        match problems.as_slice() {
            [] => Ok(true),
            [problem] => Err(problem.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    /// Evaluates the policy's own variables, in their order.
    pub(super) fn compose(&mut self, spec: &Value) {
        for variable in list(spec, "variables") {
            let name = variable["name"].as_str().unwrap_or_default().to_owned();
            match self.run(&variable["expression"]) {
                Ok(value) => {
                    self.composed.insert(name, value);
                }
                Err(problem) => {
                    self.failed.insert(name, problem);
                }
            }
        }
    }

    /// What an expression makes that may make objects.
    pub(super) fn make(&self, expression: &Value) -> Result<Cel, String> {
        let source = expression.as_str().unwrap_or_default();
        let program = Program::compile_mutation(source)
            .map_err(|why| format!("compilation failed: {why}"))?;
        self.evaluate(&program, source)
    }

    fn run(&self, expression: &Value) -> Result<Cel, String> {
        let source = expression.as_str().unwrap_or_default();
        let program = Program::compile(source).map_err(|why| {
            let source = source.trim();
            format!("expression '{source}' resulted in error: compilation failed: {why}")
        })?;
        self.evaluate(&program, source)
    }

    fn evaluate(&self, program: &Program, source: &str) -> Result<Cel, String> {
        let told = |why: &str| format!("expression '{}' resulted in error: {why}", source.trim());
        let mut variables = self.variables.clone();
        let own: std::collections::HashMap<String, Cel> =
            self.composed.clone().into_iter().collect();
        variables.push(("variables", Cel::from(own)));
        if program.uses("authorizer") {
            let (store, identity) = self.asks;
            let rights = || authorizer(Rights::of(store, identity));
            let asked = self.authorizer.get_or_init(rights).clone();
            variables.push(("authorizer", asked));
        }
        program.run(&variables).map_err(|why| {
            let missing = why.strip_prefix("no such key: ");
            match missing.and_then(|name| Some((name, self.failed.get(name)?))) {
                Some((name, because)) => told(&format!(
                    "composited variable \"{name}\" fails to evaluate: {because}"
                )),
                None => told(&why),
            }
        })
    }

    /// What a validation that does not hold says.
    fn message(&self, validation: &Value) -> String {
        const MOST: usize = 5 * 1024;
        if validation["messageExpression"].is_string()
            && let Ok(Cel::String(text)) = self.run(&validation["messageExpression"])
        {
            let text = text.trim();
            if !text.is_empty() && text.len() <= MOST && !text.contains('\n') {
                return text.to_owned();
            }
        }
        let given = validation["message"].as_str().unwrap_or_default().trim();
        if !given.is_empty() {
            return given.to_owned();
        }
        let expression = validation["expression"].as_str().unwrap_or_default();
        format!("failed expression: {}", expression.trim())
    }
}
