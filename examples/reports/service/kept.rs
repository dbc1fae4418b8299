//! Secrets that outlive a restart: each in a file that its owner alone may read. A real service has them from its vault.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The text in a file, made the first time. It is there whole or not at all.
pub(crate) fn text(path: &Path, make: impl FnOnce() -> String) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        read => return read,
    }
    let (text, fresh) = (make(), path.with_extension("fresh"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    Ok(text)
}

/// 32 random bytes in a file, made the first time.
pub(crate) fn bytes(path: &Path) -> io::Result<[u8; 32]> {
    let text = text(path, || rand::random::<[u8; 32]>().iter().map(|byte| format!("{byte:02x}")).collect())?;
    let damaged =
        || io::Error::new(ErrorKind::InvalidData, format!("{} must be 64 hexadecimal digits", path.display()));
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return Err(damaged());
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| damaged())?;
    }
    Ok(bytes)
}
