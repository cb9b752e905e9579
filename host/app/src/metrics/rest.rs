//! `rest_client_*`: client-go's metrics about requests, with its names, labels and buckets
//! (component-base's `restclient`).

use std::time::Duration;

use axum::http::Method;
use pilothouse_cluster::client::Observer;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::Histograms;

/// The label `code` of a request without an answer.
const ERROR: &str = "<error>";

/// The methods that the host uses.
const METHODS: [Method; 5] = [
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
];

const SECONDS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// 64 bytes to 16 MB.
const BYTES: [f64; 11] = [
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByMethod {
    code: String,
    method: String,
    host: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByCodeAndVerb {
    code: String,
    verb: String,
    host: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByVerb {
    verb: String,
    host: String,
}

/// Counts the requests to one API server.
pub struct RestClient {
    host: String,
    requests: Family<ByMethod, Counter>,
    retries: Family<ByCodeAndVerb, Counter>,
    durations: Histograms<ByVerb>,
    request_sizes: Histograms<ByVerb>,
    response_sizes: Histograms<ByVerb>,
    waits: Histograms<ByVerb>,
}

impl RestClient {
    /// `host` is the server's host and port.
    pub fn new(host: &str, registry: &mut Registry) -> Self {
        let seconds = || Histograms::new_with_constructor(|| Histogram::new(SECONDS));
        let bytes = || Histograms::new_with_constructor(|| Histogram::new(BYTES));
        let this = Self {
            host: host.to_owned(),
            requests: Family::default(),
            retries: Family::default(),
            durations: seconds(),
            request_sizes: bytes(),
            response_sizes: bytes(),
            waits: seconds(),
        };
        this.register(registry);
        this.begin_at_zero();
        this
    }

    /// The server's host and port.
    pub fn server(&self) -> &str {
        &self.host
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "rest_client_requests",
            "HTTP requests, repeated ones each time",
            self.requests.clone(),
        );
        registry.register(
            "rest_client_request_retries",
            "HTTP requests that repeat one the server turned away",
            self.retries.clone(),
        );
        let histograms = [
            (
                "rest_client_request_duration_seconds",
                "How long a request takes, its waits and repeats included, watches excepted",
                &self.durations,
            ),
            (
                "rest_client_request_size_bytes",
                "Size of a request's body, watches excepted",
                &self.request_sizes,
            ),
            (
                "rest_client_response_size_bytes",
                "Size of an answer's body, watches excepted",
                &self.response_sizes,
            ),
            (
                "rest_client_rate_limiter_duration_seconds",
                "How long a request waits for the client-side limits",
                &self.waits,
            ),
        ];
        for (name, help, histograms) in histograms {
            registry.register(name, help, histograms.clone());
        }
    }

    /// Creates the series before they rise, because a rate needs a first value.
    fn begin_at_zero(&self) {
        for method in &METHODS {
            for code in [ERROR, "429"] {
                drop(self.requests.get_or_create(&self.by_method(code, method)));
                drop(
                    self.retries
                        .get_or_create(&self.by_code_and_verb(code, method)),
                );
            }
            let by_verb = self.by_verb(method);
            for histograms in [
                &self.durations,
                &self.request_sizes,
                &self.response_sizes,
                &self.waits,
            ] {
                drop(histograms.get_or_create(&by_verb));
            }
        }
    }

    fn by_method(&self, code: &str, method: &Method) -> ByMethod {
        ByMethod {
            code: code.to_owned(),
            method: method.to_string(),
            host: self.host.clone(),
        }
    }

    fn by_code_and_verb(&self, code: &str, method: &Method) -> ByCodeAndVerb {
        ByCodeAndVerb {
            code: code.to_owned(),
            verb: method.to_string(),
            host: self.host.clone(),
        }
    }

    fn by_verb(&self, method: &Method) -> ByVerb {
        ByVerb {
            verb: method.to_string(),
            host: self.host.clone(),
        }
    }

    fn observe(&self, histograms: &Histograms<ByVerb>, method: &Method, value: f64) {
        let by_verb = self.by_verb(method);
        histograms.get_or_create(&by_verb).observe(value);
    }
}

#[allow(clippy::cast_precision_loss, reason = "sizes are below 2^53")]
impl Observer for RestClient {
    fn answered(&self, method: &Method, code: Option<u16>, is_repeat: bool) {
        let code = code.map_or_else(|| ERROR.to_owned(), |code| code.to_string());
        self.requests
            .get_or_create(&self.by_method(&code, method))
            .inc();
        if is_repeat {
            self.retries
                .get_or_create(&self.by_code_and_verb(&code, method))
                .inc();
        }
    }

    fn sent(&self, method: &Method, bytes: usize) {
        self.observe(&self.request_sizes, method, bytes as f64);
    }

    fn received(&self, method: &Method, bytes: usize) {
        self.observe(&self.response_sizes, method, bytes as f64);
    }

    fn ended(&self, method: &Method, took: Duration) {
        self.observe(&self.durations, method, took.as_secs_f64());
    }

    fn throttled(&self, method: &Method, waited: Duration) {
        self.observe(&self.waits, method, waited.as_secs_f64());
    }
}
