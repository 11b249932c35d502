//! What is worth waking or telling somebody, as rules for Prometheus.
//! `docs/monitoring.md` says of each what it means and what to do.

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Rules, as the Prometheus operator wants them said (`monitoring.coreos.com/v1`), and
/// as a rule file of Prometheus itself has them. The subset that Kite writes.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[kube(
    group = "monitoring.coreos.com",
    version = "v1",
    kind = "PrometheusRule",
    plural = "prometheusrules",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct PrometheusRuleSpec {
    /// Rules that are evaluated together.
    pub groups: Vec<RuleGroup>,
}

/// Rules that are evaluated one after the other.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleGroup {
    /// Its name.
    pub name: String,
    /// The rules.
    pub rules: Vec<AlertingRule>,
}

/// When there is an alert, and what it says.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct AlertingRule {
    /// Name of the alert.
    pub alert: String,
    /// `PromQL`: an alert for each series in its result.
    pub expr: String,
    /// How long that has to last, such as `5m`; without it, at once.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub lasting: Option<String>,
    /// Labels of the alert.
    pub labels: BTreeMap<String, String>,
    /// What people read.
    pub annotations: BTreeMap<String, String>,
}

/// How soon somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    /// Now: people cannot do what they want to.
    Critical,
    /// In working hours: it will become worse, or somebody waits.
    Warning,
    /// When there is time.
    Info,
}

impl Severity {
    /// The label's value, as the Prometheus operator's own alerts have it.
    const fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

struct Alert {
    name: &'static str,
    severity: Severity,
    minutes: u16,
    expr: &'static str,
    summary: &'static str,
    description: &'static str,
}

/// All of them, by what they are about.
pub fn alerts() -> PrometheusRuleSpec {
    let groups = [
        ("kite.processes", &PROCESSES[..]),
        ("kite.controller", &CONTROLLER[..]),
        ("kite.apiserver", &API_SERVER[..]),
        ("kite.gateway", &GATEWAY[..]),
        ("kite.api", &API[..]),
    ];
    let groups = groups.map(|(name, alerts)| RuleGroup {
        name: name.to_owned(),
        rules: alerts.iter().map(Alert::rule).collect(),
    });
    PrometheusRuleSpec {
        groups: groups.into(),
    }
}

impl Alert {
    fn rule(&self) -> AlertingRule {
        let page = concat!(
            env!("CARGO_PKG_REPOSITORY"),
            "/blob/main/docs/monitoring.md#"
        );
        let runbook = format!("{page}{}", self.name.to_lowercase());
        let annotations = [
            ("summary", self.summary),
            ("description", self.description),
            ("runbook_url", &runbook),
        ];
        AlertingRule {
            alert: self.name.to_owned(),
            expr: self.expr.to_owned(),
            lasting: (self.minutes > 0).then(|| format!("{}m", self.minutes)),
            labels: texts([("severity", self.severity.name())]),
            annotations: texts(annotations),
        }
    }
}

fn texts<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    BTreeMap::from(pairs)
}

const PROCESSES: [Alert; 5] = [
    Alert {
        name: "KiteControllerDown",
        severity: Severity::Critical,
        minutes: 5,
        expr: r#"absent(up{job="kite-controller"} == 1)"#,
        summary: "No Kite controller runs",
        description: "Nothing that people ask for is carried out. VMs that run, and logins to them, go on.",
    },
    Alert {
        name: "KiteGatewayDown",
        severity: Severity::Critical,
        minutes: 2,
        expr: r#"absent(up{job="kite-gateway"} == 1)"#,
        summary: "No Kite SSH gateway runs",
        description: "Nobody can log in to a VM. VMs go on running.",
    },
    Alert {
        name: "KiteApiDown",
        severity: Severity::Critical,
        minutes: 2,
        expr: r#"absent(up{job="kite-api"} == 1)"#,
        summary: "No Kite HTTP API runs",
        description: "There is no web page and no HTTP API. kubectl and ssh go on working.",
    },
    Alert {
        name: "KitePodDown",
        severity: Severity::Warning,
        minutes: 10,
        expr: r#"up{job=~"kite-(controller|gateway|api)"} == 0"#,
        summary: "A pod of {{ $labels.job }} cannot be scraped",
        description: "{{ $labels.pod }} ({{ $labels.instance }}) has not answered Prometheus for 10 minutes.",
    },
    Alert {
        name: "KiteNotReady",
        severity: Severity::Warning,
        minutes: 15,
        expr: "kite_ready == 0",
        summary: "A pod of {{ $labels.job }} is not ready",
        description: "/readyz of {{ $labels.pod }} ({{ $labels.instance }}) says what it lacks.",
    },
];

