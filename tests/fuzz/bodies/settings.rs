//! Settings out of an environment that may hold anything, bytes that are no text among it: they are read or refused by
//! name and value, and what was read is shown in full.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use proxy_os::config::Settings;

use crate::input::Input;

/// Runs one input; `true` if its settings were accepted.
pub(crate) fn run(data: &[u8]) -> bool {
    let names = names();
    let mut input = Input(data);
    let mut given: BTreeMap<&str, OsString> = BTreeMap::new();
    while !input.is_empty() && given.len() < names.len() {
        let name = input.pick(&names);
        given.insert(name, OsString::from_vec(input.bytes().to_vec()));
    }
    match Settings::from_lookup(|name| given.get(name).cloned()) {
        Ok(settings) => {
            let shown = settings.effective();
            assert_eq!(shown.len(), names.len(), "every setting is shown");
            for effective in shown {
                assert!(
                    !effective.to_string().contains('\n'),
                    "{effective} is one line"
                );
            }
            true
        }
        Err(error) => {
            assert!(!error.0.is_empty(), "a refusal without a reason");
            for bad in &error.0 {
                let value = given.get(bad.name).expect("only what was given is refused");
                assert_eq!(bad.value, value.to_string_lossy(), "{}", bad.name);
                assert!(!bad.accepted.is_empty(), "{}", bad.name);
            }
            false
        }
    }
}

/// The names that settings are looked up by, as an empty environment shows them.
fn names() -> Vec<&'static str> {
    let settings = Settings::from_lookup(|_| None).expect("the defaults are in order");
    settings
        .effective()
        .iter()
        .map(|effective| effective.name)
        .collect()
}
