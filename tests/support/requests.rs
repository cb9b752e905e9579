//! What clients have asked of the API server in `tests/apiserver`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use http::Method;
use serde_json::Value;

use crate::Server;

/// Requests that ask for the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// `list`, `watch`, `patch`, …
    pub verb: String,
    /// `pods`, `deployments.apps/status`; a path, such as `/apis`, if it is about no resource.
    pub what: String,
}

impl Asked {
    /// False for discovery and the like.
    pub fn is_about_a_resource(&self) -> bool {
        !self.what.starts_with('/')
    }
}

/// Counts the requests that the server has had from clients whose user agent begins like this.
pub async fn requests_of(server: &Server, agent: &str) -> Result<BTreeMap<Asked, u64>> {
    let text = server.api.request_text(Method::GET, "/testing/requests");
    let answer: Value = serde_json::from_str(&text.await?)?;
    let records = answer["requests"].as_array();
    let mut counts = BTreeMap::new();
    for record in records.context("the server counts no requests")? {
        let text = |member: &str| record[member].as_str().unwrap_or_default();
        if text("userAgent").starts_with(agent) {
            let asked = Asked {
                verb: text("verb").to_owned(),
                what: what(text),
            };
            let count = record["count"].as_u64().unwrap_or_default();
            *counts.entry(asked).or_default() += count;
        }
    }
    Ok(counts)
}

fn what<'a>(text: impl Fn(&'static str) -> &'a str) -> String {
    let (path, group, part) = (text("path"), text("group"), text("subresource"));
    if !path.is_empty() {
        return path.to_owned();
    }
    let mut what = text("resource").to_owned();
    for (mark, more) in [('.', group), ('/', part)] {
        if !more.is_empty() {
            what.push(mark);
            what.push_str(more);
        }
    }
    what
}
