//! The Python binding: translates between Python's objects and the core's bridge, and does nothing else.
//!
//! No thread of the core enters Python. It leaves deliveries in a [`mailbox::PyMailbox`] and makes its descriptor
//! readable; Python fetches. So the interpreter may end at any moment.

mod agent;
mod batch;
mod bell;
mod classes;
mod convert;
mod ending;
mod mailbox;
mod session;
mod turn;
mod witness;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use kimi_agent::Error;
use kimi_agent::wire::{Content, ContentPart, Event};
use kimi_agent_bridge as bridge;

pyo3::create_exception!(
    kimi_agent._native,
    NativeError,
    pyo3::exceptions::PyException,
    "An error of the core's; `args` are its code, its message and its fields."
);

/// How long agents may take to end by themselves when the interpreter exits, before they are ended.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// The core's error as `(code, message, fields)`.
pub(crate) fn error_parts<'py>(py: Python<'py>, error: &Error) -> PyResult<(&'static str, String, Bound<'py, PyDict>)> {
    let fields = PyDict::new(py);
    for (name, value) in bridge::error_fields(error) {
        fields.set_item(name, convert::json_to_py(py, &value)?)?;
    }
    if let Some(result) = error.result() {
        fields.set_item("result", convert::outcome_to_py(py, result)?)?;
    }
    Ok((error.code(), error.to_string(), fields))
}

/// Returns the content of a prompt or a steer: text, or content parts as plain dicts.
pub(crate) fn content(value: &Bound<'_, PyAny>) -> PyResult<Content> {
    bridge::parse_content(convert::py_to_json(value)?).map_err(|error| raise(value.py(), &error))
}

pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    match error_parts(py, error) {
        Ok((code, message, fields)) => NativeError::new_err((code, message, fields.unbind())),
        Err(error) => error,
    }
}

/// Runs a call of Python. A panic becomes an ordinary error: PyO3's `PanicException` passes each `except Exception`.
pub(crate) fn guarded<T>(call: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    ending::stay();
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Python::attach(|py| Err(raise(py, &bridge::panicked(&*panic)))))
}

/// The error for something that a session needs and the system does not have now, such as a descriptor.
pub(crate) fn lacking(py: Python<'_>, what: &str, error: &std::io::Error) -> PyErr {
    let text = format!("can't start the agent: no {what} for it: {error}. Call again when there is one");
    raise(py, &Error::Spawn(text))
}

/// The process that the runtime's threads are in; 0 before there are any.
static HOME: AtomicU32 = AtomicU32::new(0);

/// The process's one runtime, which pyo3-async-runtimes keeps.
pub(crate) fn runtime(py: Python<'_>) -> PyResult<tokio::runtime::Handle> {
    let runtime = bridge::runtime().map_err(|error| raise(py, &error))?;
    // Python's `logging` decides what is shown.
    bridge::install_log(bridge::Naming::Snake);
    bridge::set_log_level(Some(bridge::LogLevel::Debug));
    // Whichever came first stays.
    let _ = HOME.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
    let _ = pyo3_async_runtimes::tokio::init_with_runtime(runtime);
    witness::begin();
    Ok(pyo3_async_runtimes::tokio::get_runtime().handle().clone())
}

/// Lets go of something of the core's; but in a forked child, which has none of the core's threads and all of the
/// locks that they held, nothing of it is touched. The same holds for a program that has closed the runtime's descriptors.
pub(crate) fn leak_if_unusable<T>(kept: &Arc<T>) {
    let home = HOME.load(Ordering::Relaxed);
    if home != 0 && (home != std::process::id() || !witness::is_intact()) {
        std::mem::forget(Arc::clone(kept));
    }
}

/// Closes every session that is open, within bounds. Called at exit.
#[pyfunction]
fn shutdown(py: Python<'_>) -> PyResult<()> {
    crate::guarded(|| {
        ending::begin();
        if HOME.load(Ordering::Relaxed) != 0 && !witness::is_intact() {
            // The runtime would panic. The pipes of the agents are closed, which ends them.
            let _ = writeln!(
                std::io::stderr(),
                "kimi-agent: this program has closed descriptors of kimi-agent, so open sessions were not closed at its exit; \
                 close them before"
            );
        } else if HOME.load(Ordering::Relaxed) != 0 {
            let runtime = pyo3_async_runtimes::tokio::get_runtime();
            py.detach(|| runtime.block_on(bridge::close_all(EXIT_GRACE)));
        };
        Ok(())
    })
}

/// A folder of files that only this user can read.
#[pyclass(frozen, name = "PrivateFolder", module = "kimi_agent._native")]
struct PyPrivateFolder {
    folder: bridge::PrivateFolder,
}

#[pymethods]
impl PyPrivateFolder {
    #[new]
    fn new() -> PyResult<Self> {
        crate::guarded(|| Ok(Self { folder: bridge::PrivateFolder::default() }))
    }

