//! How much text a delta holds, without parsing it.

use memchr::memmem::Finder;

/// What a member is, found without opening what is around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Not there.
    Absent,
    /// There, and null wherever it is.
    Null,
    /// There, with a value.
    Value,
}

/// Looks for a member by its quoted name, at any depth. Within strings quotes are escaped, so a hit is a key or a
/// whole string; only a key has a colon behind it.
pub(super) fn look(data: &[u8], quoted_name: &Finder<'_>) -> Look {
    let mut found = Look::Absent;
    for at in quoted_name.find_iter(data) {
        let behind = data[at + quoted_name.needle().len()..].trim_ascii_start();
        let Some(value) = behind.strip_prefix(b":") else {
            continue;
        };
        if !value.trim_ascii_start().starts_with(b"null") {
            return Look::Value;
        }
        found = Look::Null;
    }
    found
}

/// Bytes of the strings in the objects that are the value of `quoted_name`, where their key is one of `text_keys`.
pub(super) fn text_len(data: &[u8], quoted_name: &Finder<'_>, text_keys: &[&[u8]]) -> u64 {
    let behind = |at: usize| &data[at + quoted_name.needle().len()..];
    quoted_name
        .find_iter(data)
        .map(|at| strings_len(behind(at), text_keys))
        .sum()
}

/// Walks from string to string until the braces that open in `data` close again.
fn strings_len(data: &[u8], text_keys: &[&[u8]]) -> u64 {
    let (mut at, mut depth, mut len) = (0, 0_usize, 0);
    let mut key: &[u8] = b"";
    while let Some(quote) = memchr::memchr(b'"', &data[at..]) {
        for byte in &data[at..at + quote] {
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => continue,
            }
            if depth == 0 {
                return len;
            }
        }
        let start = at + quote + 1;
        let Some(end) = string_end(data, start) else {
            return len;
        };
        let string = &data[start..end];
        at = end + 1;
        if data[at..].trim_ascii_start().starts_with(b":") {
            key = string;
        } else if text_keys.contains(&key) {
            len += string.len() as u64;
        }
    }
    len
}

/// Where the closing quote of the string stands whose text starts at `at`.
fn string_end(data: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', data.get(at..)?)?;
        if data[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}