const CONTROLLER: [Alert; 11] = [
    Alert {
        name: "KiteNoLeader",
        severity: Severity::Critical,
        minutes: 2,
        expr: "sum(kite_leader) == 0",
        summary: "Controllers run and none of them leads",
        description: "Nothing that people ask for is carried out.",
    },
    Alert {
        name: "KiteSeveralLeaders",
        severity: Severity::Warning,
        minutes: 5,
        expr: "sum(kite_leader) > 1",
        summary: "{{ $value }} controllers work at the same time",
        description: "They do no harm to each other and double the requests. Two installations on one cluster, or --leader-elect=false with several pods.",
    },
    Alert {
        name: "KiteLeaderChangesOften",
        severity: Severity::Warning,
        minutes: 0,
        expr: "sum(increase(kite_leader_terms_total[1h])) > 5",
        summary: "Controllers took over from each other {{ $value | humanize }} times within an hour",
        description: "A leader loses its Lease again and again: it is starved, or its API server is slow.",
    },
    Alert {
        name: "KiteReconcilePanics",
        severity: Severity::Warning,
        minutes: 0,
        expr: r#"sum by (kind) (increase(kite_reconcile_errors_total{category="panic"}[15m])) > 0"#,
        summary: "Reconciling a {{ $labels.kind }} panicked",
        description: "A defect in Kite: the log has the object and the place. Other objects are served.",
    },
    Alert {
        name: "KiteRightsMissing",
        severity: Severity::Warning,
        minutes: 5,
        expr: r#"sum by (kind) (increase(kite_reconcile_errors_total{category="forbidden"}[15m])) > 0"#,
        summary: "The API server refuses the controller what it asks for a {{ $labels.kind }}",
        description: "Its account lacks a right, or somebody's admission policy or webhook says no.",
    },
    Alert {
        name: "KiteReconcilesFail",
        severity: Severity::Warning,
        minutes: 15,
        expr: concat!(
            r#"sum by (kind) (rate(kite_reconcile_errors_total{category!~"conflict|not_leader"}[15m]))"#,
            " > 0.25 * sum by (kind) (rate(kite_reconciles_total[15m]))",
            r#" and sum by (kind) (rate(kite_reconcile_errors_total{category!~"conflict|not_leader"}[15m])) > 0.05"#,
        ),
        summary: "More than a quarter of the reconciles of {{ $labels.kind }} fail",
        description: "{{ $value | humanize }} a second. The objects' conditions say why.",
    },
    Alert {
        name: "KiteQueueGrows",
        severity: Severity::Warning,
        minutes: 30,
        expr: "sum by (kind) (kite_queue_depth) > 100",
        summary: "{{ $value }} objects of {{ $labels.kind }} wait to be reconciled",
        description: "What people ask for is carried out late.",
    },
    Alert {
        name: "KiteObjectsUnreadable",
        severity: Severity::Warning,
        minutes: 5,
        expr: "sum by (kind) (kite_cache_unreadable_objects) > 0",
        summary: "{{ $value }} objects of {{ $labels.kind }} cannot be read",
        description: "The log names each and its field. What depends on them waits.",
    },
    Alert {
        name: "KiteWatchBehind",
        severity: Severity::Warning,
        minutes: 5,
        expr: "max by (kind) (kite_cache_unconfirmed_seconds) > 1800",
        summary: "The watch of {{ $labels.kind }} has not shown for half an hour what was written",
        description: "The watch hangs, or Kite writes where it does not watch. It asks by requests meanwhile.",
    },
    Alert {
        name: "KiteObjectsFailed",
        severity: Severity::Warning,
        minutes: 15,
        expr: r#"sum by (kind) (kite_objects{phase="Failed"}) > 0"#,
        summary: "{{ $value }} objects of {{ $labels.kind }} have failed",
        description: "Each says in its conditions what failed and what to do.",
    },
    Alert {
        name: "KitePlatformNotReady",
        severity: Severity::Warning,
        minutes: 15,
        expr: r#"sum(kite_objects{kind="KitePlatform",phase="NotReady"}) > 0"#,
        summary: "The platform's settings cannot be carried out",
        description: "The conditions of the KitePlatform say which, and what to do.",
    },
];

const API_SERVER: [Alert; 2] = [
    Alert {
        name: "KiteApiServerFails",
        severity: Severity::Warning,
        minutes: 10,
        expr: concat!(
            r#"sum(rate(kite_apiserver_requests_total{code=~"5xx|429|none"}[10m]))"#,
            " > 0.05 * sum(rate(kite_apiserver_requests_total[10m]))",
        ),
        summary: "More than 5 % of the controller's requests to the API server fail",
        description: "They are refused as too many, end with an error of the server, or are not answered.",
    },
    Alert {
        name: "KiteApiServerSlow",
        severity: Severity::Warning,
        minutes: 15,
        expr: concat!(
            "histogram_quantile(0.99, sum by (le, verb) ",
            r#"(rate(kite_apiserver_request_duration_seconds_bucket{verb!="watch"}[10m]))) > 2"#,
        ),
        summary: "1 % of the controller's {{ $labels.verb }} requests take more than 2 s",
        description: "{{ $value | humanizeDuration }}, waiting for the rate limit of writes (--write-rate) included.",
    },
];

