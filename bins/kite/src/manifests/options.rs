//! The options that make an installation.

use clap::{
    Args, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use kite_core::{
    crd::{GatewayExposure, GatewayReference, GatewayServiceType, SignUp},
    names,
    quantity::Bytes,
};
use kite_render::{
    install::{Audit, Containers, Installation, Invalid, Monitoring, Profile, Recordings, Storage},
    isolation::Pods,
    namespace::PodSecurity,
};

use super::values::{
    Variable, count, domain, gateway, host, namespace, object, parameter, range, registry,
    resolver, tag, variable,
};

/// Ports of nodes that Services get, unless an API server is told another range.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;

#[derive(Args)]
pub(crate) struct InstallationOptions {
    /// Kind of cluster, which the other options change in part: plain is any, with two
    /// pods of each process; k3s has its Traefik, Longhorn and the gateway on port
    /// 2222; single-node one pod of each; high-availability three of each, spread over
    /// the nodes as evenly as they go, and three copies of each disk.
    #[arg(
        long,
        env = "KITE_PROFILE",
        default_value = Profile::default().name(),
        value_name = "PROFILE",
        value_parser = profile()
    )]
    profile: Profile,
    /// Namespace in which Kite runs.
    #[arg(
        long,
        env = "KITE_NAMESPACE",
        default_value = names::PLATFORM_NAMESPACE,
        value_name = "NAMESPACE",
        value_parser = namespace
    )]
    namespace: String,
    /// Leave Kite's CRDs out: `kite crds` prints them.
    #[arg(long)]
    without_crds: bool,
    /// Leave the catalogue of golden images out.
    #[arg(long)]
    without_images: bool,
    #[command(flatten)]
    processes: ProcessArgs,
    #[command(flatten)]
    storage: StorageArgs,
    #[command(flatten)]
    platform: PlatformArgs,
    #[command(flatten)]
    terminals: TerminalArgs,
    #[command(flatten)]
    network: NetworkArgs,
}

fn profile() -> impl TypedValueParser<Value = Profile> {
    PossibleValuesParser::new(Profile::ALL.map(Profile::name)).try_map(|name| {
        let mut all = Profile::ALL.into_iter();
        all.find(|it| it.name() == name)
            .ok_or_else(|| format!("there is no profile {name}"))
    })
}

fn audit() -> impl TypedValueParser<Value = Audit> {
    PossibleValuesParser::new(Audit::ALL.map(Audit::name)).try_map(|name| {
        let mut all = Audit::ALL.into_iter();
        all.find(|it| it.name() == name)
            .ok_or_else(|| format!("there is no place {name}"))
    })
}

fn pod_security() -> impl TypedValueParser<Value = PodSecurity> {
    PossibleValuesParser::new(PodSecurity::ALL.map(PodSecurity::name)).try_map(|name| {
        let mut all = PodSecurity::ALL.into_iter();
        all.find(|it| it.name() == name)
            .ok_or_else(|| format!("there is no level {name}"))
    })
}

#[derive(Args)]
#[command(next_help_heading = "Processes")]
struct ProcessArgs {
    /// Where the images kite-controller, kite-gateway and kite-api are.
    #[arg(long, env = "KITE_REGISTRY", default_value_t = Containers::default().registry, value_name = "REGISTRY/PATH", value_parser = registry)]
    registry: String,
    /// Their tag, or a digest such as `sha256:…`.
    #[arg(long, env = "KITE_TAG", default_value_t = Containers::default().tag, value_name = "TAG", value_parser = tag)]
    tag: String,
    /// Secret in Kite's namespace with the registry's credentials.
    #[arg(long, env = "KITE_PULL_SECRET", value_name = "NAME", value_parser = object)]
    pull_secret: Option<String>,
    /// Pods of the controller; one works, the others stand by.
    #[arg(long, env = "KITE_CONTROLLER_REPLICAS", value_name = "COUNT", value_parser = count())]
    controller_replicas: Option<u16>,
    /// Pods of the SSH gateway.
    #[arg(long, env = "KITE_GATEWAY_REPLICAS", value_name = "COUNT", value_parser = count())]
    gateway_replicas: Option<u16>,
    /// Pods of the HTTP API.
    #[arg(long, env = "KITE_API_REPLICAS", value_name = "COUNT", value_parser = count())]
    api_replicas: Option<u16>,
    /// Where the gateway and the API write their audit log: output is standard output of
    /// their pods, each line with the hash of the one before, which `kite audit verify
    /// --collected` looks at; log is their log, among all else and without hashes; none is
    /// nowhere. A file is named by --env, such as `api:KITE_AUDIT_TO=/audit/log`, on a
    /// volume that you add.
    #[arg(long, env = "KITE_AUDIT", default_value = Audit::default().name(), value_parser = audit(), value_name = "PLACE")]
    audit: Audit,
    /// Further option of a process, as its variable: controller:, gateway: or api: and
    /// what its --help names, such as `gateway:KITE_ALLOW=192.0.2.0/24`. May be
    /// given several times.
    #[arg(long = "env", value_name = "PROCESS:NAME=VALUE", value_parser = variable)]
    variables: Vec<Variable>,
}

