//! Duplicate keys: the keys of every object that is open, innermost last.

/// Up to this many keys are compared with each other; more are sorted first.
const PAIRS_MAX: usize = 16;
/// Set in `start` where the key had escapes and stands unescaped in the arena.
const UNESCAPED: u32 = 1 << 31;
/// Longest text whose offsets leave the mark's bit free.
pub(super) const TEXT_BYTES_MAX: usize = (UNESCAPED - 1) as usize;

/// The keys of the open objects.
///
/// An object's keys are compared once, when it closes: few of them pairwise by a fingerprint, many
/// of them by sorting, so that an object of a hundred thousand keys costs no square. Memory is 16
/// bytes a key and no more than the text's length for unescaped ones.
#[derive(Default)]
pub(super) struct Keys {
    entries: Vec<Entry>,
    arena: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Entry {
    fingerprint: u64,
    start: u32,
    length: u32,
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Remembers the key at `start` of the text, which has no escapes.
    pub(super) fn push(&mut self, text: &[u8], start: usize, end: usize) {
        // The text's length was checked against TEXT_BYTES_MAX.
        self.push_entry(start as u32, &text[start..end]);
    }

    /// Remembers a key that had escapes.
    pub(super) fn push_unescaped(&mut self, key: &[u8]) {
        let start = self.arena.len() as u32 | UNESCAPED;
        self.arena.extend_from_slice(key);
        self.push_entry(start, key);
    }

    fn push_entry(&mut self, start: u32, key: &[u8]) {
        self.entries.push(Entry { fingerprint: fingerprint(key), start, length: key.len() as u32 });
    }

    /// Forgets the keys from `base` on, those of the object that closes, and tells whether two were the same.
    pub(super) fn close(&mut self, base: usize, text: &[u8]) -> bool {
        let duplicate = match self.entries.len() - base {
            0 | 1 => false,
            2..=PAIRS_MAX => self.any_pair_equal(base, text),
            _ => self.any_sorted_equal(base, text),
        };
        self.entries.truncate(base);
        duplicate
    }

    fn any_pair_equal(&self, base: usize, text: &[u8]) -> bool {
        let entries = &self.entries[base..];
        entries.iter().enumerate().any(|(at, entry)| {
            entries[..at].iter().any(|other| {
                other.fingerprint == entry.fingerprint && other.key(text, &self.arena) == entry.key(text, &self.arena)
            })
        })
    }

    fn any_sorted_equal(&mut self, base: usize, text: &[u8]) -> bool {
        let Self { entries, arena } = self;
        let order = |entry: &Entry| (entry.fingerprint, entry.key(text, arena));
        let entries = &mut entries[base..];
        entries.sort_unstable_by(|a, b| {
            a.fingerprint.cmp(&b.fingerprint).then_with(|| a.key(text, arena).cmp(b.key(text, arena)))
        });
        entries.windows(2).any(|pair| order(&pair[0]) == order(&pair[1]))
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
