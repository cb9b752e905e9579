//! `pilothouse rbac`: prints the permissions that the host needs for its plugins, and no more, as
//! YAML for `kubectl apply`.

mod rules;
mod yaml;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use pilothouse_cluster::Identity;
use pilothouse_cluster::discovery::Resource;
use pilothouse_core::{Granted, Grants, Kind, Manifest, Plugin};
use pilothouse_wasm::{Compiler, Engine, EngineOptions, LimitPolicy, load_with};

use crate::cli::RbacArgs;
use crate::compile;
use crate::kinds;
use crate::named_files::named_files;
use crate::settings::{self, GrantSetting};
use rules::{Leases, Named, Names, Rules, Target};
use yaml::Account;

/// A plugin, and what it is granted.
struct Asked {
    name: String,
    manifest: Manifest,
    grants: Grants,
    identity: Option<Identity>,
    /// True if no settings grant it anything and it may therefore read only its own kind.
    is_own_kind: bool,
}

impl Asked {
    /// The account that the plugin acts as, if it has one of its own.
    fn account(&self, args: &RbacArgs) -> Option<Account> {
        let of_plugin = || Account {
            name: format!("{}-{}", args.name, self.name),
            namespace: args.namespace.clone(),
        };
        let own = self.identity.as_ref().map(|identity| Account {
            name: identity.name().to_owned(),
            namespace: identity.namespace().to_owned(),
        });
        own.or_else(|| args.per_plugin.then(of_plugin))
    }
}

pub async fn print(args: &RbacArgs) -> anyhow::Result<String> {
    let engine = Engine::new(&EngineOptions::default())?;
    let compiler = compile::compiler(None);
    let (files, problems) = named_files(&args.files);
    if !problems.is_empty() {
        anyhow::bail!("{}", problems.join("\nerror: "));
    }
    let mut asked = Vec::new();
    for file in &files {
        let read = || read(&engine, &compiler, file, args.as_requested);
        asked.push(read().with_context(|| format!("{}", file.display()))?);
    }
    let all = asked.iter().flat_map(|one| rules::targets(&one.manifest));
    let optional = asked.iter().flat_map(|one| &one.manifest.optional);
    let optional: BTreeSet<Kind> = optional.cloned().collect();
    let names = names(args, all.collect(), &optional).await?;
    for one in &mut asked {
        let is_cluster_scoped = |target: &Target| !names[target].is_namespaced;
        let targets = rules::targets(&one.manifest).filter(is_cluster_scoped);
        one.grants.cluster_scoped = targets.map(|(kind, _)| kind).collect();
    }
    let documents = documents(args, &asked, &names)?;
    Ok(comments(&asked, &names) + &documents.join("---\n"))
}

/// The comment above the documents: which names are guessed, and which plugins were granted
/// nothing.
fn comments(asked: &[Asked], names: &Names) -> String {
    let mut text = String::new();
    if names.values().any(|named| named.is_guessed) {
        text += "# The names of resources are guessed from their kinds. With --kubeconfig or --context a cluster is asked.\n";
    }
    for one in asked.iter().filter(|one| one.is_own_kind) {
        let name = &one.name;
        text += &format!(
            "# No settings grant {name} anything: it may read its own kind. --as-requested prints what it asks for.\n"
        );
    }
    text
}

/// The objects, in an order in which each can be created. What the plugins add is in roles of their
/// own, so that they can stand beside what the host needs by itself.
fn documents(args: &RbacArgs, asked: &[Asked], names: &Names) -> anyhow::Result<Vec<String>> {
    let host = Account {
        name: args.name.clone(),
        namespace: args.namespace.clone(),
    };
    let mut for_plugins = Rules::default();
    let mut documents = namespaces(args, asked)?;
    for one in asked {
        let rules = Rules::of(&one.manifest, &one.grants, names);
        for_plugins.add(Rules::of_events(&one.grants));
        if let Some(own) = one.account(args) {
            for_plugins.impersonate(&own.name, &own.namespace);
            for_plugins.add(rules.reads());
            documents.extend(yaml::documents(&own, &rules.of_account())?);
        } else {
            for_plugins.add(rules);
        }
    }
    if !args.plugins_only {
        let own = Rules::of_host(&args.namespace, &leases(args));
        documents.extend(yaml::documents(&host, &own)?);
    }
    let role = format!("{}:plugins", args.name);
    documents.extend(yaml::roles(&host, &role, &for_plugins)?);
    Ok(documents)
}