    fn write(&self, py: Python<'_>, name: &str, content: &str) -> PyResult<String> {
        crate::guarded(|| {
            let path = self.folder.write(name, content).map_err(|error| raise(py, &error))?;
            Ok(path.to_string_lossy().into_owned())
        })
    }

    fn remove(&self) -> PyResult<()> {
        crate::guarded(|| {
            self.folder.remove();
            Ok(())
        })
    }
}

/// An image part from a file.
#[pyfunction]
fn image_file(py: Python<'_>, path: std::path::PathBuf) -> PyResult<Bound<'_, PyAny>> {
    crate::guarded(|| content_part(py, py.detach(|| ContentPart::image_file(path))))
}

/// An image part from the bytes of an image file.
#[pyfunction]
fn image_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    crate::guarded(|| content_part(py, py.detach(|| ContentPart::image_bytes(bytes))))
}

/// A part from a file.
#[pyfunction]
fn file_part(py: Python<'_>, path: std::path::PathBuf) -> PyResult<Bound<'_, PyAny>> {
    crate::guarded(|| content_part(py, py.detach(|| ContentPart::file(path))))
}

/// A part from an address, and a text or bytes.
#[pyfunction]
fn resource_part<'py>(
    py: Python<'py>,
    uri: String,
    text: Option<String>,
    data: Option<&[u8]>,
    mime_type: Option<String>,
) -> PyResult<Bound<'py, PyAny>> {
    crate::guarded(|| content_part(py, py.detach(|| bridge::resource_part(uri, text, data, mime_type))))
}

fn content_part(py: Python<'_>, made: Result<ContentPart, Error>) -> PyResult<Bound<'_, PyAny>> {
    let part = made.map_err(|error| raise(py, &error))?;
    convert::event_to_py(py, &Event::ContentPart(part))
}

/// Reads a policy: the name of a preset, a path, or a mapping.
#[pyfunction]
fn read_policy<'py>(py: Python<'py>, given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    crate::guarded(|| {
        let given = convert::py_to_json(given)?;
        let read = py.detach(|| bridge::read_policy(&given)).map_err(|error| raise(py, &error))?;
        convert::json_to_py(py, &read)
    })
}

/// Decides about a tool call by the JSON of a policy that was read.
#[pyfunction]
fn check_policy<'py>(
    py: Python<'py>,
    policy: &str,
    call: &Bound<'py, PyAny>,
    work_dir: std::path::PathBuf,
) -> PyResult<Bound<'py, PyAny>> {
    crate::guarded(|| {
        let call = convert::py_to_json(call)?;
        let verdict = py
            .detach(|| bridge::check_policy(policy, &call, &work_dir, bridge::Naming::Snake))
            .map_err(|error| raise(py, &error))?;
        convert::json_to_py(py, &verdict)
    })
}

/// Checks the names of options, before anything is done with their values.
#[pyfunction]
fn check_names(py: Python<'_>, names: Vec<String>) -> PyResult<()> {
    crate::guarded(|| {
        bridge::check_names(names.iter().map(String::as_str), bridge::Naming::Snake).map_err(|error| raise(py, &error))
    })
}

/// Checks the names of a prompt's options, before anything is done with their values.
#[pyfunction]
fn check_prompt_names(py: Python<'_>, names: Vec<String>) -> PyResult<()> {
    crate::guarded(|| {
        let names = names.iter().map(String::as_str);
        bridge::check_prompt_names(names, bridge::Naming::Snake).map_err(|error| raise(py, &error))
    })
}

/// Checks the names of a batch's options, before anything is done with their values.
#[pyfunction]
fn check_batch_names(py: Python<'_>, names: Vec<String>) -> PyResult<()> {
    crate::guarded(|| {
        let names = names.iter().map(String::as_str);
        bridge::check_batch_names(names, bridge::Naming::Snake).map_err(|error| raise(py, &error))
    })
}

/// The names of the options of a session that are paths of files or directories.
#[pyfunction]
fn path_options() -> PyResult<Vec<&'static str>> {
    crate::guarded(|| Ok(bridge::path_options().collect()))
}

/// Raises the error for an option whose value has no form as JSON.
#[pyfunction]
fn wrong_type(py: Python<'_>, option: &str, got: &str) -> PyResult<()> {
    crate::guarded(|| Err(raise(py, &bridge::wrong_type(option, got, bridge::Naming::Snake))))
}

/// The names of the instrumentation scope and of the metrics.
#[pyfunction]
fn telemetry_names(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    crate::guarded(|| convert::json_to_py(py, &serde_json::from_str(&bridge::telemetry_names()).unwrap_or_default()))
}

/// Whether each message between the core and the agents is logged.
#[pyfunction]
fn set_wire_log(py: Python<'_>, on: bool) -> PyResult<()> {
    crate::guarded(|| {
        py.detach(|| bridge::set_wire_log(on));
        Ok(())
    })
}

/// Text with control and bidirectional characters as escapes.
#[pyfunction]
fn printable(text: &str) -> PyResult<std::borrow::Cow<'_, str>> {
    crate::guarded(|| Ok(kimi_agent::printable(text)))
}

