//! The variable `authorizer` of admission policies: what whoever asks may do. Questions
//! are put together call by call, as
//! `authorizer.group('apps').resource('deployments').check('create').allowed()`.

use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Opaque;
use kube_cel::cel::{Context, ExecutionError, Value};

use crate::auth::{Attributes, Rights};

/// The variable.
pub(crate) fn authorizer(rights: Rights) -> Value {
    Value::Opaque(Arc::new(Question {
        rights: Arc::new(rights),
        step: Step::Authorizer,
        wanted: Attributes::default(),
    }))
}

/// How far a question is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Authorizer,
    Group,
    Resource,
    Decision,
}

/// A question about somebody's rights, as much as there is of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Question {
    rights: Arc<Rights>,
    step: Step,
    wanted: Attributes,
}

impl Opaque for Question {
    fn runtime_type_name(&self) -> &'static str {
        match self.step {
            Step::Authorizer => "kubernetes.authorization.Authorizer",
            Step::Group => "kubernetes.authorization.GroupCheck",
            Step::Resource => "kubernetes.authorization.ResourceCheck",
            Step::Decision => "kubernetes.authorization.Decision",
        }
    }
}

impl Question {
    /// The question that a value is, if it is as far as that.
    fn of(value: &Value, step: Step) -> Result<Self, ExecutionError> {
        let Value::Opaque(opaque) = value else {
            return Err(ExecutionError::NoSuchOverload);
        };
        let question = opaque.downcast_ref::<Self>();
        let question = question.filter(|it| it.step == step).cloned();
        question.ok_or(ExecutionError::NoSuchOverload)
    }

    fn value(self) -> Value {
        Value::Opaque(Arc::new(self))
    }
}

/// A method by which a question is put together: its name, how far the question has to
/// be and is afterwards, and where the argument goes.
type Method = (&'static str, Step, Step, fn(&mut Attributes, String));

const METHODS: [Method; 6] = [
    ("group", Step::Authorizer, Step::Group, |it, group| {
        it.group = group;
    }),
    ("resource", Step::Group, Step::Resource, |it, resource| {
        it.resource = resource;
    }),
    (
        "subresource",
        Step::Resource,
        Step::Resource,
        |it, below| {
            it.subresource = below;
        },
    ),
    ("namespace", Step::Resource, Step::Resource, |it, of| {
        it.namespace = of;
    }),
    ("name", Step::Resource, Step::Resource, |it, name| {
        it.name = name;
    }),
    ("check", Step::Resource, Step::Decision, |it, verb| {
        it.verb = verb;
    }),
];

/// Adds the methods to a context.
pub(super) fn register(context: &mut Context<'static>) {
    for (name, from, to, set) in METHODS {
        let method =
            move |This(this): This<Value>, argument: Value| -> Result<Value, ExecutionError> {
                let mut question = Question::of(&this, from)?;
                let Value::String(text) = argument else {
                    return Err(ExecutionError::NoSuchOverload);
                };
                set(&mut question.wanted, text.as_str().to_owned());
                question.step = to;
                Ok(question.value())
            };
        context.add_function(name, method);
    }
    let allowed = |This(this): This<Value>| -> Result<Value, ExecutionError> {
        let question = Question::of(&this, Step::Decision)?;
        Ok(Value::Bool(question.rights.allow(&question.wanted)))
    };
    context.add_function("allowed", allowed);
    // Roles are looked up in memory: that never fails, and no reason is given.
    let errored = |This(this): This<Value>| -> Result<Value, ExecutionError> {
        Question::of(&this, Step::Decision).map(|_| Value::Bool(false))
    };
    context.add_function("errored", errored);
    for name in ["error", "reason"] {
        let nothing = |This(this): This<Value>| -> Result<Value, ExecutionError> {
            Question::of(&this, Step::Decision).map(|_| Value::from(""))
        };
        context.add_function(name, nothing);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::auth::Identity;
    use crate::schema::cel::Program;
    use crate::store::{GroupResource, Key, Store};

    const RBAC: &str = "rbac.authorization.k8s.io";

    fn put(store: &mut Store, plural: &str, namespace: &str, name: &str, mut object: Json) {
        object["metadata"] = json!({"name": name, "namespace": namespace});
        let collection = GroupResource::new(RBAC, plural);
        store.put(&collection, Key::new(namespace, name), object, 0);
    }

    fn bind(store: &mut Store, plural: &str, namespace: &str, role: &str, user: &str) {
        let binding = json!({
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
        });
        put(store, plural, namespace, &format!("{role}-{user}"), binding);
    }

    fn store() -> Store {
        let mut store = Store::new(100);
        let role = |group: &str, resource: &str, verb: &str| json!({"rules": [{"apiGroups": [group], "resources": [resource], "verbs": [verb]}]});
        put(&mut store, "clusterroles", "", "all", role("*", "*", "*"));
        let edit = role("apps", "deployments/scale", "update");
        put(&mut store, "clusterroles", "", "scale", edit);
        bind(&mut store, "clusterrolebindings", "", "all", "root");
        bind(&mut store, "rolebindings", "home", "all", "ann");
        bind(&mut store, "clusterrolebindings", "", "scale", "bot");
        store
    }

    fn asked(identity: &Identity, expression: &str) -> Result<Value, String> {
        let rights = Rights::of(&store(), identity);
        let program = Program::compile(expression).unwrap();
        assert!(program.uses("authorizer"));
        program.run(&[("authorizer", authorizer(rights))])
    }

    #[test]
    fn a_policy_asks_what_somebody_may_do_by_their_roles() {
        let everything = "authorizer.group('*').resource('*').check('*').allowed()";
        let in_home = "authorizer.group('*').resource('*').namespace('home').check('*').allowed()";
        let scale = "authorizer.group('apps').resource('deployments').subresource('scale')\
                     .namespace('x').name('a').check('update').allowed()";
        for (who, may) in [
            ("root", [true, true, true]),
            // Who has a role in one namespace has it there.
            ("ann", [false, true, false]),
            ("bot", [false, false, true]),
            ("nobody", [false, false, false]),
        ] {
            let identity = Identity::user(who);
            for (expression, may) in [everything, in_home, scale].into_iter().zip(may) {
                let said = asked(&identity, expression);
                assert_eq!(said, Ok(Value::Bool(may)), "{who}: {expression}");
            }
        }
        let said = asked(&Identity::admin(), everything);
        assert_eq!(said, Ok(Value::Bool(true)));
    }

    #[test]
    fn a_question_is_put_together_in_order() {
        let ann = Identity::user("ann");
        for expression in [
            "authorizer.resource('*').check('*').allowed()",
            "authorizer.group('*').check('*').allowed()",
            "authorizer.group('*').resource('*').allowed()",
            "authorizer.group(1).resource('*').check('*').allowed()",
        ] {
            assert_eq!(
                asked(&ann, expression),
                Err("no such overload".to_owned()),
                "{expression}"
            );
        }
    }
}
