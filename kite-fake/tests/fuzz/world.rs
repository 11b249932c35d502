//! A cluster, and what holds after every request to it.

use bytes::Bytes;
use http::Request;
use kite_fake::FakeCluster;
use kite_fake::auth::Identity;
use kite_fake::server::Answer;
use serde_json::Value;

const DEFINITIONS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.x.io}
spec:
  group: x.io
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.n, statusReplicasPath: .status.n}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - {rule: '!has(self.n) || self.n < 100', message: too many}
            properties:
              n: {type: integer, default: 3}
              a: {type: string, maxLength: 20}
              list: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}, a: {type: string}}}}
              set: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              map: {type: object, additionalProperties: {type: string}}
              atomic: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {x-kubernetes-preserve-unknown-fields: true}}
          status: {type: object, properties: {n: {type: integer}}}
";

pub struct World(pub FakeCluster);

/// One request and what it got.
pub struct Got {
    pub code: u16,
    pub body: Value,
}

impl World {
    pub fn new() -> Self {
        Self(
            FakeCluster::builder()
                .crds_yaml(DEFINITIONS)
                .build()
                .unwrap(),
        )
    }

    pub fn revision(&self) -> u64 {
        self.0.server().store().revision()
    }

    /// Sends a request and checks what holds for every one: a failure is a
    /// `Status` with its code and changes nothing, nor does a dry run or a read.
    /// `None` when a request cannot be made of it, or it opened a watch.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Option<Got> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request
            .extension(Identity::admin())
            .body(Bytes::copy_from_slice(body))
            .ok()?;
        let what = || {
            format!(
                "{method} {path} {headers:?} {}",
                String::from_utf8_lossy(body)
            )
        };
        let (before, sent) = (self.revision(), body.len());
        let response = match self.0.handle(request) {
            Answer::Response(response) => response,
            Answer::Watch(mut watch) => {
                let now = self.0.now();
                let server = self.0.server();
                server.poll(&mut watch, now);
                server.poll(&mut watch, now);
                server.bookmark(&mut watch, now);
                return None;
            }
            Answer::NotYet(wait) => wait.otherwise,
            Answer::Ask(_) => return None,
            Answer::Extension(..) => panic!("nobody extends this cluster: {}", what()),
        };
        let code = response.status().as_u16();
        let is_json = response
            .headers()
            .get("content-type")
            .is_some_and(|t| t == "application/json");
        let body = if is_json {
            serde_json::from_slice(response.body()).unwrap_or_else(|e| panic!("{e}: {}", what()))
        } else {
            Value::Null
        };
        if code >= 400 {
            // What was asked for in a shape that it cannot have is done all the same.
            assert!(
                code == 406 || self.revision() == before,
                "{code} and yet something changed: {}",
                what()
            );
            if is_json {
                assert_eq!(body["kind"], "Status", "{}", what());
                assert_eq!(body["code"], code, "{}", what());
            }
        }
        // A body of options takes the place of the query's.
        let is_dry = path.contains("dryRun=All") && (method != "DELETE" || sent == 0);
        if method == "GET" || is_dry {
            assert_eq!(
                self.revision(),
                before,
                "{code} to a read or dry run, and something changed: {}",
                what()
            );
        }
        Some(Got { code, body })
    }
}
