//! H34 and H07: what settings accept, who wins, and what is shown.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use proxy_os::affinity::Placement;
use proxy_os::config::{Origin, Settings, SettingsError};
use proxy_os::log::Level;

const CPUS: &str = "NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY";

fn lookup<'a>(variables: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
    move |name| {
        let found = variables.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| OsString::from(value))
    }
}

fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    Settings::from_lookup(lookup(variables))
}

#[test]
fn h34_a_bad_cpu_list_names_variable_token_and_what_is_accepted() {
    for (text, token) in [
        ("3-", "3-"),
        ("a-b", "a-b"),
        ("5-2", "5-2"),
        ("", ""),
        ("0-3,x,8", "x"),
        ("0,,1", ""),
        ("0-3, 8", " 8"),
        ("-1", "-1"),
        ("1-2-3", "1-2-3"),
        ("+1", "+1"),
        ("65536", "65536"),
        ("0-4294967295", "0-4294967295"),
        ("99999999999", "99999999999"),
        ("None", "None"),
    ] {
        let error = read(&[(CPUS, text)]).expect_err(text);
        assert_eq!(error.0[0].token.as_deref(), Some(token), "{text}");
        let error = error.to_string();
        assert!(error.starts_with(&format!("{CPUS}=\"{text}\"")), "{error}");
        assert!(
            error.contains(&format!("bad part \"{token}\"; accepted: CPU numbers")),
            "{error}"
        );
    }
}