const GATEWAY: [Alert; 7] = [
    Alert {
        name: "KiteMachinesUnreachable",
        severity: Severity::Warning,
        minutes: 10,
        expr: concat!(
            "sum(increase(kite_gateway_backend_failures_total[15m])) > 5",
            " and sum(rate(kite_gateway_backend_failures_total[15m]))",
            " > 0.2 * sum(rate(kite_gateway_backend_seconds_count[15m]))",
        ),
        summary: "The gateway often cannot enter VMs that run",
        description: "{{ $value | humanize }} times within 15 minutes. The label kind of kite_gateway_backend_failures_total says why.",
    },
    Alert {
        name: "KiteHostKeyDiffers",
        severity: Severity::Warning,
        minutes: 0,
        expr: r#"sum(increase(kite_gateway_backend_failures_total{kind="host_key"}[15m])) > 0"#,
        summary: "A VM showed another host key than the one it was given",
        description: "Nobody was let in. The log of the gateway names the VM.",
    },
    Alert {
        name: "KiteGatewayFull",
        severity: Severity::Critical,
        minutes: 5,
        expr: r#"sum(rate(kite_gateway_refused_total{kind="total"}[5m])) > 0"#,
        summary: "The gateway refuses connections: it has as many as it may have",
        description: "{{ $value | humanize }} a second are refused.",
    },
    Alert {
        name: "KiteManyBans",
        severity: Severity::Info,
        minutes: 0,
        expr: "sum by (banned) (increase(kite_gateway_bans_total[1h])) > 100",
        summary: "Somebody guesses passwords at the SSH gateway",
        description: "{{ $value | humanize }} bans ({{ $labels.banned }}) within an hour.",
    },
    Alert {
        name: "KiteMachinesSlow",
        severity: Severity::Warning,
        minutes: 15,
        expr: concat!(
            "histogram_quantile(0.9, sum by (le) ",
            "(rate(kite_gateway_backend_seconds_bucket[15m]))) > 5",
        ),
        summary: "Every tenth login waits for its VM for more than 5 s",
        description: "{{ $value | humanizeDuration }} to connect and log in there.",
    },
    Alert {
        name: "KiteSessionsUnreported",
        severity: Severity::Warning,
        minutes: 0,
        expr: "sum by (job) (increase(kite_connections_unreported_total[1h])) > 0",
        summary: "{{ $labels.job }} does not tell of all sessions in VMs",
        description: "There were too many, or the API server refuses the reports. The audit log has them all.",
    },
    Alert {
        name: "KiteRecordingsNotCarried",
        severity: Severity::Warning,
        minutes: 15,
        expr: "sum by (job) (increase(kite_recordings_upload_failures_total[15m])) > 0",
        summary: "{{ $labels.job }} cannot carry recordings to their object store",
        description: "They stay in its directory and are tried again. Its log says why.",
    },
];

const API: [Alert; 3] = [
    Alert {
        name: "KiteApiErrors",
        severity: Severity::Critical,
        minutes: 10,
        expr: concat!(
            r#"sum(rate(kite_api_requests_total{status=~"5.."}[10m]))"#,
            " > 0.05 * sum(rate(kite_api_requests_total[10m]))",
        ),
        summary: "More than 5 % of requests to the HTTP API end with an error of the server",
        description: "{{ $value | humanize }} a second. The log has each with its request id.",
    },
    Alert {
        name: "KiteApiSlow",
        severity: Severity::Warning,
        minutes: 15,
        expr: concat!(
            "histogram_quantile(0.95, sum by (le) ",
            "(rate(kite_api_request_duration_seconds_bucket[10m]))) > 2",
        ),
        summary: "5 % of requests to the HTTP API take more than 2 s",
        description: "{{ $value | humanizeDuration }} until an answer begins.",
    },
    Alert {
        name: "KiteManyWrongPasswords",
        severity: Severity::Info,
        minutes: 0,
        expr: concat!(
            r#"sum(increase(kite_api_sign_ins_total{outcome="wrong_credentials"}[1h]))"#,
            r#" + sum(increase(kite_api_sign_ins_total{outcome="throttled"}[1h])) > 200"#,
        ),
        summary: "Somebody guesses passwords at the HTTP API",
        description: "{{ $value | humanize }} attempts to sign in failed within an hour.",
    },
];
