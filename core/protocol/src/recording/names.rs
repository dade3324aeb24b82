//! The forms of directories that agents put into names of folders, ids and URLs.

use super::spellings::percent_encoded;

/// The placeholder for the name that Kimi Code gives the folders of a working directory.
pub(super) const FOLDER_PLACEHOLDER: &str = "{{work_dir:id}}";
/// The placeholder for the beginning of a placeholder that the text itself has.
pub(super) const LITERAL_PLACEHOLDER: &str = "{{literal}}";
/// The characters of a path that URLs of files keep, besides letters, digits and `-._~`.
pub(super) const KEPT_IN_URLS: &str = "/!$&'()*+,;=:@";
/// The same for languages that encode more characters.
pub(super) const SLASH: &str = "/";

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

/// Returns a path as in a URL, with slashes. Besides letters, digits and `-._~`, the characters in `kept` are not encoded.
pub(super) fn path_in_url(path: &str, kept: &str) -> String {
    percent_encoded(&path.replace('\\', "/"), kept)
}

/// Returns the drive of a path of Windows, and the path below it with slashes.
fn drive(path: &str) -> Option<(char, String)> {
    let (letter, rest) = path.split_once(':').filter(|(letter, _)| letter.len() == 1)?;
    let letter = letter.chars().next().filter(char::is_ascii_alphabetic)?;
    (rest.len() > 1 && rest.starts_with(['/', '\\'])).then(|| (letter, rest.replace('\\', "/")))
}

/// Returns a path as shells of Unix on Windows name it: `/c/Users` for `C:\Users`. Other paths stay.
pub(super) fn posix(path: &str) -> String {
    drive(path).map_or_else(|| path.to_owned(), |(letter, rest)| format!("/{}{rest}", letter.to_ascii_lowercase()))
}

/// Returns further spellings of a path with a drive, each with the form of its placeholder: with the other case of the
/// letter, as in URLs, in names of folders, and as shells of Unix name it.
pub(super) fn drive_forms(path: &str) -> Vec<(String, &'static str)> {
    let Some((letter, rest)) = drive(path) else { return Vec::new() };
    let mut forms = Vec::new();
    for letter in [letter.to_ascii_lowercase(), letter.to_ascii_uppercase()] {
        let spelled = format!("{letter}:{rest}");
        forms.push((spelled.replace('/', "\\"), ""));
        for encoded in [path_in_url(&spelled, SLASH), path_in_url(&spelled, KEPT_IN_URLS)] {
            if encoded.contains('%') {
                forms.push((encoded.replacen("%3A", "%3a", 1), ":url"));
                forms.push((encoded, ":url"));
            }
        }
        forms.extend([(slug(&spelled), ":slug"), (ascii_slug(&spelled), ":ascii-slug")]);
        forms.push((format!("/{letter}{rest}"), ":posix"));
        forms.push((spelled, ""));
    }
    forms
}
