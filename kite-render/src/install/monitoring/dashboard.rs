//! A dashboard for Grafana: what Kite does, process by process.

use serde_json::{Value, json};

/// Queries of a panel, each with what its series are called.
type Queries = &'static [(&'static str, &'static str)];

struct Row {
    title: &'static str,
    panels: &'static [Panel],
}

struct Panel {
    title: &'static str,
    /// As Grafana calls it: `short`, `s`, `reqps`, `Bps` …
    unit: &'static str,
    queries: Queries,
}

/// Width of a dashboard, and size of a panel, in Grafana's units.
const WIDTH: usize = 24;
const PANEL_WIDTH: usize = 8;
const PANEL_HEIGHT: usize = 8;

/// The dashboard, as Grafana imports it.
pub fn dashboard() -> Value {
    let mut panels = Vec::new();
    let mut y = 0;
    for row in ROWS {
        panels.push(json!({
            "id": panels.len() + 1,
            "type": "row",
            "title": row.title,
            "collapsed": false,
            "panels": [],
            "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y},
        }));
        y += 1;
        for (index, panel) in row.panels.iter().enumerate() {
            let per_line = WIDTH / PANEL_WIDTH;
            let (line, place) = (index / per_line, index % per_line);
            let id = panels.len() + 1;
            panels.push(panel.json(id, place * PANEL_WIDTH, y + line * PANEL_HEIGHT));
        }
        y += row.panels.len().div_ceil(WIDTH / PANEL_WIDTH) * PANEL_HEIGHT;
    }
    json!({
        "uid": "kite",
        "title": "Kite",
        "tags": ["kite"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [{
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
        }]},
        "annotations": {"list": []},
        "panels": panels,
    })
}

impl Panel {
    fn json(&self, id: usize, x: usize, y: usize) -> Value {
        let source = json!({"type": "prometheus", "uid": "${datasource}"});
        let targets = self.queries.iter().zip('A'..).map(|((expr, legend), id)| {
            json!({
                "refId": id,
                "datasource": source,
                "expr": expr,
                "legendFormat": legend,
            })
        });
        json!({
            "id": id,
            "type": "timeseries",
            "title": self.title,
            "datasource": source,
            "gridPos": {"h": PANEL_HEIGHT, "w": PANEL_WIDTH, "x": x, "y": y},
            "fieldConfig": {
                "defaults": {"unit": self.unit, "min": 0, "custom": {"fillOpacity": 10}},
                "overrides": [],
            },
            "options": {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true},
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
            "targets": targets.collect::<Vec<_>>(),
        })
    }
}

const fn panel(title: &'static str, unit: &'static str, queries: Queries) -> Panel {
    Panel {
        title,
        unit,
        queries,
    }
}

