//! The built `libnccom.so` as the loader sees it: opened by path, its import resolved from this process.
#![allow(unsafe_code, reason = "calls a C ABI that was looked up by name")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::transmute_copy;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use proxy_kit::abi::EXPORTS;

/// The symbol that the library takes from its host.
#[unsafe(no_mangle)]
extern "C" fn nec_inc_semaphore(address: *mut u32, value: u32) {
    // SAFETY: a semaphore of this test.
    let word = unsafe { AtomicU32::from_ptr(address) };
    // Release: nothing is published through it here.
    word.fetch_add(value, Ordering::Release);
}

/// The library that cargo built beside this test.
fn library_path() -> PathBuf {
    let mut path = std::env::current_exe().expect("path of the test");
    path.set_file_name("libnccom.so");
    path
}

struct Library(*mut c_void);

impl Library {
    fn open() -> Self {
        // Keeps the symbol in the executable, from which the library resolves it.
        let provided: extern "C" fn(*mut u32, u32) = nec_inc_semaphore;
        std::hint::black_box(provided);
        let path = CString::new(library_path().into_os_string().into_encoded_bytes())
            .expect("no zero byte");
        // SAFETY: a valid path string; the library has no initialisers.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
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
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
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
        assert_eq!(version(info.as_mut_ptr(), n), 0);
        assert_eq!(info[..4], [2, 31, 24, 0], "n = {n}");
        assert_eq!((info[4] != 0, info[6]), (hash, id), "n = {n}");
    }
    assert_eq!(version(null_mut(), 56), 2);
}

#[test]
fn a_world_of_one_reports_itself() {
    let library = Library::open();
    let mut id = [0_u8; 128];
    let unique_id: extern "C" fn(*mut u8, c_int, *const c_char) -> c_int =
        library.function("neuronGetUniqueId");
    assert_eq!(unique_id(id.as_mut_ptr(), 1, c"test".as_ptr()), 0);
    let init: extern "C" fn(*mut *mut c_void, c_int, *mut u8, c_int, *const c_int, bool) -> c_int =
        library.function("neuronInitComm");
    let (mut comm, device) = (null_mut(), 17);
    assert_eq!(
        init(
            &raw mut comm,
            1,
            id.as_mut_ptr(),
            0,
            &raw const device,
            true
        ),
        0
    );

    let info: extern "C" fn(*mut c_void, *mut i32) -> c_int = library.function("neuronGetCommInfo");
    let mut record = [0x5A_i32; 1376 / 4 + 1];
    assert_eq!(info(comm, record.as_mut_ptr()), 0);
    assert_eq!(
        record[4..8],
        [17, 0, 1, 1],
        "device, rank, ranks, local ranks"
    );
    assert_eq!(record[1376 / 4], 0x5A, "nothing is written past 1376 bytes");

    let peer: extern "C" fn(*mut c_void, c_int, *mut c_int) -> c_int =
        library.function("neuronGetPeerDeviceId");
    let mut found = 0;
    assert_eq!((peer(comm, 0, &raw mut found), found), (0, 17));
    assert_eq!(peer(comm, 1, &raw mut found), 2);
    let with_comm = |name| library.function::<extern "C" fn(*mut c_void) -> c_int>(name)(comm);
    assert_eq!(with_comm("neuronBuildGraphComm"), 0);
    assert_eq!(with_comm("neuronFreeComm"), 0);
    assert_eq!(with_comm("neuronBuildGraphComm"), 2);
}

#[test]
fn memory_registrations_have_keys() {
    type Register = extern "C" fn(
        *mut c_void,
        c_int,
        c_int,
        bool,
        c_int,
        *mut c_void,
        usize,
        c_int,
        *mut *mut c_void,
    ) -> c_int;
    let library = Library::open();
    let register: Register = library.function("neuronNetRegMr");
    let key: extern "C" fn(*mut c_void, *mut u64) -> c_int = library.function("neuronNetGetMrKey");
    let deregister: extern "C" fn(*mut c_void, c_int, c_int, bool, c_int, *mut c_void) -> c_int =
        library.function("neuronNetDeregMr");
    let (mut handle, mut found) = (null_mut(), 0);
    let mut memory = [0_u8; 8];
    assert_eq!(
        register(
            null_mut(),
            0,
            0,
            true,
            0,
            memory.as_mut_ptr().cast(),
            8,
            0,
            &raw mut handle
        ),
        0
    );
    assert_eq!(key(handle, &raw mut found), 0);
    assert_ne!(found, 0);
    assert_eq!(deregister(null_mut(), 0, 0, true, 0, handle), 0);
    assert_eq!(key(handle, &raw mut found), 2);
}

#[test]
fn calls_without_meaning_here_are_sane() {
    let library = Library::open();
    let affinity: extern "C" fn(*mut c_void, *mut c_void, *mut u64, c_int) -> c_int =
        library.function("neuronSetAffinity");
    let mut mask = [0_u64; 16];
    assert_eq!(affinity(null_mut(), null_mut(), null_mut(), 0), 0);
    assert_eq!(affinity(null_mut(), null_mut(), mask.as_mut_ptr(), 0), 0);
    assert!(
        mask.iter().any(|&word| word != 0),
        "the caller's mask was asked for"
    );

    let nic: extern "C" fn(u32, u32, *mut c_int) -> c_int =
        library.function("neuronPreferredNcRidNic");
    let mut preferred = 7;
    assert_eq!((nic(0, 0, &raw mut preferred), preferred), (0, -1));
    let root: extern "C" fn(*const c_char) -> c_int = library.function("neuronInitNet");
    assert_eq!(
        (
            root(c"127.0.0.1:62182".as_ptr()),
            root(c"127.0.0.1".as_ptr())
        ),
        (0, 2)
    );
    let close: extern "C" fn(*mut c_void) -> c_int = library.function("neuronNetCloseListen");
    assert_eq!(close(null_mut()), 2);
}