#[derive(Args)]
#[command(next_help_heading = "Storage")]
struct StorageArgs {
    /// `StorageClass` of VM disks: one that is there already, unless --provisioner or
    /// --longhorn have it made.
    #[arg(long, env = "KITE_STORAGE_CLASS", value_name = "NAME", value_parser = object)]
    storage_class: Option<String>,
    /// CSI driver for which the `StorageClass` of VM disks is made.
    #[arg(long, env = "KITE_PROVISIONER", value_name = "DRIVER")]
    provisioner: Option<String>,
    /// Parameter for the CSI driver; may be given several times.
    #[arg(
        long = "parameter",
        value_name = "NAME=VALUE",
        value_parser = parameter
    )]
    parameters: Vec<(String, String)>,
    /// Make disks at once, not where and when their VM first starts: for storage
    /// that every node reaches.
    #[arg(long)]
    immediate: bool,
    /// Make the `StorageClass` for Longhorn, with so many copies of each disk.
    #[arg(
        long,
        env = "KITE_LONGHORN",
        value_name = "COPIES",
        conflicts_with = "provisioner"
    )]
    longhorn: Option<u8>,
}

#[derive(Args)]
#[command(
    next_help_heading = "The platform's settings to begin with (administrators may change them)"
)]
struct PlatformArgs {
    /// Namespace of golden images.
    #[arg(
        long,
        env = "KITE_IMAGE_NAMESPACE",
        value_name = "NAMESPACE",
        value_parser = namespace
    )]
    image_namespace: Option<String>,
    /// Domain of the web page, below which VMs get theirs.
    #[arg(long, env = "KITE_BASE_DOMAIN", value_name = "DOMAIN", value_parser = domain)]
    base_domain: Option<String>,
    /// Class of the Ingresses.
    #[arg(long, env = "KITE_INGRESS_CLASS", value_name = "NAME", value_parser = object)]
    ingress_class: Option<String>,
    /// cert-manager's `ClusterIssuer` for their certificates.
    #[arg(long, env = "KITE_CLUSTER_ISSUER", value_name = "NAME", value_parser = object)]
    cluster_issuer: Option<String>,
    /// Secret in Kite's namespace that `spec.exposure.certificate.secretName` names, or is
    /// to name: the controller says when it is not there, and may look at no others.
    #[arg(
        long = "certificate-secret",
        env = "KITE_CERTIFICATE_SECRETS",
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = object
    )]
    certificate_secrets: Vec<String>,
    /// Gateway of the Gateway API by which the web page and VMs are reached, instead of
    /// Ingresses; the certificate is that of its listener.
    #[arg(
        long,
        env = "KITE_GATEWAY_API",
        value_name = "NAMESPACE/NAME",
        value_parser = gateway,
        conflicts_with_all = ["ingress_class", "cluster_issuer"]
    )]
    gateway_api: Option<GatewayReference>,
    /// Who may sign up.
    #[arg(long, env = "KITE_SIGN_UP", value_enum)]
    sign_up: Option<Who>,
    /// Type of the SSH gateway's Service.
    #[arg(long, env = "KITE_GATEWAY_SERVICE_TYPE", value_enum)]
    gateway_service_type: Option<ServiceType>,
    /// Port of the SSH gateway; with node-port, that of every node.
    #[arg(long, env = "KITE_GATEWAY_PORT", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    gateway_port: Option<u16>,
    /// Host name or address of the SSH gateway.
    #[arg(long, env = "KITE_GATEWAY_HOST", value_name = "HOST", value_parser = host)]
    gateway_host: Option<String>,
}

