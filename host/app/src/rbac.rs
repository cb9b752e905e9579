//! `pilothouse rbac`: prints the permissions that the host needs for its plugins, and no more, as
//! YAML for `kubectl apply`.

mod rules;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use pilothouse_cluster::Identity;
use pilothouse_core::{Granted, Grants, Kind, Manifest, Plugin};
use pilothouse_wasm::{Compiler, Engine, EngineOptions, LimitPolicy, load_with};

use crate::compile;
use crate::config::RbacArgs;
use crate::kinds;
use crate::settings::{self, GrantSetting};
use rules::{Named, Rules};
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
    let mut asked = Vec::new();
    for file in &args.files {
        let read = || read(&engine, &compiler, file, args.as_requested);
        asked.push(read().with_context(|| format!("{}", file.display()))?);
    }
    let named: BTreeSet<&Kind> = asked.iter().flat_map(|one| one.manifest.kinds()).collect();
    let names = names(args, &named).await?;
    for one in &mut asked {
        let kinds = one.manifest.kinds().into_iter().cloned();
        let has_none = |kind: &Kind| names.get(kind).is_some_and(|named| !named.is_namespaced);
        one.grants.cluster_scoped = kinds.filter(has_none).collect();
    }
    let host = Account {
        name: args.name.clone(),
        namespace: args.namespace.clone(),
    };
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
    let mut all = Rules::of_host();
    let accounts = asked.iter().filter_map(|one| one.account(args));
    let namespaces = accounts.map(|account| account.namespace);
    let namespaces: BTreeSet<String> = namespaces.chain([host.namespace.clone()]).collect();
    text.extend(namespaces.iter().map(|name| yaml::namespace(name)));
    for one in &asked {
        let rules = Rules::of(&one.manifest, &one.grants, &names);
        if let Some(own) = one.account(args) {
            all.impersonate(&own.name, &own.namespace);
            text += &yaml::documents(&own, &rules);
            all.add(rules.reads());
        } else {
            all.add(rules);
        }
    }
    Ok(text + yaml::documents(&host, &all).trim_end())
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

/// The names of resources: those of the cluster if one is named, guesses otherwise.
async fn names(args: &RbacArgs, kinds: &BTreeSet<&Kind>) -> anyhow::Result<BTreeMap<Kind, Named>> {
    let mut names = BTreeMap::new();
    let Some(cluster) = args.cluster.named() else {
        names.extend(
            kinds
                .iter()
                .map(|kind| ((*kind).clone(), Named::guess(kind))),
        );
        return Ok(names);
    };
    let discovery = kinds::of(&cluster).await?;
    for kind in kinds {
        let resource = discovery.resolve(kind).await?;
        let named = Named {
            plural: resource.plural.clone(),
            is_namespaced: resource.is_namespaced,
            is_guessed: false,
        };
        names.insert((*kind).clone(), named);
    }
    Ok(names)
}
