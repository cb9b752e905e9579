//! The group's Leases at the API server: every request is done at one instant.

use std::collections::BTreeMap;

use crate::model::key::ResourceVersion;
use crate::sharing::records::{LeaseVersion, MemberId, Record, StoredRecord};
use crate::sharing::requests::{SharingAnswer, SharingCall};

#[derive(Default)]
pub struct Server {
    revision: u64,
    pub members: BTreeMap<MemberId, StoredRecord>,
    pub assignment: Option<StoredRecord>,
}

impl Server {
    pub fn execute(&mut self, call: &SharingCall) -> SharingAnswer {
        match call {
            SharingCall::List => {
                let members = self.members.values();
                SharingAnswer::Listed(self.assignment.iter().chain(members).cloned().collect())
            }
            SharingCall::Create(record) => self.create(record),
            SharingCall::Update(record, version) => self.update(record, version),
            SharingCall::Delete(id, version) => match self.members.get(id) {
                None => SharingAnswer::NotFound,
                Some(stored) if stored.version != *version => SharingAnswer::Conflict,
                Some(_) => {
                    self.delete(id);
                    SharingAnswer::Deleted
                }
            },
        }
    }

    /// What a person does with kubectl.
    pub fn delete(&mut self, id: &MemberId) {
        self.revision += 1;
        self.members.remove(id);
    }

    fn create(&mut self, record: &Record) -> SharingAnswer {
        if self.get(record).is_some() {
            return SharingAnswer::AlreadyExists;
        }
        let uid = format!("uid-{}", self.revision + 1);
        self.store(record, uid.as_str().into())
    }

    fn update(&mut self, record: &Record, version: &LeaseVersion) -> SharingAnswer {
        match self.get(record) {
            None => SharingAnswer::NotFound,
            Some(stored) if stored.version != *version => SharingAnswer::Conflict,
            // As the API server does: what changes nothing is not stored.
            Some(stored) if stored.record == *record => SharingAnswer::Written(stored.clone()),
            Some(_) => self.store(record, version.uid.clone()),
        }
    }

    fn get(&self, record: &Record) -> Option<&StoredRecord> {
        match record {
            Record::Member(record) => self.members.get(&record.id),
            Record::Assignment(_) => self.assignment.as_ref(),
        }
    }

    fn store(&mut self, record: &Record, uid: std::sync::Arc<str>) -> SharingAnswer {
        self.revision += 1;
        let stored = StoredRecord {
            version: LeaseVersion {
                uid,
                resource_version: ResourceVersion::new(&self.revision.to_string()),
            },
            record: record.clone(),
        };
        match record {
            Record::Member(record) => {
                self.members.insert(record.id.clone(), stored.clone());
            }
            Record::Assignment(_) => self.assignment = Some(stored.clone()),
        }
        SharingAnswer::Written(stored)
    }
}
