//! The certificate of the web page: which it is, and another one put in by hand.
//!
//! What is put in is a Secret of a fixed name in Kite's namespace, and the platform
//! names it. The API reads that Secret and cert-manager's for the web page, and no
//! other, and tells a key to nobody.

mod chain;
mod secret;

use aide::axum::{ApiRouter, routing::get_with};
use axum::extract::State;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kite_core::{
    cluster::{Cluster as _, ClusterError, ClusterExt as _, ObjectKey},
    crd::{AccessLevel, KitePlatform, KitePlatformSpec},
    names,
};
use kite_identity::{Caller, require_read};
use kite_rest::{
    Answer, Done, Form, IfMatch, Input, Problem, ProblemKind, Sent, edit, openapi::about,
};
use kube::ResourceExt as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use self::{
    chain::{Chain, Facts},
    secret::{ATTEMPTS, clear_away, find_own, is_own, keep, secret_key, write},
};

use crate::{
    policy::{Action, Whose},
    state::ApiState,
};

const TAG: &str = "admin";
/// Keys of a Secret with a certificate.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// The path of the certificate.
pub(crate) fn routes() -> ApiRouter<ApiState> {
    use ProblemKind::Conflict;
    ApiRouter::new().api_route(
        "/admin/certificate",
        get_with(
            get,
            about(TAG, "getCertificate", "See the web page's certificate", &[]),
        )
        .put_with(
            put,
            about(
                TAG,
                "putCertificate",
                "Put in a certificate for the web page",
                &[Conflict],
            ),
        )
        .delete_with(
            delete,
            about(
                TAG,
                "deleteCertificate",
                "Go back to the certificate of the ingress controller",
                &[Conflict],
            ),
        ),
    )
}

/// Where the web page's certificate comes from.
#[derive(Serialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
enum CertificateSource {
    /// The ingress controller brings its own.
    Controller,
    /// The listener of the Gateway has it.
    Gateway,
    /// cert-manager gets it from a `ClusterIssuer`.
    ClusterIssuer,
    /// A Secret that somebody looks after.
    Secret,
    /// It was put in here.
    Uploaded,
}

/// The web page's certificate. Its key is not told.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Certificate")]
pub(crate) struct CertificateView {
    /// Where it comes from.
    source: CertificateSource,
    /// The `ClusterIssuer`, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster_issuer: Option<String>,
    /// The Secret in which it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret_name: Option<String>,
    /// What it says of itself. Absent where Kite does not read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<Facts>,
    /// Why there is nothing to tell of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

fn require(caller: &Caller) -> Result<(), Problem> {
    caller.require(Action::ManagePlatform, Whose::Other(AccessLevel::ReadOnly))
}

/// Where the certificate comes from, and in which Secret it is.
fn source_of(spec: &KitePlatformSpec) -> (CertificateSource, Option<&str>) {
    let exposure = &spec.exposure;
    if exposure.gateway.is_some() {
        return (CertificateSource::Gateway, None);
    }
    if exposure.certificate.cluster_issuer.is_some() {
        let secret = Some(names::PLATFORM_CERTIFICATE);
        return (CertificateSource::ClusterIssuer, secret);
    }
    match exposure.certificate.secret_name.as_deref() {
        None => (CertificateSource::Controller, None),
        Some(names::UPLOADED_CERTIFICATE) => (
            CertificateSource::Uploaded,
            Some(names::UPLOADED_CERTIFICATE),
        ),
        given => (CertificateSource::Secret, given),
    }
}

async fn view(state: &ApiState, spec: &KitePlatformSpec) -> Result<CertificateView, Problem> {
    let (source, secret) = source_of(spec);
    let (facts, message) = match (source, secret) {
        (CertificateSource::Controller, _) => (None, "the ingress controller brings its own"),
        (CertificateSource::Gateway, _) => (None, "the Gateway's listener has it"),
        (CertificateSource::Secret, _) => (None, "Kite does not read this Secret"),
        (_, None) => (None, "it is in no Secret"),
        (_, Some(name)) => {
            let key = state.own_key(name);
            match state.cluster().get_opt::<Secret>(&key).await? {
                None => (None, "its Secret is not there yet"),
                Some(secret) => match facts_of(&secret, spec) {
                    None => (None, "its Secret has no certificate that can be read"),
                    facts => (facts, ""),
                },
            }
        }
    };
    Ok(CertificateView {
        source,
        cluster_issuer: spec.exposure.certificate.cluster_issuer.clone(),
        secret_name: secret.map(str::to_owned),
        message: facts.is_none().then(|| message.to_owned()),
        facts,
    })
}

fn facts_of(secret: &Secret, spec: &KitePlatformSpec) -> Option<Facts> {
    let pem = secret.data.as_ref()?.get(CERTIFICATE)?;
    let pem = std::str::from_utf8(&pem.0).ok()?;
    let chain = Chain::parse(pem).ok()?;
    chain.facts(spec.base_domain.as_deref(), Timestamp::now())
}

/// `GET /api/v1/admin/certificate`
async fn get(
    State(state): State<ApiState>,
    caller: Caller,
) -> Result<Answer<CertificateView>, Problem> {
    require(&caller)?;
    Ok(Answer::new(view(&state, &state.platform()).await?))
}

/// A certificate that is put in.
pub(crate) struct NewCertificate {
    certificate: String,
    key: String,
}

impl Input for NewCertificate {
    const NAME: &'static str = "NewCertificate";
    const MEANING: &'static [(&'static str, &'static str)] = &[
        (
            "certificate",
            "The certificate in PEM form, behind it the one that signed it, and so on.",
        ),
        (
            "privateKey",
            "Its private key in PEM form, without a passphrase. It is never shown again.",
        ),
    ];

