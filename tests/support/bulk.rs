//! Many objects and kinds at a time, for benchmarks.

use anyhow::{Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::{Value, json};

use crate::{Api, DEFINITIONS, definition};

/// How many requests are under way at a time while objects are created or deleted.
const AT_ONCE: usize = 16;

/// The number of an environment variable, or this one if it is not set.
pub fn chosen(variable: &str, otherwise: usize) -> Result<usize> {
    let Ok(text) = std::env::var(variable) else {
        return Ok(otherwise);
    };
    let number = text.parse().unwrap_or_default();
    ensure!(
        number > 0,
        "{variable} is {text:?}: make it a number of objects, or unset it"
    );
    Ok(number)
}

/// Defines namespaced kinds of the group `bench.dev`, and waits until the server serves them.
pub async fn define(api: &Api, kinds: &[impl AsRef<str>]) -> Result<()> {
    for kind in kinds {
        let definition = definition("bench.dev", kind.as_ref());
        api.create(DEFINITIONS, &definition).await?;
    }
    for kind in kinds {
        let is_served = |found: Option<&Value>| found.is_some();
        let path = format!("/apis/bench.dev/v1/{}s", kind.as_ref().to_lowercase());
        api.eventually(&path, "served", is_served).await?;
    }
    Ok(())
}

/// Creates an empty namespace.
pub async fn create_namespace(api: &Api, name: &str) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    api.create("/api/v1/namespaces", &namespace).await.map(drop)
}

/// Runs these, `AT_ONCE` of them at a time.
pub async fn all_of<T>(
    futures: impl Iterator<Item = impl Future<Output = Result<T>>>,
) -> Result<Vec<T>> {
    let results = stream::iter(futures).buffer_unordered(AT_ONCE);
    results.try_collect().await
}
