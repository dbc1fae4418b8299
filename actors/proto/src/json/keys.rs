//! Duplicate keys: the keys of every object that is open, innermost last.

use super::text::same_bytes;

/// Up to this many keys of an object are looked for as they come; more are sorted when it closes.
const SEARCHED_MAX: usize = 32;
/// Set in `start` where the key had escapes and stands unescaped in the arena.
const UNESCAPED: u32 = 1 << 31;
/// Longest text whose offsets leave the mark's bit free.
pub(super) const TEXT_BYTES_MAX: usize = (UNESCAPED - 1) as usize;

/// The keys of the open objects.
///
/// A key's fingerprint sets one of 64 bits of its object. Only where the bit was set before, which is
/// rare in an object of few keys, the key is looked for among them. Of an object of many keys, all are
/// sorted once when it closes, so that a hundred thousand of them cost no square. Memory is 16 bytes a
/// key, and no more than the text's length for unescaped ones.
#[derive(Default)]
pub(super) struct Keys {
    entries: Entries,
    arena: Vec<u8>,
}

/// The entries of all open objects. Those of most texts need no allocation.
#[derive(Default)]
struct Entries {
    length: usize,
    few: [Entry; FEW],
    /// All of them, once they have been more than a few.
    many: Vec<Entry>,
}

/// Entries without an allocation.
const FEW: usize = 32;

/// One open object: where its keys begin, and the bits of those that came.
#[derive(Clone, Copy, Default)]
pub(super) struct Level {
    base: usize,
    bits: u64,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    fingerprint: u64,
    start: u32,
    length: u32,
}

impl Entries {
    #[inline(always)]
    fn push(&mut self, entry: Entry) {
        match self.few.get_mut(self.length) {
            Some(place) if self.many.is_empty() => *place = entry,
            _ => self.push_to_many(entry),
        }
        self.length += 1;
    }

    #[inline(never)]
    fn push_to_many(&mut self, entry: Entry) {
        if self.many.is_empty() {
            self.many.extend_from_slice(&self.few);
        }
        self.many.push(entry);
    }

    #[inline(always)]
    fn truncate(&mut self, length: usize) {
        self.length = length;
        self.many.truncate(length);
    }

    fn since(&self, base: usize) -> &[Entry] {
        if self.many.is_empty() { &self.few[base..self.length] } else { &self.many[base..] }
    }

    fn since_mut(&mut self, base: usize) -> &mut [Entry] {
        if self.many.is_empty() { &mut self.few[base..self.length] } else { &mut self.many[base..] }
    }
}

impl Keys {
    /// An object opens.
    #[inline(always)]
    pub(super) fn open(&self) -> Level {
        Level { base: self.entries.length, bits: 0 }
    }

    /// Takes the key between `start` and `end` of the text, which has no escapes. True if it is a duplicate.
    #[inline(always)]
    pub(super) fn push(&mut self, level: &mut Level, text: &[u8], start: usize, end: usize) -> bool {
        // The text's length was checked against TEXT_BYTES_MAX.
        self.push_entry(level, text, start as u32, &text[start..end])
    }

    /// Takes a key that had escapes. True if it is a duplicate.
    pub(super) fn push_unescaped(&mut self, level: &mut Level, text: &[u8], key: &[u8]) -> bool {
        let start = self.arena.len() as u32 | UNESCAPED;
        self.arena.extend_from_slice(key);
        self.push_entry(level, text, start, key)
    }

    #[inline(always)]
    fn push_entry(&mut self, level: &mut Level, text: &[u8], start: u32, key: &[u8]) -> bool {
        let entry = Entry { fingerprint: fingerprint(key), start, length: key.len() as u32 };
        // Fibonacci hashing: the product's top bits depend on all of the fingerprint.
        let bit = 1 << (entry.fingerprint.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58);
        let duplicate = level.bits & bit != 0 && self.has(*level, text, entry, key);
        level.bits |= bit;
        self.entries.push(entry);
        duplicate
    }

    /// Whether the object has the key already, where it has few; among many it is found at the end.
    fn has(&self, level: Level, text: &[u8], entry: Entry, key: &[u8]) -> bool {
        let others = self.entries.since(level.base);
        others.len() <= SEARCHED_MAX
            && others
                .iter()
                .any(|other| other.fingerprint == entry.fingerprint && same_bytes(other.key(text, &self.arena), key))
    }

    /// The object closes: its keys are forgotten. True if it had many and two of them were the same.
    #[inline(always)]
    pub(super) fn close(&mut self, level: Level, text: &[u8]) -> bool {
        let base = level.base;
        let duplicate = self.entries.length - base > SEARCHED_MAX && self.any_sorted_equal(base, text);
        self.entries.truncate(base);
        duplicate
    }

    fn any_sorted_equal(&mut self, base: usize, text: &[u8]) -> bool {
        let Self { entries, arena } = self;
        let entries = entries.since_mut(base);
        let order = |a: &Entry, b: &Entry| {
            a.fingerprint.cmp(&b.fingerprint).then_with(|| a.key(text, arena).cmp(b.key(text, arena)))
        };
        entries.sort_unstable_by(order);
        entries.windows(2).any(|pair| order(&pair[0], &pair[1]).is_eq())
    }
}

impl Entry {
    fn key<'t>(&self, text: &'t [u8], arena: &'t [u8]) -> &'t [u8] {
        let (bytes, start) =
            if self.start & UNESCAPED == 0 { (text, self.start) } else { (arena, self.start & !UNESCAPED) };
        &bytes[start as usize..][..self.length as usize]
    }
}

/// The same for the same key; mostly another for another: both ends and the length.
#[inline(always)]
fn fingerprint(key: &[u8]) -> u64 {
    let length = key.len() as u64;
    if let (Some(first), Some(last)) = (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        return u64::from_le_bytes(*first) ^ u64::from_le_bytes(*last).rotate_left(29) ^ length << 48;
    }
    if let (Some(first), Some(last)) = (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
    }
    key.iter().fold(length, |all, &c| all << 8 | u64::from(c))
}