/// Who may sign up, as it is written on the command line.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Who {
    Open,
    Invite,
    Closed,
}

/// Type of a Service, as it is written on the command line.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum ServiceType {
    LoadBalancer,
    NodePort,
}

#[derive(Args)]
#[command(next_help_heading = "Terminals")]
struct TerminalArgs {
    /// Offer terminals inside VMs in the web page. The API then reads the keys of all
    /// VMs.
    #[arg(long, env = "KITE_TERMINALS")]
    terminals: bool,
    /// Record terminals, on a volume of this size for each pod.
    #[arg(long, env = "KITE_RECORD", value_name = "SIZE")]
    record: Option<Bytes>,
    /// `StorageClass` of these volumes, instead of the cluster's default.
    #[arg(long, env = "KITE_RECORD_STORAGE_CLASS", value_name = "NAME", value_parser = object)]
    record_storage_class: Option<String>,
    /// Object store that recordings are carried to, and replayed from, such as
    /// `s3://bucket/prefix`; the images must be built for it.
    #[arg(long, env = "KITE_RECORD_UPLOAD", value_name = "URL")]
    record_upload: Option<String>,
    /// Secret in Kite's namespace with the store's credentials, each key of it a
    /// variable such as `AWS_ACCESS_KEY_ID`.
    #[arg(long, env = "KITE_RECORD_CREDENTIALS", value_name = "NAME", value_parser = object)]
    record_credentials: Option<String>,
}

#[derive(Args)]
#[command(next_help_heading = "Who reaches what")]
struct NetworkArgs {
    /// Proxies in front of the web page that append to X-Forwarded-For: one where it is
    /// reached through an Ingress or a Gateway.
    #[arg(
        long,
        env = "KITE_TRUSTED_PROXIES",
        value_name = "COUNT",
        default_value_t = 1
    )]
    trusted_proxies: u16,
    /// People may reach the web page without HTTPS: do not mark cookies Secure.
    #[arg(long)]
    plain_http: bool,
    /// Origin such as `https://kite.example.org` whose pages may use the cookies, where
    /// a proxy rewrites the Host header. May be given several times.
    #[arg(
        long,
        env = "KITE_ORIGINS",
        value_name = "ORIGIN",
        value_delimiter = ','
    )]
    origin: Vec<String>,
    /// Namespaces of the ingress controllers, whose pods may connect to the web page;
    /// by default those of ingress-nginx and Traefik, and that of --gateway-api.
    #[arg(
        long,
        env = "KITE_WEB_FROM",
        value_name = "NAMESPACE",
        value_delimiter = ',',
        value_parser = namespace
    )]
    web_from: Vec<String>,
    /// Addresses of the API server, to which Kite's pods may connect; by default
    /// anywhere on ports 443 and 6443.
    #[arg(
        long,
        env = "KITE_API_SERVER",
        value_name = "CIDR",
        value_delimiter = ',',
        value_parser = range
    )]
    api_server: Vec<String>,
    /// Leave the `NetworkPolicies` of Kite's own pods out.
    #[arg(long)]
    without_network_policies: bool,
    /// Leave the `ValidatingAdmissionPolicies` out, as a controller needs that does not
    /// run under its `ServiceAccount`.
    #[arg(long)]
    without_admission_policies: bool,
    /// Namespaces of `KubeVirt` and CDI, which alone make pods in users' namespaces; by
    /// default those that their own instructions and `OpenShift` have.
    #[arg(
        long,
        env = "KITE_OPERATORS",
        value_name = "NAMESPACE",
        value_delimiter = ',',
        value_parser = namespace
    )]
    operators: Vec<String>,
    /// What the Pod Security admission of Kubernetes demands of pods in users'
    /// namespaces: privileged, which demands nothing, where `KubeVirt` runs VMs as root.
    #[arg(long, env = "KITE_POD_SECURITY", default_value = PodSecurity::default().name(), value_parser = pod_security(), value_name = "LEVEL")]
    pod_security: PodSecurity,
    /// Whom Kite's pods may ask for names: a namespace, of which all pods are meant, or
    /// addresses; by default kube-dns or `CoreDNS` in kube-system, and the usual address of
    /// a cache on each node. `0.0.0.0/0,::/0` lets them ask anybody.
    #[arg(
        long,
        env = "KITE_DNS",
        value_name = "NAMESPACE|CIDR",
        value_delimiter = ',',
        value_parser = resolver
    )]
    dns: Vec<String>,
    /// Namespace of Prometheus: adds a `ServiceMonitor` and a `PrometheusRule` for its
    /// operator, and lets it in to the admin ports.
    #[arg(
        long,
        env = "KITE_MONITORING",
        value_name = "NAMESPACE",
        value_parser = namespace
    )]
    monitoring: Option<String>,
}

