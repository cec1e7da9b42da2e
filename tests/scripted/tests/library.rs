//! The scripted library as the loader sees it: the built `.so`, opened by path, called through its C names.
#![allow(unsafe_code, reason = "calls a C ABI that was looked up by name")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::transmute_copy;
use std::path::PathBuf;

use proxy_kit::abi::EXPORTS;
use scripted::script::CallRecord;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NOW: c_int = 2;

/// The library that cargo built beside this test.
fn library_path() -> PathBuf {
    let mut path = std::env::current_exe().expect("path of the test");
    path.set_file_name("libscripted.so");
    path
}

struct Library(*mut c_void);

impl Library {
    fn open() -> Self {
        let path = CString::new(library_path().into_os_string().into_encoded_bytes())
            .expect("no zero byte");
        // SAFETY: a valid path string; the library's initialisers touch only its own statics.
        let handle = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
        assert!(
            !handle.is_null(),
            "cannot open {}",
            library_path().display()
        );
        Self(handle)
    }

    fn address(&self, name: &str) -> *mut c_void {
        let name = CString::new(name).expect("no zero byte");
        // SAFETY: an open handle and a valid name.
        unsafe { dlsym(self.0, name.as_ptr()) }
    }

    /// The function `name` as a function pointer type `F`.
    fn function<F: Copy>(&self, name: &str) -> F {
        let address = self.address(name);
        assert!(!address.is_null(), "{name} is missing");
        assert_eq!(size_of::<F>(), size_of_val(&address));
        // SAFETY: F is a function pointer type (same size, checked) with the signature of the named export.
        unsafe { transmute_copy(&address) }
    }
}

type Open = extern "C" fn() -> *mut c_void;
type Free = extern "C" fn(*mut c_void);
type AddRule = extern "C" fn(*mut c_void, *const c_char) -> c_int;
type Count = extern "C" fn(*mut c_void, u32) -> u64;
type Calls = extern "C" fn(*mut c_void, *mut CallRecord, u64) -> u64;
type Start = extern "C" fn(
    *mut c_void,
    u32,
    u32,
    *mut c_void,
    c_int,
    *mut c_void,
    c_int,
    *mut c_void,
    c_int,
) -> c_int;
type Progress = extern "C" fn(*mut c_void, u32, u32, *mut bool, *mut bool) -> c_int;
type Stop = extern "C" fn(*mut c_void, u32) -> c_int;

#[test]
fn all_37_names_are_exported() {
    let library = Library::open();
    let missing: Vec<_> = EXPORTS
        .iter()
        .filter(|n| library.address(&format!("neuron{n}")).is_null())
        .collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
}

#[test]
fn the_version_record_is_filled_as_far_as_the_caller_has_room() {
    let version: extern "C" fn(*mut u64, u32) -> u64 =
        Library::open().function("neuronGetVersionInfo");
    for (n, hash, id) in [(56, true, 89), (55, true, 0), (48, true, 0), (47, false, 0)] {
        let mut info = [0_u64; 7];
        version(info.as_mut_ptr(), n);
        assert_eq!(info[..2], [2, 31], "n = {n}");
        assert_eq!((info[4] != 0, info[6]), (hash, id), "n = {n}");
    }
}

#[test]
fn the_three_proxy_calls_answer_from_the_script_and_are_recorded() {
    let library = Library::open();
    let comm = library.function::<Open>("scripted_open")();
    let add: AddRule = library.function("scripted_rule");
    let rule = |text: &CStr| add(comm, text.as_ptr());
    assert_eq!(rule(c"progress 1 -> idle=1 done=0"), 0);
    assert_eq!(rule(c"progress 2 stream=1 -> ret=1206 keep"), 0);
    assert_eq!(rule(c"progress -> ret=1206"), -1);

    let null = std::ptr::null_mut();
    let start: Start = library.function("neuronStartNetworkProxy");
    assert_eq!(start(comm, 1, 7, null, 2, null, 3, null, 4), 0);
    let progress: Progress = library.function("neuronNetworkProxyProgress");
    let tick = || {
        let (mut idle, mut done) = (true, true);
        let ret = progress(comm, 1, 7, &raw mut idle, &raw mut done);
        (ret, idle, done)
    };
    assert_eq!(tick(), (0, true, false));
    assert_eq!(tick(), (1206, true, true));
    assert_eq!(tick(), (0, false, true));
    assert_eq!(
        library.function::<Stop>("neuronStopNetworkProxy")(comm, 1),
        0
    );

    let mut calls = [CallRecord::default(); 8];
    let total = library.function::<Calls>("scripted_calls")(comm, calls.as_mut_ptr(), 8);
    assert_eq!(total, 5);
    let kinds: Vec<u32> = calls[..5].iter().map(|c| c.call).collect();
    assert_eq!(kinds, [0, 1, 1, 1, 2]);
    assert!(calls[..5].windows(2).all(|pair| pair[0].seq < pair[1].seq));
    assert!(
        calls[..5]
            .iter()
            .all(|c| c.stream == 1 && c.tid == calls[0].tid && c.tid != 0)
    );
    assert_eq!(
        (
            calls[0].block,
            calls[0].n_ops,
            calls[0].n_src,
            calls[0].n_dst
        ),
        (7, 2, 3, 4)
    );
    assert_eq!((calls[2].ret, calls[2].idle, calls[2].done), (1206, 1, 1));
    assert_eq!(library.function::<Count>("scripted_count")(comm, 1), 3);
    library.function::<Free>("scripted_free")(comm);
}

