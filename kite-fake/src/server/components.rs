//! What is answered and not stored: reviews, bindings, and how the parts of the control
//! plane are.

use http::Method;
use serde_json::json;

use super::create::check_namespace;
use super::read::{List, selects};
use super::{Answer, ApiServer, Call, Outcome, Produced, body, respond};
use crate::registry::Subresource;
use crate::rest::options::ListOptions;
use crate::status::Status;
use crate::store::{Object, Stored};

/// The parts of a control plane that a server asks how they are.
const COMPONENTS: [&str; 3] = ["controller-manager", "etcd-0", "scheduler"];

impl ApiServer {
    /// A request for what is not stored.
    pub(super) fn answered(&mut self, call: &Call) -> Result<Answer, Status> {
        let is_read = call.resource.verbs.contains(&"get");
        let outcome = match (&call.method, &call.target.name) {
            (&Method::GET, None) if is_read => return Self::components(call),
            (&Method::GET, Some(name)) if is_read => {
                let known = COMPONENTS.into_iter().find(|known| known == name);
                Outcome {
                    body: Produced::Object(component(known.ok_or_else(|| call.not_found())?)),
                    code: 200,
                }
            }
            (&Method::POST, None)
                if call.resource.namespaced && call.target.namespace.is_none() =>
            {
                return Err(Status::method_not_allowed());
            }
            (&Method::POST, None) if call.resource.kind == "Binding" => self.bind_named(call)?,
            (&Method::POST, None) if !is_read => self.review(call)?,
            _ => return Err(Status::method_not_allowed()),
        };
        Ok(Answer::Response(respond::outcome(call, &outcome)?))
    }

    /// The parts of the control plane. All of them are this process, so that they are well
    /// as long as there is an answer.
    fn components(call: &Call) -> Result<Answer, Status> {
        let resource = &call.resource;
        if call.query.flag("watch") {
            return Err(Status::verb_not_supported(
                &resource.group,
                &resource.plural,
                "watch",
            ));
        }
        let mut options = ListOptions::parse(&call.query, false)?;
        crate::registry::selectable::convert(resource, &mut options)?;
        let list = List {
            items: COMPONENTS
                .into_iter()
                .map(component)
                .filter(|component| selects(&options, component))
                .collect(),
            ..List::default()
        };
        Ok(Answer::Response(respond::list(call, &list)?))
    }

    /// A binding that names its Pod in the body instead of in the path.
    fn bind_named(&mut self, call: &Call) -> Result<Outcome, Status> {
        let binding = body::decode(call)?;
        body::check_type(call, &binding)?;
        check_namespace(call, &binding)?;
        let options = call.write_options("CreateOptions")?;
        let mut call = call.clone();
        call.target.name = binding["metadata"]["name"].as_str().map(str::to_owned);
        // It is admitted as what it was sent as.
        let binding = self.admit_below(&call, binding, options.dry_run)?;
        call.body = binding.to_string().into();
        call.content_type = None;
        call.admitted = true;
        let pods = self.registry.get("", "v1", "pods").cloned();
        call.resource = pods.ok_or_else(Status::no_such_resource)?;
        call.target.plural.clone_from(&call.resource.plural);
        call.target.subresource = Some(Subresource::Binding.name().to_owned());
        let outcome = self.subresource(&call)?;
        outcome.ok_or_else(Status::method_not_allowed)
    }
}

fn component(name: &str) -> Object {
    let value = json!({
        "apiVersion": "v1",
        "kind": "ComponentStatus",
        "metadata": {"name": name},
        "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}],
    });
    Stored::transient(value, 0, 0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::server::core_tests::{Client, PODS, pod};

    const TABLE: &[(&str, &str)] = &[("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];

    #[test]
    fn the_parts_of_the_control_plane_are_well() {
        let client = Client::new();
        let at = "/api/v1/componentstatuses";
        let all = client.get(at);
        assert_eq!(all["kind"], "ComponentStatusList");
        assert_eq!(all["metadata"], json!({}));
        assert_eq!(all["items"].as_array().map(Vec::len), Some(3));
        let one = client.get(&format!("{at}?fieldSelector=metadata.name%3Detcd-0"));
        assert_eq!(one["items"][0]["metadata"]["name"], "etcd-0");
        assert_eq!(one["items"].as_array().map(Vec::len), Some(1));
        let (_, table) = client.ask("GET", at, &Value::Null, TABLE);
        assert_eq!(
            table["rows"][0]["cells"],
            json!(["controller-manager", "Healthy", "ok", ""])
        );
        assert_eq!(
            client.get(&format!("{at}/scheduler"))["kind"],
            "ComponentStatus"
        );
        assert_eq!(client.get(&format!("{at}/x"))["code"], 404);
        assert_eq!(client.get(&format!("{at}?watch=true"))["code"], 405);
        assert_eq!(client.send("DELETE", at, &Value::Null).0, 405);
    }

    #[test]
    fn a_binding_may_name_its_pod() {
        let client = Client::new();
        client.create(PODS, &pod("p", &Value::Null));
        let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
        let at = "/api/v1/namespaces/default/bindings";
        assert_eq!(client.create(at, &binding)["status"], "Success");
        assert_eq!(client.get(&format!("{PODS}/p"))["spec"]["nodeName"], "n");
        let again = client.refused(at, &binding, 409);
        assert!(again.contains("pod p is already assigned"), "{again}");
        assert_eq!(client.get(at)["code"], 405);
        assert_eq!(client.send("POST", "/api/v1/bindings", &binding).0, 405);
    }
}
