//! Content negotiation: `Accept` and `Content-Type`.

use crate::status::Status;

/// How the answer is encoded and shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// The object or list itself.
    #[default]
    Plain,
    /// `as=Table`.
    Table,
    /// `as=PartialObjectMetadata` or its list, as the request has it.
    Partial {
        /// The request named the list form.
        list: bool,
    },
}

/// The encoding of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// `application/json`.
    #[default]
    Json,
    /// `application/yaml`.
    Yaml,
    /// Kubernetes' protobuf, which requests to built-in kinds may be in; answers never are.
    Protobuf,
}

/// What the client takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accepted {
    /// Shape of the answer.
    pub shape: Shape,
    /// Encoding of the answer.
    pub encoding: Encoding,
}

const AVAILABLE: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// One clause of an `Accept` header.
struct Clause {
    media: String,
    params: Vec<(String, String)>,
    quality: f32,
}

impl Clause {
    fn param(&self, name: &str) -> Option<&str> {
        self.params
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }
}

fn clauses(header: &str) -> Vec<Clause> {
    let mut out: Vec<Clause> = header
        .split(',')
        .map(str::trim)
        .filter(|c| !c.is_empty())
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            let params: Vec<(String, String)> = parts
                .filter_map(|p| p.split_once('='))
                .map(|(n, v)| (n.trim().to_owned(), v.trim().to_owned()))
                .collect();
            let quality = params
                .iter()
                .find(|(n, _)| n == "q")
                .and_then(|(_, v)| v.parse().ok())
                .unwrap_or(1.0);
            Clause {
                media,
                params,
                quality,
            }
        })
        .collect();
    out.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    out
}

/// Chooses the representation of an answer.
///
/// # Errors
/// 406 if nothing that is accepted can be made.
pub fn accepted(header: Option<&str>, custom: bool) -> Result<Accepted, Status> {
    let header = header.unwrap_or("*/*");
    // Custom resources are negotiated one step later than built-in ones.
    let mut transforms_refused = custom;
    for clause in clauses(header) {
        let encoding = match clause.media.as_str() {
            "*/*" | "application/*" | "application/json" => Encoding::Json,
            "application/yaml" => Encoding::Yaml,
            _ => continue,
        };
        let shape = match (clause.param("as"), clause.param("g"), clause.param("v")) {
            (None, ..) => Shape::Plain,
            (Some("Table"), Some("meta.k8s.io"), Some("v1" | "v1beta1")) => Shape::Table,
            (Some("PartialObjectMetadata"), Some("meta.k8s.io"), Some("v1" | "v1beta1")) => {
                Shape::Partial { list: false }
            }
            (Some("PartialObjectMetadataList"), Some("meta.k8s.io"), Some("v1" | "v1beta1")) => {
                Shape::Partial { list: true }
            }
            _ => {
                transforms_refused = true;
                continue;
            }
        };
        return Ok(Accepted { shape, encoding });
    }
    if transforms_refused {
        return Err(Status::new(
            406,
            "NotAcceptable",
            format!("only the following media types are accepted: {AVAILABLE}"),
        ));
    }
    Err(Status::new(
        406,
        "NotAcceptable",
        format!(
            "406: Not Acceptable\n\nAvailable representations: {AVAILABLE}, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        ),
    )
    .with_details(crate::status::Details::default()))
}

/// The encoding of a request's body.
///
/// # Errors
/// 415 for what the server does not decode.
pub fn content_type(header: Option<&str>, custom: bool) -> Result<Encoding, Status> {
    let media = header
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    match media.as_str() {
        "" | "application/json" => Ok(Encoding::Json),
        "application/yaml" => Ok(Encoding::Yaml),
        crate::protobuf::MEDIA_TYPE if !custom => Ok(Encoding::Protobuf),
        _ => Err(Status::unsupported_media_type(if custom {
            "application/json, application/yaml"
        } else {
            AVAILABLE
        })),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clause_that_can_be_made_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(accepted(Some(table), false).unwrap().shape, Shape::Table);
        let unknown = "application/json;as=Nothing;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(accepted(Some(unknown), false).unwrap().shape, Shape::Plain);
        assert_eq!(accepted(Some("text/html"), true).unwrap_err().code, 406);
        let yaml = "application/json;q=0.1, application/yaml";
        assert_eq!(
            accepted(Some(yaml), false).unwrap().encoding,
            Encoding::Yaml
        );
    }
}
