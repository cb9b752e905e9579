//! Accounts, roles and bindings as YAML documents.

use std::collections::BTreeSet;

use anyhow::Context;
use k8s_openapi::Resource;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use super::rules::{RuleTarget, Rules, Verbs};

/// A service account.
pub struct Account {
    pub name: String,
    pub namespace: String,
}

impl Account {
    fn subject(&self) -> Subject {
        Subject {
            kind: ServiceAccount::KIND.to_owned(),
            name: self.name.clone(),
            namespace: Some(self.namespace.clone()),
            ..Subject::default()
        }
    }
}

/// The account, with roles of its name.
pub fn documents(account: &Account, rules: &Rules) -> anyhow::Result<Vec<String>> {
    let mut documents = vec![document(&ServiceAccount {
        metadata: metadata(&account.name, &account.namespace),
        ..ServiceAccount::default()
    })?];
    documents.extend(roles(account, &account.name, rules)?);
    Ok(documents)
}

/// A role of this name and a binding for each namespace (or the cluster) in which the account has
/// permissions.
pub fn roles(account: &Account, name: &str, rules: &Rules) -> anyhow::Result<Vec<String>> {
    let mut documents = Vec::new();
    for (namespace, verbs) in &rules.0 {
        documents.extend(role(account, name, namespace, verbs)?);
    }
    Ok(documents)
}

/// True for the namespaces that every cluster has.
pub fn is_everywhere(namespace: &str) -> bool {
    namespace == "default" || namespace.starts_with("kube-")
}

pub fn namespace(name: &str) -> anyhow::Result<String> {
    document(&Namespace {
        metadata: metadata(name, ""),
        ..Namespace::default()
    })
}

/// A role and its binding: in a namespace, or in the whole cluster if that is empty.
fn role(
    account: &Account,
    name: &str,
    namespace: &str,
    verbs: &Verbs,
) -> anyhow::Result<[String; 2]> {
    let metadata = metadata(name, namespace);
    let rules = Some(verbs.iter().map(rule).collect());
    let subjects = Some(vec![account.subject()]);
    let (role, binding) = if namespace.is_empty() {
        let role = document(&ClusterRole {
            aggregation_rule: None,
            metadata: metadata.clone(),
            rules,
        });
        let binding = document(&ClusterRoleBinding {
            metadata,
            role_ref: role_ref::<ClusterRole>(name),
            subjects,
        });
        (role, binding)
    } else {
        let role = document(&Role {
            metadata: metadata.clone(),
            rules,
        });
        let binding = document(&RoleBinding {
            metadata,
            role_ref: role_ref::<Role>(name),
            subjects,
        });
        (role, binding)
    };
    Ok([comments(verbs) + &role?, binding?])
}

fn role_ref<R: Resource>(name: &str) -> RoleRef {
    RoleRef {
        api_group: Some(R::GROUP.to_owned()),
        kind: R::KIND.to_owned(),
        name: name.to_owned(),
    }
}

fn rule((target, verbs): (&RuleTarget, &BTreeSet<String>)) -> PolicyRule {
    let names: Vec<String> = target.names.iter().cloned().collect();
    PolicyRule {
        api_groups: Some(vec![target.group.clone()]),
        resources: Some(vec![target.resource.clone()]),
        resource_names: (!names.is_empty()).then_some(names),
        verbs: verbs.iter().cloned().collect(),
        non_resource_urls: None,
    }
}

/// The comments on a role's rules, which stand above the role: typed YAML has none inside.
fn comments(verbs: &Verbs) -> String {
    let comments = verbs.keys().filter_map(|target| {
        let comment = target.comment()?;
        Some(format!("# {comment}: {}\n", target.resource))
    });
    comments.collect()
}

fn metadata(name: &str, namespace: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        ..ObjectMeta::default()
    }
}

fn document(object: &impl Serialize) -> anyhow::Result<String> {
    serde_saphyr::to_string(object).context("cannot print an object as YAML")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: &str = r#"apiVersion: v1
kind: ServiceAccount
metadata:
  name: host
  namespace: "on"
---
# For owner references with blockOwnerDeletion, where OwnerReferencesPermissionEnforcement is on: pods/finalizers
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: host
  namespace: "1e3"
rules:
- apiGroups:
  - ""
  resourceNames:
  - a
  resources:
  - pods
  verbs:
  - get
  - list
- apiGroups:
  - ""
  resources:
  - pods/finalizers
  verbs:
  - update
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: host
  namespace: "1e3"
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: host
subjects:
- kind: ServiceAccount
  name: host
  namespace: "on"
"#;

    #[test]
    fn a_role_is_yaml_as_people_write_it_with_its_comments_above() {
        let account = Account {
            name: "host".into(),
            namespace: "on".into(),
        };
        let target = |resource: &str, names: &[&str]| RuleTarget {
            group: String::new(),
            resource: resource.into(),
            names: names.iter().map(ToString::to_string).collect(),
        };
        let verbs = Verbs::from([
            (target("pods", &["a"]), ["get".into(), "list".into()].into()),
            (target("pods/finalizers", &[]), ["update".into()].into()),
        ]);
        let rules = Rules([("1e3".to_owned(), verbs)].into());
        let text = documents(&account, &rules).unwrap().join("---\n");
        assert_eq!(text, WANTED);
    }

    #[test]
    fn a_name_that_yaml_would_read_as_something_else_is_quoted() {
        for name in [
            "true",
            "null",
            "on",
            "n",
            "1e3",
            "123",
            "0x1f",
            "0b1",
            "0o7",
            "1.5",
            "2001-01-01",
        ] {
            let text = namespace(name).unwrap();
            assert!(text.contains(&format!("name: \"{name}\"")), "{text}");
        }
    }
}
