//! Access lists of Windows: files and folders that only this user, the system and administrators can open.
//!
//! This is the only module with `unsafe` code for it: no maintained crate sets the access list of a file at its creation.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle};
use std::path::{Component, Path, Prefix};

use windows::Win32::Foundation::{GENERIC_WRITE, HANDLE, HLOCAL, WIN32_ERROR};
use windows::Win32::Security::Authorization::{
    ConvertSecurityDescriptorToStringSecurityDescriptorW, ConvertSidToStringSidW,
    ConvertStringSecurityDescriptorToSecurityDescriptorW, GetSecurityInfo, SDDL_REVISION_1, SE_FILE_OBJECT,
};
use windows::Win32::Security::{
    DACL_SECURITY_INFORMATION, GetTokenInformation, OWNER_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR,
    SECURITY_ATTRIBUTES, TOKEN_USER, TokenUser,
};
use windows::Win32::Storage::FileSystem::{
    CREATE_NEW, CreateDirectoryW, CreateFileW, FILE_ATTRIBUTE_NORMAL, FILE_FLAG_BACKUP_SEMANTICS,
    FILE_FLAG_OPEN_REPARSE_POINT, FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, READ_CONTROL,
};
use windows::core::{HSTRING, Owned, PWSTR};

/// Creates a folder that only this user, the system and administrators can open. Its files inherit this.
pub(super) fn create_dir(path: &Path) -> io::Result<()> {
    create_dir_with(path, &Descriptor::private(&user()?)?)
}

fn create_dir_with(path: &Path, descriptor: &Descriptor) -> io::Result<()> {
    let path = verbatim(path)?;
    // SAFETY: the name and the attributes live longer than the call, which keeps neither.
    unsafe { CreateDirectoryW(&path, Some(&descriptor.attributes())) }.map_err(os_error)
}

/// Creates a file that only this user, the system and administrators can open, for writing.
pub(super) fn create_file(path: &Path) -> io::Result<File> {
    let (path, private) = (verbatim(path)?, Descriptor::private(&user()?)?);
    let share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    // SAFETY: the name and the attributes live longer than the call. The handle is new, and only the file closes it.
    unsafe {
        let attributes = private.attributes();
        CreateFileW(&path, GENERIC_WRITE.0, share, Some(&attributes), CREATE_NEW, FILE_ATTRIBUTE_NORMAL, None)
            .map(|handle| File::from_raw_handle(handle.0))
    }
    .map_err(os_error)
}

/// Returns whether this is a folder of this user, and its access list admits only this user, the system and administrators.
/// Returns false for a link.
pub(super) fn is_private_dir(path: &Path) -> io::Result<bool> {
    let flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
    let file = OpenOptions::new().access_mode(READ_CONTROL.0 | READ_ATTRIBUTES).custom_flags(flags.0).open(path)?;
    Ok(file.metadata()?.is_dir() && is_private(&Descriptor::of(&file)?.text()?)?)
}

/// To read the metadata of a file: `FILE_READ_ATTRIBUTES`.
const READ_ATTRIBUTES: u32 = 0x80;

/// Compares a descriptor in text with that of a private file. Only the names of accounts are compared: a list without a
/// right of this user would not admit others.
fn is_private(text: &str) -> io::Result<bool> {
    // The system has short names for some accounts, so both texts have to come from it.
    let expected = Descriptor::private(&user()?)?.text()?;
    let (Some((owner, Some(accounts))), Some((us, Some(admitted)))) = (parse(text), parse(&expected)) else {
        return Ok(false);
    };
    Ok(owner == us && accounts.iter().all(|account| admitted.contains(account)))
}

/// Reads the owner from a descriptor in text, and the accounts that its access list admits. The accounts are `None` if
/// it has entries of another kind, or no list, which admits everybody. The form is
/// `O:owner D:flags(type;flags;rights;object;inherited object;account)…`, without the space.
fn parse(text: &str) -> Option<(&str, Option<Vec<&str>>)> {
    let (owner, list) = text.strip_prefix("O:")?.split_once("D:")?;
    let (flags, entries) = list.split_at(list.find('(').unwrap_or(list.len()));
    let accounts = entries.split_terminator(')').map(|entry| {
        let fields: Vec<&str> = entry.strip_prefix('(')?.split(';').collect();
        match fields[..] {
            ["A", _, _, "", "", account] => Some(Some(account)),
            ["D", _, _, "", "", _] => Some(None),
            _ => None,
        }
    });
    let accounts: Option<Vec<Option<&str>>> = accounts.collect();
    let accounts = accounts.filter(|_| !flags.contains("NO_ACCESS_CONTROL"));
    Some((owner, accounts.map(|accounts| accounts.into_iter().flatten().collect())))
}

