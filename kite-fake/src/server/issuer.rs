//! Who issues tokens of service accounts, as `OpenID` Connect describes it: by what key
//! others verify them.
//!
//! Without the feature `oidc` tokens are only unguessable, and there is no key.

use http::request::Parts;
use serde_json::Value;

use super::ApiServer;
use crate::discovery::Document;
use crate::status::Status;

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";

impl ApiServer {
    /// A document of the issuer, if the path is that of one.
    pub(super) fn issuer_document(&self, parts: &Parts) -> Result<Option<Document>, Status> {
        match parts.uri.path().trim_end_matches('/') {
            path @ (CONFIGURATION | KEYS) => self.described(path, parts).map(Some),
            _ => Ok(None),
        }
    }
}

#[cfg(feature = "oidc")]
impl ApiServer {
    /// Another seed may have come.
    pub(crate) fn forget_signer(&mut self) {
        self.signer = std::sync::OnceLock::new();
    }

    /// A token that says `claims`.
    pub(super) fn signed(&mut self, claims: &Value) -> String {
        self.signer().sign(claims)
    }

    fn signer(&self) -> &crate::auth::Signer {
        self.signer
            .get_or_init(|| crate::auth::Signer::of_seed(self.seed()))
    }

    /// A document of the issuer.
    #[expect(
        clippy::unnecessary_wraps,
        reason = "there is none without the feature"
    )]
    fn described(&self, path: &str, parts: &Parts) -> Result<Document, Status> {
        if path == KEYS {
            return Ok(document("application/jwk-set+json", &self.signer().keys()));
        }
        let host = parts.headers.get(http::header::HOST);
        let host = host.and_then(|it| it.to_str().ok());
        let host = host.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str));
        let value = serde_json::json!({
            "issuer": crate::auth::ISSUER,
            "jwks_uri": format!("https://{}{KEYS}", host.unwrap_or("kubernetes.default.svc")),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        });
        Ok(document("application/json", &value))
    }
}

#[cfg(feature = "oidc")]
fn document(content_type: &'static str, value: &Value) -> Document {
    Document {
        cache: "public, max-age=3600",
        ..Document::new(content_type, value.to_string())
    }
}

#[cfg(not(feature = "oidc"))]
impl ApiServer {
    #[expect(clippy::unused_self, reason = "there is none without the feature")]
    pub(crate) fn forget_signer(&mut self) {}

    /// A token that says `claims`: its last part is only unguessable.
    pub(super) fn signed(&mut self, claims: &Value) -> String {
        use base64::Engine as _;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

        let header = serde_json::json!({"alg": "none", "typ": "JWT"});
        let part = |value: &Value| BASE64.encode(value.to_string());
        let last = BASE64.encode(self.ids.token());
        format!("{}.{}.{last}", part(&header), part(claims))
    }

    #[expect(clippy::unused_self, reason = "there is no key without the feature")]
    fn described(&self, _: &str, _: &Parts) -> Result<Document, Status> {
        Err(unsigned())
    }
}

#[cfg(not(feature = "oidc"))]
fn unsigned() -> Status {
    Status::unsupported("keys of tokens without its feature `oidc`")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests {
    use base64::Engine as _;
    use bytes::Bytes;
    use http::{Request, Response};
    use serde_json::json;

    use super::*;
    use crate::server::Answer;

    fn get(server: &mut ApiServer, path: &str) -> Response<Bytes> {
        let identity = crate::auth::Identity::admin();
        let request = Request::get(path)
            .extension(identity)
            .header("host", "fake:6443");
        let request = request.body(Bytes::new()).unwrap();
        match server.handle(request, jiff::Timestamp::UNIX_EPOCH) {
            Answer::Response(response) => response,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_issuer_describes_itself_if_it_has_a_key() {
        let mut server = ApiServer::new(7, 100);
        let described = get(&mut server, CONFIGURATION);
        let keys = get(&mut server, KEYS);
        if cfg!(not(feature = "oidc")) {
            assert_eq!(
                (described.status(), keys.status()),
                (501.try_into().unwrap(), 501.try_into().unwrap())
            );
            return;
        }
        let value: Value = serde_json::from_slice(described.body()).unwrap();
        assert_eq!(value["jwks_uri"], "https://fake:6443/openid/v1/jwks");
        assert_eq!(described.headers()["cache-control"], "public, max-age=3600");
        assert_eq!(keys.headers()["content-type"], "application/jwk-set+json");
        let keys: Value = serde_json::from_slice(keys.body()).unwrap();
        let token = server.signed(&json!({"sub": "x"}));
        let head = token.split('.').next().unwrap();
        let head = base64::engine::general_purpose::URL_SAFE_NO_PAD
            .decode(head)
            .unwrap();
        let head: Value = serde_json::from_slice(&head).unwrap();
        assert_eq!(head["kid"], keys["keys"][0]["kid"]);
    }
}
