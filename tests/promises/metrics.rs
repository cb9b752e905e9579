//! `/metrics` has what docs/metrics.md documents, from the start, with the names and labels that
//! existing dashboards use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use pilothouse_tests::{Host, HostOptions, Server, plugin_directory};
use serde_json::json;

const DOCUMENT: &str = include_str!("../../docs/metrics.md");

/// Name, type and labels as Kubernetes' component metrics, controller-runtime and client-go have
/// them, which dashboards rely on. This is a second copy: it finds an error that the code and the
/// document share.
const UPSTREAM: [(&str, &str, &str); 31] = [
    ("leader_election_master_status", "gauge", "name"),
    ("leader_election_slowpath_total", "counter", "name"),
    ("process_cpu_seconds_total", "counter", ""),
    ("process_start_time_seconds", "gauge", ""),
    ("process_resident_memory_bytes", "gauge", ""),
    ("process_open_fds", "gauge", ""),
    ("process_max_fds", "gauge", ""),
    ("workqueue_depth", "gauge", "name,controller,priority"),
    ("workqueue_adds_total", "counter", "name,controller"),
    (
        "workqueue_queue_duration_seconds",
        "histogram",
        "name,controller",
    ),
    (
        "workqueue_work_duration_seconds",
        "histogram",
        "name,controller",
    ),
    (
        "workqueue_unfinished_work_seconds",
        "gauge",
        "name,controller",
    ),
    (
        "workqueue_longest_running_processor_seconds",
        "gauge",
        "name,controller",
    ),
    ("workqueue_retries_total", "counter", "name,controller"),
    (
        "controller_runtime_reconcile_total",
        "counter",
        "controller,result",
    ),
    (
        "controller_runtime_reconcile_errors_total",
        "counter",
        "controller",
    ),
    (
        "controller_runtime_terminal_reconcile_errors_total",
        "counter",
        "controller",
    ),
    (
        "controller_runtime_reconcile_panics_total",
        "counter",
        "controller",
    ),
    (
        "controller_runtime_reconcile_timeouts_total",
        "counter",
        "controller",
    ),
    (
        "controller_runtime_reconcile_time_seconds",
        "histogram",
        "controller",
    ),
    (
        "controller_runtime_max_concurrent_reconciles",
        "gauge",
        "controller",
    ),
    ("controller_runtime_active_workers", "gauge", "controller"),
    (
        "informer_queued_items",
        "gauge",
        "name,group,version,resource",
    ),
    (
        "informer_processing_latency_seconds",
        "histogram",
        "name,group,version,resource",
    ),
    (
        "informer_store_resource_version",
        "gauge",
        "name,group,version,resource",
    ),
    ("rest_client_requests_total", "counter", "code,method,host"),
    (
        "rest_client_request_retries_total",
        "counter",
        "code,verb,host",
    ),
    (
        "rest_client_request_duration_seconds",
        "histogram",
        "verb,host",
    ),
    ("rest_client_request_size_bytes", "histogram", "verb,host"),
    ("rest_client_response_size_bytes", "histogram", "verb,host"),
    (
        "rest_client_rate_limiter_duration_seconds",
        "histogram",
        "verb,host",
    ),
];

/// Type and labels by name.
type Families = BTreeMap<String, (String, BTreeSet<String>)>;

/// One line of the text format.
#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Sample {
    fn is(&self, name: &str, labels: &[(&str, &str)]) -> bool {
        let has =
            |(key, value): &(&str, &str)| self.labels.get(*key).is_some_and(|have| have == value);
        self.name == name && labels.iter().all(has)
    }
}

/// An answer of `/metrics` in the classic text format.
struct Scrape {
    types: BTreeMap<String, String>,
    samples: Vec<Sample>,
}

impl Scrape {
    async fn of(host: &Host) -> Result<Self> {
        let (status, text) = host.get("/metrics").await?;
        ensure!(status == 200, "{text}");
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let mut types = BTreeMap::new();
        let mut samples = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').context("no type")?;
                types.insert(name.to_owned(), kind.to_owned());
            } else if !line.starts_with('#') {
                samples.push(sample(line).with_context(|| line.to_owned())?);
            }
        }
        Ok(Self { types, samples })
    }

    /// Returns the names that have samples.
    fn families(&self) -> Families {
        let mut families = Families::new();
        for sample in &self.samples {
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .filter_map(|suffix| sample.name.strip_suffix(suffix))
                .find(|base| {
                    self.types
                        .get(*base)
                        .is_some_and(|kind| kind == "histogram")
                });
            let name = base.unwrap_or(&sample.name);
            let kind = self.types.get(name).cloned().unwrap_or_default();
            let family = families
                .entry(name.to_owned())
                .or_insert((kind, BTreeSet::new()));
            let labels = sample.labels.keys().filter(|key| *key != "le").cloned();
            family.1.extend(labels);
        }
        families
    }

    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let found = self.samples.iter().filter(|sample| sample.is(name, labels));
        found.map(|sample| sample.value).sum()
    }
}

fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels
        .strip_suffix('}')?
        .split_terminator(',')
        .map(|label| {
            let (key, value) = label.split_once('=')?;
            Some((key.to_owned(), value.trim_matches('"').to_owned()))
        });
    Some(Sample {
        name: name.to_owned(),
        labels: labels.collect::<Option<_>>()?,
        value: value.parse().ok()?,
    })
}

/// Returns the rows of the document's tables.
fn documented() -> Families {
    let rows = DOCUMENT.lines().filter(|line| line.starts_with("| `"));
    let families = rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let labels = cells[3]
            .split(',')
            .map(|label| label.trim().trim_matches('`').to_owned())
            .filter(|label| !label.is_empty());
        let name = cells[1].trim_matches('`').to_owned();
        (name, (cells[2].to_owned(), labels.collect()))
    });
    families.collect()
}

fn upstream() -> Families {
    let families = UPSTREAM.iter().map(|(name, kind, labels)| {
        let labels = labels.split(',').filter(|label| !label.is_empty());
        let labels = labels.map(str::to_owned).collect();
        ((*name).to_owned(), ((*kind).to_owned(), labels))
    });
    families.collect()
}

async fn start(server: &Server, plugins: &Path, arguments: &[&str]) -> Result<Host> {
    let mut host = Host::start(&HostOptions {
        plugins: plugins.into(),
        kubeconfig: server.kubeconfig().into(),
        arguments: arguments.iter().copied().map(str::to_owned).collect(),
        elects: true,
        ..HostOptions::default()
    })
    .await?;
    host.wait_until_ready().await?;
    Ok(host)
}

#[tokio::test]
async fn every_metric_is_documented_and_there_from_the_start_at_zero() -> Result<()> {
    let server = Server::start().await?;
    if !server.is_own() {
        return Ok(());
    }
    let plugins = plugin_directory(&["hello-rust"]);
    let mut host = start(&server, plugins.path(), &[]).await?;
    let scrape = Scrape::of(&host).await?;
    assert_eq!(scrape.families(), documented());
    let mut known = scrape.families();
    known.retain(|name, _| !name.starts_with("pilothouse_"));
    assert_eq!(known, upstream());

    // This plugin has done nothing yet.
    let of_plugin = |sample: &&Sample| {
        sample
            .labels
            .get("controller")
            .is_some_and(|name| name == "hello-rust")
    };
    for sample in scrape.samples.iter().filter(of_plugin) {
        let wanted = if sample.name == "controller_runtime_max_concurrent_reconciles" {
            1.0..f64::INFINITY
        } else {
            0.0..f64::MIN_POSITIVE
        };
        assert!(wanted.contains(&sample.value), "{sample:?}");
    }
    for result in ["success", "error", "requeue", "requeue_after"] {
        let labels = [("controller", "hello-rust"), ("result", result)];
        let is_there = |sample: &Sample| sample.is("controller_runtime_reconcile_total", &labels);
        assert!(scrape.samples.iter().any(is_there), "{result}");
    }
    for priority in ["0", "-100"] {
        let labels = [("name", "hello-rust"), ("priority", priority)];
        let is_there = |sample: &Sample| sample.is("workqueue_depth", &labels);
        assert!(scrape.samples.iter().any(is_there), "{priority}");
    }

    // What happens at every start has been counted.
    let kind = [
        ("name", "pilothouse"),
        ("group", ""),
        ("version", "v1"),
        ("resource", "configmaps"),
    ];
    assert!(scrape.value("informer_store_resource_version", &kind) > 0.0);
    assert!(scrape.value("informer_processing_latency_seconds_count", &kind) > 0.0);
    assert!(
        scrape.value(
            "rest_client_requests_total",
            &[("code", "200"), ("method", "GET")]
        ) > 0.0
    );
    assert_eq!(
        scrape.value("rest_client_requests_total", &[("code", "<error>")]),
        0.0
    );
    let bounds = |name: &str, label: (&str, &str)| {
        let name = format!("{name}_bucket");
        let buckets = scrape
            .samples
            .iter()
            .filter(|sample| sample.is(&name, &[label]));
        buckets
            .filter_map(|sample| sample.labels["le"].parse::<f64>().ok())
            .collect::<Vec<f64>>()
    };
    let of_queue = bounds("workqueue_queue_duration_seconds", ("name", "hello-rust"));
    assert_eq!(of_queue.len(), 13, "{of_queue:?}");
    assert!(
        (of_queue[0] - 1e-8).abs() < 1e-12 && (of_queue[11] - 1e3).abs() < 1e-6,
        "{of_queue:?}"
    );
    let of_client = bounds("rest_client_request_duration_seconds", ("verb", "GET"));
    assert_eq!(of_client[..3], [0.005, 0.025, 0.1]);
    host.kill().await?;
    Ok(())
}

