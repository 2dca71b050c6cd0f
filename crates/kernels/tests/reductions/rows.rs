//! What the rows of the table say is so, and what is asked for is looked up there.

use crate::support::parameters;
use framefold_core::{DType, JobMeta, Shape};
use framefold_kernels::{DefaultValue, Parameters, REDUCTIONS, reduction};

#[test]
fn rows_say_what_their_reductions_declare() {
    let job = JobMeta {
        shape: Shape::try_new(&[2, 3], &[4, 5]).unwrap(),
        native_dtype: DType::U16,
        input_dtype: DType::U16,
        roi: None,
    };
    for row in REDUCTIONS {
        let udf = row.build(parameters(row, row.example).unwrap(), &[4, 5]).unwrap();
        assert_eq!(udf.name(), row.name);
        let declared = udf.buffers(&job).unwrap();
        let names: Vec<&str> = declared.iter().map(|decl| decl.name.as_str()).collect();
        assert_eq!(names, row.buffers, "{}", row.name);
        assert!(row.buffers.contains(&row.main_buffer), "{}", row.name);
        assert_eq!(row.example.is_empty(), row.build(Parameters::new(row), &[4, 5]).is_ok());
    }
}

#[test]
fn names_are_used_once_and_defaults_can_be_read() {
    let mut names = vec![];
    for row in REDUCTIONS {
        names.extend([Some(row.name), row.alias].into_iter().flatten());
        let mut own: Vec<&str> = row.parameters.iter().map(|p| p.name).collect();
        own.sort_unstable();
        own.dedup();
        assert_eq!(own.len(), row.parameters.len(), "{}", row.name);
        for parameter in row.parameters {
            if let DefaultValue::Is(text) = parameter.default {
                parameter.kind.parse(text).unwrap();
            }
        }
    }
    let n_names = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), n_names);
}

#[test]
fn what_is_missing_or_unknown_is_named() {
    let masks = reduction("masks").unwrap();
    let error = masks.build(Parameters::new(masks), &[4, 5]).err().unwrap().to_string();
    assert!(error.contains("'masks'") && error.contains("'disk' or 'ring'"), "{error}");
    let error = reduction("com").unwrap().parameter("cyy").unwrap_err().to_string();
    assert!(error.contains("'cyy'") && error.contains("cy, cx"), "{error}");
    let error = reduction("fly").unwrap_err().to_string();
    assert!(error.contains("'fly'") && error.contains("sum_sig"), "{error}");
}
