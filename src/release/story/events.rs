//! What happens to a release beside the work of its operator.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::model::{
    Backup, Item, PLACES, Release, Spec, Status, Stored, Trouble, VALUES, World, id_of, is_job,
};
use super::shell::at;
use crate::release::State;

/// One event.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// The operator works until it has nothing to do.
    Work,
    /// It dies after so many writes.
    Dies(u8),
    /// Seconds go by.
    Later(u16),
    Create,
    Delete,
    Edit(usize, Item),
    Trouble(Trouble),
    Pause(bool),
    Suspend(bool),
    Pin(Option<u32>),
    Adopt(bool),
    OnFailure {
        uninstall: bool,
        rollback: bool,
    },
    /// What is applied there does not get healthy; a hook does not end.
    Sick(usize, bool),
    Refused(usize, bool),
    HookFails(usize, bool),
    StrangerMakes(usize, u8),
    StrangerEdits(usize, u8),
    StrangerDeletes(usize),
    /// Another tool stores the next revision.
    OthersStore(Theirs),
    /// Another tool writes the newest record, and so takes off what is ours.
    OthersWrite(Theirs),
    /// The newest record but so many is deleted.
    Lose(u8),
    LoseAll,
    /// An older state of the newest record is put back, and the status tells of a newer one.
    Rewind(u8),
    KeyLost,
    KeyBack,
    Backup,
    Restore {
        with_status: bool,
    },
    Reset,
    Accept,
}

/// The state of another tool's record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Theirs {
    Pending,
    Deployed,
    Failed,
    Superseded,
}

fn item(place: usize, number: u8) -> Item {
    match number % 9 {
        0 | 1 => Item::Nothing,
        2..=4 if is_job(place) => Item::Hook,
        _ => Item::Object(number % VALUES),
    }
}

pub(super) fn any_spec() -> impl Strategy<Value = Spec> {
    let items = proptest::array::uniform6(0..27_u8);
    (items, any::<bool>(), 0..2_u32, any::<bool>(), any::<bool>(), 1..4_usize).prop_map(
        |(numbers, adopt, retries, uninstall_on_failure, rollback_on_failure, limit)| Spec {
            items: std::array::from_fn(|place| item(place, numbers[place])),
            adopt,
            retries,
            uninstall_on_failure,
            rollback_on_failure,
            limit,
            ..Spec::default()
        },
    )
}

/// Numbers make an event: alternatives of proptest take several times as long as a story.
pub(super) fn any_event() -> impl Strategy<Value = Event> {
    (0..1000_u16, 0..PLACES, 0..27_u8, any::<bool>()).prop_map(|(which, place, number, on)| {
        let mut left = which;
        let mut all = weighted(place, number, on).into_iter();
        let fits = all.find(|(weight, _)| {
            let fits = left < *weight;
            left = left.saturating_sub(*weight);
            fits
        });
        fits.map_or(Event::Work, |(_, event)| event)
    })
}

/// How many of a thousand events are which.
fn weighted(place: usize, number: u8, on: bool) -> [(u16, Event); 29] {
    let few = usize::from(number);
    let theirs = [Theirs::Pending, Theirs::Deployed, Theirs::Failed, Theirs::Superseded][few % 4];
    let troubles =
        [Trouble::None, Trouble::Invalid, Trouble::Source, Trouble::None, Trouble::Render, Trouble::None];
    let value = number % VALUES;
    [
        (107, Event::Dies(1 + number % 11)),
        (46, Event::Later([5, 70, 400, 4_000][few % 4])),
        (147, Event::Edit(place, item(place, number))),
        (33, Event::Trouble(troubles[few % 6])),
        (16, Event::Pause(on)),
        (8, Event::Suspend(on)),
        (16, Event::Pin(on.then_some(1 + u32::from(number % 5)))),
        (8, Event::Adopt(on)),
        (8, Event::OnFailure { uninstall: on, rollback: number.is_multiple_of(2) }),
        (8, Event::Create),
        (8, Event::Delete),
        (16, Event::Reset),
        (16, Event::Accept),
        (73, Event::Sick(place, on)),
        (27, Event::Refused(place, on)),
        (37, Event::HookFails(place, on)),
        (55, Event::StrangerMakes(place, value)),
        (27, Event::StrangerEdits(place, value)),
        (18, Event::StrangerDeletes(place)),
        (11, Event::OthersStore(theirs)),
        (11, Event::OthersWrite(theirs)),
        (17, Event::Lose(number % 3)),
        (6, Event::LoseAll),
        (17, Event::Rewind(number % 6)),
        (6, Event::KeyLost),
        (6, Event::KeyBack),
        (11, Event::Backup),
        (11, Event::Restore { with_status: on }),
        (1000, Event::Work),
    ]
}

impl World {
    pub(super) fn happens(&mut self, event: &Event) {
        match *event {
            Event::Work | Event::Dies(_) => {}
            Event::Later(seconds) => self.now += i64::from(seconds),
            Event::Create if self.release.is_none() => self.create_again(),
            Event::Create => {}
            Event::Delete => self.asks(|release| release.deleting = true),
            Event::Edit(place, item) => self.edits(|spec| spec.items[place] = item),
            Event::Trouble(trouble) => self.edits(|spec| spec.trouble = trouble),
            Event::Pause(on) => self.edits(|spec| spec.paused = on),
            Event::Suspend(on) => self.edits(|spec| spec.suspended = on),
            Event::Pin(revision) => self.edits(|spec| spec.rollback_to = revision),
            Event::Adopt(on) => self.edits(|spec| spec.adopt = on),
            Event::OnFailure { uninstall, rollback } => self.edits(|spec| {
                (spec.uninstall_on_failure, spec.rollback_on_failure) = (uninstall, rollback);
            }),
            Event::Sick(place, on) => set(&mut self.sick, place, on),
            Event::Refused(place, on) => set(&mut self.refused, place, on),
            Event::HookFails(place, on) => set(&mut self.failing, place, on),
            Event::Reset => {
                let now = u32::try_from(self.tick()).unwrap();
                self.asks(|release| release.reset_at = Some(now));
            }
            Event::Accept => self.asks(|release| release.accept.clone_from(&release.status.doubtful)),
            _ => {
                self.of_objects(event);
                self.of_records(event);
            }
        }
    }

