//! `enc_proxy_settings`: the settings of a group, from the environment and from the embedder.
#![allow(unsafe_code, reason = "exported C functions that take addresses")]
#![allow(non_camel_case_types, reason = "types of C")]

use std::ffi::{OsString, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

use proxy_os::Settings;
use proxy_os::config::{Builder, SettingsError};

use crate::arg::{self, Out, OutText};
use crate::call::{self, Failure};
use crate::handle::Kind;
use crate::status::NRT_STATUS;
use crate::table::Table;

/// Settings by the names of their environment variables. What `enc_proxy_settings_set` gives beats the environment, which
/// beats the default. The environment is read once, when the object is made. They act in what is made with them: a group, a global communicator;
/// there their log level is set and what is used in another form than given is warned of, each time.
#[derive(Debug)]
pub struct enc_proxy_settings {
    _opaque: [u8; 0],
}

/// More than a process has groups.
const LIMIT: usize = 256;
pub(crate) static SETTINGS: Table<Object, LIMIT> = Table::new(Kind::Settings);

/// The environment as it was, and what the embedder has set since.
#[derive(Debug)]
pub(crate) struct Object {
    environment: Vec<(&'static str, OsString)>,
    given: Mutex<Builder>,
}

impl Object {
    fn new() -> Self {
        let names = Settings::default();
        let variables = names.effective().into_iter().map(|setting| setting.name);
        let environment = variables.filter_map(|name| Some((name, std::env::var_os(name)?)));
        Self {
            environment: environment.collect(),
            given: Mutex::new(Settings::builder()),
        }
    }

    fn given(&self) -> MutexGuard<'_, Builder> {
        // A builder is whole after every call on it.
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The effective settings.
    pub(crate) fn settings(&self) -> Result<Settings, SettingsError> {
        let builder = self.given().clone();
        builder.from_lookup(|name| {
            let found = self.environment.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.clone())
        })
    }
}

/// The settings of a handle; those of the environment for NULL.
fn effective(handle: *mut enc_proxy_settings) -> Result<Settings, Failure> {
    if handle.is_null() {
        return Ok(Settings::from_lookup(|name| std::env::var_os(name))?);
    }
    Ok(call::other(&SETTINGS, handle)?.settings()?)
}

/// The same for who uses them: their log level acts, and their warnings are logged.
pub(crate) fn applied(handle: *mut enc_proxy_settings) -> Result<Settings, Failure> {
    let settings = effective(handle)?;
    settings.apply();
    Ok(settings)
}

/// Makes settings from the environment as it is now. A bad value there is reported when the settings are used, and not at all if
/// `enc_proxy_settings_set` gives another.
///
/// - `settings`: receives the handle; give it back by `enc_proxy_settings_destroy`.
///
/// Errors: `NRT_INVALID`, `NRT_RESOURCE` (256 are alive). Threads: any.
///
/// # Safety
/// `settings` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_settings_create(
    settings: *mut *mut enc_proxy_settings,
) -> NRT_STATUS {
    call::plain("enc_proxy_settings_create", || {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(settings, "settings") }?;
        out.set(call::handle(&SETTINGS, Object::new())?);
        Ok(())
    })
}

/// Destroys settings. Groups that were acquired with them are not affected.
///
/// Errors: `NRT_INVALID_HANDLE`. Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn enc_proxy_settings_destroy(settings: *mut enc_proxy_settings) -> NRT_STATUS {
    call::destroy(
        "enc_proxy_settings_destroy",
        &SETTINGS,
        settings,
        |_| Ok(()),
    )
}

/// Sets one setting, whatever the environment says.
///
/// - `name`: the variable, such as `NEURON_RT_RANKS_PER_NETWORK_PROXY`.
/// - `value`: as the variable would have it.
///
/// Errors: `ENC_PROXY_SETTING` (no such variable, or the value is not accepted; the text says what is), `NRT_INVALID`, `NRT_INVALID_HANDLE`.
/// Threads: any.
///
/// # Safety
/// Both texts are readable up to their ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_settings_set(
    settings: *mut enc_proxy_settings,
    name: *const c_char,
    value: *const c_char,
) -> NRT_STATUS {
    call::with("enc_proxy_settings_set", &SETTINGS, settings, |settings| {
        // SAFETY: the caller's promise.
        let name = unsafe { arg::text(name, "name") }?;
        // SAFETY: the caller's promise.
        let value = unsafe { arg::text(value, "value") }?;
        settings.given().set(name, value)?;
        Ok(())
    })
}

/// The effective value of one setting, as its variable would have it.
///
/// - `buffer`, `bytes`, `length`: as for `enc_proxy_library_get_path`.
///
/// Errors: `ENC_PROXY_SETTING` (no such variable, or any setting is bad), `ENC_PROXY_TOO_SMALL`, `NRT_INVALID`, `NRT_INVALID_HANDLE`.
/// Threads: any.
///
/// # Safety
/// `name` is readable up to its end, `buffer` writable for `bytes`, `length` writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_settings_get(
    settings: *mut enc_proxy_settings,
    name: *const c_char,
    buffer: *mut c_char,
    bytes: usize,
    length: *mut usize,
) -> NRT_STATUS {
    call::with("enc_proxy_settings_get", &SETTINGS, settings, |settings| {
        // SAFETY: the caller's promise.
        let name = unsafe { arg::text(name, "name") }?;
        // SAFETY: the caller's promise.
        let out = unsafe { OutText::new(buffer, bytes, length) }?;
        let effective = settings.settings()?.effective();
        let found = effective.iter().find(|setting| setting.name == name);
        let found = found.ok_or_else(|| SettingsError::no_such(name))?;
        out.set(&found.value)
    })
}

/// All settings, one line each: variable, effective value, origin (default, environment, API).
///
/// - `settings`: NULL = those of the environment as it is now.
/// - `buffer`, `bytes`, `length`: as for `enc_proxy_library_get_path`.
///
/// Errors: `ENC_PROXY_SETTING`, `ENC_PROXY_TOO_SMALL`, `NRT_INVALID`, `NRT_INVALID_HANDLE`. Threads: any.
///
/// # Safety
/// `buffer` is writable for `bytes`, `length` writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn enc_proxy_settings_dump(
    settings: *mut enc_proxy_settings,
    buffer: *mut c_char,
    bytes: usize,
    length: *mut usize,
) -> NRT_STATUS {
    call::plain("enc_proxy_settings_dump", || {
        // SAFETY: the caller's promise.
        let out = unsafe { OutText::new(buffer, bytes, length) }?;
        out.set(&effective(settings)?.to_string())
    })
}