impl InstallationOptions {
    /// The namespace in which Kite runs.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The installation that they ask for.
    pub(crate) fn installation(&self) -> anyhow::Result<Installation> {
        let mut installation = self.profile.installation();
        installation.namespace.clone_from(&self.namespace);
        installation.crds = !self.without_crds;
        if self.without_images {
            installation.images.clear();
        }
        self.processes.adapt(&mut installation);
        self.storage.adapt(&mut installation);
        self.platform.adapt(&mut installation);
        self.terminals.adapt(&mut installation);
        self.network.adapt(&mut installation);
        installation.check().map_err(|invalid| named(&invalid))?;
        self.platform.check(&installation)?;
        Ok(installation)
    }
}

/// What cannot be, by the option that it comes from.
fn named(invalid: &Invalid) -> anyhow::Error {
    let Invalid {
        field,
        value,
        remedy,
        ..
    } = invalid;
    // One value by itself is judged where it is read.
    let option = match *field {
        "namespace" => "--namespace",
        "platform.imageNamespace" => "--image-namespace",
        "options" => "--env",
        field => field,
    };
    // As it was written: processes have short names there.
    let value = match option {
        "--env" => value.strip_prefix("kite-").unwrap_or(value),
        _ => value,
    };
    anyhow::anyhow!("{option} {value:?} cannot be: {remedy}")
}

impl ProcessArgs {
    fn adapt(&self, installation: &mut Installation) {
        installation.containers = Containers {
            registry: self.registry.trim_end_matches('/').to_owned(),
            tag: self.tag.clone(),
            pull_secret: self.pull_secret.clone(),
        };
        let replicas = &mut installation.replicas;
        for (given, wanted) in [
            (self.controller_replicas, &mut replicas.controller),
            (self.gateway_replicas, &mut replicas.gateway),
            (self.api_replicas, &mut replicas.api),
        ] {
            *wanted = given.unwrap_or(*wanted);
        }
        installation.audit = self.audit;
        for variable in &self.variables {
            let options = installation.options.entry(variable.process).or_default();
            options.insert(variable.name.clone(), variable.value.clone());
        }
    }
}

impl StorageArgs {
    fn adapt(&self, installation: &mut Installation) {
        if let Some(class) = &self.storage_class {
            installation.platform.storage_class = Some(class.clone());
            installation.storage = None;
        }
        if let Some(copies) = self.longhorn {
            installation.storage = Some(Storage::longhorn(copies));
        }
        if let Some(provisioner) = &self.provisioner {
            installation.storage = Some(Storage {
                provisioner: provisioner.clone(),
                waits_for_consumer: !self.immediate,
                parameters: self.parameters.iter().cloned().collect(),
            });
        }
    }
}

