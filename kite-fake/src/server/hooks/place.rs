//! Where a webhook is: what its configuration says, and which endpoint of a Service that
//! is just now.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;

use super::config::{Client, Service};
use crate::hooks::{HookCall, Place};
use crate::server::ApiServer;
use crate::store::{GroupResource, Key};

/// Port of Services, where a configuration names none.
const PORT: u16 = 443;

impl ApiServer {
    /// A call to where a configuration says, without its body.
    ///
    /// # Errors
    /// The configuration does not say.
    pub(in crate::server) fn call_to(
        &self,
        client: &Client,
        timeout: Duration,
    ) -> Result<HookCall, String> {
        let place = match (&client.service, &client.url) {
            (Some(service), _) => self.behind(service),
            (None, Some(url)) => at(url)?,
            (None, None) => {
                return Err("webhook configuration must have either service or URL".to_owned());
            }
        };
        let bundle = client.ca_bundle.as_deref().unwrap_or_default();
        Ok(HookCall {
            place,
            authorities: Bytes::from(STANDARD.decode(bundle).unwrap_or_default()),
            timeout,
            body: Bytes::new(),
        })
    }

    fn behind(&self, service: &Service) -> Place {
        let server_name = format!("{}.{}.svc", service.name, service.namespace);
        let port = service.port.unwrap_or(PORT);
        Place {
            authority: format!("{server_name}:{port}"),
            server_name,
            path: clean(service.path.as_deref().unwrap_or_default()),
            endpoint: Some(self.endpoint(service, port)),
        }
    }

    /// Address and port of a ready endpoint.
    fn endpoint(&self, of: &Service, port: u16) -> Result<String, String> {
        let key = Key::new(of.namespace.as_str(), of.name.as_str());
        let services = GroupResource::new("", "services");
        let Some(service) = self.store.get(&services, &key) else {
            return Err(format!("service {:?} not found", of.name));
        };
        let spec = &service.value()["spec"];
        let kind = spec["type"].as_str().unwrap_or_default();
        if !matches!(kind, "ClusterIP" | "LoadBalancer" | "NodePort") {
            return Err(format!("unsupported service type {kind:?}"));
        }
        let ports = spec["ports"].as_array().into_iter().flatten();
        let named = ports
            .filter(|it| it["port"].as_u64() == Some(u64::from(port)))
            .map(|it| it["name"].as_str().unwrap_or_default())
            .next();
        let Some(name) = named else {
            return Err(format!(
                "no service port {port} found for service {:?}",
                of.name
            ));
        };
        let slices = GroupResource::new("discovery.k8s.io", "endpointslices");
        let mut own: Vec<_> = self
            .store
            .range(&slices, Some(&of.namespace), None)
            .filter(|(_, slice)| {
                let label = slice.label("kubernetes.io/service-name");
                label.as_deref() == Some(of.name.as_str())
            })
            .map(|(_, slice)| slice.value())
            .collect();
        let first = spec["ipFamilies"][0].as_str().unwrap_or("IPv4");
        own.sort_by_key(|slice| slice["addressType"] != first);
        let found = if own.is_empty() {
            let endpoints = GroupResource::new("", "endpoints");
            let found = self.store.get(&endpoints, &key);
            found.and_then(|endpoints| in_endpoints(endpoints.value(), name))
        } else {
            own.iter().find_map(|slice| in_slice(slice, name))
        };
        found.ok_or_else(|| format!("no endpoints available for service {:?}", of.name))
    }
}

/// A ready endpoint of a slice that has the port.
fn in_slice(slice: &Value, name: &str) -> Option<String> {
    let port = port_of(&slice["ports"], name)?;
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    let mut ready = endpoints.filter(|it| it["conditions"]["ready"] != false);
    joined(ready.next()?["addresses"][0].as_str()?, port)
}

/// An address of Endpoints that nobody has made slices of.
fn in_endpoints(endpoints: &Value, name: &str) -> Option<String> {
    let mut subsets = endpoints["subsets"].as_array().into_iter().flatten();
    subsets.find_map(|subset| {
        let port = port_of(&subset["ports"], name)?;
        joined(subset["addresses"][0]["ip"].as_str()?, port)
    })
}

fn port_of(ports: &Value, name: &str) -> Option<u64> {
    let mut ports = ports.as_array().into_iter().flatten();
    let named = |port: &&Value| port["name"].as_str().unwrap_or_default() == name;
    ports.find(named)?["port"].as_u64()
}

#[allow(clippy::unnecessary_wraps)]
fn joined(address: &str, port: u64) -> Option<String> {
    Some(if address.contains(':') {
        format!("[{address}]:{port}")
    } else {
        format!("{address}:{port}")
    })
}

/// The place of a URL, whose form was checked when it was written.
fn at(url: &str) -> Result<Place, String> {
    let parsed: http::Uri = url
        .parse()
        .map_err(|error| format!("Unparsable URL: parse {url:?}: {error}"))?;
    let authority = parsed.authority();
    let host = authority
        .map(http::uri::Authority::host)
        .unwrap_or_default();
    Ok(Place {
        authority: authority.map(ToString::to_string).unwrap_or_default(),
        server_name: host.trim_matches(['[', ']']).to_owned(),
        path: clean(parsed.path()),
        endpoint: None,
    })
}

/// A path with one slash before each of its parts, as Go joins paths.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::{at, clean};

    #[test]
    fn paths_are_joined_as_go_does() {
        for (path, whole) in [
            ("", "/"),
            ("/", "/"),
            ("a/b/", "/a/b"),
            ("//a/./b/../c", "/a/c"),
        ] {
            assert_eq!(clean(path), whole);
        }
    }

    #[test]
    fn a_url_names_host_and_path() {
        let place = at("https://[::1]:8443/check/");
        let place = place.map(|it| (it.authority, it.server_name, it.path));
        let wanted = ("[::1]:8443", "::1", "/check");
        let wanted = (
            wanted.0.to_owned(),
            wanted.1.to_owned(),
            wanted.2.to_owned(),
        );
        assert_eq!(place, Ok(wanted));
    }
}
