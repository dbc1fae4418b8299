//! Opaque JSON, kept byte for byte.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroize as _;

use super::Malformed;
use super::scan::Scanner;

/// Any JSON value of an application, exactly as it came: numbers such as `9007199254740993` and `1e400`,
/// white space and escapes survive.
///
/// It never prints in `Debug`, since it may be business data, and its memory is wiped when the last
/// clone is dropped. Cloning shares the text.
#[derive(Clone)]
pub struct RawJson(Option<Arc<Wiped>>);

const NULL: &str = "null";

/// Any text but `null`, which takes no memory.
struct Wiped(String);

impl Drop for Wiped {
    fn drop(&mut self) {
        // As a slice it is wiped in bulk, as a string byte by byte.
        std::mem::take(&mut self.0).into_bytes().as_mut_slice().zeroize();
    }
}

impl RawJson {
    /// Reads a text that must be one JSON value; white space around it is dropped, the value itself kept
    /// byte for byte. Lone surrogates in its strings (not in keys) are kept as well.
    ///
    /// # Errors
    /// [`Malformed`] for a text that is not one strict JSON value, or is nested more than `depth` levels.
    pub fn parse(text: &str, depth: usize) -> Result<Self, Malformed> {
        let malformed = |flaw, at| Malformed { flaw, at, pointer: String::new() };
        let mut scanner = Scanner::new(text, usize::MAX, depth).map_err(|flaw| malformed(flaw, 0))?;
        let value = scanner.value().map_err(|flaw| malformed(flaw, scanner.at))?;
        scanner.end().map_err(|flaw| malformed(flaw, scanner.at))?;
        Ok(Self::from_checked(value.raw(text)))
    }

    /// Keeps a text that the strict reader has already accepted as one JSON value.
    pub(crate) fn from_checked(text: &str) -> Self {
        Self((text != NULL).then(|| Arc::new(Wiped(text.to_owned()))))
    }

    /// Takes the value that a text begins with, and gives what is behind it. `None` where the text begins with no
    /// strict JSON value of so many levels.
    pub(crate) fn leading(text: &str, depth: usize) -> Option<(Self, &str)> {
        let mut scanner = Scanner::new(text, usize::MAX, depth).ok()?;
        let value = scanner.value().ok()?;
        Some((Self::from_checked(value.raw(text)), &text[value.end as usize..]))
    }

    /// The JSON `null`.
    #[must_use]
    pub const fn null() -> Self {
        Self(None)
    }

    /// The value's bytes as they came.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_ref().map_or(NULL, |text| &text.0)
    }

    /// Whether the value is `null`.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        self.0.is_none()
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.as_str().len())
    }
}
