//! What the server does not do, or does otherwise, in one table.

/// How a feature fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Support {
    /// Answered 501 with a `Status` that names it.
    Refused,
    /// Stored and answered, without effect.
    Inert,
    /// Works, with this difference.
    Differs,
}

/// One row of the support table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The feature.
    pub feature: &'static str,
    /// How it fares.
    pub support: Support,
    /// Why, or what to expect.
    pub note: &'static str,
}

const fn row(feature: &'static str, support: Support, note: &'static str) -> Row {
    Row {
        feature,
        support,
        note,
    }
}

/// The table that `docs/fake.md` prints.
pub const SUPPORT: &[Row] = &[
    row(
        "`pods/exec`, `attach`, `log`, `portforward`, `proxy`; `nodes/proxy`, `services/proxy`",
        Support::Refused,
        "there is no kubelet and nothing to talk to",
    ),
    row(
        "`pods/ephemeralcontainers`, `pods/resize`",
        Support::Inert,
        "the Pod is changed by the server's rules; no container starts or gets other resources",
    ),
    row(
        "admission webhooks over HTTP",
        Support::Differs,
        "called at an endpoint of the Service, from its EndpointSlices or Endpoints, and not at its address; over HTTPS with the feature `webhooks`, without it in process alone (`FakeCluster::answer_webhooks`), and other calls fail; without audit annotations; what is written without a client (`FakeCluster::create`) cannot ask and is refused",
    ),
    row(
        "ValidatingAdmissionPolicy",
        Support::Differs,
        "`authorizer` goes by the roles and bindings alone, also where `rbac` is off, and lacks `path`, `serviceAccount` and `requestResource`; without audit annotations and type checking; expressions are compiled when they are first used",
    ),
    row(
        "MutatingAdmissionPolicy",
        Support::Differs,
        "it changes what is created and updated, `/status` included; a write that it is about whose body is of a kind of its own (`scale`, `eviction`, `binding`, `token`) gets 501; what an expression makes is checked when it is made, not when the policy is stored; served where the types are those of 1.36 or later (`k8s-openapi/v1_36`)",
    ),
    row(
        "requests for subresources and `Webhook`",
        Support::Differs,
        "a `Webhook` is asked about objects that are created and changed, and about evictions, not about deletions, bindings and tokens; policies are",
    ),
    row(
        "PodDisruptionBudget without actors",
        Support::Differs,
        "an eviction goes by the `status` that was written and counts it down; as on a real server one without `observedGeneration` allows nothing",
    ),
    row(
        "CertificateSigningRequest",
        Support::Differs,
        "what is asked for is checked, but not whether the request is signed with its key; nothing approves or signs",
    ),
    row(
        "CRD conversion webhooks",
        Support::Differs,
        "who applies in another version than before owns fields by their names: ownership is not converted; webhooks are called as those of admission are",
    ),
    row(
        "APIService",
        Support::Inert,
        "stored; `FakeCluster::extend` answers paths in place of the server; those of the server's own groups are there, none are made for definitions",
    ),
    row(
        "IPAddress, ServiceCIDR",
        Support::Inert,
        "stored; Services have their addresses from 10.96.0.0/16 without any IPAddress",
    ),
    row(
        "signed tokens and `/openid/v1/jwks`, where the crate is built without its feature `oidc`",
        Support::Refused,
        "tokens are unguessable and not signed; `kite apiserver` signs them",
    ),
    row(
        "priority and fairness, audit, rate limits",
        Support::Inert,
        "every request is answered at once",
    ),
    row(
        "scheduling, images, probes",
        Support::Differs,
        "the actors count what nodes have, set readiness and end what has an end; no container ever runs, and nothing is preempted",
    ),
    row(
        "loopback addresses in EndpointSlices",
        Support::Differs,
        "accepted: what the actors of a cluster in one process run listens there",
    ),
    row(
        "growing a claim whose class is not there",
        Support::Differs,
        "allowed: whoever plays the storage lets it grow",
    ),
    row(
        "quota status, gathered rules of ClusterRoles",
        Support::Differs,
        "kept by the server with every write instead of by a controller later",
    ),
    row(
        "plain HTTP without credentials",
        Support::Differs,
        "the administrator's unless RBAC is on, since kubectl sends no token without TLS; over TLS they are nobody's",
    ),
    row(
        "client certificates",
        Support::Differs,
        "none are asked for: users have tokens; so a fresh cluster has no ConfigMap `extension-apiserver-authentication`",
    ),
    row(
        "expressions of devices in `resource.k8s.io`",
        Support::Inert,
        "stored as they are: nothing allocates devices, and they are not compiled",
    ),
    row(
        "order of members in JSON",
        Support::Differs,
        "that of Go's types, or by name, as a real server writes them; by name also in the OpenAPI documents and in what a real server keeps as it was sent (`data` of a ControllerRevision, defaults and examples of schemas)",
    ),
    row(
        "rules in CEL, where the crate is built without its feature `cel`",
        Support::Differs,
        "definitions that have some are refused, and so is every write that a policy, or a webhook with conditions, is about",
    ),
];

/// The table as Markdown.
pub fn markdown() -> String {
    use std::fmt::Write as _;
    let mut out = String::from("| Feature | What happens | Note |\n|---|---|---|\n");
    for row in SUPPORT {
        let what = match row.support {
            Support::Refused => "501",
            Support::Inert => "stored, no effect",
            Support::Differs => "differs",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| {} | {what} | {} |", row.feature, row.note);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_line() {
        assert_eq!(markdown().lines().count(), SUPPORT.len() + 2);
    }

    #[test]
    fn the_docs_have_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/fake.md");
        let Ok(docs) = std::fs::read_to_string(path) else {
            // A packaged crate has no docs beside it.
            return;
        };
        assert!(
            docs.contains(&markdown()),
            "docs/fake.md lacks:\n{}",
            markdown()
        );
    }
}
