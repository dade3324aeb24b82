//! Events for asyncio in the usual way: a Rust future for each, whose end a thread of the runtime reports to the loop.

use std::time::Duration;

use pyo3::prelude::*;

/// Returns an awaitable that ends after some microseconds, as the next event of a busy agent does.
#[pyfunction]
fn next_event(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    pyo3_async_runtimes::tokio::future_into_py(py, async {
        tokio::time::sleep(Duration::from_micros(100)).await;
        Ok("event")
    })
}

/// Calls a function of Python again and again from a thread of the runtime, as a handler for each event would be called.
#[pyfunction]
fn call_for_each_event(function: Py<PyAny>) {
    pyo3_async_runtimes::tokio::get_runtime().spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_micros(100)).await;
            Python::attach(|py| drop(function.call0(py)));
        }
    });
}

#[pymodule]
fn foreign_threads(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(next_event, module)?)?;
    module.add_function(wrap_pyfunction!(call_for_each_event, module)?)
}