/// Raises if the scripted agent would refuse the script, which is JSON or the path of a file.
#[pyfunction]
fn check_script(py: Python<'_>, script: std::ffi::OsString, is_path: bool) -> PyResult<()> {
    crate::guarded(|| {
        use kimi_agent::testing::Script;
        let script =
            if is_path { Script::File(script.into()) } else { Script::Json(script.to_string_lossy().into_owned()) };
        py.detach(|| script.check()).map_err(|error| raise(py, &error))
    })
}

/// Opens a cassette: returns its path, and whether the test records.
#[pyfunction]
fn open_cassette(
    py: Python<'_>,
    name: std::ffi::OsString,
    mode: Option<&str>,
    default: Option<&str>,
    remedy: Option<&str>,
) -> PyResult<(std::ffi::OsString, bool)> {
    crate::guarded(|| {
        let opened = py.detach(|| bridge::open_cassette(name.as_ref(), mode, default, remedy));
        opened.map(|(path, is_recording)| (path.into_os_string(), is_recording)).map_err(|error| raise(py, &error))
    })
}

/// Is the scripted agent, on this process's stdin and stdout; returns the exit code.
#[pyfunction]
fn run_scripted_agent(py: Python<'_>, argv: Vec<std::ffi::OsString>) -> PyResult<i32> {
    crate::guarded(|| Ok(py.detach(|| kimi_agent::testing::run_scripted_agent(argv))))
}

/// Runs the command `kimi-agent`; returns the exit code.
#[pyfunction]
fn run_command(py: Python<'_>, argv: Vec<std::ffi::OsString>) -> PyResult<i32> {
    crate::guarded(|| Ok(py.detach(|| kimi_agent_bridge::run_command(argv))))
}

/// Refuses an interpreter other than the main one. CPython itself refuses isolated ones; others would share classes with
/// the main interpreter, whose threads and handlers know nothing of them.
fn check_interpreter(py: Python<'_>) -> PyResult<()> {
    // The public module, `concurrent.interpreters`, begins with Python 3.14. Without any of the three there are no others.
    let Ok(interpreters) = py.import("_interpreters").or_else(|_| py.import("_xxsubinterpreters")) else {
        return Ok(());
    };
    if interpreters.call_method0("get_current")?.eq(interpreters.call_method0("get_main")?)? {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "kimi_agent can be used in the main interpreter only: it does not support loading in subinterpreters",
    ))
}

/// Refuses a free-threaded interpreter whose lock cannot be enabled. `gil_used` has it enabled on import, unless the user
/// forbids that. Nothing has been tested without the lock.
fn check_gil(py: Python<'_>) -> PyResult<()> {
    // Before Python 3.13 there is always a lock.
    let Ok(is_enabled) = py.import("sys")?.getattr("_is_gil_enabled") else { return Ok(()) };
    if is_enabled.call0()?.is_truthy()? {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "kimi_agent needs the global interpreter lock (GIL): free-threaded Python enables it on import, but PYTHON_GIL=0 or \
         -X gil=0 forbids that; remove the setting",
    ))
}

#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    check_interpreter(module.py())?;
    check_gil(module.py())?;
    module.add("NativeError", module.py().get_type::<NativeError>())?;
    module.add_class::<mailbox::PyMailbox>()?;
    module.add_class::<agent::PyAgent>()?;
    module.add_class::<batch::PyBatch>()?;
    module.add_class::<session::PySession>()?;
    module.add_class::<turn::PyTurn>()?;
    module.add_class::<PyPrivateFolder>()?;
    module.add_function(wrap_pyfunction!(shutdown, module)?)?;
    module.add_function(wrap_pyfunction!(read_policy, module)?)?;
    module.add_function(wrap_pyfunction!(check_policy, module)?)?;
    module.add_function(wrap_pyfunction!(image_file, module)?)?;
    module.add_function(wrap_pyfunction!(image_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(file_part, module)?)?;
    module.add_function(wrap_pyfunction!(resource_part, module)?)?;
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    module.add_function(wrap_pyfunction!(run_scripted_agent, module)?)?;
    module.add_function(wrap_pyfunction!(check_batch_names, module)?)?;
    module.add_function(wrap_pyfunction!(check_names, module)?)?;
    module.add_function(wrap_pyfunction!(check_prompt_names, module)?)?;
    module.add_function(wrap_pyfunction!(check_script, module)?)?;
    module.add_function(wrap_pyfunction!(open_cassette, module)?)?;
    module.add_function(wrap_pyfunction!(path_options, module)?)?;
    module.add_function(wrap_pyfunction!(wrong_type, module)?)?;
    module.add_function(wrap_pyfunction!(set_wire_log, module)?)?;
    module.add_function(wrap_pyfunction!(telemetry_names, module)?)?;
    module.add_function(wrap_pyfunction!(printable, module)?)?;
    Ok(())
}