impl PlatformArgs {
    fn adapt(&self, installation: &mut Installation) {
        installation
            .certificate_secrets
            .clone_from(&self.certificate_secrets);
        let platform = &mut installation.platform;
        let default = |name: &String| name == names::IMAGE_NAMESPACE;
        platform.image_namespace = self.image_namespace.clone().filter(|it| !default(it));
        platform.base_domain.clone_from(&self.base_domain);
        if let Some(class) = &self.ingress_class {
            platform.exposure.ingress_class_name = Some(class.clone());
        }
        if let Some(gateway) = &self.gateway_api {
            // In the place of the profile's.
            platform.exposure.ingress_class_name = None;
            platform.exposure.gateway = Some(gateway.clone());
        }
        let certificate = &mut platform.exposure.certificate;
        certificate.cluster_issuer.clone_from(&self.cluster_issuer);
        if let Some(who) = self.sign_up {
            platform.sign_up = match who {
                Who::Open => SignUp::Open,
                Who::Invite => SignUp::Invite,
                Who::Closed => SignUp::Closed,
            };
        }
        let gateway = &mut platform.gateway;
        if let Some(service) = self.gateway_service_type {
            gateway.service_type = match service {
                ServiceType::LoadBalancer => GatewayServiceType::LoadBalancer,
                ServiceType::NodePort => GatewayServiceType::NodePort,
            };
        }
        match (gateway.service_type, self.gateway_port) {
            (GatewayServiceType::LoadBalancer, Some(port)) => {
                (gateway.service_port, gateway.public_port) = (port, port);
            }
            (GatewayServiceType::LoadBalancer, None) => {}
            // Of every node; the Service's own is of no interest.
            (GatewayServiceType::NodePort, port) => {
                let default = GatewayExposure::default();
                gateway.service_port = default.service_port;
                gateway.public_port = default.public_port;
                gateway.node_port = port;
            }
        }
        gateway.public_host.clone_from(&self.gateway_host);
    }

    fn check(&self, installation: &Installation) -> anyhow::Result<()> {
        let service = installation.platform.gateway.service_type;
        if let Some(port) = self.gateway_port
            && service == GatewayServiceType::NodePort
            && !NODE_PORTS.contains(&port)
        {
            let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
            anyhow::bail!(
                "--gateway-port {port} cannot be the port of every node, as node-port has it: \
                 write one from {first} to {last}, or leave it out. Where the API server has \
                 another range (--service-node-port-range), set spec.gateway.nodePort of the \
                 KitePlatform"
            );
        }
        Ok(())
    }
}

impl TerminalArgs {
    fn adapt(&self, installation: &mut Installation) {
        installation.terminals = self.terminals;
        installation.recordings = self.record.clone().map(|size| Recordings {
            size,
            storage_class: self.record_storage_class.clone(),
            upload: self.record_upload.clone(),
            credentials: self.record_credentials.clone(),
        });
    }
}

impl NetworkArgs {
    fn adapt(&self, installation: &mut Installation) {
        let web = &mut installation.web;
        web.proxies = self.trusted_proxies;
        web.is_https = !self.plain_http;
        web.origins.clone_from(&self.origin);
        if let Some(network) = &mut installation.network {
            let gateway = installation.platform.exposure.gateway.as_ref();
            network
                .web_from
                .extend(gateway.map(|it| Pods::all(&it.namespace)));
            if !self.web_from.is_empty() {
                network.web_from = self.web_from.iter().map(Pods::all).collect();
            }
            if !self.api_server.is_empty() {
                network.api_server.clone_from(&self.api_server);
            }
            if !self.dns.is_empty() {
                let given = self.dns.iter().cloned();
                let (ranges, spaces) = given.partition(|it| it.contains('/'));
                let spaces: Vec<String> = spaces;
                network.dns = spaces.into_iter().map(Pods::all).collect();
                network.dns_addresses = ranges;
            }
        }
        if self.without_network_policies {
            installation.network = None;
        }
        if !self.operators.is_empty() {
            installation.operators.clone_from(&self.operators);
        }
        installation.pod_security = self.pod_security;
        installation.admission_policies = !self.without_admission_policies;
        installation.monitoring = self
            .monitoring
            .clone()
            .map(|namespace| Monitoring { namespace });
    }
}
