//! The objects that the plugin `fickle` reconciles, evenly in some namespaces.

use anyhow::Result;
use pilothouse_tests::{Api, all_of, create_namespace};
use serde_json::json;

const NAMESPACES: usize = 64;

/// How much text is in each object, in bytes.
const SIZE: usize = 1000;

pub struct Objects<'a> {
    api: &'a Api,
    count: usize,
}

impl<'a> Objects<'a> {
    /// Creates the namespaces. There are no objects yet.
    pub async fn of(api: &'a Api) -> Result<Self> {
        for number in 0..NAMESPACES {
            create_namespace(api, &namespace(number)).await?;
        }
        Ok(Self { api, count: 0 })
    }

    /// Creates as many as are missing to this number.
    pub async fn fill(&mut self, count: usize) -> Result<()> {
        let api = self.api;
        all_of((self.count..count).map(|number| create(api, number))).await?;
        self.count = self.count.max(count);
        Ok(())
    }
}

/// The numbers come first: the server's hash of namespaces is even only for names that differ
/// early.
fn namespace(number: usize) -> String {
    format!("{}-team", number % NAMESPACES)
}

async fn create(api: &Api, number: usize) -> Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("s{number}"), "labels": {"fickle": "true"}},
        "data": {"value": format!("{number:SIZE$}")},
    });
    let path = format!("/api/v1/namespaces/{}/configmaps", namespace(number));
    api.create(&path, &object).await.map(drop)
}
