// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding and checking a driver.
//!
//! A driver that the process already holds is the one used: the application
//! made its contexts there. Otherwise only the name of the installed driver is
//! tried, never a development name, which may be the toolkit's stub.

use super::OLDEST_VERSION;
use super::api::Api;
use super::error::DriverError;
use super::graphs::GraphApi;
use super::status::Status;
use libloading::Library;
use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

#[cfg(unix)]
const LIBRARY: &str = "libcuda.so.1";
#[cfg(windows)]
const LIBRARY: &str = "nvcuda.dll";

/// Where a driver's functions came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A library that the process held already.
    Held(PathBuf),
    /// A library loaded by us.
    Loaded(PathBuf),
    /// A symbol source, with the name that its caller gave it.
    Symbols(String),
}

impl Origin {
    /// The library's path, or the symbol source's name.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Origin::Held(path) | Origin::Loaded(path) => path,
            Origin::Symbols(name) => Path::new(name),
        }
    }
}

/// A driver that was found and is new enough. It stays loaded for ever: other
/// threads may be inside it at any moment.
pub struct Driver {
    api: Api,
    graphs: Result<GraphApi, &'static CStr>,
    origin: Origin,
    version: i32,
    simulated: bool,
    _library: Option<ManuallyDrop<Library>>,
}

impl Driver {
    /// The driver that the process holds, else the installed one.
    ///
    /// # Errors
    /// Where there is none, or it is a stub, too old or incomplete.
    pub fn system() -> Result<Self, DriverError> {
        if let Some(library) = held_library() {
            return Self::from_library(library, LIBRARY.into(), Origin::Held);
        }
        // SAFETY: the library's initialisers are those that every CUDA program
        // on this machine runs.
        unsafe { Self::open(Path::new(LIBRARY)) }
    }

    /// The driver at `path`, or by that name on the library path.
    ///
    /// # Errors
    /// Where there is none, or it is a stub, too old or incomplete.
    ///
    /// # Safety
    /// Loading runs the library's initialisers, and its functions must have
    /// the signatures of the CUDA driver's.
    pub unsafe fn open(path: &Path) -> Result<Self, DriverError> {
        // SAFETY: promised by the caller.
        let opened = unsafe { Library::new(path) };
        let library = opened.map_err(|error| DriverError::NoLibrary {
            asked: path.display().to_string(),
            reason: root_cause(&error),
        })?;
        Self::from_library(library, path.to_owned(), Origin::Loaded)
    }

    /// A driver whose functions `find` gives by name, NULL for those it lacks.
    /// `name` stands for it in messages.
    ///
    /// # Errors
    /// Where it is a stub, too old or incomplete.
    ///
    /// # Safety
    /// Each address is NULL or a function with the signature that the CUDA
    /// driver gives that name, and stays valid for the life of the process.
    pub unsafe fn from_symbols(
        name: &str,
        find: impl FnMut(&CStr) -> *const c_void,
    ) -> Result<Self, DriverError> {
        // SAFETY: promised by the caller.
        unsafe { Self::resolve(find, Origin::Symbols(name.to_owned()), None) }
    }

    fn from_library(
        library: Library,
        asked: PathBuf,
        origin: fn(PathBuf) -> Origin,
    ) -> Result<Self, DriverError> {
        // Never unloaded, not even where it is refused: it may be the
        // application's own.
        let library = ManuallyDrop::new(library);
        let find = |name: &CStr| address(&library, name);
        let path = path_of(find(c"cuDriverGetVersion")).unwrap_or(asked);
        // SAFETY: the library was opened as a CUDA driver, and is never
        // unloaded.
        let mut driver = unsafe { Self::resolve(find, origin(path), None) }?;
        driver._library = Some(library);
        Ok(driver)
    }

