//! What a stranger's plugin could do with what its manifest asks for, said before anybody grants it. Of what is asked for, not of what is
//! granted: names and namespaces in the settings narrow it.

use pilothouse_core::key::Kind;
use pilothouse_core::manifest::{Manifest, ReadDeclaration, Verb, WriteDeclaration};

/// A write that gives more than its name says.
struct Risk {
    /// A group, and kinds of it; none: all.
    kinds: (&'static str, &'static [&'static str]),
    part: Part,
    verbs: &'static [Verb],
    could: &'static str,
}

enum Part {
    /// The object itself.
    Whole,
    /// One of these subresources.
    Of(&'static [&'static str]),
}

use Part::{Of, Whole};

const MAKE: &[Verb] = &[Verb::Apply, Verb::Create, Verb::Update, Verb::Patch];
const CHANGE: &[Verb] = &[Verb::Apply, Verb::Update, Verb::Patch];
const DELETE: &[Verb] = &[Verb::Delete];
const ANY: &[Verb] = &[
    Verb::Apply,
    Verb::Create,
    Verb::Update,
    Verb::Patch,
    Verb::Delete,
];

const RISKS: &[Risk] = &[
    Risk {
        kinds: ("rbac.authorization.k8s.io", &[]),
        part: Whole,
        verbs: ANY,
        could: "give rights to anybody, or take them",
    },
    Risk {
        kinds: ("admissionregistration.k8s.io", &[]),
        part: Whole,
        verbs: ANY,
        could: "see, change or refuse what anybody writes to the cluster, or switch off who does",
    },
    Risk {
        kinds: ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
        part: Whole,
        verbs: MAKE,
        could: "change what kinds there are",
    },
    Risk {
        kinds: ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
        part: Whole,
        verbs: DELETE,
        could: "delete every object of a kind with it",
    },
    Risk {
        kinds: ("apiregistration.k8s.io", &["APIService"]),
        part: Whole,
        verbs: ANY,
        could: "have others answer for the API server",
    },
    Risk {
        kinds: ("certificates.k8s.io", &["CertificateSigningRequest"]),
        part: Of(&["approval", "status"]),
        verbs: ANY,
        could: "have certificates issued in others' names",
    },
    Risk {
        kinds: ("", &["ServiceAccount"]),
        part: Of(&["token"]),
        verbs: ANY,
        could: "become any service account",
    },
    Risk {
        // What is posted to `serviceaccounts/token`.
        kinds: ("authentication.k8s.io", &["TokenRequest"]),
        part: Of(&["token"]),
        verbs: ANY,
        could: "become any service account",
    },
    Risk {
        kinds: ("", &["Pod", "PodExecOptions", "PodAttachOptions"]),
        part: Of(&["exec", "attach", "ephemeralcontainers"]),
        verbs: ANY,
        could: "run what it likes inside pods that are there",
    },
    Risk {
        kinds: ("", &["Pod", "Service", "Node"]),
        part: Of(&["portforward", "proxy"]),
        verbs: ANY,
        could: "reach what listens inside of the cluster",
    },
    Risk {
        kinds: ("", &["Pod", "PodTemplate", "ReplicationController"]),
        part: Whole,
        verbs: MAKE,
        could: RUN,
    },
    Risk {
        kinds: (
            "apps",
            &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"],
        ),
        part: Whole,
        verbs: MAKE,
        could: RUN,
    },
    Risk {
        kinds: ("batch", &["CronJob", "Job"]),
        part: Whole,
        verbs: MAKE,
        could: RUN,
    },
    Risk {
        kinds: ("", &["Secret"]),
        part: Whole,
        verbs: MAKE,
        could: "replace what others sign in with, and have tokens of service accounts made",
    },
    Risk {
        kinds: ("", &["Namespace"]),
        part: Whole,
        verbs: DELETE,
        could: "delete all that is in one",
    },
    Risk {
        kinds: ("", &["Namespace"]),
        part: Whole,
        verbs: CHANGE,
        could: "by labels, choose which policies hold in one",
    },
    Risk {
        kinds: ("", &["Node"]),
        part: Whole,
        verbs: DELETE,
        could: "have all pods of one removed",
    },
    Risk {
        kinds: ("", &["Node"]),
        part: Whole,
        verbs: CHANGE,
        could: "by taints and labels, choose which pods run there",
    },
    Risk {
        kinds: ("", &["PersistentVolume", "PersistentVolumeClaim"]),
        part: Whole,
        verbs: DELETE,
        could: "have the data of one lost",
    },
];

const RUN: &str =
    "run what it likes, as any service account of the namespace and with all Secrets there";

/// A line for each.
pub fn risks(manifest: &Manifest) -> Vec<String> {
    let reads = manifest.reads.iter().filter_map(of_read);
    let writes = manifest.writes.iter().flat_map(of_write);
    reads.chain(writes).collect()
}

fn of_read(read: &ReadDeclaration) -> Option<String> {
    let is_secret = (&*read.kind.group, &*read.kind.kind) == ("", "Secret");
    let is_value = |path: &String| path.starts_with(".data") || path.starts_with(".stringData");
    let has_values = read.fields.is_empty() || read.fields.iter().any(is_value);
    (is_secret && has_values)
        .then(|| "reads v1/Secret: could see their values, if secret-values is set".to_owned())
}

fn of_write(write: &WriteDeclaration) -> Vec<String> {
    let WriteDeclaration {
        kind, subresource, ..
    } = write;
    let part = subresource.as_ref().map(|name| format!("/{name}"));
    let what = format!("{kind}{}", part.unwrap_or_default());
    let special = RISKS.iter().filter(|risk| risk.is_in(write));
    let mut lines: Vec<String> = special
        .map(|risk| format!("writes {what}: could {}", risk.could))
        .collect();
    lines.extend(of_metadata(write));
    lines
}

/// Who changes an object changes its metadata, by which others find and end it. Whether it is marked `children` is no matter: what
/// `children` apply may be there already, and be somebody else's.
fn of_metadata(write: &WriteDeclaration) -> Option<String> {
    let is_change = write.subresource.is_none() && has_any(write, CHANGE);
    let kind = &write.kind;
    let selected = match is_selected(kind) {
        true => " take it into or out of what Services and controllers select (labels),",
        false => "",
    };
    is_change.then(|| {
        format!(
            "writes {kind}: could change any such object,{selected} keep it from being deleted (finalizers), have it deleted (owner references)"
        )
    })
}

fn is_selected(kind: &Kind) -> bool {
    kind.group.is_empty() && &*kind.kind == "Pod"
}

fn has_any(write: &WriteDeclaration, verbs: &[Verb]) -> bool {
    write.verbs.iter().any(|verb| verbs.contains(verb))
}

impl Risk {
    fn is_in(&self, write: &WriteDeclaration) -> bool {
        let (group, kinds) = self.kinds;
        let is_kind = kinds.is_empty() || kinds.contains(&&*write.kind.kind);
        let is_part = match (&self.part, &write.subresource) {
            (Whole, None) => true,
            (Of(names), Some(name)) => names.contains(&name.as_str()),
            (Whole, Some(_)) | (Of(_), None) => false,
        };
        *write.kind.group == *group && is_kind && is_part && has_any(write, self.verbs)
    }
}

#[cfg(test)]
#[path = "risks_tests.rs"]
mod tests;
