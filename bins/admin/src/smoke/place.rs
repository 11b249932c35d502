//! Where an installation is reached, as its platform says.

use k8s_openapi::api::core::v1::{Secret, Service};
use kite_core::{
    crd::ImagePhase,
    crd::{KiteImage, KitePlatform, OsFamily},
    names,
};
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use russh::keys::PrivateKey;

use super::{
    Options,
    door::{Address, Door, HostKey},
    report::Failure,
};

/// Where the page and the gateway are.
pub(super) struct Place {
    pub(super) api: String,
    pub(super) door: Door,
}

impl Place {
    /// As the options say, or else the platform.
    pub(super) async fn find(
        client: &Client,
        options: &Options,
    ) -> Result<(Self, String), Failure> {
        let platforms = Api::<KitePlatform>::all(client.clone());
        let platform = match platforms.get_opt(names::PLATFORM).await {
            Ok(platform) => platform,
            Err(kube::Error::Api(status)) if status.code == 404 => {
                return Err(Failure::with_remedy(
                    "Kite is not installed here",
                    "kite install: see kite doctor first",
                ));
            }
            Err(error) => return Err(error.into()),
        };
        let said = |what: &str| format!("the platform does not say where its {what} is");
        let status = platform.as_ref().and_then(|it| it.status.as_ref());
        let api = options.api_url.clone();
        let api = api.or_else(|| status?.url.clone());
        let Some(api) = api else {
            let remedy = way_to_api(client, &options.namespace).await;
            return Err(Failure::with_remedy(said("web page"), remedy));
        };
        let address = options.gateway.clone();
        let address = address.or_else(|| gateway_of(platform.as_ref()?));
        let address = address.ok_or_else(|| {
            Failure::with_remedy(said("gateway"), "name it with --gateway HOST:PORT")
        })?;
        let told = format!("the web page is {api}, the gateway {address}");
        let expected = match &options.host_key {
            Some(key) => vec![key.clone()],
            None => host_keys(client, options, platform.as_ref()).await?,
        };
        let door = Door { address, expected };
        Ok((Self { api, door }, told))
    }
}

/// How to come to the API where the platform does not say where it is: by its Service,
/// unless it is known that there is none, as where it runs outside of the cluster.
async fn way_to_api(client: &Client, namespace: &str) -> String {
    let services = Api::<Service>::namespaced(client.clone(), namespace);
    let (service, port) = (names::API_SERVICE, names::API_PORT);
    if let Ok(None) = services.get_opt(service).await {
        return format!(
            "name it with --api-url URL, as kite demo prints it: there is no Service {service} \
             in the namespace {namespace}"
        );
    }
    format!(
        "see kubectl describe kiteplatform {}, or kubectl -n {namespace} port-forward \
         svc/{service} 8080:{port} and --api-url http://localhost:8080",
        names::PLATFORM
    )
}

/// Where users find the gateway.
fn gateway_of(platform: &KitePlatform) -> Option<Address> {
    let (spec, status) = (&platform.spec, platform.status.as_ref());
    let seen = status.and_then(|it| it.gateway_port);
    let named = spec
        .gateway
        .public_host
        .as_ref()
        .or(spec.base_domain.as_ref());
    if let Some(host) = named {
        return Some(Address {
            host: host.clone(),
            port: spec.gateway.port_of_users(seen)?,
        });
    }
    Some(Address {
        host: status?.gateway_addresses.first()?.clone(),
        port: seen?,
    })
}

/// The host keys that the gateway may have: those that the platform's status names, or
/// else that of the gateway's Secret. None of them only if that is accepted.
async fn host_keys(
    client: &Client,
    options: &Options,
    platform: Option<&KitePlatform>,
) -> Result<Vec<HostKey>, Failure> {
    let status = platform.and_then(|it| it.status.as_ref());
    let named = status.map_or(&[][..], |it| &it.gateway_host_keys);
    if !named.is_empty() {
        let keys = named.iter().map(|it| it.public_key.parse());
        return keys.collect::<Result<_, String>>().map_err(|error| {
            Failure::with_remedy(
                format!("gatewayHostKeys in the platform's status: {error}"),
                "name the key with --host-key",
            )
        });
    }
    let (namespace, secret) = (&options.namespace, names::GATEWAY_HOST_KEY_SECRET);
    let why = match host_key(client, namespace).await? {
        InSecret::Key(key) => return Ok(vec![key]),
        InSecret::Lacking => format!("there is no key in the Secret {namespace}/{secret}"),
        InSecret::Forbidden => format!("you may not read the Secret {namespace}/{secret}"),
    };
    if options.accept_host_key {
        return Ok(Vec::new());
    }
    Err(Failure::with_remedy(
        format!(
            "nothing is known to compare the gateway's host key with: the platform's status has \
             no gatewayHostKeys, and {why}"
        ),
        "name the key with --host-key, or take the one that is shown first with \
         --accept-host-key",
    ))
}

/// What is known of the key in the gateway's Secret.
enum InSecret {
    Key(HostKey),
    Lacking,
    Forbidden,
}

/// The key in the gateway's Secret.
async fn host_key(client: &Client, namespace: &str) -> Result<InSecret, Failure> {
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let secret = match secrets.get_opt(names::GATEWAY_HOST_KEY_SECRET).await {
        Ok(secret) => secret,
        Err(kube::Error::Api(status)) if status.code == 403 => return Ok(InSecret::Forbidden),
        Err(error) => return Err(error.into()),
    };
    let data = secret.and_then(|it| it.data).unwrap_or_default();
    let Some(text) = data.get(names::key_secret::HOST_PRIVATE) else {
        return Ok(InSecret::Lacking);
    };
    let key = PrivateKey::from_openssh(&text.0).map_err(|error| {
        Failure::with_remedy(
            format!(
                "the Secret {namespace}/{} has no private key of OpenSSH: {error}",
                names::GATEWAY_HOST_KEY_SECRET
            ),
            "name the key with --host-key",
        )
    })?;
    let key = HostKey::Key(Box::new(key.public_key().clone()));
    Ok(InSecret::Key(key))
}

/// The image to make a VM from: the one that is named, or else the smallest of those
/// that are ready. Nothing while there is none; then what they wait for.
pub(super) async fn image(
    client: &Client,
    named: Option<&str>,
) -> Result<Result<KiteImage, String>, Failure> {
    let images = Api::<KiteImage>::all(client.clone());
    let mut images = images.list(&ListParams::default()).await?.items;
    if let Some(named) = named {
        let there: Vec<_> = images.iter().map(kube::ResourceExt::name_any).collect();
        images.retain(|it| it.name_any() == named);
        if images.is_empty() {
            return Err(Failure::new(format!(
                "there is no image {named:?}: there are {}",
                there.join(", ")
            )));
        }
    } else {
        // Its first start takes many minutes.
        images.retain(|it| it.spec.os_family != OsFamily::Windows);
    }
    if images.is_empty() {
        return Err(Failure::new("there is no image in the catalogue"));
    }
    images.sort_by_key(|it| (it.least_disk().bytes(), it.name_any()));
    let phase = |it: &KiteImage| it.status.as_ref().and_then(|it| it.phase);
    let waits: Vec<_> = images
        .iter()
        .map(|it| match phase(it) {
            Some(phase) => format!("{} is {phase:?}", it.name_any()),
            None => format!("nobody has looked at {}", it.name_any()),
        })
        .collect();
    let ready = images
        .into_iter()
        .find(|it| phase(it) == Some(ImagePhase::Ready));
    Ok(ready.ok_or_else(|| waits.join(", ")))
}