#[test]
fn null_arguments_are_refused() {
    let library = Library::open();
    let null = std::ptr::null_mut();
    let comm = library.function::<Open>("scripted_open")();
    let progress: Progress = library.function("neuronNetworkProxyProgress");
    let mut flag = true;
    assert_eq!(progress(null, 0, 0, &raw mut flag, &raw mut flag), 2);
    assert_eq!(progress(comm, 0, 0, std::ptr::null_mut(), &raw mut flag), 2);
    assert_eq!(
        library.function::<Stop>("neuronStopNetworkProxy")(null, 0),
        2
    );
    let init: extern "C" fn(
        *mut *mut c_void,
        c_int,
        *mut c_char,
        c_int,
        *const c_void,
        bool,
    ) -> c_int = library.function("neuronInitComm");
    assert_eq!(
        init(
            std::ptr::null_mut(),
            1,
            std::ptr::null_mut(),
            0,
            null,
            false
        ),
        2
    );
    library.function::<Free>("scripted_free")(comm);
}

/// The last thing a process does on exit is to write out its C streams, after every library's exit hook. The child
/// of the exit test therefore makes its late call from the write function of such a stream.
mod late {
    use super::{Library, Open, Progress, c_char, c_int, c_void};

    #[repr(C)]
    struct StreamFunctions {
        read: *const c_void,
        write: extern "C" fn(*mut c_void, *const c_char, usize) -> isize,
        seek: *const c_void,
        close: *const c_void,
    }

    unsafe extern "C" {
        fn fopencookie(
            cookie: *mut c_void,
            mode: *const c_char,
            functions: StreamFunctions,
        ) -> *mut c_void;
        fn fputc(byte: c_int, stream: *mut c_void) -> c_int;
    }

    struct Cookie {
        comm: *mut c_void,
        progress: Progress,
    }

    extern "C" fn write(cookie: *mut c_void, _: *const c_char, n: usize) -> isize {
        // SAFETY: the cookie is the leaked Cookie of `call_past_exit`.
        let cookie = unsafe { &*cookie.cast::<Cookie>() };
        let (mut idle, mut done) = (true, true);
        (cookie.progress)(cookie.comm, 3, 0, &raw mut idle, &raw mut done);
        isize::try_from(n).unwrap_or(isize::MAX)
    }

    pub(crate) fn call_past_exit() -> ! {
        let library = Library::open();
        let comm = library.function::<Open>("scripted_open")();
        let progress: Progress = library.function("neuronNetworkProxyProgress");
        let cookie = Box::into_raw(Box::new(Cookie { comm, progress }));
        let null = std::ptr::null();
        let functions = StreamFunctions {
            read: null,
            write,
            seek: null,
            close: null,
        };
        // SAFETY: a valid mode; the cookie lives for ever and the write function keeps its contract.
        let stream = unsafe { fopencookie(cookie.cast(), c"w".as_ptr(), functions) };
        assert!(!stream.is_null());
        // SAFETY: an open stream. The byte stays in its buffer until exit.
        unsafe { fputc(c_int::from(b'x'), stream) };
        std::process::exit(0);
    }
}

#[test]
fn calls_after_the_exit_hook_are_reported() {
    if std::env::var_os("SCRIPTED_EXIT_CHILD").is_some() {
        late::call_past_exit();
    }
    let file = std::env::temp_dir().join(format!("scripted-exit-{}", std::process::id()));
    let status = std::process::Command::new(std::env::current_exe().expect("path of the test"))
        .args(["--exact", "calls_after_the_exit_hook_are_reported"])
        .env("SCRIPTED_EXIT_CHILD", "1")
        .env("SCRIPTED_EXIT_FILE", &file)
        .stdout(std::process::Stdio::null())
        .status()
        .expect("the test can start itself");
    let text = std::fs::read_to_string(&file);
    // A leftover would only be of this run; the assertions below speak of what matters.
    drop(std::fs::remove_file(&file));
    assert!(status.success(), "{status}");
    assert_eq!(
        text.expect("the late call was reported"),
        "progress stream=3 after the exit hook\n"
    );
}
