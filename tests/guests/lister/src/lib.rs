//! For benchmarks. Reads pods as its configuration says: not at all, in one list as text, in one
//! decoded list, or with one get for each.

use pilothouse_sdk::{
    Controller, Failure, Filter, Host, Manifest, ObjectRef, Outcome, Query, Request, Selection,
};
use serde::Deserialize;

const POD: &str = "v1/Pod";

struct Lister;

#[derive(Deserialize)]
struct Configuration {
    list: How,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum How {
    Not,
    Text,
    Decoded,
    OneByOne,
}

/// A pod with the fields that the manifest declares.
#[derive(Deserialize)]
struct Pod {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: String,
    #[serde(rename = "podIP")]
    pod_ip: String,
}

impl Controller for Lister {
    fn manifest() -> Manifest {
        Manifest::new("lister", "1.0.0", Selection::of(POD))
            .reads(POD, [".spec.nodeName", ".status.phase", ".status.podIP"])
    }

    fn reconcile(request: &Request, host: &dyn Host) -> Result<Outcome, Failure> {
        let all = Query {
            kind: POD.to_owned(),
            namespace: None,
            filter: Filter::Everything,
        };
        let seen = match request.configuration::<Configuration>()?.list {
            How::Not => 1,
            How::Text => host.list_json(&all)?.len(),
            How::OneByOne => {
                let mut seen = 0;
                for number in 0..1000 {
                    let key = ObjectRef::new(POD, "default", &format!("pod-{number}"));
                    seen += host.get_json(&key)?.map_or(0, |pod| pod.len());
                }
                seen
            }
            How::Decoded => {
                let pods: Vec<Pod> = host.list(POD, None, &Filter::Everything)?;
                let sizes = pods.iter().map(|pod| {
                    pod.metadata.name.len()
                        + pod.spec.node_name.len()
                        + pod.status.phase.len()
                        + pod.status.pod_ip.len()
                });
                sizes.sum()
            }
        };
        // Uses the result, so that the compiler cannot leave the reads out.
        if seen == 0 {
            Err(Failure::terminal("saw nothing"))
        } else {
            Ok(Outcome::done())
        }
    }
}

pilothouse_sdk::register!(Lister);
