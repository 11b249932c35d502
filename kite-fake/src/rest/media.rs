//! Content negotiation: `Accept` and `Content-Type`.

use crate::status::Status;

/// How the answer is encoded and shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
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
#[non_exhaustive]
pub enum Encoding {
    /// `application/json`.
    #[default]
    Json,
    /// `application/yaml`.
    Yaml,
    /// Kubernetes' protobuf: built-in kinds, and the metadata of all kinds.
    Protobuf,
}

/// What the client takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Accepted {
    /// Shape of the answer.
    pub shape: Shape,
    /// Encoding of the answer.
    pub encoding: Encoding,
    /// The transformed answer is of `meta.k8s.io/v1beta1`, as old clients ask.
    pub beta: bool,
}

impl Accepted {
    /// `apiVersion` of a transformed answer.
    pub fn meta_version(&self) -> &'static str {
        if self.beta {
            "meta.k8s.io/v1beta1"
        } else {
            "meta.k8s.io/v1"
        }
    }

    /// The media type of a stream of events.
    pub(crate) fn stream_type(self) -> &'static str {
        match self.encoding {
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            Encoding::Json | Encoding::Yaml => "application/json",
        }
    }
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
    // What is named exactly goes before a wildcard of the same quality.
    out.sort_by(|a, b| {
        let wild = |c: &Clause| c.media.starts_with("*/");
        let half = |c: &Clause| c.media.ends_with("/*");
        b.quality
            .total_cmp(&a.quality)
            .then(wild(a).cmp(&wild(b)))
            .then(half(a).cmp(&half(b)))
    });
    out
}

/// The encoding that a media type names, or allows.
fn encoding(media: &str) -> Option<Encoding> {
    match media {
        "*/*" | "application/*" | "application/json" => Some(Encoding::Json),
        "application/yaml" => Some(Encoding::Yaml),
        crate::protobuf::MEDIA_TYPE => Some(Encoding::Protobuf),
        _ => None,
    }
}

/// What a clause makes of the answer; none if it asks for what cannot be made.
fn shape(clause: &Clause) -> Option<(Shape, bool)> {
    let asked = |name: &str| clause.param(name).unwrap_or_default();
    if !matches!(asked("stream"), "" | "watch") || !matches!(asked("sv"), "" | "v1") {
        return None;
    }
    let (kind, group, version) = (asked("as"), asked("g"), asked("v"));
    if (kind, group, version) == ("", "", "") {
        return Some((Shape::Plain, false));
    }
    if group != "meta.k8s.io" || !matches!(version, "v1" | "v1beta1") {
        return None;
    }
    let shape = match kind {
        "Table" => Shape::Table,
        "PartialObjectMetadata" => Shape::Partial { list: false },
        "PartialObjectMetadataList" => Shape::Partial { list: true },
        _ => return None,
    };
    Some((shape, version == "v1beta1"))
}

/// What there is to choose from.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// It is of a custom resource.
    pub custom: bool,
    /// It can be shown as a Table.
    pub tables: bool,
}

/// Chooses the representation of an answer.
///
/// # Errors
/// 406 if nothing that is accepted can be made.
pub fn accepted(header: Option<&str>, offer: Offer) -> Result<Accepted, Status> {
    let custom = offer.custom;
    let header = header.filter(|h| !h.is_empty()).unwrap_or("*/*");
    // What most clients ask for needs no weighing.
    if matches!(header, "*/*" | "application/json") {
        return Ok(Accepted::default());
    }
    // Custom resources are negotiated one step later than built-in ones.
    let mut transforms_refused = custom;
    for clause in clauses(header) {
        let Some(encoding) = encoding(&clause.media) else {
            continue;
        };
        let shape = shape(&clause).filter(|(shape, _)| offer.tables || *shape != Shape::Table);
        let Some((shape, beta)) = shape else {
            transforms_refused = true;
            continue;
        };
        // Neither a Table nor a custom resource has a message.
        let has_message = match shape {
            Shape::Plain => !custom,
            Shape::Table => false,
            Shape::Partial { .. } => true,
        };
        if encoding == Encoding::Protobuf && !has_message {
            transforms_refused = true;
            continue;
        }
        return Ok(Accepted {
            shape,
            encoding,
            beta,
        });
    }
    Err(if transforms_refused {
        none_of(AVAILABLE)
    } else {
        not_routed()
    })
}

/// 406 of a handler.
fn none_of(available: &str) -> Status {
    Status::new(
        406,
        "NotAcceptable",
        format!("only the following media types are accepted: {available}"),
    )
}

