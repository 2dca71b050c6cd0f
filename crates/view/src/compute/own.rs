//! Functions of the session as channels.

use super::transform::{self, Plane};
use crate::viewer::Shared;
use crate::{Picture, Transform};
use framefold::core::AxisKind;
use framefold::{Cancel, Error, Result};

/// Has the function computed, and transforms its pictures.
pub(crate) fn answer(
    shared: &Shared,
    (name, buffer): (&str, &str),
    kind: AxisKind,
    transform: Transform,
    cancel: &Cancel,
    emit: &mut dyn FnMut(Picture) -> Result<()>,
) -> Result<()> {
    let own = shared.options.own.as_ref().ok_or_else(|| {
        Error::invalid(format!("there is no function '{name}': the session has brought none along"))
    })?;
    let known = own.describe();
    let function = known.iter().find(|function| function.name == name).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|function| function.name.as_str()).collect();
        Error::invalid(format!("there is no function '{name}'"))
            .with_hint(format!("the session has {}", names.join(", ")))
    })?;
    let buffers = if kind == AxisKind::Nav { &function.nav } else { &function.sig };
    if !buffers.iter().any(|known| known == buffer) {
        return Err(Error::invalid(format!(
            "the function '{name}' has no result '{buffer}' that is a picture here"
        ))
        .with_hint(format!("it has {}", buffers.join(", "))));
    }
    own.run(name, buffer, cancel, &mut |picture| {
        if transform == Transform::None {
            return emit(picture);
        }
        emit(transformed(shared, kind, transform, picture)?)
    })
}

fn transformed(
    shared: &Shared,
    kind: AxisKind,
    transform: Transform,
    picture: Picture,
) -> Result<Picture> {
    let len = picture.shape.iter().product::<usize>().max(1);
    let names = ["value", "y", "x"];
    let name = |given: &str| names.into_iter().find(|name| *name == given).unwrap_or("value");
    let planes = picture.planes.iter().zip(picture.values.chunks(len));
    let planes =
        planes.map(|(n, values)| Plane { name: name(n), values: values.to_vec() }).collect();
    let axes = crate::viewer::axes_of(&shared.dataset, kind);
    let n_axes = picture.shape.len();
    if axes.len() < n_axes {
        return Err(Error::bug("a picture with more axes than the data set"));
    }
    let steps = if n_axes == 1 { vec![picture.stride[1]] } else { picture.stride.to_vec() };
    let of_picture = &axes[axes.len() - n_axes..];
    let done = transform::apply(transform, planes, picture.shape, of_picture, &steps)?;
    let (planes, shape, values, axes) = (done.names, done.shape, done.values, done.axes);
    Ok(Picture { planes, shape, values, axes, stride: [1, 1], ..picture })
}
