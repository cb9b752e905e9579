//! PersistentVolumeClaims: how many there are, and how much storage they request, in all and of
//! each storage class.

use pilothouse_sdk::{Failure, Filter, Kind, Quantity};

use crate::objects::{Claim, ScopeExpression};
use crate::resources::Resources;
use crate::scopes::InvalidScope;
use crate::usage::{Tally, number};

const COUNT: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
/// What stands between the name of a storage class and what is limited of it.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// Counts the claims of the scope, which can only be that of their VolumeAttributesClass.
pub fn count(tally: &mut Tally) -> Result<(), Failure> {
    if !tally.begin(is_counted) {
        return Ok(());
    }
    let all: Vec<Claim> = tally
        .host
        .list_as(Some(tally.namespace), &Filter::Everything)?;
    tally.objects += all.len();
    for claim in all {
        match tally.scopes.hold(|scope| holds(scope, &claim)) {
            Ok(true) => tally.add(Claim::KIND, &claim.metadata.always.uid, &usage(&claim)),
            Ok(false) => {}
            Err(InvalidScope) => break,
        }
    }
    Ok(())
}

fn is_counted(name: &str) -> bool {
    let is_of_class = |what: &str| {
        let class = name.strip_suffix(what);
        class.is_some_and(|class| class.ends_with(OF_CLASS))
    };
    matches!(name, COUNT | CLAIMS | STORAGE) || is_of_class(CLAIMS) || is_of_class(STORAGE)
}

fn usage(claim: &Claim) -> Resources {
    let mut usage = Resources::new();
    let mut put = |name: &str, amount| usage.insert(name.to_owned(), amount);
    put(COUNT, number(1));
    let beta = claim.metadata.annotations.storage_class.as_ref();
    let class = beta.or(claim.spec.storage_class_name.as_ref());
    let class = class.filter(|class| !class.is_empty());
    let storage = storage(claim).map(|amount| (STORAGE, amount));
    for (what, amount) in [Some((CLAIMS, number(1))), storage].into_iter().flatten() {
        put(what, amount);
        if let Some(class) = class {
            put(&format!("{class}{OF_CLASS}{what}"), amount);
        }
    }
    usage
}

/// What the claim requests, or what is allocated to it if that is more, in whole bytes: what has a
/// fraction could not be a quota's.
fn storage(claim: &Claim) -> Option<Quantity> {
    let requested = claim.spec.resources.requests.get("storage")?;
    let allocated = claim.status.allocated_resources.get("storage");
    let most = allocated.filter(|allocated| *allocated > requested);
    Some(whole(*most.unwrap_or(requested)))
}

/// Rounded up, if it has a fraction.
fn whole(amount: Quantity) -> Quantity {
    let rounded = Quantity::from(amount.value());
    if rounded == amount { amount } else { rounded }
}

/// True if the scope holds of the claim. It has up to three classes while it is changed from one to
/// another; any of them will do.
fn holds(scope: &ScopeExpression, claim: &Claim) -> Result<bool, InvalidScope> {
    if scope.scope_name != "VolumeAttributesClass" {
        return Ok(false);
    }
    let status = &claim.status;
    let names = [
        claim.spec.volume_attributes_class_name.as_deref(),
        status.current_volume_attributes_class_name.as_deref(),
        Some(
            &*status
                .modify_volume_status
                .target_volume_attributes_class_name,
        ),
    ];
    let names: Vec<&str> = names
        .into_iter()
        .flatten()
        .filter(|name| !name.is_empty())
        .collect();
    if names.is_empty() {
        return scope.selects(None);
    }
    let mut selected = false;
    for name in names {
        selected |= scope.selects(Some(name))?;
    }
    Ok(selected)
}
