//! The forms of directories that agents put into names of folders, ids and URLs.

/// The placeholder for the name that Kimi Code gives the folders of a working directory.
pub(super) const FOLDER_PLACEHOLDER: &str = "{{work_dir:id}}";
/// The characters of a path that URLs of files keep, besides letters, digits and `-._~/`. Some languages encode them, too.
pub(super) const KEPT_IN_URLS: &str = "!$&'()*+,;=:@";

/// Returns a path as agents put it into names of folders: each character but letters and digits is a `-`.
pub(super) fn slug(path: &str) -> String {
    path.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect()
}

/// Returns the same for agents that keep only letters of ASCII. They replace each unit of UTF-16, as JavaScript does.
pub(super) fn ascii_slug(path: &str) -> String {
    let units = path.encode_utf16();
    let kept = |unit: u16| u8::try_from(unit).ok().map(char::from).filter(char::is_ascii_alphanumeric);
    units.map(|unit| kept(unit).unwrap_or('-')).collect()
}

/// Returns the beginning of the name that Kimi Code gives the folders of a working directory: `wd_NAME_`. A digest
/// follows.
pub(super) fn folder_name(path: &str) -> String {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    format!("wd_{name}_")
}

/// Returns a name as Kimi Code gives it. The digest is a digest of the path, but not the one that Kimi Code makes.
pub(super) fn folder_id(path: &str) -> String {
    // FNV-1a.
    let digest = path
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{}{:012x}", folder_name(path), digest >> 16)
}

/// Returns a path as in a URL. Besides letters, digits and `-._~/`, the characters in `kept` are not encoded.
pub(super) fn percent_encoded(path: &str, kept: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'\\' => out.push('/'),
            b'-' | b'.' | b'_' | b'~' | b'/' => out.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
