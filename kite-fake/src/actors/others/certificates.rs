//! Issues certificates, as cert-manager does.

use async_trait::async_trait;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::actors::actor::{Actor, ActorError, Change, Context, Next, Watches};
use crate::actors::kind::{CERTIFICATE, Key, SECRET};
use crate::actors::objects::{Objects, ignore_missing, is_deleting, text};
use crate::actors::rules::{Gate, Stage};

/// How long a certificate is valid where it does not say: 90 days, in hours.
const HOURS: i64 = 90 * 24;

/// Plays cert-manager: a `Certificate` gets its Secret and is Ready. The Secret
/// holds words in place of a key and a chain: nothing can be served with it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Certificates;

#[async_trait]
impl Actor for Certificates {
    fn name(&self) -> &'static str {
        "cert-manager-certificates"
    }

    fn watches(&self) -> Watches {
        Watches::Kinds(vec![CERTIFICATE, SECRET])
    }

    fn keys(&self, change: &Change) -> Vec<Key> {
        if change.kind == CERTIFICATE {
            return vec![change.key()];
        }
        let annotations = change.object.metadata.annotations.as_ref();
        let name = annotations.and_then(|a| a.get("cert-manager.io/certificate-name"));
        let namespace = change.object.metadata.namespace.as_deref();
        let name = name.filter(|_| change.gone);
        name.map(|name| Key::new(&CERTIFICATE, namespace, name))
            .into_iter()
            .collect()
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Next, ActorError> {
        let objects = Objects::new(context, self.name());
        let found = objects.get(key).await?;
        let Some(certificate) = found.filter(|c| !is_deleting(c)) else {
            return Ok(Next::Done);
        };
        let namespace = key.namespace.as_deref();
        let generation = certificate.metadata.generation.unwrap_or_default();
        let name = text(&certificate, "/spec/secretName");
        let secret = objects.find(&SECRET, namespace, name).await?;
        let issued = certificate.data["status"]["conditions"]
            .as_array()
            .is_some_and(|all| {
                all.iter().any(|c| {
                    c["type"] == "Ready"
                        && c["status"] == "True"
                        && c["observedGeneration"] == generation
                })
            });
        if issued && secret.is_some() {
            return Ok(Next::Done);
        }
        let round = generation.to_string();
        let (word, reason, message, next) =
            match context.gate(Stage::CERTIFICATE_ISSUED, &certificate, &round) {
                Gate::Wait(rest) => return Ok(Next::After(rest)),
                Gate::Held => {
                    let message = "Issuing certificate as Secret does not exist".to_owned();
                    ("False", "DoesNotExist".to_owned(), message, Next::Held)
                }
                Gate::Fail(why) => ("False", why.reason, why.message, Next::Held),
                Gate::Open => {
                    if secret.is_none() {
                        let body = secret_for(&certificate, name);
                        objects.create(&SECRET, namespace, body).await?;
                    }
                    let message = "Certificate is up to date and has not expired".to_owned();
                    ("True", "Ready".to_owned(), message, Next::Done)
                }
            };
        let old = &certificate.data["status"];
        let now = context.clock.now();
        let mut status = json!({});
        let said = (word, reason.as_str(), message.as_str());
        status["conditions"] = json!([condition(old, said, generation, &context.now())]);
        if word == "True" {
            let after = |hours: i64| {
                let at = now.checked_add(jiff::SignedDuration::from_hours(hours));
                json!(crate::clock::rfc3339(at.unwrap_or(now)))
            };
            let revision = old["revision"].as_i64().unwrap_or_default() + 1;
            status["notBefore"] = after(0);
            status["notAfter"] = after(HOURS);
            status["renewalTime"] = after(HOURS * 2 / 3);
            status["revision"] = json!(revision);
        }
        ignore_missing(objects.set_status(key, &certificate, status).await)?;
        Ok(next)
    }
}

fn condition(
    old: &Value,
    (word, reason, message): (&str, &str, &str),
    generation: i64,
    now: &str,
) -> Value {
    let all = old["conditions"].as_array();
    let before = all.into_iter().flatten().find(|c| c["type"] == "Ready");
    let same = before.filter(|c| c["status"] == word);
    json!({
        "type": "Ready",
        "status": word,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": same.map_or(json!(now), |c| c["lastTransitionTime"].clone()),
    })
}

fn secret_for(certificate: &DynamicObject, name: &str) -> Value {
    let spec = &certificate.data["spec"];
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = spec["dnsNames"].as_array();
    let names: Vec<&str> = names
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let issuer = &spec["issuerRef"];
    let kind = issuer["kind"].as_str().unwrap_or("Issuer");
    let text = |what: &str| format!("a played {what} of {}\n", names.join(", "));
    json!({
        "metadata": {
            "name": name,
            "namespace": certificate.metadata.namespace,
            "annotations": {
                "cert-manager.io/alt-names": names.join(","),
                "cert-manager.io/certificate-name": certificate.metadata.name,
                "cert-manager.io/common-name": word(&spec["commonName"]),
                "cert-manager.io/issuer-kind": kind,
                "cert-manager.io/issuer-name": word(&issuer["name"]),
            },
            "labels": {"controller.cert-manager.io/fao": "true"},
        },
        "type": "kubernetes.io/tls",
        "stringData": {
            "tls.crt": text("certificate"),
            "tls.key": text("key"),
            "ca.crt": text("authority"),
        },
    })
}
