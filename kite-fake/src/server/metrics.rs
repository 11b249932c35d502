//! `/metrics`: what is counted, in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::ApiServer;
use crate::discovery::Document;
use crate::registry::Origin;
use crate::status::qualified;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What a verb of authorization is called in metrics.
fn verb(verb: &str) -> String {
    match verb {
        "create" => "POST".to_owned(),
        "update" => "PUT".to_owned(),
        other => other.to_uppercase(),
    }
}

/// Resource, group and subresource of `deployments.apps/scale`.
fn parts(resource: &str) -> [&str; 3] {
    let (whole, below) = resource.split_once('/').unwrap_or((resource, ""));
    let (plural, group) = whole.split_once('.').unwrap_or((whole, ""));
    [plural, group, below]
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP {name} [STABLE] {help}\n# TYPE {name} {kind}");
}

impl ApiServer {
    /// The metrics.
    pub(super) fn metrics(&self) -> Document {
        let mut out = String::new();
        let requests = "apiserver_request_total";
        let help = "Counter of apiserver requests broken out for each verb, group, resource and subresource.";
        head(&mut out, requests, "counter", help);
        for ((asked, resource), count) in self.log.counts() {
            let [plural, group, below] = parts(resource);
            let _ = writeln!(
                out,
                "{requests}{{component=\"apiserver\",group=\"{group}\",resource=\"{plural}\",subresource=\"{below}\",verb=\"{}\"}} {count}",
                verb(asked)
            );
        }
        let objects = "apiserver_storage_objects";
        let help = "Number of stored objects at the time of last check split by kind.";
        head(&mut out, objects, "gauge", help);
        for (resource, count) in self.stored() {
            let _ = writeln!(out, "{objects}{{resource=\"{resource}\"}} {count}");
        }
        Document::new(CONTENT_TYPE, out)
    }

    /// How many objects there are of each kind that is served.
    fn stored(&self) -> BTreeMap<String, usize> {
        let all = self.registry.iter();
        all.filter(|resource| resource.origin != Origin::Virtual)
            .map(|resource| resource.collection())
            .map(|it| {
                (
                    qualified(&it.group, &it.plural),
                    self.store.count(&it, None),
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::core_tests::{Client, PODS, pod};

    #[test]
    fn requests_and_objects_are_counted() {
        assert_eq!(
            parts("deployments.apps/scale"),
            ["deployments", "apps", "scale"]
        );
        let client = Client::new();
        client.create(PODS, &pod("p", &json!({})));
        client.get(PODS);
        let text = client.text("/metrics");
        for line in [
            "# TYPE apiserver_request_total counter",
            "apiserver_request_total{component=\"apiserver\",group=\"\",resource=\"pods\",subresource=\"\",verb=\"POST\"} 1",
            "apiserver_request_total{component=\"apiserver\",group=\"\",resource=\"pods\",subresource=\"\",verb=\"LIST\"} 1",
            "apiserver_storage_objects{resource=\"pods\"} 1",
            "apiserver_storage_objects{resource=\"deployments.apps\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
