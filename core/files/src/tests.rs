//! Tests of private folders and of the sweep.

use tempfile::TempDir;

use super::sweep::{sweep_folder, sweep_in};
use super::*;

#[test]
fn kept_folder_is_not_swept() {
    let parent = tempfile::tempdir().unwrap();
    let mut dir = PrivateDir::new_in(parent.path()).unwrap();
    dir.write("result", b"x").unwrap();
    let path = dir.keep();
    sweep_in(parent.path());
    assert_eq!(names(&path), ["result"]);
}

#[cfg(unix)]
#[test]
fn device_is_not_read() {
    assert!(read_file(Path::new("/dev/zero")).unwrap_err().to_string().contains("it is a device"));
}

#[test]
fn deleted_folder_is_gone_at_once() {
    let parent = tempfile::tempdir().unwrap();
    let dir = PrivateDir::new_in(parent.path()).unwrap();
    for n in 0..2 * REMOVED_AT_ONCE {
        std::fs::create_dir_all(dir.path().join(format!("{n}/a/b"))).unwrap();
    }
    dir.delete();
    assert!(names(parent.path()).is_empty());
}

fn names(parent: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(parent).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Makes the remains of a killed process: all files, and no lock.
fn abandon(mut dir: PrivateDir) -> PathBuf {
    dir.lock = None;
    dir.owner = 0;
    dir.path().to_owned()
}

#[test]
fn sweep_keeps_used_folders_and_removes_others() {
    let parent = TempDir::new().unwrap();
    let mut used = PrivateDir::new_in(parent.path()).unwrap();
    let file = used.write("config.json", b"secret").unwrap();
    let mut left = PrivateDir::new_in(parent.path()).unwrap();
    left.write("config.json", b"secret").unwrap();
    let left = abandon(left);
    assert!(left.join("config.json").exists());
    sweep_in(parent.path());
    assert!(!left.exists());
    assert_eq!(std::fs::read(&file).unwrap(), b"secret");
    drop(used);
    assert_eq!(names(parent.path()), [""; 0]);
}

#[test]
fn sweep_touches_nothing_else() {
    let parent = TempDir::new().unwrap();
    let common = common_in(parent.path());
    assert!(make_common(&common).unwrap());
    for folder in [parent.path(), &common] {
        let other = folder.join("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join(LOCK), "").unwrap();
        // By its name it could be one, but it has no lock, and is not empty.
        let similar = folder.join("kimi-agent-notes");
        std::fs::create_dir(&similar).unwrap();
        std::fs::write(similar.join("notes.txt"), "").unwrap();
        std::fs::write(folder.join("kimi-agent-file"), "").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::{PermissionsExt, symlink};
            symlink(&other, folder.join("kimi-agent-link")).unwrap();
            let open = folder.join("kimi-agent-open");
            std::fs::create_dir(&open).unwrap();
            std::fs::write(open.join(LOCK), "").unwrap();
            std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let all = || [names(parent.path()), names(&common)];
    let before = all();
    sweep_in(parent.path());
    // As it is where the common folder is not ours.
    sweep_folder(parent.path(), None);
    assert_eq!(all(), before);
    for folder in [parent.path(), &common] {
        assert!(folder.join("other").join(LOCK).exists() && folder.join("kimi-agent-notes/notes.txt").exists());
    }
}

/// The common folder is used only if nobody else can look into it or take its place.
#[test]
fn foreign_common_folder_is_not_used() {
    type Take = fn(&Path, &Path);
    let ways: &[Take] = &[
        |common, _| std::fs::write(common, "").unwrap(),
        #[cfg(unix)]
        |common, elsewhere| std::os::unix::fs::symlink(elsewhere, common).unwrap(),
        #[cfg(unix)]
        |common, elsewhere| std::os::unix::fs::symlink(elsewhere.join("missing"), common).unwrap(),
        #[cfg(unix)]
        |common, _| {
            std::fs::create_dir(common).unwrap();
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
            std::fs::set_permissions(common, open).unwrap();
        },
        #[cfg(windows)]
        |common, _| super::windows::create_open_dir(common),
    ];
    for take in ways {
        let (parent, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let common = common_in(parent.path());
        take(&common, elsewhere.path());
        let taken = names(parent.path());
        let left = abandon(PrivateDir::new_in(parent.path()).unwrap());
        assert_eq!(left.parent(), Some(parent.path()));
        let mut used = PrivateDir::new_in(parent.path()).unwrap();
        let file = used.write("config.json", b"secret").unwrap();
        sweep_in(parent.path());
        assert!(!left.exists() && file.exists());
        drop(used);
        assert_eq!((names(parent.path()), names(elsewhere.path())), (taken, vec![]));
    }
}

#[cfg(unix)]
#[test]
fn private_files_are_readable_by_user_only() {
    use std::os::unix::fs::MetadataExt;

    let parent = TempDir::new().unwrap();
    let mut dir = PrivateDir::new_in(parent.path()).unwrap();
    let file = dir.write("config.json", b"secret").unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!((mode(dir.path()), mode(&file), mode(&dir.path().join(LOCK))), (0o700, 0o600, 0o600));
    assert_eq!((dir.path().parent(), mode(&common_in(parent.path()))), (Some(&*common_in(parent.path())), 0o700));
    // A name that is there already is not written to, be it a link that somebody put there.
    assert_eq!(dir.write("config.json", b"more").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn open_private_keeps_content() {
    let parent = TempDir::new().unwrap();
    let path = parent.path().join("journal");
    let mut file = open_private(&path, OpenOptions::new().read(true).write(true)).unwrap();
    file.write_all(b"kept").unwrap();
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&file.metadata().unwrap()) & 0o7777, 0o600);
    #[cfg(windows)]
    super::windows::assert_private(&path);
    drop(open_private(&path, OpenOptions::new().write(true)).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    drop(open_private(&path, OpenOptions::new().write(true).truncate(true)).unwrap());
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    assert_eq!(create_private(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    #[cfg(unix)]
    {
        let pipe = parent.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let error = open_private(&pipe, OpenOptions::new().write(true)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
    let missing = parent.path().join("missing").join("journal");
    let error = open_private(&missing, OpenOptions::new().write(true)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

/// In a folder where others may swap what is in it for something else, a sweep could be led astray.
#[cfg(unix)]
#[test]
fn folder_writable_by_others_is_not_swept() {
    use std::os::unix::fs::PermissionsExt;

    let parent = TempDir::new().unwrap();
    let left = abandon(PrivateDir::new_in(parent.path()).unwrap());
    let allow = |mode| std::fs::set_permissions(parent.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    for mode in [0o777, 0o770, 0o702] {
        allow(mode);
        sweep_in(parent.path());
        assert!(left.exists(), "{mode:o}");
    }
    allow(0o1777);
    sweep_in(parent.path());
    assert!(!left.exists());
}

/// A file or link that already has the folder's name is neither followed nor used.
#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    use std::os::unix::fs::symlink;

    let parent = TempDir::new().unwrap();
    let victim = parent.path().join("victim");
    std::fs::create_dir(&victim).unwrap();
    std::fs::write(victim.join("precious"), "kept").unwrap();
    let mut dir = PrivateDir::new_in(parent.path()).unwrap();
    symlink(victim.join("precious"), dir.path().join("config.json")).unwrap();
    assert_eq!(dir.write("config.json", b"secret").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    symlink(&victim, dir.path().join("folder")).unwrap();
    drop(dir);
    // The same where it is swept away.
    let dir = PrivateDir::new_in(parent.path()).unwrap();
    symlink(&victim, dir.path().join("folder")).unwrap();
    symlink(victim.join("precious"), dir.path().join("file")).unwrap();
    let left = abandon(dir);
    assert!(left.join("file").exists());
    sweep_in(parent.path());
    assert!(!left.exists());
    assert_eq!(names(parent.path()), ["victim"]);
    assert_eq!(std::fs::read_to_string(victim.join("precious")).unwrap(), "kept");
}

/// A lock that is a pipe must not make the sweep wait for a reader, and a link must not be opened.
#[cfg(unix)]
#[test]
fn lock_of_other_type_is_kept() {
    use std::os::unix::fs::{DirBuilderExt, symlink};

    let parent = TempDir::new().unwrap();
    let common = common_in(parent.path());
    assert!(make_common(&common).unwrap());
    for name in ["pipe", "read", "link", "socket"] {
        std::fs::DirBuilder::new().mode(0o700).create(common.join(format!("{PREFIX}{name}"))).unwrap();
    }
    let lock = |name| common.join(format!("{PREFIX}{name}")).join(LOCK);
    let made = std::process::Command::new("mkfifo").args([lock("pipe"), lock("read")]).status().unwrap();
    assert!(made.success());
    let _reader = OpenOptions::new().read(true).write(true).open(lock("read")).unwrap();
    std::fs::write(parent.path().join("target"), "").unwrap();
    symlink(parent.path().join("target"), lock("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(lock("socket")).unwrap();
    let before = names(&common);
    sweep_in(parent.path());
    assert_eq!(names(&common), before);
}

/// A folder that cannot be written to is not left behind, nor is the common one.
#[cfg(unix)]
#[test]
fn unusable_folder_is_removed() {
    let parent = TempDir::new().unwrap();
    let missing = parent.path().join("missing");
    assert_eq!(PrivateDir::new_in(&missing).unwrap_err().kind(), io::ErrorKind::NotFound);
    // The name of a private folder is too long for a path here, and that of the common one is not.
    let limit = libc::PATH_MAX as usize - common_in(Path::new("")).as_os_str().len() - 8;
    let mut deep = parent.path().to_owned();
    while deep.as_os_str().len() + 202 < limit {
        deep.push("d".repeat(200));
        std::fs::create_dir(&deep).unwrap();
    }
    deep.push("d".repeat(limit - deep.as_os_str().len() - 1));
    std::fs::create_dir(&deep).unwrap();
    assert!(PrivateDir::new_in(&deep).is_err());
    assert_eq!(names(&deep), [""; 0]);
}

#[cfg(unix)]
#[test]
fn deep_folder_is_removed_in_background() {
    let parent = TempDir::new().unwrap();
    for sweeps in [false, true] {
        let dir = PrivateDir::new_in(parent.path()).unwrap();
        std::fs::create_dir_all(dir.path().join(["d"; 300].join("/"))).unwrap();
        let common = dir.common.clone().unwrap();
        if sweeps {
            abandon(dir);
            sweep_in(parent.path());
        } else {
            drop(dir);
        }
        let since = std::time::Instant::now();
        while common.exists() {
            assert!(since.elapsed() < std::time::Duration::from_secs(60), "{:?}", names(&common));
            // A process that another test starts holds copies of all locks until it runs its program.
            if sweeps {
                sweep_in(parent.path());
            }
            std::thread::yield_now();
        }
    }
}

/// If the agent puts a link in the place of its private folder, the files of those names behind the link stay.
#[cfg(unix)]
#[test]
fn link_replacing_private_folder_is_not_followed() {
    let parent = TempDir::new().unwrap();
    let victim = parent.path().join("victim");
    std::fs::create_dir(&victim).unwrap();
    let mut dir = PrivateDir::new_in(parent.path()).unwrap();
    dir.write("config.json", b"secret").unwrap();
    std::fs::write(victim.join("config.json"), "kept").unwrap();
    std::fs::rename(dir.path(), parent.path().join("away")).unwrap();
    std::os::unix::fs::symlink(&victim, dir.path()).unwrap();
    drop(dir);
    assert_eq!(names(&victim), ["config.json"]);
    assert_eq!(names(parent.path()), ["away", "victim"]);
}

#[test]
fn folders_can_be_made_and_swept_concurrently() {
    let parent = TempDir::new().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..50 {
                    let mut dir = PrivateDir::new_in(parent.path()).unwrap();
                    let file = dir.write("config.json", b"secret").unwrap();
                    sweep_in(parent.path());
                    assert!(file.exists(), "a folder in use was swept away");
                    if n % 3 == 0 {
                        abandon(dir);
                    }
                }
            });
        }
    });
    sweep_in(parent.path());
    assert_eq!(names(parent.path()), [""; 0]);
}

#[test]
fn output_replaces_regular_files_only() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("out"), folder.path().join("other"));
    write_output(&path, b"one").unwrap();
    write_output(&path, b"two").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"two");
    assert!(write_output(folder.path(), b"x").is_err());
    assert!(write_output(&folder.path().join("no/such"), b"x").is_err());
    #[cfg(unix)]
    {
        std::fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join("link")).unwrap();
        assert!(write_output(&folder.path().join("link"), b"x").unwrap_err().to_string().contains("it is a link"));
        assert_eq!(std::fs::read(&other).unwrap(), b"kept");
        let mode = |mode: u32| -> std::fs::Permissions { std::os::unix::fs::PermissionsExt::from_mode(mode) };
        std::fs::set_permissions(&path, mode(0o6751)).unwrap();
        write_output(&path, b"three").unwrap();
        let written = std::fs::metadata(&path).unwrap().permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&written) & 0o7777, 0o751);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), if cfg!(unix) { 3 } else { 1 });
}

#[cfg(unix)]
#[test]
fn regular_files_are_read_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, "text").unwrap();
    assert_eq!(read_regular(&path, 4).unwrap(), b"text");
    assert!(read_regular(&path, 3).unwrap_err().to_string().contains("too long"));
    std::os::unix::fs::symlink(&path, folder.path().join("link")).unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    for other in [folder.path().join("link"), fifo, folder.path().to_owned(), "/dev/zero".into()] {
        assert!(read_regular(&other, 10).is_err(), "{}", other.display());
    }
}

#[cfg(unix)]
#[test]
fn files_without_end_are_refused() {
    use rustix::fs::{CWD, Mode, mkfifoat};

    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mkfifoat(CWD, &pipe, Mode::RWXU).unwrap();
    for (path, reason) in [
        (folder.path(), "it is a folder"),
        (Path::new("/dev/zero"), "it is a device"),
        (Path::new("/dev/tty"), ""),
        (&pipe, "no program writes to it"),
    ] {
        let error = read_file(path).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
    // A pipe as `<(…)` of a shell makes it.
    let text = "x".repeat(200_000);
    let (reader, mut writer) = io::pipe().unwrap();
    let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
    let written = text.clone();
    let writing = std::thread::spawn(move || writer.write_all(written.as_bytes()).unwrap());
    assert_eq!(read_file(Path::new(&path)).unwrap(), text.as_bytes());
    writing.join().unwrap();
}
