//! Whether answers are for people: indented when a browser or a command line tool asks.

use crate::rest::media;
use crate::rest::query::Query;

/// Whether an answer is indented: what is accepted may say so, or the `pretty`
/// parameter, or else whether the client is one that people look at.
pub(super) fn asked(accept: Option<&str>, query: &Query, user_agent: &str) -> bool {
    if media::asks_to_indent(accept) {
        return true;
    }
    match query.text("pretty") {
        "" => ["curl", "Wget", "Mozilla/5.0"]
            .iter()
            .any(|name| user_agent.starts_with(name)),
        given => matches!(given, "1" | "t" | "T" | "true" | "TRUE" | "True"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_known_by_their_tools() {
        let query = Query::parse;
        let asked = |accept, parameters, client| asked(accept, &query(parameters), client);
        assert!(asked(None, "", "curl/8.5"));
        assert!(!asked(None, "pretty=false", "curl/8.5"));
        assert!(asked(None, "pretty=true", "kubectl/v1.36"));
        assert!(!asked(Some("application/json"), "", "kubectl/v1.36"));
        let accept = Some("text/html, application/json; pretty=1");
        assert!(asked(accept, "", "kubectl/v1.36"));
    }
}