/// A security descriptor, which the system has allocated.
struct Descriptor(Owned<HLOCAL>);

impl Descriptor {
    /// The descriptor of a private file or folder: protected from the list of its parent, for three accounts.
    fn private(user: &str) -> io::Result<Self> {
        Self::from_text(format!("O:{user}D:P(A;OICI;FA;;;{user})(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"))
    }

    fn from_text(text: String) -> io::Result<Self> {
        let mut made = PSECURITY_DESCRIPTOR::default();
        // SAFETY: the text ends with a zero, and the call writes a pointer to a new allocation of `LocalAlloc`.
        unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                &HSTRING::from(text),
                SDDL_REVISION_1,
                &raw mut made,
                None,
            )
            .map_err(os_error)?;
            Ok(Self(Owned::new(HLOCAL(made.0))))
        }
    }

    /// The descriptor of an open file.
    fn of(file: &File) -> io::Result<Self> {
        let mut found = PSECURITY_DESCRIPTOR::default();
        // SAFETY: the handle is open, and the call writes a pointer to a new allocation of `LocalAlloc`.
        unsafe {
            GetSecurityInfo(
                HANDLE(file.as_raw_handle()),
                SE_FILE_OBJECT,
                OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
                None,
                None,
                None,
                None,
                Some(&raw mut found),
            )
            .ok()
            .map_err(os_error)?;
            Ok(Self(Owned::new(HLOCAL(found.0))))
        }
    }

    /// Owner and access list in the language of Windows for descriptors.
    fn text(&self) -> io::Result<String> {
        let parts = OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION;
        let mut text = PWSTR::null();
        // SAFETY: the descriptor is valid, and the call writes a pointer to a new text.
        unsafe {
            ConvertSecurityDescriptorToStringSecurityDescriptorW(
                PSECURITY_DESCRIPTOR(self.0.0),
                SDDL_REVISION_1,
                parts,
                &raw mut text,
                None,
            )
            .map_err(os_error)?;
            take_text(text)
        }
    }

    fn attributes(&self) -> SECURITY_ATTRIBUTES {
        let length = u32::try_from(size_of::<SECURITY_ATTRIBUTES>()).unwrap_or_default();
        SECURITY_ATTRIBUTES { nLength: length, lpSecurityDescriptor: self.0.0, bInheritHandle: false.into() }
    }
}

/// The identifier of the user for whom this thread acts, such as `S-1-5-21-…-1001`.
pub(super) fn user() -> io::Result<String> {
    // `GetCurrentThreadEffectiveToken`, which is a constant in the headers of Windows. It is not closed.
    let token = HANDLE(-6_isize as *mut c_void);
    // The structure, and the identifier of at most 68 bytes to which it points. The type is for the alignment.
    let mut buffer = [0_u64; 16];
    let mut length = u32::try_from(size_of_val(&buffer)).unwrap_or_default();
    // SAFETY: the buffer has the size and the alignment of the structure, which the call has written if it succeeds.
    // Its pointer leads into the buffer, which lives until the identifier is a text.
    unsafe {
        GetTokenInformation(token, TokenUser, Some(buffer.as_mut_ptr().cast()), length, &raw mut length)
            .map_err(os_error)?;
        let user = buffer.as_ptr().cast::<TOKEN_USER>().read();
        let mut text = PWSTR::null();
        ConvertSidToStringSidW(user.User.Sid, &raw mut text).map_err(os_error)?;
        take_text(text)
    }
}

/// Copies a text, and frees it.
///
/// # Safety
/// The text is an allocation of `LocalAlloc` that ends with a zero, and nothing else uses it.
unsafe fn take_text(text: PWSTR) -> io::Result<String> {
    // SAFETY: the caller ensures it.
    unsafe {
        let _freed = Owned::new(HLOCAL(text.0.cast()));
        text.to_string().map_err(io::Error::other)
    }
}