#[test]
fn h34_good_cpu_lists_are_read() {
    let settings = read(&[(CPUS, "0-3,8")]).expect("a good list");
    let Placement::Mask { list, strict } = settings.placement() else {
        panic!("a list is a mask")
    };
    assert_eq!(list.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
    assert!(!strict);
    let settings = read(&[
        (CPUS, "40-47,88-95"),
        ("NEURON_RT_PROXY_STRICT_AFFINITY", "1"),
    ]);
    let Placement::Mask { list, strict } = settings.expect("good").placement() else {
        panic!("a list is a mask")
    };
    assert_eq!(
        (list.len(), list.to_string(), strict),
        (16, "40-47,88-95".to_owned(), true)
    );
    assert_eq!(
        read(&[(CPUS, "none")]).expect("accepted").placement(),
        Placement::Untouched
    );
    assert_eq!(
        read(&[]).expect("nothing set").placement(),
        Placement::Inherit
    );
}

#[test]
fn h34_all_bad_values_are_reported_together() {
    let bad = [
        ("NEURON_RT_RANKS_PER_NETWORK_PROXY", "0"),
        ("NEURON_RT_ONE_THREAD_PER_CORE", "maybe"),
        (CPUS, "5-2"),
        ("NEURON_RT_ROOT_COMM_ID", "localhost"),
        ("NEURON_RT_EXEC_TIMEOUT", "2147483648"),
        ("NEURON_RT_LOG_LEVEL", "LOUD"),
    ];
    let error = read(&bad).expect_err("all bad");
    let lines: Vec<_> = error
        .0
        .iter()
        .map(|bad| (bad.name, bad.value.as_str()))
        .collect();
    assert_eq!(lines, bad);
    assert_eq!(error.to_string().lines().count(), bad.len());
    assert!(error.0.iter().all(|bad| !bad.accepted.is_empty()));
}

#[test]
fn h34_a_text_of_the_api_that_is_used_in_another_form_is_warned_of() {
    const NAME: &str = "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS";
    let mut builder = Settings::builder();
    builder.set(NAME, "70").expect("it is accepted");
    let settings = builder.from_lookup(|_| None).expect("good");
    assert_eq!(*settings.async_exec_max_inflight(), 63);
    let warning = format!("{NAME}=70 (API) is too large; 63 is used");
    assert_eq!(settings.warnings(), [warning]);
}

#[test]
fn h34_a_signal_that_cannot_ask_for_a_report_is_refused() {
    let name = "NEURON_RT_PROXY_REPORT_SIGNAL";
    for good in ["0", "1", "10", "15", "64"] {
        assert!(read(&[(name, good)]).is_ok(), "{good}");
    }
    for bad in ["9", "11", "19", "65", "99", "bogus"] {
        let error = read(&[(name, bad)]).expect_err("refused").to_string();
        let parts = [name, bad, "0 (none) or the number of a signal, 1 to 64"];
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn h34_a_value_that_is_no_text_is_refused() {
    let odd = OsString::from_vec(vec![b'h', 0xFF, b':', b'1']);
    let error = Settings::from_lookup(|_| Some(odd.clone())).expect_err("no setting takes it");
    assert_eq!(error.0.len(), Settings::default().effective().len());
}

#[test]
fn h07_the_api_beats_the_environment_which_beats_the_default() {
    const NAME: &str = "NEURON_RT_ONE_THREAD_PER_CORE";
    let dedicated = [(NAME, "1"), ("NEURON_RT_PROXY_SPIN_TICKS", "7")];
    let api = Settings::builder()
        .one_thread_per_core(false)
        .from_lookup(lookup(&dedicated));
    let api = api.expect("good");
    let environment = read(&dedicated).expect("good");
    let default = read(&[]).expect("good");
    for (settings, value, origin) in [
        (&api, false, Origin::Api),
        (&environment, true, Origin::Environment),
        (&default, false, Origin::Default),
    ] {
        assert_eq!(*settings.one_thread_per_core(), value);
        let line = format!("{NAME} = {} ({origin})", u8::from(value));
        assert!(
            settings.to_string().lines().any(|shown| shown == line),
            "{settings}"
        );
    }
    assert_eq!(*api.spin_ticks(), 7);
    assert!(
        api.to_string()
            .contains("NEURON_RT_PROXY_SPIN_TICKS = 7 (environment)"),
        "{api}"
    );
}

#[test]
fn h07_what_the_api_gives_is_not_looked_up() {
    let bad = [("NEURON_RT_EXEC_TIMEOUT", "soon")];
    let timeout = Duration::from_secs(5);
    let settings = Settings::builder()
        .exec_timeout(timeout)
        .from_lookup(lookup(&bad));
    assert_eq!(
        *settings.expect("the bad value is not used").exec_timeout(),
        timeout
    );
}

#[test]
fn h07_a_bad_value_of_the_api_is_an_error_too() {
    let settings = Settings::builder()
        .ranks_per_network_proxy(0)
        .from_lookup(|_| None);
    let error = settings.expect_err("0 ranks");
    assert_eq!(error.0[0].origin, Origin::Api);
    let expected = "NEURON_RT_RANKS_PER_NETWORK_PROXY=\"0\" (API) is not accepted; accepted: a whole number of 1..";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn h07_every_setting_is_shown_with_value_and_origin() {
    let expected = "\
NEURON_RT_RANKS_PER_NETWORK_PROXY = 1 (default)
NEURON_RT_ONE_THREAD_PER_CORE = 0 (default)
NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY = inherited (default)
NEURON_RT_PROXY_STRICT_AFFINITY = 0 (default)
NEURON_RT_DBG_EARLY_COMPLETION = 1 (default)
NEURON_RT_DBG_EARLY_POSTING = 1 (default)
NEURON_RT_DISABLE_EXECUTION_BARRIER = 0 (default)
NEURON_RT_ENABLE_INTERNODE_EXECUTION_BARRIER = 1 (default)
NEURON_RT_DBG_CC_NOP = 0 (default)
NEURON_RT_DBG_CC_CHECK_SIGS = 1 (default)
NEURON_RT_ROOT_COMM_ID = unset (default)
NEURON_RT_EXEC_TIMEOUT = 600 seconds (default)
NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS = 0 (default)
NEURON_RT_DBG_CC_PROXY_HISTOGRAM_CONFIG = unset (default)
NEURON_RT_PROXY_LATENCY_FROM_APPEND = 0 (default)
NEURON_RT_PROXY_TASK_DEADLINE_MS = 0 milliseconds (default)
NEURON_RT_PROXY_STALL_MS = 10000 milliseconds (default)
NEURON_RT_PROXY_FIRST_RECORD_PERCENT = 25 (default)
NEURON_RT_PROXY_SECOND_RECORD_PERCENT = 75 (default)
NEURON_RT_PROXY_REPORT = 0 (default)
NEURON_RT_PROXY_REPORT_SIGNAL = 0 (default)
NEURON_RT_PROXY_REPORT_DIR = unset (default)
NEURON_RT_PROXY_REPORT_EVERY = 0 seconds (default)
NEURON_RT_LOG_LEVEL = WARN (default)
NEURON_RT_PROXY_SPIN_US = 50 microseconds (default)
NEURON_RT_PROXY_BUS_TIMEOUT = 60 seconds (default)
NEURON_RT_PROXY_SPIN_TICKS = 16 (default)
NEURON_RT_PROXY_WAIT_SPINS = 300 (default)
";
    assert_eq!(Settings::default().to_string(), expected);
    assert_eq!(read(&[]).expect("nothing set"), Settings::default());
}

#[test]
fn h07_too_many_requests_in_flight_are_capped_with_a_warning() {
    const NAME: &str = "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS";
    let settings = read(&[(NAME, "64")]).expect("capped");
    assert_eq!(*settings.async_exec_max_inflight(), 63);
    let warning = format!("{NAME}=64 (environment) is too large; 63 is used");
    assert_eq!(settings.warnings(), [warning]);
    assert!(read(&[(NAME, "63")]).expect("good").warnings().is_empty());
}

#[test]
fn h07_log_levels_of_the_runtime_are_all_accepted() {
    for (text, level) in [
        ("ERROR", Level::Error),
        ("WARNING", Level::Warn),
        ("info", Level::Info),
        ("DEBUG", Level::Debug),
        ("TRACE", Level::Debug),
    ] {
        assert_eq!(
            *read(&[("NEURON_RT_LOG_LEVEL", text)])
                .expect(text)
                .log_level(),
            level
        );
    }
}
