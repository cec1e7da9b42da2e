//! H26-H30: which file is loaded, what is checked, and what is said when it cannot be used.
//!
//! Requirements: H26, H27, H28, H29, H30.
#![allow(unsafe_code, reason = "calls of the library are unsafe")]

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use proxy_checks::stub::Scratch;
use proxy_checks::{child, messages};
use proxy_core::Status;
use proxy_os::log::Level;
use proxy_os::nccom::abi::DeviceInfo;
use proxy_os::nccom::{self, Library, LoadError};

fn load(path: &Path) -> Result<Arc<Library>, LoadError> {
    Library::load(path.as_os_str())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of our own making")
}

#[test]
fn h26_missing_names_are_all_listed() {
    let scratch = Scratch::new();
    let missing = ["neuronStopNetworkProxy", "neuronNetworkProxyProgress"];
    let defines = missing.map(|name| format!("{name}=other_{name}"));
    let stub = scratch.stub("libreal.so", &[&defines[0], &defines[1], "TAG=\"h26\""]);
    let link = scratch.path("libstub.so");
    symlink(&stub.path, &link).expect("a link");
    let error = load(&link).expect_err("two names are missing").to_string();
    for name in missing {
        let line = format!("cannot find symbol \"{name}\" in NCCL. Reason: ");
        let reason = error.split_once(&line).expect(&error).1;
        assert!(
            reason.starts_with(text(&link)),
            "the loader's own text: {error}"
        );
    }
    assert!(
        error.contains(&format!(
            "2 of 37 symbols are missing. Library: {}",
            text(&stub.path)
        )),
        "{error}"
    );
    assert!(error.contains("version 2.31.24.0-h26"), "{error}");
}

#[test]
fn h26_every_single_missing_name_is_found() {
    let scratch = Scratch::new();
    for (index, name) in nccom::abi::NAMES.iter().enumerate() {
        let define = format!("{name}=other_{index}");
        let stub = scratch.stub(&format!("lib{index}.so"), &[&define]);
        let Err(LoadError::MissingSymbols { missing, .. }) = load(&stub.path) else {
            panic!("{name} was not missed");
        };
        assert_eq!(
            missing.iter().map(|one| one.name).collect::<Vec<_>>(),
            [*name]
        );
    }
}

#[test]
fn h26_a_library_without_a_version_is_refused() {
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", &["neuronGetVersionInfo=other"]);
    let error = load(&stub.path).expect_err("no version").to_string();
    let expected = "Get Version Info API is not implemented by aws-neuronx-collectives.";
    assert!(error.starts_with(expected), "{error}");
    assert!(error.contains(text(&stub.path)), "{error}");
}

#[test]
fn h27_each_way_to_name_a_file_loads_exactly_that_file() {
    let (bare, relative, absolute) = (Scratch::new(), Scratch::new(), Scratch::new());
    for (scratch, tag) in [
        (&bare, "bare"),
        (&relative, "relative"),
        (&absolute, "absolute"),
    ] {
        scratch.stub("libstub.so", &[&format!("TAG=\"{tag}\"")]);
        // None of these may be taken when the plain name is there.
        scratch.stub("libstub.so.1", &["TAG=\"numbered\""]);
    }
    let path = absolute.path("libstub.so");
    std::fs::write(relative.path("absolute"), text(&path)).expect("a file");
    child::run(
        "child_that_loads_by_three_names",
        &relative.path(""),
        &bare.path(""),
    );
}

#[test]
fn child_that_loads_by_three_names() {
    if !child::is("child_that_loads_by_three_names") {
        return;
    }
    let absolute = std::fs::read_to_string("absolute").expect("the parent's file");
    let here = std::env::current_dir().expect("a directory");
    let there = std::env::var_os("LD_LIBRARY_PATH").expect("the parent's setting");
    for (name, tag, path) in [
        ("libstub.so", "bare", Path::new(&there).join("libstub.so")),
        ("./libstub.so", "relative", here.join("libstub.so")),
        (&absolute, "absolute", absolute.clone().into()),
    ] {
        let library = nccom::shared(name.as_ref()).expect(tag);
        assert_eq!(library.version().git_hash, tag);
        assert_eq!(library.path(), path);
        let again = nccom::shared(path.as_os_str()).expect(tag);
        assert!(Arc::ptr_eq(&library, &again), "one file, one library");
    }
}

#[test]
fn h27_a_failure_shows_every_string_tried_and_the_loaders_text_for_each() {
    let scratch = Scratch::new();
    let path = scratch.path("libabsent.so");
    for name in [text(&path), "libproxy-checks-absent.so"] {
        let error = Library::load(name.as_ref()).expect_err("there is no such file");
        let LoadError::Open { attempts } = &error else {
            panic!("{error}")
        };
        let tried: Vec<_> = attempts
            .iter()
            .map(|attempt| attempt.name.as_str())
            .collect();
        assert_eq!(tried, [name, &format!("{name}.1")]);
        for attempt in attempts {
            let own = format!("{}: cannot open shared object file", attempt.name);
            assert!(attempt.text.starts_with(&own), "{}", attempt.text);
            assert!(error.to_string().contains(&attempt.text), "{error}");
        }
        assert!(error.to_string().contains("LD_LIBRARY_PATH"), "{error}");
    }
}

#[test]
fn h27_a_broken_file_is_not_passed_over() {
    let scratch = Scratch::new();
    let path = scratch.path("libstub.so");
    std::fs::write(&path, "no library").expect("a file");
    scratch.stub("libstub.so.1", &[]);
    let Err(LoadError::Open { attempts }) = load(&path) else {
        panic!("a text was loaded")
    };
    assert_eq!(attempts.len(), 1);
    let told = "it has 10 bytes, fewer than the 64 of an ELF header";
    assert!(attempts[0].text.contains(told), "{}", attempts[0].text);
}

