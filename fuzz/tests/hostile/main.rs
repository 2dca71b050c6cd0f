//! The committed inputs, whole, cut everywhere and changed at random, one test for each target.
//!
//! `FRAMEFOLD_FUZZ_SECONDS` says for how long inputs are changed, for each target, and `FRAMEFOLD_SEED`
//! where chance begins. An input that something is wrong with is left in the folder for temporary
//! files of cargo's target folder.
#![cfg(test)]

mod run;

/// A module of tests for each target.
macro_rules! targets {
    ($($name:ident)*) => {
        $(
            mod $name {
                #[test]
                fn committed_inputs_are_answered() {
                    crate::run::committed(stringify!($name));
                }

                #[test]
                fn files_cut_anywhere_are_refused_or_shorter() {
                    crate::run::cut(stringify!($name));
                }

                #[test]
                fn changed_files_are_answered() {
                    crate::run::changed(stringify!($name));
                }
            }
        )*

        #[test]
        fn each_target_has_its_tests() {
            let names = framefold_fuzz::TARGETS.iter().map(|target| target.name);
            assert_eq!(names.collect::<Vec<_>>(), [$(stringify!($name)),*]);
        }
    };
}

targets! {
    detect npy hdf5 blo seq tvips ser k2is dm frms6 mib mrc empad raw_csr zarr tiff prz spe
    raw
}
