//! From the code that a browser brought to the person whom it stands for.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::Full;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kite_core::{cluster::ClusterExt as _, crd::SignInProvider, names};
use kite_rest::Problem;
use serde::Deserialize;
use serde_json::{Map, Value};
use url::form_urlencoded::{Serializer, byte_serialize};

use super::{
    flow::Flow,
    id_token::{Expected, Rejected, verify},
    person::{Person, lacks},
};
use crate::{
    providers::{Failure, Metadata, lost},
    state::Accounts,
};

/// What the provider gives for a code.
#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    access_token: String,
}

/// What it gives instead.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

/// Exchanges `code` and verifies what the provider says.
pub(super) async fn person_of(
    state: &Accounts,
    provider: &SignInProvider,
    metadata: &Metadata,
    flow: &Flow,
    code: &str,
) -> Result<Person, Failure> {
    let tokens = exchange(state, provider, metadata, flow, code).await?;
    let mut claims = verified(state, provider, metadata, flow, &tokens.id_token).await?;
    if lacks(provider, &claims) {
        add_user_info(state, provider, metadata, &tokens, &mut claims).await?;
    }
    Ok(Person::of(provider, &claims))
}

async fn exchange(
    state: &Accounts,
    provider: &SignInProvider,
    metadata: &Metadata,
    flow: &Flow,
    code: &str,
) -> Result<Tokens, Failure> {
    let secret = client_secret(state, provider).await?;
    let request = token_request(provider, metadata, flow, code, secret.as_deref())?;
    let answered = state.providers().web.ask(request).await;
    let name = &provider.name;
    let answer = answered.map_err(|error| lost(name, &metadata.token, &error))?;
    let (status, body) = (answer.status(), answer.body());
    if status == StatusCode::OK {
        return serde_json::from_slice(body).map_err(|error| {
            tracing::warn!(provider = name, %error, "a token answer has not what it should");
            Failure::Untrusted
        });
    }
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        tracing::warn!(provider = name, %status, "a sign-in provider gives no token now");
        return Err(Failure::Unavailable);
    }
    let refusal = serde_json::from_slice::<Refusal>(body);
    let error = refusal.map_or_else(|_| "no reason".to_owned(), |it| it.error);
    tracing::warn!(provider = name, %status, ?error, "a sign-in provider refuses a code");
    Err(match error.as_str() {
        "invalid_client" | "unauthorized_client" => Failure::Misconfigured(format!(
            "the sign-in provider {name:?} does not know Kite by its client id and secret: the \
             operator mends them"
        )),
        _ => Failure::Refused,
    })
}

fn token_request(
    provider: &SignInProvider,
    metadata: &Metadata,
    flow: &Flow,
    code: &str,
    secret: Option<&str>,
) -> Result<Request<Full<Bytes>>, Failure> {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "authorization_code")
        .append_pair("code", code)
        .append_pair("redirect_uri", &flow.redirect_uri)
        .append_pair("code_verifier", &flow.verifier);
    let mut request = Request::post(metadata.token.as_str())
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    match secret {
        Some(secret) if !metadata.secret_in_body => {
            let login = basic(&provider.client_id, secret);
            request = request.header(header::AUTHORIZATION, login);
        }
        secret => {
            form.append_pair("client_id", &provider.client_id);
            if let Some(secret) = secret {
                form.append_pair("client_secret", secret);
            }
        }
    }
    request
        .body(Full::new(Bytes::from(form.finish())))
        .map_err(|_| Failure::Misconfigured("the provider's token endpoint is no URL".to_owned()))
}

/// How a client proves itself in a header (RFC 6749 §2.3.1).
fn basic(id: &str, secret: &str) -> String {
    let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encode(id), encode(secret));
    format!("Basic {}", STANDARD.encode(pair))
}

/// The client's secret, read each time: another one holds at once.
async fn client_secret(
    state: &Accounts,
    provider: &SignInProvider,
) -> Result<Option<String>, Failure> {
    let Some(name) = &provider.client_secret_key else {
        return Ok(None);
    };
    let key = state.own_key(names::OIDC_SECRET);
    let found = state.cluster().get_opt::<Secret>(&key).await;
    let data = found.map_err(Problem::from)?.and_then(|secret| secret.data);
    let data = data.unwrap_or_default();
    let text = |key: &str| {
        let text = String::from_utf8(data.get(key)?.0.clone()).ok()?;
        let text = text.trim_end_matches(['\r', '\n']).to_owned();
        (!text.is_empty()).then_some(text)
    };
    let secret = text(name);
    if secret.is_some() {
        let bound = text(&names::issuer_key(name));
        require_bound(state, provider, name, bound.as_deref())?;
    }
    secret.map(Some).ok_or_else(|| {
        tracing::error!(provider = provider.name, key = name, "no client secret");
        Failure::Misconfigured(format!(
            "the secret of the sign-in provider {:?} is missing: the operator puts it into the \
             Secret {} of the namespace {} under the key {name:?}",
            provider.name,
            names::OIDC_SECRET,
            state.settings().namespace
        ))
    })
}

