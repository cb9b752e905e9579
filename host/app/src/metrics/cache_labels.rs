//! The labels of metrics about one informer.

use pilothouse_core::InformerKey;
use prometheus_client::encoding::EncodeLabelSet;

/// Identifies an informer. The label of a restriction that it does not have is empty.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct CacheLabels {
    group: String,
    version: String,
    kind: String,
    namespace: String,
    label_selector: String,
    field_selector: String,
}

impl CacheLabels {
    pub fn of(informer_key: &InformerKey) -> Self {
        Self {
            group: informer_key.kind.group.to_string(),
            version: informer_key.kind.version.to_string(),
            kind: informer_key.kind.kind.to_string(),
            namespace: informer_key
                .namespace
                .as_deref()
                .unwrap_or_default()
                .to_owned(),
            label_selector: informer_key.labels.to_string(),
            field_selector: informer_key
                .fields
                .as_deref()
                .unwrap_or_default()
                .to_owned(),
        }
    }
}