/// The namespaces of all accounts that are printed, but for those that every cluster has.
fn namespaces(args: &RbacArgs, asked: &[Asked]) -> anyhow::Result<Vec<String>> {
    let accounts = asked.iter().filter_map(|one| one.account(args));
    let mut namespaces: BTreeSet<String> = accounts.map(|account| account.namespace).collect();
    match args.plugins_only {
        true => namespaces.remove(&args.namespace),
        false => namespaces.insert(args.namespace.clone()),
    };
    let missing = namespaces.iter().filter(|name| !yaml::is_everywhere(name));
    missing.map(|name| yaml::namespace(name)).collect()
}

fn leases(args: &RbacArgs) -> Leases {
    match args.share {
        true => Leases::All,
        false => Leases::One(args.leader_elect_resource_name.clone()),
    }
}

/// What a file asks for, and what the settings beside it grant. Without grants in them the plugin
/// gets what `pilothouse run` gives it, or all it asks for if `is_as_requested`.
fn read(
    engine: &Engine,
    compiler: &Compiler,
    file: &Path,
    is_as_requested: bool,
) -> anyhow::Result<Asked> {
    let bytes = std::fs::read(file).context("cannot read the file")?;
    let plugin = load_with(compiler, engine, &bytes, &LimitPolicy::default())?;
    let settings = settings::beside(file)?;
    let name = settings.name_of(plugin.manifest());
    let unsaid = match is_as_requested {
        true => GrantSetting::AsRequested,
        false => GrantSetting::OwnKind,
    };
    let is_said = settings.grants.is_some();
    let grants = settings.grants.unwrap_or(unsaid);
    Ok(Asked {
        is_own_kind: !is_said && !is_as_requested,
        name,
        manifest: plugin.manifest().clone(),
        grants: Grants {
            what: Granted::from(grants),
            namespaces: settings.namespaces.unwrap_or_default(),
            ..Grants::default()
        },
        identity: settings.identity,
    })
}

/// The names of resources: those of the cluster if one is named and serves them, guesses otherwise.
/// It must serve all but the optional kinds.
async fn names(
    args: &RbacArgs,
    targets: BTreeSet<Target>,
    optional: &BTreeSet<Kind>,
) -> anyhow::Result<Names> {
    let Some(cluster) = args.cluster.named() else {
        let guessed = targets.iter().map(Named::guess);
        return Ok(targets.iter().cloned().zip(guessed).collect());
    };
    let discovery = kinds::of(&cluster).await?;
    let ask = async |(kind, subresource): &Target| {
        if kind.is_pattern() {
            return Ok(None);
        }
        match discovery.resolve_write(kind, subresource.as_deref()).await {
            Err(error) if error.is_absence() && optional.contains(kind) => Ok(None),
            resource => resource.map(Some),
        }
    };
    Ok(served(targets, ask).await?)
}

/// The names of the resources that a cluster serves for these targets. Where it serves none, a
/// guess.
async fn served<E>(
    targets: BTreeSet<Target>,
    ask: impl AsyncFn(&Target) -> Result<Option<Arc<Resource>>, E>,
) -> Result<Names, E> {
    let mut names = Names::new();
    for target in targets {
        let resource = ask(&target).await?;
        let guess = || Named::guess(&target);
        let named = resource.map_or_else(guess, |resource| Named::of(&resource));
        names.insert(target, named);
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use pilothouse_core::Kind;

    use super::*;

    #[tokio::test]
    async fn a_cluster_is_asked_for_the_objects_whose_subresource_is_written() {
        let body = |group, kind, part: &str| (Kind::new(group, "v1", kind), Some(part.to_owned()));
        let eviction = body("policy", "Eviction", "eviction");
        let binding = body("", "Binding", "binding");
        let pods = Arc::new(Resource {
            kind: Kind::new("", "v1", "Pod"),
            plural: "pods".to_owned(),
            is_namespaced: true,
            verbs: vec![],
            subresources: vec![],
        });
        let ask = async |target: &Target| match target.1.as_deref() {
            Some("eviction" | "binding") => Ok(Some(pods.clone())),
            _ => Err(target.clone()),
        };
        let targets = BTreeSet::from([eviction.clone(), binding.clone()]);
        let names = served(targets, ask).await.unwrap();
        for target in [eviction, binding] {
            let named = &names[&target];
            assert_eq!((&*named.group, &*named.plural), ("", "pods"));
            assert_eq!(
                Named {
                    is_guessed: true,
                    ..named.clone()
                },
                Named::guess(&target)
            );
        }
    }
}
