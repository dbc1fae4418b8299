//! Which keys of an object are known.

use super::text::same_bytes;

/// Most slots of a shape, so that a document keeps them without an allocation. Every shape is a
/// `static`: one that needs more does not compile.
pub(super) const SLOTS_MAX: usize = 32;

/// The known keys of an object, some of them with the shape of the object below.
///
/// A shape lives in a `static`. It decides which fields can be read, and which other spellings are
/// case twins. Keys that it does not name are checked like everything else and then ignored.
#[derive(Debug)]
pub struct Shape {
    keys: &'static [Key],
    /// Slots that a value of this shape takes: one for each key, and those of the shapes below.
    slots: usize,
}

/// A known key.
#[derive(Debug)]
pub struct Key {
    pub(super) name: &'static str,
    pub(super) inner: Option<&'static Shape>,
}

impl Key {
    /// A key whose value is a scalar, a list or opaque.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, inner: None }
    }

    /// A key whose value, where it is an object, has known keys itself. It may still turn out to be
    /// anything else: [`Field::kind`](super::Field::kind) tells.
    #[must_use]
    pub const fn object(name: &'static str, inner: &'static Shape) -> Self {
        Self { name, inner: Some(inner) }
    }
}

impl Shape {
    /// A shape with these keys: at most 32, those of the shapes below counted.
    ///
    /// # Panics
    /// At compile time, if there are more.
    #[must_use]
    pub const fn new(keys: &'static [Key]) -> Self {
        let mut slots = keys.len();
        let mut at = 0;
        while at < keys.len() {
            if let Some(inner) = keys[at].inner {
                slots += inner.slots;
            }
            at += 1;
        }
        assert!(slots <= SLOTS_MAX, "a shape has at most 32 keys, those below counted");
        Self { keys, slots }
    }

    pub(super) const fn keys(&self) -> &'static [Key] {
        self.keys
    }

    pub(super) const fn slots(&self) -> usize {
        self.slots
    }

    /// Where the slots of the object below key `index` begin, counted from this shape's first slot.
    pub(super) fn inner_slots(&self, index: usize) -> usize {
        let before = self.keys[..index].iter().filter_map(|key| key.inner).map(|inner| inner.slots);
        self.keys.len() + before.sum::<usize>()
    }

    /// The index of a key. Keys mostly come in the shape's order, so `likely` is tried first.
    #[inline(always)]
    pub(super) fn find(&self, name: &[u8], likely: usize) -> Option<usize> {
        match self.keys.get(likely) {
            Some(key) if same_bytes(key.name.as_bytes(), name) => Some(likely),
            _ => self.search(name),
        }
    }

    /// The same for a literal, whose length is known where this is inlined.
    #[inline(always)]
    pub(super) fn index(&self, name: &'static str, likely: usize) -> Option<usize> {
        match self.keys.get(likely) {
            Some(key) if *name == *key.name => Some(likely),
            _ => self.search(name.as_bytes()),
        }
    }

    fn search(&self, name: &[u8]) -> Option<usize> {
        self.keys.iter().position(|key| same_bytes(key.name.as_bytes(), name))
    }

    /// The index of the key that `name`, which is no key itself, differs from only in ASCII case.
    pub(super) fn twin(&self, name: &[u8]) -> Option<usize> {
        self.keys.iter().position(|key| key.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// JSON pointer of a slot.
    pub(super) fn pointer(&self, slot: usize) -> String {
        if let Some(key) = self.keys.get(slot) {
            return format!("/{}", key.name);
        }
        let mut first = self.keys.len();
        for (key, inner) in self.keys.iter().filter_map(|key| key.inner.map(|inner| (key, inner))) {
            if slot < first + inner.slots {
                return format!("/{}{}", key.name, inner.pointer(slot - first));
            }
            first += inner.slots;
        }
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static LOW: Shape = Shape::new(&[Key::new("c"), Key::new("d")]);
    static MIDDLE: Shape = Shape::new(&[Key::object("low", &LOW), Key::new("b")]);
    static TOP: Shape = Shape::new(&[Key::object("one", &LOW), Key::new("a"), Key::object("two", &MIDDLE)]);

    #[test]
    fn every_slot_has_a_pointer_of_its_own() {
        let pointers: Vec<_> = (0..=TOP.slots()).map(|slot| TOP.pointer(slot)).collect();
        let expected = ["/one", "/a", "/two", "/one/c", "/one/d", "/two/low", "/two/b", "/two/low/c", "/two/low/d", ""];
        assert_eq!(pointers, expected);
        assert_eq!(TOP.inner_slots(2), 5);
    }
}
