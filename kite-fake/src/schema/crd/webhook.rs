//! Where a webhook is reached.

use http::Uri;
use serde_json::Value;

use crate::field_error::FieldError;
use crate::names::subdomain;

const FORM: &str = "; desired format: https://host[/path]";

/// Checks where a webhook is reached: at a URL or at a Service.
pub(crate) fn client_config(client: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if client["url"].is_string() == client["service"].is_object() {
        errors.push(FieldError::required(
            at,
            "exactly one of url or service is required",
        ));
    } else if let Some(text) = client["url"].as_str() {
        url(text, &format!("{at}.url"), errors);
    } else {
        service(&client["service"], &format!("{at}.service"), errors);
    }
}

/// Checks the address of a webhook.
fn url(text: &str, at: &str, errors: &mut Vec<FieldError>) {
    let mut wrong = |value: &str, detail: String| {
        errors.push(FieldError::invalid(at, &value.into(), detail));
    };
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    let Ok(uri) = rest.parse::<Uri>() else {
        errors.push(FieldError::required(
            at,
            &format!("url must be valid: parse {text:?}: invalid URI for request{FORM}"),
        ));
        return;
    };
    let scheme = uri.scheme_str().unwrap_or_default();
    if scheme != "https" {
        wrong(
            scheme,
            format!("'https' is the only allowed URL scheme{FORM}"),
        );
    }
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", &authority));
    if host.is_empty() || uri.scheme().is_none() {
        wrong("", format!("host must be specified{FORM}"));
    }
    if !user.is_empty() {
        wrong(
            user,
            "user information is not permitted in the URL".to_owned(),
        );
    }
    if !fragment.is_empty() {
        wrong(
            fragment,
            "fragments are not permitted in the URL".to_owned(),
        );
    }
    if let Some(query) = uri.query().filter(|q| !q.is_empty()) {
        wrong(
            query,
            "query parameters are not permitted in the URL".to_owned(),
        );
    }
}

/// Checks the service that stands before a webhook.
fn service(service: &Value, at: &str, errors: &mut Vec<FieldError>) {
    for name in ["name", "namespace"] {
        if service[name].as_str().unwrap_or_default().is_empty() {
            let detail = format!("service {name} is required");
            errors.push(FieldError::required(format!("{at}.{name}"), &detail));
        }
    }
    if let Some(path) = service["path"].as_str() {
        path_segments(path, &format!("{at}.path"), errors);
    }
    if let Some(port) = service["port"].as_i64()
        && !(1..=65535).contains(&port)
    {
        errors.push(FieldError::invalid(
            format!("{at}.port"),
            &port.into(),
            "port is not valid: must be between 1 and 65535, inclusive",
        ));
    }
}

fn path_segments(path: &str, at: &str, errors: &mut Vec<FieldError>) {
    let mut wrong = |detail: String| {
        errors.push(FieldError::invalid(at, &path.into(), detail));
    };
    if path == "/" || path.is_empty() {
        return;
    }
    if path == "//" {
        wrong("segment[0] may not be empty".to_owned());
        return;
    }
    if !path.starts_with('/') {
        wrong("must start with a '/'".to_owned());
    }
    let inner = path.get(1..).unwrap_or_default();
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    for (i, segment) in inner.split('/').enumerate() {
        if segment.is_empty() {
            wrong(format!("segment[{i}] may not be empty"));
            continue;
        }
        for problem in subdomain(segment) {
            wrong(format!("segment[{i}]: {problem}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn addresses_are_https_without_more() {
        let check = |text: &str| {
            let mut errors = Vec::new();
            url(text, "u", &mut errors);
            errors.into_iter().map(|e| e.message).collect::<Vec<_>>()
        };
        assert!(check("https://a.example/p").is_empty());
        assert_eq!(
            check("http://a.example"),
            [
                "Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]"
            ]
        );
        assert_eq!(
            check("https://u@a.example/?q=1#f").len(),
            3,
            "user, query and fragment"
        );
    }

    #[test]
    fn services_have_a_name_and_a_port() {
        let mut errors = Vec::new();
        service(
            &json!({"name": "s", "port": 0, "path": "/a//b"}),
            "s",
            &mut errors,
        );
        let fields: Vec<_> = errors.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(fields, ["s.namespace", "s.path", "s.port"]);
    }
}