    /// # Safety
    /// As [`Self::from_symbols`].
    unsafe fn resolve(
        mut find: impl FnMut(&CStr) -> *const c_void,
        origin: Origin,
        library: Option<ManuallyDrop<Library>>,
    ) -> Result<Self, DriverError> {
        let simulated = !find(c"sim_version").is_null();
        // SAFETY: promised by the caller.
        let resolved = unsafe { Api::resolve(&mut find) };
        // SAFETY: promised by the caller.
        let graphs = unsafe { GraphApi::resolve(find) };
        let api = resolved.map_err(|symbol| DriverError::MissingSymbol {
            origin: origin.path().to_owned(),
            symbol: symbol.to_str().unwrap_or("a required function"),
        })?;
        let mut version: c_int = 0;
        // SAFETY: the pointer is to a live c_int.
        let status = unsafe { (api.driver_get_version)(&raw mut version) };
        let path = || origin.path().to_owned();
        match status {
            Status::SUCCESS if version < OLDEST_VERSION => {
                Err(DriverError::TooOld { origin: path(), found: version })
            }
            Status::SUCCESS => {
                Ok(Self { api, graphs, origin, version, simulated, _library: library })
            }
            Status::ERROR_STUB_LIBRARY => Err(DriverError::Stub { origin: path() }),
            status => Err(DriverError::NoVersion { origin: path(), status }),
        }
    }

    /// The entry points.
    #[must_use]
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The entry points for graphs.
    ///
    /// # Errors
    /// The name of the first one that the driver lacks.
    pub fn graphs(&self) -> Result<&GraphApi, &'static CStr> {
        self.graphs.as_ref().map_err(|missing| *missing)
    }

    /// Where they came from.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The CUDA version that the driver supports: 1000 * major + 10 * minor.
    #[must_use]
    pub fn version(&self) -> i32 {
        self.version
    }

    /// Whether this is metrale's simulated driver, not a GPU's.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.simulated
    }

    /// How many devices there are, at least one.
    ///
    /// # Errors
    /// [`DriverError::NoDevice`] where there is none, or where the application
    /// has not called `cuInit` (which is never called here).
    pub fn device_count(&self) -> Result<u32, DriverError> {
        let mut count: c_int = 0;
        // SAFETY: the pointer is to a live c_int.
        let status = unsafe { (self.api.device_get_count)(&raw mut count) };
        let no_device =
            |status| DriverError::NoDevice { origin: self.origin.path().to_owned(), status };
        status.ok().map_err(no_device)?;
        match u32::try_from(count) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(no_device(Status::ERROR_NO_DEVICE)),
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("origin", &self.origin)
            .field("version", &self.version)
            .field("simulated", &self.simulated)
            .finish_non_exhaustive()
    }
}

/// The loader's own words, which libloading keeps below its own.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

fn address(library: &Library, name: &CStr) -> *const c_void {
    // SAFETY: the symbol is only taken as an address here; what its type is,
    // `Api::resolve` says.
    let symbol = unsafe { library.get::<*const c_void>(name.to_bytes_with_nul()) };
    symbol.map_or(std::ptr::null(), |address| *address)
}

/// A driver that is loaded already, whoever loaded it and under whatever path.
#[cfg(unix)]
fn held_library() -> Option<Library> {
    use libloading::os::unix::{Library as UnixLibrary, RTLD_LAZY, RTLD_LOCAL};
    let if_held = |name: &Path| {
        let flags = RTLD_LAZY | RTLD_LOCAL | libc::RTLD_NOLOAD;
        // SAFETY: NOLOAD only counts another reference to a library that is
        // loaded already; no initialiser runs.
        unsafe { UnixLibrary::open(Some(name), flags) }.ok()
    };
    // By its name; and by path where it was loaded by one and has no such name.
    let library = if_held(Path::new(LIBRARY)).or_else(|| if_held(&held_path()?))?;
    Some(library.into())
}

#[cfg(windows)]
fn held_library() -> Option<Library> {
    libloading::os::windows::Library::open_already_loaded(LIBRARY).ok().map(Into::into)
}

/// The path of a loaded library whose file is named `libcuda.so` with or
/// without a version.
#[cfg(unix)]
fn held_path() -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;

    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid record for the time of the call.
        let name = unsafe { (*info).dlpi_name };
        if name.is_null() {
            return 0;
        }
        // SAFETY: not NULL, and a C string for the time of the call.
        let name = unsafe { CStr::from_ptr(name) };
        let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
        let is_driver = path.file_name().is_some_and(|file| {
            file.as_bytes()
                .strip_prefix(b"libcuda.so")
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
        });
        if !is_driver {
            return 0;
        }
        // SAFETY: `held_path` passes its own live `Option<PathBuf>`.
        unsafe { *found.cast::<Option<PathBuf>>() = Some(path.to_owned()) };
        1
    }

    let mut found: Option<PathBuf> = None;
    // SAFETY: `visit` has the callback's signature and gets the pointer that
    // it expects, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