/// 406 of the router, before any handler is asked.
fn not_routed() -> Status {
    Status::new(
        406,
        "NotAcceptable",
        format!(
            "406: Not Acceptable\n\nAvailable representations: {AVAILABLE}, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        ),
    )
    .with_details(crate::status::Details::default())
}

/// Whether the clause by which an answer is encoded wants it indented.
pub fn asks_to_indent(header: Option<&str>) -> bool {
    let Some(header) = header.filter(|header| header.contains("pretty")) else {
        return false;
    };
    let mut known = clauses(header).into_iter();
    known
        .find(|clause| encoding(&clause.media).is_some())
        .is_some_and(|clause| clause.param("pretty") == Some("1"))
}

/// The encoding in which failures are told: that of the first clause which asks for no
/// transformation, for a failure is of one kind alone. `None`: none is accepted, and a
/// failure is told all the same.
pub fn of_failures(header: Option<&str>) -> Option<Encoding> {
    let header = header.unwrap_or_default();
    if header.is_empty() {
        return Some(Encoding::Json);
    }
    let plain = |clause: &Clause| {
        let asked = |name: &str| clause.param(name).is_some();
        !["as", "g", "v", "sv"].into_iter().any(asked)
    };
    let mut clauses = clauses(header).into_iter().filter(plain);
    clauses.find_map(|clause| encoding(&clause.media))
}

/// 406 of a watch in an encoding that has no frames.
pub fn not_streamable() -> Status {
    none_of("application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch")
}

/// The encoding of a document of the API itself; `routed`: its path is one of
/// a router that looks at `Accept` before any handler does.
///
/// # Errors
/// 406 if nothing that is accepted can be made.
pub fn document(header: &str, routed: bool) -> Result<Encoding, Status> {
    let offer = Offer {
        custom: false,
        tables: true,
    };
    match accepted(Some(header), offer) {
        Ok(accepted) => Ok(accepted.encoding),
        // A transformation that is not known gives way to the plain document.
        Err(status) if status.details.is_none() => Ok(Encoding::Json),
        Err(_) if routed => Err(not_routed()),
        Err(_) => Err(none_of(AVAILABLE)),
    }
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

    fn accepted(header: Option<&str>, custom: bool) -> Result<Accepted, Status> {
        let tables = true;
        super::accepted(header, Offer { custom, tables })
    }

    #[test]
    fn what_is_no_table_is_none() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let both = format!("{table},application/json");
        let offer = Offer {
            custom: false,
            tables: false,
        };
        let refused = super::accepted(Some(table), offer).unwrap_err();
        assert_eq!(refused.message, none_of(AVAILABLE).message);
        let plain = super::accepted(Some(&both), offer).unwrap();
        assert_eq!(plain.shape, Shape::Plain);
    }

    #[test]
    fn the_first_clause_that_can_be_made_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(accepted(Some(table), false).unwrap().shape, Shape::Table);
        let unknown = "application/json;as=Nothing;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(accepted(Some(unknown), false).unwrap().shape, Shape::Plain);
        let half = "application/json;g=meta.k8s.io;v=v1,application/yaml";
        assert_eq!(
            accepted(Some(half), false).unwrap().encoding,
            Encoding::Yaml
        );
        let beta = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
        let beta = accepted(Some(beta), false).unwrap();
        assert_eq!(
            (beta.shape, beta.meta_version()),
            (Shape::Table, "meta.k8s.io/v1beta1")
        );
        let exact = "*/*,application/yaml";
        assert_eq!(
            accepted(Some(exact), false).unwrap().encoding,
            Encoding::Yaml
        );
        assert_eq!(accepted(Some(""), false).unwrap(), Accepted::default());
        assert_eq!(accepted(Some("text/html"), true).unwrap_err().code, 406);
        let protobuf = "application/vnd.kubernetes.protobuf,application/json";
        let encoding = |custom| accepted(Some(protobuf), custom).unwrap().encoding;
        assert_eq!(
            (encoding(false), encoding(true)),
            (Encoding::Protobuf, Encoding::Json)
        );
        let partial =
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(
            accepted(Some(partial), true).unwrap().encoding,
            Encoding::Protobuf
        );
        let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
        assert_eq!(accepted(Some(table), false).unwrap_err().code, 406);
        assert_eq!(
            accepted(Some(crate::protobuf::MEDIA_TYPE), true)
                .unwrap_err()
                .code,
            406
        );
        let yaml = "application/json;q=0.1, application/yaml";
        assert_eq!(
            accepted(Some(yaml), false).unwrap().encoding,
            Encoding::Yaml
        );
    }
}
