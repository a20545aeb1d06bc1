//! One shard of a table: records where there is room, a sketch where there is not.
//!
//! What is read of a key is never less than what was written of it:
//!
//! - a record is given to another key only when all its limits are full, and full is what a key without a record is;
//! - a key that finds no place in the records is written to two cells of the sketch, which it shares with others.
//!   Cells only rise, and the lower one counts;
//! - a key that gets a record takes over what the sketch says of it.
//!
//! So memory is bounded, and what a flood of keys can do is to have new keys refused, not old ones forgotten.

use crate::gcra::Tat;
use std::mem::size_of;

/// Limits in one record.
const SLOTS: usize = 3;

/// Records from a key's home onwards in which its own may lie.
const WINDOW: usize = 16;

/// All limits of a key, or the next three of them: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Record {
    /// 0: never used. Records do not go back to 0, so a search may end there.
    key: u128,
    slots: [Tat; SLOTS],
}

const _: () = assert!(size_of::<Record>() == 64);

impl Record {
    fn is_full(&self, now: u64) -> bool {
        self.slots.iter().all(|tat| tat.is_full(now))
    }
}

/// Where one limit of one key is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    key: u128,
    slot: usize,
}

impl Place {
    /// The limit with this number of this key. Every three numbers have a record of their own, with a key derived
    /// from the limit's: the lowest bit, which is never 0, and the half that chooses the shard stay as they are.
    pub(super) fn of(key: u128, number: usize) -> Self {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15 << 1;
        let page = (number / SLOTS) as u64;
        Self {
            key: key ^ u128::from(page.wrapping_mul(SPREAD)),
            slot: number % SLOTS,
        }
    }
}

/// How a state was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// By itself.
    Apart,
    /// Together with others, for lack of room.
    Together,
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    records: Vec<Record>,
    /// The records may become so many.
    most: usize,
    /// Two rows of cells; empty until it is needed.
    sketch: Vec<u64>,
}

