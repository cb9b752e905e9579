//! Marks and then deletes the service account tokens in Secrets that Kubernetes has made by itself,
//! long ago, and that nobody has used for long.
//!
//! The rules are those of kube-controller-manager's legacy service account token cleaner
//! (`pkg/controller/serviceaccount` in kubernetes/kubernetes). The README lists the differences.

mod date;
mod objects;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use pilothouse_sdk::{
    Controller, Delete, Failure, Filter, Host, Kind, Limits, Manifest, Outcome, Patch, Read,
    Request, Verb,
};
use serde::Deserialize;
use serde_json::{Value, json};

use date::{DAY, begin, date};
use objects::{PODS, Pod, SECRET_NAMES, Secret, ServiceAccount, Tracking, UsedSecrets};

const TRACKING: &str = "kube-apiserver-legacy-service-account-token-tracking";
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// Pods that are read at once.
const PAGE: NonZeroU32 = NonZeroU32::new(1_000).expect("it is not 0");

/// Secrets that one run writes. The next one does the others.
const MOST: usize = 1_000;

/// Enough to look at the names of Secrets in 150,000 pods, the most that Kubernetes supports.
const FUEL: u64 = 5_000_000_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    /// How long a token has to be unused before it is marked, and then before it is deleted.
    #[serde(default = "a_year")]
    clean_up_period_seconds: u64,
}

fn a_year() -> u64 {
    365 * DAY.as_secs()
}

fn schema() -> Value {
    json!({
        "type": "object", "additionalProperties": false,
        "properties": {
            "cleanUpPeriodSeconds": {"type": "integer", "minimum": 1, "default": a_year()},
        },
    })
}

/// The legacy service account token cleaner. Its only key stands for the whole cluster.
pub struct LegacyTokenCleaner;

impl Controller for LegacyTokenCleaner {
    fn manifest() -> Manifest {
        let tracking = Read::of::<Tracking>().namespace("kube-system");
        let tracking = tracking.field_selector(&format!("metadata.name={TRACKING}"));
        let tokens =
            Read::of::<Secret>().field_selector("type=kubernetes.io/service-account-token");
        let name = "legacy-serviceaccount-token-cleaner";
        Manifest::singleton(name, env!("CARGO_PKG_VERSION"))
            .reads_only(tracking)
            .reads_only(tokens)
            .reads_as::<ServiceAccount>()
            .reads(PODS, SECRET_NAMES)
            .writes(Secret::KIND, [Verb::Patch, Verb::Delete])
            .config_schema(&schema())
            .limits(Limits {
                fuel: Some(FUEL),
                ..Limits::default()
            })
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        // When the tokens were looked at last, in milliseconds since 1970.
        let last: Option<u64> = request.memo();
        let now = host.now();
        let next = last.map(|last| Duration::from_millis(last) + DAY);
        if let (Some(next), Some(last)) = (next.filter(|next| *next > now), last) {
            return Ok(Outcome::done().requeue_after(next - now).remember(&last)?);
        }
        let config: Config = request.configuration()?;
        let period = Duration::from_secs(config.clean_up_period_seconds);
        let (outcome, is_more) = clean_up(host, period)?;
        if is_more {
            // At once: the host waits a little, and longer each time.
            return Ok(outcome.requeue_after(Duration::from_millis(1)));
        }
        let looked_at = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        Ok(outcome.requeue_after(DAY).remember(&looked_at)?)
    }
}

pilothouse_sdk::register!(LegacyTokenCleaner);

/// Marks and deletes tokens that have not been used for so long. True if there are more of them.
fn clean_up(host: &dyn Host, period: Duration) -> Result<(Outcome, bool), Failure> {
    let mut outcome = Outcome::done();
    let now = host.now();
    let limit = now.saturating_sub(period);
    // What has been used before the use of tokens was noted is not known.
    if tracked_since(host)?.is_none_or(|since| limit < since) {
        return Ok((outcome, false));
    }
    let unused = unused(host, limit)?;
    if unused.is_empty() {
        return Ok((outcome, false));
    }
    let used = used_by_pods(host)?;
    let mut writes = 0;
    for secret in unused
        .iter()
        .filter(|secret| !used.has(&secret.metadata.always))
    {
        let invalid_since = secret.metadata.labels.invalid_since.as_deref();
        let invalid_since = invalid_since.filter(|date| begin(date).is_some());
        if invalid_since.is_some_and(|since| since >= &*date(limit)) {
            continue;
        }
        if writes == MOST {
            return Ok((outcome, true));
        }
        writes += 1;
        outcome = match invalid_since {
            // Of the version that was looked at: it may have been used meanwhile.
            Some(_) => outcome.with(Delete::new(&secret.key())),
            None => outcome.with(mark(secret, now)?),
        };
    }
    Ok((outcome, false))
}

/// The end of the first day on which the API server has noted the use of tokens. `None`: it does
/// not say.
fn tracked_since(host: &dyn Host) -> Result<Option<Duration>, Failure> {
    let tracking: Option<Tracking> = host.get_as("kube-system", TRACKING)?;
    let since = tracking.and_then(|tracking| tracking.data.since);
    let since = since.as_deref().and_then(begin);
    if since.is_none() {
        let fields = [("configMap", TRACKING)];
        host.warn("not known since when the use of tokens is noted", &fields);
    }
    Ok(since.map(|since| since + DAY))
}

/// The tokens that were made before this time, and that nobody has used since its date; of those
/// that Kubernetes has made by itself, which their service accounts name.
fn unused(host: &dyn Host, limit: Duration) -> Result<Vec<Secret>, Failure> {
    let limit_date = date(limit);
    let secrets: Vec<Secret> = host.list_as(None, &Filter::Everything)?;
    let is_unused = |secret: &Secret| {
        let metadata = &secret.metadata;
        let is_old = metadata
            .creation_timestamp
            .is_some_and(|made| made.0 < limit);
        let used = metadata.labels.last_used.as_deref();
        // A date that is none says nothing.
        let is_unused = used.is_none_or(|used| begin(used).is_some() && used < &*limit_date);
        is_old && is_unused && metadata.always.deletion_timestamp.is_none()
    };
    let mut unused: Vec<Secret> = secrets.into_iter().filter(is_unused).collect();
    if unused.is_empty() {
        return Ok(unused);
    }
    let accounts: Vec<ServiceAccount> = host.list_as(None, &Filter::Everything)?;
    let accounts: BTreeMap<_, _> = accounts.iter().map(|one| (one.name(), one)).collect();
    unused.retain(|secret| {
        let account = secret.account().and_then(|name| accounts.get(&name));
        account.is_some_and(|account| secret.is_of(account))
    });
    Ok(unused)
}

fn used_by_pods(host: &dyn Host) -> Result<UsedSecrets, Failure> {
    let mut used = UsedSecrets::default();
    for page in host.pages::<Pod>(PODS, None, &Filter::Everything, PAGE) {
        page?.into_iter().for_each(|pod| used.add(pod));
    }
    Ok(used)
}

/// Notes that a token is not to be accepted any more.
fn mark(secret: &Secret, now: Duration) -> Result<Patch, serde_json::Error> {
    let metadata = json!({
        "uid": secret.metadata.always.uid, "labels": {INVALID_SINCE: date(now)},
    });
    Patch::merge(&secret.key(), &json!({"metadata": metadata}))
}