/// The file that a function was loaded from.
#[cfg(unix)]
fn path_of(function: *const c_void) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: any address may be asked about, and `info` is live.
    let known = unsafe { libc::dladdr(function, &raw mut info) };
    if known == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: not NULL, and owned by a library that is never unloaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
}

#[cfg(windows)]
fn path_of(_function: *const c_void) -> Option<PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    use super::super::{Api, DriverError, Status};
    use super::{Driver, Path};
    use std::ffi::{CStr, c_int, c_void};

    unsafe extern "C" fn version_11_4(version: *mut c_int) -> Status {
        // SAFETY: the caller passes a live c_int.
        unsafe { *version = 11_040 };
        Status::SUCCESS
    }
    unsafe extern "C" fn version_11_3(version: *mut c_int) -> Status {
        // SAFETY: the caller passes a live c_int.
        unsafe { *version = 11_030 };
        Status::SUCCESS
    }
    unsafe extern "C" fn stub(_: *mut c_int) -> Status {
        Status::ERROR_STUB_LIBRARY
    }
    unsafe extern "C" fn unheard_of(_: *mut c_int) -> Status {
        Status(77_777)
    }
    unsafe extern "C" fn no_devices(count: *mut c_int) -> Status {
        // SAFETY: the caller passes a live c_int.
        unsafe { *count = 0 };
        Status::SUCCESS
    }

    type CountFn = unsafe extern "C" fn(*mut c_int) -> Status;

    /// A driver of two functions; the others are never called.
    fn driver(version: CountFn, missing: &CStr) -> Result<Driver, DriverError> {
        let find = |name: &CStr| match name.to_bytes() {
            _ if name == missing => std::ptr::null(),
            b"cuDriverGetVersion" => version as *const c_void,
            b"cuDeviceGetCount" => no_devices as *const c_void,
            _ if Api::REQUIRED.contains(&name) => stub as *const c_void,
            _ => std::ptr::null(),
        };
        // SAFETY: the two functions that are called have their signatures.
        unsafe { Driver::from_symbols("a test", find) }
    }

    #[test]
    fn an_old_but_complete_driver_is_taken_without_the_later_functions() {
        let driver = driver(version_11_4, c"").unwrap();
        assert_eq!(driver.version(), 11_040);
        assert!(driver.api().event_elapsed_time_v2.is_none());
        assert!(!driver.is_simulated());
    }

    #[test]
    fn each_required_function_is_named_when_it_is_missing() {
        for symbol in Api::REQUIRED {
            let Err(DriverError::MissingSymbol { symbol: named, .. }) =
                driver(version_11_4, symbol)
            else {
                panic!("{symbol:?} was not missed");
            };
            assert_eq!(named, symbol.to_str().unwrap());
        }
    }

    #[test]
    fn stubs_old_drivers_and_strange_answers_are_told_apart() {
        assert!(matches!(driver(stub, c""), Err(DriverError::Stub { .. })));
        let old = driver(version_11_3, c"").unwrap_err();
        assert!(old.to_string().contains("CUDA 11.3"), "{old}");
        let strange = driver(unheard_of, c"").unwrap_err();
        assert!(strange.to_string().contains("77777"), "{strange}");
    }

    #[test]
    fn no_device_is_an_error_of_its_own() {
        let error = driver(version_11_4, c"").unwrap().device_count().unwrap_err();
        assert!(matches!(error, DriverError::NoDevice { status: Status::ERROR_NO_DEVICE, .. }));
    }

    #[test]
    fn a_missing_library_says_what_was_asked_for() {
        // SAFETY: nothing is loaded.
        let error = unsafe { Driver::open(Path::new("/nowhere/libcuda.so.1")) }.unwrap_err();
        let DriverError::NoLibrary { asked, reason } = error else { panic!("{error}") };
        assert_eq!(asked, "/nowhere/libcuda.so.1");
        assert!(reason.contains("/nowhere/libcuda.so.1"), "{reason}");
    }
}