impl Shard {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most.max(WINDOW),
            ..Self::default()
        }
    }

    /// When the limit is full again.
    pub(super) fn read(&self, place: Place) -> Tat {
        match self.find(place.key) {
            Some(at) => self.records[at].slots[place.slot],
            None => self.sketched(place),
        }
    }

    /// Notes when the limit is full again.
    pub(super) fn write(&mut self, place: Place, tat: Tat, now: u64) -> Stored {
        if let Some(at) = self.find(place.key) {
            self.records[at].slots[place.slot] = tat;
            return Stored::Apart;
        }
        if tat.is_full(now) {
            return Stored::Apart;
        }
        loop {
            if let Some(at) = self.free_record(place.key, now) {
                self.records[at] = self.fresh(place.key);
                self.records[at].slots[place.slot] = tat;
                return Stored::Apart;
            }
            if self.records.len() == self.most {
                self.raise(place, tat);
                return Stored::Together;
            }
            self.grow(now);
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.records.capacity() * size_of::<Record>() + self.sketch.capacity() * size_of::<u64>()
    }

    fn window(&self, key: u128) -> impl Iterator<Item = usize> + use<> {
        let length = self.records.len();
        let home = (u128::from(key as u64) * length as u128) >> 64;
        (0..WINDOW.min(length)).map(move |step| (home as usize + step) % length)
    }

    fn find(&self, key: u128) -> Option<usize> {
        self.window(key)
            .take_while(|at| self.records[*at].key != 0)
            .find(|at| self.records[*at].key == key)
    }

    /// A record that holds nothing which a key without a record does not have too.
    fn free_record(&self, key: u128, now: u64) -> Option<usize> {
        self.window(key).find(|at| self.records[*at].is_full(now))
    }

    fn fresh(&self, key: u128) -> Record {
        Record {
            key,
            slots: std::array::from_fn(|slot| self.sketched(Place { key, slot })),
        }
    }

    /// Doubles the records. One that finds no place among the more goes to the sketch.
    fn grow(&mut self, now: u64) {
        let length = (2 * self.records.len()).clamp(WINDOW, self.most);
        let old = std::mem::replace(&mut self.records, vec![Record::default(); length]);
        for record in old.into_iter().filter(|record| !record.is_full(now)) {
            match self.free_record(record.key, now) {
                Some(at) => self.records[at] = record,
                None => {
                    for (slot, tat) in record.slots.into_iter().enumerate() {
                        self.raise(
                            Place {
                                key: record.key,
                                slot,
                            },
                            tat,
                        );
                    }
                }
            }
        }
    }

    // === the sketch ===

    fn sketched(&self, place: Place) -> Tat {
        if self.sketch.is_empty() {
            return Tat::default();
        }
        let [one, other] = self.cells(place);
        Tat {
            nanos: self.sketch[one].min(self.sketch[other]),
            part: 0,
        }
    }

    fn raise(&mut self, place: Place, tat: Tat) {
        if self.sketch.is_empty() {
            self.sketch = vec![0; 2 * self.most];
        }
        for cell in self.cells(place) {
            self.sketch[cell] = self.sketch[cell].max(tat.ceil());
        }
    }

    /// One cell in each row, from bits of the key that neither shard nor home depend on much.
    fn cells(&self, place: Place) -> [usize; 2] {
        let row = self.sketch.len() / 2;
        let spread = |half: u64| {
            let cell = (half >> 1).wrapping_add((place.slot as u64).wrapping_mul(0x9e37_79b9));
            (cell % row as u64) as usize
        };
        [spread(place.key as u64), row + spread((place.key >> 64) as u64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Keys as random as a hash makes them, in one shard.
    fn place(n: u64, number: usize) -> Place {
        let mixed = u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        Place::of(mixed << 1 | 1, number)
    }

    fn full_at(nanos: u64) -> Tat {
        Tat { nanos, part: 0 }
    }

    #[test]
    fn a_key_with_many_limits_has_a_place_for_each() {
        let mut shard = Shard::new(64);
        for number in 0..10 {
            assert_eq!(
                shard.write(place(7, number), full_at(100 + number as u64), 0),
                Stored::Apart
            );
        }
        for number in 0..10 {
            assert_eq!(shard.read(place(7, number)), full_at(100 + number as u64));
        }
    }

    #[test]
    fn a_full_limit_takes_no_memory() {
        let mut shard = Shard::new(1024);
        for n in 0..100_000 {
            shard.write(place(n, 0), full_at(n + 5), n);
        }
        assert!(
            shard.memory() <= 64 * 64,
            "{} bytes for some 5 live keys",
            shard.memory()
        );
    }

    #[test]
    fn a_live_record_is_never_given_away() {
        let mut shard = Shard::new(32);
        shard.write(place(0, 0), full_at(1_000), 0);
        for n in 1..10_000 {
            shard.write(place(n, 0), full_at(500), 0);
        }
        assert_eq!(shard.read(place(0, 0)), full_at(1_000));
    }

    #[test]
    fn a_key_that_leaves_the_sketch_takes_its_state_along() {
        let mut shard = Shard::new(WINDOW);
        for n in 0..WINDOW as u64 {
            shard.write(place(n, 0), full_at(10), 0);
        }
        assert_eq!(shard.write(place(99, 0), full_at(50), 0), Stored::Together);
        assert_eq!(
            shard.write(place(99, 1), full_at(20), 10),
            Stored::Apart,
            "there is room again"
        );
        assert_eq!(shard.read(place(99, 0)), full_at(50));
    }

    proptest! {
        /// Against a map that never forgets: no key is ever read fresher than it is, and without overflow every
        /// key is read as it is.
        #[test]
        fn what_is_read_is_never_less_than_what_was_written(
            most in prop_oneof![Just(16usize), Just(2_000usize)],
            writes in proptest::collection::vec((0..200u64, 0..7usize, 1..60u64, 0..3u64), 1..600),
        ) {
            let (mut shard, mut now, mut model) = (Shard::new(most), 0, HashMap::new());
            let mut is_exact = true;
            for (n, number, ahead, pause) in writes {
                now += pause;
                let read = shard.read(place(n, number));
                let written = *model.get(&(n, number)).unwrap_or(&Tat::default());
                prop_assert!(read >= written || written.is_full(now));
                if is_exact && !written.is_full(now) {
                    prop_assert_eq!(read, written);
                }
                let tat = Tat { nanos: read.nanos.max(now) + ahead, part: 1 };
                is_exact &= shard.write(place(n, number), tat, now) == Stored::Apart;
                model.insert((n, number), tat);
            }
            prop_assert!(is_exact || most == 16);
        }
    }
}