    fn create_again(&mut self) {
        let items = [Item::Object(0), Item::Object(0), Item::Nothing, Item::Nothing, Item::Hook, Item::Hook];
        self.create(Spec { items, rollback_on_failure: true, limit: 2, ..Spec::default() });
        let writes = |stored: &Stored| stored.private.as_ref().map_or(0, |private| private.writes);
        let outdated = self.newest().is_some_and(|newest| {
            self.states.iter().any(|state| state.uid == newest.uid && writes(state) > writes(newest))
        });
        if outdated {
            // The process that knew of a newer state went with the release of before.
            self.truth.goes_back_to(self.records.values());
            self.truth.forget_runs();
        }
    }

    fn asks(&mut self, of: impl FnOnce(&mut Release)) {
        if let Some(release) = self.release.as_mut() {
            of(release);
        }
    }

    fn edits(&mut self, how: impl FnOnce(&mut Spec)) {
        self.asks(|release| {
            let before = release.spec;
            how(&mut release.spec);
            release.generation += i64::from(before != release.spec);
        });
    }

    fn of_objects(&mut self, event: &Event) {
        match *event {
            Event::StrangerMakes(place, value) if !self.live.contains_key(&id_of(place)) => {
                let id = id_of(place);
                self.make(&id, value, !self.truth.locks(&id));
            }
            Event::StrangerEdits(place, value) => {
                if let Some(live) = self.live.get_mut(&id_of(place)) {
                    live.value = value;
                }
            }
            Event::StrangerDeletes(place) => {
                let id = id_of(place);
                self.live.remove(&id);
                let private = self.newest().and_then(|newest| newest.private.as_ref());
                let mut entries = private.into_iter().flat_map(|private| &private.inventory);
                if !entries.any(|entry| entry.id == id && entry.ran.is_some()) {
                    self.may_run_again(&id);
                }
            }
            _ => {}
        }
    }

    fn of_records(&mut self, event: &Event) {
        let newest = self.newest().cloned();
        match *event {
            Event::OthersStore(theirs) => {
                let revision = newest.map_or(0, |newest| newest.revision) + 1;
                let (uid, state) = (self.tick(), self.state_of(theirs, revision));
                let (private, items) = (None, <[Item; PLACES]>::default());
                self.store(Stored {
                    revision,
                    state,
                    private,
                    key: 0,
                    items,
                    head: false,
                    uid,
                    resource_version: 0,
                });
            }
            Event::OthersWrite(theirs) => {
                if let Some(newest) = newest {
                    let state = self.state_of(theirs, newest.revision);
                    self.store(Stored { state, private: None, head: false, ..newest });
                }
            }
            Event::Lose(which) => {
                let revision = self.records.keys().rev().nth(usize::from(which)).copied();
                revision.and_then(|revision| self.records.remove(&revision));
            }
            Event::LoseAll => self.records.clear(),
            Event::Rewind(which) => self.rewind(usize::from(which)),
            Event::KeyLost => {
                self.key += 1;
                self.keys = BTreeSet::from([self.key]);
            }
            Event::KeyBack => {
                self.keys = (1..=self.key).collect();
                self.truth.slack += self.records.len();
            }
            Event::Backup => {
                let records = self.records.clone();
                self.backup = self.release.clone().map(|release| Backup { release, records });
            }
            Event::Restore { with_status } => self.restore(with_status),
            _ => {}
        }
    }

    fn state_of(&self, theirs: Theirs, revision: u32) -> State {
        let now = at(self.now);
        match theirs {
            Theirs::Pending => {
                State::PendingUpgrade { started_at: now, timeout: 60, previous_version: revision - 1 }
            }
            Theirs::Deployed => State::Deployed,
            Theirs::Failed => State::Failed { reason: String::new(), recoverable: true, failed_at: now },
            Theirs::Superseded => State::Superseded,
        }
    }

    fn store(&mut self, stored: Stored) {
        let resource_version = self.tick();
        self.records.insert(stored.revision, Stored { resource_version, ..stored });
    }

    fn rewind(&mut self, which: usize) {
        let (Some(newest), Some(release)) = (self.newest(), &self.release) else { return };
        let told = (release.status.revision, release.status.writes);
        let older = self.states.iter().filter(|state| {
            let writes = state.private.as_ref().map_or(0, |private| private.writes);
            state.uid == newest.uid && state.revision == told.0 && writes < told.1
        });
        if let Some(state) = older.cloned().collect::<Vec<_>>().into_iter().rev().nth(which) {
            self.store(state);
        }
    }

    fn restore(&mut self, with_status: bool) {
        let Some(Backup { release, records }) = &self.backup else { return };
        let (mut release, records) = (release.clone(), records.clone());
        release.uid = format!("release-{}", self.tick());
        release.deleting = false;
        if !with_status {
            release.status = Status::default();
        }
        self.release = Some(release);
        self.truth.slack += records.len();
        self.truth.goes_back_to(records.values());
        self.records.clear();
        for (_, stored) in records {
            let uid = self.tick();
            self.store(Stored { uid, ..stored });
        }
    }
}

fn set(places: &mut BTreeSet<usize>, place: usize, on: bool) {
    if on {
        places.insert(place);
    } else {
        places.remove(&place);
    }
}