    fn example() -> Option<Value> {
        Some(json!({
            "certificate": "-----BEGIN CERTIFICATE-----\n…\n-----END CERTIFICATE-----\n",
            "privateKey": "-----BEGIN PRIVATE KEY-----\n…\n-----END PRIVATE KEY-----\n",
        }))
    }

    fn read(form: &mut Form) -> Option<Self> {
        let certificate = form.required("certificate");
        let key = form.required("privateKey");
        Some(Self {
            certificate: certificate?,
            key: key?,
        })
    }
}

/// Notes what is wrong with certificate and key.
fn check(form: &mut Form, new: &NewCertificate, domain: &str) {
    let chain = match Chain::parse(&new.certificate) {
        Ok(chain) => chain,
        Err(wrong) => return form.error("certificate", wrong),
    };
    if let Err(wrong) = chain.check(domain, Timestamp::now()) {
        form.error("certificate", wrong);
    }
    if let Err(wrong) = chain.check_key(&new.key) {
        form.error("privateKey", wrong);
    }
}

/// `PUT /api/v1/admin/certificate`. The Secret comes first: nothing names one that
/// is not there. Where the platform refuses to name it, it goes again; where that is
/// not known, a repeated request finishes what was begun. Once it is named it is
/// looked at again, for a request to take it away may have been under way.
async fn put(
    State(state): State<ApiState>,
    caller: Caller,
    Sent { input, mut form }: Sent<NewCertificate>,
) -> Result<Answer<CertificateView>, Problem> {
    require(&caller)?;
    let spec = state.platform();
    require_settings(&spec)?;
    if spec.exposure.gateway.is_some() {
        return Err(with_gateway());
    }
    let is_named = source_of(&spec).0 == CertificateSource::Uploaded;
    let Some(domain) = spec.base_domain else {
        return Err(Problem::new(
            ProblemKind::Conflict,
            "the platform has no base domain for which a certificate could be: set baseDomain \
             first",
        ));
    };
    if let Some(new) = &input {
        check(&mut form, new, &domain);
    }
    let new = form.finish_with(input)?;
    let earlier = find_own(&state).await?;
    write(&state, &new, earlier.as_ref()).await?;
    let wanted = json!({
        "exposure": {"certificate": {"secretName": names::UPLOADED_CERTIFICATE, "clusterIssuer": null}}
    });
    let spec = match set(&state, &wanted, &form).await {
        Ok(spec) => spec,
        Err(problem) => {
            // Where an answer was lost it may be named all the same.
            let is_refused = matches!(problem.kind(), ProblemKind::Invalid | ProblemKind::Conflict);
            if is_refused && !is_named {
                clear_away(&state).await?;
            }
            return Err(problem);
        }
    };
    keep(&state, &new).await?;
    tracing::info!(by = caller.name(), "put in a certificate");
    Ok(Answer::new(view(&state, &spec).await?))
}

