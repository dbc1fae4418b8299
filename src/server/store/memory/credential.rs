//! Credentials in memory.

use perilune_proto::lease::Moment;
use perilune_proto::scalar::Name;

use super::super::frozen::timestamp;
use super::super::{
    Answer, CredentialId, CredentialRecord, Credentials, NewCredential, Principal, Resource, Rotation, SecretHash,
    StoreError, fresh,
};
use super::state::{Held, State};
use super::{MemoryStore, Times};

impl Credentials for MemoryStore {
    fn create_credential(&self, new: NewCredential) -> Answer<'_, CredentialRecord> {
        self.ask(|state, times| {
            if state.live(&new.name).is_ok() {
                return Err(StoreError::NameTaken);
            }
            let expires = new.expires_in.map(|wait| times.wall.plus(wait));
            let record = CredentialRecord {
                credential_id: CredentialId::from_u128(fresh::id()),
                name: new.name,
                queues: new.queues,
                scopes: new.scopes,
                created_at: timestamp(times.wall),
                expires_at: expires.map(timestamp),
                revoked_at: None,
                overlap_until: None,
            };
            state.credentials.push(Held { record: record.clone(), expires, secrets: vec![(new.secret, None)] });
            Ok(record)
        })
    }

    fn credentials(&self) -> Answer<'_, Vec<CredentialRecord>> {
        self.ask(|state, times| {
            let mut records: Vec<_> = state.credentials.iter().map(|held| held.shown(times)).collect();
            records.sort_by(|a, b| (&a.name, a.credential_id).cmp(&(&b.name, b.credential_id)));
            Ok(records)
        })
    }

    fn rotate_credential(&self, rotation: Rotation) -> Answer<'_, CredentialRecord> {
        self.ask(move |state, times| {
            let held = state.live(&rotation.name)?;
            held.secrets.retain(|(_, end)| end.is_none_or(|end| end > times.wall));
            for (_, end) in &mut held.secrets {
                end.get_or_insert(times.wall.plus(rotation.overlap));
            }
            held.secrets.push((rotation.secret, None));
            Ok(held.shown(times))
        })
    }

    fn revoke_credential(&self, name: Name) -> Answer<'_, CredentialRecord> {
        self.ask(|state, times| {
            let held = state.live(&name)?;
            held.record.revoked_at = Some(timestamp(times.wall));
            held.secrets.clear();
            Ok(held.shown(times))
        })
    }

    fn authenticate(&self, presented: SecretHash) -> Answer<'_, Option<Principal>> {
        self.ask(move |state, times| Ok(state.principal(presented, times)))
    }
}

impl State {
    /// The credential of that name that isn't revoked.
    fn live(&mut self, name: &Name) -> Result<&mut Held, StoreError> {
        let mut held = self.credentials.iter_mut();
        held.find(|held| held.record.name == *name && held.record.revoked_at.is_none())
            .ok_or(StoreError::NotFound(Resource::Credential))
    }

    pub(super) fn principal(&self, presented: SecretHash, times: Times) -> Option<Principal> {
        let ends_later = |end: Option<Moment>| end.is_none_or(|end| end > times.wall);
        self.credentials.iter().filter(|held| ends_later(held.expires)).find_map(|held| {
            let (_, end) = held.secrets.iter().find(|(hash, end)| *hash == presented && ends_later(*end))?;
            Some(Principal {
                credential_id: held.record.credential_id,
                name: held.record.name.clone(),
                queues: held.record.queues.clone(),
                scopes: held.record.scopes,
                expires_at: [*end, held.expires].into_iter().flatten().min().map(timestamp),
            })
        })
    }

    /// Whether the credential was revoked or has expired.
    pub(super) fn is_over(&self, credential_id: CredentialId, wall: Moment) -> bool {
        let mut held = self.credentials.iter().filter(|held| held.record.credential_id == credential_id);
        held.any(|held| held.record.revoked_at.is_some() || held.expires.is_some_and(|end| end <= wall))
    }

    pub(super) fn is_revoked(&self, credential_id: CredentialId) -> bool {
        let mut held = self.credentials.iter();
        held.any(|held| held.record.credential_id == credential_id && held.record.revoked_at.is_some())
    }
}

impl Held {
    fn shown(&self, times: Times) -> CredentialRecord {
        let ends = self.secrets.iter().filter_map(|(_, end)| *end).filter(|end| *end > times.wall);
        CredentialRecord { overlap_until: ends.max().map(timestamp), ..self.record.clone() }
    }
}
