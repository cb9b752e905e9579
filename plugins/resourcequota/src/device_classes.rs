//! DeviceClasses that stand for a resource which pods request as they request CPUs.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_sdk::{Failure, Filter, Host};

use crate::objects::DeviceClass;
use crate::pods::DEVICE_CLASS;

/// Which resource each class stands for.
#[derive(Default)]
pub struct DeviceClasses {
    /// By the names of the classes. Each stands for a resource of its own name besides.
    resources: BTreeMap<String, Option<String>>,
    /// Those that they stand for.
    named: BTreeSet<String>,
}

impl DeviceClasses {
    pub fn read(host: &dyn Host) -> Result<Self, Failure> {
        let all: Vec<DeviceClass> = host.list_as(None, &Filter::Everything)?;
        let resources = all.into_iter().map(|class| {
            let resource = class.spec.extended_resource_name;
            (
                class.metadata.name,
                resource.filter(|name| !name.is_empty()),
            )
        });
        let resources: BTreeMap<_, _> = resources.collect();
        let named = resources.values().flatten().cloned().collect();
        Ok(Self { resources, named })
    }

    /// True if a class stands for the resource of this name.
    pub fn stand_for(&self, resource: &str) -> bool {
        let implicit = resource.strip_prefix(DEVICE_CLASS);
        implicit.is_some_and(|class| self.resources.contains_key(class))
            || self.named.contains(resource)
    }

    /// The resource that the class stands for by another name than its own.
    pub fn resource(&self, class: &str) -> Option<&str> {
        self.resources.get(class)?.as_deref()
    }
}
