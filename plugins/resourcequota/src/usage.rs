//! What a quota's objects use, added up.

use std::time::Duration;

use pilothouse_sdk::{Failure, Host, Quantity, fnv32a};

use crate::memo::Marks;
use crate::objects::QuotaSpec;
use crate::resources::{Resources, add, filtered};
use crate::scopes::Scopes;
use crate::{claims, counts, device_claims, pods, services};

/// Objects that are read at once, so that a list of any length fits into the memory.
pub const PAGE: std::num::NonZeroU32 = std::num::NonZeroU32::new(500).expect("it is not zero");

/// What one object uses of what is limited.
#[derive(Default)]
pub struct Usage {
    amounts: Resources,
    /// The same as a text, by which an object that uses something else is told from before.
    text: String,
}

/// What is counted for one quota, and where.
pub struct Tally<'a> {
    pub host: &'a dyn Host,
    pub namespace: &'a str,
    pub scopes: Scopes,
    pub now: Duration,
    hard: &'a Resources,
    /// The sums of what is limited and can be counted.
    pub used: Resources,
    /// One mark for each object that uses something.
    pub marks: Marks,
    /// How many objects were looked at.
    pub objects: usize,
    /// When an object will use something else although nothing changes, as a time since 1970.
    pub next_change: Option<Duration>,
    /// Why something is limited that cannot be counted now.
    pub uncounted: Vec<String>,
}

impl<'a> Tally<'a> {
    /// Counts everything that the quota limits. What it does not limit is not read.
    pub fn of(
        host: &'a dyn Host,
        namespace: &'a str,
        quota: &'a QuotaSpec,
    ) -> Result<Self, Failure> {
        let mut tally = Self {
            host,
            namespace,
            scopes: Scopes::of(quota),
            now: host.now(),
            hard: &quota.hard,
            used: Resources::new(),
            marks: Marks::default(),
            objects: 0,
            next_change: None,
            uncounted: Vec::new(),
        };
        pods::count(&mut tally)?;
        services::count(&mut tally)?;
        claims::count(&mut tally)?;
        device_claims::count(&mut tally)?;
        counts::count(&mut tally)?;
        Ok(tally)
    }

    /// The names of what is limited.
    pub fn limited(&self) -> impl Iterator<Item = &'a str> {
        self.hard.keys().map(String::as_str)
    }

    /// Begins to count, from zero, what is limited under these names. False: nothing is.
    pub fn begin(&mut self, is_counted: impl Fn(&str) -> bool) -> bool {
        let names: Vec<&str> = self.limited().filter(|name| is_counted(name)).collect();
        for name in &names {
            self.used.entry((*name).to_owned()).or_default();
        }
        !names.is_empty()
    }

    /// What is limited of what an object uses.
    pub fn limited_part(&self, usage: &Resources) -> Usage {
        let amounts = filtered(usage, |name| self.hard.contains_key(name));
        let texts = amounts
            .iter()
            .map(|(name, amount)| format!(" {name}={amount}"));
        Usage {
            text: texts.collect(),
            amounts,
        }
    }

    /// Adds what an object of this kind uses, as far as it is limited.
    pub fn add(&mut self, kind: &str, uid: &str, usage: &Resources) {
        let usage = self.limited_part(usage);
        self.add_part(kind, uid, &usage);
    }

    /// Adds what is limited of what an object of this kind uses.
    pub fn add_part(&mut self, kind: &str, uid: &str, usage: &Usage) {
        if usage.amounts.is_empty() {
            return;
        }
        add(&mut self.used, &usage.amounts);
        let mark = format!("{kind} {uid}{}", usage.text);
        self.marks.put(fnv32a(mark.as_bytes()));
    }

    /// At this time an object will use something else.
    pub fn changes_at(&mut self, time: Duration) {
        let next = self.next_change.map_or(time, |next| next.min(time));
        self.next_change = Some(next);
    }
}

/// So many objects.
pub fn number(count: usize) -> Quantity {
    Quantity::from(i64::try_from(count).unwrap_or(i64::MAX))
}
