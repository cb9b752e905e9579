//! Copies the data of each ConfigMap with the label `copy=true` into every Namespace with the label
//! `copies=wanted`.

use std::collections::BTreeMap;

use pilothouse_sdk::{
    Children, Controller, Failure, Filter, Host, Kind, Manifest, Metadata, Outcome, Projection,
    Request, Selection,
};
use serde::Deserialize;
use serde_json::json;

/// The part of a ConfigMap that is copied.
#[derive(Deserialize, Projection)]
#[projection(kind = "v1/ConfigMap")]
struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[derive(Deserialize, Projection)]
#[projection(kind = "v1/Namespace")]
struct Namespace {
    metadata: Metadata,
}

struct Copies;

impl Controller for Copies {
    fn manifest() -> Manifest {
        let originals = Selection::of(ConfigMap::KIND).labels("copy=true");
        Manifest::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), originals)
            .reads_as::<ConfigMap>()
            .reads_as::<Namespace>()
            .keeps_children(ConfigMap::KIND)
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let Some(original) = request.object::<ConfigMap>()? else {
            // It is gone, or has lost its label: so do its copies.
            return Ok(Outcome::done().with(Children::none()));
        };
        let key = request.key();
        // The list is recorded: when another Namespace wants copies, this runs again.
        let wanted: Vec<Namespace> = host.list_as(None, &Filter::labels("copies=wanted"))?;
        let others = wanted
            .into_iter()
            .map(|namespace| namespace.metadata.name)
            .filter(|namespace| *namespace != key.namespace);
        let copies = others.map(|namespace| {
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": namespace, "name": key.name},
                "data": original.data,
            })
        });
        Ok(Outcome::done().with(Children::new(copies)?))
    }
}

pilothouse_sdk::register!(Copies);

#[cfg(test)]
mod tests;