/// Refuses to change of which certificate nobody can say which it is, or what for.
fn require_settings(spec: &KitePlatformSpec) -> Result<(), Problem> {
    require_read(spec, "exposure")?;
    require_read(spec, "baseDomain")
}

fn with_gateway() -> Problem {
    Problem::new(
        ProblemKind::Conflict,
        "with exposure.gateway the certificate is that of the Gateway's listener: set it there",
    )
}

/// Changes the platform's settings, which are there.
async fn set(state: &ApiState, wanted: &Value, form: &Form) -> Result<KitePlatformSpec, Problem> {
    let cache = &state.caches().platforms;
    let platform = state
        .platform_object()
        .ok_or_else(|| Problem::not_found("platform", names::PLATFORM))?;
    let always = IfMatch::default();
    let edited = edit(
        state.store(),
        cache,
        platform.as_ref(),
        &always,
        wanted,
        form,
    )
    .await?;
    Ok(edited.spec)
}

/// `DELETE /api/v1/admin/certificate`. The name goes before what it names, which
/// goes only if nobody puts in another one meanwhile.
async fn delete(State(state): State<ApiState>, caller: Caller) -> Result<Done, Problem> {
    require(&caller)?;
    let key = ObjectKey::cluster(names::PLATFORM);
    let platform = state.cluster().get_opt::<KitePlatform>(&key).await?;
    let spec = platform.as_ref().map(|it| it.spec.clone());
    let spec = spec.unwrap_or_default();
    require_settings(&spec)?;
    if spec.exposure.gateway.is_some() {
        return Err(with_gateway());
    }
    let source = source_of(&spec).0;
    if let Some(platform) = platform
        && source == CertificateSource::Uploaded
    {
        unname(&state, platform).await?;
    }
    let secret = state
        .cluster()
        .get_opt::<Secret>(&secret_key(&state))
        .await?;
    match (secret.filter(is_own), source) {
        // What was put in once can still be cleared away.
        (Some(_), _) => clear_away(&state).await?,
        (None, CertificateSource::ClusterIssuer | CertificateSource::Secret) => {
            return Err(Problem::new(
                ProblemKind::Conflict,
                "the certificate was not put in here: VMs' domains have it, too, so change \
                 exposure.certificate with PATCH /api/v1/admin/platform",
            ));
        }
        (
            None,
            CertificateSource::Uploaded
            | CertificateSource::Controller
            | CertificateSource::Gateway,
        ) => {}
    }
    tracing::info!(by = caller.name(), "took the certificate away");
    Ok(Done::default())
}

/// Has the platform name no certificate, on the condition that it names what was put
/// in: somebody may have named another one meanwhile.
async fn unname(state: &ApiState, mut platform: KitePlatform) -> Result<(), Problem> {
    let key = ObjectKey::of(&platform);
    for _ in 0..ATTEMPTS {
        let patch = json!({
            "metadata": {"resourceVersion": platform.resource_version()},
            "spec": {"exposure": {"certificate": {"secretName": null}}},
        });
        let edited = state
            .cluster()
            .merge_patch(kite_core::managers::API, &key, &patch)
            .await;
        match edited {
            Ok(edited) => {
                let platforms = &state.caches().platforms;
                platforms.caught_up_with(&edited).await;
                return Ok(());
            }
            // It may have been its status, or another setting.
            Err(ClusterError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let now = state.cluster().get_opt::<KitePlatform>(&key).await?;
        match now.filter(|it| source_of(&it.spec).0 == CertificateSource::Uploaded) {
            Some(now) => platform = now,
            None => break,
        }
    }
    Err(Problem::new(
        ProblemKind::Conflict,
        "the platform's settings were changed at the same time: look at them and try again",
    ))
}

async fn platform_now(state: &ApiState) -> Result<KitePlatformSpec, Problem> {
    let platform = ObjectKey::cluster(names::PLATFORM);
    let platform = state.cluster().get_opt::<KitePlatform>(&platform).await?;
    Ok(platform.map(|platform| platform.spec).unwrap_or_default())
}