#[tokio::test]
async fn what_a_plugin_does_is_counted_and_its_limit_holds_its_writes() -> Result<()> {
    let server = Server::start().await?;
    let namespace = server.namespace().await?;
    let plugins = plugin_directory(&["hello-rust"]);
    let arguments = [
        "--plugin-api-qps=0.8",
        "--plugin-api-burst=1",
        "--kube-api-qps=500",
    ];
    let mut host = start(&server, plugins.path(), &arguments).await?;
    let config_maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let names = ["a", "b", "c"];
    for name in names {
        let metadata = json!({"name": name, "labels": {"hello": "true"}});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"who": name}});
        server.api.create(&config_maps, &object).await?;
    }
    let of_plugin = [("controller", "hello-rust")];
    let mut scrape = Scrape::of(&host).await?;
    let patch = [("verb", "PATCH")];
    for _ in 0..1200 {
        let patched = scrape.value("rest_client_response_size_bytes_count", &patch);
        let ended = scrape.value("workqueue_work_duration_seconds_count", &of_plugin);
        if patched >= 3.0 && ended >= 3.0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
        scrape = Scrape::of(&host).await?;
    }
    // The metrics of one scrape are read one after the other. The last write may have ended between
    // two of them, so scrape once more.
    let scrape = Scrape::of(&host).await?;
    let count = |name: &str| scrape.value(name, &of_plugin);
    assert!(count("workqueue_adds_total") >= 3.0);
    assert!(count("workqueue_work_duration_seconds_count") >= 3.0);
    assert!(count("controller_runtime_reconcile_time_seconds_count") >= 3.0);
    // The burst allows one at once; the next one waits 1.25 s.
    let waited = scrape.value("rest_client_rate_limiter_duration_seconds_sum", &patch);
    assert!(waited > 1.2, "{waited}");
    let log = host.log();
    assert!(
        log.contains("a request has waited for the client-side limit"),
        "{log}"
    );
    let sent = [("method", "PATCH")];
    assert!(scrape.value("rest_client_requests_total", &sent) >= 3.0);
    for histogram in [
        "request_duration_seconds",
        "request_size_bytes",
        "response_size_bytes",
    ] {
        let name = format!("rest_client_{histogram}_count");
        assert!(scrape.value(&name, &patch) >= 3.0, "{name}");
    }
    assert!(scrape.value("rest_client_request_size_bytes_sum", &patch) > 100.0);
    host.kill().await?;
    Ok(())
}

#[tokio::test]
async fn the_hosts_addresses_answer_as_http_wants_it() -> Result<()> {
    let server = Server::start().await?;
    let plugins = plugin_directory(&["hello-rust"]);
    let mut host = start(&server, plugins.path(), &[]).await?;
    let open_metrics = ["Accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"];
    let (head, body) = host.request("GET", "/metrics", &open_metrics).await?;
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(body.ends_with("# EOF\n"));
    assert!(body.contains("# TYPE rest_client_requests counter\n"));
    let (head, body) = host.request("GET", "/metrics", &["Accept: */*"]).await?;
    assert!(
        head.contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(body.contains("# TYPE rest_client_requests_total counter\n"));
    assert!(!body.contains("# EOF"));
    for path in ["/healthz", "/readyz", "/metrics", "/plugins"] {
        let (head, body) = host.request("HEAD", path, &[]).await?;
        assert!(
            head.starts_with("HTTP/1.0 200") && body.is_empty(),
            "{head}{body}"
        );
        let (head, _) = host.request("POST", path, &["Content-Length: 0"]).await?;
        assert!(head.starts_with("HTTP/1.0 405"), "{head}");
        assert!(head.to_lowercase().contains("allow: get,head"), "{head}");
    }
    let (head, body) = host.request("GET", "/metric", &[]).await?;
    assert!(
        head.starts_with("HTTP/1.0 404") && body.contains("/metrics"),
        "{head}{body}"
    );
    host.kill().await?;
    Ok(())
}
