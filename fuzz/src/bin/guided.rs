//! Fuzzing guided by coverage: libFuzzer's own command line, and the target's name in
//! `FRAMEFOLD_FUZZ_TARGET`. `make fuzz` builds it with the flags that it needs.
#![no_main]

use framefold_fuzz::{Folder, Target, check};
use std::cell::OnceCell;
use std::sync::LazyLock;

/// What is fuzzed.
static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FRAMEFOLD_FUZZ_TARGET").unwrap_or_default();
    Target::named(&name).unwrap_or_else(|| {
        eprintln!("FRAMEFOLD_FUZZ_TARGET is '{name}', which is no format");
        std::process::exit(2)
    })
});

thread_local! {
    static FOLDER: OnceCell<Folder> = const { OnceCell::new() };
}

libfuzzer_sys::fuzz_target!(
    init: {
        LazyLock::force(&TARGET);
        // libFuzzer's hook ends the process before a panic can be contained; one that is not
        // contained ends it all the same.
        drop(std::panic::take_hook());
    },
    |data: &[u8]| {
        FOLDER.with(|folder| {
            if folder.get().is_none() {
                match Folder::try_new() {
                    Ok(new) => drop(folder.set(new)),
                    Err(error) => finding(&format!("no folder: {error}")),
                }
            }
            if let Some(Err(found)) = folder.get().map(|folder| check(*TARGET, folder, data)) {
                finding(&found);
            }
        });
    }
);

fn finding(what: &str) {
    eprintln!("finding: {what}");
    std::process::abort();
}