#[test]
fn h27_names_that_the_loader_takes_for_something_else_are_refused() {
    for name in ["", "lib\0stub.so"] {
        assert!(
            matches!(Library::load(name.as_ref()), Err(LoadError::Open { .. })),
            "{name:?}"
        );
    }
}

#[test]
fn h28_the_numbered_name_is_taken_when_only_it_is_there() {
    messages::collect();
    for dangling in [false, true] {
        let scratch = Scratch::new();
        let stub = scratch.stub("libstub.so.1", &[]);
        let asked = scratch.path("libstub.so");
        if dangling {
            symlink(scratch.path("gone"), &asked).expect("a link");
        }
        let library = load(&asked).expect("the numbered one is good");
        assert_eq!(library.path(), stub.path);
        let said = messages::with(text(&asked));
        let line = format!(
            "\"{0}\" is not there, loaded \"{0}.1\" instead",
            text(&asked)
        );
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].1.starts_with(&line), "{said:?}");
        assert_eq!(said[0].0, Level::Info);
    }
}

#[test]
fn h28_the_numbered_name_is_taken_for_bare_names_too() {
    let scratch = Scratch::new();
    scratch.stub("libstub.so.1", &["TAG=\"numbered\""]);
    let elsewhere = Scratch::new();
    child::run(
        "child_that_loads_the_bare_name",
        &elsewhere.path(""),
        &scratch.path(""),
    );
    symlink(scratch.path("gone"), scratch.path("libstub.so")).expect("a link");
    child::run(
        "child_that_loads_the_bare_name",
        &elsewhere.path(""),
        &scratch.path(""),
    );
}

#[test]
fn child_that_loads_the_bare_name() {
    if !child::is("child_that_loads_the_bare_name") {
        return;
    }
    let library = Library::load("libstub.so".as_ref()).expect("the numbered one is good");
    assert_eq!(library.version().git_hash, "numbered");
}

#[test]
fn h29_a_good_version_is_one_information_and_no_warning() {
    messages::collect();
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", &["TAG=\"h29-good\""]);
    load(&stub.path).expect("the stub loads");
    load(&stub.path).expect("the stub loads");
    let said = messages::with("h29-good");
    assert_eq!(
        said,
        [(Level::Info, "Using CCOM 2.31.24.0-h29-good".to_owned())]
    );
    assert!(messages::with(text(&stub.path)).is_empty());
}

#[test]
fn h29_another_version_is_refused_and_nothing_else_called() {
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", &["COMPAT=99", "TAG=\"0123456789abcdef\""]);
    let error = load(&stub.path).expect_err("another interface").to_string();
    let expected =
        "Incompatible version of aws-neuronx-collectives.  Compatibility id: 99, expected: 89";
    assert!(error.starts_with(expected), "{error}");
    // A hash of 16 bytes has no terminator.
    assert!(
        error.ends_with("version 2.31.24.0-0123456789abcdef"),
        "{error}"
    );
    assert_eq!(stub.log(), ["mapped", "call GetVersionInfo"]);
}

#[test]
fn h29_a_library_that_writes_a_longer_version_record_does_no_harm() {
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", &["FOREIGN_SIZE=128", "TAG=\"long\""]);
    assert_eq!(
        load(&stub.path).expect("the stub loads").version().git_hash,
        "long"
    );
}

#[test]
fn h30_a_failing_initialisation_is_an_error_at_once_with_its_text() {
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", &["STATUS=4242"]);
    let library = load(&stub.path).expect("the stub loads");
    let device = DeviceInfo::standalone(0);
    // SAFETY: the stub looks at none of its arguments.
    let error = unsafe { library.init_global_comm(0, 3, &device, c"127.0.0.1:1", c"h30") };
    let error = error.expect_err("the stub answers 4242");
    assert_eq!(
        (error.name, error.status),
        ("neuronInitGlobalComm", Status(4242))
    );
    let expected = "failed neuronInitGlobalComm request to NCCL: unknown library code 4242";
    assert!(error.to_string().starts_with(expected), "{error}");
    assert!(error.to_string().contains(text(&stub.path)), "{error}");
}

#[test]
fn h30_a_success_without_a_communicator_is_an_error() {
    let scratch = Scratch::new();
    let stub = scratch.stub("libstub.so", &[]);
    let library = load(&stub.path).expect("the stub loads");
    let id = library
        .get_unique_id(3, c"h30")
        .expect("the stub answers 0");
    let device = DeviceInfo::standalone(0);
    // SAFETY: the stub looks at none of its arguments.
    let error =
        unsafe { library.init_comm(3, id, 0, &device, false) }.expect_err("a null communicator");
    assert_eq!(
        (error.name, error.status),
        ("neuronInitComm", Status::INVALID_HANDLE)
    );
}

#[test]
fn h30_the_reason_of_a_failed_load_is_given_to_every_later_call() {
    let scratch = Scratch::new();
    let path = scratch.path("libstub.so");
    let first = nccom::shared(path.as_os_str()).expect_err("there is no such file");
    // Also when the file has come meanwhile: what a process found out stays.
    let stub = scratch.stub("libstub.so", &[]);
    for _ in 0..3 {
        let later = nccom::shared(path.as_os_str()).expect_err("kept");
        assert!(Arc::ptr_eq(&first, &later));
    }
    assert!(stub.log().is_empty());
}
