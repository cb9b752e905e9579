//! ResourceClaims: how many there are, and how many devices of each class they may take.

use std::collections::BTreeMap;

use pilothouse_sdk::{Failure, Filter, Kind, ObjectRef, Quantity};

use crate::device_classes::DeviceClasses;
use crate::objects::{DeviceClaim, Owner, SubRequest};
use crate::pod_objects::Pod;
use crate::pods::{self, DEVICE_CLASS, is_extended};
use crate::resources::Resources;
use crate::usage::{Tally, number};

const COUNT: &str = "count/resourceclaims.resource.k8s.io";
/// What stands behind the name of a class, where the devices that claims ask for are limited.
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
const REQUESTS: &str = "requests.";
/// Most devices that a claim can be given, which is what one may take that asks for all.
const MOST_DEVICES: i64 = 32;

/// Counts the claims. None has a scope.
pub fn count(tally: &mut Tally) -> Result<(), Failure> {
    let classes = if tally.limited().any(is_extended) {
        DeviceClasses::read(tally.host)?
    } else {
        DeviceClasses::default()
    };
    let is_of_class = |name: &str| {
        let resource = name.strip_prefix(REQUESTS).filter(|_| is_extended(name));
        resource.is_some_and(|resource| classes.stand_for(resource))
    };
    let is_counted = |name: &str| name == COUNT || name.ends_with(DEVICES) || is_of_class(name);
    if !tally.begin(is_counted) || !tally.scopes.are_none() {
        return Ok(());
    }
    let all: Vec<DeviceClaim> = tally
        .host
        .list_as(Some(tally.namespace), &Filter::Everything)?;
    tally.objects += all.len();
    for claim in &all {
        let mut usage = usage(claim);
        let of_pod = pod_usage(tally, claim, &all)?;
        add_extended(&mut usage, &classes, &of_pod);
        tally.add(DeviceClaim::KIND, &claim.metadata.always.uid, &usage);
    }
    Ok(())
}

fn usage(claim: &DeviceClaim) -> Resources {
    let mut usage = Resources::from([(COUNT.to_owned(), number(1))]);
    for request in &claim.spec.devices.requests {
        for (class, devices) in most_devices(&request.first_available, request.exactly.as_ref()) {
            *usage.entry(format!("{class}{DEVICES}")).or_default() += Quantity::from(devices);
        }
    }
    usage
}

/// The devices of each class that a request may take: of alternatives, of each class the most.
fn most_devices<'a>(
    first_available: &'a [SubRequest],
    exactly: Option<&'a SubRequest>,
) -> BTreeMap<&'a str, i64> {
    if first_available.is_empty() {
        let exactly = exactly.map(|exactly| (&*exactly.device_class_name, devices(exactly)));
        return exactly.into_iter().collect();
    }
    let mut most = BTreeMap::new();
    for request in first_available {
        let devices = devices(request);
        if devices > 0 {
            let of_class = most.entry(&*request.device_class_name).or_insert(devices);
            *of_class = devices.max(*of_class);
        }
    }
    most
}

/// A way of allocation that is not known yet counts for nothing.
fn devices(request: &SubRequest) -> i64 {
    match request.allocation_mode.as_str() {
        "ExactCount" => request.count,
        "All" => MOST_DEVICES,
        _ => 0,
    }
}

/// Adds the devices under the names of the resources that their classes stand for, but for those
/// that the claim's pod is charged with already.
fn add_extended(usage: &mut Resources, classes: &DeviceClasses, of_pod: &Resources) {
    let mut extended = Resources::new();
    for (name, devices) in &*usage {
        let Some(class) = name.strip_suffix(DEVICES).filter(|class| !class.is_empty()) else {
            continue;
        };
        extended.insert(format!("{REQUESTS}{DEVICE_CLASS}{class}"), *devices);
        if let Some(resource) = classes.resource(class) {
            extended.insert(format!("{REQUESTS}{resource}"), *devices);
        }
    }
    for (name, mut devices) in extended {
        devices -= of_pod.get(&name).copied().unwrap_or_default();
        if devices > Quantity::default() {
            usage.insert(name, devices);
        }
    }
}

/// What the pod is charged with for which the scheduler has made this claim. Nothing, if it was
/// made for no pod, or if the pod has another one.
fn pod_usage(
    tally: &Tally,
    claim: &DeviceClaim,
    all: &[DeviceClaim],
) -> Result<Resources, Failure> {
    let Some(owner) = pod_of(claim).filter(|_| tally.limited().any(is_extended)) else {
        return Ok(Resources::new());
    };
    let key = ObjectRef::new(Pod::KIND, tally.namespace, &owner.name);
    let pod = tally.host.get::<Pod>(&key)?;
    let Some(pod) = pod.filter(|pod| pod.metadata.uid == owner.uid) else {
        return Ok(Resources::new());
    };
    let is_own = match &pod.status.extended_resource_claim_status {
        Some(status) => status.resource_claim_name == claim.metadata.always.name,
        None => is_first(claim, owner, all),
    };
    Ok(if is_own {
        pods::usage_at(&pod, tally.now)
    } else {
        Resources::new()
    })
}

/// The pod for which the scheduler has made the claim.
fn pod_of(claim: &DeviceClaim) -> Option<&Owner> {
    if claim.metadata.annotations.extended_resource_claim != "true" {
        return None;
    }
    let mut owners = claim.metadata.owner_references.iter();
    let controller = owners.find(|owner| owner.controller)?;
    let is_pod = controller.kind == "Pod" && controller.api_version == "v1";
    is_pod.then_some(controller)
}

/// True if none of the claims of the same pod is older.
fn is_first(claim: &DeviceClaim, owner: &Owner, all: &[DeviceClaim]) -> bool {
    let age = |claim: &DeviceClaim| {
        let metadata = &claim.metadata;
        let created = metadata.creation_timestamp.unwrap_or_default();
        (created.0, metadata.always.name.clone())
    };
    let mut others = all.iter().filter(|other| {
        let of_other = pod_of(other);
        of_other.is_some_and(|of_other| of_other.uid == owner.uid)
    });
    others.all(|other| age(claim) <= age(other))
}