/// Refuses to send the secret under `name` to another issuer than the one that the
/// operator has written beside it: who may change providers is not trusted with secrets.
fn require_bound(
    state: &Accounts,
    provider: &SignInProvider,
    name: &str,
    bound: Option<&str>,
) -> Result<(), Failure> {
    if bound == Some(provider.issuer.as_str()) {
        return Ok(());
    }
    let (secret, namespace) = (names::OIDC_SECRET, &state.settings().namespace);
    let key = names::issuer_key(name);
    let what = if bound.is_some() {
        "is for another issuer"
    } else {
        "is not said to be for this issuer"
    };
    tracing::error!(
        provider = provider.name,
        issuer = provider.issuer,
        key = name,
        "the client secret {what}: it is not sent. If it is, write the issuer into the Secret \
         {secret} of the namespace {namespace} under the key {key}"
    );
    Err(Failure::Misconfigured(format!(
        "the secret of the sign-in provider {:?} {what}: the operator writes the issuer into the \
         Secret {secret} of the namespace {namespace} under the key {key:?}",
        provider.name
    )))
}

/// The claims of the ID token. If its key is unknown, the provider is asked for
/// its keys again: it may have begun to sign with another.
async fn verified(
    state: &Accounts,
    provider: &SignInProvider,
    metadata: &Metadata,
    flow: &Flow,
    token: &str,
) -> Result<Map<String, Value>, Failure> {
    let expected = Expected {
        issuer: &provider.issuer,
        client_id: &provider.client_id,
        nonce: &flow.nonce,
        begun: flow.begun(),
    };
    let providers = state.providers();
    let keys = providers.keys(provider, metadata, None).await?;
    let mut outcome = verify(token, &keys, &expected, Timestamp::now());
    if outcome == Err(Rejected::UnknownKey) {
        let others = providers.keys(provider, metadata, Some(&keys)).await?;
        if !Arc::ptr_eq(&keys, &others) {
            outcome = verify(token, &others, &expected, Timestamp::now());
        }
    }
    outcome.map_err(|why| {
        tracing::warn!(
            provider = provider.name,
            ?why,
            "an ID token is not believed"
        );
        Failure::Untrusted
    })
}

/// Adds what the provider tells only when asked. It must speak of the same person
/// (OpenID Connect Core 1.0 §5.3.2), and the ID token counts for more.
async fn add_user_info(
    state: &Accounts,
    provider: &SignInProvider,
    metadata: &Metadata,
    tokens: &Tokens,
    claims: &mut Map<String, Value>,
) -> Result<(), Failure> {
    let Some(place) = &metadata.user_info else {
        return Ok(());
    };
    let request = Request::get(place.as_str())
        .header(header::ACCEPT, "application/json")
        .header(
            header::AUTHORIZATION,
            format!("Bearer {}", tokens.access_token),
        )
        .body(Full::default())
        .map_err(|_| Failure::Untrusted)?;
    let told = state.providers().web.json::<Map<String, Value>>(request);
    let told = told
        .await
        .map_err(|error| lost(&provider.name, place, &error))?;
    if told.get("sub") != claims.get("sub") {
        tracing::warn!(provider = provider.name, "user info is of somebody else");
        return Err(Failure::Untrusted);
    }
    add(claims, told);
    Ok(())
}

/// Adds what the ID token does not say. That an address is verified is said of the
/// one beside it, not of another source's.
fn add(claims: &mut Map<String, Value>, mut told: Map<String, Value>) {
    if claims.contains_key("email") {
        told.remove("email_verified");
    } else {
        claims.remove("email_verified");
    }
    for (name, value) in told {
        claims.entry(name).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_is_as_verified_as_whoever_names_it_says() {
        let both = |token: Value, info: Value| {
            let (Value::Object(mut token), Value::Object(info)) = (token, info) else {
                panic!("objects");
            };
            add(&mut token, info);
            Value::Object(token)
        };
        let info = json!({"email": "b@example.org", "email_verified": true});
        let token = json!({"email": "a@example.org"});
        assert_eq!(both(token.clone(), info.clone()), token);
        assert_eq!(both(json!({}), info.clone()), info);
        let stray = json!({"email_verified": true});
        assert_eq!(
            both(stray, json!({"email": "b@example.org"})),
            json!({"email": "b@example.org"})
        );
    }

    #[test]
    fn ids_and_secrets_are_written_as_the_standard_says() {
        // "a b:c%d" must not run together with the colon between the two.
        let text = basic("a b:c", "d%é");
        let encoded = text.strip_prefix("Basic ").unwrap_or_default();
        let decoded = STANDARD.decode(encoded).unwrap_or_default();
        assert_eq!(decoded, b"a+b%3Ac:d%25%C3%A9");
    }
}
