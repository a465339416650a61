//! The bulk of an operation: its manifest, values and objects. An operation that waits does not keep it.
//!
//! A small record is kept compressed, so that most operations read nothing again. A larger one is read from its Secret
//! when the operation goes on.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::Parts;
use crate::reconcile::Error;
use crate::reconcile::records::Records;
use crate::reconcile::records::manifest_cache::LONGEST;
use crate::reconcile::records::parsed::parts_in;
use crate::reconcile::records::planned::plan_of;
use crate::reconcile::state::{Bulk, Running};
use crate::release::Record;
use crate::storage::Stored;

/// Compressed bytes that one waiting operation may keep.
const MOST: usize = 24 << 10;
/// A record that takes more to work with is not even compressed: most of it may be other texts than the manifest.
const HEAVIEST: usize = 16 << 20;
/// The best of the quick levels: most of a manifest repeats itself.
const LEVEL: i32 = 3;

/// What a record holds beside its private part, and the bodies of the definitions in that, in their order.
#[derive(Serialize, Deserialize)]
struct Whole {
    record: Record,
    definitions: Vec<Option<Value>>,
}

impl Whole {
    fn of(stored: &Stored) -> Self {
        let shipped = stored.private.iter().flat_map(|private| &private.definitions);
        let definitions = shipped.map(|shipped| shipped.body.clone()).collect();
        Self { record: stored.record.clone(), definitions }
    }

    /// Puts it back. What happened to the private part meanwhile stays.
    fn restore(self, stored: &mut Stored) {
        stored.refill(self.record);
        restore_definitions(stored, self.definitions);
    }
}

fn restore_definitions(stored: &mut Stored, bodies: Vec<Option<Value>>) {
    let shipped = stored.private.iter_mut().flat_map(|private| &mut private.definitions);
    for (shipped, body) in shipped.zip(bodies) {
        shipped.body = body;
    }
}

impl Bulk {
    /// The bulk of a record that is about to be lightened.
    fn of(stored: &Stored) -> Self {
        if stored.weight > HEAVIEST || stored.record.manifest.len() > LONGEST {
            return Self::InRecord;
        }
        let Ok(json) = serde_json::to_vec(&Whole::of(stored)) else { return Self::InRecord };
        let Ok(mut bytes) = zstd::bulk::compress(&json, LEVEL) else { return Self::InRecord };
        // It has room for what cannot be compressed.
        bytes.shrink_to_fit();
        if bytes.len() > MOST {
            return Self::InRecord;
        }
        Self::Packed { bytes, length: json.len() }
    }

    fn whole(&self) -> Option<Whole> {
        let Self::Packed { bytes, length } = self else { return None };
        let json = zstd::bulk::decompress(bytes, *length).ok()?;
        serde_json::from_slice(&json).ok()
    }
}

/// Puts the bulk of an operation away, which is about to wait.
pub(in crate::reconcile) fn pack(running: &mut Running) {
    if !matches!(running.bulk, Bulk::Here) {
        return;
    }
    running.bulk = Bulk::of(&running.stored);
    running.stored.lighten();
    if !running.stored.carries_all() {
        running.bulk = Bulk::InRecord;
    }
    running.parts = Parts::default();
    if matches!(running.bulk, Bulk::InRecord) {
        // The answers of the applies are as large as the objects. What they tell is read again.
        for id in std::mem::take(&mut running.applied).into_keys() {
            running.absent.remove(&id);
        }
    }
}

impl Records<'_> {
    /// Has the bulk of an operation in memory, which goes on. Costs a read where the record is large.
    ///
    /// # Errors
    /// The record cannot be read, or is another one by now.
    pub(in crate::reconcile) async fn unpack(&mut self, running: &mut Running) -> Result<(), Error> {
        if matches!(running.bulk, Bulk::Here) {
            return Ok(());
        }
        match running.bulk.whole() {
            Some(whole) => whole.restore(&mut running.stored),
            None => {
                let mut read = self.read_head_whole().await?;
                if read.resource_version != running.stored.resource_version {
                    self.memory.doubt_head();
                    return Err(Error::RecordChanged { revision: running.stored.record.version });
                }
                let shipped = read.private.iter_mut().flat_map(|private| &mut private.definitions);
                let bodies = shipped.map(|shipped| shipped.body.take()).collect();
                running.stored.refill_from(read);
                restore_definitions(&mut running.stored, bodies);
            }
        }
        running.parts = parts_in(&running.stored).await?;
        debug_assert_eq!(plan_of(&running.stored, &running.parts).ok().as_ref(), Some(&running.plan));
        running.bulk = Bulk::Here;
        Ok(())
    }
}