const ROWS: [Row; 4] = [
    Row {
        title: "Kite",
        panels: &[
            panel(
                "VMs by phase",
                "short",
                &[(
                    r#"sum by (phase) (kite_objects{kind="KiteVirtualMachine"})"#,
                    "{{phase}}",
                )],
            ),
            panel(
                "Other objects by phase",
                "short",
                &[(
                    r#"sum by (kind, phase) (kite_objects{kind!="KiteVirtualMachine"})"#,
                    "{{kind}} {{phase}}",
                )],
            ),
            panel(
                "Pods that are ready",
                "short",
                &[("sum by (job) (kite_ready)", "{{job}}")],
            ),
        ],
    },
    Row {
        title: "Controller",
        panels: &[
            panel(
                "Reconciles",
                "ops",
                &[(
                    "sum by (kind) (rate(kite_reconciles_total[$__rate_interval]))",
                    "{{kind}}",
                )],
            ),
            panel(
                "Reconciles that fail",
                "ops",
                &[(
                    "sum by (kind, category) (rate(kite_reconcile_errors_total[$__rate_interval])) > 0",
                    "{{kind}} {{category}}",
                )],
            ),
            panel(
                "Duration of reconciles",
                "s",
                &[(
                    "histogram_quantile(0.95, sum by (le, kind) (rate(kite_reconcile_duration_seconds_bucket[$__rate_interval])))",
                    "95 % {{kind}}",
                )],
            ),
            panel(
                "Waiting and running",
                "short",
                &[
                    ("sum by (kind) (kite_queue_depth)", "{{kind}} waits"),
                    ("sum by (kind) (kite_reconciles_running)", "{{kind}} runs"),
                ],
            ),
            panel(
                "Requests to the API server",
                "reqps",
                &[(
                    "sum by (verb, code) (rate(kite_apiserver_requests_total[$__rate_interval]))",
                    "{{verb}} {{code}}",
                )],
            ),
            panel(
                "Duration of requests to the API server",
                "s",
                &[(
                    r#"histogram_quantile(0.99, sum by (le, verb) (rate(kite_apiserver_request_duration_seconds_bucket{verb!="watch"}[$__rate_interval])))"#,
                    "99 % {{verb}}",
                )],
            ),
            panel(
                "Writes that reconciles ask for",
                "wps",
                &[(
                    "sum by (kind) (rate(kite_reconcile_writes_total[$__rate_interval]))",
                    "{{kind}}",
                )],
            ),
            panel(
                "Caches",
                "short",
                &[
                    ("sum by (kind) (kite_cache_objects)", "{{kind}}"),
                    (
                        "sum by (kind) (kite_cache_unreadable_objects) > 0",
                        "{{kind}} unreadable",
                    ),
                    (
                        "sum by (kind) (kite_cache_unconfirmed_writes) > 0",
                        "{{kind}} not shown by the watch",
                    ),
                ],
            ),
            panel(
                "Who leads",
                "short",
                &[
                    ("kite_leader", "{{pod}}"),
                    (
                        "sum(increase(kite_leader_terms_total[1h]))",
                        "changes within an hour",
                    ),
                ],
            ),
        ],
    },
    Row {
        title: "SSH gateway",
        panels: &[
            panel(
                "Connections and channels",
                "short",
                &[
                    ("sum(kite_gateway_connections)", "connections"),
                    ("sum by (kind) (kite_gateway_channels)", "{{kind}}"),
                ],
            ),
            panel(
                "Logins",
                "ops",
                &[(
                    "sum by (method, outcome) (rate(kite_gateway_logins_total[$__rate_interval]))",
                    "{{method}} {{outcome}}",
                )],
            ),
            panel(
                "Refused and banned",
                "ops",
                &[
                    (
                        "sum by (kind) (rate(kite_gateway_refused_total[$__rate_interval]))",
                        "refused: {{kind}}",
                    ),
                    (
                        "sum by (banned) (rate(kite_gateway_bans_total[$__rate_interval]))",
                        "banned: {{banned}}",
                    ),
                ],
            ),
            panel(
                "VMs that could not be entered",
                "ops",
                &[(
                    "sum by (kind) (rate(kite_gateway_backend_failures_total[$__rate_interval]))",
                    "{{kind}}",
                )],
            ),
            panel(
                "Time to enter a VM",
                "s",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(kite_gateway_backend_seconds_bucket[$__rate_interval])))",
                        "50 %",
                    ),
                    (
                        "histogram_quantile(0.95, sum by (le) (rate(kite_gateway_backend_seconds_bucket[$__rate_interval])))",
                        "95 %",
                    ),
                ],
            ),
            panel(
                "Data",
                "Bps",
                &[(
                    "sum by (way) (rate(kite_gateway_transferred_bytes_total[$__rate_interval]))",
                    "{{way}}",
                )],
            ),
            panel(
                "Reports of who is connected",
                "short",
                &[
                    ("sum by (job) (kite_connections_waiting)", "{{job}} waiting"),
                    (
                        "sum by (job) (increase(kite_connections_unreported_total[1h]))",
                        "{{job}} left out within an hour",
                    ),
                ],
            ),
        ],
    },
    Row {
        title: "HTTP API",
        panels: &[
            panel(
                "Requests",
                "reqps",
                &[(
                    "sum by (status) (rate(kite_api_requests_total[$__rate_interval]))",
                    "{{status}}",
                )],
            ),
            panel(
                "Duration of requests",
                "s",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(kite_api_request_duration_seconds_bucket[$__rate_interval])))",
                        "50 %",
                    ),
                    (
                        "histogram_quantile(0.95, sum by (le) (rate(kite_api_request_duration_seconds_bucket[$__rate_interval])))",
                        "95 %",
                    ),
                ],
            ),
            panel(
                "Sign-ins",
                "ops",
                &[(
                    "sum by (outcome) (rate(kite_api_sign_ins_total[$__rate_interval]))",
                    "{{outcome}}",
                )],
            ),
            panel(
                "Consoles",
                "short",
                &[("sum by (kind) (kite_api_consoles)", "{{kind}}")],
            ),
        ],
    },
];
