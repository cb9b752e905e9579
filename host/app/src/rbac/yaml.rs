//! Roles and bindings as YAML. Names and namespaces are DNS names, so quoting them is all the
//! escaping that is needed.

use std::fmt::Write;

use super::rules::{RuleTarget, Rules, Verbs};

/// A service account.
pub struct Account {
    pub name: String,
    pub namespace: String,
}

/// The account, with a role and a binding for each namespace (or the cluster) in which it has
/// permissions.
pub fn documents(account: &Account, rules: &Rules) -> String {
    let Account { name, namespace } = account;
    let mut text = format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {name:?}\n  namespace: {namespace:?}\n---\n"
    );
    for (place, verbs) in &rules.0 {
        text += &role(account, place, verbs);
    }
    text
}

/// A namespace. Empty for those that every cluster has.
pub fn namespace(name: &str) -> String {
    if name == "default" || name.starts_with("kube-") {
        return String::new();
    }
    format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name:?}\n---\n")
}

fn role(account: &Account, place: &str, verbs: &Verbs) -> String {
    let Account { name, namespace } = account;
    let (kind, metadata) = match place {
        "" => ("ClusterRole", format!("  name: {name:?}\n")),
        place => (
            "Role",
            format!("  name: {name:?}\n  namespace: {place:?}\n"),
        ),
    };
    let mut text = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n{metadata}rules:\n"
    );
    for (target, verbs) in verbs {
        if let Some(comment) = target.comment() {
            let _ = writeln!(text, "# {comment}");
        }
        let RuleTarget {
            group,
            resource,
            names,
        } = target;
        let _ = write!(
            text,
            "- apiGroups: [{group:?}]\n  resources: [{resource:?}]\n  verbs: [{}]\n",
            list(verbs)
        );
        if !names.is_empty() {
            let _ = writeln!(text, "  resourceNames: [{}]", list(names));
        }
    }
    text + &format!(
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}Binding\nmetadata:\n{metadata}roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {name:?}\nsubjects:\n- kind: ServiceAccount\n  name: {name:?}\n  namespace: {namespace:?}\n---\n"
    )
}

fn list<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    let words = words.into_iter().map(|word| format!("{word:?}"));
    words.collect::<Vec<_>>().join(", ")
}