/// The path for calls of Windows that accept long paths in this form only.
fn verbatim(path: &Path) -> io::Result<HSTRING> {
    let path = std::path::absolute(path)?;
    let text = path.as_os_str();
    let mut long = std::ffi::OsString::new();
    match path.components().next() {
        Some(Component::Prefix(prefix)) if matches!(prefix.kind(), Prefix::Disk(_)) => {
            long.push(r"\\?\");
            long.push(text);
        }
        Some(Component::Prefix(prefix)) if matches!(prefix.kind(), Prefix::UNC(..)) => {
            long.push(r"\\?\UNC\");
            long.push(text.to_string_lossy().trim_start_matches('\\'));
        }
        _ => long.push(text),
    }
    Ok(HSTRING::from(long.as_os_str()))
}

/// The error with the code of Windows, from which the standard library finds its kind.
fn os_error(error: windows::core::Error) -> io::Error {
    let code = WIN32_ERROR::from_error(&error).and_then(|code| i32::try_from(code.0).ok());
    code.map_or_else(|| io::Error::other(error), io::Error::from_raw_os_error)
}

/// Creates a folder of this user that everybody can open.
#[cfg(test)]
pub(super) fn create_open_dir(path: &Path) {
    let user = user().unwrap();
    let open = Descriptor::from_text(format!("O:{user}D:P(A;OICI;FA;;;{user})(A;OICI;FA;;;WD)")).unwrap();
    create_dir_with(path, &open).unwrap();
}

/// Returns the owner and the access list of a file or a folder as text.
#[cfg(test)]
fn text_of(path: &Path) -> String {
    let flags = FILE_FLAG_BACKUP_SEMANTICS.0;
    let file = OpenOptions::new().access_mode(READ_CONTROL.0).custom_flags(flags).open(path).unwrap();
    Descriptor::of(&file).unwrap().text().unwrap()
}

#[cfg(test)]
pub(super) fn assert_private(path: &Path) {
    let text = text_of(path);
    assert!(is_private(&text).unwrap(), "{}: {text}", path.display());
    let (owner, accounts) = parse(&text).unwrap();
    assert!(accounts.unwrap().iter().all(|account| [owner, "SY", "BA"].contains(account)), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_files_and_folders_are_private() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, file) = (parent.path().join("folder"), parent.path().join("file"));
        create_dir(&folder).unwrap();
        drop(create_file(&file).unwrap());
        for path in [&folder, &file] {
            assert_private(path);
        }
        assert!(is_private_dir(&folder).unwrap());
        assert!(!is_private_dir(&file).unwrap());
        for again in [create_dir(&folder), create_file(&file).map(drop)] {
            assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }
        let missing = parent.path().join("missing").join("file");
        assert_eq!(create_file(&missing).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(is_private_dir(&missing).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// Not under Wine, which keeps no list, but the permissions of Unix. They have neither of these.
    #[test]
    fn list_is_protected_and_inherited() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("folder");
        create_dir(&folder).unwrap();
        std::fs::write(folder.join("inherits"), "").unwrap();
        if Path::new(r"C:\windows\system32\winecfg.exe").exists() {
            return;
        }
        let text = text_of(&folder);
        let (flags, entries) = text.split_once("D:").unwrap().1.split_once('(').unwrap();
        assert!(flags.contains('P') && entries.contains("OICI"), "{text}");
        let inherited = text_of(&folder.join("inherits"));
        let expected = Descriptor::private(&user().unwrap()).unwrap().text().unwrap();
        let accounts = |text| parse(text).unwrap().1.unwrap();
        assert_eq!(accounts(&inherited), accounts(&expected), "{inherited}");
    }

    #[test]
    fn folder_that_admits_others_is_not_private() {
        let parent = tempfile::tempdir().unwrap();
        let expected = Descriptor::private(&user().unwrap()).unwrap().text().unwrap();
        let owner = parse(&expected).unwrap().0;
        for (list, private) in [
            (format!("D:P(A;;FA;;;{owner})"), true),
            (format!("D:PAI(D;;FA;;;WD)(A;OICIID;FA;;;{owner})(A;;FA;;;SY)"), true),
            (format!("D:P(A;;FA;;;{owner})(A;;0x1;;;WD)"), false),
            (format!("D:(A;OICI;FA;;;{owner})(A;;FR;;;BU)"), false),
            (format!("D:(A;;FA;;;{owner})(XA;;FR;;;WD;(1 == 1))"), false),
            (format!("D:(OA;;FA;0-0-0;;{owner})"), false),
            ("D:NO_ACCESS_CONTROL".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(is_private(&format!("O:{owner}{list}")).unwrap(), private, "{list}");
            assert!(!is_private(&format!("O:WD{list}")).unwrap(), "{list}");
        }
        let open = parent.path().join("open");
        create_open_dir(&open);
        assert!(!is_private_dir(&open).unwrap(), "{}", text_of(&open));
    }

    #[test]
    fn long_path_is_created() {
        let parent = tempfile::tempdir().unwrap();
        let long = parent.path().join("a".repeat(150)).join("b".repeat(150));
        std::fs::create_dir_all(long.parent().unwrap()).unwrap();
        create_dir(&long).unwrap();
        drop(create_file(&long.join("file")).unwrap());
        assert!(is_private_dir(&long).unwrap());
        for (path, expected) in [
            (r"C:\a\b", r"\\?\C:\a\b"),
            (r"C:/a/./b", r"\\?\C:\a\b"),
            (r"\\server\share\a", r"\\?\UNC\server\share\a"),
            (r"\\?\C:\a", r"\\?\C:\a"),
        ] {
            assert_eq!(verbatim(Path::new(path)).unwrap().to_string(), expected);
        }
    }
}
